"""A cluster in memory with a Scheduler: an API server without a network, and a clock that tests set.

`run` acts as API server and kubelets for each effect, at once unless a test holds it. A bound pod runs, a
deleted one is gone. Effects that a test holds (`hold_binds`, `hold_evictions`, `lingering` victims) end when
the test decides, which is how it makes races.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import marked_for_deletion
from tests.support.scheduling.recording import Recorded, Write

from podium.api.core import PODIUM_SCHEDULER
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.cluster.state import ClusterState, Readable
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.live.evictor import Carried, Conditions, carry_out
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Effect,
    Evict,
    Moment,
    Planned,
    PodRef,
    PreBind,
    Rejected,
    ReportPending,
    UndoPreBind,
    Unit,
)
from podium.schedulerplugin.scheduling.evictionlimits import EvictionLimits, Unfinished
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.preemptions import announcements
from podium.schedulerplugin.scheduling.scheduler import Scheduler

# More steps than any test needs, to detect a scheduler that never becomes idle.
_STEPS = 10_000
# The error of a bind whose answer was lost: the pod is bound.
LOST = "answer lost"


def pod(name: str, cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> Schedulable:
    """Make a pod of ours, running if a `node` is given."""
    spec = {"schedulerName": PODIUM_SCHEDULER, **kwargs}
    return builders.pod(name, {"cpu": cpu}, priority=priority, **spec)


class World:
    """Objects, the scheduler that watches them, and all its effects in `effects`."""

    def __init__(self, *objects: Readable | Iterable[Readable], **settings: Any) -> None:
        self.live = LiveSettings(**settings)
        self.state = ClusterState(native_served=True)
        self.seconds = 0.0
        self.effects: list[Effect] = []
        self.hold_binds = False
        self.hold_evictions = False
        self.lingering = False
        # The grace period of pods that linger.
        self.grace = 30
        # The error of all binds, None if they succeed.
        self.failing = ""
        self.held: list[Bind | Evict] = []
        # The writes that the API server refuses for ever, and its last resourceVersion.
        self.refusals: dict[Write, Exception] = {}
        self.version = 0
        self.apply(*objects)
        self.restart()

    def restart(self, *units: float, unfinished: Mapping[str, Unfinished] | None = None) -> None:
        """Start a new process with the API server's objects and the earlier records."""
        engine = LiveEngine(self.state, self.live.engine)
        self.limits = EvictionLimits(lambda: self.live, lambda: self.seconds)
        self.limits.restore([], units, unfinished or {})
        self.scheduler = Scheduler(engine, self.limits)
        self.held = []
        self.state._observers[:] = [engine.apply, self.scheduler.apply]
        for effect in self.scheduler.initialize(self.moment):
            self.effects.append(effect)
            self._perform(effect)

    @property
    def moment(self) -> Moment:
        return Moment(NOW + timedelta(seconds=self.seconds), self.seconds)

    def apply(self, *objects: Readable | Iterable[Readable]) -> None:
        """Create or change objects."""
        for obj in objects:
            if isinstance(obj, Iterable) and not isinstance(obj, msgspec.Struct):
                self.apply(*obj)
            else:
                self.state.apply(obj)  # type: ignore[arg-type]  # an iterable struct is none

    def run(self, *objects: Readable | Iterable[Readable]) -> list[Effect]:
        """Create objects, and let the scheduler work until it has nothing to do; return the effects."""
        self.apply(*objects)
        before = len(self.effects)
        for _ in range(_STEPS):
            if not self.scheduler.has_work(self.seconds):
                return self.effects[before:]
            for effect in self.scheduler.step(self.moment):
                self.effects.append(effect)
                self._perform(effect)
        raise AssertionError("the scheduler goes on for ever")

    def later(self, seconds: float) -> list[Effect]:
        """Advance the clock; the scheduler works at the times that it has set."""
        end, before = self.seconds + seconds, len(self.effects)
        while True:
            due = self.scheduler.due(self.seconds)
            if due is None or due > end:
                break
            self.seconds = max(due, self.seconds)
            self.run()
        self.seconds = end
        self.run()
        return self.effects[before:]

    def release(self, *, failed: str = "") -> list[Effect]:
        """End the held effects, with the error `failed` if given; return the scheduler's next effects."""
        held, self.held = self.held, []
        self.hold_binds = self.hold_evictions = False
        for effect in held:
            if isinstance(effect, Bind):
                self._bind(effect, failed)
            else:
                self._evict(effect, failed)
        return self.run()

    def die(self, *names: str) -> None:
        """End lingering pods."""
        for name in names:
            self.state.remove(self.state.pods[NS, name])

    def bound(self) -> dict[str, str]:
        """Return the node of each pod that runs, by name."""
        return {name: pod.spec.nodeName for (_, name), pod in self.state.pods.items() if pod.spec.nodeName}

    def evictions(self) -> list[Evict]:
        """Return the preemptions that were started."""
        return [effect for effect in self.effects if isinstance(effect, Evict)]

    def evicted(self) -> list[str]:
        """Return the names of the evicted pods, in order."""
        return [victim.name for evict in self.evictions() for victim in evict.victims]

    def observed(self) -> list[list[str]]:
        """Return the names of the pods of each plan that was only observed."""
        plans = [effect for effect in self.effects if isinstance(effect, Planned)]
        return [[victim.name for victim in plan.evict.victims] for plan in plans]

    def message(self, name: str) -> str:
        """Return the last message about a waiting pod."""
        for effect in reversed(self.effects):
            if isinstance(effect, ReportPending) and name in [pod.name for pod in effect.pods]:
                return effect.message
        return ""

    def nominated(self, name: str) -> str:
        """Return the node that the scheduler reserves for a pod."""
        engine = self.scheduler.engine
        return engine.nomination(engine.snapshot.pod_row[NS, name])

    def rejected(self) -> list[str]:
        """Return the messages of kubelets that had no room."""
        return [effect.reason for effect in self.effects if isinstance(effect, Rejected)]

    def overcommitted(self) -> list[str]:
        """Return the overcommitted nodes: pods being deleted count too."""
        used: dict[str, float] = {}
        for each in self.state.pods.values():
            if each.spec.nodeName and not each.finished:
                cpu = (each.spec.containers or [])[0].resources
                requested = (cpu.requests or {}).get("cpu", 0) if cpu is not None else 0
                used[each.spec.nodeName] = used.get(each.spec.nodeName, 0.0) + float(str(requested))
        room = {
            name: float(str((node.status.allocatable or {})["cpu"])) if node.status is not None else 0.0
            for name, node in self.state.nodes.items()
        }
        return [name for name, amount in used.items() if amount > room.get(name, 0.0)]

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Bind):
            if self.hold_binds:
                self.held.append(effect)
            else:
                self._bind(effect, self.failing)
        elif isinstance(effect, Evict):
            if self.hold_evictions:
                self.held.append(effect)
            else:
                self._evict(effect, "")

    def _bind(self, bind: Bind, failed: str) -> None:
        for ref, node in bind.pods:
            pod = self._live(ref)
            if pod is None or failed:
                self.scheduler.holds.bind_failed(bind.key, ref, node, settled=pod is None)
            else:
                self.scheduler.holds.bind_done(bind.key)
            if pod is None or failed not in ("", LOST):
                continue
            spec = msgspec.structs.replace(pod.spec, nodeName=node)
            condition = {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": _written(self.moment),
            }
            named = pod.status.extendedResourceClaimStatus if pod.status is not None else None
            running = {"phase": "Running", "conditions": [condition]}
            status = msgspec.convert(running, type(pod.status))
            if status is not None:
                status.extendedResourceClaimStatus = named
            self.state.apply(msgspec.structs.replace(pod, spec=spec, status=status))

    def _evict(self, evict: Evict, failed: str) -> None:
        objection = failed or self.scheduler.objection(evict.key, self.moment)
        carried = Carried(() if objection else evict.victims, objection)
        if self.refusals and not objection:
            carried = self._send_writes(evict)
        for ref in carried.deleted:
            pod = self._live(ref)
            if pod is None:
                continue
            if self.lingering:
                leaving = msgspec.structs.replace(
                    pod.metadata,
                    deletionTimestamp=_written(self.moment, self.grace),
                    deletionGracePeriodSeconds=self.grace,
                )
                status = msgspec.convert(_told(pod), type(pod.status))
                self.state.apply(msgspec.structs.replace(pod, metadata=leaving, status=status))
            else:
                self.state.remove(pod)
        self.effects += self.scheduler.preempted(
            evict.key,
            carried.deleted,
            carried.failed,
            self.moment,
            unsure=carried.unsure,
            refused=carried.refused,
        )

    def _send_writes(self, evict: Evict) -> Carried:
        """Carry out a preemption by an API server that refuses some writes."""
        writes = Recorded(self.refusals)

        async def still() -> str:
            return ""

        async def group(unit: Unit) -> bool:
            return Write("group", unit.name) not in self.refusals

        conditions = Conditions(
            waiting=lambda _pod: Condition("PodScheduled", "False"),
            target=lambda _pod: Condition("DisruptionTarget", "True"),
            withdrawn=lambda _pod: Condition("DisruptionTarget", "False"),
            group=group,
        )
        first = announcements(self.state, evict, self.live.engine.semantics)
        carried = asyncio.run(carry_out(evict, first, writes, conditions, still=still))
        for ref in evict.victims:
            pod = self._live(ref)
            if pod is not None and any(write[:2] == ("mark", ref.name) for write in writes.done):
                self.version += 1
                metadata = msgspec.structs.replace(pod.metadata, resourceVersion=str(self.version))
                self.state.apply(msgspec.structs.replace(pod, metadata=metadata))
        return carried

    def _live(self, ref: PodRef) -> Schedulable | None:
        pod = self.state.pods.get(ref.key)
        same = isinstance(pod, Schedulable) and pod.metadata.uid == ref.uid
        return pod if same and isinstance(pod, Schedulable) else None


class ClaimWorld(World):
    """A World whose writes to claims are carried out when a test lets it."""

    def __init__(self, *objects: Any, **settings: Any) -> None:
        # Held until `write`; releases are carried out at once, unless they are held too.
        self.claim_writes: list[PreBind | UndoPreBind] = []
        self.hold_writes = False
        self.hold_releases = False
        super().__init__(*objects, **settings)

    def restart(self, *units: float, **more: Any) -> None:
        """Start a new process; what the old one had not written stays unwritten."""
        self.claim_writes = []
        super().restart(*units, **more)

    def write(self, most: int | None = None, *, why: str = "") -> None:
        """Carry out held writes, of each decision the first `most`; answer with the error `why`, if given."""
        held, self.claim_writes = self.claim_writes, []
        for effect in held:
            self._carry_out(effect, most, why)
        self.run()

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, PreBind | UndoPreBind):
            held = self.hold_writes if isinstance(effect, PreBind) else self.hold_releases
            if held:
                self.claim_writes.append(effect)
            else:
                self._carry_out(effect, None, "")
        super()._perform(effect)

    def _carry_out(self, effect: PreBind | UndoPreBind, most: int | None, why: str) -> None:
        raise NotImplementedError

    def _answer(self, effect: PreBind | UndoPreBind, why: str) -> None:
        if isinstance(effect, PreBind):
            self.scheduler.holds.prebinds.written(effect.number, why)
        else:
            self.scheduler.holds.prebinds.released(effect.number, self.moment)


def _told(pod: Schedulable) -> dict[str, Any]:
    """Return the status of a pod with the condition that a preemption writes before it deletes the pod."""
    status = msgspec.to_builtins(pod.status) or {}
    kept = [
        condition for condition in status.get("conditions") or () if condition["type"] != "DisruptionTarget"
    ]
    return {**status, "conditions": [*kept, *marked_for_deletion()["conditions"]]}


def _written(moment: Moment, later: int = 0) -> str:
    return f"{moment.now + timedelta(seconds=later):%Y-%m-%dT%H:%M:%SZ}"
