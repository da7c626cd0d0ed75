"""One thread for work that takes longer than the event loop may stand still: decisions, engines, self-checks.

The state of the cluster, and the engine that follows it, have no lock. While the thread works on them, every
coroutine that changes them waits in `idle`. Leases, probes, and requests under way have nothing to wait for,
so a decision that takes a second costs them no more than the interpreter takes to switch threads.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

# How long the interpreter lets the thread compute before the event loop gets its turn. An event that arrives
# meanwhile waits this long, and a request has several: Python's default of 5 ms makes a write 20 ms slower.
_SWITCH_SECONDS = 0.001
# Work that takes longer does not end. A decision has a second; the engine of a million pods takes a minute.
STUCK_SECONDS = 300.0


class Worker:
    """Runs one piece of work at a time; a context, which ends with the thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds and never goes back."""
        self._clock = clock
        self._began = 0.0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="worker")
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
        """Whether work is under way, and nothing that it reads may change."""
        return self._busy

    def stuck(self) -> str:
        """Say in a line that the work under way does not end; empty if it may."""
        seconds = self._clock() - self._began if self._busy else 0.0
        return f"the worker's thread has been busy for {seconds:.0f} s" if seconds > STUCK_SECONDS else ""

    async def idle(self) -> None:
        """Return once no work is under way; until the caller awaits again, none begins."""
        while self._busy:
            await self._ended.wait()

    def between(self, read: Callable[[], T]) -> Callable[[], T]:
        """Return a way to read what the thread may be changing: while it works, it gives the last reading."""
        last = read()

        def reading() -> T:
            nonlocal last
            if not self._busy:
                last = read()
            return last

        return reading

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of work that the thread does; raise the error that it raises.

        The caller goes on before any coroutine that waits in `idle`. A thread cannot be interrupted: if the
        caller is cancelled, it stays busy until the work has ended.
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
                # An error that arrives after a cancellation is nobody's: mark it as seen.
                future.exception()
            self._busy = False
            self._ended.set()
