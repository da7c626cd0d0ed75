"""Workloads that evict each other in turn: A evicts B, B comes back and evicts A, and nobody gets anywhere.

With priorities that never change this cannot be, and every plan on the way looks right by itself; but classes
are recreated, groups lose priority by what they differ in, tolerations expire, and controllers make evicted
pods anew. So who evicted whom is remembered by what outlives the pods, and an eviction that would close a
circle has to wait, longer each time the circle goes round: it is slowed down, never forbidden, for the reason
may have gone.

Times are seconds of one clock.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from podium.api.core import Pod
from podium.api.groups import PodGroup
from podium.api.meta import ObjectMeta
from podium.view import View, group_of

_WINDOW_SECONDS: Final = 1800.0
_FIRST_HOLD_SECONDS: Final = 60.0
_LAST_HOLD_SECONDS: Final = 1800.0
# Evictions and circles that are remembered at most; the oldest go first.
_MOST_EVICTIONS: Final = 10_000
_MOST_HOLDS: Final = 1_000


class Identity(NamedTuple):
    """A workload: what controls its pods or its group, else these by their own name.

    `uid` is the controller's; what has none is the same for who makes it anew under its name.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""


class _Hold(NamedTuple):
    """How often a circle went round, and until when it may not do so again; None if nobody asked since.

    It was last heard of `at`.
    """

    rounds: int
    until: float | None
    at: float

    def over(self, now: float) -> bool:
        """Say whether it went round so long ago that it begins anew."""
        return max(self.at, self.until or self.at) + _WINDOW_SECONDS <= now


class Evictions:
    """Who evicted whom within the last half hour, and which circles are held up."""

    def __init__(self) -> None:
        """Nobody evicted anybody."""
        # The latest time of each (by, of), the oldest first; and the same by who evicted.
        self._times: dict[tuple[Identity, Identity], float] = {}
        self._evicted: dict[Identity, dict[Identity, None]] = {}
        self._holds: dict[frozenset[Identity], _Hold] = {}

    def note(self, by: Identity, of: Identity, now: float) -> None:
        """Note that one evicted the other."""
        self._forget(now)
        self._times.pop((by, of), None)
        self._times[by, of] = now
        self._evicted.setdefault(by, {})[of] = None
        if len(self._times) > _MOST_EVICTIONS:
            self._drop(*next(iter(self._times)))
        for circle, hold in list(self._holds.items()):
            if by in circle and of in circle:
                self._keep(circle, _Hold(hold.rounds + 1, None, now))

    def closes(self, by: Identity, of: Identity, now: float) -> tuple[Identity, ...]:
        """Give the shortest circle that one evicting the other would close; empty where there is none.

        It begins with `by` and `of`; after that each was evicted by the one before, as `by` was by the last.
        """
        self._forget(now)
        # Breadth first from `of`, each with who evicted it.
        evicted_by: dict[Identity, Identity] = {}
        front = [of]
        while front and by not in evicted_by:
            front = [each for last in front for each in self._newly(last, evicted_by)]
        if by not in evicted_by:
            return ()
        circle = [by]
        while (last := evicted_by[circle[-1]]) != of:
            circle.append(last)
        others = circle[:0:-1]
        return (by, *others) if by == of else (by, of, *others)

    def wait(self, by: Identity, of: Identity, now: float) -> float:
        """Give the seconds until one may evict the other, 0 for now.

        A circle has to wait for a minute from when it is first asked about, twice as long the next time one
        of it evicts another, and half an hour at most.
        """
        circle = frozenset(self.closes(by, of, now))
        if not circle:
            return 0.0
        hold = self._holds.get(circle)
        if hold is None or hold.over(now):
            hold = _Hold(0, None, now)
        until = hold.until
        if until is None:
            until = now + min(_FIRST_HOLD_SECONDS * 2.0 ** min(hold.rounds, 10), _LAST_HOLD_SECONDS)
        self._keep(circle, _Hold(hold.rounds, until, now))
        return max(0.0, until - now)

    def _newly(self, by: Identity, evicted_by: dict[Identity, Identity]) -> Iterator[Identity]:
        """Give whom one evicted that was not met before, and note that."""
        for each in self._evicted.get(by, ()):
            if each not in evicted_by:
                evicted_by[each] = by
                yield each

    def _keep(self, circle: frozenset[Identity], hold: _Hold) -> None:
        self._holds.pop(circle, None)
        self._holds[circle] = hold
        if len(self._holds) > _MOST_HOLDS:
            del self._holds[next(iter(self._holds))]

    def _forget(self, now: float) -> None:
        """Forget what is too long ago."""
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


def identity_of(pod: Pod, group: PodGroup | None) -> Identity:
    """Give the workload of a pod: its group's, where it is in one that exists."""
    return identity_of_group(group) if group is not None else _identity("Pod", pod.metadata)


def workload_of(view: View, pod: Pod | None) -> Identity | None:
    """Give the workload of a pod in a cluster; None for no pod."""
    return None if pod is None else identity_of(pod, group_of(view, pod))


def identity_of_group(group: PodGroup) -> Identity:
    """Give the workload of a group."""
    return _identity("PodGroup", group.metadata)


def _identity(kind: str, metadata: ObjectMeta) -> Identity:
    namespace, owner = metadata.namespace or "", metadata.controller()
    if owner is None:
        return Identity(kind, namespace, metadata.name or "")
    return Identity(owner.kind, namespace, owner.name, owner.uid)
