"""`podium scheduler` as a command line: the errors before its first request to a server."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podium.cli.commands.scheduler import command
from podium.cli.main import COMMANDS
from podium.errors import PodiumError

NOWHERE = "--kubeconfig=/dev/null"


def run(*arguments: str) -> Result:
    """Run the command; a PodiumError reaches the test."""
    return CliRunner().invoke(command, arguments, terminal_width=200)


# Arguments, and the text of the usage error.
MISUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a lease without election": (
        ("--no-leader-elect", "--lease=a/b"),
        "--lease has no effect with --no-leader-elect. Drop one of them.",
    ),
    "a lease without a namespace": (("--lease=podium",), "podium is not of the form NAMESPACE/NAME"),
    "a rate of none": (("--evictions-per-minute=0",), "0 is not in the range x>=1"),
    "a rate in words": (("--evictions-per-minute=some",), "'some' is not a valid integer"),
    "a port that is none": (("--metrics-port=70000",), "70000 is not in the range 0<=x<=65535"),
}


@pytest.mark.parametrize(("arguments", "expected"), MISUSED.values(), ids=list(MISUSED))
def test_misuse_is_said_with_exit_code_2(arguments: tuple[str, ...], expected: str) -> None:
    done = run(NOWHERE, *arguments)
    assert done.exit_code == 2
    assert expected in done.output


def test_it_is_among_the_commands() -> None:
    assert COMMANDS["scheduler"].section == "Server"


def test_help_names_the_defaults_and_the_switch() -> None:
    text = " ".join(run("--help").output.split())
    assert "podium-scheduler in the context's namespace" in text
    assert "[default: 9092;" in text
    assert "[default: unlimited]" in text
    assert "preemption: observe" in text


@pytest.mark.parametrize("rate", ["5", "unlimited"])
def test_a_wrong_file_is_a_line_before_a_server_is_asked(rate: str, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(
        "apiVersion: config.podium.dev/v1\nkind: SchedulerConfiguration\npreemption: never\n",
        encoding="utf-8",
    )
    done = run(NOWHERE, f"--config={path}", f"--evictions-per-minute={rate}")
    assert isinstance(done.exception, PodiumError)
    assert str(done.exception).startswith(f"{path}, document 1, line 3: ")
    assert "preemption" in str(done.exception)


def test_a_file_that_is_not_there_is_a_line(tmp_path: Path) -> None:
    done = run(NOWHERE, f"--config={tmp_path / 'missing.yaml'}")
    assert isinstance(done.exception, PodiumError)
    assert "missing.yaml" in str(done.exception)
