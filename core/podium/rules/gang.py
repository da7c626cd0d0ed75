"""The group of a new pod: the group that the pod names, or the group that a pod gets if it asks for one.

A pod asks with `scheduling.podium.dev/gang: auto` in a namespace whose administrator allows it. The pod gets
the label of the group that the controller will create, and the scheduler that the namespace names. The
registration selects these namespaces, because an API server knows a namespace before any cache does. The
pod's own settings are never overridden: neither its group nor a scheduler other than the default.
"""

from typing import Any

import msgspec

from podium import gangs
from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER, Pod, PodSpec, SchedulingGroup
from podium.api.groups import GROUP_LABEL
from podium.api.membership import GroupKey, group_name
from podium.api.meta import ObjectMeta
from podium.findings import Severity
from podium.rules.case import Case, Operation
from podium.rules.fields import Cause
from podium.rules.ownrule import OwnRule, breach
from podium.rules.policy import Level
from podium.rules.rule import Rule
from podium.rules.shape import Document
from podium.rules.target import Phase, Target

# The writes at which pods get their group: in the first phase that alone, in the second also their scheduler.
TARGETS = tuple(Target("Pod", Operation.CREATE, phase) for phase in (Phase.GANG, Phase.SCHEDULED_GANG))

WITHOUT_OWNER = OwnRule(
    Cause(
        Rule(
            id="gang-without-owner",
            severity=Severity.WARNING,
            title="A pod asks for a gang, and it is not known whose it is",
            why="Only a Job, JobSet or LeaderWorkerSet says which pods belong together; this one is alone.",
            source="Podium; auto groups",
        ),
        f"Make the pod by one of them, or name its group in the label {GROUP_LABEL}.",
    ),
    Level.WARN,
    Level.WARN,
    TARGETS,
)
_LABEL_PATH = f"/metadata/labels/{GROUP_LABEL.replace('/', '~1')}"


def join(case: Case, new: Document, *, scheduled: bool) -> list[dict[str, Any]]:
    """Return the operations that label a pod with its gang's group; its scheduler is a change of spec.

    The list is empty for a pod that does not ask or has a group. Raises Refused if the rule's level refuses
    pods that ask without an owner that makes gangs.
    """
    if case.ref.kind != "Pod" or case.update or not asks(new) or group_key(case, new) is not None:
        return []
    gang = gangs.gang_of(Pod(metadata=msgspec.convert(new["metadata"], ObjectMeta)))
    if gang is None:
        message = "no Job, JobSet or LeaderWorkerSet made this pod, so it joins no group"
        breach(case, WITHOUT_OWNER, f"metadata.labels[{gangs.AUTO_LABEL}]", message)
        return []
    if scheduled and new["spec"].get("schedulerName") in (None, "", DEFAULT_SCHEDULER):
        case.set(new, "schedulerName", PODIUM_SCHEDULER)
    # The pod has labels, because it asks by label.
    return [{"op": "add", "path": _LABEL_PATH, "value": gang.group_name}]


def asks(new: Document) -> bool:
    """Return whether a pod asks for a group."""
    return gangs.asks(ObjectMeta(labels=new["metadata"].get("labels")))


def group_key(case: Case, new: Document) -> GroupKey | None:
    """Return the key of the group that a pod names, or None."""
    spec = new["spec"].get("schedulingGroup")
    field = SchedulingGroup(podGroupName=spec.get("podGroupName")) if spec else None
    meta = ObjectMeta(labels=new["metadata"].get("labels"))
    served = case.profile.workload_api
    named = group_name(meta, PodSpec(schedulingGroup=field), native_served=served)
    return None if named is None else GroupKey(named[0], case.ref.namespace, named[1])
