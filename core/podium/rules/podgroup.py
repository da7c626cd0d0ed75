"""PodGroup: its tables for each version, the admission steps around them, and its status.

On create the Priority plugin resolves the class and sets name and integer. On update no plugin restores
omitted values, so a PUT of the original manifest is refused as a change of immutable fields.
"""

from podium.api.membership import GroupKey
from podium.rules import fields, metadata, names
from podium.rules.checks import (
    gated,
    immutable,
    max_items,
    required,
    spelled,
    union,
    unique,
    when_on,
)
from podium.rules.context import CLAIMS, COMPOSITE, GROUP_POLICY, TOPOLOGY, RuleContext
from podium.rules.decoding import integer, objects, pointer, struct, text, time
from podium.rules.fields import FieldError, refusal
from podium.rules.groupspec import (
    GATE_OFF,
    MAX_CLAIMS,
    claims,
    constraints,
    disruption_mode,
    policy,
    preemption_policy,
    priority_fields,
)
from podium.rules.schema import Document, Field, StructSchema, drop_gated, optional, validate

FIXED = refusal(
    "group-immutable",
    title="Immutable field of a PodGroup changed",
    why="The scheduler may already have acted on it; setting an unset field counts as a change.",
    source="Kubernetes API server: G23, G24, G25",
    fix="Send the stored value back (kubectl apply does), or create another PodGroup.",
)
TEMPLATE_REF = refusal(
    "template-reference",
    title="Incomplete reference to a template",
    why="A reference needs the Workload and the template in it.",
    source="Kubernetes API server: G12",
    fix="Set both names, or remove the reference.",
)
UNKNOWN_CLASS = refusal(
    "group-class-not-found",
    title="Priority class of a PodGroup not found",
    why="The priority of the group is computed from the class.",
    source="Kubernetes API server: G5",
    fix="Create the PriorityClass first, or name an existing one.",
)
MISMATCH = refusal(
    "group-priority-mismatch",
    title="Priority of a PodGroup differs from its class",
    why="The priority is computed from the class; another value is refused.",
    source="Kubernetes API server: G7",
    fix="Remove spec.priority and name the class that has this value.",
)
POLICY_MISMATCH = refusal(
    "group-preemption-policy-mismatch",
    title="Preemption policy of a PodGroup differs from its class",
    why="The policy is computed from the class, as for pods.",
    source="Kubernetes API server: G2",
    fix="Remove spec.preemptionPolicy and name a class that has this policy.",
)
WORKLOAD_MISSING = refusal(
    "workload-not-found",
    title="Workload of a PodGroup not found, or without the template",
    why="Kubernetes 1.36 requires that the template exists when the group is created; 1.37 does not check.",
    source="Kubernetes API server: G13",
    fix="Create the Workload with that template first.",
)
CONDITION = refusal(
    "condition-invalid",
    title="Invalid condition",
    why="Clients read conditions by type, status and reason.",
    source="Kubernetes API server: G28",
    fix="Set a unique type, status True, False or Unknown, a reason in CamelCase and lastTransitionTime.",
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
        TEMPLATE_REF,
        UNKNOWN_CLASS,
        MISMATCH,
        POLICY_MISMATCH,
        WORKLOAD_MISSING,
        CONDITION,
        CLAIM_STATUS,
    )
)

PLURAL = "podgroups"
NAMESPACED = True
HAS_STATUS = True
# A finalizer that kube-apiserver sets on native groups: they stay while pods need them.
PROTECTION_FINALIZER = "scheduling.k8s.io/podgroup-protection"
MAX_REASON = 1024
MAX_MESSAGE = 32 * 1024
_CONDITION_STATUSES = ("False", "True", "Unknown")
# The field in each version that names the template of a group.
REFERENCE = {
    "v1alpha2": "podGroupTemplateRef",
    "v1alpha3": "workloadRef",
    "v1beta1": "workloadRef",
}


def _reference(version: str) -> tuple[Field, ...]:
    name = required(TEMPLATE_REF)
    workload = text(
        "workloadName", always=True, stops=(name,), checks=(spelled(TEMPLATE_REF, names.dns_subdomain),)
    )
    older = version == "v1alpha2"
    template = text(
        "podGroupTemplateName" if older else "templateName",
        always=True,
        stops=(name,),
        checks=(spelled(TEMPLATE_REF, names.dns_label),),
    )
    stops = (immutable(FIXED), optional)
    if not older:
        parent = text(
            "parentCompositePodGroupName",
            pointer=True,
            gate=COMPOSITE,
            stops=(gated(COMPOSITE, GATE_OFF), optional, immutable(FIXED)),
            checks=(spelled(TEMPLATE_REF, names.dns_subdomain),),
        )
        go = f"{version}.WorkloadReference"
        return parent, pointer(
            REFERENCE[version], StructSchema("WorkloadReference", (workload, template)), go, stops=stops
        )
    inner = pointer(
        "workload",
        StructSchema("WorkloadPodGroupTemplateReference", (workload, template)),
        f"{version}.WorkloadPodGroupTemplateReference",
        always=True,
        stops=(optional,),
    )
    shape = StructSchema("PodGroupTemplateReference", (inner,), checks=(union(TEMPLATE_REF, "workload"),))
    go = f"{version}.PodGroupTemplateReference"
    return (pointer(REFERENCE[version], shape, go, always=True, stops=stops),)


def _spec(version: str) -> StructSchema:
    older = version == "v1alpha2"
    fixed = immutable(FIXED)
    listed = (
        *_reference(version),
        policy(version, (fixed,) if older else (), fixed_inside=not older),
        constraints(version, (when_on(TOPOLOGY, fixed),), always=False),
        claims(version, FIXED),
        disruption_mode(version, (fixed,), defaulted=True),
        *priority_fields((fixed,)),
    )
    return StructSchema("PodGroupSpec", listed if older else (*listed, preemption_policy(version, FIXED)))


_CONDITION = StructSchema(
    "Condition",
    (
        text("type", always=True),
        text("status", "v1.ConditionStatus", always=True),
        integer("observedGeneration", "int64"),
        time("lastTransitionTime", always=True),
        text("reason", always=True),
        text("message", always=True),
    ),
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
            objects("conditions", _CONDITION, "v1.Condition"),
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


VERSIONS = ("v1alpha2", "v1alpha3", "v1beta1")
SPECS = {version: _spec(version) for version in VERSIONS}
STATUSES = {version: _status(version) for version in VERSIONS}
SHAPES = {
    version: StructSchema(
        "PodGroup",
        (
            text("apiVersion"),
            text("kind"),
            struct("metadata", metadata.OBJECT_META, "v1.ObjectMeta"),
            struct("spec", SPECS[version], f"{version}.PodGroupSpec"),
            struct("status", STATUSES[version], f"{version}.PodGroupStatus"),
        ),
    )
    for version in VERSIONS
}


def shape(version: str) -> StructSchema:
    """Return the table of one version."""
    return SHAPES[version]


def default(document: Document, version: str) -> None:
    """Set the defaults of decoding."""
    spec = document["spec"]
    if "disruptionMode" not in spec:
        spec["disruptionMode"] = "Pod" if version == "v1alpha2" else {"single": {}}


def mutate(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the Priority plugin to a new group, and add the finalizer of PodGroupProtection."""
    if old is not None:
        return
    spec = new["spec"]
    found = case.resolve_class(spec.get("priorityClassName", ""), UNKNOWN_CLASS)
    given = spec.get("priority")
    if given is not None and given != found.value:
        message = (
            f"priority set in the pod group ({given}) must match the priority computed ({found.value}) based "
            "on the priority class set in the spec"
        )
        raise case.forbid(MISMATCH, "spec.priority", message)
    if found.name:
        case.set(new, "priorityClassName", found.name)
    case.set(new, "priority", found.value)
    if GROUP_POLICY in case.write.gates and "preemptionPolicy" in SPECS[case.version].by_name:
        check_policy(case, spec.get("preemptionPolicy"), found.preemption_policy)
        case.set(new, "preemptionPolicy", found.preemption_policy)
    if case.native:
        finalizers = new["metadata"].setdefault("finalizers", [])
        if PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PROTECTION_FINALIZER)


def check_policy(case: RuleContext, given: str | None, computed: str) -> None:
    """Raise Refused for a preemption policy that differs from the class's; an absent one is allowed."""
    if given is not None and given != computed:
        message = (
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod group spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
        raise case.forbid(POLICY_MISMATCH, "spec.preemptionPolicy", message)


def prepare(case: RuleContext, new: Document, old: Document | None) -> None:
    """Apply the strategy: drop gated fields and keep the status, or keep all but the status."""
    if case.status and old is not None:
        metadata.reset_for_status(new["metadata"], old["metadata"])
        new["spec"] = old["spec"]
        if not old["spec"].get("resourceClaims") and CLAIMS not in case.write.gates:
            new["status"].pop("resourceClaimStatuses", None)
        return
    stored = None if old is None else old["spec"]
    for name in drop_gated(SPECS[case.version], new["spec"], stored, case.write.gates):
        case.dropped(f"spec.{name}")
    new["status"] = {} if old is None else old["status"]


def check(case: RuleContext, new: Document, old: Document | None) -> list[FieldError]:
    """Return errors in the part that a client may change: spec, or status.

    In the status, conditions and claims are checked by code first.
    """
    if case.status and old is not None:
        status, stored = new["status"], old["status"]
        errors = _conditions(status.get("conditions", ()), case.minor)
        errors += _claims(status, new["spec"])
        return errors + validate(STATUSES[case.version], "status", status, stored, case.write)
    spec = None if old is None else old["spec"]
    return validate(SPECS[case.version], "spec", new["spec"], spec, case.write)


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


def _conditions(conditions: list[Document], minor: int) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        kind = condition["type"]
        if kind in seen:
            errors.append(fields.duplicate(CONDITION, path if minor >= 37 else f"{path}.type", kind))
        seen.add(kind)
        errors += _condition(condition, path, minor)
    return errors


def _condition(condition: Document, path: str, minor: int) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, status, reason = condition["type"], condition["status"], condition["reason"]
    if minor >= 37 and not kind:
        errors.append(fields.required(CONDITION, f"{path}.type", "is required"))
    else:
        errors += [
            fields.invalid(CONDITION, f"{path}.type", kind, complaint)
            for complaint in names.qualified_name(kind)
        ]
    if minor >= 37 and not status:
        errors.append(fields.required(CONDITION, f"{path}.status"))
    elif status not in _CONDITION_STATUSES:
        errors.append(fields.unsupported(CONDITION, f"{path}.status", status, _CONDITION_STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(fields.invalid(CONDITION, f"{path}.observedGeneration", generation, detail))
    if condition["lastTransitionTime"] is None:
        errors.append(fields.required(CONDITION, f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(fields.required(CONDITION, f"{path}.reason"))
    else:
        errors += [
            fields.invalid(CONDITION, f"{path}.reason", reason, complaint)
            for complaint in names.condition_reason(reason)
        ]
        if len(reason.encode(errors="surrogatepass")) > MAX_REASON:
            errors.append(fields.too_long(CONDITION, f"{path}.reason", MAX_REASON))
    if len(condition["message"].encode(errors="surrogatepass")) > MAX_MESSAGE:
        errors.append(fields.too_long(CONDITION, f"{path}.message", MAX_MESSAGE))
    return errors


def _check_template_exists(case: RuleContext, new: Document) -> None:
    ref = (new["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if ref is None:
        return
    workload, template = ref["workloadName"], ref["podGroupTemplateName"]
    found = case.view.workloads.get(GroupKey(True, case.ref.namespace, workload))
    quoted = fields.go_quote(workload)
    message = ""
    if found is None:
        message = f"PodGroup rejected: Workload {quoted} not found"
    elif found.metadata.deletionTimestamp:
        message = f"PodGroup rejected: Workload {quoted} is being deleted"
    elif found.template(template) is None:
        message = (
            f"PodGroup rejected: PodGroupTemplate {fields.go_quote(template)} not found in Workload {quoted}"
        )
    if message:
        raise case.forbid(WORKLOAD_MISSING, "spec.podGroupTemplateRef", message)
