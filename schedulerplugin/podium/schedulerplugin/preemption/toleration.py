"""Computes how long a victim's PriorityClass blocks preemptors, counted as the scheduler-plugins plugin does.

The plugin (pkg/preemptiontoleration) judges pod by pod. A plan judges many pods of few classes, so a class's
grant is computed once, as the minimum and an end by pod. A group that is evicted as a whole has one end,
which starts at its own first scheduling: recreated members must not extend it. A preemptor that may not
preempt at all (preemptionPolicy Never) is refused before this module is used.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from podium.api.core import PriorityClass
from podium.api.groups import GROUP_SCHEDULED, INITIALLY_SCHEDULED, PodGroup
from podium.api.meta import Condition, instant
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.findings import ObjectRef
from podium.priority import SYSTEM_CLASSES, UNKNOWN_TOLERATION, Toleration, toleration
from podium.schedulerplugin.snapshot import Problem
from podium.wording import listed

# The end of a toleration without end, in seconds since 1970: no clock reaches it.
FOREVER = 2**63 - 1

# A condition without a time changed in the year 1, as a Go program reads it.
_ZERO_TIME = "0001-01-01T00:00:00Z"


class Exemption(NamedTuple):
    """Preemptors of a priority below `minimum` have to wait `seconds` after the victim was scheduled."""

    minimum: int
    seconds: int

    def until(self, scheduled: int | None) -> int:
        """Return the first second since 1970 at which they need not wait.

        It is FOREVER for negative seconds, and for a pod that is not scheduled (None), even with 0 seconds.
        """
        if self.seconds < 0 or scheduled is None:
            return FOREVER
        # Seconds beyond the range of a Go duration (292 years) overflow in the plugin; here they do not.
        return min(scheduled + self.seconds, FOREVER)


def exemption(found: PriorityClass | None, class_name: str) -> Exemption | None:
    """Return the exemption that a victim's class grants, None for a victim without a class.

    `found` is the class of that name, if there is one. Without annotations it is the plugin's default, value
    + 1 and 0 seconds. That exempts a pod only if its own priority is below its class's. An unknown grant,
    because the class does not exist or an annotation does not parse, counts as UNKNOWN_TOLERATION.
    """
    if not class_name:
        return None
    if found is None:
        value = SYSTEM_CLASSES.get(class_name)
        read = UNKNOWN_TOLERATION if value is None else Toleration(value + 1, 0)
    else:
        read = toleration(found) or Toleration((found.value or 0) + 1, 0)
    return Exemption(read.minimum_preemptable_priority, read.seconds)


def can_tolerate_preemption(
    victim: Schedulable, preemptor: Schedulable, classes: Mapping[str, PriorityClass], now: datetime
) -> bool:
    """Return whether a running pod tolerates preemption by another: CanToleratePreemption of the proposal.

    Both count as lone pods. In a plan, a member of a group counts with the group's class, priority and time.
    """
    name = victim.spec.priorityClassName or ""
    granted = exemption(classes.get(name), name)
    if granted is None or (preemptor.spec.priority or 0) >= granted.minimum:
        return False
    return seconds(now) < granted.until(scheduled_at(victim))


def doubt(found: PriorityClass | None, class_name: str) -> str:
    """Return why the grant of a class is unknown ("gold does not exist"), empty if it is known."""
    if found is None:
        return f"{class_name} does not exist" if class_name and class_name not in SYSTEM_CLASSES else ""
    read = toleration(found)
    keys = [] if read is None else [each.key for each in read.unparsed]
    return f"{class_name} has annotations that are no integers ({listed(keys)})" if keys else ""


def group_until(granted: Exemption, earliest: int, group: PodGroup) -> int:
    """Return the first second since 1970 at which preemptors of a whole group need not wait.

    `earliest` is the earliest of the ends that its members would have as lone pods. The group's own condition
    that it was scheduled starts the time as well: no tenant may write it, and it is never withdrawn. A group
    younger than the scheduling of a member was recreated under running pods, which would restart the time.
    Its toleration is over.
    """
    if granted.seconds < 0:
        return FOREVER
    made = _second(group.metadata.creationTimestamp)
    if earliest != FOREVER and made is not None and earliest - granted.seconds < made:
        return 0
    first = (_second(each.lastTransitionTime) for each in group.conditions if _says_scheduled(each))
    return min([earliest, *(granted.until(second) for second in first if second is not None)])


def scheduled_at(pod: Schedulable) -> int | None:
    """Return the second since 1970 at which a pod was scheduled; None if PodScheduled is missing or not True.

    An unreadable time counts as None too, which exempts the pod rather than evicting it by mistake.
    """
    try:
        return _scheduled(pod)
    except msgspec.ValidationError:
        return None


def problem(pod: Schedulable) -> Problem | None:
    """Return a Problem if the time at which a pod was scheduled is unreadable, else None."""
    try:
        _scheduled(pod)
    except msgspec.ValidationError:
        ref = ObjectRef("v1", "Pod", pod.metadata.namespace or "", pod.metadata.name or "")
        why = "lastTransitionTime of PodScheduled is no time such as 2026-01-31T12:00:00Z"
        return Problem(ref, "status.conditions", why)
    return None


def _says_scheduled(condition: Condition) -> bool:
    return condition.type in (INITIALLY_SCHEDULED, GROUP_SCHEDULED) and condition.status == "True"


def _second(written: str | None) -> int | None:
    """Return the second of a written time, None for no time or an unreadable one."""
    try:
        return seconds(instant(written)) if written else None
    except msgspec.ValidationError:
        return None


def _scheduled(pod: Schedulable) -> int | None:
    condition = pod.status.condition("PodScheduled") if pod.status is not None else None
    if condition is None or condition.status != "True":
        return None
    return seconds(instant(condition.lastTransitionTime or _ZERO_TIME))
