"""The Priority plugin on new groups and composite groups: class, integer and preemption policy.

The plugin treats both kinds alike; only the words in its refusals differ.
"""

from podium.rules.context import RuleContext
from podium.rules.fields import refusal
from podium.rules.schema import Document

UNKNOWN_CLASS = refusal(
    "group-class-not-found",
    title="Priority class of a group not found",
    why="The priority of a PodGroup or CompositePodGroup is computed from the class.",
    source="Kubernetes API server: G5",
    fix="Create the PriorityClass first, or name an existing one.",
)
MISMATCH = refusal(
    "group-priority-mismatch",
    title="Priority of a group differs from its class",
    why="The priority is computed from the class; another value is refused.",
    source="Kubernetes API server: G7",
    fix="Remove spec.priority and name the class that has this value.",
)
POLICY_MISMATCH = refusal(
    "group-preemption-policy-mismatch",
    title="Preemption policy of a group differs from its class",
    why="The policy is computed from the class, as for pods.",
    source="Kubernetes API server: G2",
    fix="Remove spec.preemptionPolicy and name a class that has this policy.",
)
RULES = (UNKNOWN_CLASS.rule, MISMATCH.rule, POLICY_MISMATCH.rule)

_WORDS = {"PodGroup": "pod group", "CompositePodGroup": "composite pod group"}


def set_priority(context: RuleContext, new: Document) -> None:
    """Set the class, its value and, if the version has the field, its preemption policy.

    Raises Refused for an unknown class, and for a value or policy that differs from the class's.
    """
    spec = new["spec"]
    resolved = context.resolve_class(spec.get("priorityClassName", ""), UNKNOWN_CLASS)
    given = spec.get("priority")
    if given is not None and given != resolved.value:
        message = (
            f"priority set in the {_WORDS[context.ref.kind]} ({given}) must match the priority computed "
            f"({resolved.value}) based on the priority class set in the spec"
        )
        raise context.forbid(MISMATCH, "spec.priority", message)
    if resolved.name:
        context.set(new, "priorityClassName", resolved.name)
    context.set(new, "priority", resolved.value)
    api = context.api
    if not api.older and (not api.policy_gate or api.policy_gate in context.write.gates):
        check_policy(context, spec.get("preemptionPolicy"), resolved.preemption_policy)
        context.set(new, "preemptionPolicy", resolved.preemption_policy)


def check_policy(context: RuleContext, given: str | None, computed: str) -> None:
    """Raise Refused for a preemption policy that differs from the class's; an absent one is allowed."""
    if given is not None and given != computed:
        message = (
            f"the string value of PreemptionPolicy ({given}) must not be provided in "
            f"{_WORDS[context.ref.kind]} spec; priority admission controller computed {computed} from the "
            "given PriorityClass name"
        )
        raise context.forbid(POLICY_MISMATCH, "spec.preemptionPolicy", message)
