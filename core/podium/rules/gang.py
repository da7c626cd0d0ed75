"""The group of a new pod: the group that the pod names, or the group that a pod gets if it asks for one.

A pod asks with `scheduling.podium.dev/gang: auto` in a namespace whose administrator allows it. The pod gets
the label of the group that the controller will create, and the scheduler that the namespace names. The
registration selects these namespaces, because an API server knows a namespace before any cache does. The
pod's own settings are never overridden: neither its group nor a scheduler other than the default.
"""

from typing import Any

import msgspec

from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER, Pod, PodSpec, SchedulingGroup
from podium.api.findings import Severity
from podium.api.groups import GROUP_LABEL
from podium.api.membership import GroupKey, group_name
from podium.api.meta import ObjectMeta
from podium.groups import autogroups
from podium.rules.context import Operation, RuleContext
from podium.rules.fields import RuleRemedy
from podium.rules.podiumrule import AdmissionPhase, OwnRule, WriteTarget, breach
from podium.rules.policy import RuleLevel
from podium.rules.rule import Rule
from podium.rules.schema import Document

# The writes at which pods get their group: in the first phase that alone, in the second also their scheduler.
TARGETS = tuple(
    WriteTarget("Pod", Operation.CREATE, phase)
    for phase in (AdmissionPhase.GANG, AdmissionPhase.SCHEDULED_GANG)
)

WITHOUT_OWNER = OwnRule(
    RuleRemedy(
        Rule(
            id="gang-without-owner",
            severity=Severity.WARNING,
            title="A pod requests a gang, but its workload is not known",
            why="Only a Job, JobSet or LeaderWorkerSet defines which pods form a gang; this pod has "
            "no such owner.",
            source="Podium; auto groups",
        ),
        f"Create the pod by one of these, or name its group in the label {GROUP_LABEL}.",
    ),
    RuleLevel.WARN,
    RuleLevel.WARN,
    TARGETS,
)
_LABEL_PATH = f"/metadata/labels/{GROUP_LABEL.replace('/', '~1')}"


def join(context: RuleContext, new: Document, *, scheduled: bool) -> list[dict[str, Any]]:
    """Return the operations that label a pod with its gang's group; its scheduler is a change of spec.

    The list is empty for a pod that does not ask or has a group. Raises Refused if the rule's level refuses
    pods that ask without an owner that makes gangs.
    """
    if context.ref.kind != "Pod" or context.update or not asks(new) or group_key(context, new) is not None:
        return []
    gang = autogroups.gang_of(Pod(metadata=msgspec.convert(new["metadata"], ObjectMeta)))
    if gang is None:
        message = "no Job, JobSet or LeaderWorkerSet created this pod, so it joins no group"
        breach(context, WITHOUT_OWNER, f"metadata.labels[{autogroups.AUTO_LABEL}]", message)
        return []
    if scheduled and new["spec"].get("schedulerName") in (None, "", DEFAULT_SCHEDULER):
        context.set(new, "schedulerName", PODIUM_SCHEDULER)
    # The pod has labels, because it asks by label.
    return [{"op": "add", "path": _LABEL_PATH, "value": gang.group_name}]


def asks(new: Document) -> bool:
    """Return whether a pod asks for a group."""
    return autogroups.asks(ObjectMeta(labels=new["metadata"].get("labels")))


def group_key(context: RuleContext, new: Document) -> GroupKey | None:
    """Return the key of the group that a pod names, or None."""
    spec = new["spec"].get("schedulingGroup")
    field = SchedulingGroup(podGroupName=spec.get("podGroupName")) if spec else None
    meta = ObjectMeta(labels=new["metadata"].get("labels"))
    served = context.profile.workload_api
    named = group_name(meta, PodSpec(schedulingGroup=field), native_served=served)
    return None if named is None else GroupKey(named[0], context.ref.namespace, named[1])
