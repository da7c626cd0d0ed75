"""Pods that change all the time, and how soon their groups say so: written by one client, seen by one watch.

A pod's priority cannot change, so what flips a group is that its one differing pod finishes, or runs again.
Every tenth change does that; the others touch pods that agree with their group, which a reconciler must look
at all the same. Changes come at random times (Poisson), whether or not those before are done.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from bench import fleet
from bench.bare import GROUPS

from podium.controllers.conditions import PRIORITY
from podium.errors import PodiumError
from podium.kube.connection import Connection

RATE = 500
FLIP_EVERY = 10
# How long everything written may take to be seen, on a machine that has other things to do.
_PATIENCE_SECONDS = 120.0


class _Meta(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    resourceVersion: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Group(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def told(self) -> str:
        """Give the status of the condition, empty where the group has none."""
        return next((each.status for each in self.status.conditions if each.type == PRIORITY), "")


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[_Group]


class _Line(msgspec.Struct):
    object: _Group


class Seen:
    """What a watch says of every group: the status of its condition, and when (perf_counter) it was heard."""

    def __init__(self, connection: Connection) -> None:
        self.told: dict[tuple[str, str], str] = {}
        self.heard: dict[tuple[str, str], float] = {}
        self._connection = connection
        self._news = asyncio.Event()

    async def follow(self) -> None:
        """List once and watch until cancelled. PodiumError when the watch ends."""
        known = msgspec.json.decode(await self._connection.get(GROUPS), type=_List)
        for group in known.items:
            self._note(group)
        query = {"watch": "1", "resourceVersion": known.metadata.resourceVersion, "timeoutSeconds": "3600"}
        async for line in self._connection.lines(GROUPS, silence=3600.0, **query):
            if line:
                self._note(msgspec.json.decode(line, type=_Line).object)
        raise PodiumError("the watch of the bench ended")

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until something holds. PodiumError when it takes too long."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not reached():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise PodiumError(f"waited {_PATIENCE_SECONDS:.0f} s for {what}") from None

    def count(self, status: str) -> int:
        """Give how many groups have the condition with this status (empty: have none)."""
        return sum(told == status for told in self.told.values())

    def _note(self, group: _Group) -> None:
        name = (group.metadata.namespace, group.metadata.name)
        if self.told.get(name) != group.told:
            self.told[name] = group.told
            self.heard[name] = time.perf_counter()
            self._news.set()


class Weather(NamedTuple):
    """One storm: ascending seconds from a flip of a pod to its group's condition, and changes a second."""

    delays: list[float]
    rate: float


class Storm:
    """Changes pods of so many groups; goes on where it stopped."""

    def __init__(self, connection: Connection, seen: Seen, groups: int) -> None:
        self._connection = connection
        self._seen = seen
        self._groups = groups
        self._divergent = itertools.cycle(range(0, groups, fleet.DIVERGENT_EVERY))
        # Groups whose differing pod has finished.
        self._agreed: set[int] = set()
        self._rng = random.Random(1)
        self._changes = itertools.count()

    async def blow(self, seconds: float) -> Weather:
        """Change pods for so long and wait until every group tells how it is, else PodiumError."""
        flips: dict[tuple[str, str], tuple[str, float]] = {}
        began = due = time.perf_counter()
        number = 0
        async with asyncio.TaskGroup() as tasks:
            while due < began + seconds:
                await asyncio.sleep(due - time.perf_counter())
                if next(self._changes) % FLIP_EVERY:
                    tasks.create_task(self._touch())
                else:
                    tasks.create_task(self._flip(next(self._divergent), flips))
                number += 1
                due += self._rng.expovariate(RATE)
        took = time.perf_counter() - began
        told = self._seen.told
        await self._seen.until(
            lambda: all(told[name] == status for name, (status, _) in flips.items()), "every flip to be told"
        )
        delays = sorted(self._seen.heard[name] - answered for name, (_, answered) in flips.items())
        return Weather(delays, number / took)

    async def _touch(self) -> None:
        group, member = self._rng.randrange(self._groups), self._rng.randrange(1, fleet.MEMBERS)
        await self._patch(group, member, {"message": f"step {self._rng.randrange(1_000_000)}"})

    async def _flip(self, group: int, flips: dict[tuple[str, str], tuple[str, float]]) -> None:
        self._agreed ^= {group}
        agrees = group in self._agreed
        await self._patch(group, 0, {"phase": "Succeeded" if agrees else "Running"})
        flips[fleet.group_of(group)] = "False" if agrees else "True", time.perf_counter()

    async def _patch(self, group: int, member: int, status: dict[str, str]) -> None:
        namespace, _ = fleet.group_of(group)
        path = f"/api/v1/namespaces/{namespace}/pods/{fleet.pod_name(group, member)}/status"
        await self._connection.send(
            "PATCH", path, {"status": status}, content_type="application/merge-patch+json"
        )
