"""One thread for work that would block the event loop too long: decisions, engines, self-checks.

The state of the cluster, and the engine that follows it, have no lock. While the thread works on them, every
coroutine that changes them waits in `idle`. Leases, probes and requests in flight do not wait. A decision of
a second costs them only the interpreter's time to switch threads.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

# How long the thread may compute before the interpreter switches to the event loop. Each event that arrives
# meanwhile waits this long, and a request has several. With Python's default of 5 ms a write takes 20 ms
# longer.
_SWITCH_SECONDS = 0.001
# Longer work counts as stuck. A decision has a second; the engine of a million pods takes a minute.
STUCK_SECONDS = 300.0


class Worker:
    """Runs one piece of work at a time; a context manager that ends with its thread."""

    def __init__(self, executor: Executor, clock: Callable[[], float]) -> None:
        """`executor` has one thread, and ends with this. `clock` returns monotonic seconds."""
        self._clock = clock
        self._began = 0.0
        self._pool = executor
        self._busy = False
        self._ended = asyncio.Event()

    def __enter__(self) -> Self:
        sys.setswitchinterval(_SWITCH_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    @property
    def busy(self) -> bool:
        """Return whether work is running, so that its inputs must not change."""
        return self._busy

    def stuck(self) -> str:
        """Return a line if the running work does not end; otherwise an empty string."""
        seconds = self._clock() - self._began if self._busy else 0.0
        return f"the worker's thread has been busy for {seconds:.0f} s" if seconds > STUCK_SECONDS else ""

    async def idle(self) -> None:
        """Return when no work is running; none begins until the caller awaits again."""
        while self._busy:
            await self._ended.wait()

    def between(self, read: Callable[[], T]) -> Callable[[], T]:
        """Return a function that calls `read`, or returns its last result while the thread works."""
        last = read()

        def reading() -> T:
            nonlocal last
            if not self._busy:
                last = read()
            return last

        return reading

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of work in the thread, or raise its error.

        The caller continues before any coroutine that waits in `idle`. A thread cannot be interrupted: if the
        caller is cancelled, this waits until the work has ended.
        """
        await self.idle()
        self._busy, self._began = True, self._clock()
        self._ended.clear()
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(future)
        finally:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((future,))
            if not future.cancelled():
                # After a cancellation no caller receives the error: mark it as retrieved.
                future.exception()
            self._busy = False
            self._ended.set()
