"""Rewrite the membership of pods and pod templates when the groups of a file move to the other API.

A native group's pods name it in spec.schedulingGroup, a Podium group's pods in a label. Converting the groups
alone would leave every pod outside its group, so the pods and templates in the file are changed too. Their
other fields stay. A running pod cannot change its group, because both fields are immutable.
"""

from typing import Any

import msgspec

from podium.api.convert import MAX_PODIUM_NAME, ConversionNote, Converted, Fields
from podium.api.fieldpath import at, parse_path
from podium.api.findings import group_of
from podium.api.groups import GROUP_LABEL, NATIVE_GROUP
from podium.api.podkinds.table import OWNER_KINDS

_FIELD = "spec.schedulingGroup.podGroupName"
_LABEL = f"metadata.labels[{GROUP_LABEL}]"


def regroup(document: Fields, target: str) -> Converted:
    """Return a pod or an owner's templates as members of the same-named group in the API of `target`.

    Any other kind is returned unchanged, and so is an object without a group. The document must decode by its
    read; it is not changed.
    """
    notes: list[ConversionNote] = []
    native = group_of(target) == NATIVE_GROUP
    key = (document.get("apiVersion", ""), document.get("kind", ""))
    if key == ("v1", "Pod"):
        return Converted(_moved(document, "", notes, native=native, selected=False), notes)
    if key not in OWNER_KINDS:
        return Converted(document, notes)
    selector = (document.get("spec") or {}).get("selector") or {}
    selected = GROUP_LABEL in (selector.get("matchLabels") or {})
    owner = msgspec.convert(document, OWNER_KINDS[key].type).neutral()
    for path in owner.templates.keys() - owner.spec_paths.keys():
        steps = parse_path(path)
        new = _moved(at(document, steps), f"{path}.", notes, native=native, selected=selected)
        document = _replaced(document, steps, new)
    return Converted(document, notes)


def _moved(pod: Fields, path: str, notes: list[ConversionNote], *, native: bool, selected: bool) -> Fields:
    """Return a pod or template with its group in the other field, or unchanged if it names none."""
    spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
    labels = metadata.get("labels") or {}
    label: str = labels.get(GROUP_LABEL) or ""
    field: str = (spec.get("schedulingGroup") or {}).get("podGroupName") or ""
    reference = spec.get("workloadRef")
    if isinstance(reference, dict):
        group = "-".join(filter(None, map(reference.get, ("name", "podGroup", "podGroupReplicaKey"))))
        text = f"only Kubernetes 1.35 reads it; unchanged. Create PodGroup {group} and name it in its place"
        notes.append(ConversionNote(f"{path}spec.workloadRef", text, lost=True))
    if not (label if native else field):
        return pod
    if not native and len(field) > MAX_PODIUM_NAME:
        text = f"its {len(field)} characters exceed the limit of a label, {MAX_PODIUM_NAME}; unchanged"
        notes.append(ConversionNote(path + _FIELD, text, lost=True))
        return pod
    if label and field and label != field:
        text = f"names {label}, {_FIELD} names {field}: the field is used"
        notes.append(ConversionNote(path + _LABEL, text, lost=True))
    if native:
        # An owner must select the labels of its template.
        kept = {key: value for key, value in labels.items() if key != GROUP_LABEL or selected}
        return _written(pod, {**spec, "schedulingGroup": {"podGroupName": field or label}}, kept)
    rest = {key: value for key, value in spec.items() if key != "schedulingGroup"}
    return _written(pod, rest, {**labels, GROUP_LABEL: field})


def _written(pod: Fields, spec: Fields, labels: Fields) -> Fields:
    metadata = {**(pod.get("metadata") or {}), "labels": labels}
    if not labels:
        del metadata["labels"]
    # metadata comes first if it is new.
    first = pod if "metadata" in pod else {"metadata": metadata, **pod}
    return {**first, "metadata": metadata, "spec": spec}


def _replaced(value: Any, steps: tuple[str | int, ...], new: Fields) -> Any:
    """Return a copy of a document with a new value at a path; the rest is shared."""
    if not steps:
        return new
    step, *rest = steps
    changed = _replaced(value[step], tuple(rest), new)
    if isinstance(value, list):
        return [changed if index == step else item for index, item in enumerate(value)]
    return {**value, step: changed}
