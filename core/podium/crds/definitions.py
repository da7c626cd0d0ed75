"""The custom resources of scheduling.podium.dev as CustomResourceDefinitions.

Where the Workload API is not served, these kinds replace it. Their schema therefore holds the declarative
validation rules of upstream, version by version, with upstream's messages where a schema can produce them.
They come from the tables of `podium.rules`. The schema holds no rule of Podium's own: those have levels and
are in the webhook. The one exception is the length of a PodGroup's name, because the name is a label on its
pods.

v1alpha2 is served only if a conversion webhook is configured. Without one the API server would only change
the apiVersion of objects, and prune fields whose shape differs between the versions. PreemptionRecord
replaces no upstream kind and has one version.
"""

from collections.abc import Sequence
from typing import Any

from podium.api.convert import MAX_PODIUM_NAME, PARENT
from podium.api.groups import (
    COMPOSITE_INITIALLY_SCHEDULED,
    GROUP_SCHEDULED,
    INITIALLY_SCHEDULED,
    PODIUM_GROUP,
)
from podium.api.minors import GROUP_MINORS, group_api
from podium.api.records import (
    MAX_PLANS,
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    RECORD_KIND,
    PlanMode,
    Result,
    Saving,
)
from podium.crds.schema import Rule, Schema, condition, items, properties, rule, struct
from podium.minors.minor import GroupApi
from podium.rules import compositegroup, podgroup, workload
from podium.rules.groupspec import MAX_CLAIMS
from podium.rules.names import LABEL_LIMIT, SUBDOMAIN_LIMIT
from podium.rules.templates import LEAVES

# The schema of PreemptionRecord has a few limits and no rules, because only the scheduler writes records. The
# limits keep one object well below the maximum size that an API server stores. A truncated record is more
# useful than a refused record, so a writer truncates records to fit.


# UIDs are 36 characters long.
_MAX_UID = 128
_WHOLE = {"type": "integer", "format": "int64", "minimum": 0}


def record_parts() -> dict[str, Schema]:
    """Return the schemas of a record's fields beside its header."""
    return {
        "sequence": {
            "description": "Number of the object; the object with the highest number is being filled.",
            **_WHOLE,
        },
        "plans": {
            "description": "Plans, oldest first.",
            "type": "array",
            "maxItems": MAX_PLANS,
            "items": _plan_schema(),
            "x-kubernetes-list-type": "atomic",
        },
    }


def _plan_schema() -> Schema:
    return struct(
        "A preemption, carried out or planned.",
        {
            "time": {"description": "Time of the decision.", "type": "string", "format": "date-time"},
            "mode": _word("Whether it was carried out or observed.", PlanMode),
            "result": _word("Result of the plan.", Result),
            "message": _text_schema("Human-readable reason.", MAX_TEXT),
            "preemptor": _party("The preemptor."),
            "domain": _text_schema("The node of the plan, or `cluster`.", SUBDOMAIN_LIMIT),
            "units": {
                "description": "The preempted units; only the first, if there are more.",
                "type": "array",
                "maxItems": MAX_UNITS,
                "items": _party("A pod, or a group as a whole."),
                "x-kubernetes-list-type": "atomic",
            },
            "unitCount": {"description": "Total number of units.", **_WHOLE},
            "podCount": {"description": "Total number of pods.", **_WHOLE},
            "accelerators": {
                "description": "Devices that those pods held, by resource or driver.",
                "type": "object",
                "maxProperties": MAX_RESOURCES,
                "additionalProperties": _WHOLE,
            },
            "violations": {"description": "Number of pods in violation of a PodDisruptionBudget.", **_WHOLE},
            "acceleratorSeconds": {"description": "The work lost, in accelerator-seconds.", **_WHOLE},
            "acceleratorSecondsSaved": {
                "description": "The work that is not lost because workloads save it, in accelerator-seconds.",
                **_WHOLE,
            },
            "milliseconds": {"description": "Duration of the execution.", **_WHOLE},
            "askedPods": {"description": "Number of pods that were asked to save their work.", **_WHOLE},
            "savedPods": {"description": "Number of those that saved it in time.", **_WHOLE},
            "waitedMilliseconds": {"description": "Duration of the wait for those pods.", **_WHOLE},
        },
        required=["time", "mode", "result", "preemptor"],
    )


def _party(description: str) -> Schema:
    return struct(
        description,
        {
            "kind": {
                "description": "Its kind.",
                "type": "string",
                "enum": ["Pod", "PodGroup", "CompositePodGroup"],
            },
            "namespace": _text_schema("Its namespace.", LABEL_LIMIT),
            "name": _text_schema("Its name.", SUBDOMAIN_LIMIT),
            "uid": _text_schema("Its UID.", _MAX_UID),
            "priority": {"description": "The priority it counted as.", "type": "integer", "format": "int32"},
            "pods": {"description": "Number of its pods.", **_WHOLE},
            "owner": struct(
                "Its controller, which recreates it.",
                {
                    "kind": _text_schema("Its kind.", SUBDOMAIN_LIMIT),
                    "name": _text_schema("Its name.", SUBDOMAIN_LIMIT),
                    "uid": _text_schema("Its UID.", _MAX_UID),
                },
                required=["kind", "name"],
            ),
            "saving": _word("Whether a victim that was asked to save its work did so in time.", Saving),
        },
        required=["kind", "namespace", "name"],
    )


def _word(description: str, words: type[PlanMode] | type[Result] | type[Saving]) -> Schema:
    return {"description": description, "type": "string", "enum": [str(word) for word in words]}


def _text_schema(description: str, limit: int) -> Schema:
    return {"description": description, "type": "string", "maxLength": limit}


CATEGORY = "podium"
# The names without the `p` belong to other projects, as `pg` does to Volcano and KAI.
_SHORT_NAMES = {"PodGroup": "ppg", "CompositePodGroup": "pcpg", "Workload": "pwl", RECORD_KIND: "prec"}
# Every cluster gets the same schema, so it allows what any minor allows, and the webhook has the rules of the
# minor. The rows of the newest minor allow most.
_APIS = tuple(group_api(version, max(GROUP_MINORS)) for version in ("v1alpha2", "v1beta1"))
_STORED = _APIS[-1]
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
                *(
                    {
                        "name": api.version,
                        "served": served or api is _STORED,
                        "storage": api is _STORED,
                        **of_version(api),
                    }
                    for api in _APIS
                ),
                conversion=strategy,
            )
            for kind, of_version in both.items()
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
        "shortNames": [_SHORT_NAMES[kind]],
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


def _pod_group(api: GroupApi) -> dict[str, Any]:
    newer = not api.older
    parent_rule = rule(
        f"!has(self.{PARENT}) || has(self.workloadRef)",
        f"must be set when {PARENT} is set",
        ".workloadRef",
        "Required",
    )
    spec = properties(podgroup.SPECS[api], rules=[parent_rule] if newer else [])
    claim = spec["properties"]["resourceClaims"]["items"]["properties"]
    claim_status = struct(
        "Status of a claim.",
        {
            "name": claim["name"],
            "resourceClaimName": {
                **claim["resourceClaimName"],
                "description": "ResourceClaim that was made.",
            },
        },
        required=["name"],
    )
    status = struct(
        "The observed state of the group.",
        {
            "conditions": _conditions(),
            "resourceClaimStatuses": items("Claims by name.", claim_status, MAX_CLAIMS),
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
    ref = ".spec.workloadRef" if newer else ".spec.podGroupTemplateRef.workload"
    return {
        "schema": _root(
            "A group of pods that is scheduled, ordered and preempted as one.",
            {"spec": spec, "status": status},
            rules=[name_rule, claims_rule],
        ),
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _minimum("minCount"),
            _column("Class", ".spec.priorityClassName"),
            _column("Priority", ".spec.priority", "integer"),
            *_scheduled(INITIALLY_SCHEDULED if newer else GROUP_SCHEDULED),
            _column("Divergent", '.status.conditions[?(@.type=="PodsNotMatchingPriority")].status'),
            *([] if newer else [_column("Mode", ".spec.disruptionMode", priority=1)]),
            _column("Workload", f"{ref}.workloadName", priority=1),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _composite_group() -> dict[str, Any]:
    spec = properties(compositegroup.SPECS[_STORED])
    status = struct("The observed state of the composite group.", {"conditions": _conditions()})
    return {
        "schema": _root(
            "A group of pod groups and composite groups that is scheduled and preempted together.",
            {"spec": spec, "status": status},
        ),
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _minimum("minGroupCount"),
            _column("Parent", f".spec.{PARENT}"),
            _column("Class", ".spec.priorityClassName"),
            _column("Priority", ".spec.priority", "integer"),
            *_scheduled(COMPOSITE_INITIALLY_SCHEDULED),
            _column("Workload", ".spec.workloadRef.workloadName", priority=1),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _workload(api: GroupApi) -> dict[str, Any]:
    newer = not api.older
    spec = properties(workload.SPECS[api])
    # A column shows only one value; in v1beta1 all templates have the same priority as the first.
    first = f".spec.{LEAVES}[0]"
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
            _column("Preemptor", ".plans[-1:].preemptor.name"),
            _column("Victims", ".plans[-1:].podCount", "integer"),
            _column("Result", ".plans[-1:].result"),
            _column("Last", ".plans[-1:].time", "date"),
            _column("Sequence", ".sequence", "integer", priority=1),
            _column("From", ".plans[0].time", "date", priority=1),
            _column("Age", ".metadata.creationTimestamp", "date"),
        ],
    }


def _conditions() -> Schema:
    return items("Conditions by type.", condition(), _MAX_CONDITIONS, key="type")


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


def _minimum(field: str) -> dict[str, Any]:
    """Return the column of a gang's minimum. A JSONPath cannot print the key `gang` or `basic` itself."""
    return _column("Min", f".spec.schedulingPolicy.gang.{field}", "integer")


def _scheduled(condition_type: str) -> list[dict[str, Any]]:
    found = f'.status.conditions[?(@.type=="{condition_type}")]'
    return [_column("Scheduled", f"{found}.status"), _column("Reason", f"{found}.reason")]


def _column(name: str, path: str, kind: str = "string", priority: int = 0) -> dict[str, Any]:
    """Return a column of `kubectl get`; a column of priority 1 is shown with -o wide."""
    column = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": priority} if priority else column
