"""Pod, as far as priority and group membership are concerned; its other fields pass through unchecked.

A pod with a class gets the class's integer and preemption policy; other values of its own are refused. Mirror
pods of static pods are no exception. No version compares a pod with its group.
"""

from typing import Any

from podium.api import priority
from podium.rules import fields, metadata, names
from podium.rules.context import KindRules, RuleContext
from podium.rules.decoding import anything, integer, pointer, struct, text
from podium.rules.fields import FieldError, refusal
from podium.rules.schema import Document, StructSchema

UNKNOWN_CLASS = refusal(
    "pod-class-not-found",
    title="Priority class of a pod not found",
    why="The priority of the pod is computed from the class.",
    source="Kubernetes API server: P2",
    fix="Create the PriorityClass first, or name an existing one.",
)
MISMATCH = refusal(
    "pod-priority-mismatch",
    title="Priority of a pod differs from its class",
    why="The priority is computed from the class; another value is refused.",
    source="Kubernetes API server: P3, P4, P6",
    fix="Remove spec.priority and name the class that has this value.",
)
POLICY_MISMATCH = refusal(
    "pod-preemption-policy-mismatch",
    title="Preemption policy of a pod differs from its class",
    why="The policy is computed from the class, even if the pod has no class.",
    source="Kubernetes API server: P5",
    fix="Remove spec.preemptionPolicy and name a class that has this policy.",
)
FIXED = refusal(
    "pod-immutable",
    title="Priority or group of a pod changed",
    why="Priority and group of a pod are immutable.",
    source="Kubernetes API server: P9b, P10",
    fix="Send the stored value back (kubectl apply does), or create another pod.",
)
GROUP = refusal(
    "pod-scheduling-group",
    title="schedulingGroup without a group's name",
    why="It must be a valid PodGroup name; the group need not exist yet.",
    source="Kubernetes API server: P13, P17",
    fix="Set spec.schedulingGroup.podGroupName to a PodGroup's name, or remove schedulingGroup.",
)
CLASS_NAME = refusal(
    "pod-priority-fields",
    title="Invalid class name or policy of a pod",
    why="The stored pod needs a valid PriorityClass name and one of two policies.",
    source="Kubernetes API server: pod validation",
    fix="Name an existing PriorityClass and remove the policy.",
)
RULES = (
    UNKNOWN_CLASS.rule,
    MISMATCH.rule,
    POLICY_MISMATCH.rule,
    FIXED.rule,
    GROUP.rule,
    CLASS_NAME.rule,
)

_GROUP = StructSchema("PodSchedulingGroup", (text("podGroupName", pointer=True),))
_SPEC = StructSchema(
    "PodSpec",
    (
        text("priorityClassName"),
        integer("priority", pointer=True),
        text("preemptionPolicy", "v1.PreemptionPolicy", pointer=True),
        pointer("schedulingGroup", _GROUP, "v1.PodSchedulingGroup"),
    ),
    opened=True,
)
SHAPE = StructSchema(
    "Pod",
    (
        *metadata.HEAD,
        struct("spec", _SPEC, "v1.PodSpec"),
        anything("status"),
    ),
)

# The immutable fields that our rules know, in Go's order.
_FIXED_FIELDS = ("priorityClassName", "priority", "preemptionPolicy", "schedulingGroup")
CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
CHANGEABLE_WHILE_GATED = (
    ",`spec.schedulingGates` (only deletions of existing scheduling gates),"
    "`spec.nodeSelector` (only additions, and only while the pod has scheduling gates),"
    "`spec.affinity.nodeAffinity` (only while the pod has scheduling gates)"
)


def mutate(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the Priority plugin: resolve on create, restore omitted values on update."""
    if old is not None:
        for name in ("priority", "preemptionPolicy"):
            if name not in new["spec"] and name in old["spec"]:
                context.set(new, name, old["spec"][name])
        return
    spec = new["spec"]
    resolved = context.resolve_class(spec.get("priorityClassName", ""), UNKNOWN_CLASS)
    given = spec.get("priority")
    if given is not None and given != resolved.value:
        message = (
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {resolved.value} from the given PriorityClass name"
        )
        raise context.forbid(MISMATCH, "spec.priority", message)
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy != resolved.preemption_policy:
        message = (
            f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority "
            f"admission controller computed {resolved.preemption_policy} from the given PriorityClass name"
        )
        raise context.forbid(POLICY_MISMATCH, "spec.preemptionPolicy", message)
    if resolved.name:
        context.set(new, "priorityClassName", resolved.name)
    context.set(new, "priority", resolved.value)
    context.set(new, "preemptionPolicy", resolved.preemption_policy)


def prepare(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategies: keep the status, or keep the spec; drop the group while its gate is off."""
    if context.status and old is not None:
        new["spec"] = old["spec"]
        for name in ("ownerReferences", "deletionTimestamp"):
            metadata.copy_stored(new["metadata"], old["metadata"], name)
        return
    spec = new["spec"]
    off = not context.profile.workload_api
    if off and "schedulingGroup" in spec and (old is None or "schedulingGroup" not in old["spec"]):
        del spec["schedulingGroup"]
        context.dropped("spec.schedulingGroup")
    if old is None:
        new["metadata"]["generation"] = 1
        new["status"] = {"phase": "Pending"}
    else:
        metadata.copy_stored(new, old, "status")


def check(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in a pod's class, policy and group, and, on update, in changes of them."""
    if context.status:
        return []
    spec = new["spec"]
    errors = [
        fields.invalid(CLASS_NAME, "spec.priorityClassName", spec["priorityClassName"], complaint)
        for complaint in names.object_name(spec.get("priorityClassName", "none"))
    ]
    policy = spec.get("preemptionPolicy")
    if policy == "":
        errors.append(fields.required(CLASS_NAME, "spec.preemptionPolicy"))
    elif policy is not None and policy not in priority.PREEMPTION_POLICIES:
        choices = priority.PREEMPTION_POLICIES
        errors.append(fields.unsupported(CLASS_NAME, "spec.preemptionPolicy", policy, choices))
    if "schedulingGroup" in spec:
        errors += _group_errors(context, spec)
    if old is not None:
        errors += _fixed(context, spec, old["spec"])
    return errors


def judge(_context: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin requires a pod's group, or compares the pod with it."""


def _group_errors(context: RuleContext, spec: Document) -> list[FieldError]:
    name = spec["schedulingGroup"].get("podGroupName")
    path = "spec.schedulingGroup.podGroupName"
    if name is None:
        errors = [fields.invalid(GROUP, path, None, "must specify one of: `podGroupName`")]
    else:
        errors = [fields.invalid(GROUP, path, name, complaint) for complaint in names.object_name(name)]
    if context.minor.responders and spec.get("evictionResponders"):
        detail = "may not be set when evictionResponders is set"
        errors.append(fields.forbidden(GROUP, "spec.schedulingGroup", detail))
    return errors


def _fixed(context: RuleContext, spec: Document, old: Document) -> list[FieldError]:
    changed = [name for name in _FIXED_FIELDS if spec.get(name) != old.get(name)]
    if not changed:
        return []
    lines = "".join(f"\n{name}: {_shown(old.get(name))} -> {_shown(spec.get(name))}" for name in changed)
    changeable = CHANGEABLE + (CHANGEABLE_WHILE_GATED if context.minor.lists_gated_fields else "")
    detail = f"pod updates may not change fields other than {changeable}{lines}"
    return [fields.forbidden(FIXED, "spec", detail)]


def _shown(value: Any) -> str:
    return "unset" if value is None else fields.go_json(value)


KIND = KindRules("pods", SHAPE, check, prepare, mutate=mutate, judge=judge)
