"""CompositePodGroup: its table, the admission steps around it, and its status.

Kubernetes 1.37 serves the kind in v1alpha3 behind an alpha gate, and Podium in v1beta1 of its own group. Its
whole policy is immutable, where a PodGroup may change minCount.
"""

from podium.rules.checks import immutable, required_pointer
from podium.rules.conditions import CONDITION_TABLE, check_conditions
from podium.rules.context import RuleContext
from podium.rules.decoding import objects
from podium.rules.fields import FieldError, RuleRemedy, refusal
from podium.rules.grouppriority import set_priority
from podium.rules.groupspec import (
    NEWER,
    TEMPLATE_REF,
    group_fields,
    kind_shape,
    parent,
    prepare_group,
    set_defaults,
    workload_reference,
)
from podium.rules.schema import Document, StructSchema, optional, validate

PLURAL = "compositepodgroups"
NAMESPACED = True
HAS_STATUS = True

FIXED = refusal(
    "composite-group-immutable",
    title="Immutable field of a CompositePodGroup changed",
    why="The scheduler may already have acted on it; setting an unset field counts as a change.",
    source="Kubernetes API server: C3",
    fix="Send the stored value back (kubectl apply does), or create another CompositePodGroup.",
)
RULES = (FIXED.rule,)
_TEMPLATE_MISSING = RuleRemedy(TEMPLATE_REF.rule, "Set the names of a Workload and of its template.")


def _spec(version: str) -> StructSchema:
    fixed = immutable(FIXED)
    return StructSchema(
        "CompositePodGroupSpec",
        (
            parent((fixed, optional)),
            workload_reference(version, (fixed, required_pointer(_TEMPLATE_MISSING)), always=True),
            *group_fields(version, FIXED, composite=True),
        ),
        description="The desired state of the composite group; fixed once created.",
    )


SPECS = {version: _spec(version) for version in NEWER}
STATUS = StructSchema(
    "CompositePodGroupStatus", (objects("conditions", CONDITION_TABLE, "v1.Condition", stops=(optional,)),)
)
SHAPES = {version: kind_shape("CompositePodGroup", version, SPECS[version], STATUS) for version in NEWER}


def shape(version: str) -> StructSchema:
    """Return the table of one version."""
    return SHAPES[version]


def default(document: Document, version: str, gates: frozenset[str]) -> None:
    """Set the defaults of decoding."""
    set_defaults(SPECS[version], document["spec"], gates)


def mutate(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the Priority plugin to a new composite group."""
    if old is None:
        set_priority(case, new, has_policy=True)


def prepare(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategy of a group."""
    prepare_group(case, SPECS[case.version], new, old)


def check(case: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in the part that a client may change: spec, or status."""
    if case.status and old is not None:
        return check_conditions(new["status"].get("conditions", ()), case.minor)
    spec = None if old is None else old["spec"]
    return validate(SPECS[case.version], "spec", new["spec"], spec, case.write)


def judge(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin refuses a composite group."""
