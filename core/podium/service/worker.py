"""One thread for work that takes longer than the event loop may stand still: decisions, engines, self-checks.

The state of the cluster, and the engine that follows it, have no lock. While the thread works on them, every
coroutine that changes them waits in `idle`. Leases, probes, and requests under way have nothing to wait for,
so a decision that takes a second costs them no more than the interpreter takes to switch threads.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

# How long the interpreter lets the thread compute before the event loop gets its turn. An event that arrives
# meanwhile waits this long, and a request has several: Python's default of 5 ms makes a write 20 ms slower.
_SWITCH_SECONDS = 0.001


class Worker:
    """Runs one piece of work at a time; a context, which ends with the thread."""

    def __init__(self) -> None:
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
        self._busy = True
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
