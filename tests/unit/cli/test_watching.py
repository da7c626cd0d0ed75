"""`podium audit --watch`: its repeated output, failures, and the exit code of Ctrl-C."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.fake import Fake, page, pods, serving, status
from tests.support.shell import run

from podium.cli.live import PAUSE_SECONDS, PAUSE_TIMES, repeat
from podium.errors import PodiumError

Read = Callable[[], Awaitable[Any]]


class Rounds:
    """A clock, and a pause that ends the loop after some rounds; a reading takes `seconds`."""

    def __init__(self, number: int, seconds: float) -> None:
        self.left = number
        self.seconds = seconds
        self.now = 0.0
        self.pauses: list[float] = []

    def reading(self, *answers: str | PodiumError) -> Read:
        """Return a function that returns the answers in turn."""
        rest = iter(answers)

        async def read() -> str:
            self.now += self.seconds
            answer = next(rest)
            if isinstance(answer, PodiumError):
                raise answer
            return answer

        return read

    async def sleep(self, seconds: float) -> None:
        """Record the pause.

        Raises CancelledError after the last round.
        """
        self.pauses.append(seconds)
        self.left -= 1
        if not self.left:
            raise asyncio.CancelledError


async def _repeat(rounds: Rounds, *answers: str | PodiumError) -> list[Any]:
    shown: list[Any] = []
    with pytest.raises(asyncio.CancelledError):
        await repeat(rounds.reading(*answers), shown.append, rounds.sleep, lambda: rounds.now)
    return shown


@pytest.mark.parametrize(("seconds", "pause"), [(0.1, PAUSE_SECONDS), (30.0, 30.0 * PAUSE_TIMES)])
async def test_the_pause_grows_with_the_duration_of_a_reading(seconds: float, pause: float) -> None:
    rounds = Rounds(2, seconds)
    assert await _repeat(rounds, "a", "b") == ["a", "b"]
    assert rounds.pauses == pytest.approx([pause, pause])


async def test_a_later_failure_is_reported_and_the_next_reading_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await _repeat(Rounds(3, 1), "a", PodiumError("connection lost"), "b") == ["a", "b"]
    assert capsys.readouterr().err == "podium: connection lost; reading again soon\n"


async def test_a_failure_of_the_first_reading_ends_the_command() -> None:
    rounds = Rounds(1, 1)
    with pytest.raises(PodiumError, match="no server"):
        await repeat(rounds.reading(PodiumError("no server")), print, rounds.sleep, lambda: 0.0)


@pytest.mark.parametrize("flags", ["-f x.yaml", "--diff a b"])
def test_files_are_not_watched(flags: str, tmp_path: Path) -> None:
    done = run(f"podium audit --watch {flags}", tmp_path)
    assert (done.returncode, "--watch reads a live cluster and excludes -f and --diff" in done.stderr) == (
        2,
        True,
    )


# The command with short pauses.
_PROGRAM = """
from podium.cli import live
from podium.cli.main import main
live.PAUSE_SECONDS, live.PAUSE_TIMES = 0.01, 0
main()
"""
_MISSING = "priorityclass.scheduling.k8s.io/absent\n"
_BAD = {"metadata": {"name": "bad", "namespace": "a"}, "spec": {"priorityClassName": "absent"}}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_report_is_printed_again_when_findings_change(number: int, tmp_path: Path) -> None:
    """Another pod does not print a report, nor does a failed read.

    The exit code is the last report's.
    """
    rest = iter(
        [page("Pod", pods(1, 1)), page("Pod", pods(1, 2)), status(500, "InternalError", "down")],
    )

    async def answer(_: Any) -> Any:
        return next(rest, page("Pod", [*pods(1, 2), _BAD]))

    async with serving(Fake()) as fake:
        fake.answers["/api/v1/pods"] = answer
        given = ("audit", "-A", "--watch", "-o", "name", "--kubeconfig", fake.kubeconfig(tmp_path))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM, *given),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        heard = ""
        async with asyncio.timeout(50):
            while "the report has changed" not in heard:
                line = await process.stderr.readline()
                assert line, heard
                heard += line.decode()
            process.send_signal(number)
            out, err = await process.communicate()
    assert (process.returncode, out.decode()) == (3, _MISSING), heard + err.decode()
    assert "500 InternalError: down; reading again soon" in heard
    assert heard.count("podium: Kubernetes 1.37") == 1
