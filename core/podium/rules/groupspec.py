"""The fields that groups, composite groups and their templates share, with upstream's checks.

Versions and kinds differ as data. v1alpha2 makes a whole struct immutable. v1beta1 (and v1alpha3, which
equals it) checks the fields inside, so that minCount can change while the policy cannot.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from podium.api.priority import HIGHEST_USER_PRIORITY, PREEMPTION_POLICIES
from podium.rules import metadata, names
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
from podium.rules.context import CLAIMS, GROUP_POLICY, TOPOLOGY, RuleContext
from podium.rules.decoding import integer, objects, pointer, struct, text
from podium.rules.fields import RuleRemedy, refusal
from podium.rules.schema import Check, Document, Field, StructSchema, drop_gated, optional

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
MIN_GROUP_COUNT = refusal(
    "min-group-count",
    title="minGroupCount below one",
    why="A gang of groups needs at least one child group; zero counts as missing.",
    source="Kubernetes API server: C2",
    fix="Set schedulingPolicy.gang.minGroupCount to the number of child groups that must start together.",
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
TEMPLATE_REF = refusal(
    "template-reference",
    title="Incomplete reference to a template",
    why="A reference needs the Workload and the template in it.",
    source="Kubernetes API server: G12",
    fix="Set both names, or remove the reference.",
)
PARENT = refusal(
    "parent-composite-group",
    title="Invalid name of a parent",
    why="The parent of a group is a CompositePodGroup in the same namespace.",
    source="Kubernetes API server: C1",
    fix="Name a CompositePodGroup, or remove parentCompositePodGroupName.",
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
        MIN_GROUP_COUNT,
        POLICY_SWITCH,
        DISRUPTION,
        CLASS_NAME,
        TOO_HIGH,
        PREEMPTION,
        CONSTRAINTS,
        CLAIM,
        TEMPLATE_REF,
        PARENT,
        GATE_OFF,
    )
)

_EMPTY = StructSchema("", ())


class _FieldWords(NamedTuple):
    """The Go types and the count of a group's fields, which differ for composite groups."""

    policy: str
    basic: str
    gang: str
    least: str
    cause: RuleRemedy
    below: RuleRemedy
    constraints: str
    mode: str
    single: str
    whole: str


_GROUP = _FieldWords(
    "PodGroupSchedulingPolicy",
    "BasicSchedulingPolicy",
    "GangSchedulingPolicy",
    "minCount",
    POLICY,
    MIN_COUNT,
    "PodGroupSchedulingConstraints",
    "DisruptionMode",
    "SingleDisruptionMode",
    "AllDisruptionMode",
)
_COMPOSITE = _FieldWords(
    "CompositePodGroupSchedulingPolicy",
    "CompositeBasicSchedulingPolicy",
    "CompositeGangSchedulingPolicy",
    "minGroupCount",
    RuleRemedy(POLICY.rule, "Set one of schedulingPolicy.basic: {} and schedulingPolicy.gang.minGroupCount."),
    MIN_GROUP_COUNT,
    "CompositePodGroupSchedulingConstraints",
    "CompositeDisruptionMode",
    "SingleCompositeDisruptionMode",
    "AllCompositeDisruptionMode",
)


def policy(version: str, stops: Sequence[Check], *, fixed_inside: bool, composite: bool = False) -> Field:
    """Return schedulingPolicy; with `fixed_inside` an update may not set or unset a member."""
    family = _COMPOSITE if composite else _GROUP
    basic: tuple[Check, ...] = (optional,)
    gang: tuple[Check, ...] = (optional,)
    if fixed_inside:
        basic = (immutable(POLICY_SWITCH), optional)
        gang = (optional, no_set_no_unset(POLICY_SWITCH))
    count = integer(
        family.least, always=True, stops=(required(family.below),), checks=(minimum(family.below, 1),)
    )
    shape = StructSchema(
        family.policy,
        (
            pointer("basic", _EMPTY, f"{version}.{family.basic}", stops=basic),
            pointer("gang", StructSchema(family.gang, (count,)), f"{version}.{family.gang}", stops=gang),
        ),
        checks=(union(family.cause, "basic", "gang"),),
    )
    return struct("schedulingPolicy", shape, f"{version}.{family.policy}", stops=stops)


def constraints(version: str, stops: Sequence[Check], *, always: bool) -> Field:
    """Return a group's schedulingConstraints, behind its gate."""
    gate = (gated(TOPOLOGY, GATE_OFF), optional, *stops)
    return _constraints(version, _GROUP, stops=gate, always=always, gate=TOPOLOGY)


def composite_constraints(version: str, stops: Sequence[Check]) -> Field:
    """Return a composite group's schedulingConstraints: its own gate needs that of the constraints."""
    return _constraints(version, _COMPOSITE, stops=(*stops, optional))


def _constraints(version: str, family: _FieldWords, **options: Any) -> Field:
    key = text("key", always=True, stops=(required(CONSTRAINTS),), checks=(_label_key,))
    topology = objects(
        "topology",
        StructSchema("TopologyConstraint", (key,)),
        f"{version}.TopologyConstraint",
        stops=(max_items(CONSTRAINTS, 1), optional),
    )
    shape = StructSchema(family.constraints, (topology,))
    return pointer("schedulingConstraints", shape, f"{version}.{family.constraints}", **options)


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


def disruption_mode(
    version: str, stops: Sequence[Check], *, defaulted: bool, composite: bool = False
) -> Field:
    """Return disruptionMode: a string in v1alpha2, a union later; a defaulted one is never absent."""
    family = _COMPOSITE if composite else _GROUP
    present = required_pointer(DISRUPTION) if defaulted else optional
    go = f"{version}.{family.mode}"
    if version == "v1alpha2":
        return text(
            "disruptionMode",
            go,
            pointer=True,
            stops=(present, *stops),
            checks=(enumeration(DISRUPTION, "Pod", "PodGroup"),),
        )
    shape = StructSchema(
        family.mode,
        (
            pointer("single", _EMPTY, f"{version}.{family.single}"),
            pointer("all", _EMPTY, f"{version}.{family.whole}"),
        ),
        checks=(union(DISRUPTION, "single", "all"),),
    )
    return pointer("disruptionMode", shape, go, stops=(*stops, present))


def parent(stops: Sequence[Check], *, gate: str = "") -> Field:
    """Return parentCompositePodGroupName."""
    return text(
        "parentCompositePodGroupName",
        pointer=True,
        gate=gate,
        stops=stops,
        checks=(spelled(PARENT, names.dns_subdomain),),
    )


def workload_reference(version: str, stops: Sequence[Check], *, always: bool = False) -> Field:
    """Return workloadRef, the template in the versions after v1alpha2."""
    shape = StructSchema("WorkloadReference", template_names("templateName"))
    return pointer("workloadRef", shape, f"{version}.WorkloadReference", stops=stops, always=always)


def template_names(template: str) -> tuple[Field, Field]:
    """Return the two names of a reference to a template."""
    name = required(TEMPLATE_REF)
    return (
        text(
            "workloadName", always=True, stops=(name,), checks=(spelled(TEMPLATE_REF, names.dns_subdomain),)
        ),
        text(template, always=True, stops=(name,), checks=(spelled(TEMPLATE_REF, names.dns_label),)),
    )


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


def drop_fields(
    case: RuleContext, shape: StructSchema, path: str, new: Document, old: Document | None
) -> None:
    """Drop the fields of a struct at a path whose gate is off, with a warning for each."""
    for name in drop_gated(shape, new, old, case.write.gates):
        case.dropped(f"{path}.{name}")


def prepare_group(case: RuleContext, spec: StructSchema, new: Document, old: Document | None) -> None:
    """Apply the strategy of a group: drop gated fields and keep the status, or keep all but the status."""
    if case.status and old is not None:
        metadata.reset_for_status(new["metadata"], old["metadata"])
        new["spec"] = old["spec"]
        return
    drop_fields(case, spec, "spec", new["spec"], None if old is None else old["spec"])
    new["status"] = {} if old is None else old["status"]
