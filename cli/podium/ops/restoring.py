"""The document to apply so that an object has its old fields again, for an install that is undone.

Writing the whole old object back would undo later changes of other managers, and take over their fields. The
server's record of our field manager says which fields are ours: those we had before and those we took. They
get their old values. A field that did not exist is removed, because an apply that omits a field gives it up.
"""

from collections.abc import Mapping
from typing import Any

from podium import jsontext
from podium.ops.install import MANAGER, Document

# A set of fields in the format of metadata.managedFields (fieldsV1): `f:NAME` is a field, `k:KEYS` the item
# of a list with these keys, `v:VALUE` an item that is a value, `.` the thing itself. An empty set is the
# whole.
Fields = Mapping[str, Any]


def restoring(before: Document, after: Document | None) -> Document:
    """Return the document that our manager applies to undo its changes from `before` to `after`."""
    fields = _united(owned(before, MANAGER), owned(after or {}, MANAGER))
    metadata = {
        name: before["metadata"][name] for name in ("name", "namespace") if name in before["metadata"]
    }
    part = chosen(before, fields) if fields else {}
    return {
        **part,
        "apiVersion": before["apiVersion"],
        "kind": before["kind"],
        "metadata": {**part.get("metadata", {}), **metadata},
    }


def owned(document: Mapping[str, Any], manager: str, subresource: str = "") -> Fields:
    """Return the fields that a manager owns by apply."""
    for entry in document.get("metadata", {}).get("managedFields", ()):
        by = entry["manager"], entry["operation"], entry.get("subresource", "")
        if by == (manager, "Apply", subresource):
            fields: Fields = entry["fieldsV1"]
            return fields
    return {}


def _united(one: Fields, other: Fields) -> Fields:
    """Return the union of two sets of fields."""
    both = {name: _united(one[name], other[name]) for name in one if name in other}
    return {**one, **other, **both} if one and other else one or other


def chosen(value: Any, fields: Fields) -> Any:
    """Return the part of a value that a set of fields selects."""
    if not fields or not isinstance(value, dict | list):
        return value
    if isinstance(value, dict):
        return {
            name: chosen(value[name], inner)
            for field, inner in fields.items()
            if field.startswith("f:") and (name := field[2:]) in value
        }
    found = []
    for item in value:
        for field, inner in fields.items():
            if _is(item, field):
                found.append(chosen(item, inner))
    return found


def _is(item: Any, field: str) -> bool:
    """Return whether a field names this item of a list."""
    kind, _, text = field.partition(":")
    if kind == "k":
        keys = jsontext.parse(text.encode(), dict[str, Any])
        return isinstance(item, dict) and all(item.get(name) == keys[name] for name in keys)
    return kind == "v" and bool(item == jsontext.parse(text.encode(), Any))
