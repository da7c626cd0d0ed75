"""Detects workloads that evict each other in turn: A evicts B, B comes back and evicts A, without progress.

With priorities that never change this cannot happen, and every plan in the cycle is correct by itself. But
classes are recreated, divergent groups lose priority, tolerations expire, and controllers recreate evicted
pods. So evictions are remembered by workloads, which outlive the pods. An eviction that would close a cycle
has to wait, longer each time the cycle repeats. It is delayed and never forbidden, because the cause may have
gone.

Times are seconds of one clock.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from podium.api.core import Pod
from podium.api.meta import ObjectMeta
from podium.cluster.reader import Child, ClusterReader, group_of
from podium.groups.trees import lineage

_WINDOW_SECONDS: Final = 1800.0
_FIRST_HOLD_SECONDS: Final = 60.0
_LAST_HOLD_SECONDS: Final = 1800.0
# The most evictions and cycles that are remembered; the oldest are dropped first.
_MOST_EVICTIONS: Final = 10_000
_MOST_HOLDS: Final = 1_000


class Identity(NamedTuple):
    """A workload: the controller of its pods or its group, else the pod or group by its own name.

    `uid` is the controller's. Without a controller, a recreated object of the same name is the same workload.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""


class _CycleHold(NamedTuple):
    """The number of repeats of a cycle, and until when it is held; None if it was not asked about since.

    `at` is the time of its last change.
    """

    rounds: int
    until: float | None
    at: float

    def over(self, now: float) -> bool:
        """Return whether the hold ended so long ago that the count restarts."""
        return max(self.at, self.until or self.at) + _WINDOW_SECONDS <= now


class Evictions:
    """The evictions of the last half hour, by workload, and the cycles that are held."""

    def __init__(self) -> None:
        """Start with no evictions."""
        # The latest time of each (by, of), oldest first; and the same by the workload that evicted.
        self._times: dict[tuple[Identity, Identity], float] = {}
        self._evicted: dict[Identity, dict[Identity, None]] = {}
        self._holds: dict[frozenset[Identity], _CycleHold] = {}

    def record(self, by: Identity, of: Identity, now: float) -> None:
        """Record that one workload evicted another."""
        self._expire(now)
        self._times.pop((by, of), None)
        self._times[by, of] = now
        self._evicted.setdefault(by, {})[of] = None
        if len(self._times) > _MOST_EVICTIONS:
            self._drop(*next(iter(self._times)))
        for circle, hold in list(self._holds.items()):
            if by in circle and of in circle:
                self._hold(circle, _CycleHold(hold.rounds + 1, None, now))

    def closes(self, by: Identity, of: Identity, now: float) -> tuple[Identity, ...]:
        """Return the shortest cycle that an eviction would close; empty if there is none.

        It begins with `by` and `of`. Each later workload was evicted by the one before it, and `by` by the
        last.
        """
        self._expire(now)
        # Breadth first from `of`: each workload with the one that evicted it.
        evicted_by: dict[Identity, Identity] = {}
        front = [of]
        while front and by not in evicted_by:
            front = [evicted for last in front for evicted in self._newly(last, evicted_by)]
        if by not in evicted_by:
            return ()
        circle = [by]
        while (last := evicted_by[circle[-1]]) != of:
            circle.append(last)
        between = circle[:0:-1]
        return (by, *between) if by == of else (by, of, *between)

    def wait(self, by: Identity, of: Identity, now: float) -> float:
        """Return the seconds until one workload may evict the other, 0 for now.

        A cycle has to wait for a minute from when it is first asked about. The wait doubles after each
        eviction within the cycle, up to half an hour.
        """
        circle = frozenset(self.closes(by, of, now))
        if not circle:
            return 0.0
        hold = self._holds.get(circle)
        if hold is None or hold.over(now):
            hold = _CycleHold(0, None, now)
        until = hold.until
        if until is None:
            until = now + min(_FIRST_HOLD_SECONDS * 2.0 ** min(hold.rounds, 10), _LAST_HOLD_SECONDS)
        self._hold(circle, _CycleHold(hold.rounds, until, now))
        return max(0.0, until - now)

    def _newly(self, by: Identity, evicted_by: dict[Identity, Identity]) -> Iterator[Identity]:
        """Yield the workloads that one evicted and that are not in `evicted_by`, and add them to it."""
        for evicted in self._evicted.get(by, ()):
            if evicted not in evicted_by:
                evicted_by[evicted] = by
                yield evicted

    def _hold(self, circle: frozenset[Identity], hold: _CycleHold) -> None:
        self._holds.pop(circle, None)
        self._holds[circle] = hold
        if len(self._holds) > _MOST_HOLDS:
            del self._holds[next(iter(self._holds))]

    def _expire(self, now: float) -> None:
        """Forget evictions and holds that are too old."""
        while self._times and next(iter(self._times.values())) + _WINDOW_SECONDS <= now:
            self._drop(*next(iter(self._times)))
        while self._holds:
            circle, hold = next(iter(self._holds.items()))
            if not hold.over(now):
                return
            del self._holds[circle]

    def _drop(self, by: Identity, of: Identity) -> None:
        del self._times[by, of]
        evicted = self._evicted[by]
        del evicted[of]
        if not evicted:
            del self._evicted[by]


def identity_of(pod: Pod, group: Child | None) -> Identity:
    """Return the workload of a pod: its group's, if it is in one that exists."""
    return identity_of_group(group) if group is not None else _identity("Pod", pod.metadata)


def workload_of(view: ClusterReader, pod: Pod | None) -> Identity | None:
    """Return the workload of a pod in a cluster: its tree's or group's, if it has one; None for no pod."""
    if pod is None:
        return None
    group = group_of(view, pod)
    return identity_of(pod, None if group is None else lineage(view, group).root)


def identity_of_group(group: Child) -> Identity:
    """Return the workload of a group, or of the root of a tree."""
    return _identity(group.ref.kind, group.metadata)


def _identity(kind: str, metadata: ObjectMeta) -> Identity:
    namespace, owner = metadata.namespace or "", metadata.controller()
    if owner is None:
        return Identity(kind, namespace, metadata.name or "")
    return Identity(owner.kind, namespace, owner.name, owner.uid)
