"""Decides which pods are never victims of any preemptor, and reports problems of their classes.

Podium protects more than kube-scheduler does: the pods that run the cluster, and pods that belong to a node
(`pinned`). It also protects pods of another scheduler if the administrator says so. Under the semantics of a
release, the victims are those of that release's kube-scheduler. But a live scheduler of ours with such
semantics still spares the pods of the cluster and of its nodes.
"""

from collections.abc import Iterator, Mapping

from podium.api.core import PriorityClass
from podium.api.schedulable import Schedulable
from podium.findings import Finding
from podium.priority import resolve
from podium.rules.audit.classes import CLASS_MISSING, class_ref
from podium.rules.audit.commands import create_class
from podium.rules.audit.tolerations import unreadable
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.pinned import is_mirror, of_daemon_set
from podium.schedulerplugin.settings import Settings
from podium.view import View

SYSTEM_NAMESPACE = "kube-system"


def protected(pod: Schedulable, settings: Settings, view: View) -> str | None:
    """Return why a pod is never a victim; None if it may be one."""
    scheduler = pod.scheduler
    if settings.evict_only not in (None, scheduler):
        return f"it belongs to {scheduler}, and only pods of {settings.evict_only} are evicted"
    if settings.semantics is not Semantics.KEP and not settings.spares_system:
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
    found = classes.get(class_name)
    if found is not None:
        yield from unreadable(found)
    elif resolve(classes, class_name) is None:
        yield CLASS_MISSING.finding(
            class_ref(class_name),
            "",
            "it does not exist, yet pods or groups name it: their preemption toleration is unknown, so only "
            "preemptors of system classes may evict them.",
            f"{create_class(class_name, '<their priority>')}, or name another class in their templates",
        )
