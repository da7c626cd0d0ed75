"""Rewrite the membership of pods and pod templates when the groups of a file move to the other API.

A native group's pods name it in spec.schedulingGroup, a Podium group's pods in a label, and the pods of other
projects' groups in labels or annotations of their own. Converting the groups alone would leave every pod
outside its group, so the pods and templates in the file are changed too. Their other fields stay. A running
pod cannot change its group, because both fields are immutable.
"""

from collections.abc import Container
from typing import Any, NamedTuple

import msgspec

from podium.api.convert import MAX_PODIUM_NAME, ConversionNote, Converted, Fields
from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER
from podium.api.fieldpath import at, parse_path
from podium.api.findings import group_of
from podium.api.foreigngroups import ForeignKind
from podium.api.groups import GROUP_LABEL, NATIVE_GROUP
from podium.api.podkinds.table import OWNER_KINDS

_FIELD = "spec.schedulingGroup.podGroupName"
_LABEL = f"metadata.labels[{GROUP_LABEL}]"


class ForeignMembers(NamedTuple):
    """The classes of the pods of a project's groups, by the namespaces and names of the groups."""

    project: ForeignKind
    classes: dict[tuple[str, str], set[str]]

    def named(self, group: Converted) -> Converted:
        """Return a converted group with the class of its pods if it has none.

        Some projects take the priority of a group from its pods. Here both name the class.
        """
        document = group.document
        metadata, spec = document.get("metadata") or {}, document["spec"]
        classes = self.classes.get((metadata.get("namespace") or "", metadata.get("name") or ""), set())
        if spec.get("priorityClassName") or classes == {""}:
            return group
        field = "spec.priorityClassName"
        if len(classes) == 1:
            name = next(iter(classes))
            note = ConversionNote(field, f"{name}, the class of its pods", lost=False)
            return Converted({**document, "spec": {"priorityClassName": name, **spec}}, [*group.notes, note])
        found = ", ".join(name or "none" for name in sorted(classes)) or "none are in the input"
        text = f"is not set. Name the class of its pods ({found})"
        return Converted(document, [*group.notes, ConversionNote(field, text, lost=True)])


def regroup(document: Fields, target: str, source: ForeignMembers | None = None) -> Converted:
    """Return a pod or an owner's templates as members of the same-named group in the API of `target`.

    Members of a PodGroup of `source` count too, and get the scheduler of the target; their classes are added
    to `source`. Any other kind is returned unchanged, and so is an object without a group. The document must
    decode by its read; it is not changed.
    """
    notes: list[ConversionNote] = []
    native = group_of(target) == NATIVE_GROUP
    key = (document.get("apiVersion", ""), document.get("kind", ""))
    namespace = (document.get("metadata") or {}).get("namespace") or ""

    def moved(pod: Fields, path: str, selected: Container[str]) -> Fields:
        if source is not None:
            pod = _joined(pod, path, notes, source, namespace, native=native, selected=selected)
        return _moved(pod, path, notes, native=native, selected=GROUP_LABEL in selected)

    if key == ("v1", "Pod"):
        return Converted(moved(document, "", ()), notes)
    if key not in OWNER_KINDS:
        return Converted(document, notes)
    selected = ((document.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    owner = msgspec.convert(document, OWNER_KINDS[key].type).neutral()
    for path in owner.templates:
        if path in owner.spec_paths:
            continue
        steps = parse_path(path)
        document = _replaced(document, steps, moved(at(document, steps), f"{path}.", selected))
    return Converted(document, notes)


def _joined(
    pod: Fields,
    path: str,
    notes: list[ConversionNote],
    source: ForeignMembers,
    namespace: str,
    *,
    native: bool,
    selected: Container[str],
) -> Fields:
    """Return a pod or template of a group of `source` as a member of the native group of that name."""
    spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
    keys = source.project.keys
    texts: dict[str, Fields] = {part: metadata.get(part) or {} for part in ("labels", "annotations")}
    names = (text for key in keys for part in texts.values() if (text := part.get(key)))
    name = next(names, None)
    if name is None or spec.get("schedulingGroup") or GROUP_LABEL in texts["labels"]:
        return pod
    source.classes.setdefault((namespace, name), set()).add(spec.get("priorityClassName") or "")
    for part, given in texts.items():
        rest = {key: text for key, text in given.items() if key not in keys or key in selected}
        metadata = {key: value for key, value in metadata.items() if key != part or rest}
        if rest:
            metadata[part] = rest
    scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
    needed = DEFAULT_SCHEDULER if native else PODIUM_SCHEDULER
    if scheduler not in (needed, PODIUM_SCHEDULER):
        spec = {**spec, "schedulerName": needed}
        text = f"{scheduler} replaced by {needed}, which schedules the group"
        notes.append(ConversionNote(f"{path}spec.schedulerName", text, lost=False))
    member = {**pod, "metadata": metadata, "spec": {**spec, "schedulingGroup": {"podGroupName": name}}}
    if not metadata:
        del member["metadata"]
    return member


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
