"""Chooses the writes that a preemption needs before its first delete, each with its reader.

An API server takes milliseconds for a write, so a preemption with fewer writes is faster. Two readers cannot
wait. The next leader resumes from a record if this process ends between two deletes. A controller decides by
the condition DisruptionTarget of a pod that ends: a Job's podFailurePolicy does not count it as a failure.
All other writes only inform, and `live.status` makes them if the preemption lasts.

A lone pod that preempts lone pods needs no record under the spec's rule. The room of the deleted pods counts
as free for the next leader, and no other plan costs less than the rest of this one. The rules of
kube-scheduler's releases do not have this property, so under those rules everything is announced as
kube-scheduler does.
"""

from typing import NamedTuple

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.terminating import LONGEST_GRACE_SECONDS
from podium.schedulerplugin.scheduling.conditions import group_of
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Unit
from podium.view import View

# The API groups of controllers that read no condition of a pod but Ready: ReplicaSet, StatefulSet, DaemonSet
# and ReplicationController. Any other controller may read others.
_INDIFFERENT = ("apps/v1", "v1")


class Announcements(NamedTuple):
    """Nominations, victims to be marked, and groups to be marked in place of their pods."""

    nominations: tuple[tuple[PodRef, str], ...]
    marks: tuple[PodRef, ...]
    groups: tuple[Unit, ...]


def announcements(view: View, evict: Evict, semantics: Semantics) -> Announcements:
    """Return what must be written before the first delete of a preemption."""
    if semantics is not Semantics.KEP:
        return Announcements(evict.nominations, evict.victims, ())
    recorded = evict.preemptor.kind != "pod" or any(len(unit.pods) > 1 for unit in evict.units)
    marks: list[PodRef] = []
    groups: list[Unit] = []
    for unit in evict.units:
        as_group = recorded and group_of(view, unit) is not None
        if as_group:
            groups.append(unit)
        by_pod = recorded and not as_group
        marks += [ref for ref in unit.pods if by_pod or _is_read(view, ref)]
    return Announcements((), tuple(marks), tuple(groups))


def _is_read(view: View, ref: PodRef) -> bool:
    """Return whether a reader decides by the mark of a pod: its controller, or Podium if it ends slowly."""
    pod = view.pods.get(ref.key)
    if not isinstance(pod, Schedulable):
        return False
    controller = pod.metadata.controller()
    if controller is not None and controller.apiVersion not in _INDIFFERENT:
        return True
    return (pod.spec.terminationGracePeriodSeconds or 0) > LONGEST_GRACE_SECONDS
