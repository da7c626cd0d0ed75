"""kubectl's conventions in every command: formats, colour, the user to act as, names in examples, Ctrl-C."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from tests.support.calling import call, invoke
from tests.support.docs.help import EXAMPLES
from tests.support.ui.running import ROOT, TRAINING

from podium.cli.main import COMMANDS
from podium.cli.render.output import Output

CLUSTER = "examples/preemption/cluster.yaml"
SERVERS = {"webhook", "controller", "scheduler"}


def _options(name: str) -> dict[str, click.Parameter]:
    command: Any = importlib.import_module(f"podium.cli.commands.{name}").command
    return {spelling: parameter for parameter in command.params for spelling in parameter.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_o_is_a_format_in_every_command(name: str) -> None:
    """A command with a table has `wide` and colour too."""
    options = _options(name)
    if "-o" in options:
        assert isinstance(options["-o"].type, click.Choice)
        assert "json" in options["-o"].type.choices
        assert "--output-file" in options
        table = "table" in options["-o"].type.choices
        assert table == ("wide" in options["-o"].type.choices) == ("--color" in options)
    else:
        assert name in {*SERVERS, "ui", "completion"}


@pytest.mark.parametrize("line", ["dump -A -o cluster.json.gz", "audit -o jsonpath={.items}"])
def test_another_format_is_refused_with_what_to_use(line: str, tmp_path: Path) -> None:
    done = call(f"podium {line}", tmp_path)
    assert done.code == 2
    assert done.stderr.endswith(
        "To write a file, use --output-file FILE. To select fields, use -o json and jq\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_reads_a_cluster_takes_a_user(name: str) -> None:
    """The servers act as themselves: their rights are those of their service accounts."""
    options = _options(name)
    assert (
        ("--as" in options)
        == ("--as-group" in options)
        == ("--kubeconfig" in options and name not in SERVERS)
    )


WIDE = {
    "admit -f examples/ci/deploy": 3,
    f"whatif -f {CLUSTER} --group research/train": 0,
    f"why group team-ranking/retrain -f {TRAINING}": 0,
    "report -f examples/preemption/records.yaml": 3,
    "explain": 0,
}


@pytest.mark.parametrize(("line", "code"), WIDE.items())
def test_wide_neither_wraps_nor_cuts(line: str, code: int) -> None:
    table, wide = (call(f"podium {line} {flags}", ROOT, COLUMNS="60") for flags in ("", "-o wide"))
    assert table.code == wide.code == code, wide.stderr
    assert "(-o wide shows all)" not in wide.stdout
    assert max(map(len, wide.stdout.splitlines())) > 60 >= max(map(len, table.stdout.splitlines()))


def test_admit_names_the_refused_objects() -> None:
    line = f"podium admit -f examples/admit/gang.yaml --existing {TRAINING} -o name"
    done = call(line, ROOT)
    assert (done.code, done.stdout) == (3, "podgroup.scheduling.k8s.io/contest-entry-2\n")


def test_manifests_are_json_too() -> None:
    done = call("podium manifests crds -o json", ROOT)
    assert {item["kind"] for item in done.json["items"]} == {"CustomResourceDefinition"}


COLOURS = {
    "a pipe": ((), {}, False),
    "a wish": ((), {"FORCE_COLOR": "1"}, True),
    "an empty wish": ((), {"FORCE_COLOR": ""}, False),
    "a wish for none": ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    "a dumb terminal": ((), {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
    "always": (("--color", "always"), {"NO_COLOR": "1"}, True),
    "never": (("--color", "never"), {"FORCE_COLOR": "1"}, False),
}


@pytest.mark.parametrize(("flags", "environ", "coloured"), COLOURS.values(), ids=list(COLOURS))
def test_colour_without_a_terminal(flags: tuple[str, ...], environ: dict[str, str], coloured: bool) -> None:
    plain = {"FORCE_COLOR": "", "NO_COLOR": "", "TERM": "xterm"}
    done = invoke(["audit", "-f", CLUSTER, *flags], ROOT, **(plain | environ))
    assert done.stdout.startswith("\x1b[1m") == coloured


def test_a_file_has_colour_only_with_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not Output(file="report.txt").terminal.colour
    assert Output(file="report.txt", color="always").terminal.colour


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_the_plugin_have_its_name(name: str) -> None:
    code = "import sys; sys.argv[0] = '/usr/bin/kubectl-podium'; from podium.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, name, "--help"], capture_output=True, check=True, text=True
    )
    examples = done.stdout.partition("Examples:")[2]
    assert examples.count("kubectl podium ") >= len(EXAMPLES[name])
    assert "podium " not in examples.replace("kubectl podium ", "")


def test_ctrl_c_while_a_file_is_read_exits_with_130(tmp_path: Path) -> None:
    pipe = tmp_path / "cluster.json"
    os.mkfifo(pipe)
    # A shell that starts tests in the background makes them ignore SIGINT.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from podium.cli.main import main; main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, "audit", "-f", str(pipe)], stderr=subprocess.PIPE)
    with pipe.open("w"):
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (130, b"")
