"""The status of pods and groups as this process knows it: stored, or written and not watched yet.

Writes are remembered for some seconds, because the cluster state shows them only after the watch
event. A status that is compared with an older one would be left wrong.
"""

from collections.abc import Callable, Hashable
from math import inf
from typing import Generic, NamedTuple, TypeVar

from podium.api.core import POD_SCHEDULED
from podium.api.membership import GroupKey, key_of
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader, Name
from podium.planner.preemption.intents import is_preempted
from podium.schedulerplugin.scheduling.effects import PodRef
from podium.schedulerplugin.scheduling.messages import ours

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# A watch that is later than this has other troubles.
_LAG = 10.0


class WrittenPodStatus(NamedTuple):
    """The content for a pod's status: why the pod waits, and its reserved node (empty for none)."""

    pod: PodRef
    reason: str
    message: str
    node: str


class AppliedConditions(NamedTuple):
    """The conditions of ours that a group has."""

    uid: str
    conditions: tuple[Condition, ...]


class WriteMemory(Generic[K, V]):
    """Values written to objects that the cluster state may not show yet."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[V, float]] = {}
        self._doubted: set[K] = set()

    def assume(self, key: K, value: V) -> None:
        """Assume that `value` is stored until another call says otherwise, because its write is in flight."""
        self._known[key] = value, inf

    def assume_for(self, key: K, value: V, now: float) -> None:
        """Assume that `value` is stored for some seconds, and drop assumptions that have expired."""
        self.drop(key)
        self._known[key] = value, now + _LAG
        while (oldest := next(iter(self._known))) and self._known[oldest][1] <= now:
            self.drop(oldest)

    def doubt(self, key: K, value: V, now: float) -> None:
        """Assume `value` for some seconds, but mark it as doubtful: everything is written again."""
        self.assume_for(key, value, now)
        self._doubted.add(key)

    def sure(self, key: K) -> bool:
        """Return whether the assumed value is certain."""
        return key not in self._doubted

    def drop(self, key: K) -> None:
        """Use the cluster state again."""
        self._known.pop(key, None)
        self._doubted.discard(key)

    def settled(self, key: K) -> bool:
        """Return whether the assumed value is certain, and no write is in flight."""
        known = self._known.get(key)
        return self.sure(key) and (known is None or known[1] != inf)

    def get(self, key: K, now: float) -> V | None:
        """Return the assumed value, None if there is none."""
        known = self._known.get(key)
        return known[0] if known is not None and known[1] > now else None


class KnownStatus:
    """The status that pods and groups have now: what was written last, or else what is stored."""

    def __init__(self, view: ClusterReader, clock: Callable[[], float]) -> None:
        """`clock` returns steady seconds."""
        self.pods = WriteMemory[Name, WrittenPodStatus]()
        self.groups = WriteMemory[GroupKey, AppliedConditions]()
        self._view = view
        self._clock = clock

    def of_pod(self, pod: PodRef) -> WrittenPodStatus:
        """Return the status a pod was given last, with empty fields if none."""
        known = self.pods.get(pod.key, self._clock())
        if known is not None and known.pod == pod:
            return known
        stored = self.waiting(pod)
        status = stored.status if stored is not None else None
        if status is None:
            return WrittenPodStatus(pod, "", "", "")
        condition = status.condition(POD_SCHEDULED)
        node = status.nominatedNodeName or ""
        if condition is None or condition.status != "False":
            return WrittenPodStatus(pod, "", "", node)
        return WrittenPodStatus(pod, condition.reason or "", condition.message or "", node)

    def conditions(self, group: Child) -> tuple[Condition, ...]:
        """Return the conditions of ours that a group has."""
        applied = self.groups.get(key_of(group), self._clock())
        if applied is None or applied.uid != (group.metadata.uid or ""):
            return ours(group)
        return applied.conditions

    def waiting(self, pod: PodRef) -> Schedulable | None:
        """Return the stored pod if it is the same and still waits; else None."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid or stored.spec.nodeName:
            return None
        return None if stored.finished or stored.metadata.deletionTimestamp is not None else stored

    def running_unmarked(self, pod: PodRef) -> Schedulable | None:
        """Return the stored pod if it is the same, still runs and has no mark of a preemption; else None."""
        stored = self._view.pods.get(pod.key)
        if not isinstance(stored, Schedulable) or stored.metadata.uid != pod.uid:
            return None
        return None if stored.finished or is_preempted(stored) else stored
