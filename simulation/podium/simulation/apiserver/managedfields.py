"""Server-side apply: which manager set which field, conflicts, and the merge of an applied document.

A set of fields holds paths as in fieldsV1, such as ("f:data", "f:a") and ("f:status", "f:conditions",
'k:{"type":"Ready"}'). Semantics: sigs.k8s.io/structured-merge-diff.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.simulation.apiserver.messages import ApiError, Document
from podium.simulation.apiserver.resources import ResourceRow

FieldPath = tuple[str, ...]
Fields = frozenset[FieldPath]
_METADATA = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "resourceVersion")
# The fields that belong to no manager; managedFields are removed before a comparison.
_STRIPPED: Fields = frozenset(
    (("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _METADATA))
)
_HIDDEN = ("managedFields",)
APPLY, UPDATE = "Apply", "Update"


class FieldManager(NamedTuple):
    """The identity of a manager. An applier has the same one in all versions."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text if self.operation == APPLY else f"{text} using {self.api_version}"


class ManagedSet(NamedTuple):
    """The fields of a manager, the version that they are written in, and the time of the last change."""

    fields: Fields
    api_version: str
    time: str


Managers = Mapping[FieldManager, ManagedSet]


class _Absence:
    """The value of a field that an object does not have."""


_MISSING = _Absence()
# The value of a field that has lost all its fields: it goes, and its managers keep it.
_EMPTIED = _Absence()


class _Comparison(NamedTuple):
    changed: set[FieldPath]
    removed: set[FieldPath]


def item_key(keys: tuple[str, ...], item: Any) -> str:
    """Return the path element of an item of a list: by its keys, or by its value in a set."""
    if not keys:
        return f"v:{_text(item)}"
    # The one key with a default.
    values = {key: item.get(key, "TCP" if key == "protocol" else None) for key in sorted(keys)}
    return f"k:{_text({key: value for key, value in values.items() if value is not None})}"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _compare(row: ResourceRow, old: Document, new: Document, ignored: tuple[FieldPath, ...]) -> _Comparison:
    found = _Comparison(set(), set())
    for name in {**old, **new}:
        _walk(row, old.get(name, _MISSING), new.get(name, _MISSING), name, (f"f:{name}",), found=found)
    return _Comparison(_kept(found.changed, ignored), _kept(found.removed, ignored))


def _kept(fields: set[FieldPath], ignored: tuple[FieldPath, ...]) -> set[FieldPath]:
    kept = fields - _STRIPPED
    if not ignored:
        return kept
    return {path for path in kept if not any(path[: len(prefix)] == prefix for prefix in ignored)}


def _walk(row: ResourceRow, old: Any, new: Any, path: str, at: FieldPath, *, found: _Comparison) -> None:
    if old is new or old == new:
        return
    absent = isinstance(new, _Absence) or (new is None and old is not _MISSING)
    value = old if absent else new
    keys = row.lists.get(path) if isinstance(value, list) else None
    if isinstance(value, dict) and path not in row.atomic:
        before, after = _dict(old), _dict(new)
        for name in {**before, **after}:
            if (path, name) != ("metadata", "managedFields"):
                part = f"{path}.{name}"
                here = (*at, f"f:{name}")
                _walk(row, before.get(name, _MISSING), after.get(name, _MISSING), part, here, found=found)
    elif keys is not None:
        earlier, later = _items(keys, old), _items(keys, new)
        for element in {**earlier, **later}:
            here = (*at, element)
            _walk(row, earlier.get(element, _MISSING), later.get(element, _MISSING), path, here, found=found)
        if not earlier and not later:
            return
    elif old is not _MISSING and new is not _MISSING:
        found.changed.add(at)
        return
    if old is _MISSING:
        found.changed.add(at)
    elif new is _MISSING:
        found.removed.add(at)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    return {item_key(keys, item): item for item in value} if isinstance(value, list) else {}


def _fields_of(row: ResourceRow, value: Any, path: str, at: FieldPath) -> Iterator[FieldPath]:
    """Yield the fields of an applied document."""
    keys = row.lists.get(path) if isinstance(value, list) else None
    if isinstance(value, dict) and value and path not in row.atomic:
        for name, part in value.items():
            if (path, name) != ("metadata", "managedFields"):
                yield from _fields_of(row, part, f"{path}.{name}" if path else name, (*at, f"f:{name}"))
        if at and at[-1].startswith("k:"):
            yield at
    elif keys is not None:
        for element, item in _items(keys, value).items():
            yield from _fields_of(row, item, path, (*at, element))
    else:
        yield at


def updated(
    row: ResourceRow,
    old: Document,
    new: Document,
    managers: Managers,
    manager: FieldManager,
    *,
    ignored: Iterable[FieldPath],
    time: str,
) -> Managers:
    """Return the managers after `manager` changed an object; the same mapping if nothing changes.

    `ignored` are fields that this request cannot set, such as the status.
    """
    if not managers and "uid" in old.get("metadata", {}):
        # An object without managers gets none before its first apply.
        return managers
    comparison = _compare(row, old, new, tuple(ignored))
    if not comparison.changed and not comparison.removed:
        return managers
    after = _taken(managers, comparison)
    if comparison.changed:
        held = after.pop(manager, None)
        fields = comparison.changed | held.fields if held else frozenset(comparison.changed)
        after[manager] = ManagedSet(frozenset(fields), manager.api_version, time)
    return after


def _taken(managers: Managers, comparison: _Comparison) -> dict[FieldManager, ManagedSet]:
    """Return the managers without the fields that were changed or removed."""
    changed = comparison.changed | comparison.removed
    after = {}
    for other, held in managers.items():
        if held.fields.isdisjoint(changed):
            after[other] = held
        elif left := held.fields - changed:
            after[other] = held._replace(fields=left)
    return after


def applied(
    row: ResourceRow,
    live: Document,
    config: Document,
    managers: Managers,
    manager: FieldManager,
    *,
    version: str,
    force: bool,
    ignored: Iterable[FieldPath],
    time: str,
) -> tuple[Document, Managers]:
    """Return the object and its managers after an apply. Raises ApiError for a conflict.

    `ignored` are fields that this request cannot set, such as the status; `version` is the version of the
    document.
    """
    cut = tuple(ignored)
    if not managers and "uid" in live["metadata"]:
        first = FieldManager("before-first-apply", UPDATE, version, manager.subresource)
        managers = updated(row, dict(row.zero), live, {}, first, ignored=cut, time=time)
    fields = frozenset(_kept(set(_fields_of(row, config, "", ())), cut))
    last = managers[manager].fields if manager in managers else frozenset()
    merged = _merge(row, live, config, "")
    others = {other: held.fields for other, held in managers.items() if other != manager}
    if last:
        merged = _pruned(row, merged, last, [fields, *others.values()])
    comparison = _compare(row, live, merged, cut)
    conflicts = {
        other: sorted(held & comparison.changed, key=_conflict_order)
        for other, held in others.items()
        if held & comparison.changed
    }
    if conflicts and not force:
        raise _conflict_error(conflicts)
    merged = _cleaned(merged) if last else merged
    after = _taken({other: held for other, held in managers.items() if other != manager}, comparison)
    held = managers.get(manager)
    if merged == live:
        time = held.time if held else ""
    if fields:
        after[manager] = ManagedSet(fields, version, time)
    return merged, after


def _merge(row: ResourceRow, live: Any, config: Any, path: str) -> Any:
    if isinstance(config, dict) and isinstance(live, dict) and path not in row.atomic:
        merged = dict(live)
        for name, part in config.items():
            inner = f"{path}.{name}" if path else name
            merged[name] = _merge(row, live[name], part, inner) if name in live else part
        return merged
    keys = row.lists.get(path) if isinstance(config, list) else None
    if keys is None or not isinstance(live, list):
        return config
    left, right = _items(keys, live), _items(keys, config)
    order, coming = [*left], [*right]
    shared = [element for element in coming if element in left]
    result, at = [], 0
    for element in coming:
        # Items of the object that are not applied keep their place before the next shared item.
        if element in left:
            shared.remove(element)
            while at < len(order) and order[at] != element:
                if order[at] not in right:
                    result.append(left[order[at]])
                elif order[at] in shared:
                    shared_now = order[at]
                    del order[at]
                    order.insert(order.index(element) + 1, shared_now)
                    continue
                at += 1
            at += 1
            result.append(_merge(row, left[element], right[element], path))
        else:
            while at < len(order) and order[at] not in right:
                result.append(left[order[at]])
                at += 1
            result.append(right[element])
    result += [left[element] for element in order[at:] if element not in right]
    return result


def _pruned(row: ResourceRow, merged: Document, last: Fields, owners: Iterable[Fields]) -> Document:
    """Return the object without what its manager applied last and nobody owns now."""
    # A field stays for the fields in it. An item stays only if a manager has the item itself.
    owned = {
        path[:length]
        for fields in owners
        for path in fields
        for length in range(1, len(path) + 1)
        if length == len(path) or path[length - 1][0] == "f"
    }
    parents = {path[:length] for path in last for length in range(1, len(path)) if path[length - 1][0] == "f"}
    gone = {path for path in last | parents if path not in owned and path not in _STRIPPED}
    pruned: Document = _without(row, merged, "", (), gone)
    return pruned


def _without(row: ResourceRow, value: Any, path: str, at: FieldPath, gone: set[FieldPath]) -> Any:
    if isinstance(value, dict):
        left = {}
        for name, part in value.items():
            here = (*at, f"f:{name}")
            if here not in gone:
                inner = _without(row, part, f"{path}.{name}" if path else name, here, gone)
                left[name] = inner if inner or inner == part else _EMPTIED
        return left
    keys = row.lists.get(path) if isinstance(value, list) else None
    if keys is None:
        return value
    return [
        _without(row, item, path, (*at, element), gone)
        for element, item in _items(keys, value).items()
        if (*at, element) not in gone
    ]


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cleaned(part) for name, part in value.items() if part is not _EMPTIED}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _conflict_error(conflicts: Mapping[FieldManager, list[FieldPath]]) -> ApiError:
    count = sum(map(len, conflicts.values()))
    if count == 1:
        [(manager, [path])] = conflicts.items()
        text = f"Apply failed with 1 conflict: conflict with {manager}: {_shown(path)}"
    else:
        lines = []
        for manager in sorted(conflicts, key=str):
            lines += [f"conflicts with {manager}:", *(f"- {_shown(path)}" for path in conflicts[manager])]
        text = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text)


def _shown(path: FieldPath) -> str:
    parts = []
    for element in path:
        kind, _, text = element.partition(":")
        if kind == "f":
            parts.append(f".{text}")
        elif kind == "v":
            parts.append(f"[={text}]")
        else:
            keys = jsontext.parse(text.encode(), dict[str, Any])
            parts.append("[" + ",".join(f"{key}={_text(value)}" for key, value in keys.items()) + "]")
    return "".join(parts)


def _conflict_order(path: FieldPath) -> tuple[tuple[bool, str], ...]:
    """Return the sorting key of a conflict: the fields of a level come before those in its fields."""
    last = len(path) - 1
    return tuple((index < last, element) for index, element in enumerate(path))


def decoded(entries: Iterable[Mapping[str, Any]]) -> Managers:
    """Return the managers of metadata.managedFields."""
    managers = {}
    for entry in entries:
        applies = entry["operation"] == APPLY
        version = entry["apiVersion"]
        manager = FieldManager(
            entry.get("manager", ""),
            entry["operation"],
            "" if applies else version,
            entry.get("subresource", ""),
        )
        fields = frozenset(_paths(entry.get("fieldsV1", {}), ()))
        managers[manager] = ManagedSet(fields, version, entry.get("time", ""))
    return managers


def _paths(tree: Mapping[str, Any], at: FieldPath) -> Iterator[FieldPath]:
    for name, part in tree.items():
        if name == ".":
            yield at
        elif part:
            yield from _paths(part, (*at, name))
        else:
            yield (*at, name)


_SORTED_BY = ("operation", "time", "manager", "apiVersion", "subresource")


def encoded(managers: Managers) -> list[Document]:
    """Return metadata.managedFields."""
    entries = []
    for manager, held in managers.items():
        entry = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": held.api_version,
            "time": held.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _tree(held.fields),
        }
        if not held.time:
            del entry["time"]
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    entries.sort(key=lambda entry: tuple(str(entry.get(name, "")) for name in _SORTED_BY))
    return entries


def _tree(fields: Fields) -> Document:
    tree: Document = {}
    for path in sorted(fields):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _leaves(tree)


def _leaves(tree: Document) -> Document:
    """Return the tree with a mark only at fields that have fields in them."""
    return {
        name: {} if list(part) == ["."] else _leaves(part) if name != "." else {}
        for name, part in tree.items()
    }
