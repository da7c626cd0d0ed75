"""The tools to time a server: its own processor, the load on another one, and its process's accounting.

On the same processor the load would be timed too. The Go programs are built into the user's cache, and Go
caches compiled packages, so a second build takes a second.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from tools.devcluster.controlplane import folders, gobuild

from podium.errors import PodiumError

MODULE = Path(__file__).with_name("golang")
# The processor of the timed server, and that of all other processes.
SERVER, REST = 0, 1
CONNECTIONS = 16


class Target(NamedTuple):
    """A serving webhook: its address, and its process."""

    port: int
    pid: int


class Answers(msgspec.Struct):
    """The load's report of the answers: the number, the failures, and quantiles in seconds."""

    sent: int
    requests: int
    failures: int
    seconds: float
    rate: float
    cpu: float
    quantiles: dict[str, float]
    failure: str = ""


class Timing(NamedTuple):
    """The result of one run: the load's report, and the server's processor seconds for one request."""

    answers: Answers
    cost: float


def programs() -> Path:
    """Build the peer and the load; return their folder.

    Raises PodiumError if a build fails.
    """
    if (os.cpu_count() or 1) < 2:
        raise PodiumError("timing a server needs two processors, one for it and one for the load")
    place = folders.cache(os.environ).parent / "bench"
    place.mkdir(parents=True, exist_ok=True)
    go = gobuild.find_go(MODULE, os.environ, lambda text: print(text, file=sys.stderr))
    argv = [str(go), "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o", f"{place}/", "./..."]
    done = subprocess.run(
        argv,
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PodiumError(f"building {MODULE} failed: {' | '.join(done.stderr.splitlines()[-3:])}")
    return place


@contextlib.contextmanager
def on(processor: int) -> Iterator[None]:
    """Pin processes that the block starts to one processor, also after the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move(pid: int, processor: int) -> None:
    """Pin a running process to one processor."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {processor})


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    # The name, in brackets, may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int, *, peak: bool = False) -> float:
    """Return the resident memory of a process in MiB: the current or the maximum."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:" if peak else "VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def timed(target: Target, review: Path, authority: Path | None, *, seconds: float, rate: float = 0) -> Timing:
    """Put load on a webhook: as much as it serves, or `rate` requests a second at random times.

    Without an authority the connection has no TLS. Raises PodiumError for a wrong answer.
    """
    warm = seconds / 5
    argv = [str(folders.cache(os.environ).parent / "bench" / "load")]
    argv += ["-url", f"{'https' if authority else 'http'}://127.0.0.1:{target.port}/mutate?timeout=3s"]
    argv += ["-ca", str(authority)] if authority else []
    argv += ["-review", str(review), "-connections", str(CONNECTIONS), "-rate", str(rate)]
    argv += ["-seconds", str(seconds), "-warm", str(warm)]
    before = processor_seconds(target.pid)
    with on(REST):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PodiumError(f"no load on port {target.port}: {done.stderr.strip()}")
    answers = msgspec.json.decode(done.stdout, type=Answers)
    if answers.failures:
        raise PodiumError(f"{answers.failures} of {answers.requests} answers were wrong: {answers.failure}")
    spent = processor_seconds(target.pid) - before
    return Timing(answers, spent / answers.sent)
