"""PodGroup: its tables for each version, the admission steps around them, and its status.

On create the Priority plugin resolves the class and sets name and integer. On update no plugin restores
omitted values, so a PUT of the original manifest is refused as a change of immutable fields.
"""

from kubecel.goquote import go_quote
from podium.api.membership import GroupKey
from podium.rules import fields, names
from podium.rules.checks import gated, immutable, max_items, spelled, union, unique
from podium.rules.conditions import CONDITION_TABLE, check_conditions
from podium.rules.context import CLAIMS, COMPOSITE, RuleContext
from podium.rules.decoding import objects, pointer, text
from podium.rules.fields import FieldError, refusal
from podium.rules.grouppriority import set_priority
from podium.rules.groupspec import (
    GATE_OFF,
    MAX_CLAIMS,
    NEWER,
    OLDER,
    TEMPLATE_REF,
    VERSIONS,
    group_fields,
    kind_shape,
    parent,
    prepare_group,
    set_defaults,
    template_names,
    workload_reference,
)
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
RULES = tuple(
    cause.rule
    for cause in (
        FIXED,
        WORKLOAD_MISSING,
        CLAIM_STATUS,
    )
)

PLURAL = "podgroups"
NAMESPACED = True
HAS_STATUS = True
# A finalizer that kube-apiserver sets on native groups: they stay while pods need them.
PROTECTION_FINALIZER = "scheduling.k8s.io/podgroup-protection"
# The field in each version that names the template of a group.
REFERENCE = {OLDER: "podGroupTemplateRef", **dict.fromkeys(NEWER, "workloadRef")}


def _reference(version: str) -> tuple[Field, ...]:
    stops = (immutable(FIXED), optional)
    if version != OLDER:
        of_parent = (gated(COMPOSITE, GATE_OFF), optional, immutable(FIXED))
        return parent(of_parent, gate=COMPOSITE), workload_reference(version, stops)
    inner = pointer(
        "workload",
        StructSchema("WorkloadPodGroupTemplateReference", template_names("podGroupTemplateName")),
        f"{version}.WorkloadPodGroupTemplateReference",
        always=True,
        stops=(optional,),
        description="Template of a Workload.",
    )
    shape = StructSchema("PodGroupTemplateReference", (inner,), checks=(union(TEMPLATE_REF, "workload"),))
    go = f"{version}.PodGroupTemplateReference"
    about = "Origin of the group."
    return (pointer(REFERENCE[version], shape, go, always=True, stops=stops, description=about),)


def _spec(version: str) -> StructSchema:
    but = "" if version == OLDER else ", but for a gang's minCount"
    return StructSchema(
        "PodGroupSpec",
        (*_reference(version), *group_fields(version, FIXED)),
        description=f"The desired state of the group; fixed once created{but}.",
    )


def _status(version: str) -> StructSchema:
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
            objects("conditions", CONDITION_TABLE, "v1.Condition"),
            objects(
                "resourceClaimStatuses",
                claim,
                f"{version}.PodGroupResourceClaimStatus",
                key="name",
                stops=(max_items(CLAIM_STATUS, MAX_CLAIMS), optional),
                checks=(unique(CLAIM_STATUS, "name"),),
            ),
        ),
    )


SPECS = {version: _spec(version) for version in VERSIONS}
STATUSES = {version: _status(version) for version in VERSIONS}
SHAPES = {version: kind_shape("PodGroup", version, SPECS[version], STATUSES[version]) for version in VERSIONS}


def shape(version: str) -> StructSchema:
    """Return the table of one version."""
    return SHAPES[version]


def default(document: Document, version: str, gates: frozenset[str]) -> None:
    """Set the defaults of decoding."""
    set_defaults(SPECS[version], document["spec"], gates)


def mutate(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the Priority plugin to a new group, and add the finalizer of PodGroupProtection."""
    if old is not None:
        return
    set_priority(case, new, has_policy="preemptionPolicy" in SPECS[case.version].by_name)
    if case.native:
        finalizers = new["metadata"].setdefault("finalizers", [])
        if PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PROTECTION_FINALIZER)


def prepare(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategy of a group; the status of claims is kept only while the group has claims."""
    prepare_group(case, SPECS[case.version], new, old)
    keeps_claims = CLAIMS in case.write.gates or old is None or old["spec"].get("resourceClaims")
    if case.status and not keeps_claims:
        new["status"].pop("resourceClaimStatuses", None)


def check(case: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in the part that a client may change: spec, or status.

    In the status, conditions and claims are checked by code first.
    """
    if case.status and old is not None:
        status, stored = new["status"], old["status"]
        errors = check_conditions(status.get("conditions", ()), case.minor)
        errors += _claims(status, new["spec"])
        return errors + validate(STATUSES[case.version], "status", status, stored, case.write)
    spec, stored_spec = new["spec"], None if old is None else old["spec"]
    errors = []
    if old is None and "parentCompositePodGroupName" in spec and "workloadRef" not in spec:
        detail = "must be set when parentCompositePodGroupName is set"
        errors.append(fields.required(TEMPLATE_REF, "spec.workloadRef", detail))
    return errors + validate(SPECS[case.version], "spec", spec, stored_spec, case.write)


def judge(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply PodGroupWorkloadExists to a new native group; 1.37 no longer has this plugin."""
    if old is None and case.native and case.minor < 37:
        _check_template_exists(case, new)


def _claims(status: Document, spec: Document) -> list[FieldError]:
    declared = {claim["name"] for claim in spec.get("resourceClaims", ())}
    detail = "must match the name of an entry in `spec.resourceClaims`"
    return [
        fields.invalid(CLAIM_STATUS, f"status.resourceClaimStatuses[{index}].name", claim["name"], detail)
        for index, claim in enumerate(status.get("resourceClaimStatuses", ()))
        if claim["name"] not in declared
    ]


def _check_template_exists(case: RuleContext, new: Document) -> None:
    ref = (new["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if ref is None:
        return
    workload, template = ref["workloadName"], ref["podGroupTemplateName"]
    found = case.view.workloads.get(GroupKey(True, case.ref.namespace, workload))
    quoted = go_quote(workload)
    message = ""
    if found is None:
        message = f"PodGroup rejected: Workload {quoted} not found"
    elif found.metadata.deletionTimestamp:
        message = f"PodGroup rejected: Workload {quoted} is being deleted"
    elif found.template(template) is None:
        message = f"PodGroup rejected: PodGroupTemplate {go_quote(template)} not found in Workload {quoted}"
    if message:
        raise case.forbid(WORKLOAD_MISSING, "spec.podGroupTemplateRef", message)
