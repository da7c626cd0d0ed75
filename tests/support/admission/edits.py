"""Small named changes to a JSON document, so that defects and updates are values that can be printed.

A valid object with zero to two edits reaches the deep rules of an API server. A wholly random object fails at
the first check.
"""

import copy
import itertools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Path = tuple[str | int, ...]


class Edit(NamedTuple):
    """A change at a path; `swap` reverses a list, `append` adds to a list that may be absent."""

    op: Literal["set", "drop", "append", "swap"]
    path: Path
    value: Any = None


def put(path: str, value: Any) -> Edit:
    """Set a field, and create absent parents but lists; `/` separates steps, digits are list indices."""
    return Edit("set", _path(path), value)


def drop(path: str) -> Edit:
    """Remove a field or an item."""
    return Edit("drop", _path(path))


def append(path: str, value: Any) -> Edit:
    """Add an item to a list."""
    return Edit("append", _path(path), value)


def swap(path: str) -> Edit:
    """Reverse a list."""
    return Edit("swap", _path(path))


def edited(document: dict[str, Any], edits: Sequence[Edit]) -> dict[str, Any]:
    """Return a changed copy; an edit at a path that an earlier edit removed changes nothing."""
    result = copy.deepcopy(document)
    for edit in edits:
        _apply(result, edit)
    return result


def _apply(document: dict[str, Any], edit: Edit) -> None:
    parent: Any = document
    makes = edit.op in ("set", "append")
    for step, following in itertools.pairwise(edit.path):
        parent = _child(parent, step, make=makes and isinstance(following, str))
    key = edit.path[-1]
    here = _child(parent, key, make=False)
    match edit.op:
        case "set" if isinstance(parent, dict) or here is not None:
            parent[key] = copy.deepcopy(edit.value)
        case "drop" if isinstance(parent, dict):
            parent.pop(key, None)
        case "drop" if isinstance(parent, list) and isinstance(key, int) and here is not None:
            del parent[key]
        case "append" if isinstance(here, list):
            here.append(copy.deepcopy(edit.value))
        case "append" if isinstance(parent, dict):
            parent[key] = [copy.deepcopy(edit.value)]
        case "swap" if isinstance(here, list):
            here.reverse()
        case _:
            pass


def _child(parent: Any, key: str | int, *, make: bool) -> Any:
    if isinstance(parent, dict):
        if make and not isinstance(parent.get(key), dict | list):
            parent[key] = {}
        return parent.get(key)
    if isinstance(parent, list) and isinstance(key, int) and key < len(parent):
        return parent[key]
    return None


def _path(text: str) -> Path:
    return tuple(int(step) if step.isdigit() else step for step in text.split("/"))
