"""An informer manager: keep one State up to date with a live cluster.

It runs discovery, and one informer for each resource. While the process runs, an API may appear (custom
resources installed later), disappear, or be served in a better version after an upgrade. So discovery is
repeated, and the informers follow its result. Readers need no lock: every change happens on one event loop,
and a reader on that loop finishes without awaiting. A reader on another thread blocks changes through `idle`.
"""

import asyncio
import random as chance
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from math import inf

from podium.api.findings import group_of
from podium.api.groups import NATIVE_GROUP
from podium.api.reads import FOLLOWED, Kind, Reads
from podium.cluster.state import ClusterState, Readable
from podium.errors import PodiumError
from podium.kube.backoff import Backoff, Rate
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.discovery import Discovery, Served, discover, settle
from podium.kube.informer import NOT_YET, Informer, InformerHooks, at_once
from podium.kube.reading import Keep, Undecodable
from podium.kube.reflector import EventLogger, Reflector, whole

NOT_WATCHED = "not watched"

_CHECK_SECONDS = 10.0
# The interval while an expected API group is not served, because it is being installed.
_EAGER_SECONDS = 1.0
# The delay before discovery after the server answers 404 for a resource, so that discovery does not loop.
_SOON_SECONDS = 1.0
# A bug may occur with every object of a cluster. So tracebacks are limited: a burst, then one per interval.
_ERROR_LINES, _ERROR_SECONDS = 20, 60.0
# If access to /readyz is denied or missing, the result of discovery is accepted.
_MAY_NOT_ASK = (401, 403, 404)
# A collection of so many objects is listed faster than a quiet server sends a bookmark.
FEW_OBJECTS = 5000
# How long a watch may take to become current. A bookmark comes within two and a half seconds.
CATCH_UP_SECONDS = 4.0


def _all(served: Served) -> bool:  # noqa: ARG001 - the default accepts everything
    return True


class InformerCache:
    """Some kinds of a live cluster; `run` keeps `state` up to date.

    `discovery` is the settled result of discovery, or None before the first one. `observer_errors` counts the
    exceptions that observers of the state raised.
    """

    def __init__(
        self,
        connection: Connection,
        kinds: Collection[Kind],
        *,
        reads: Reads = FOLLOWED,
        transform: Keep = whole,
        optional: Collection[Kind] = (),
        groups: Collection[str] = (),
        only: Callable[[Served], bool] = _all,
        clock: Callable[[], float] = time.monotonic,
        thread_clock: Callable[[], float] = time.thread_time,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = chance.random,
        idle: Callable[[], Awaitable[None]] = at_once,
        log_event: EventLogger,
    ) -> None:
        """`reads` says how each kind is read. `transform` returns the part of each object to keep in memory.

        One process needs a small part of a large cluster. Kinds in `optional` are not waited for while the
        server denies access to them: the process runs without, and `state.unread` has the reason. `groups`
        are API groups that will be served soon, if they are not yet. `only` selects among the served
        resources of these kinds. `idle` is awaited before each change of the state: it returns when no other
        thread reads the state.
        """
        self.state = ClusterState(
            native_served=False,
            unread={str(kind): NOT_YET for kind in Kind},
            failed=self._observer_failed,
            clock=thread_clock,
        )
        self.discovery: Discovery | None = None
        self._connection = connection
        self._kinds = frozenset(kinds)
        self._reads = reads
        self._optional = frozenset(optional)
        self._groups = frozenset(groups)
        self._only = only
        self._transform = transform
        self._world = InformerHooks(clock, sleep, random, log_event, self._notice, self._turn, idle)
        self._informers: dict[str, tuple[Informer, asyncio.Task[None]]] = {}
        self.observer_errors = 0
        self._error_lines = Rate(_ERROR_LINES, _ERROR_SECONDS)
        self._doubted = asyncio.Event()
        self._missed: frozenset[str] = frozenset()
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def synced(self) -> bool:
        """Return whether every wanted kind that is served has been listed once, or is optional and denied."""
        return bool(self._informers) and all(
            informer.follower.listed for informer in self._awaited().values()
        )

    def waits(self) -> list[str]:
        """Return one line for each resource that `ready` waits for; empty when `synced`."""
        if not self._informers:
            return ["discovery of the API server has not succeeded yet"]
        return [
            f"{name} not listed yet: {informer.unread}"
            for name, informer in self._awaited().items()
            if not informer.follower.listed
        ]

    def denied_resources(self) -> list[str]:
        """Return one line for each resource that the server denies access to now, listed before or not.

        Optional ones are left out.
        """
        return [
            f"{name} cannot be read: {informer.refused}"
            for name, informer in self._awaited().items()
            if informer.refused
        ]

    @property
    def longest_callback(self) -> float:
        """Return the longest processor time (seconds) that the observers of the state took for one change."""
        return self.state.longest_callback

    def ages(self) -> dict[str, float]:
        """Return the seconds since the last answer of the server, by resource (`nodes`)."""
        now = self._world.clock()
        return {name: now - informer.last_response for name, (informer, _) in self._informers.items()}

    def undecodable(self) -> dict[str, list[Undecodable]]:
        """Return the objects that exist and cannot be decoded, by resource; a list may be empty."""
        return {
            name: list(informer.follower.undecodable.values())
            for name, (informer, _) in self._informers.items()
        }

    def undecodable_reads(self) -> dict[str, int]:
        """Return the number of reads of undecodable objects, by resource."""
        return {name: informer.follower.undecodable_reads for name, (informer, _) in self._informers.items()}

    async def ready(self) -> None:
        """Return when every wanted kind has been listed once, or is optional and denied."""
        await self._until(lambda: self.synced)

    async def catch_up(self, kinds: Collection[Kind]) -> None:
        """Return when the state of these kinds is at least as new as this call.

        A watch may lag by any time, and a new leader must not decide on a state older than the last write of
        the former leader. Each watch begins again, from the known version. The version of its collection is
        read from the server, and the watch is current when it has passed that version. A collection of few
        objects is listed instead, as is one that does not become current within CATCH_UP_SECONDS. Until a
        list ends, readers see the old state. Observers receive only the differences.
        """
        targets: dict[str, float] = {}
        for resource, (informer, _) in list(self._informers.items()):
            if informer.served.read.kind not in kinds:
                continue
            if len(informer.follower.known) > FEW_OBJECTS and not informer.follower.needs_list:
                targets[resource] = inf
                informer.end_soon()
                self._restart(resource)
            else:
                self._list_again(resource)
        reaching = asyncio.ensure_future(self._reach(kinds, targets))
        due = asyncio.ensure_future(self._world.sleep(CATCH_UP_SECONDS))
        try:
            await asyncio.wait((reaching, due), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reaching.cancel()
            due.cancel()
        for resource in targets.keys() & self._informers.keys():
            if not self._is_current(resource, targets):
                self._world.log_event("watch is behind, listing again", {"resource": resource})
                self._list_again(resource)
        await self._until(lambda: self._are_current(kinds, {}))

    async def _reach(self, kinds: Collection[Kind], targets: dict[str, float]) -> None:
        """Read the versions that watches have to reach, and return when they have reached them."""
        await asyncio.gather(*(self._read_target(resource, targets) for resource in targets))
        await self._until(lambda: self._are_current(kinds, targets))

    async def _read_target(self, resource: str, targets: dict[str, float]) -> None:
        """Read the current version of a collection; without an answer the target stays infinite."""
        informer, _ = self._informers[resource]
        before = informer.follower.version
        # The cluster's network may fail at this moment as at any other.
        with suppress(PodiumError):
            version = await informer.current_version()
            # A server that is behind what it has told before was restored from a backup.
            if version >= before:
                targets[resource] = version

    def _are_current(self, kinds: Collection[Kind], targets: Mapping[str, float]) -> bool:
        return all(
            self._is_current(resource, targets)
            for resource, informer in self._awaited().items()
            if informer.served.read.kind in kinds
        )

    def _is_current(self, resource: str, targets: Mapping[str, float]) -> bool:
        follower = self._informers[resource][0].follower
        return not follower.needs_list and follower.version >= targets.get(resource, 0)

    def _list_again(self, resource: str) -> None:
        self._informers[resource][0].follower.expire()
        self._restart(resource)

    def _restart(self, resource: str) -> None:
        """End the current request of an informer, and begin a new one."""
        assert self._tasks is not None, "the cluster is running: call run first"
        informer, task = self._informers[resource]
        task.cancel()
        self._informers[resource] = informer, self._tasks.create_task(informer.run(), name=resource)

    async def changed(self, revision: int) -> None:
        """Return when the revision of the state differs from `revision`."""
        await self._until(lambda: self.state.revision != revision)

    async def run(self) -> None:
        """Follow the cluster until cancelled. Server failures are logged and retried."""
        backoff = Backoff(self._world.random)
        failure = ""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                try:
                    now = await self._look()
                except PodiumError as error:
                    pause = backoff.next()
                    if str(error) != failure:
                        failure = str(error)
                        fields = {"error": failure, "retry_seconds": round(pause, 1)}
                        self._world.log_event("discovery failed", fields)
                    await self._world.sleep(pause)
                    continue
                failure = ""
                backoff.reset()
                await self._world.idle()
                self._adopt(now, self._tasks)
                await self._until_next_look()

    def _awaited(self) -> dict[str, Informer]:
        """Return the informers without those of optional kinds that the server denies, by resource."""
        return {
            name: informer
            for name, (informer, _) in self._informers.items()
            if not (informer.is_denied and informer.served.read.kind in self._optional)
        }

    async def _look(self) -> Discovery:
        """Return a new discovery. The first one, and one that misses a known resource, needs a ready server.

        A server that is still starting may not list its own APIs, and dropping an API drops its objects from
        the state.
        """
        kinds = {*self._kinds, Kind.POD_GROUP}
        reads = {name: read for name, read in self._reads.items() if read.kind in kinds}
        now = await discover(self._connection, reads)
        known = {served.resource for served in self.discovery.served} if self.discovery is not None else None
        if known is None or not known <= {served.resource for served in now.served}:
            try:
                await self._connection.get("/readyz")
            except RefusedError as error:
                if error.code not in _MAY_NOT_ASK:
                    raise
        return now

    def _adopt(self, now: Discovery, tasks: asyncio.TaskGroup) -> None:
        """Start an informer for each wanted resource that is served, and stop all others."""
        answering = {name for name, (informer, _) in self._informers.items() if not informer.is_unknown}
        self.discovery, self._missed = settle(self.discovery, now, self._missed, frozenset(answering))
        if self._missed:
            self._doubted.set()
        followed = {
            candidate.resource: candidate
            for candidate in self.discovery.served
            if candidate.read.kind in self._kinds and self._only(candidate)
        }
        for resource in [name for name in self._informers if name not in followed]:
            self._stop(resource).clear()
            self._world.log_event("api went away", {"resource": resource})
        for resource, served in followed.items():
            known = self._informers.get(resource)
            if known is None or known[0].served != served:
                self._start(served, self._stop(resource) if known is not None else None, tasks)
        self.state.serve_native(self.discovery.serves(NATIVE_GROUP, "PodGroup"))
        self._turn()

    def _start(self, served: Served, before: Reflector | None, tasks: asyncio.TaskGroup) -> None:
        inherited = before.known if before is not None else None
        follower = Reflector(
            served, self.state, self._world.log_event, transform=self._transform, inherited=inherited
        )
        informer = Informer(self._connection, served, follower, self._world)
        self._informers[served.resource] = informer, tasks.create_task(informer.run(), name=served.resource)
        self._world.log_event("api found", {"resource": served.resource, "version": served.api_version})

    def _stop(self, resource: str) -> Reflector:
        informer, task = self._informers.pop(resource)
        task.cancel()
        return informer.follower

    def _turn(self) -> None:
        """Update the unread kinds after an informer failed, recovered or ended its first list."""
        discovery = self.discovery
        unread: dict[str, str] = {str(kind): NOT_WATCHED for kind in Kind if kind not in self._kinds}
        if discovery is not None:
            unread |= {kind: why for kind, why in discovery.unread.items() if kind in self._kinds}
        for informer, _ in self._informers.values():
            if informer.unread:
                kind = str(informer.served.read.kind)
                # Two groups may have the same kind, native and Podium's. The text names each group that
                # cannot be read.
                unread[kind] = f"{unread[kind]}; {informer.unread}" if kind in unread else informer.unread
            if informer.is_unknown:
                self._doubted.set()
        self.state.note_unread(unread)
        self._notice()

    def _observer_failed(self, error: Exception, obj: Readable) -> None:
        """Count and log an exception of an observer. It is a bug, and must stop nothing else."""
        self.observer_errors += 1
        now = self._world.clock()
        if self._error_lines.wait(now) > 0:
            return
        self._error_lines.record(now)
        fields = {
            "kind": obj.ref.kind if hasattr(obj, "ref") else obj.kind,
            "namespace": obj.metadata.namespace or "",
            "name": obj.metadata.name or "",
            "error": "".join(traceback.format_exception(error)),
        }
        self._world.log_event("observer failed: a bug", fields)

    def _notice(self) -> None:
        """Wake all waiting tasks, because the state may have changed."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)

    async def _until_next_look(self) -> None:
        jitter = 1 - self._world.random() / 2
        served = {group_of(informer.served.api_version) for informer, _ in self._informers.values()}
        seconds = _CHECK_SECONDS if served >= self._groups else _EAGER_SECONDS
        due = asyncio.ensure_future(self._world.sleep(seconds * jitter))
        doubted = asyncio.ensure_future(self._doubted.wait())
        try:
            await asyncio.wait((due, doubted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            due.cancel()
            doubted.cancel()
        if self._doubted.is_set():
            self._doubted.clear()
            await self._world.sleep(_SOON_SECONDS * jitter)
