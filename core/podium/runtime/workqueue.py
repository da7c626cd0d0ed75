"""A workqueue: which keys to handle next, when, and by how many workers.

Many changes to one group cause one reconcile, because a handler reads the current state. While a key is
handled, no other worker takes it, so writes about one group never race each other. A change in the meantime
makes the key due again. A failed key returns after a growing delay and delays no other key.
"""

import asyncio
import heapq
import traceback
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from podium.errors import PodiumError
from podium.kube.backoff import Backoff
from podium.kube.connection import Sleep
from podium.kube.reflector import EventLogger

K = TypeVar("K", bound=Hashable)

# The number of superseded entries in the heap for each valid one.
_SLACK = 2


class Workqueue(Generic[K]):
    """Keys and the times when they are due, in seconds of `clock`."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        sleep: Sleep,
        random: Callable[[], float],
        log_event: EventLogger,
        waited: Callable[[float], None],
        failed: Callable[[], None],
    ) -> None:
        """`random` returns a number from 0 up to 1.

        For each key that is begun, `waited` receives the seconds since it was due. `failed` is called for
        each failure that is a bug. Neither may raise.
        """
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._log_event = log_event
        self._waited = waited
        self._failed = failed
        # When each waiting key is due, and a growing number, so that keys due at the same time keep their
        # order.
        self._due: dict[K, tuple[float, int]] = {}
        # The same for the keys that no worker has, and some superseded entries.
        self._heap: list[tuple[tuple[float, int], K]] = []
        self._count = 0
        self._working: set[K] = set()
        self._backoffs: dict[K, Backoff] = {}
        self._news = asyncio.Event()

    @property
    def depth(self) -> int:
        """Return the number of keys that are due and not begun."""
        now = self._clock()
        return sum(due <= now for due, _ in self._due.values())

    def add(self, key: K, after: float = 0.0) -> None:
        """Add a key that is due in `after` seconds; the earlier time counts if it is queued already.

        A key that is being handled is handled again afterwards.
        """
        due = self._clock() + after
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._count += 1
        self._due[key] = due, self._count
        if key not in self._working:
            self._enter(key)

    def retry(self, key: K, at_least: float = 0.0) -> None:
        """Add a key that failed, after a delay that grows until the key is forgotten.

        `at_least` is the seconds that a server asked the client to wait. The key's own delay is added, so
        that requests refused together do not return together.
        """
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = self._backoffs[key] = Backoff(self._random)
        self.add(key, at_least + backoff.next())

    def forget(self, key: K) -> None:
        """Reset the delay of a key, because it succeeded."""
        self._backoffs.pop(key, None)

    async def process(self, handle: Callable[[K], Awaitable[None]], workers: int) -> None:
        """Handle keys as they become due, at most `workers` at once, until cancelled.

        When this ends, every handler has ended; unfinished keys are due again. A PodiumError of a handler is
        logged, and its key retried. Any other exception is a bug: it is logged with its traceback, counted by
        `failed`, and retried too, because it does not affect other groups.
        """
        free = asyncio.Semaphore(workers)

        def end(key: K, task: asyncio.Task[None]) -> None:
            free.release()
            self._finish(key, cancelled=task.cancelled())

        async with asyncio.TaskGroup() as tasks:
            while True:
                await free.acquire()
                key = await self._next()
                tasks.create_task(self._handle(key, handle)).add_done_callback(partial(end, key))

    async def _next(self) -> K:
        """Return the next key when it is due."""
        while True:
            first = self._next_due()
            now = self._clock()
            if first is not None and first[0] <= now:
                key = heapq.heappop(self._heap)[1]
                del self._due[key]
                self._working.add(key)
                self._waited(now - first[0])
                return key
            self._news.clear()
            await self._news_within(None if first is None else first[0] - now)

    def _next_due(self) -> tuple[float, int] | None:
        """Return when the first key without a worker is due; remove superseded entries from the heap."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due:
                return due
            heapq.heappop(self._heap)
        return None

    async def _news_within(self, seconds: float | None) -> None:
        """Wait for a key that is due before all others, at most `seconds`."""
        if seconds is None:
            await self._news.wait()
            return
        waits = asyncio.ensure_future(self._news.wait()), asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _handle(self, key: K, handle: Callable[[K], Awaitable[None]]) -> None:
        try:
            await handle(key)
        except PodiumError as error:
            self._log_event("reconcile failed", {"key": str(key), "error": str(error)})
            self.retry(key)
        except Exception as error:  # noqa: BLE001 - any failure concerns this key only
            trace = "".join(traceback.format_exception(error))
            self._log_event("reconcile failed: a bug", {"key": str(key), "error": trace})
            self._failed()
            self.retry(key)

    def _finish(self, key: K, *, cancelled: bool) -> None:
        """Release a key after its handler ended or was cancelled."""
        if cancelled:
            self.retry(key)
        self._working.remove(key)
        if key in self._due:
            self._enter(key)

    def _enter(self, key: K) -> None:
        """Push a waiting key to the heap, and wake the waiting task if the key is now the first."""
        if len(self._heap) > _SLACK * len(self._due) + _SLACK:
            self._heap = [(due, key) for key, due in self._due.items() if key not in self._working]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (self._due[key], key))
        if self._heap[0][1] == key:
            self._news.set()
