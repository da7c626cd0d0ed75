"""The strategy of each kind: what a write may change, its defaults, and its validation.

Kinds with rules in `podium.rules` are judged by them. Of the others, only what decisions read is checked.
"""

from collections.abc import Mapping
from typing import Any

from podium import jsontext
from podium.api.core import PriorityClass
from podium.api.groups import NATIVE_GROUP
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.minors.minor import Minor
from podium.rules import admission
from podium.rules.context import Operation, Profile, Request
from podium.rules.fields import RefusedRequest
from podium.simulation.apiserver import pods
from podium.simulation.apiserver.messages import ApiError, Document
from podium.simulation.apiserver.resources import ResourceRow, shaped
from podium.simulation.apiserver.storage import ObjectVersion

# Metadata that only the server sets, and that a status update keeps.
_SERVER_MADE = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_OF_STATUS = ("labels", "annotations", "finalizers", "ownerReferences")
# The kinds that the rules read: classes for pods and groups, Workloads for groups of 1.36.
_VIEWED = {"priorityclasses.scheduling.k8s.io", "workloads.scheduling.k8s.io"}
_NAME_LABEL = "kubernetes.io/metadata.name"
_EMPTY_STATUS: Mapping[str, Document] = {
    "Namespace": {"phase": "Active"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "PersistentVolume": {"phase": "Pending"},
    "Node": {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": dict.fromkeys(
            (
                *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
                *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
            ),
            "",
        ),
    },
    "PodDisruptionBudget": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
}
_TEMPLATED = ("Job", "ReplicaSet", "Deployment")
_CLASS: Document = {"preemptionPolicy": "PreemptLowerPriority"}
_STORAGE_CLASS: Document = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}


class Strategies:
    """Prepares and judges writes by the rules of one minor."""

    def __init__(self, minor: Minor, gates: frozenset[str] | None = None) -> None:
        """`gates` are the gates for groups that are on; by default those of the minor."""
        self._minor = minor
        self._profile = Profile(
            kubernetes=minor.name,
            rules="upstream",
            workload_api=bool(minor.kinds),
            gates=minor.enabled({}) if gates is None else gates,
        )
        self._view = ClusterState(native_served=True)

    def stored(self, row: ResourceRow, version: ObjectVersion, *, deleted: bool = False) -> None:
        """Keep what the rules read of other objects after a write."""
        if row.resource not in _VIEWED:
            return
        if row.kind == "PriorityClass":
            read: Any = jsontext.parse(version.body, PriorityClass)
        else:
            read = jsontext.parse(version.body, READS[row.api_version(row.stored), row.kind].type)
        (self._view.remove if deleted else self._view.apply)(read)

    def creates(self, row: ResourceRow, sent: Document) -> Document:
        """Return an object as its creation stores it, without what is set for all kinds. Raises ApiError."""
        document = dict(sent)
        if "status" in row.subresources:
            document.pop("status", None)
        if (status := _EMPTY_STATUS.get(row.kind)) is not None and not row.custom:
            document["status"] = status
        match row.kind:
            case "Pod":
                spec = document.get("spec") or {}
                if not spec.get("containers"):
                    pods.raise_invalid("Pod", document["metadata"].get("name", ""), ["spec.containers: Required value"])
                document["spec"] = pods.tolerating(pods.defaulted_spec(spec))
                document["status"] = {"phase": "Pending", "qosClass": pods.quality(document["spec"])}
            case "Namespace":
                document["spec"] = {"finalizers": ["kubernetes"]}
                metadata = document["metadata"]
                labels = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}
                document["metadata"] = {**metadata, "labels": labels}
        return self._finished(row, document, None, "")

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
        for name in _SERVER_MADE:
            if name not in ("uid",):
                _copy(metadata, old["metadata"], name)
        document["metadata"] = metadata
        if metadata.setdefault("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            fault = f'metadata.uid: Invalid value: "{metadata["uid"]}": field is immutable'
            if not (row.group == NATIVE_GROUP or row.kind == "Pod"):
                pods.raise_invalid(row.qualified_kind, metadata["name"], [fault])
        if "deletionTimestamp" in old["metadata"]:
            self._check_finalizers(row, metadata, old["metadata"])
        if row.kind == "Pod" and subresource == "":
            document["spec"] = pods.tolerating(pods.defaulted_spec(document.get("spec") or {}))
        document = self._finished(row, document, old, subresource)
        if row.kind == "Pod" and subresource == "":
            pods.check_update(document, old, lists_gated_fields=self._minor.lists_gated_fields)
        if row.has_generation and _specified(row, document) != _specified(row, old):
            document["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return document

    def _keep_for_status(self, row: ResourceRow, document: Document, metadata: Document, old: Document) -> None:
        kept = [name for name in {**document, **old} if name not in ("apiVersion", "kind", "metadata", "status")]
        for name in kept:
            _copy(document, old, name)
        if row.custom or (row.group == NATIVE_GROUP):
            for name in _OF_STATUS:
                _copy(metadata, old["metadata"], name)
        elif row.kind == "Pod":
            _copy(metadata, old["metadata"], "ownerReferences")
            status = dict(document.get("status") or {})
            status.setdefault("qosClass", old["status"].get("qosClass"))
            document["status"] = status
            nominated = status.get("nominatedNodeName")
            if old["spec"].get("nodeName") and nominated != old["status"].get("nominatedNodeName") and nominated:
                text = "may not be set on pods that are already bound to a node"
                pods.raise_invalid("Pod", metadata["name"], [f"status.nominatedNodeName: Forbidden: {text}"])

    def _check_finalizers(self, row: ResourceRow, metadata: Document, old: Mapping[str, Any]) -> None:
        before = old.get("finalizers") or ()
        added = [name for name in metadata.get("finalizers") or () if name not in before]
        if added and not self._is_judged(row):
            listed = ", ".join(f'"{name}"' for name in added)
            fault = (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            pods.raise_invalid(row.qualified_kind, metadata["name"], [fault])

    def _is_judged(self, row: ResourceRow) -> bool:
        return not row.custom and (row.kind == "Pod" or row.group == NATIVE_GROUP)

    def _finished(self, row: ResourceRow, document: Document, old: Document | None, subresource: str) -> Document:
        """Return a document with its defaults and after its rules."""
        if row.custom:
            return {**document, **shaped_custom(row, document)}
        match row.kind:
            case "PriorityClass":
                document = {**_CLASS, **document}
            case "StorageClass":
                document = {**_STORAGE_CLASS, **document}
            case "Secret":
                document.setdefault("type", "Opaque")
            case kind if kind in _TEMPLATED:
                _default_template(document)
        if not self._is_judged(row) or (row.kind == "Pod" and subresource == "status"):
            return document
        return self._judged(document, old, subresource)

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
        kept = {name: document["metadata"][name] for name in ("resourceVersion", "managedFields") if name in document["metadata"]}
        metadata = {**verdict.admitted["metadata"], **made, **kept}
        admitted = {**verdict.admitted, "metadata": metadata}
        if document["kind"] == "Pod" and old is None:
            admitted["status"] = document["status"]
        return _without_nulls(admitted)


def shaped_custom(row: ResourceRow, document: Document) -> Document:
    """Return the fields of a custom resource by its schema, without the unknown ones."""
    schema = row.schemas.get(row.stored, {})
    head = {name: document[name] for name in ("apiVersion", "kind", "metadata") if name in document}
    rest = {name: value for name, value in document.items() if name not in head}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return document
    properties = {name: part for name, part in schema.get("properties", {}).items() if name not in head}
    known: Document = shaped({**schema, "properties": properties}, rest) if properties else {}
    for name in rest:
        if name not in known:
            document.pop(name)
    return {**head, **known}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _default_template(document: Document) -> None:
    spec = document.get("spec") or {}
    template = spec.get("template") or {}
    if template.get("spec"):
        inner = {**template, "spec": pods.defaulted_spec(template["spec"])}
        document["spec"] = {**spec, "template": inner}


def _copy(new: Document, old: Mapping[str, Any], name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _specified(row: ResourceRow, document: Mapping[str, Any]) -> Document:
    """Return the part of an object whose changes count as generations."""
    hidden = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in document.items() if name not in hidden}
