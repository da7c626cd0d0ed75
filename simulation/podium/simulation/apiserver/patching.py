"""Patches: JSON Patch (RFC 6902), merge patch (RFC 7386), and strategic merge patch."""

from collections.abc import Iterable, Mapping
from typing import Any

from podium import jsontext
from podium.simulation.apiserver.managedfields import item_key
from podium.simulation.apiserver.messages import ApiError, Document, bad_request
from podium.simulation.apiserver.resources import ResourceRow

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def json_patch(document: Document, operations: Iterable[Mapping[str, Any]]) -> Document:
    """Return a document after the operations. Raises ApiError if one cannot be done."""
    value: Any = document
    for operation in operations:
        try:
            value = _operate(value, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            text = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", text) from None
    result: Document = value
    return result


def _operate(value: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add" | "replace" | "remove" as kind:
            return _edited_at(value, path, kind, operation.get("value"))
        case "test":
            if _at(value, path) != operation.get("value"):
                raise ValueError
            return value
        case "copy":
            return _edited_at(value, path, "add", _at(value, _pointer(operation["from"])))
        case "move":
            source = _pointer(operation["from"])
            moved = _at(value, source)
            return _edited_at(_edited_at(value, source, "remove", None), path, "add", moved)
        case _:
            raise ValueError


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def _edited_at(value: Any, path: list[str], kind: str, part: Any) -> Any:
    if not path:
        return part
    name, rest = path[0], path[1:]
    copy = value.copy()
    key: Any = name
    if isinstance(copy, list):
        key = len(copy) if name == "-" else int(name)
        if not 0 <= key <= len(copy) - (kind != "add" or bool(rest)):
            raise IndexError
    if rest:
        copy[key] = _edited_at(copy[key], rest, kind, part)
    elif kind == "remove":
        del copy[key]
    elif isinstance(copy, list) and kind == "add":
        copy.insert(key, part)
    else:
        copy[key] = part
    return copy


def merge_patch(value: Any, patch: Any) -> Any:
    """Return a value after a merge patch: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), part)
    return merged


_DELETE_VALUES = "$deleteFromPrimitiveList/"
_DIRECTIVES = ("$setElementOrder/", "$retainKeys")


def strategic_patch(row: ResourceRow, value: Any, patch: Any, path: str = "") -> Any:
    """Return a value after a strategic merge patch, which merges lists by their keys."""
    if isinstance(patch, list):
        keys = row.lists.get(path)
        return patch if keys is None else _merged_list(row, value or [], patch, path, keys[:1])
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    present = dict(value) if isinstance(value, dict) and directive != "replace" else {}
    for name, part in patch.items():
        inner = f"{path}.{name}" if path else name
        if name.startswith(_DELETE_VALUES):
            listed = name.removeprefix(_DELETE_VALUES)
            present[listed] = [item for item in present.get(listed) or () if item not in part]
        elif name == "$patch" or name.startswith(_DIRECTIVES):
            continue
        elif part is None:
            present.pop(name, None)
        elif isinstance(part, dict | list):
            present[name] = strategic_patch(row, present.get(name), part, inner)
            if present[name] == []:
                del present[name]
        else:
            present[name] = part
    return present


def _merged_list(
    row: ResourceRow, items: list[Any], patch: list[Any], path: str, keys: tuple[str, ...]
) -> list[Any]:
    """Return a list after a patch. New items precede those that the patch does not name."""
    coming = [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    if any(item.get("$patch") == "replace" for item in patch if isinstance(item, dict)):
        return coming
    for item in patch:
        if keys and keys[0] not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {keys[0]}")
    dropped = {item_key(keys, item) for item in patch if isinstance(item, dict) and "$patch" in item}
    before = {item_key(keys, item): item for item in items}
    order = [element for element in before if element not in dropped]
    named = {
        item_key(keys, item): strategic_patch(row, before.get(item_key(keys, item)), item, path)
        for item in coming
    }
    # In the order of the patch; an item that is new to the server's list comes before its other items.
    left = [element for element in order if element not in named]
    right = [*named]
    result: list[Any] = []
    while left or right:
        first = right and left and right[0] in before and order.index(left[0]) < order.index(right[0])
        if not right or first:
            result.append(before[left.pop(0)])
        else:
            result.append(named[right.pop(0)])
    return result


def decoded_patch(content_type: str, body: bytes) -> Any:
    """Return a patch. Raises ApiError."""
    try:
        return jsontext.parse(body, Any)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error} ({content_type})") from None
