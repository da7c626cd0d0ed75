"""Why a pod can never be a victim, whoever preempts, and what of its class a plan had to note.

Podium protects more than kube-scheduler does: the pods that run the cluster, and those of another scheduler
where the administrator says so. What a released
kube-scheduler evicts is evicted here too when its semantics are asked for; but a scheduler of ours that goes
by them leaves the cluster's own pods alone.
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
from podium.schedulerplugin.settings import Settings

SYSTEM_NAMESPACE = "kube-system"


def protected(pod: Schedulable, settings: Settings) -> str | None:
    """Say why a pod is never a victim; None if it may be one."""
    scheduler = pod.scheduler
    if settings.evict_only not in (None, scheduler):
        return f"it belongs to {scheduler}, and only pods of {settings.evict_only} are evicted"
    as_specified = settings.semantics is Semantics.KEP
    if pod.metadata.namespace == SYSTEM_NAMESPACE and (as_specified or settings.spares_system):
        return "it is one of the cluster's own, which are never evicted"
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
