"""The fields that a PodGroup and a template share, with upstream's checks; versions differ as data.

v1alpha2 makes a whole struct immutable. v1beta1 (and v1alpha3, which equals it) checks the fields inside, so
that minCount can change while the policy cannot.
"""

from collections.abc import Sequence

from podium.api.priority import HIGHEST_USER_PRIORITY, PREEMPTION_POLICIES
from podium.rules import names
from podium.rules.checks import (
    enumeration,
    gated,
    immutable,
    max_items,
    maximum,
    minimum,
    no_set_no_unset,
    required,
    required_pointer,
    spelled,
    union,
    unique,
)
from podium.rules.context import CLAIMS, GROUP_POLICY, TOPOLOGY
from podium.rules.decoding import integer, objects, pointer, struct, text
from podium.rules.fields import RuleRemedy, refusal
from podium.rules.schema import Check, Field, StructSchema, optional

MAX_CLAIMS = 4

POLICY = refusal(
    "scheduling-policy",
    title="Not exactly one scheduling policy",
    why="A group is scheduled either pod by pod (basic) or all together (gang).",
    source="Kubernetes API server: W4, G17",
    fix="Set one of schedulingPolicy.basic: {} and schedulingPolicy.gang.minCount.",
)
MIN_COUNT = refusal(
    "min-count",
    title="minCount below one",
    why="A gang needs at least one pod; zero counts as missing.",
    source="Kubernetes API server: W5, G17",
    fix="Set schedulingPolicy.gang.minCount to the number of pods that must start together.",
)
POLICY_SWITCH = refusal(
    "scheduling-policy-switch",
    title="Scheduling policy switched",
    why="The policy of a group is immutable; only minCount may change, from 1.37 on.",
    source="Kubernetes API server: W16, G25",
    fix="Create another object with the other policy.",
)
DISRUPTION = refusal(
    "disruption-mode",
    title="Unknown disruption mode",
    why="The mode says whether pods of the group are preempted one by one or all together.",
    source="Kubernetes API server: W6, G18",
    fix="v1alpha2: Pod or PodGroup; later versions: {single: {}} or {all: {}}.",
)
CLASS_NAME = refusal(
    "class-name-format",
    title="Invalid priority class name",
    why="It must be able to name a PriorityClass.",
    source="Kubernetes API server: W7, G19",
    fix="Name an existing PriorityClass.",
)
TOO_HIGH = refusal(
    "priority-too-high",
    title="Priority above the user limit",
    why="Values above 1000000000 belong to the system classes, which only pods can use.",
    source="Kubernetes API server: W8, G9",
    fix="Use a class of at most 1000000000; system-* classes cannot be used here.",
)
PREEMPTION = refusal(
    "group-preemption-policy",
    title="Unknown preemption policy",
    why="A group either preempts lower priorities or never preempts.",
    source="Kubernetes API server: W9",
    fix="Use PreemptLowerPriority or Never.",
)
CONSTRAINTS = refusal(
    "scheduling-constraints",
    title="Invalid scheduling constraint",
    why="A topology constraint names one node label.",
    source="Kubernetes API server: W13",
    fix="Give one topology entry with a node label as its key.",
)
CLAIM = refusal(
    "resource-claims",
    title="Invalid resource claim",
    why="Every claim has a name and exactly one source.",
    source="Kubernetes API server: W12",
    fix="Name at most 4 claims, each with resourceClaimName or resourceClaimTemplateName.",
)
GATE_OFF = refusal(
    "gate-off",
    title="Field whose feature gate is off",
    why="A value stored while the gate was on can be kept, but not changed.",
    source="Kubernetes API server: G26",
    fix="Keep the stored value of the field.",
)
RULES = tuple(
    cause.rule
    for cause in (
        POLICY,
        MIN_COUNT,
        POLICY_SWITCH,
        DISRUPTION,
        CLASS_NAME,
        TOO_HIGH,
        PREEMPTION,
        CONSTRAINTS,
        CLAIM,
        GATE_OFF,
    )
)

_EMPTY = StructSchema("", ())


def policy(version: str, stops: Sequence[Check], *, fixed_inside: bool) -> Field:
    """Return schedulingPolicy; with `fixed_inside` an update may not set or unset a member."""
    basic: tuple[Check, ...] = (optional,)
    gang: tuple[Check, ...] = (optional,)
    if fixed_inside:
        basic = (immutable(POLICY_SWITCH), optional)
        gang = (optional, no_set_no_unset(POLICY_SWITCH))
    count = integer("minCount", always=True, stops=(required(MIN_COUNT),), checks=(minimum(MIN_COUNT, 1),))
    shape = StructSchema(
        "PodGroupSchedulingPolicy",
        (
            pointer("basic", _EMPTY, f"{version}.BasicSchedulingPolicy", stops=basic),
            pointer(
                "gang",
                StructSchema("GangSchedulingPolicy", (count,)),
                f"{version}.GangSchedulingPolicy",
                stops=gang,
            ),
        ),
        checks=(union(POLICY, "basic", "gang"),),
    )
    return struct("schedulingPolicy", shape, f"{version}.PodGroupSchedulingPolicy", stops=stops)


def constraints(version: str, stops: Sequence[Check], *, always: bool) -> Field:
    """Return schedulingConstraints, behind its gate."""
    key = text("key", always=True, stops=(required(CONSTRAINTS),), checks=(_label_key,))
    topology = objects(
        "topology",
        StructSchema("TopologyConstraint", (key,)),
        f"{version}.TopologyConstraint",
        stops=(max_items(CONSTRAINTS, 1), optional),
    )
    return pointer(
        "schedulingConstraints",
        StructSchema("PodGroupSchedulingConstraints", (topology,)),
        f"{version}.PodGroupSchedulingConstraints",
        always=always,
        gate=TOPOLOGY,
        stops=(gated(TOPOLOGY, GATE_OFF), optional, *stops),
    )


_label_key = spelled(CONSTRAINTS, names.qualified_name)


def claims(version: str, fixed: RuleRemedy) -> Field:
    """Return resourceClaims, dropped while its gate is off."""
    subdomain = spelled(CLAIM, names.dns_subdomain)
    shape = StructSchema(
        "PodGroupResourceClaim",
        (
            text(
                "name",
                always=True,
                stops=(required(CLAIM),),
                checks=(spelled(CLAIM, names.dns_label),),
            ),
            text("resourceClaimName", pointer=True, stops=(optional,), checks=(subdomain,)),
            text("resourceClaimTemplateName", pointer=True, stops=(optional,), checks=(subdomain,)),
        ),
        checks=(union(CLAIM, "resourceClaimName", "resourceClaimTemplateName"),),
    )
    return objects(
        "resourceClaims",
        shape,
        f"{version}.PodGroupResourceClaim",
        key="name",
        gate=CLAIMS,
        stops=(immutable(fixed), max_items(CLAIM, MAX_CLAIMS), optional),
        checks=(unique(CLAIM, "name"),),
    )


def disruption_mode(version: str, stops: Sequence[Check], *, defaulted: bool) -> Field:
    """Return disruptionMode: a string in v1alpha2, a union later; a defaulted one is never absent."""
    present = required_pointer(DISRUPTION) if defaulted else optional
    go = f"{version}.DisruptionMode"
    if version == "v1alpha2":
        return text(
            "disruptionMode",
            go,
            pointer=True,
            stops=(present, *stops),
            checks=(enumeration(DISRUPTION, "Pod", "PodGroup"),),
        )
    shape = StructSchema(
        "DisruptionMode",
        (
            pointer("single", _EMPTY, f"{version}.SingleDisruptionMode"),
            pointer("all", _EMPTY, f"{version}.AllDisruptionMode"),
        ),
        checks=(union(DISRUPTION, "single", "all"),),
    )
    return pointer("disruptionMode", shape, go, stops=(*stops, present))


def priority_fields(stops: Sequence[Check]) -> tuple[Field, Field]:
    """Return priorityClassName and priority."""
    return (
        text(
            "priorityClassName",
            stops=(*stops, optional),
            checks=(spelled(CLASS_NAME, names.dns_subdomain),),
        ),
        integer(
            "priority",
            pointer=True,
            stops=(*stops, optional),
            checks=(maximum(TOO_HIGH, HIGHEST_USER_PRIORITY),),
        ),
    )


def preemption_policy(version: str, fixed: RuleRemedy) -> Field:
    """Return preemptionPolicy, behind its gate."""
    return text(
        "preemptionPolicy",
        f"{version}.PreemptionPolicy",
        pointer=True,
        gate=GROUP_POLICY,
        stops=(gated(GROUP_POLICY, GATE_OFF), optional, immutable(fixed)),
        checks=(enumeration(PREEMPTION, *PREEMPTION_POLICIES),),
    )
