"""The groups of a cluster, and its pods in no group, by priority and state: the first page of `podium ui`.

Pure: a view in, rows out, counted once per reading; pages select rows. The state of a row is that of `podium
why`, so the two never disagree. A past preemption or a divergence is not a state: a preempted group waits
again, or is leaving.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from podium.answers.accounts.explain import group_state, state_of
from podium.answers.accounts.model import RunState
from podium.api.groups import PodGroup
from podium.api.membership import GroupKey, membership
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, held_devices
from podium.groups.divergence import measure_divergence
from podium.planner.preemption.inflight import is_preempted, preempts
from podium.text import natural

# The order of states in lists: those that may need action come first.
STATES = (
    *(RunState.WAITING, RunState.LEAVING, RunState.STARTING),
    *(RunState.RUNNING, RunState.FINISHED, RunState.EMPTY),
)


class CensusRow(NamedTuple):
    """A group, or a pod in no group.

    `pods` counts its pods by state, `differing` its live pods with another priority than the group. `held`
    are the accelerators of its pods, by resource or driver. `exists` is false for a group that pods name but
    that does not exist. `key` is None for a pod.
    """

    key: GroupKey | None
    namespace: str
    name: str
    priority: int
    class_name: str
    state: RunState
    preempted: bool
    pods: Mapping[RunState, int]
    held: Mapping[str, int]
    differing: int = 0
    min_count: int | None = None
    exists: bool = True

    @property
    def is_group(self) -> bool:
        """Return whether it is a group."""
        return self.key is not None


class PriorityLevel(NamedTuple):
    """All of one priority: its class names, groups and lone pods by state, and their accelerators."""

    priority: int
    classes: tuple[str, ...]
    groups: Mapping[RunState, int]
    pods: Mapping[RunState, int]
    held: Mapping[str, int]


class Census(NamedTuple):
    """The whole cluster, the highest priority first."""

    rows: tuple[CensusRow, ...]
    levels: tuple[PriorityLevel, ...]


def census(view: ClusterReader) -> Census:
    """Return the census of a cluster that was read for scheduling."""
    rows = [_group(key, view) for key in {**view.groups, **view.referenced_groups()}]
    rows += [
        _pod(pod, view)
        for pod in view.pods.values()
        if isinstance(pod, Schedulable) and membership(pod, native_served=view.native_served) is None
    ]
    rows.sort(key=_order)
    return Census(tuple(rows), tuple(_levels(rows)))


def _order(row: CensusRow) -> tuple[object, ...]:
    state = STATES.index(row.state)
    return -row.priority, state, not row.is_group, natural(row.namespace), natural(row.name)


def _group(key: GroupKey, view: ClusterReader) -> CensusRow:
    group = view.groups.get(key)
    members = [pod for pod in view.members(key).values() if isinstance(pod, Schedulable)]
    by_state: dict[RunState, list[Schedulable]] = defaultdict(list)
    for pod in members:
        by_state[state_of(pod)].append(pod)
    state = group_state(by_state, group)
    placed = state in (RunState.STARTING, RunState.RUNNING)
    gone = not placed and any(map(is_preempted, (*by_state[RunState.LEAVING], *by_state[RunState.FINISHED])))
    # The group's own condition outlives its pods until the group is scheduled again.
    marked = not placed and group is not None and any(map(preempts, group.conditions))
    return CensusRow(
        key=key,
        namespace=key.namespace,
        name=key.name,
        priority=_priority(group, members),
        class_name=group.priority_class_name if group is not None else "",
        state=state,
        preempted=gone or marked,
        differing=measure_divergence(group, members).priority.live if group is not None else 0,
        pods={pod_state: len(by_state[pod_state]) for pod_state in STATES if by_state[pod_state]},
        min_count=group.min_count if group is not None else None,
        exists=group is not None,
        held=held_devices((pod for pod in members if pod.holding), view),
    )


def _pod(pod: Schedulable, view: ClusterReader) -> CensusRow:
    state = state_of(pod)
    return CensusRow(
        key=None,
        namespace=pod.metadata.namespace or "",
        name=pod.metadata.name or "",
        priority=pod.spec.priority or 0,
        class_name=pod.spec.priorityClassName or "",
        state=state,
        preempted=is_preempted(pod),
        pods={state: 1},
        held=held_devices((pod,) if pod.holding else (), view),
    )


def _priority(group: PodGroup | None, members: Iterable[Schedulable]) -> int:
    """Return the priority of a group; for a missing group, the highest of the pods that name it."""
    if group is not None:
        return group.priority or 0
    return max((pod.spec.priority or 0 for pod in members), default=0)


def _levels(rows: Iterable[CensusRow]) -> Iterable[PriorityLevel]:
    by_priority: dict[int, list[CensusRow]] = {}
    for row in rows:
        by_priority.setdefault(row.priority, []).append(row)
    for priority, level in by_priority.items():
        held: Counter[str] = Counter()
        for row in level:
            held.update(row.held)
        yield PriorityLevel(
            priority,
            tuple(sorted({row.class_name for row in level} - {""})),
            Counter(row.state for row in level if row.is_group),
            Counter(row.state for row in level if not row.is_group),
            held,
        )
