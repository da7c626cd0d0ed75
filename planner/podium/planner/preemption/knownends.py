"""Known ends: whether a preemptor gets room without an eviction, from pods that end by themselves in time.

A pod has a known end by its activeDeadlineSeconds, or its Job's, or by the run time that it or its group
declares. A group or a PriorityClass says how long a preemptor waits for such ends at most, from when room was
first missing on. The preemption delay counts too, because nothing is evicted before its end anyway. Without
these annotations no preemptor waits, and none of a system class does.

A wait needs a place for the preemptor once pods have ended within the longest wait, beside the room that
others of no lower priority have reserved. So two preemptors never wait for the same end. The end of a pod
that outlives it counts no more.
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec
import numpy as np

from podium.api import durations
from podium.api.core import POD_SCHEDULED, UNSCHEDULABLE, PriorityClass
from podium.api.meta import instant
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import LONGEST_WAIT_FOR_ROOM, PREEMPTION_DELAY
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.outcome import ObjectNamer, Outcome
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.targetplacement import TargetPlacer
from podium.planner.preemption.unitarrays import UnitArrays
from podium.planner.progress import gone_by_job, job_of
from podium.planner.snapshot import Snapshot
from podium.text import some

_LONGEST: Final = 24 * 3600.0


def preemption_delay(group: Child | None, priority_class: PriorityClass | None) -> timedelta:
    """Return the longer of the delays in the annotations of a group and of the preemptor's class.

    An annotation that cannot be read, or says more than 24 hours, is ignored.
    """
    return max(_length(obj, PREEMPTION_DELAY) for obj in (group, priority_class))


def longest_wait(group: Child | None, priority_class: PriorityClass | None, priority: int) -> timedelta:
    """Return how long a preemptor waits at most for known ends, from when room was first missing on."""
    if priority > HIGHEST_USER_PRIORITY:
        return timedelta(0)
    wait = max(_length(obj, LONGEST_WAIT_FOR_ROOM) for obj in (group, priority_class))
    return max(wait, preemption_delay(group, priority_class))


def class_of(view: ClusterReader, snapshot: Snapshot, target: PlacementTarget) -> PriorityClass | None:
    """Return the class that a preemptor counts as."""
    if target.group is not None:
        return view.classes.get(target.group.priority_class_name)
    return view.classes.get(snapshot.pod_at(target.rows[0]).spec.priorityClassName or "")


def no_room_since(snapshot: Snapshot, target: PlacementTarget, now: datetime) -> datetime:
    """Return since when the statuses of a preemptor's pods report no room; `now` if none does."""
    reported = (_unscheduled_since(snapshot.pods[row]) for row in target.rows)
    return min([now, *(time for time in reported if time is not None)])


def by_ends(
    placer: TargetPlacer, units: UnitArrays, preemption: Decision, now: int, until: int
) -> Decision | None:
    """Return the decision that waits for known ends up to `until`, in place of a preemption; None to preempt.

    It waits for as few seconds as possible, and places as many pods as the preemption. The snapshot is in a
    trial, in which nominated pods count on their nodes.
    """
    target, snapshot = preemption.target, units.snapshot
    assert target is not None, "a preemption has a preemptor"
    ends = units.gone_by[snapshot.node >= 0]
    times = np.unique(ends[(now < ends) & (ends <= until)])
    if not len(times):
        return None
    search = placer.search(target)
    leaving = units.freeing(now)

    def placed_at(at: int) -> Decision | None:
        ended = (now < units.gone_by) & (units.gone_by <= times[at])
        rows = np.flatnonzero((leaving | ended) & (snapshot.node >= 0))
        nodes = snapshot.node[rows]
        with snapshot.trial():
            snapshot.remove_many(rows)
            placed = placer.place(search).placed
        if placed is None or len(placed) < len(preemption.placed):
            return None
        near = rows[np.isin(nodes, list(set(placed.values())))]
        awaited = tuple((near if len(near) else rows).tolist())
        return preemption._replace(
            outcome=Outcome.FITS_AFTER_WAIT,
            placed=placed,
            chosen=None,
            awaited=awaited,
            room_at=times.item(at),
            choices=(),
        )

    first, last = 0, len(times) - 1
    best = placed_at(last)
    while best is not None and first < last:
        middle = (first + last) // 2
        earlier = placed_at(middle)
        if earlier is None:
            first = middle + 1
        else:
            best, last = earlier, middle
    return best


def ends_in_words(view: ClusterReader, units: UnitArrays, decision: Decision, namer: ObjectNamer) -> str:
    """Return the ends that a decision waits for: those of pods, and the deadlines of Jobs, each Job once."""
    pods, jobs = set[str](), set[str]()
    for row in decision.awaited:
        pod, gone_by = units.snapshot.pod_at(row), units.gone_by.item(row)
        job = job_of(view, pod) if gone_by and gone_by == gone_by_job(view, pod) else None
        metadata = (pod if job is None else job).metadata
        kind, names = ("Pod", pods) if job is None else ("Job", jobs)
        names.add(namer(kind, metadata.namespace or "", metadata.name or ""))
    parts = [f"the end of {some(pods)}"] if pods else []
    if jobs:
        parts.append(f"the {'deadline' if len(jobs) == 1 else 'deadlines'} of Job {some(jobs)}")
    return " and ".join(parts)


def _length(obj: Child | PriorityClass | None, annotation: str) -> timedelta:
    text = (obj.metadata.annotations or {}).get(annotation) if obj is not None else None
    length = durations.seconds(text) if text is not None else None
    return timedelta(seconds=length if length is not None and length <= _LONGEST else 0)


def _unscheduled_since(pod: Schedulable | None) -> datetime | None:
    """Return since when a pod's status reports no room; None if it does not, or has no time."""
    if pod is None or pod.status is None:
        return None
    condition, created = pod.status.condition(POD_SCHEDULED), pod.metadata.creationTimestamp
    if condition is None or (condition.status, condition.reason) != ("False", UNSCHEDULABLE):
        return None
    try:
        changed = instant(condition.lastTransitionTime or "")
        # Any writer of a status can write any time, but only the server sets the creation time.
        return max(changed, instant(created)) if created else changed
    except msgspec.ValidationError:
        return None
