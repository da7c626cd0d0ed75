"""PodGroup: its tables for each version, the admission steps around them, and its status.

On create the Priority plugin resolves the class and sets name and integer. On update no plugin restores
omitted values, so a PUT of the original manifest is refused as a change of immutable fields.
"""

from kubecel.goquote import go_quote
from podium.api.membership import GroupKey
from podium.api.minors import GROUP_APIS
from podium.minors.minor import CLAIMS, COMPOSITE, GroupApi
from podium.rules import fields, groupspec, metadata, names
from podium.rules.checks import dependent, gated, immutable, max_items, spelled, union, unique
from podium.rules.conditions import check_conditions, condition_list
from podium.rules.context import KindRules, RuleContext
from podium.rules.decoding import objects, pointer, text
from podium.rules.fields import FieldError, refusal
from podium.rules.grouppriority import set_priority
from podium.rules.schema import Document, Field, StructSchema, optional, validate

FIXED = refusal(
    "group-immutable",
    title="Immutable field of a PodGroup changed",
    why="The scheduler may already have acted on it; setting an unset field counts as a change.",
    source="Kubernetes API server: G23, G24, G25",
    fix="Send the stored value back (kubectl apply does), or create another PodGroup.",
)
WORKLOAD_MISSING = refusal(
    "workload-not-found",
    title="Workload of a PodGroup not found, or without the template",
    why="Kubernetes 1.36 requires that the template exists when the group is created; 1.37 does not check.",
    source="Kubernetes API server: G13",
    fix="Create the Workload with that template first.",
)
CLAIM_STATUS = refusal(
    "claim-status",
    title="Status of a claim that is not in the spec",
    why="A claim's status belongs to a claim of the spec.",
    source="Kubernetes API server: G28",
    fix="Name a claim of spec.resourceClaims.",
)
RULES = (FIXED.rule, WORKLOAD_MISSING.rule, CLAIM_STATUS.rule)

# A finalizer that kube-apiserver sets on native groups: they stay while pods need them.
PROTECTION_FINALIZER = "scheduling.k8s.io/podgroup-protection"


# The field in each version that names the template of a group.
REFERENCE = {api.version: "podGroupTemplateRef" if api.older else "workloadRef" for api in GROUP_APIS}


def _reference(api: GroupApi) -> tuple[Field, ...]:
    stops, version = (immutable(FIXED), optional), api.version
    if not api.older:
        of_parent = (gated(COMPOSITE, groupspec.GATE_OFF), optional, immutable(FIXED))
        return groupspec.parent(of_parent, gate=COMPOSITE), groupspec.workload_reference(version, stops)
    inner = pointer(
        "workload",
        StructSchema("WorkloadPodGroupTemplateReference", groupspec.template_names("podGroupTemplateName")),
        f"{version}.WorkloadPodGroupTemplateReference",
        always=True,
        stops=(optional,),
        description="Template of a Workload.",
    )
    shape = StructSchema(
        "PodGroupTemplateReference", (inner,), checks=(union(groupspec.TEMPLATE_REF, "workload"),)
    )
    go = f"{version}.PodGroupTemplateReference"
    about = "Origin of the group."
    return (pointer(REFERENCE[version], shape, go, always=True, stops=stops, description=about),)


# Code checks it for new groups; the declarative rule of 1.38 checks updates too.
_WITH_REFERENCE = dependent(groupspec.TEMPLATE_REF, "parentCompositePodGroupName", "workloadRef")


def _spec(api: GroupApi) -> StructSchema:
    but = "" if api.older else ", but for a gang's minCount"
    return StructSchema(
        "PodGroupSpec",
        (*_reference(api), *groupspec.group_fields(api, FIXED)),
        checks=(_WITH_REFERENCE,) if api.beta_rules else (),
        description=f"The desired state of the group; fixed once created{but}.",
    )


def _status(api: GroupApi) -> StructSchema:
    claim = StructSchema(
        "PodGroupResourceClaimStatus",
        (
            text("name", always=True),
            text(
                "resourceClaimName",
                pointer=True,
                stops=(optional,),
                checks=(spelled(CLAIM_STATUS, names.dns_subdomain),),
            ),
        ),
    )
    return StructSchema(
        "PodGroupStatus",
        (
            condition_list(api),
            objects(
                "resourceClaimStatuses",
                claim,
                f"{api.version}.PodGroupResourceClaimStatus",
                key="name",
                stops=(max_items(CLAIM_STATUS, groupspec.MAX_CLAIMS), optional),
                checks=(unique(CLAIM_STATUS, "name"),),
            ),
        ),
    )


SPECS = {api: _spec(api) for api in GROUP_APIS}
STATUSES = {api: _status(api) for api in GROUP_APIS}
SHAPES = {api: groupspec.kind_shape("PodGroup", api.version, SPECS[api], STATUSES[api]) for api in GROUP_APIS}


def default(context: RuleContext, document: Document) -> None:
    """Set the defaults of decoding."""
    groupspec.set_defaults(context, SPECS[context.api], document["spec"])


def mutate(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the Priority plugin to a new group, and add the finalizer of PodGroupProtection."""
    if old is not None:
        return
    set_priority(context, new)
    if context.native:
        metadata.add_finalizer(new["metadata"], PROTECTION_FINALIZER)


def prepare(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategy of a group; the status of claims is kept only while the group has claims."""
    groupspec.prepare_group(context, SPECS[context.api], new, old)
    keeps_claims = CLAIMS in context.write.gates or old is None or old["spec"].get("resourceClaims")
    if context.status and not keeps_claims:
        new["status"].pop("resourceClaimStatuses", None)


def check(context: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in the part that a client may change: spec, or status.

    In the status, conditions and claims are checked by code first.
    """
    if context.status and old is not None:
        status, stored = new["status"], old["status"]
        errors = check_conditions(context, status)
        errors += _claims(status, new["spec"])
        return errors + validate(STATUSES[context.api], "status", status, stored, context.write)
    spec, stored_spec = new["spec"], None if old is None else old["spec"]
    errors = []
    if old is None:
        errors += groupspec.whole_without_gang(context.api, spec, "spec")
        if not context.api.beta_rules:
            errors += _WITH_REFERENCE.run("spec", spec, None, context.write) or ()
    return errors + validate(SPECS[context.api], "spec", spec, stored_spec, context.write)


def judge(context: RuleContext, new: Document, old: Document | None) -> None:
    """Apply PodGroupWorkloadExists to a new native group; 1.37 no longer has this plugin."""
    if old is None and context.native and context.minor.template_needed:
        _check_template_exists(context, new)


def _claims(status: Document, spec: Document) -> list[FieldError]:
    declared = {claim["name"] for claim in spec.get("resourceClaims", ())}
    detail = "must match the name of an entry in `spec.resourceClaims`"
    return [
        fields.invalid(CLAIM_STATUS, f"status.resourceClaimStatuses[{index}].name", claim["name"], detail)
        for index, claim in enumerate(status.get("resourceClaimStatuses", ()))
        if claim["name"] not in declared
    ]


def _check_template_exists(context: RuleContext, new: Document) -> None:
    ref = (new["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if ref is None:
        return
    workload, template = ref["workloadName"], ref["podGroupTemplateName"]
    stored = context.view.workloads.get(GroupKey(True, context.ref.namespace, workload))
    quoted = go_quote(workload)
    message = ""
    if stored is None:
        message = f"PodGroup rejected: Workload {quoted} not found"
    elif stored.metadata.deletionTimestamp:
        message = f"PodGroup rejected: Workload {quoted} is being deleted"
    elif stored.template(template) is None:
        message = f"PodGroup rejected: PodGroupTemplate {go_quote(template)} not found in Workload {quoted}"
    if message:
        raise context.forbid(WORKLOAD_MISSING, "spec.podGroupTemplateRef", message)


KIND = KindRules("podgroups", SHAPES, check, prepare, default, mutate, judge)
