"""The custom resources of scheduling.podium.dev as CustomResourceDefinitions.

Where the Workload API is not served, these kinds replace it. Their schema therefore holds the declarative
validation rules of upstream, version by version, with upstream's messages where a schema can produce them. It
holds no rule of Podium's own: those have levels and are in the webhook. The one exception is the length of a
PodGroup's name, because the name is a label on its pods.

v1alpha2 is served only if a conversion webhook is configured. Without one the API server would only change
the apiVersion of objects, and prune fields whose shape differs between the versions. PreemptionRecord
replaces no upstream kind and has one version.
"""

from collections.abc import Sequence
from typing import Any

from podium.api.convert import MAX_PODIUM_NAME, PARENT
from podium.api.groups import COMPOSITE_INITIALLY_SCHEDULED, PODIUM_GROUP
from podium.api.records import RECORD_KIND
from podium.crds.records import record_parts
from podium.crds.schema import (
    NOT_EMPTY,
    Rule,
    Schema,
    claim_status,
    composite_fields,
    composite_rules,
    composite_templates,
    condition,
    equal,
    equal_plain,
    fixed,
    group_fields,
    group_rules,
    items,
    label,
    only_one,
    only_one_list,
    optional_text,
    required_text,
    rule,
    segment,
    struct,
    subdomain,
)
from podium.groups.trees import MAX_TEMPLATES
from podium.rules.groupspec import MAX_CLAIMS
from podium.rules.templates import COMPOSITES, LEAVES

CATEGORY = "podium"
# A custom resource needs some limit; no object has more conditions.
_MAX_CONDITIONS = 32


def crds(conversion: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of the kinds that replace native ones.

    CompositePodGroup has one version, because upstream's v1alpha2 lacks the kind. `conversion` is the
    clientConfig of the conversion webhook (service or url, and caBundle). Without it only the stored version,
    v1beta1, is served.
    """
    served = conversion is not None
    strategy: dict[str, Any] = {"strategy": "None"}
    if served:
        webhook = {"clientConfig": conversion, "conversionReviewVersions": ["v1"]}
        strategy = {"strategy": "Webhook", "webhook": webhook}
    both = {"PodGroup": _pod_group, "Workload": _workload}
    return [
        *(
            _crd(
                kind,
                {"name": "v1alpha2", "served": served, "storage": False, **version(newer=False)},
                {"name": "v1beta1", "served": True, "storage": True, **version(newer=True)},
                conversion=strategy,
            )
            for kind, version in both.items()
        ),
        _crd("CompositePodGroup", {"name": "v1beta1", "served": True, "storage": True, **_composite_group()}),
    ]


def records() -> dict[str, Any]:
    """Return the CustomResourceDefinition of PreemptionRecord, the scheduler's history."""
    return _crd(RECORD_KIND, {"name": "v1beta1", "served": True, "storage": True, **_record()})


def _crd(kind: str, *versions: dict[str, Any], conversion: dict[str, Any] | None = None) -> dict[str, Any]:
    singular = kind.lower()
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{singular}s",
        "singular": singular,
        "categories": [CATEGORY],
    }
    spec = {
        "group": PODIUM_GROUP,
        "names": names,
        "scope": "Namespaced",
        "conversion": conversion or {"strategy": "None"},
        "versions": list(versions),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{PODIUM_GROUP}"},
        "spec": spec,
    }


def _pod_group(*, newer: bool) -> dict[str, Any]:
    ref = "workloadRef" if newer else "podGroupTemplateRef"
    spec = struct(
        "The desired state of the group; fixed once created"
        + (", but for a gang's minCount." if newer else "."),
        {
            **({PARENT: _parent()} if newer else {}),
            ref: _workload_ref() if newer else _template_ref(),
            **group_fields(newer=newer),
        },
        required=["schedulingPolicy"],
        rules=[*(_parent_rules() if newer else []), fixed(ref, equal(ref)), *group_rules(newer=newer)],
    )
    status = struct(
        "The observed state of the group.",
        {
            "conditions": items("Conditions by type.", condition(), _MAX_CONDITIONS, key="type"),
            "resourceClaimStatuses": items("Claims by name.", claim_status(), MAX_CLAIMS),
        },
    )
    name_rule = rule(
        f"size(self.metadata.name) <= {MAX_PODIUM_NAME}",
        f"metadata.name must be no more than {MAX_PODIUM_NAME} characters: it is a label on the group's pods",
    )
    claims_rule = rule(
        "!has(self.status) || !has(self.status.resourceClaimStatuses) || "
        "self.status.resourceClaimStatuses.all(s, "
        "has(self.spec.resourceClaims) && self.spec.resourceClaims.exists(c, c.name == s.name))",
        "must match the name of an entry in `spec.resourceClaims`",
        ".status.resourceClaimStatuses",
    )
    scheduled = "PodGroupInitiallyScheduled" if newer else "PodGroupScheduled"
    workload = ".spec.workloadRef" if newer else ".spec.podGroupTemplateRef.workload"
    return {
        "schema": _root(
            "A group of pods that is scheduled, ordered and preempted as one.",
            {"spec": spec, "status": status},
            rules=[name_rule, claims_rule],
        ),
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column("Policy", ".spec.schedulingPolicy"),
            _column("Class", ".spec.priorityClassName"),
            _column("Priority", ".spec.priority", "integer"),
            _column("Scheduled", f'.status.conditions[?(@.type=="{scheduled}")].status'),
            _column("Divergent", '.status.conditions[?(@.type=="PodsNotMatchingPriority")].status'),
            _column("Mode", ".spec.disruptionMode", priority=1),
            _column("Workload", f"{workload}.workloadName", priority=1),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _composite_group() -> dict[str, Any]:
    spec = struct(
        "The desired state of the composite group; fixed once created.",
        {PARENT: _parent(), "workloadRef": _workload_ref(), **composite_fields()},
        required=["workloadRef", "schedulingPolicy"],
        rules=[fixed(PARENT, equal(PARENT)), fixed("workloadRef", equal("workloadRef")), *composite_rules()],
    )
    status = struct(
        "The observed state of the composite group.",
        {"conditions": items("Conditions by type.", condition(), _MAX_CONDITIONS, key="type")},
    )
    return {
        "schema": _root(
            "A group of pod groups and composite groups that is scheduled and preempted together.",
            {"spec": spec, "status": status},
        ),
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column("Policy", ".spec.schedulingPolicy"),
            _column("Parent", f".spec.{PARENT}"),
            _column("Class", ".spec.priorityClassName"),
            _column("Priority", ".spec.priority", "integer"),
            _column("Scheduled", f'.status.conditions[?(@.type=="{COMPOSITE_INITIALLY_SCHEDULED}")].status'),
            _column("Mode", ".spec.disruptionMode", priority=1),
            _column("Workload", ".spec.workloadRef.workloadName", priority=1),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _workload(*, newer: bool) -> dict[str, Any]:
    template = struct(
        "A template of pod groups" + (", fixed but for a gang's minCount." if newer else "."),
        {
            "name": required_text(label("Name of the template in the Workload.")),
            **group_fields(newer=newer),
        },
        required=["name", "schedulingPolicy"],
        rules=group_rules(newer=True) if newer else [],
    )
    templates = items("Templates that groups may be created from.", template, MAX_TEMPLATES)
    templates_fixed = fixed("podGroupTemplates", equal_plain("podGroupTemplates", named=True))
    update = _newer_rules() if newer else [templates_fixed]
    leaves = {**templates, "x-kubernetes-validations": [NOT_EMPTY]}
    lists = {LEAVES: templates, COMPOSITES: composite_templates(template)} if newer else {LEAVES: leaves}
    spec = struct(
        "Templates of the pod groups of one workload.",
        {"controllerRef": _controller_ref(), **lists},
        required=[] if newer else [LEAVES],
        rules=[fixed("controllerRef", equal("controllerRef")), *update],
    )
    # A column shows only one value; in v1beta1 all templates have the same priority as the first.
    first = ".spec.podGroupTemplates[0]"
    shared = [
        _column("Class", f"{first}.priorityClassName"),
        _column("Priority", f"{first}.priority", "integer"),
    ]
    return {
        "schema": _root("The templates of a workload's pod groups.", {"spec": spec}),
        "additionalPrinterColumns": [
            _column("Controller", ".spec.controllerRef.name"),
            *(shared if newer else []),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _record() -> dict[str, Any]:
    return {
        "schema": _root("Preemptions, carried out or planned.", record_parts(), required=()),
        "additionalPrinterColumns": [
            _column("Sequence", ".sequence", "integer"),
            _column("From", ".plans[0].time", "date"),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _newer_rules() -> list[Rule]:
    """Return the rules that fix the set of templates, and require one priority for all of them."""
    path, here, old = f".{LEAVES}", f"self.{LEAVES}", f"oldSelf.{LEAVES}"
    first = f"{here}[0]"
    same = f"{equal_plain('priorityClassName', 't', first)} && {equal('priority', 't', first)}"
    # A Workload with composite templates has no such list; the webhook compares the templates of a tree.
    leaves, stored = f"!has({here})", f"!has({old})"
    added = f"{leaves} || {here}.all(t, has({old}) && {old}.exists(o, o.name == t.name))"
    removed = f"{stored} || {old}.all(o, has({here}) && {here}.exists(t, t.name == o.name))"
    return [
        *only_one_list(LEAVES, COMPOSITES),
        rule(added, "item may not be added", path, "Forbidden"),
        rule(removed, "item may not be removed", path, "Forbidden"),
        rule(f"{leaves} || {here}.all(t, {same})", "detected multiple priority configurations"),
    ]


def _parent() -> Schema:
    return subdomain("CompositePodGroup in the same namespace that the group belongs to.")


def _parent_rules() -> list[Rule]:
    """Return the rules that a group's parent is fixed, and that a group with one names its template."""
    message = f"must be set when {PARENT} is set"
    return [
        rule(f"!has(self.{PARENT}) || has(self.workloadRef)", message, ".workloadRef", "Required"),
        fixed(PARENT, equal(PARENT)),
    ]


def _workload_ref() -> Schema:
    return struct(
        "Template that the group was created from.",
        {
            "workloadName": required_text(subdomain("Workload in the same namespace.")),
            "templateName": required_text(label("Template of the Workload.")),
        },
        required=["workloadName", "templateName"],
    )


def _template_ref() -> Schema:
    names = {
        "workloadName": required_text(subdomain("Workload in the same namespace.")),
        "podGroupTemplateName": required_text(label("Template of the Workload.")),
    }
    workload = struct("Template of a Workload.", names, required=list(names))
    return struct("Origin of the group.", {"workload": workload}, rules=only_one("workload"))


def _controller_ref() -> Schema:
    return struct(
        "Object that the Workload represents.",
        {
            "apiGroup": optional_text(subdomain("Its API group; empty for the core group.")),
            "kind": required_text(segment("Its kind.")),
            "name": required_text(segment("Its name, in the same namespace.")),
        },
        required=["kind", "name"],
    )


def _root(
    description: str,
    parts: dict[str, Schema],
    *,
    required: Sequence[str] = ("spec",),
    rules: Sequence[Rule] = (),
) -> dict[str, Any]:
    header: dict[str, Schema] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    schema = struct(description, {**header, **parts}, required=required, rules=rules)
    return {"openAPIV3Schema": schema}


def _column(name: str, path: str, kind: str = "string", priority: int = 0) -> dict[str, Any]:
    """Return a column of `kubectl get`; a column of priority 1 is shown with -o wide."""
    column = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": priority} if priority else column
