"""Conversion of groups and Workloads between the native API and Podium's, and between their versions.

Kubernetes 1.37 removes v1alpha2 and changes the shape of two fields, so objects stored by 1.36 must be
rewritten. A cluster also moves from Podium's resources to the native ones once its feature gates are on. The
result is the original document with specific changes, never a re-encoded read: unknown fields, absent fields,
nulls and the order of fields stay.

Inside a cluster, Podium's own versions convert into each other for any object and without loss. Fields that
v1alpha2 lacks are kept in the annotation KEPT and restored. Between any other two versions the result is a
new object. Fields that only the server may write are left out, and every field that the target lacks is noted
as lost.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.api import v1alpha1, v1alpha2, v1beta1
from podium.api.findings import group_of
from podium.api.groups import (
    GROUP_SCHEDULED,
    INITIALLY_SCHEDULED,
    NATIVE_GROUP,
    PODIUM_GROUP,
    DisruptionMode,
)
from podium.api.minors import group_minor
from podium.api.priority import PREEMPTION_POLICIES

Fields = dict[str, Any]

STORED = f"{PODIUM_GROUP}/v1beta1"
# The fields of Podium's v1beta1 that v1alpha2 lacks, as JSON; only on v1alpha2 objects.
KEPT = f"{PODIUM_GROUP}/v1beta1-fields"
PARENT = "parentCompositePodGroupName"
# A Podium group's name is a label on its pods, and this is the limit of a label value.
MAX_PODIUM_NAME = 63
# The names of composite groups.
_MAX_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
_ANY: jsontext.Decoder[Any] = jsontext.Decoder(object, refuses=True)

_SERVER_OWNED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The condition of v1alpha2 may become false again, that of v1beta1 stays true; both say that the group has
# been scheduled.
_CONDITION_NAMES = {
    GROUP_SCHEDULED: INITIALLY_SCHEDULED,
    INITIALLY_SCHEDULED: GROUP_SCHEDULED,
}
_MODES = {DisruptionMode.POD: "single", DisruptionMode.POD_GROUP: "all"}


class ConversionNote(NamedTuple):
    """A field that a conversion left out, and why.

    `lost` is true for a user's setting, and false for fields that the server maintains.
    """

    field: str
    text: str
    lost: bool


class Converted(NamedTuple):
    """The document in its new form, and the notes on what it lacks."""

    document: Fields
    notes: list[ConversionNote]


class _Version(NamedTuple):
    """The fields of a PodGroup, a Workload and a template in one version of the two kinds."""

    newer: bool
    fields: dict[str, frozenset[str]]
    template: frozenset[str]


def _field_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(struct))


_OLDER = _Version(
    newer=False,
    fields={
        "PodGroup": _field_names(v1alpha2.PodGroupSpecV1Alpha2),
        "Workload": _field_names(v1alpha2.WorkloadSpecV1Alpha2),
    },
    template=_field_names(v1alpha2.PodGroupTemplateV1Alpha2),
)


_NEWER = _Version(
    newer=True,
    fields={
        "PodGroup": _field_names(v1beta1.PodGroupSpecV1Beta1),
        "Workload": _field_names(v1beta1.WorkloadSpecV1Beta1),
        "CompositePodGroup": _field_names(v1beta1.CompositePodGroupSpec),
    },
    template=_field_names(v1beta1.PodGroupTemplateV1Beta1),
)
VERSIONS: dict[str, _Version] = {
    f"{NATIVE_GROUP}/v1alpha2": _OLDER,
    f"{NATIVE_GROUP}/v1alpha3": _NEWER,
    f"{NATIVE_GROUP}/v1beta1": _NEWER,
    f"{PODIUM_GROUP}/v1alpha2": _OLDER,
    STORED: _NEWER,
}


def convert(document: Fields, target: str, minor: int | None = None) -> Converted:
    """Convert a group, a composite group or a Workload that its read can decode to one of VERSIONS.

    A composite group gets the version of its kind that belongs to the target: for Kubernetes 1.`minor`, else
    for every minor that serves the target.

    The source is one of VERSIONS, or v1alpha1 of Kubernetes 1.35.

    If the version is the target already, the document is returned unchanged. The input is not changed; the
    result may share its parts.
    """
    notes: list[ConversionNote] = []
    if document["kind"] == "CompositePodGroup" and (minor is not None or document["apiVersion"] != target):
        of_kind = composite_version(target, minor)
        if of_kind is None:
            text = f"{document['apiVersion']} CompositePodGroup has no form in {target} and is unchanged"
            return Converted(document, [ConversionNote("apiVersion", text, lost=True)])
        target = of_kind
    if document["apiVersion"] == v1alpha1.API_VERSION:
        older = f"{NATIVE_GROUP}/v1alpha2"
        document = v1alpha1.renamed(document, older)
        if target == older and document.get("metadata") is not None:
            source = v1alpha1.API_VERSION
            metadata = _new_metadata(document["metadata"], source, target, document["kind"], notes)
            document["metadata"] = metadata
    for version in _route(document["apiVersion"], target):
        document = _step(document, version, notes)
    return Converted(document, notes)


def convert_foreign(document: Fields, target: str) -> Converted:
    """Convert a PodGroup of another project that its read can decode to a new object of one of VERSIONS.

    minMember and priorityClassName are carried over. Every other field of spec is noted as lost.
    """
    notes: list[ConversionNote] = []
    source, newer = document["apiVersion"], f"{group_of(target)}/v1beta1"
    given = document.get("spec") or {}
    minimum = given.get("minMember") or 0
    # Without a minimum each pod starts by itself.
    spec: Fields = {"schedulingPolicy": {"gang": {"minCount": minimum}} if minimum > 0 else {"basic": {}}}
    if given.get("priorityClassName"):
        spec["priorityClassName"] = given["priorityClassName"]
    for key, value in given.items():
        if key not in ("minMember", "priorityClassName") and value is not None:
            notes.append(ConversionNote(f"spec.{key}", f"{target} has no equal; left out", lost=True))
    result = {key: value for key, value in document.items() if key != "status"}
    if document.get("status"):
        notes.append(ConversionNote("status", "left out: the result is a new object", lost=False))
    if document.get("metadata") is not None:
        result["metadata"] = _new_metadata(document["metadata"], source, newer, "PodGroup", notes)
    final = convert({**result, "apiVersion": newer, "spec": spec}, target)
    return Converted(final.document, [*notes, *final.notes])


def composite_version(target: str, minor: int | None) -> str | None:
    """Return the version of CompositePodGroup that belongs to a version of the other kinds, None for none.

    1.37 serves the kind in v1alpha3 only, and without a minor the result is a version that it serves too.
    """
    if group_of(target) == PODIUM_GROUP:
        return STORED
    served = group_minor(37 if minor is None else minor).versions("CompositePodGroup")
    version = target.rpartition("/")[2]
    if not served or not VERSIONS[target].newer:
        return None
    return f"{NATIVE_GROUP}/{version if version in served else served[0]}"


def _route(source: str, target: str) -> Iterable[str]:
    """Return the versions to convert through.

    Between the API groups this is the stored version first, so that the fields in KEPT are included.
    """
    if source == target:
        return []
    if group_of(source) == group_of(target):
        return [target]
    ends = [version for version in (source, target) if group_of(version) == PODIUM_GROUP]
    return [target] if ends == [STORED] else [STORED, target]


def _step(document: Fields, target: str, notes: list[ConversionNote]) -> Fields:
    source = document["apiVersion"]
    kept: Fields | None = {} if {group_of(source), group_of(target)} == {PODIUM_GROUP} else None
    writer = _SpecWriter(document, source, target, notes, kept)
    result = {**document, "apiVersion": target}
    if _recreated(source, target) and document.get("metadata") is not None:
        result["metadata"] = _new_metadata(document["metadata"], source, target, document["kind"], notes)
    if document.get("spec") is not None:
        result["spec"] = writer.spec(document["spec"])
    if document["kind"] == "PodGroup" and document.get("status") is not None and writer.turned:
        result["status"] = _status(document["status"])
    if kept is not None:
        result = _write_kept(result, kept)
    return result


def _recreated(source: str, target: str) -> bool:
    """Return whether the result is a new object; no server has both an older and a newer native version."""
    same = group_of(source) == group_of(target)
    return not same or (group_of(source) == NATIVE_GROUP and VERSIONS[source].newer != VERSIONS[target].newer)


class _SpecWriter:
    """Writes one object's spec in the form of another version."""

    def __init__(
        self, document: Fields, source: str, target: str, notes: list[ConversionNote], kept: Fields | None
    ) -> None:
        self._kind: str = document["kind"]
        self._source = source
        self._target = target
        self._from = VERSIONS[source]
        self._to = VERSIONS[target]
        self._notes = notes
        self._kept = kept
        self.turned = self._from.newer != self._to.newer
        self._restored = restorable(document) if kept is not None and self._to.newer else {}

    def spec(self, spec: Fields) -> Fields:
        """Return the spec in the target's form."""
        result, kept = self._fields(spec, self._from.fields[self._kind], self._to.fields[self._kind], "spec")
        templates = result.get("podGroupTemplates")
        restored = self._restored.get("podGroupTemplates", {})
        if templates is not None:
            written = []
            for index, template in enumerate(templates):
                path = f"spec.podGroupTemplates[{index}]"
                new, left = self._fields(template, self._from.template, self._to.template, path)
                name = template.get("name") or ""
                written.append({**new, **restored.get(name, {})})
                if left:
                    kept.setdefault("podGroupTemplates", {})[name] = left
            result["podGroupTemplates"] = written
            if self.turned and self._to.newer and len({_priority(template) for template in written}) > 1:
                text = f"differ in priorityClassName or priority; {self._target} refuses such a Workload"
                self._notes.append(ConversionNote("spec.podGroupTemplates", text, lost=True))
        if self._kept is not None:
            self._kept.update(kept)
        own = {key: value for key, value in self._restored.items() if key != "podGroupTemplates"}
        return {**result, **own}

    def _fields(
        self, fields: Fields, known: frozenset[str], target_fields: frozenset[str], path: str
    ) -> tuple[Fields, Fields]:
        """Return the fields that the target has, and the fields that are kept elsewhere."""
        result: Fields = {}
        kept: Fields = {}
        for key, value in fields.items():
            here = f"{path}.{key}"
            if value is None and key not in target_fields:
                continue
            if key not in known:
                self._lose(here, f"is not a field of {self._source}")
            elif self.turned and key == "disruptionMode":
                mode = _mode(value)
                if mode is None and value is not None:
                    self._lose(here, f"{json.dumps(value)} is not a mode of {self._source}")
                else:
                    result[key] = mode
            elif self.turned and key in ("podGroupTemplateRef", "workloadRef"):
                name, ref = _reference(key, value)
                if ref is None and value is not None:
                    self._lose(here, f"{json.dumps(value)} names no template")
                else:
                    result[name] = ref
            elif key in target_fields:
                result[key] = value
            elif self._kept is not None and key in _restored({key: value}):
                kept[key] = value
            else:
                self._lose(here, f"{self._target} has no such field")
        return result, kept

    def _lose(self, field: str, why: str) -> None:
        self._notes.append(ConversionNote(field, f"{why}; left out", lost=True))


def _priority(template: Fields) -> tuple[str, int | None]:
    return template.get("priorityClassName") or "", template.get("priority")


def _mode(value: Any) -> Any:
    """Return a disruption mode in the other form; None for none."""
    if isinstance(value, dict):
        members = [member for member, content in value.items() if content is not None]
        return next((mode.value for mode, member in _MODES.items() if members == [member]), None)
    return next(({member: {}} for mode, member in _MODES.items() if mode == value), None)


def _reference(key: str, value: Any) -> tuple[str, Fields | None]:
    """Return the reference to a template in the other form; None if it names no template."""
    if key == "workloadRef":
        ref = None if value is None else {"workload": _renamed(value, "templateName", "podGroupTemplateName")}
        return "podGroupTemplateRef", ref
    workload = (value or {}).get("workload")
    ref = None if workload is None else _renamed(workload, "podGroupTemplateName", "templateName")
    return "workloadRef", ref


def _renamed(fields: Fields, old: str, new: str) -> Fields:
    return {new if key == old else key: value for key, value in fields.items()}


def _status(status: Fields) -> Fields:
    conditions = status.get("conditions")
    if not conditions:
        return status
    renamed = [
        {**condition, "type": _CONDITION_NAMES[condition["type"]]}
        if condition.get("type") in _CONDITION_NAMES
        else condition
        for condition in conditions
    ]
    return {**status, "conditions": renamed}


def _new_metadata(
    metadata: Fields, source: str, target: str, kind: str, notes: list[ConversionNote]
) -> Fields:
    """Return the metadata of a new object, without fields that belong to the life of the old one."""
    group = group_of(source)
    result = {key: value for key, value in metadata.items() if key not in _SERVER_OWNED}
    dropped = ", ".join(key for key in metadata if key in _SERVER_OWNED)
    if dropped:
        notes.append(
            ConversionNote("metadata", f"{dropped} left out: the result is a new object", lost=False)
        )
    finalizers = metadata.get("finalizers") or []
    own = [finalizer for finalizer in finalizers if finalizer.startswith(f"{group}/")]
    if own:
        text = f"{', '.join(own)} left out: only the old object's controller removes it"
        notes.append(ConversionNote("metadata.finalizers", text, lost=False))
        _set_field(result, "finalizers", [finalizer for finalizer in finalizers if finalizer not in own])
    owners = metadata.get("ownerReferences") or []
    stale = [owner for owner in owners if group_of(owner.get("apiVersion") or "") == group]
    if stale:
        names = ", ".join(f"{owner.get('kind')} {owner.get('name')}" for owner in stale)
        text = f"{names} left out: converted it has another uid, and an owner of unknown uid means deletion"
        notes.append(ConversionNote("metadata.ownerReferences", text, lost=True))
        _set_field(result, "ownerReferences", [owner for owner in owners if owner not in stale])
    annotations = metadata.get("annotations") or {}
    if _LAST_APPLIED in annotations:
        text = "left out: it describes the old object"
        notes.append(ConversionNote(f"metadata.annotations[{_LAST_APPLIED}]", text, lost=False))
        _set_field(
            result, "annotations", {key: text for key, text in annotations.items() if key != _LAST_APPLIED}
        )
    length = len(metadata.get("name") or "")
    if target == STORED and kind == "PodGroup" and length > MAX_PODIUM_NAME:
        text = f"a Podium group's name is a label, so {length} characters are more than {MAX_PODIUM_NAME}"
        notes.append(ConversionNote("metadata.name", text, lost=True))
    return result


def _set_field(fields: Fields, key: str, value: list[Any] | Fields) -> None:
    """Set a list or mapping, or remove an empty one, as the API server writes it."""
    if value:
        fields[key] = value
    else:
        fields.pop(key, None)


def _write_kept(document: Fields, kept: Fields) -> Fields:
    """Write the annotation KEPT, or remove it if there is nothing to keep."""
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not kept and KEPT not in annotations:
        return document
    rest = {key: text for key, text in annotations.items() if key != KEPT}
    if kept:
        rest[KEPT] = kept_text(kept)
    new = dict(metadata)
    _set_field(new, "annotations", rest)
    return {**document, "metadata": new}


def kept_text(kept: Fields) -> str:
    """Return the value of the annotation KEPT."""
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def restorable(document: Fields) -> Fields:
    """Return the fields in KEPT that the newer version admits, because any client may write the annotation.

    For a PodGroup the result has its fields, for a Workload `podGroupTemplates` with the fields of each
    template by name.
    """
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(KEPT)
    try:
        kept = _ANY.decode((text or "{}").encode())
    except (msgspec.DecodeError, ValueError):
        return {}
    if not isinstance(kept, dict):
        return {}
    if document["kind"] == "PodGroup":
        return _restored(kept)
    templates = kept.get("podGroupTemplates")
    named = templates.items() if isinstance(templates, dict) else ()
    templates_by_name = {name: _restored(fields) for name, fields in named}
    return {
        "podGroupTemplates": {
            name: {key: value for key, value in fields.items() if key != PARENT}
            for name, fields in templates_by_name.items()
        }
    }


def _restored(fields: Any) -> Fields:
    """Return those of the fields that the newer version has and the older one lacks, if they are valid."""
    given = fields if isinstance(fields, dict) else {}
    policy, parent = given.get("preemptionPolicy"), given.get(PARENT)
    named = isinstance(parent, str) and len(parent) <= _MAX_NAME and _SUBDOMAIN(parent) is not None
    return {
        **({"preemptionPolicy": policy} if policy in PREEMPTION_POLICIES else {}),
        **({PARENT: parent} if named else {}),
    }
