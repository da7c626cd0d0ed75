"""The fields that groups, composite groups and their templates share, with upstream's checks.

Minors, versions and kinds differ as data: `podium.api.minors.GROUP_APIS` has a row for each version in each
minor, and each row gets its tables. v1alpha2 makes a whole struct immutable. Later versions check the fields
inside, so that minCount can change while the policy cannot.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from podium.api.minors import GROUP_APIS
from podium.api.priority import PREEMPT_LOWER_PRIORITY, PREEMPTION_POLICIES
from podium.minors.minor import CLAIMS, TOPOLOGY, GroupApi
from podium.rules import metadata, names
from podium.rules.checks import (
    at_least_one,
    enumeration,
    gated,
    immutable,
    max_items,
    maximum,
    no_set_no_unset,
    required,
    required_pointer,
    spelled,
    union,
    unique,
    when_on,
)
from podium.rules.context import RuleContext
from podium.rules.decoding import integer, objects, pointer, struct, text
from podium.rules.fields import FieldError, RuleRemedy, invalid_field, refusal
from podium.rules.schema import Document, Field, FieldCheck, StructSchema, drop_gated, optional

# The rows of the versions after v1alpha2, which have more fields, and CompositePodGroup.
NEWER_APIS = tuple(api for api in GROUP_APIS if not api.older)
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
    why="The policy of a group is immutable. minCount may change from 1.37 on, minGroupCount from 1.38 on.",
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
    why="Values above 1000000000 belong to the system classes, which only pods can use before 1.38.",
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
WHOLE_BASIC = refusal(
    "whole-mode-without-gang",
    title="Mode all without a gang",
    why="From 1.38 on only a gang can be disrupted as a whole. Stored objects stay updatable.",
    source="Kubernetes API server: W6, W21, G20, from 1.38 on",
    fix="Set schedulingPolicy.gang, or disruptionMode.single.",
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
        WHOLE_BASIC,
    )
)

_EMPTY = StructSchema("", ())


class _FieldWords(NamedTuple):
    """The Go types and the count of a group's fields, which differ for composite groups."""

    policy: str
    basic: str
    gang: str
    least: str
    members: str
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
    "pods",
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
    "child groups",
    RuleRemedy(POLICY.rule, "Set one of schedulingPolicy.basic: {} and schedulingPolicy.gang.minGroupCount."),
    MIN_GROUP_COUNT,
    "CompositePodGroupSchedulingConstraints",
    "CompositeDisruptionMode",
    "SingleCompositeDisruptionMode",
    "AllCompositeDisruptionMode",
)


def required_text(
    name: str, cause: RuleRemedy, syntax: Callable[[str], list[str]], description: str
) -> Field:
    """Return a text that must be set and have the syntax of a function of podium.rules.names."""
    stops, checks = (required(cause),), (spelled(cause, syntax),)
    return text(name, always=True, stops=stops, checks=checks, description=description)


def group_fields(
    api: GroupApi, fixed: RuleRemedy, *, template: bool = False, composite: bool = False
) -> tuple[Field, ...]:
    """Return the fields that a group and its template have in common; `fixed` refuses a change of them.

    A PodGroup of v1alpha2 and a composite group of 1.37 fix the whole policy. A Workload of v1alpha2 fixes
    the whole list of its templates, so their fields are not checked one by one.
    """
    older, version = api.older, api.version
    words = _COMPOSITE if composite else _GROUP
    stops = () if older and template else (immutable(fixed),)
    whole = stops if not template and (older or (composite and api.fixed_composite_policy)) else ()
    if composite:
        # The gate of composite groups needs that of the constraints.
        of_kind: tuple[Field, ...] = (_constraints(version, words, stops=(*stops, optional)),)
    else:
        change = stops if template else (when_on(TOPOLOGY, immutable(fixed)),)
        gate = (gated(TOPOLOGY, GATE_OFF), optional, *change)
        constraints = _constraints(version, words, stops=gate, always=template, gate=TOPOLOGY)
        of_kind = (constraints, _claims(version, fixed))
    return (
        _policy(version, words, whole, fixed_inside=not older),
        *of_kind,
        _disruption_mode(api, words, stops, defaulted=not template),
        text(
            "priorityClassName",
            stops=(*stops, optional),
            checks=(spelled(CLASS_NAME, names.dns_subdomain),),
            description="PriorityClass that gives the priority.",
        ),
        integer(
            "priority",
            pointer=True,
            stops=(*stops, optional),
            checks=() if api.maximum is None else (maximum(TOO_HIGH, api.maximum),),
            description="Priority of the whole group, the value of its class.",
        ),
        *(() if older else (_preemption_policy(api, fixed, defaulted=not template),)),
    )


def _policy(version: str, words: _FieldWords, stops: Sequence[FieldCheck], *, fixed_inside: bool) -> Field:
    """Return schedulingPolicy; with `fixed_inside` an update may not set or unset a member."""
    basic: tuple[FieldCheck, ...] = (optional,)
    gang: tuple[FieldCheck, ...] = (optional,)
    if fixed_inside:
        basic = (immutable(POLICY_SWITCH), optional)
        gang = (optional, no_set_no_unset(POLICY_SWITCH))
    least = integer(
        words.least,
        always=True,
        stops=(required(words.below),),
        checks=(at_least_one(words.below),),
        description=f"Number of {words.members} that must run at once.",
    )
    shape = StructSchema(
        words.policy,
        (
            pointer("basic", _EMPTY, f"{version}.{words.basic}", stops=basic, description="One by one."),
            pointer(
                "gang",
                StructSchema(words.gang, (least,)),
                f"{version}.{words.gang}",
                stops=gang,
                description=f"All or nothing, up to {words.least}.",
            ),
        ),
        checks=(union(words.cause, "basic", "gang"),),
    )
    return struct(
        "schedulingPolicy",
        shape,
        f"{version}.{words.policy}",
        stops=stops,
        description=f"How the {words.members} are scheduled.",
    )


def _constraints(version: str, words: _FieldWords, **options: Any) -> Field:
    key = required_text("key", CONSTRAINTS, names.qualified_name, "Node label whose values are the domains.")
    topology = objects(
        "topology",
        StructSchema("TopologyConstraint", (key,), description="All pods go into one domain of this label."),
        f"{version}.TopologyConstraint",
        stops=(max_items(CONSTRAINTS, 1), optional),
        description="Topology domains of the group.",
    )
    shape = StructSchema(words.constraints, (topology,))
    go = f"{version}.{words.constraints}"
    about = "Topology constraints of the pods."
    return pointer("schedulingConstraints", shape, go, description=about, **options)


def _claims(version: str, fixed: RuleRemedy) -> Field:
    """Return resourceClaims, dropped while its gate is off."""
    subdomain = spelled(CLAIM, names.dns_subdomain)
    shape = StructSchema(
        "PodGroupResourceClaim",
        (
            required_text("name", CLAIM, names.dns_label, "Name of the claim in the group."),
            text(
                "resourceClaimName",
                pointer=True,
                stops=(optional,),
                checks=(subdomain,),
                description="ResourceClaim in the same namespace.",
            ),
            text(
                "resourceClaimTemplateName",
                pointer=True,
                stops=(optional,),
                checks=(subdomain,),
                description="ResourceClaimTemplate in the same namespace.",
            ),
        ),
        checks=(union(CLAIM, "resourceClaimName", "resourceClaimTemplateName"),),
        description="A claim by name, or made from a template.",
    )
    return objects(
        "resourceClaims",
        shape,
        f"{version}.PodGroupResourceClaim",
        key="name",
        gate=CLAIMS,
        stops=(immutable(fixed), max_items(CLAIM, MAX_CLAIMS), optional),
        checks=(unique(CLAIM, "name"),),
        description="Claims that the pods of the group share.",
    )


def _disruption_mode(
    api: GroupApi, words: _FieldWords, stops: Sequence[FieldCheck], *, defaulted: bool
) -> Field:
    """Return disruptionMode: a string in v1alpha2, a union later; a defaulted one is never absent."""
    present = required_pointer(DISRUPTION) if defaulted else optional
    version = api.version
    go = f"{version}.{words.mode}"
    about = "Whether preemption evicts single pods or the whole group."
    if api.older:
        return text(
            "disruptionMode",
            go,
            pointer=True,
            stops=(present, *stops),
            checks=(enumeration(DISRUPTION, "Pod", "PodGroup"),),
            default=(lambda: "Pod") if defaulted else None,
            description=about,
        )
    single, whole = "Single pods are preempted.", "The whole group is preempted."
    shape = StructSchema(
        words.mode,
        (
            pointer("single", _EMPTY, f"{version}.{words.single}", description=single),
            pointer("all", _EMPTY, f"{version}.{words.whole}", description=whole),
        ),
        checks=(union(DISRUPTION, "single", "all"),),
    )
    return pointer(
        "disruptionMode",
        shape,
        go,
        stops=(*stops, present),
        default=(lambda: {"single": {}}) if defaulted else None,
        description=about,
    )


def _preemption_policy(api: GroupApi, fixed: RuleRemedy, *, defaulted: bool) -> Field:
    """Return preemptionPolicy, behind its gate if it has one."""
    gate = api.policy_gate
    return text(
        "preemptionPolicy",
        f"{api.version}.PreemptionPolicy",
        pointer=True,
        gate=gate,
        stops=(*((gated(gate, GATE_OFF),) if gate else ()), optional, immutable(fixed)),
        checks=(enumeration(PREEMPTION, *PREEMPTION_POLICIES),),
        default=(lambda: PREEMPT_LOWER_PRIORITY) if defaulted and api.policy_default else None,
        description="Whether the group may preempt.",
    )


def parent(stops: Sequence[FieldCheck], *, gate: str = "") -> Field:
    """Return parentCompositePodGroupName."""
    return text(
        "parentCompositePodGroupName",
        pointer=True,
        gate=gate,
        stops=stops,
        checks=(spelled(PARENT, names.dns_subdomain),),
        description="CompositePodGroup in the same namespace that the group belongs to.",
    )


def workload_reference(version: str, stops: Sequence[FieldCheck], *, always: bool = False) -> Field:
    """Return workloadRef, the template in the versions after v1alpha2."""
    shape = StructSchema("WorkloadReference", template_names("templateName"))
    go = f"{version}.WorkloadReference"
    about = "Template that the group was created from."
    return pointer("workloadRef", shape, go, stops=stops, always=always, description=about)


def template_names(template: str) -> tuple[Field, Field]:
    """Return the two names of a reference to a template."""
    return (
        required_text("workloadName", TEMPLATE_REF, names.dns_subdomain, "Workload in the same namespace."),
        required_text(template, TEMPLATE_REF, names.dns_label, "Template of the Workload."),
    )


def kind_shape(
    kind: str, version: str, spec: StructSchema, status: StructSchema | None = None
) -> StructSchema:
    """Return the table of a whole kind."""
    fields = [struct("spec", spec, f"{version}.{spec.go}")]
    if status is not None:
        fields.append(struct("status", status, f"{version}.{status.go}"))
    return StructSchema(kind, (*metadata.HEAD, *fields))


def set_defaults(context: RuleContext, shape: StructSchema, spec: Document) -> None:
    """Set the defaults of decoding in the spec of a group; that of a gated field needs its gate.

    Only native decoding has defaults that depend on a gate.
    """
    gates = context.write.gates if context.native else frozenset[str]()
    for field, default in shape.defaulted:
        if field.name not in spec and (not field.gate or field.gate in gates):
            spec[field.name] = default()


def is_gang(spec: Document) -> bool:
    """Return whether a group or template has the policy gang."""
    return spec["schedulingPolicy"].get("gang") is not None


def is_whole(api: GroupApi, spec: Document) -> bool:
    """Return whether a group or template has the disruption mode all."""
    mode = spec.get("disruptionMode")
    return not api.older and mode is not None and mode.get("all") is not None


def whole_without_gang(api: GroupApi, spec: Document, path: str) -> list[FieldError]:
    """Return the error of a new group or template of mode all that is no gang, if the server refuses it."""
    if not api.strict_modes or is_gang(spec) or not is_whole(api, spec):
        return []
    detail = 'cannot have "all" disruption mode when scheduling policy is other than "gang"'
    return [invalid_field(WHOLE_BASIC, f"{path}.disruptionMode", detail)]


def drop_fields(
    context: RuleContext, shape: StructSchema, path: str, new: Document, old: Document | None
) -> None:
    """Drop the fields of a struct at a path whose gate is off, with a warning for each."""
    for name in drop_gated(shape, new, old, context.write.gates):
        context.dropped(f"{path}.{name}")


def prepare_group(context: RuleContext, spec: StructSchema, new: Document, old: Document | None) -> None:
    """Apply the strategy of a group: drop gated fields and keep the status, or keep all but the status."""
    if context.status and old is not None:
        metadata.reset_for_status(new["metadata"], old["metadata"])
        new["spec"] = old["spec"]
        return
    drop_fields(context, spec, "spec", new["spec"], None if old is None else old["spec"])
    new["status"] = {} if old is None else old["status"]
