"""The status writer with a server that only records, under a stopped clock.

So a test knows exactly what a server received and when, and a fault hits the intended write.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

from tests.support.informer.changing import Time

from podium.api.core import UNSCHEDULABLE
from podium.api.events import EventDraft
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta
from podium.api.schedulable import Schedulable, SchedulableSpec, SchedulableStatus
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.kube.connection import RefusedError
from podium.runtime.workqueue import Workqueue
from podium.schedulerplugin.live.status import Statuses
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import Evict, Key, PodRef, Preemptor, ReportPending, Unit
from podium.schedulerplugin.scheduling.preemptions import Announcements

NOW = datetime(2026, 11, 21, 16, 0, 0, tzinfo=UTC)

KEY = GroupKey(False, "team", "train")

FULL, FULLER = "0/3 nodes are available: 3 Insufficient cpu.", "0/4 nodes are available: 4 Insufficient cpu."

PREEMPTOR = Preemptor("podgroup", "team", "mine", "uid-mine", 9)
LoggedEvent = tuple[str, dict[str, Any]]


def ref(name: str, uid: str = "") -> PodRef:
    """A pod of the team; its UID is derived from its name."""
    return PodRef("team", name, uid or f"uid-{name}")


def pod(
    name: str,
    message: str = "",
    node: str = "",
    *,
    bound: str | None = None,
    uid: str = "",
    phase: str = "Pending",
    deleted: str | None = None,
    version: str | None = None,
) -> Schedulable:
    """Return a pod with a message in its condition, and a reserved node."""
    conditions = [Condition("PodScheduled", "False", UNSCHEDULABLE, message)] if message else None
    return Schedulable(
        metadata=ObjectMeta(
            name=name,
            namespace="team",
            uid=uid or f"uid-{name}",
            deletionTimestamp=deleted,
            resourceVersion=version,
        ),
        spec=SchedulableSpec(nodeName=bound, schedulerName="podium-scheduler"),
        status=SchedulableStatus(phase=phase, nominatedNodeName=node or None, conditions=conditions),
    )


def report(
    message: str, *names: str, key: Key = ("team", "a"), reserved: Mapping[str, str] | None = None
) -> ReportPending:
    """Return a report on some pods of the team; nodes are reserved for some."""
    nodes = tuple((ref(name), node) for name, node in (reserved or {}).items() if node)
    return ReportPending(key, tuple(map(ref, names)), UNSCHEDULABLE, message, nodes)


def eviction(*units: Unit, key: Key = ("team", "a"), cleared: tuple[PodRef, ...] = ()) -> Evict:
    """A preemption that reserves node-1 for `a`."""
    return Evict(key, PREEMPTOR, ((ref("a"), "node-1"),), units, "node-1", FULLER, cleared)


def everything(evict: Evict) -> Announcements:
    """Return the status changes of a preemption before the first delete, one for each pod."""
    return Announcements(evict.nominations, evict.victims, ())


NOTHING = Announcements((), (), ())


class Api:
    """Records writes as a server receives them; `outcomes` are those of the next writes, None for success."""

    def __init__(self, *outcomes: PodiumError | None) -> None:
        self.busy = False
        self.limit = 2
        self.log: list[tuple[str, ...]] = []
        self.told: dict[PodRef, tuple[str, str]] = {}
        self.groups: dict[str, tuple[Condition, ...]] = {}
        self.held: asyncio.Event | None = None
        self.outcomes = list(outcomes)

    async def mark(self, pod: PodRef, condition: Condition, version: str | None = None) -> None:
        """Record a condition."""
        if condition.type == "DisruptionTarget":
            await self._end(
                "unmark" if condition.status == "False" else "mark for deletion", pod.name, version or ""
            )
            return
        await self._end("mark", pod.name, condition.message or "")
        self.told[pod] = condition.message or "", self.told.get(pod, ("", ""))[1]

    async def nominate(self, pod: PodRef, node: str | None, condition: Condition | None) -> None:
        """Record a condition, if there is one, and a node."""
        assert node != "", "a pod without a node has None"
        message = "" if condition is None else condition.message or ""
        await self._end("nominate", pod.name, message, node or "")
        self.told[pod] = message, node or ""

    async def apply_group(self, _ref: ObjectRef, uid: str, conditions: Sequence[Condition]) -> None:
        """Record all conditions."""
        await self._end("group", uid, *(f"{each.type}={each.status}" for each in conditions))
        self.groups[uid] = tuple(conditions)

    async def _end(self, *logged: str) -> None:
        if self.held is not None:
            await self.held.wait()
        self.log.append(logged)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome


def statuses_of(
    state: ClusterState,
    writes: Writes,
    notes: list[EventDraft],
    logged: list[LoggedEvent],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> Statuses:
    """Return a status writer whose notes and log events are kept in these lists."""

    def log_event(what: str, fields: Mapping[str, Any]) -> None:
        logged.append((what, dict(fields)))

    queue = Workqueue[Key](
        clock=clock,
        sleep=sleep,
        random=lambda: 0.0,
        waited=lambda _seconds: None,
        failed=lambda: log_event("a bug", {}),
        log_event=log_event,
    )
    return Statuses(
        state,
        writes,
        queue,
        notes.append,
        "podium-scheduler",
        clock=clock,
        now=lambda: NOW,
        sleep=sleep,
        log_event=log_event,
    )


class Scene:
    """A running status writer under a stopped clock."""

    def __init__(self, *outcomes: PodiumError | None) -> None:
        self.time = Time()
        self.state = ClusterState(native_served=True)
        self.api = Api(*outcomes)
        self.notes: list[EventDraft] = []
        self.logged: list[LoggedEvent] = []
        self.statuses = statuses_of(
            self.state,
            cast("Writes", self.api),
            self.notes,
            self.logged,
            clock=self.time.clock,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self.time.sleep(seconds)

    async def advance(self, seconds: float = 0.0) -> None:
        """Advance the clock, and run the loop until all tasks wait for time."""
        await self._settled()
        self.time.advance(seconds)
        await self._settled()

    async def _settled(self) -> None:
        for _ in range(40):
            await asyncio.sleep(0)

    def show(self) -> None:
        """Update the state to the server's."""
        for (_, name, uid), (message, node) in self.api.told.items():
            if ("team", name) in self.state.pods:
                self.state.apply(pod(name, message, node, uid=uid))


@asynccontextmanager
async def at_work(*outcomes: PodiumError | None) -> AsyncIterator[Scene]:
    """Yield a running status writer; an unexpected log event fails the test."""
    scene = Scene(*outcomes)
    task = asyncio.create_task(scene.statuses.run())
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


def refused(code: int) -> RefusedError:
    """A refusal of an API server."""
    return RefusedError("https://server", "PATCH /status", code, "", "because")
