"""Which keys to look at, when, and by how many workers: the one place where workers get their order.

A storm of changes to one group is one look at it, for a look takes the group as it then is. While a key is
being looked at nobody else takes it, so the writes about one group never race each other; what happens to it
meanwhile makes it due once more. A key that failed comes back, later each time, and holds up no other.
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
from podium.kube.watching import Say

K = TypeVar("K", bound=Hashable)

# Superseded entries that the heap may hold for each one that counts.
_SLACK = 2


class Queue(Generic[K]):
    """Keys and the times at which they are due, in seconds of `clock`."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        sleep: Sleep,
        random: Callable[[], float],
        say: Say,
        waited: Callable[[float], None],
        failed: Callable[[], None],
    ) -> None:
        """`random` gives numbers from 0 up to 1.

        `waited` is told of each key that is begun how many seconds ago it was due; `failed` is called for
        each failure that is a bug. Neither raises.
        """
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._say = say
        self._waited = waited
        self._failed = failed
        # When each waiting key is due, and a number that grows: what is due at one moment goes in turn.
        self._due: dict[K, tuple[float, int]] = {}
        # The same for those that nobody works on, and some entries that are superseded (earlier is better).
        self._heap: list[tuple[tuple[float, int], K]] = []
        self._count = 0
        self._working: set[K] = set()
        self._backoffs: dict[K, Backoff] = {}
        self._news = asyncio.Event()

    @property
    def depth(self) -> int:
        """How many keys are due and not begun."""
        now = self._clock()
        return sum(due <= now for due, _ in self._due.values())

    def add(self, key: K, after: float = 0.0) -> None:
        """Have a key looked at in so many seconds; if it is due earlier than that already, then.

        One that is being looked at right now is looked at again afterwards.
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
        """Have a key that could not be settled looked at again, later each time until it is forgotten.

        `at_least` is how many seconds a server asked to be left alone: the key's own wait comes on top, so
        that all who were refused together do not come back together.
        """
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = self._backoffs[key] = Backoff(self._random)
        self.add(key, at_least + backoff.next())

    def forget(self, key: K) -> None:
        """Note that a key is settled: should it fail again, its waits begin anew."""
        self._backoffs.pop(key, None)

    async def work(self, handle: Callable[[K], Awaitable[None]], workers: int) -> None:
        """Have keys handled as they become due, at most `workers` at once, until cancelled.

        When this ends every handler has ended; keys that were not done are due again. A handler that raises
        PodiumError is said and its key retried. Anything else that it raises is a bug: said with its
        traceback, counted by `failed`, and retried as well, for the other groups are none the worse.
        """
        free = asyncio.Semaphore(workers)

        def end(key: K, task: asyncio.Task[None]) -> None:
            free.release()
            self._end(key, cancelled=task.cancelled())

        async with asyncio.TaskGroup() as tasks:
            while True:
                await free.acquire()
                key = await self._next()
                tasks.create_task(self._handle(key, handle)).add_done_callback(partial(end, key))

    async def _next(self) -> K:
        """Give the key that is due first, as soon as it is."""
        while True:
            first = self._first()
            now = self._clock()
            if first is not None and first[0] <= now:
                key = heapq.heappop(self._heap)[1]
                del self._due[key]
                self._working.add(key)
                self._waited(now - first[0])
                return key
            self._news.clear()
            await self._news_within(None if first is None else first[0] - now)

    def _first(self) -> tuple[float, int] | None:
        """Say when the first key is due that nobody works on; what was superseded leaves the heap."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due:
                return due
            heapq.heappop(self._heap)
        return None

    async def _news_within(self, seconds: float | None) -> None:
        """Wait for a key that is due before all others, no longer than so many seconds."""
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
            self._say("reconcile failed", {"key": str(key), "error": str(error)})
            self.retry(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this key alone
            said = "".join(traceback.format_exception(error))
            self._say("reconcile failed: a bug", {"key": str(key), "error": said})
            self._failed()
            self.retry(key)

    def _end(self, key: K, *, cancelled: bool) -> None:
        """Let go of a key: it was handled, or whoever handled it was cancelled."""
        if cancelled:
            self.retry(key)
        self._working.remove(key)
        if key in self._due:
            self._enter(key)

    def _enter(self, key: K) -> None:
        """Put a waiting key into the heap, and wake who waits if it is the first there now."""
        if len(self._heap) > _SLACK * len(self._due) + _SLACK:
            self._heap = [(due, key) for key, due in self._due.items() if key not in self._working]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (self._due[key], key))
        if self._heap[0][1] == key:
            self._news.set()
