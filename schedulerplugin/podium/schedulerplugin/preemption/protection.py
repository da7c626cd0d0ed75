"""Why a pod can never be a victim, whoever preempts, and what of its class a plan had to note.

Podium protects more than kube-scheduler does: the pods that run the cluster, those that belong to a node
(`pinned`), and those of another scheduler where the administrator says so. What a released
kube-scheduler evicts is evicted here too when its semantics are asked for; but a scheduler of ours that goes
by them leaves the pods of the cluster and of its nodes alone.
"""

from collections.abc import Mapping

from podium.api.core import PriorityClass
from podium.api.schedulable import Schedulable
from podium.findings import Finding
from podium.priority import Unparsed, resolve, toleration
from podium.rules.audit.classes import CLASS_MISSING, class_ref
from podium.rules.audit.commands import annotate_class, create_class
from podium.rules.audit.tolerations import TOLERATION_UNREADABLE
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.pinned import is_mirror, of_daemon_set
from podium.schedulerplugin.settings import Settings
from podium.view import View

SYSTEM_NAMESPACE = "kube-system"


def protected(pod: Schedulable, settings: Settings, view: View) -> str | None:
    """Say why a pod is never a victim; None if it may be one."""
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


def class_finding(class_name: str, classes: Mapping[str, PriorityClass]) -> Finding | None:
    """Name what is wrong with a class that potential victims name; None if nothing is."""
    ref = class_ref(class_name)
    found = classes.get(class_name)
    if found is None:
        if resolve(classes, class_name) is not None:
            return None
        return CLASS_MISSING.finding(
            ref,
            "",
            "it does not exist, yet pods or groups name it: their preemption toleration is unknown, so only "
            "preemptors of system classes may evict them.",
            f"{create_class(class_name, '<their priority>')}, or name another class in their templates",
        )
    read = toleration(found)
    if not isinstance(read, Unparsed):
        return None
    return TOLERATION_UNREADABLE.finding(
        ref,
        f"metadata.annotations[{read.key}]",
        f"{read.text!r} is no integer of its size: both toleration annotations are ignored, and pods of the "
        "class may be victims at once.",
        annotate_class(class_name, f"{read.key}=<integer>"),
    )
