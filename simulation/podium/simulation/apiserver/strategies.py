"""The strategy of each kind: what a write may change, its defaults, and its validation.

Kinds with rules in `podium.rules` are judged by them. Of the others, only what decisions read is checked.
"""

from collections.abc import Mapping
from typing import Any

from podium import jsontext
from podium.api.groups import NATIVE_GROUP
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.minors.minor import WORKLOAD_API, Minor
from podium.rules import admission
from podium.rules import metadata as metadata_rules
from podium.rules.context import Operation, Profile, Request, RuleContext
from podium.rules.fields import RefusedRequest
from podium.simulation.apiserver import pods
from podium.simulation.apiserver.messages import ApiError, Document
from podium.simulation.apiserver.resources import ResourceRow, shaped
from podium.simulation.apiserver.storage import ObjectVersion

# Metadata that only the server sets.
_SERVER_MADE = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
# The kinds that the rules read: classes for pods and groups, Workloads for groups of 1.36.
_VIEWED = {"priorityclasses.scheduling.k8s.io", "workloads.scheduling.k8s.io"}
_PHASES = {"Namespace": "Active", "PersistentVolumeClaim": "Pending", "PersistentVolume": "Pending"}
_POD_CONDITION: Document = {"type": "", "status": "", "lastProbeTime": None, "lastTransitionTime": None}
_NODE_CONDITION: Document = {"type": "", "status": "", "lastHeartbeatTime": None, "lastTransitionTime": None}
_CLASS: Document = {"preemptionPolicy": "PreemptLowerPriority"}
_STORAGE_CLASS: Document = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}


class Strategies:
    """Prepares and judges writes by the rules of one minor."""

    def __init__(self, minor: Minor, gates: frozenset[str]) -> None:
        """`gates` are the feature gates that are on."""
        self._minor = minor
        self._profile = Profile(
            kubernetes=minor.name,
            rules="upstream",
            workload_api=WORKLOAD_API in gates,
            gates=gates,
        )
        self._view = ClusterState(native_served=WORKLOAD_API in gates)

    def stored(self, row: ResourceRow, version: ObjectVersion, *, deleted: bool = False) -> None:
        """Keep what the rules read of other objects after a write."""
        if row.resource not in _VIEWED:
            return
        read = READS[row.api_version(row.stored), row.kind]
        viewed = read.neutral(jsontext.parse(version.body, read.type))
        (self._view.remove if deleted else self._view.apply)(viewed)

    def creates(self, row: ResourceRow, sent: Document, time: str) -> Document:
        """Return an object as its creation stores it, without what is set for all kinds. Raises ApiError."""
        document = dict(sent)
        # A kubelet creates its node with its status.
        if "status" in row.subresources and row.kind != "Node":
            _copy(document, row.zero, "status")
        if row.kind in _PHASES and not row.custom:
            document["status"] = {"phase": _PHASES[row.kind]}
        match row.kind:
            case "Pod":
                spec = document.get("spec") or {}
                if not spec.get("containers"):
                    pods.raise_invalid(
                        "Pod", document["metadata"].get("name", ""), ["spec.containers: Required value"]
                    )
                document["spec"] = pods.tolerating(spec)
                document["status"] = pods.first_status(document["spec"], time)
            case "Namespace":
                document["spec"] = {"finalizers": ["kubernetes"]}
                metadata = document["metadata"]
                labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
                document["metadata"] = {**metadata, "labels": labels}
            case _:
                pass
        return self._checked(row, document, None, "")

    def updates(self, row: ResourceRow, sent: Document, old: Document, subresource: str) -> Document:
        """Return an object as its update stores it. Raises ApiError."""
        document = dict(sent)
        metadata = dict(document["metadata"])
        if subresource == "status":
            self._keep_for_status(row, document, metadata, old)
        elif subresource == "finalize":
            document = {**old, "spec": document.get("spec") or {}}
            metadata = dict(old["metadata"])
        elif "status" in row.subresources:
            _copy(document, old, "status")
        metadata_rules.reset_on_update(metadata, old["metadata"])
        document["metadata"] = metadata
        if metadata["uid"] != old["metadata"]["uid"]:
            fault = self._immutable(row, "metadata.uid", metadata["uid"])
            pods.raise_invalid(row.qualified_kind, metadata["name"], [fault])
        if row.kind == "Secret" and document["type"] != old["type"]:
            fault = self._immutable(row, "type", document["type"])
            pods.raise_invalid(row.qualified_kind, metadata["name"], [fault])
        if row.kind == "Pod" and subresource == "":
            pods.check_containers(document, old)
            document["spec"] = pods.tolerating(document["spec"])
        document = self._checked(row, document, old, subresource)
        if row.kind == "Pod" and subresource == "":
            pods.check_update(document, old, lists_gated_fields=self._minor.lists_gated_fields)
        if row.has_generation and _specified(document) != _specified(old):
            document["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return document

    def _immutable(self, row: ResourceRow, field: str, value: str) -> str:
        """Return the fault of a changed field; declarative rules do not show the value."""
        given = "null" if self._minor.declared_fields and not row.custom else f'"{value}"'
        return f"{field}: Invalid value: {given}: field is immutable"

    def _keep_for_status(
        self, row: ResourceRow, document: Document, metadata: Document, old: Document
    ) -> None:
        kept = [
            name for name in {**document, **old} if name not in ("apiVersion", "kind", "metadata", "status")
        ]
        for name in kept:
            _copy(document, old, name)
        if row.custom:
            kept_fields = metadata.get("managedFields")
            metadata.clear()
            metadata.update(old["metadata"], managedFields=kept_fields)
        elif row.group == NATIVE_GROUP:
            metadata_rules.reset_for_status(metadata, old["metadata"])
        elif row.kind == "Pod":
            _copy(metadata, old["metadata"], "ownerReferences")
            metadata.pop("deletionTimestamp", None)
            status = dict(document.get("status") or {})
            status.setdefault("qosClass", old["status"].get("qosClass"))
            document["status"] = status
            nominated = status.get("nominatedNodeName")
            if (
                old["spec"].get("nodeName")
                and nominated != old["status"].get("nominatedNodeName")
                and nominated
            ):
                text = "may not be set on pods that are already bound to a node"
                pods.raise_invalid("Pod", metadata["name"], [f"status.nominatedNodeName: Forbidden: {text}"])

    def _is_judged(self, row: ResourceRow) -> bool:
        return not row.custom and (row.kind == "Pod" or row.group == NATIVE_GROUP)

    def defaulted(self, row: ResourceRow, document: Document) -> Document:
        """Return an object with the defaults of decoding, and without unknown fields."""
        if row.custom:
            return shaped_custom(row, document)
        for name, value in row.zero.items():
            given = document.get(name, value)
            whole = {**value, **given} if isinstance(value, dict) else given
            document = {**document, name: whole}
        match row.kind:
            case "PodGroup" | "CompositePodGroup" | "Workload":
                return self._canonical(row, document)
            case "Pod":
                spec = pods.defaulted_spec(document["spec"])
                return {
                    **document,
                    "spec": spec,
                    "status": _with_conditions(document["status"], _POD_CONDITION),
                }
            case "Node":
                status = dict(document["status"])
                if "capacity" in status:
                    status.setdefault("allocatable", status["capacity"])
                return {**document, "status": _with_conditions(status, _NODE_CONDITION)}
            case "PriorityClass":
                return {**_CLASS, **document}
            case "StorageClass":
                return {**_STORAGE_CLASS, **document}
            case "ConfigMap" | "Secret":
                secret = {"type": "Opaque"} if row.kind == "Secret" else {}
                return secret | {name: value for name, value in document.items() if value != {}}
            case "Job" | "ReplicaSet" | "Deployment":
                return _with_template(document)
            case _:
                return document

    def _canonical(self, row: ResourceRow, document: Document) -> Document:
        rules = admission.KINDS[row.kind]
        request = Request(operation=Operation.UPDATE, object=document)
        reference = admission.reference(document, rules)
        context = RuleContext(request, self._view, self._profile, reference, rules.plural)
        try:
            canonical = admission.canonical(context, rules, document, [])
        except RefusedRequest as error:
            raise ApiError(error.code, error.reason, error.message) from None
        head = {name: document[name] for name in ("apiVersion", "kind")}
        return {**head, **canonical}

    def _checked(
        self, row: ResourceRow, document: Document, old: Document | None, subresource: str
    ) -> Document:
        """Return a document after the rules of its kind."""
        if self._is_judged(row) and (row.kind, subresource) != ("Pod", "status"):
            return self._judged(document, old, subresource)
        metadata, minor = document["metadata"], self._minor
        if old is None:
            name = metadata["name"]
            errors = metadata_rules.check_create(metadata, name, namespaced=row.namespaced, minor=minor)
        else:
            errors = metadata_rules.check_update(
                metadata, old["metadata"], namespaced=row.namespaced, minor=minor
            )
        if minor.declared_fields and not row.custom:
            errors = metadata_rules.declare(errors)
        pods.raise_invalid(row.qualified_kind, metadata["name"], list(dict.fromkeys(map(str, errors))))
        return document

    def _judged(self, document: Document, old: Document | None, subresource: str) -> Document:
        operation = Operation.CREATE if old is None else Operation.UPDATE
        request = Request(operation=operation, object=document, old=old, subresource=subresource)
        try:
            verdict = admission.review(request, self._view, self._profile)
        except RefusedRequest as error:
            raise ApiError(error.code, error.reason, error.message) from None
        if not verdict.allowed:
            raise ApiError(verdict.code, verdict.reason, verdict.message)
        assert verdict.admitted is not None
        made = {name: document["metadata"][name] for name in _SERVER_MADE if name in document["metadata"]}
        kept = {
            name: document["metadata"][name]
            for name in ("resourceVersion", "managedFields")
            if name in document["metadata"]
        }
        metadata = {**verdict.admitted["metadata"], **made, **kept}
        admitted = {**verdict.admitted, "metadata": metadata}
        return {**admitted, "status": document["status"]} if document["kind"] == "Pod" else admitted


def shaped_custom(row: ResourceRow, document: Document) -> Document:
    """Return the fields of a custom resource by its schema, without the unknown ones."""
    schema = row.schemas.get(row.stored, {})
    head: Document = {name: document[name] for name in ("apiVersion", "kind", "metadata")}
    rest = {name: value for name, value in document.items() if name not in head}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return document
    properties = {name: part for name, part in schema.get("properties", {}).items() if name not in head}
    known: Document = shaped({**schema, "properties": properties}, rest) if properties else {}
    for name in rest:
        if name not in known:
            document.pop(name)
    return {**head, **known}


def _with_conditions(status: Document, zero: Document) -> Document:
    """Return a status whose conditions have the fields that Go always writes, and no other empty ones."""
    conditions = [
        {**zero, **{name: value for name, value in condition.items() if value != ""}}
        for condition in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions} if conditions else status


def _with_template(document: Document) -> Document:
    spec = document.get("spec") or {}
    template = spec.get("template") or {}
    if not template.get("spec"):
        return document
    inner = {**template, "spec": pods.defaulted_spec(template["spec"])}
    return {**document, "spec": {**spec, "template": inner}}


def _copy(new: Document, old: Mapping[str, Any], name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _specified(document: Mapping[str, Any]) -> Document:
    """Return the part of an object whose changes count as generations."""
    hidden = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in document.items() if name not in hidden}
