"""`podium migrate` on files: the table, JSON, manifests, refusals. It writes to no server there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.migrate import NATIVE, PODIUM, Object, group, job, pod, reference, workload

from podium.cli.commands.migrate import command
from podium.documents.yamldoc import load_all
from podium.errors import PodiumError


def run(*arguments: str, objects: tuple[Object, ...] = ()) -> Result:
    """Run the command as a shell would, on these objects; a PodiumError reaches the test."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return CliRunner().invoke(command, ["-f", "-", *arguments], input=text)


NO_PODS = {"apiVersion": "v1", "kind": "PodList", "items": []}
MIXED = (
    workload(),
    group("idle", workload="llm"),
    group(),
    pod(owner=reference("Job", "train")),
    job(),
)


def test_the_table_has_moves_and_blocking_pods() -> None:
    done = run("--to", "podium", objects=MIXED)
    assert done.exit_code == 3
    lines = done.stdout.splitlines()
    assert lines[0] == f"2 objects can move to {PODIUM}, 1 in use."
    assert [line for line in lines if line.isupper() and "LIVE PODS" not in line] == [
        "MOVES",
        "IN USE",
        "WHAT TO DO",
    ]
    (used,) = [line for line in lines if line.startswith("PodGroup team-a/train")]
    assert used.split() == ["PodGroup", "team-a/train", "1", "Job", "team-a/train"]
    assert " 1. run the same command with --apply" in lines
    assert "metadata.labels[scheduling.podium.dev/pod-group]" in done.stdout


def test_all_that_moves_is_no_finding() -> None:
    done = run("--to", "native", objects=(group(version=PODIUM), NO_PODS))
    assert done.exit_code == 0
    assert done.stdout.startswith(f"1 object can move to {NATIVE}.")


def test_nothing_to_move_says_so() -> None:
    done = run("--to", "podium", objects=(group(version=PODIUM), NO_PODS))
    assert done.exit_code == 0
    assert done.stdout.startswith(f"No object is left to move to {PODIUM}.")


def test_an_existing_copy_is_not_created_again() -> None:
    """It is not among the manifests either."""
    first = run("--to", "podium", objects=(group(), pod())).stdout
    again = run("--to", "podium", objects=(group(), group(version=PODIUM), pod())).stdout
    assert "create the new groups of the objects in use" in first
    assert "create the new groups of the objects in use" not in again
    assert "run this again" in again


def test_json_has_every_item() -> None:
    report = json.loads(run("--to", "podium", "-o", "json", objects=MIXED).stdout)
    assert (report["kind"], report["target"]) == ("MigrationReport", PODIUM)
    assert {each["object"]["name"]: each["state"] for each in report["items"]} == {
        "llm": "moves",
        "idle": "moves",
        "train": "in use",
    }


def test_manifests_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "out"
    done = run("--to", "podium", "--output-dir", "out", objects=MIXED)
    assert "kubectl create -f out/held" in " ".join(done.stdout.split())
    moved = [*load_all((folder / "moved/team-a.yaml").read_bytes())]
    assert [(each["apiVersion"], each["kind"]) for each in moved] == [
        (PODIUM, "Workload"),
        (PODIUM, "PodGroup"),
    ]
    (held,) = load_all((folder / "held/team-a.yaml").read_bytes())
    assert held["metadata"]["name"] == "train"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((group(),), "Pod: not in the input. It is needed to find the groups in use"),
        (
            ({"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.37.0"}, group(), pod()),
            "a dump does not hold whole objects",
        ),
    ],
    ids=["no pods", "a dump"],
)
def test_input_that_does_not_tell_enough_is_refused(objects: tuple[Object, ...], expected: str) -> None:
    refused = run("--to", "podium", objects=objects)
    assert isinstance(refused.exception, PodiumError)
    assert expected in str(refused.exception)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-f", "-", "--to", "podium", "--apply"], "--apply changes a live cluster"),
        (["--to", "podium", "-l", "team=a"], "-l would hide pods"),
        (["-f", "-"], "Missing option '--to'"),
    ],
)
def test_wrong_usage(arguments: list[str], expected: str) -> None:
    done = CliRunner().invoke(command, arguments, input="")
    assert done.exit_code == 2
    assert expected in done.stderr
