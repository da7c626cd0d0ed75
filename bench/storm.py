"""Pods that change all the time, and the delay of their groups' conditions: a writing client, and a watch.

A pod's priority cannot change, so a group's condition flips when its one differing pod finishes or runs
again. Every tenth change does that. The others touch pods that agree with their group, which a reconciler
must read all the same. Changes come at random times (Poisson), whether or not those before are done. They are
stored in etcd directly. An API server needs 2 ms and more for a client's write of a pod's status, and the
whole machine.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from bench.bare import GROUPS
from bench.fleet import DIFFERING, MEMBERS, Fleet, group_of

from podium.cluster.reader import Name
from podium.controllers.conditions import PRIORITY
from podium.errors import PodiumError
from podium.kube.connection import Connection

RATE = 500
FLIP_EVERY = 10
# The maximum time until all writes are seen, on a busy machine.
_PATIENCE_SECONDS = 120.0


class _Meta(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    resourceVersion: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _GroupStatus(msgspec.Struct):
    conditions: list[_Condition] = []


class _Group(msgspec.Struct):
    metadata: _Meta
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)

    @property
    def name(self) -> Name:
        return self.metadata.namespace, self.metadata.name

    @property
    def priority_status(self) -> str:
        """Return the status of the condition, empty if the group has none."""
        return next(
            (condition.status for condition in self.status.conditions if condition.type == PRIORITY), ""
        )


class _Member(msgspec.Struct):
    podGroupName: str


class _PodSpec(msgspec.Struct):
    schedulingGroup: _Member


class _PodStatus(msgspec.Struct):
    phase: str


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _PodSpec
    status: _PodStatus

    @property
    def name(self) -> Name:
        """Return the name of its group."""
        return self.metadata.namespace, self.spec.schedulingGroup.podGroupName

    @property
    def priority_status(self) -> str:
        """Return the status that its group's condition should have, for a divergent pod."""
        return "False" if self.status.phase == "Succeeded" else "True"


T = TypeVar("T", _Group, _Pod)


class _List(msgspec.Struct, Generic[T]):
    metadata: _Meta
    items: list[T]


class _Line(msgspec.Struct, Generic[T]):
    object: T


class Seen(Generic[T]):
    """The status of every group in a watch, and when (perf_counter) it arrived first."""

    def __init__(self, connection: Connection, path: str, read: type[T], **query: str) -> None:
        self.statuses: dict[Name, str] = {}
        self.heard: dict[Name, float] = {}
        self._connection = connection
        self._path = path
        self._list: Any = _List[read]  # type: ignore[valid-type] # made at run time
        self._line: Any = _Line[read]  # type: ignore[valid-type] # as above
        self._query = query
        self._news = asyncio.Event()

    async def follow(self) -> None:
        """List once and watch until cancelled.

        Raises PodiumError if the watch ends.
        """
        body = await self._connection.get(self._path, **self._query)
        known = msgspec.json.decode(body, type=self._list)
        for stored in known.items:
            self._note(stored)
        query = {**self._query, "watch": "1", "resourceVersion": known.metadata.resourceVersion}
        decoder = msgspec.json.Decoder(self._line)
        async for line in self._connection.lines(self._path, silence=3600.0, timeoutSeconds="3600", **query):
            if line:
                self._note(decoder.decode(line).object)
        raise PodiumError("a watch of the bench ended")

    async def until(self, reached: Callable[[], bool], description: str) -> None:
        """Wait until a condition holds.

        Raises PodiumError after the timeout.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not reached():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise PodiumError(f"waited {_PATIENCE_SECONDS:.0f} s for {description}") from None

    def count(self, status: str) -> int:
        """Return the number of groups with this status (empty: without any)."""
        return sum(known == status for known in self.statuses.values())

    def _note(self, group: T) -> None:
        if self.statuses.get(group.name) != group.priority_status:
            self.statuses[group.name] = group.priority_status
            self.heard[group.name] = time.perf_counter()
            self._news.set()


def groups_seen(connection: Connection) -> Seen[_Group]:
    """Return a watch of the condition of every group."""
    return Seen(connection, GROUPS, _Group)


def pods_seen(connection: Connection) -> Seen[_Pod]:
    """Return a watch of the divergent pods, by the status that their groups should have."""
    return Seen(connection, "/api/v1/pods", _Pod, labelSelector=DIFFERING)


class Weather(NamedTuple):
    """The figures of a storm: ascending seconds from a pod's event to its group's condition, and a rate.

    `delays` count from when a watch received the pod, `whole` from when it was stored. `rate` is changes a
    second.
    """

    delays: list[float]
    whole: list[float]
    rate: float


class Storm:
    """Changes pods of a fleet, and continues where it stopped."""

    def __init__(self, fleet: Fleet, groups: Seen[_Group], pods: Seen[_Pod]) -> None:
        self._fleet = fleet
        self._groups = groups
        self._pods = pods
        self._divergent = itertools.cycle(fleet.divergent)
        # Groups whose divergent pod has ended.
        self._agreed: set[int] = set()
        self._changes = itertools.count()
        self._rng = random.Random(1)

    async def blow(self, seconds: float) -> Weather:
        """Change pods for some seconds and wait until every group has its status.

        Raises PodiumError after the timeout.
        """
        flips: dict[Name, tuple[str, float]] = {}
        began = due = time.perf_counter()
        changes = 0
        async with asyncio.TaskGroup() as tasks:
            while due < began + seconds:
                await asyncio.sleep(due - time.perf_counter())
                tasks.create_task(self._change(next(self._changes), flips))
                changes += 1
                due += self._rng.expovariate(RATE)
        took = time.perf_counter() - began
        for seen in (self._pods, self._groups):
            await seen.until(
                lambda seen=seen: all(seen.statuses[name] == status for name, (status, _) in flips.items()),  # type: ignore[misc] # mypy cannot infer a lambda's default
                "every status change",
            )
        heard = self._groups.heard
        delays = sorted(heard[name] - self._pods.heard[name] for name in flips)
        whole = sorted(heard[name] - stored for name, (_, stored) in flips.items())
        return Weather(delays, whole, changes / took)

    async def _change(self, step: int, flips: dict[Name, tuple[str, float]]) -> None:
        if step % FLIP_EVERY:
            group, member = self._rng.randrange(self._fleet.groups), self._rng.randrange(1, MEMBERS)
            await asyncio.to_thread(self._put, group, member, step)
        else:
            group = next(self._divergent)
            self._agreed ^= {group}
            agrees = group in self._agreed
            stored = await asyncio.to_thread(self._put, group, 0, step)
            flips[group_of(group)] = "False" if agrees else "True", stored

    def _put(self, group: int, member: int, step: int) -> float:
        """Store a pod; return the time."""
        self._fleet.put_pod(group, member, ended=member == 0 and group in self._agreed, step=step)
        return time.perf_counter()
