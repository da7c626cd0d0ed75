"""A process as a kubelet and a cgroup see it: whether it runs, its answers of /livez, and its memory.

Other work on the machine may slow the process. The kernel counts how long the threads of a process were
runnable without a processor (schedstat). That time is subtracted: the rest is the process's own.
"""

import contextlib
import http.client
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


@contextlib.contextmanager
def probing(processes: Iterable[Watched]) -> Iterator[None]:
    """Probe every process repeatedly, each on a thread of its own, while the block runs."""
    over = threading.Event()

    def probe(each: Watched) -> None:
        while not over.wait(_INTERVAL_SECONDS) and not each.ended:
            each.ask()

    threads = [
        threading.Thread(target=probe, args=(each,), name=f"probe of {each.name}") for each in processes
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
