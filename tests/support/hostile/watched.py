"""A process as a kubelet and a cgroup see it: whether it runs, its answers of /livez, and its memory.

Other work on the machine may slow the process. The kernel counts how long the threads of a process were
runnable without a processor (schedstat). That time is subtracted: the rest is the process's own.

Processor time too depends on the machine, and on the work that shares its caches. An observer reads objects
that have left the caches, which takes ten times as long beside compilers. So a fixed piece of work, which
reads such objects too, is measured beside the processes again and again. Bounds grow with its time.
"""

import contextlib
import functools
import http.client
import random
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.webhooks.running import Running

MIB = 1 << 20
_ADDRESS = "127.0.0.1"
# A kubelet probes every 10 s; an answer that is late for less than this interval may be missed here.
_INTERVAL_SECONDS = 0.3
# Longer than any lease: a process without an answer for this long counts as failed.
_TIMEOUT_SECONDS = 20.0
_RESET_PEAK = "5"
# The pairs of texts that `Speed` reads, a few at a time, and the processor time of these few on a machine of
# usual speed. All of them take more room than a cache has.
_PAIRS, _FEW = 400_000, 2_000
_USUAL_SECONDS = 0.004


class Answer(NamedTuple):
    """An answer of /livez: seconds of the process's own, of wall time, and the status code (0: none)."""

    own: float
    wall: float
    code: int


class Watched:
    """A process, seen from outside."""

    def __init__(self, name: str, running: Running, limit: int) -> None:
        """`limit` is the memory limit of its container in bytes."""
        self.name = name
        self.running = running
        self.limit = limit
        self.answers: list[Answer] = []
        self._longest_before = 0.0
        self._proc = Path(f"/proc/{running.pid}")

    @property
    def ended(self) -> bool:
        return self.running.process.poll() is not None

    @property
    def resident(self) -> int:
        """Return the bytes of memory that it holds now."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """Return the maximum of bytes that it has held since `begin`."""
        return self._status("VmHWM")

    @property
    def longest_callback(self) -> float:
        """Return the longest processor time (seconds) for one event since `begin`, 0 for no longer one."""
        longest = self._longest()
        return longest if longest > self._longest_before else 0.0

    def begin(self) -> None:
        """Reset the measurements."""
        self.answers.clear()
        self._longest_before = self._longest()
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            (self._proc / "clear_refs").write_text(_RESET_PEAK)

    def ask(self) -> None:
        """Ask /livez once and note the answer."""
        if not self.running.metrics_port:
            return
        waited, began = self._waited(), time.monotonic()
        code = 0
        connection = http.client.HTTPConnection(_ADDRESS, self.running.metrics_port, timeout=_TIMEOUT_SECONDS)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/livez")
            code = connection.getresponse().status
        wall = time.monotonic() - began
        self.answers.append(Answer(wall - self._longest_wait(waited), wall, code))

    def kill(self) -> None:
        """Kill it."""
        self.running.process.kill()
        self.running.process.wait()

    def _longest(self) -> float:
        if not self.running.metrics_port:
            return 0.0
        with contextlib.suppress(OSError, http.client.HTTPException):
            for line in self.running.get("/metrics")[1].splitlines():
                name, _, value = line.partition(" ")
                if name == "podium_longest_callback_seconds":
                    return float(value)
        return 0.0

    def _status(self, field: str) -> int:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            for line in (self._proc / "status").read_text().splitlines():
                if line.startswith(f"{field}:"):
                    return int(line.split()[1]) * 1024
        return 0

    def _waited(self) -> dict[str, int]:
        """Return for each thread, the prober's included, how many ns it has waited for a processor."""
        tasks = [*(self._proc / "task").glob("*"), Path(f"/proc/self/task/{threading.get_native_id()}")]
        found = {}
        for task in tasks:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                found[task.name] = int((task / "schedstat").read_text().split()[1])
        return found

    def _longest_wait(self, before: dict[str, int]) -> float:
        after = self._waited()
        return max((after[task] - before.get(task, 0) for task in after), default=0) / 1e9


class Speed:
    """The processor times of a fixed piece of work, like that of a scheduler's observers."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._pairs = _scattered()
        self.measure()

    def measure(self) -> None:
        """Do the work once, on pairs that were not read for long."""
        at = len(self._seconds) * _FEW % _PAIRS
        began = time.thread_time()
        amounts = dict(self._pairs[at : at + _FEW])
        sorted((name, int(amount)) for name, amount in amounts.items())
        self._seconds.append(time.thread_time() - began)

    def slowness(self) -> float:
        """Return how many times as long it took as on a machine of usual speed, at least 1.

        A bound is compared with the longest of many events, so one of the longer measurements counts.
        """
        return max(1.0, sorted(self._seconds)[len(self._seconds) * 9 // 10] / _USUAL_SECONDS)


@functools.cache
def _scattered() -> list[tuple[str, str]]:
    """Return pairs in an order that is not that of their places in memory."""
    pairs = [(f"example.com/{number}", str(number)) for number in range(_PAIRS)]
    random.Random(0).shuffle(pairs)
    return pairs


@contextlib.contextmanager
def probing(processes: Iterable[Watched]) -> Iterator[Speed]:
    """Probe every process repeatedly, each on a thread of its own, while the block runs.

    Yield the speed of the machine meanwhile.
    """
    over, speed = threading.Event(), Speed()

    def probe(each: Watched) -> None:
        while not over.wait(_INTERVAL_SECONDS) and not each.ended:
            each.ask()

    def measure() -> None:
        while not over.wait(_INTERVAL_SECONDS):
            speed.measure()

    threads = [
        threading.Thread(target=measure, name="speed"),
        *(threading.Thread(target=probe, args=(each,), name=f"probe of {each.name}") for each in processes),
    ]
    for thread in threads:
        thread.start()
    try:
        yield speed
    finally:
        over.set()
        for thread in threads:
            thread.join()
