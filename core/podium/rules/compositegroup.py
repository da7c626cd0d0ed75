"""CompositePodGroup: its table, the admission steps around it, and its status.

Kubernetes 1.37 serves the kind in v1alpha3, 1.38 in v1beta1 too, and both behind a gate. Podium has it in
v1beta1 of its own group. In 1.37 the whole policy is immutable, where a PodGroup may change minCount. From
1.38 on minGroupCount may change.
"""

from podium.minors.minor import GroupApi
from podium.rules import metadata
from podium.rules.checks import immutable, required_pointer
from podium.rules.conditions import check_conditions, condition_list
from podium.rules.context import KindRules, RuleContext
from podium.rules.fields import FieldError, RuleRemedy, refusal
from podium.rules.grouppriority import set_priority
from podium.rules.groupspec import (
    NEWER_APIS,
    TEMPLATE_REF,
    group_fields,
    kind_shape,
    parent,
    prepare_group,
    set_defaults,
    whole_without_gang,
    workload_reference,
)
from podium.rules.schema import Document, StructSchema, optional, validate

# A finalizer that kube-apiserver sets from 1.38 on: the group stays while it has children.
PROTECTION_FINALIZER = "scheduling.k8s.io/compositepodgroup-protection"

FIXED = refusal(
    "composite-group-immutable",
    title="Immutable field of a CompositePodGroup changed",
    why="The scheduler may already have acted on it; setting an unset field counts as a change.",
    source="Kubernetes API server: C3",
    fix="Send the stored value back (kubectl apply does), or create another CompositePodGroup.",
)
RULES = (FIXED.rule,)
_TEMPLATE_MISSING = RuleRemedy(TEMPLATE_REF.rule, "Set the names of a Workload and of its template.")


def _spec(api: GroupApi) -> StructSchema:
    fixed = immutable(FIXED)
    return StructSchema(
        "CompositePodGroupSpec",
        (
            parent((fixed, optional)),
            workload_reference(api.version, (fixed, required_pointer(_TEMPLATE_MISSING)), always=True),
            *group_fields(api, FIXED, composite=True),
        ),
        description="The desired state of the composite group; fixed once created.",
    )


SPECS = {api: _spec(api) for api in NEWER_APIS}
STATUSES = {api: StructSchema("CompositePodGroupStatus", (condition_list(api),)) for api in NEWER_APIS}
SHAPES = {api: kind_shape("CompositePodGroup", api.version, SPECS[api], STATUSES[api]) for api in NEWER_APIS}


def default(context: RuleContext, document: Document) -> None:
    """Set the defaults of decoding."""
    set_defaults(context, SPECS[context.api], document["spec"])


def mutate(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the Priority plugin to a new composite group, and add the finalizer of PodGroupProtection."""
    if old is not None:
        return
    set_priority(context, new)
    if context.native and context.minor.composite_finalizer:
        metadata.add_finalizer(new["metadata"], PROTECTION_FINALIZER)


def prepare(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategy of a group."""
    prepare_group(context, SPECS[context.api], new, old)


def check(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in the part that a client may change: spec, or status."""
    if context.status and old is not None:
        errors = check_conditions(context, new["status"])
        return errors + validate(STATUSES[context.api], "status", new["status"], old["status"], context.write)
    spec = None if old is None else old["spec"]
    errors = whole_without_gang(context.api, new["spec"], "spec") if old is None else []
    return errors + validate(SPECS[context.api], "spec", new["spec"], spec, context.write)


KIND = KindRules("compositepodgroups", SHAPES, check, prepare, default, mutate)
