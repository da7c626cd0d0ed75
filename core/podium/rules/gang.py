"""The group of a new pod: which one it names, and which one it is given where it asks for one.

A pod that asks (`scheduling.podium.dev/gang: auto`, in a namespace whose administrator lets it) gets the
label of the group that the controller will make for it, and the scheduler that the namespace names. Which
namespaces these are is in the registration, for an API server knows a namespace before any cache does. What a
pod says itself is never overridden: neither its group nor a scheduler other than the default.
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

# Where pods are given their group: in the first phase that, in the second also their scheduler.
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
    """Give the operations that label a pod with its gang's group; its scheduler becomes a change of spec.

    None for a pod that does not ask or has a group. Raises Refused where a pod must not ask in vain.
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
    # The pod has labels: one of them asks.
    return [{"op": "add", "path": _LABEL_PATH, "value": gang.group_name}]


def asks(new: Document) -> bool:
    """Say whether a pod asks for a group to be made."""
    return gangs.asks(ObjectMeta(labels=new["metadata"].get("labels")))


def group_key(case: Case, new: Document) -> GroupKey | None:
    """Give the group that a pod says it belongs to."""
    spec = new["spec"].get("schedulingGroup")
    field = SchedulingGroup(podGroupName=spec.get("podGroupName")) if spec else None
    meta = ObjectMeta(labels=new["metadata"].get("labels"))
    served = case.profile.workload_api
    named = group_name(meta, PodSpec(schedulingGroup=field), native_served=served)
    return None if named is None else GroupKey(named[0], case.ref.namespace, named[1])
