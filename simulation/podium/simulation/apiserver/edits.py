"""The object that a PUT or a PATCH wants, from the stored one."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from podium import jsontext
from podium.api.times import written
from podium.simulation.apiserver import managedfields
from podium.simulation.apiserver.managedfields import APPLY, FieldManager, FieldPath, Managers
from podium.simulation.apiserver.messages import ApiError, Document, bad_request, conflict, missing
from podium.simulation.apiserver.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC,
    decoded_patch,
    json_patch,
    merge_patch,
    strategic_patch,
)
from podium.simulation.apiserver.resources import ResourceRow, undeclared
from podium.simulation.apiserver.routing import Target
from podium.simulation.apiserver.storage import ObjectVersion

# Kinds whose key in etcd is not that of their resource.
_ETCD_NAMES = {"nodes": "minions"}
# Values that Go leaves out of metadata.
_EMPTY: tuple[Any, ...] = (None, "", {}, [])


class Edited(NamedTuple):
    """The object that a request wants, and its managers."""

    document: Document
    managers: Managers
    applies: bool = False


# Returns the object that a request wants from the stored one, or from None.
Edit = Callable[[ObjectVersion | None], Edited]


def decoded(target: Target) -> Document:
    """Return the object of a request in its stored version, identity first. Raises ApiError."""
    try:
        sent = jsontext.parse(target.request.body, Any)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(sent, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    return _normal(target, sent)


def _normal(target: Target, sent: Document) -> Document:
    row, api_version = target.row, target.row.api_version(target.version)
    if sent.get("apiVersion", api_version) != api_version:
        given = sent["apiVersion"]
        text = (
            f"the API version in the data ({given}) does not match the expected API version ({api_version})"
        )
        raise bad_request(text)
    metadata = {name: value for name, value in (sent.get("metadata") or {}).items() if value not in _EMPTY}
    for name, value in (("name", target.name), ("namespace", target.namespace)):
        if value and metadata.setdefault(name, value) != value:
            raise bad_request(_mismatch(name, metadata[name], value))
    rest = {
        name: _stripped(value)
        for name, value in sent.items()
        if value is not None and name not in ("apiVersion", "kind", "metadata")
    }
    head = {"apiVersion": row.api_version(row.stored), "kind": row.kind, "metadata": metadata}
    return {**head, **rest}


def put_edit(target: Target) -> Edit:
    """Return the edit of a PUT. Raises ApiError."""
    sent = decoded(target)

    def edit(live: ObjectVersion | None) -> Edited:
        if live is None:
            if target.row.kind in ("Lease", "Event") and not target.subresource:
                if uid := sent["metadata"].get("uid"):
                    raise other_uid(target, uid, "")
                return Edited(sent, {})
            raise missing(target.row.resource, target.name)
        uid, stored = sent["metadata"].get("uid"), live.document["metadata"]["uid"]
        if uid and uid != stored:
            raise other_uid(target, uid, stored)
        # The managers that a client sends replace the stored ones.
        given, held = (
            sent["metadata"].get("managedFields"),
            live.document["metadata"].get("managedFields"),
        )
        return Edited(sent, managedfields.decoded(given) if given and given != held else live.managers)

    return edit


def other_uid(target: Target, uid: str, stored: str) -> ApiError:
    """Return the 409 of a write that names another UID."""
    row = target.row
    plural = f"{row.group}/{row.plural}" if row.custom else _ETCD_NAMES.get(row.plural, row.plural)
    key = "/".join(part for part in ("/registry", plural, target.namespace, target.name) if part)
    text = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
    )
    return conflict(row.resource, target.name, text)


def patch_edit(target: Target, now: datetime) -> Edit:
    """Return the edit of a PATCH of any kind. Raises ApiError."""
    row, kind = target.row, target.request.content_type
    if (kind == STRATEGIC and row.custom) or kind not in (
        APPLY_PATCH,
        JSON_PATCH,
        MERGE_PATCH,
        STRATEGIC,
    ):
        accepted = f"accepted media types include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
        text = f"the body of the request was in an unknown format - {accepted}"
        raise ApiError(415, "UnsupportedMediaType", text)
    patch = decoded_patch(kind, target.request.body)
    if kind == APPLY_PATCH:
        return _apply_edit(target, patch, now)

    def edit(live: ObjectVersion | None) -> Edited:
        if live is None:
            raise missing(row.resource, target.name)
        shown = {**live.document, "apiVersion": row.api_version(target.version)}
        if kind == JSON_PATCH:
            changed = json_patch(shown, patch)
        elif kind == MERGE_PATCH:
            changed = merge_patch(shown, patch)
        else:
            changed = strategic_patch(row, shown, patch)
        return Edited(_normal(target, changed), live.managers)

    return edit


def _apply_edit(target: Target, patch: Any, now: datetime) -> Edit:
    row, query = target.row, target.request.query
    if not query.get("fieldManager"):
        text = "fieldManager: Required value: is required for apply patch"
        raise ApiError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {text}')
    config = _normal(target, patch)
    if row.custom and (unknown := undeclared(row.schemas.get(target.version, {}), config, "")):
        namespace = (patch.get("metadata") or {}).get("namespace", "")
        where = f"{namespace}/{config['metadata']['name']}; {config['apiVersion']}, Kind={row.kind}"
        text = f"failed to create typed patch object ({where}): {unknown}: field not declared in schema"
        raise ApiError(500, "", text)
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    manager = FieldManager(query["fieldManager"], APPLY, "", target.subresource)

    def edit(live: ObjectVersion | None) -> Edited:
        if live is None and target.subresource:
            raise missing(row.resource, target.name)
        base = (
            {
                **config,
            }
            if live is None
            else live.document
        )
        merged, managers = managedfields.applied(
            row,
            {"apiVersion": config["apiVersion"], "kind": row.kind, "metadata": {}} if live is None else base,
            config,
            {} if live is None else live.managers,
            manager,
            version=row.api_version(target.version),
            force=query.get("force") == "true",
            ignored=unapplied(row, target.subresource),
            time=written(now),
        )
        return Edited(merged, managers, applies=True)

    return edit


def unapplied(row: ResourceRow, subresource: str) -> tuple[FieldPath, ...]:
    """Return the fields that an apply at this path cannot set."""
    if subresource == "status":
        if row.custom or row.group:
            return (("f:spec",), ("f:metadata",))
        return (("f:spec",), ("f:metadata", "f:ownerReferences"))
    return (("f:status",),) if "status" in row.subresources and row.resets_status else ()


def _stripped(value: Any) -> Any:
    """Return a value without the fields that are null, which no typed object has."""
    if isinstance(value, dict):
        return {name: _stripped(part) for name, part in value.items() if part is not None}
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def _mismatch(field: str, given: str, wanted: str) -> str:
    if field == "namespace":
        return "the namespace of the provided object does not match the namespace sent on the request"
    return f"the name of the object ({given}) does not match the name on the URL ({wanted})"
