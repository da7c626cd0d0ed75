"""ObjectMeta: its Go fields, the fields that the server resets, and its validation on create and update.

Labels and annotations are Go maps in the server, so the order of several errors about them is random there.
Here it is the order of the document.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubecel.goquote import go_quote
from podium.minors.minor import Minor
from podium.rules import fields, names
from podium.rules.decoding import anything, boolean, integer, mapping, objects, struct, text, texts, time
from podium.rules.fields import FieldError, refusal
from podium.rules.schema import Document, StructSchema

_NAME = refusal(
    "metadata-name",
    title="Invalid name",
    why="A name is part of URLs and label values, so it must be a DNS subdomain.",
    source="Kubernetes API server: PC2, W1, G11",
    fix="Use lower case letters, digits, dashes and dots, at most 253 characters.",
)
_LABELS = refusal(
    "metadata-labels",
    title="Invalid label, annotation or finalizer",
    why="Selectors and controllers rely on the spelling of keys and values.",
    source="Kubernetes API server: ObjectMeta validation",
    fix="Write the key as [prefix/]name and a label's value with at most 63 letters, digits, '-', "
    "'_' or '.'.",
)
_OWNERS = refusal(
    "metadata-owners",
    title="Incomplete owner reference",
    why="Garbage collection deletes by owner, so an incomplete reference is refused.",
    source="Kubernetes API server: ObjectMeta validation",
    fix="Set apiVersion, kind, name and uid, and mark at most one owner as controller.",
)
_FIXED = refusal(
    "metadata-immutable",
    title="Identity of an object changed",
    why="Name, namespace, uid and deletion are immutable once the object exists.",
    source="Kubernetes API server: ObjectMeta validation, G28",
    fix="Keep the stored value of the field, or create another object.",
)
RULES = (_NAME.rule, _LABELS.rule, _OWNERS.rule, _FIXED.rule)

ANNOTATIONS_LIMIT = 256 * 1024
# Each error shows the whole list: a list of thousands would cause an answer of gigabytes.
_CONTROLLER_COMPLAINTS = 20
_IMMUTABLE, _NOT_EMPTY = "field is immutable", "must not be empty"
_DECLARED_FIXED = ("metadata.uid", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds")
# The fields that declarative rules check, in Go's order; owner references follow.
_RANKS = {
    field: rank for rank, field in enumerate(("metadata.uid", "metadata.generation", *_DECLARED_FIXED[1:]))
}
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

_OWNER = StructSchema(
    "OwnerReference",
    (
        text("apiVersion", always=True),
        text("kind", always=True),
        text("name", always=True),
        text("uid", "types.UID", always=True),
        boolean("controller", pointer=True),
        boolean("blockOwnerDeletion", pointer=True),
    ),
)
OBJECT_META = StructSchema(
    "ObjectMeta",
    (
        text("name"),
        text("generateName"),
        text("namespace"),
        text("selfLink"),
        text("uid", "types.UID"),
        text("resourceVersion"),
        integer("generation", "int64"),
        time("creationTimestamp"),
        time("deletionTimestamp"),
        integer("deletionGracePeriodSeconds", "int64", pointer=True),
        mapping("labels"),
        mapping("annotations"),
        objects("ownerReferences", _OWNER, "v1.OwnerReference"),
        texts("finalizers"),
        anything("managedFields"),
    ),
)
# The first fields of every object.
HEAD = (text("apiVersion"), text("kind"), struct("metadata", OBJECT_META, "v1.ObjectMeta"))

# Fields that the server sets itself; no verdict shows them.
SERVER_MADE = ("selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")


def reset_on_create(metadata: Document) -> None:
    """Remove the fields that a client may not set."""
    for name in ("selfLink", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)


def reset_on_update(metadata: Document, old: Mapping[str, Any]) -> None:
    """Keep the fields that an update cannot change: generation, uid, creation, and deletion once it began."""
    for name in ("generation", "creationTimestamp"):
        copy_stored(metadata, old, name)
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    for name in ("uid", "deletionGracePeriodSeconds"):
        if name in old:
            metadata.setdefault(name, old[name])


def reset_for_status(metadata: Document, old: Mapping[str, Any]) -> None:
    """Keep all fields that do not belong to a status update."""
    for name in ("deletionTimestamp", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"):
        copy_stored(metadata, old, name)


def copy_stored(new: Document, old: Mapping[str, Any], name: str) -> None:
    """Copy one field from the stored object, or remove it if the stored object has none."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def check_create(metadata: Document, name: str, *, namespaced: bool, minor: Minor) -> list[FieldError]:
    """Return the errors in the metadata of a new object; `name` is its own or the generated one.

    `minor` is Kubernetes' own: the messages of 1.37 say which owner reference is wrong, and what it lacks.
    """
    errors = _check_names(metadata, name, names.object_name_prefix, names.object_name, namespaced=namespaced)
    return [*errors, *_common(metadata, minor), *check_finalizers(metadata)]


def check_update(metadata: Document, old: Document, *, namespaced: bool, minor: Minor) -> list[FieldError]:
    """Return the errors in the metadata of a changed object: the generic checks, then those of the kind."""
    name = metadata.get("name", "")
    errors = _check_names(
        metadata, name, names.path_segment_prefix, names.path_segment, namespaced=namespaced
    )
    errors += _common(metadata, minor)
    if old.get("deletionTimestamp"):
        errors += _no_new_finalizers(metadata, old)
    for field in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        value = metadata.get(field)
        if value != old.get(field):
            shown = "" if value is None and field in ("name", "namespace", "uid") else value
            errors.append(fields.invalid(_FIXED, f"metadata.{field}", shown, _IMMUTABLE))
    return errors + check_finalizers(metadata)


def declare(errors: list[FieldError]) -> list[FieldError]:
    """Return errors in metadata as a server reports them whose declarative rules find some of them."""
    declared = [_declared(error) for error in errors]
    code = [error for error, other in zip(errors, declared, strict=True) if other is None]
    rules = [error for error in declared if error is not None]
    return code + sorted(rules, key=lambda error: _RANKS.get(error.field, len(_RANKS)))


def _declared(error: FieldError) -> FieldError | None:
    """Return the error of the declarative rule that replaces an error of code, None if there is none."""
    if error.field in _DECLARED_FIXED and error.body.endswith(_IMMUTABLE):
        return fields.invalid(error.cause, error.field, None, _IMMUTABLE)._replace(declared=True)
    if error.field.startswith("metadata.ownerReferences[") and error.body.endswith(_NOT_EMPTY):
        return fields.required(error.cause, error.field)._replace(declared=True)
    return error._replace(declared=True) if error.field == "metadata.generation" else None


def _check_names(
    metadata: Document,
    name: str,
    prefix_complaints: Callable[[str], list[str]],
    name_complaints: Callable[[str], list[str]],
    *,
    namespaced: bool,
) -> list[FieldError]:
    errors = []
    generate = metadata.get("generateName")
    if generate:
        errors += [
            fields.invalid(_NAME, "metadata.generateName", generate, complaint)
            for complaint in prefix_complaints(generate)
        ]
    if name:
        errors += [
            fields.invalid(_NAME, "metadata.name", name, complaint) for complaint in name_complaints(name)
        ]
    else:
        errors.append(fields.required(_NAME, "metadata.name", "name or generateName is required"))
    if namespaced:
        namespace = metadata.get("namespace", "")
        errors += [
            fields.invalid(_NAME, "metadata.namespace", namespace, complaint)
            for complaint in names.dns_label(namespace, "characters")
        ]
    return errors


def _common(metadata: Document, minor: Minor) -> list[FieldError]:
    errors: list[FieldError] = []
    generation = metadata.get("generation", 0)
    if generation < 0:
        errors.append(
            fields.invalid(_FIXED, "metadata.generation", generation, "must be greater than or equal to 0")
        )
    for key, value in metadata.get("labels", {}).items():
        errors += [
            fields.invalid(_LABELS, "metadata.labels", key, complaint)
            for complaint in names.qualified_name(key)
        ]
        errors += [
            fields.invalid(_LABELS, "metadata.labels", value, complaint)
            for complaint in names.label_value(value)
        ]
    if "annotations" in metadata:
        errors += _annotations(metadata["annotations"])
    if "ownerReferences" in metadata:
        errors += _owners(metadata["ownerReferences"], minor)
    finalizers = metadata.get("finalizers", ())
    for finalizer in finalizers:
        errors += [
            fields.invalid(_LABELS, "metadata.finalizers", finalizer, complaint)
            for complaint in names.qualified_name(finalizer)
        ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(
            fields.invalid(
                _LABELS,
                "metadata.finalizers",
                finalizers,
                "finalizer orphan and foregroundDeletion cannot be both set",
            )
        )
    return errors


def _annotations(annotations: Mapping[str, str]) -> list[FieldError]:
    errors = []
    size = 0
    for key, value in annotations.items():
        size += len(key.encode(errors="surrogatepass")) + len(value.encode(errors="surrogatepass"))
        errors += [
            fields.invalid(_LABELS, "metadata.annotations", key, complaint)
            for complaint in names.qualified_name(key.lower())
        ]
    if size > ANNOTATIONS_LIMIT:
        errors.append(fields.too_long(_LABELS, "metadata.annotations", ANNOTATIONS_LIMIT))
    return errors


def _owners(owners: list[Document], minor: Minor) -> list[FieldError]:
    errors: list[FieldError] = []
    controller, more = "", 0
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]" if minor.precise_errors else "metadata.ownerReferences"
        errors += _owner(owner, path, minor)
        if owner.get("controller"):
            this = f"{owner['kind']}/{owner['name']}"
            if controller and more < _CONTROLLER_COMPLAINTS:
                more += 1
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                errors.append(fields.invalid(_OWNERS, "metadata.ownerReferences", owners, detail))
            controller = controller or this
    return errors


def _owner(owner: Document, path: str, minor: Minor) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version = owner["apiVersion"]
    slashes = api_version.count("/")
    versioned = slashes <= 1 and bool(api_version.rpartition("/")[2])
    if minor.precise_errors and not api_version:
        errors.append(fields.required(_OWNERS, f"{path}.apiVersion", _NOT_EMPTY))
    elif not versioned:
        detail = (
            "must be <group>/<version> or <version>" if minor.precise_errors else "version must not be empty"
        )
        errors.append(fields.invalid(_OWNERS, f"{path}.apiVersion", api_version, detail))
    for field in ("kind", "name", "uid"):
        if owner[field]:
            continue
        where = f"{path}.{field}"
        missing = fields.required(_OWNERS, where, _NOT_EMPTY)
        errors.append(missing if minor.precise_errors else fields.invalid(_OWNERS, where, "", _NOT_EMPTY))
    if api_version == "v1" and owner["kind"] == "Event":
        detail = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(fields.invalid(_OWNERS, path, owner, detail))
    return errors


def _no_new_finalizers(metadata: Document, old: Document) -> list[FieldError]:
    extra = sorted(set(metadata.get("finalizers", ())) - set(old.get("finalizers", ())))
    if not extra:
        return []
    listed = ", ".join(go_quote(finalizer) for finalizer in extra)
    detail = (
        "no new finalizers can be added if the object is being deleted, found new finalizers "
        f"[]string{{{listed}}}"
    )
    return [fields.forbidden(_FIXED, "metadata.finalizers", detail)]


def add_finalizer(metadata: Document, finalizer: str) -> None:
    """Add a finalizer unless the object has it."""
    finalizers = metadata.setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def check_finalizers(metadata: Document) -> list[FieldError]:
    """Return errors in finalizers, which the server checks on its own kinds only, not on custom resources."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        fields.invalid(_LABELS, f"metadata.finalizers[{index}]", finalizer, detail)
        for index, finalizer in enumerate(metadata.get("finalizers", ()))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]
