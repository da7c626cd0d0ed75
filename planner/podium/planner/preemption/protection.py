"""Decides which running pods are protected from preemption: always, or while their class tolerates it.

Podium protects more pods than kube-scheduler: the pods of kube-system, and pods that belong to
a node. It also protects pods of another scheduler if the administrator says so. Under the semantics of a
release, the victims are those of that release's kube-scheduler. But a live scheduler of ours with such
semantics still spares the pods of the cluster and of its nodes.

The unit of a pod may be a whole composite group. While such a group is unknown, the pod is protected.

Pods that belong to a node are mirrors of static pods, and pods of DaemonSets. Evicting one is futile: its
kubelet or its DaemonSet creates it again for the same node, where it competes with the preemptor. But a
tenant may write any annotation, owner or affinity into a pod, so none of these is proof alone. The part that
the API server can confirm counts: the owner exists, with that UID. The owner undoes the rest. A kubelet
deletes mirror pods that it has no static pod for. The DaemonSet controller deletes all pods of a DaemonSet on
a node but one, and disowns those that its selector does not match.

Preemption toleration is counted as the scheduler-plugins plugin counts it (pkg/preemptiontoleration), which
judges pod by pod. A plan judges many pods of few classes, so a class's grant is computed once, as the minimum
and an end by pod. A group that is evicted as a whole has one end, which starts at its own first scheduling:
recreated members must not extend it.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from podium.api.core import MIRROR, POD_SCHEDULED, PriorityClass
from podium.api.findings import Finding, ObjectRef
from podium.api.groups import COMPOSITE_INITIALLY_SCHEDULED, GROUP_SCHEDULED, INITIALLY_SCHEDULED, PodGroup
from podium.api.meta import Condition, OwnerReference, instant
from podium.api.podkinds.workloads import JOB_KEY
from podium.api.priority import SYSTEM_CLASSES, UNKNOWN_TOLERATION, PreemptionToleration, resolve, toleration
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.audit.classes import CLASS_MISSING
from podium.cluster.reader import Child, ClusterReader
from podium.groups.trees import flaw
from podium.planner.settings import Settings
from podium.planner.snapshot import Problem
from podium.rules.commands import class_ref, create_class
from podium.rules.tolerations import unreadable
from podium.text import listed

DAEMON_SET = ("apps/v1", "DaemonSet")


def deciding_owner(pod: Schedulable) -> str | None:
    """Return the UID of the DaemonSet or Job that a pod names as its controller, None if it names neither."""
    owner = _controller(pod, DAEMON_SET) or _controller(pod, JOB_KEY)
    return None if owner is None else owner.uid


def of_daemon_set(pod: Schedulable, view: ClusterReader) -> bool:
    """Return whether a DaemonSet that exists made a pod for the node where the pod is.

    If DaemonSets could not be read, it is enough that the pod names one.
    """
    owner = _controller(pod, DAEMON_SET)
    if owner is None or not _made_for_its_node(pod):
        return False
    stored = view.owners.get(ObjectRef(*DAEMON_SET, pod.metadata.namespace or "", owner.name))
    return stored.metadata.uid == owner.uid if stored is not None else Kind.OWNER in view.unread


def is_mirror(pod: Schedulable, view: ClusterReader) -> bool:
    """Return whether a kubelet made a pod, as the mirror of a static pod on its node."""
    owner = _controller(pod, ("v1", "Node"))
    if owner is None or MIRROR not in (pod.metadata.annotations or {}):
        return False
    node = view.nodes.get(owner.name)
    return owner.name == pod.spec.nodeName and node is not None and node.metadata.uid == owner.uid


def _controller(pod: Schedulable, kind: tuple[str, str]) -> OwnerReference | None:
    owner = pod.metadata.controller()
    return owner if owner is not None and (owner.apiVersion, owner.kind) == kind else None


def _made_for_its_node(pod: Schedulable) -> bool:
    """Return whether the node affinity is in the DaemonSet controller's form: the name of one node."""
    required = pod.spec.required_nodes
    terms = (required.nodeSelectorTerms if required is not None else None) or ()
    fields = [field for term in terms for field in term.matchFields or ()]
    return len(terms) == 1 and [(field.key, field.operator, field.values) for field in fields] == [
        ("metadata.name", "In", [pod.spec.nodeName])
    ]


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


def exemption(priority_class: PriorityClass | None, class_name: str) -> Exemption | None:
    """Return the exemption that a victim's class grants, None for a victim without a class.

    `priority_class` is the class of that name, if there is one. Without annotations it is the plugin's
    default, value + 1 and 0 seconds. That exempts a pod only if its own priority is below its class's. An
    unknown grant, because the class does not exist or an annotation does not parse, counts as
    UNKNOWN_TOLERATION.
    """
    if not class_name:
        return None
    if priority_class is None:
        value = SYSTEM_CLASSES.get(class_name)
        read = UNKNOWN_TOLERATION if value is None else PreemptionToleration(value + 1, 0)
    else:
        read = toleration(priority_class) or PreemptionToleration((priority_class.value or 0) + 1, 0)
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


def unknown_grant(priority_class: PriorityClass | None, class_name: str) -> str:
    """Return why the grant of a class is unknown ("gold does not exist"), empty if it is known."""
    if priority_class is None:
        return f"{class_name} does not exist" if class_name and class_name not in SYSTEM_CLASSES else ""
    read = toleration(priority_class)
    keys = [] if read is None else [annotation.key for annotation in read.unparsed]
    return f"{class_name} has annotations that are no integers ({listed(keys)})" if keys else ""


def group_until(granted: Exemption, earliest: int, group: Child) -> int:
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
    first = (
        _second(condition.lastTransitionTime) for condition in group.conditions if _says_scheduled(condition)
    )
    return min([earliest, *(granted.until(second) for second in first if second is not None)])


def scheduled_at(pod: Schedulable) -> int | None:
    """Return the second since 1970 at which a pod was scheduled; None if PodScheduled is missing or not True.

    An unreadable time counts as None too, which exempts the pod rather than evicting it by mistake.
    """
    try:
        return _scheduled(pod)
    except msgspec.ValidationError:
        return None


def scheduled_time_problem(pod: Schedulable) -> Problem | None:
    """Return a Problem if the time at which a pod was scheduled is unreadable, else None."""
    try:
        _scheduled(pod)
    except msgspec.ValidationError:
        ref = ObjectRef("v1", "Pod", pod.metadata.namespace or "", pod.metadata.name or "")
        why = "lastTransitionTime of PodScheduled is no time such as 2026-01-31T12:00:00Z"
        return Problem(ref, "status.conditions", why)
    return None


def _says_scheduled(condition: Condition) -> bool:
    scheduled = (INITIALLY_SCHEDULED, GROUP_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED)
    return condition.type in scheduled and condition.status == "True"


def _second(written: str | None) -> int | None:
    """Return the second of a written time, None for no time or an unreadable one."""
    try:
        return seconds(instant(written)) if written else None
    except msgspec.ValidationError:
        return None


def _scheduled(pod: Schedulable) -> int | None:
    condition = pod.status.condition(POD_SCHEDULED) if pod.status is not None else None
    if condition is None or condition.status != "True":
        return None
    return seconds(instant(condition.lastTransitionTime or _ZERO_TIME))


SYSTEM_NAMESPACE = "kube-system"


def unknown_tree(group: PodGroup | None, settings: Settings, view: ClusterReader) -> str:
    """Return why the tree of a group is unknown, and so the units of its pods; empty if it is known."""
    if group is None or not group.composite or not settings.semantics.rules.spares_system:
        return ""
    return flaw(view, group)


def protected(
    pod: Schedulable, group: PodGroup | None, settings: Settings, view: ClusterReader
) -> str | None:
    """Return why a pod of a group, or of none, is never a victim; None if it may be one."""
    scheduler = pod.scheduler
    if settings.evict_only not in (None, scheduler):
        return f"it belongs to {scheduler}, and only pods of {settings.evict_only} are evicted"
    unknown = unknown_tree(group, settings, view)
    if unknown:
        return f"its group belongs to an unknown tree: {unknown}"
    if not settings.semantics.rules.spares_system and not settings.spares_system:
        return None
    if pod.metadata.namespace == SYSTEM_NAMESPACE:
        return "it is one of the cluster's own, which are never evicted"
    if of_daemon_set(pod, view):
        return "a DaemonSet made it for its node, and would make it again there"
    if is_mirror(pod, view):
        return "it is the mirror of a static pod, which its node would make again"
    return None


def class_findings(class_name: str, classes: Mapping[str, PriorityClass]) -> Iterator[Finding]:
    """Yield the problems of the preemption toleration of a class that potential victims name."""
    priority_class = classes.get(class_name)
    if priority_class is not None:
        yield from unreadable(priority_class)
    elif resolve(classes, class_name) is None:
        yield CLASS_MISSING.finding(
            class_ref(class_name),
            "",
            "it does not exist, yet pods or groups name it: their preemption toleration is unknown, so only "
            "preemptors of system classes may evict them.",
            f"{create_class(class_name, '<their priority>')}; or name another class in their templates",
        )
