"""List and watch one resource until cancelled, as client-go's reflector does.

`reflector` interprets the answers; this module decides what to request and when. A request that ends early is
followed by a growing delay, so a failing server is never asked in a tight loop. The delay is skipped if
another kind of request may help: a list instead of a watch, or pages instead of a stream.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

from podium.errors import PodiumError
from podium.kube.backoff import Backoff, Tolerance
from podium.kube.connection import Connection, RefusedError, SilentError, Sleep
from podium.kube.discovery import Served
from podium.kube.listing import missing_permission
from podium.kube.reading import Pager, WatchError
from podium.kube.reflector import EventLogger, ExpiredError, Reflector, list_version
from podium.text import one_line

NOT_YET = "not read yet"

# A server sends a bookmark about once a minute. A connection without data for longer may be dead.
_SILENCE_SECONDS = 90.0
# A random length, as in client-go, so that watches do not all end together.
_WATCH_SECONDS = (300.0, 600.0)
# A server sends a bookmark two seconds before the end of a watch, so this one has a bookmark within two
# seconds.
_BRIEF_SECONDS = 3.0
# A request that lasted this long resets the backoff, whatever ended it.
_STEADY_SECONDS = 2.5
# The longest delay while the server is unreachable: a short one costs the server nothing.
_LONGEST_DIAL_SECONDS = 3.0
# Consecutive useless answers to one kind of request, after which another kind is tried.
_PATIENCE = 5
# The number of refusals within a minute that are normal for a new or a changed custom resource: its storage
# is initialized within seconds, and its watches end when it changes.
_NORMAL, _NORMAL_SECONDS = 8, 60.0
# Lines to process before other tasks may run.
_BATCH = 100


class InformerHooks(NamedTuple):
    """The dependencies of an informer besides the server: time (seconds), randomness (0 up to 1), log.

    `noticed` is called after each line or page, `turned` after the informer failed, recovered or ended its
    first list. `idle` returns when the state may be changed, because no other thread reads it.
    """

    clock: Callable[[], float]
    sleep: Sleep
    random: Callable[[], float]
    log_event: EventLogger
    noticed: Callable[[], None]
    turned: Callable[[], None]
    idle: Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Return without waiting: `idle` for a process in which no other thread reads the state."""


class Informer:
    """Follows one served resource.

    `failure` is the current error between informer and server, or None. `refused` is the server's message if
    it denies access. `last_response` is the time of the server's last answer, on the clock of `world`.
    """

    def __init__(
        self, connection: Connection, served: Served, follower: Reflector, world: InformerHooks
    ) -> None:
        self.served = served
        self.follower = follower
        self.failure: PodiumError | None = None
        self.refused = ""
        self.last_response = world.clock()
        self._connection = connection
        self._path = served.path("")
        self._world = world
        self._backoff = Backoff(world.random)
        self._tolerance = Tolerance(_NORMAL, _NORMAL_SECONDS)
        # The text and the severity of the failure that was logged last.
        self._logged = ("", False)
        self._streams = True
        self._useless = 0
        self._brief = False

    def end_soon(self) -> None:
        """Make the next watch brief, so that the server soon sends a bookmark; call it before `run`."""
        self._brief = True

    @property
    def unread(self) -> str:
        """Return why the kind cannot be read now; empty when readers have its objects, however old."""
        if self.is_denied:
            return missing_permission(self.served, "", "list and watch")
        if self.follower.listed:
            return ""
        return NOT_YET if self.failure is None else str(self.failure)

    @property
    def is_denied(self) -> bool:
        """Return whether the server answers 403 for the resource."""
        return isinstance(self.failure, RefusedError) and self.failure.code == 403

    @property
    def is_unknown(self) -> bool:
        """Return whether the server answers 404 for the resource."""
        return isinstance(self.failure, RefusedError) and self.failure.code == 404

    async def current_version(self) -> int:
        """Return the server's current version of the collection. Raises PodiumError.

        A list without a version is a consistent read, however few objects it is limited to.
        """
        return list_version(await self._connection.get(self._path, limit="1"))

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            had_list, streamed = not self.follower.needs_list, self._streams
            started = self._world.clock()
            error = await self._ask()
            if self._world.clock() - started >= _STEADY_SECONDS:
                self._backoff.reset()
                self._useless = 0
                if error is None:
                    continue
            await self._world.idle()
            if error is not None:
                self._consider(error)
            asks_otherwise = (had_list and self.follower.needs_list) or streamed != self._streams
            pause = 0.0 if asks_otherwise else self._pause(error)
            if error is not None:
                self._fail(error, pause)
            await self._world.sleep(pause)

    async def _ask(self) -> PodiumError | None:
        """List if necessary, and watch. Return the error that ended it, or None if the server ended it."""
        follower = self.follower
        try:
            if not follower.needs_list:
                await self._listen(follower.watch_query())
            elif self._streams:
                await self._listen(follower.stream_query())
            else:
                await self._page(follower.list_query())
                await self._listen(follower.watch_query())
        except PodiumError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug with one object must not end the other informers
            fields = {"resource": self.served.resource, "error": "".join(traceback.format_exception(error))}
            self._world.log_event("watch failed: a bug", fields)
            return WatchError(one_line(f"a bug: {type(error).__name__}: {error}"))
        return None

    async def _page(self, query: dict[str, str]) -> None:
        pager = Pager(self._connection, self._path, query)
        token = ""
        while True:
            body = await pager.page(token)
            await self._world.idle()
            had_list = self.follower.listed
            token = self.follower.take_page(body, _BATCH)
            await self._arrive()
            self._note_response(had_list=had_list)
            if not token:
                return

    async def _listen(self, query: dict[str, str]) -> None:
        shortest, longest = (_BRIEF_SECONDS, _BRIEF_SECONDS) if self._brief else _WATCH_SECONDS
        self._brief = False
        query["timeoutSeconds"] = str(int(shortest + (longest - shortest) * self._world.random()))
        count = 0
        async with aclosing(self._connection.lines(self._path, silence=_SILENCE_SECONDS, **query)) as lines:
            try:
                async for line in lines:
                    await self._world.idle()
                    await self._handle_line(line)
                    count += 1
                    if count % _BATCH == 0:
                        await asyncio.sleep(0)
            except SilentError:
                # A server sends no bookmarks for a resource without any write since the server started.
                if not count or self.follower.needs_list:
                    raise

    async def _handle_line(self, line: bytes) -> None:
        if not line:
            self._admit()
            return
        had_list = self.follower.listed
        self.follower.take_line(line, _BATCH)
        await self._arrive()
        self._note_response(had_list=had_list)

    async def _arrive(self) -> None:
        """Apply the rest of a list to the state, and let other tasks run in between."""
        while self.follower.arriving:
            await asyncio.sleep(0)
            await self._world.idle()
            self.follower.arrive(_BATCH)

    def _consider(self, error: PodiumError) -> None:
        """Choose another kind of request if this one cannot succeed."""
        if isinstance(error, RefusedError) and error.code == 410:
            self.follower.expire()
        if isinstance(error, RefusedError) and error.code in (400, 422) and self.follower.needs_list:
            self._streams = False
        # A server that is only busy sends Retry-After.
        if isinstance(error, WatchError) or (isinstance(error, RefusedError) and not error.retry_after):
            self._useless += 1
        if self._useless >= _PATIENCE:
            self._useless = 0
            if self.follower.needs_list:
                self._streams = False
            else:
                self.follower.expire()

    def _pause(self, error: PodiumError | None) -> float:
        pause = self._backoff.next()
        if isinstance(error, RefusedError):
            return max(pause, error.retry_after)
        return pause if isinstance(error, WatchError | ExpiredError) else min(pause, _LONGEST_DIAL_SECONDS)

    def _fail(self, error: PodiumError, pause: float) -> None:
        normal = _mends_itself(error) and self._tolerance.covers(self._world.clock())
        if (str(error), normal) != self._logged:
            fields = {
                "resource": self.served.resource,
                "reason" if normal else "error": str(error),
                "retry_seconds": round(pause, 1),
            }
            self._world.log_event(
                "watch expired" if isinstance(error, ExpiredError) else "watch failed", fields
            )
        self._logged = str(error), normal
        self.failure = error
        is_refusal = isinstance(error, RefusedError) and error.code in (401, 403)
        self.refused = str(error) if is_refusal else ""
        self._world.turned()

    def _admit(self) -> None:
        """Record that the server has begun to answer."""
        self.last_response = self._world.clock()
        self.refused = ""

    def _note_response(self, *, had_list: bool) -> None:
        self._admit()
        if self.failure is not None:
            self.failure = None
            self._logged = ("", False)
            self._world.log_event("watch resumed", {"resource": self.served.resource})
            self._world.turned()
        elif self.follower.listed != had_list:
            self._world.turned()
        self._world.noticed()


def _mends_itself(error: PodiumError) -> bool:
    """Return whether the server asks to list again (410), or to come back later (429)."""
    return isinstance(error, ExpiredError) or (isinstance(error, RefusedError) and error.code in (410, 429))
