"""The objects of an AdmissionReview to a request for the rules, and a verdict to a response.

Pods are the hot path, and rules read a small part of any object (managedFields alone is half of it). So an
object is decoded to the fields that rules read. These are identity, two labels, one annotation and the spec,
four fields of it for a pod. A body that is not a review is a ReviewError, which the server answers with 400;
the API server then applies failurePolicy. A review of an object for which Podium has no rules is allowed,
because a registration that matches too much must not stop a cluster.
"""

import base64
from types import GenericAlias
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from podium import jsontext
from podium.api.convert import KEPT
from podium.api.findings import Finding
from podium.api.groups import GROUP_LABEL
from podium.api.saving import KEYS as SAVING
from podium.groups.autogroups import AUTO_LABEL, FORM_LABELS, TREE_LABEL
from podium.rules.admission import Verdict
from podium.rules.context import Operation, Request
from podium.rules.podiumrule import AdmissionPhase
from podium.text import cut
from podium.webhooks.envelope import UNREADABLE, Asked, ReviewError, respond, unwrap

# The limits of one warning and of all, in bytes. Above the total, an API server shortens every warning to 256
# characters and drops the text after 4096, of other webhooks too (endpoints/filters/warning.go).
MAX_WARNING = 256
MAX_WARNINGS = 4096
# The limit of commas and opening brackets, including those in strings, in the part of an object that is
# decoded whole. Each is at most one value of about 250 bytes. A group has hundreds. An object above the limit
# is refused; it could not be stored either, because the schemas limit every list and string of a spec.
# Only the tree of a Workload may exceed the limit within its schema, with thousands of templates.
MAX_DETAILS = 100_000
# The memory that a decoded object then needs at most.
DETAILS_BYTES = MAX_DETAILS * 256


_JUDGED = frozenset(("Pod", "PodGroup", "CompositePodGroup", "Workload"))


class LargeError(ReviewError):
    """A review of an object that is too expensive to decode."""

    def __init__(self, uid: str, where: str) -> None:
        super().__init__(f"{where} has more than {MAX_DETAILS:,} values. Make the object smaller")
        self.uid = uid


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the API server. `request` is None if Podium has no rules for the object."""

    uid: str
    phase: AdmissionPhase
    group: str
    version: str
    kind: str
    plural: str
    operation: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    request: Request | None


def _struct(name: str, /, *bases: type, **kinds: type | list[type]) -> type[msgspec.Struct]:
    """Return a Struct with these fields, which may be null or absent; `[kind]` is a list of a kind."""
    fields: list[tuple[str, Any, Any]] = []
    for field, kind in kinds.items():
        present = GenericAlias(list, tuple(kind)) if isinstance(kind, list) else kind
        fields.append((field, present | UnsetType | None, UNSET))
    return msgspec.defstruct(name, fields, bases=bases, gc=False)


def _texts(name: str, *keys: str) -> type[msgspec.Struct]:
    """Return a Struct with a field for each of these labels or annotations."""
    fields = [
        (f"text{number}", str | UnsetType | None, msgspec.field(default=UNSET, name=key))
        for number, key in enumerate(keys)
    ]
    return msgspec.defstruct(name, fields, gc=False)


def _reviewed(metadata: type[msgspec.Struct], spec: type[msgspec.Struct]) -> jsontext.Decoder[Any]:
    """Return a decoder of an object with the fields of its metadata and spec that rules read."""
    fields = [("apiVersion", str), ("kind", str), ("metadata", metadata), ("spec", spec)]
    return jsontext.Decoder(msgspec.defstruct("_Reviewed", fields, gc=False))


_Metadata = _struct(
    "_Metadata",
    **dict.fromkeys(("name", "generateName", "namespace", "deletionTimestamp"), str),
    labels=_texts("_Labels", GROUP_LABEL, AUTO_LABEL),
    annotations=_texts("_Annotations", KEPT, *SAVING),
)
_SchedulingGroup = _struct("_SchedulingGroup", podGroupName=str)
_PodSpec = _struct(
    "_PodSpec",
    priorityClassName=str,
    priority=int,
    preemptionPolicy=str,
    schedulingGroup=_SchedulingGroup,
    terminationGracePeriodSeconds=int,
)
# The spec for mutation of a pod: that of validation, its scheduler and its tolerations.
_MutatedSpec = _struct(
    "_MutatedSpec",
    _PodSpec,
    schedulerName=str,
    tolerations=[_struct("_Toleration", key=str, operator=str, effect=str)],
)
# A pod that asks for a gang: its owner too, and the further labels that decide. Its class is not read.
_AskingMetadata = _struct(
    "_AskingMetadata",
    **dict.fromkeys(("name", "generateName", "namespace"), str),
    labels=_texts("_AskingLabels", GROUP_LABEL, AUTO_LABEL, TREE_LABEL, *FORM_LABELS),
    ownerReferences=[_struct("_Owner", apiVersion=str, kind=str, name=str, controller=bool)],
)
_AskingSpec = _struct("_AskingSpec", schedulerName=str, schedulingGroup=_SchedulingGroup)
# A PodGroup or Workload; no rule of a webhook reads the status. The API server checks the finalizers of pods.
_Grouping = msgspec.defstruct(
    "_Grouping",
    [
        ("apiVersion", str),
        ("kind", str),
        ("metadata", _struct("_GroupingMetadata", _Metadata, finalizers=[str])),
        ("spec", Any, UNSET),
    ],
    gc=False,
)


class _RawMetadata(msgspec.Struct, gc=False):
    finalizers: Raw = Raw(b"")
    ownerReferences: Raw = Raw(b"")


class _RawGrouping(msgspec.Struct, gc=False):
    """The parts of a group or Workload with an unlimited number of values."""

    metadata: _RawMetadata = msgspec.field(default_factory=_RawMetadata)
    spec: Raw = Raw(b"")


class _RawPodSpec(msgspec.Struct, gc=False):
    tolerations: Raw = Raw(b"")


class _RawPod(msgspec.Struct, gc=False):
    """The parts of a pod with an unlimited number of values."""

    metadata: _RawMetadata = msgspec.field(default_factory=_RawMetadata)
    spec: _RawPodSpec = msgspec.field(default_factory=_RawPodSpec)


_grouping = jsontext.Decoder(_Grouping)
_asking = _reviewed(_AskingMetadata, _AskingSpec)
# The decoder of a pod depends on the phase.
_pods: dict[AdmissionPhase, jsontext.Decoder[Any]] = {
    AdmissionPhase.MUTATE: _reviewed(_Metadata, _MutatedSpec),
    AdmissionPhase.VALIDATE: _reviewed(_Metadata, _PodSpec),
    AdmissionPhase.GANG: _asking,
    AdmissionPhase.SCHEDULED_GANG: _asking,
}
_raw_grouping = jsontext.Decoder(_RawGrouping)
_raw_pod = jsontext.Decoder(_RawPod)
_whole = jsontext.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


def is_large(raw: Raw) -> bool:
    """Return whether JSON may contain more than MAX_DETAILS values, without those that are too deep."""
    if len(memoryview(raw)) <= MAX_DETAILS or _details(raw) <= MAX_DETAILS:
        return False
    return _details(jsontext.cut(raw)) > MAX_DETAILS


def _details(json: jsontext.Text) -> int:
    text = bytes(json)
    return sum(text.count(mark) for mark in (b",", b"{", b"["))


def decode(body: bytes | bytearray, phase: AdmissionPhase) -> Review:
    """Return a decoded AdmissionReview. Raises ReviewError, and LargeError for one that is too expensive.

    Only the fields that rules read are built, so a body of any size needs little more memory than itself.
    """
    asked = unwrap(body)
    return Review(
        uid=asked.uid,
        phase=phase,
        group=asked.kind.group,
        version=asked.kind.version,
        kind=asked.kind.kind,
        plural=asked.resource.resource,
        operation=asked.operation,
        subresource=asked.subResource or "",
        namespace=asked.namespace or "",
        name=asked.name or "",
        dry_run=asked.dryRun or False,
        request=_request(asked, phase),
    )


def _request(asked: Asked, phase: AdmissionPhase) -> Request | None:
    subresource = asked.subResource or ""
    judged = asked.kind.kind in _JUDGED and asked.operation in ("CREATE", "UPDATE")
    if not judged or subresource not in ("", "status"):
        return None
    operation = Operation(asked.operation)
    new = _object(asked, phase, asked.object, "object")
    old = _object(asked, phase, asked.oldObject, "oldObject") if operation is Operation.UPDATE else None
    return Request(operation=operation, object=new, subresource=subresource, old=old)


def _object(asked: Asked, phase: AdmissionPhase, raw: Raw, where: str) -> dict[str, Any]:
    """Return the fields of an object that rules read, or the whole object if its types are not the API's."""
    try:
        _check_size(asked, phase, raw)
        document = _pruned(asked, phase, raw)
    except UNREADABLE as error:
        raise ReviewError(f"AdmissionReview: request.{where}: {error}") from None
    group, version, kind = asked.kind.group, asked.kind.version, asked.kind.kind
    api_version = f"{group}/{version}" if group else version
    if document.get("apiVersion") != api_version or document.get("kind") != kind:
        raise ReviewError(
            f"AdmissionReview: request.{where}: not a {api_version} {kind}, as request.kind says"
        )
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and not metadata.get("namespace"):
        metadata["namespace"] = asked.namespace or ""
    return document


def _check_size(asked: Asked, phase: AdmissionPhase, raw: Raw) -> None:
    """Raise LargeError for an object that would be decoded to too many values."""
    if len(memoryview(raw)) <= MAX_DETAILS:
        return
    try:
        parts = _parts(asked.kind.kind, phase, raw)
    except msgspec.ValidationError:
        return  # `_pruned` handles objects with other types
    for path, part in parts.items():
        if is_large(part):
            raise LargeError(asked.uid, path)


def _parts(kind: str, phase: AdmissionPhase, raw: Raw) -> dict[str, Raw]:
    """Return the lists and the spec to decode, by path."""
    if kind != "Pod":
        grouping = _raw_grouping.decode(raw)
        return {"spec": grouping.spec, "metadata.finalizers": grouping.metadata.finalizers}
    pod = _raw_pod.decode(raw)
    match phase:
        case AdmissionPhase.VALIDATE:
            return {}
        case AdmissionPhase.MUTATE:
            return {"spec.tolerations": pod.spec.tolerations}
        case _:
            return {"metadata.ownerReferences": pod.metadata.ownerReferences}


def _pruned(asked: Asked, phase: AdmissionPhase, raw: Raw) -> dict[str, Any]:
    small = _pods[phase] if asked.kind.kind == "Pod" else _grouping
    try:
        pruned: dict[str, Any] = msgspec.to_builtins(small.decode(raw))
    except msgspec.ValidationError:
        if is_large(raw):
            raise LargeError(asked.uid, "the object") from None
        return _whole.decode(raw)
    return pruned


def encode(review: Review, verdict: Verdict) -> bytes:
    """Return the response to a review as bytes."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": verdict.allowed}
    if verdict.patch and review.request is not None:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encoder.encode(verdict.patch)).decode()
    if not verdict.allowed:
        response["status"] = _status(review, verdict)
    if verdict.warnings:
        response["warnings"] = _cut(verdict.warnings)
    if verdict.findings:
        rules = dict.fromkeys(finding.rule for finding in verdict.findings)
        response["auditAnnotations"] = {"rules": ",".join(rules)}
    return respond(response)


def _status(review: Review, verdict: Verdict) -> dict[str, Any]:
    """Return a Status in the API server's form: a 403 names the resource, a 422 the kind."""
    invalid = verdict.code == 422
    return {
        "status": "Failure",
        "code": verdict.code,
        "reason": verdict.reason,
        "message": verdict.message,
        "details": {
            "name": review.name,
            "group": review.group,
            "kind": review.kind if invalid else review.plural,
            "causes": [_cause(finding) for finding in verdict.causes],
        },
    }


_CAUSES = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Duplicate value": "FieldValueDuplicate",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


def _cause(finding: Finding) -> dict[str, str]:
    cause = {"field": finding.field, "message": finding.message}
    reason = _CAUSES.get(finding.message.partition(":")[0])
    return {"reason": reason, **cause} if reason else cause


def _cut(warnings: list[str]) -> list[str]:
    """Return the warnings within the API server's limits; shortened ones end with an ellipsis."""
    result: list[str] = []
    room = MAX_WARNINGS
    for warning in warnings:
        text = cut(warning, min(MAX_WARNING, room))
        if not text:
            break
        result.append(text)
        room -= len(text.encode())
    return result
