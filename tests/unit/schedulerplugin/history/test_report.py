"""`podium report`: the table, JSON, exit codes, and wrong input."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.history import party, plan
from tests.support.render.sample import HOSTILE

from podium.api.records import RECORD_VERSION, Party
from podium.cli.commands.report import SPAN
from podium.cli.main import command

EXAMPLE = Path(__file__).parents[4] / "examples" / "preemption" / "records.yaml"


def run(*args: str | Path) -> Result:
    """Run the command without a terminal that has a width."""
    return CliRunner().invoke(command, ["report", *map(str, args)], env={"COLUMNS": "110"})


def records(folder: Path, *plans: Any, **fields: Any) -> Path:
    """Write a file of one record."""
    path = folder / "records.json"
    record = {"apiVersion": RECORD_VERSION, "kind": "PreemptionRecord"}
    path.write_bytes(msgspec.json.encode({**record, "metadata": {"name": "x"}, "plans": plans, **fields}))
    return path


def test_a_quiet_week(tmp_path: Path) -> None:
    """The exit code is 0, and no list is empty."""
    done = run("-f", records(tmp_path, plan(0, podCount=1)))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:2] == [
        "1 plan from 2025-12-25T00:00:00Z to 2026-01-01T00:00:00Z.",
        "Preemption evicted 1 unit (1 pod) in 1 plan.",
    ]
    assert "FAILED" not in done.stdout
    assert "OBSERVED" not in done.stdout


def test_victims_that_save_their_work(tmp_path: Path) -> None:
    """A workload that does not is named."""
    said: dict[str, Any] = {
        "acceleratorSecondsSaved": 36_000,
        "askedPods": 3,
        "savedPods": 1,
        "waitedMilliseconds": 40_400,
    }
    units = (party("low", saving="Failed"),)
    done = run("-f", records(tmp_path, *(plan(at, podCount=3, units=units, **said) for at in (0, 60))))
    text = " ".join(done.stdout.split())
    assert "20.0 accelerator-hours saved; 6 pods asked to save, 2 did, waited 81 s." in text
    assert "WORKLOADS THAT DID NOT SAVE THEIR WORK TWICE IN A ROW WORKLOAD Pod team-a/low" in text


def test_nothing_at_all(tmp_path: Path) -> None:
    """An empty list means that nothing happened."""
    path = tmp_path / "empty.json"
    path.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    done = run("-f", path)
    assert (done.exit_code, done.stdout.split()[:2]) == (0, ["0", "plans"])


def test_json_and_yaml_are_the_same() -> None:
    as_json, as_yaml = (run("-f", EXAMPLE, "-o", output) for output in ("json", "yaml"))
    assert as_json.exit_code == as_yaml.exit_code == 3
    document = json.loads(as_json.stdout)
    assert yaml.safe_load(as_yaml.stdout) == document
    assert (document["apiVersion"], document["kind"]) == ("cli.podium.dev/v1", "PreemptionReport")
    assert [each["mode"] for each in document["modes"]] == ["Enforced", "Observed"]
    assert document["cycles"] == [
        {
            "workloads": ["Job team-d/batch", "JobSet team-c/sweep"],
            "rounds": 1,
            "last": "2026-11-18T14:31:12Z",
        }
    ]


def test_since(tmp_path: Path) -> None:
    """The period ends with the newest plan of a file, which is from the past."""
    path = records(tmp_path, plan(0), plan(3600), plan(7200))
    counts = [json.loads(run("-f", path, "--since", since, "-o", "json").stdout)["plans"] for since in SINCE]
    assert counts == list(SINCE.values())


SINCE = {"7d": 3, "1h": 2, "59m59s": 1, "1d1h": 3, "99999d": 3}


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("7d", timedelta(days=7)),
        ("1d12h", timedelta(hours=36)),
        ("90m", timedelta(minutes=90)),
        ("0d", timedelta()),
    ],
)
def test_lengths_of_time(text: str, length: timedelta) -> None:
    assert SPAN.convert(text, None, None) == length


@pytest.mark.parametrize("text", ["", "7", "d", "7x", "-1d", "1.5d", "1h1d", "week", "7d ", "9" * 400 + "h"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        SPAN.convert(text, None, None)


def test_names_are_escaped(tmp_path: Path) -> None:
    """No control character of a name reaches the terminal."""
    hostile = Party("Pod", HOSTILE, HOSTILE, owner=None)
    made = plan(0, preemptor=hostile, units=(hostile,), message=HOSTILE, result="Failed")
    printed = run("-f", records(tmp_path, made)).stdout
    assert "\x1b" not in printed
    assert "\u202e" not in printed


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}',
            "no PreemptionRecord in the input",
        ),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}, "plans"', "JSON"),
        (
            f'{{"apiVersion": "{RECORD_VERSION}", "kind": "PreemptionRecord", "plans": [{{"time": 1}}]}}',
            "plans[0].time",
        ),
    ],
)
def test_input_that_is_none(tmp_path: Path, content: str, expected: str) -> None:
    """The error is one line with exit code 1, as a process sees it."""
    path = tmp_path / "input.json"
    path.write_text(content)
    podium = Path(sys.executable).with_name("podium")
    done = subprocess.run(
        [podium, "report", "-f", path], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_other_kinds_are_passed_over_or_refused(tmp_path: Path) -> None:
    path, pod = records(tmp_path, plan(0)), tmp_path / "pod.json"
    pod.write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}')
    assert run("-f", path, "-f", pod).exit_code == 0
    refused = run("-f", path, "-f", pod, "--strict")
    assert "v1 Pod is not a PreemptionRecord" in str(refused.exception)


def test_flags_that_do_not_go_together(tmp_path: Path) -> None:
    done = run("-f", records(tmp_path, plan(0)), "--context", "prod")
    assert done.exit_code == 2


def test_more_than_is_shown_is_counted(tmp_path: Path) -> None:
    many = [
        plan(at, units=(Party("Pod", f"team-{at}", "x"),), preemptor=party("high"), podCount=1)
        for at in range(30)
    ]
    printed = run("-f", records(tmp_path, *many)).stdout
    assert "... and 20 more (-o wide shows all)" in printed
