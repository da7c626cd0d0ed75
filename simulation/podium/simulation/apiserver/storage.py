"""The store: objects by name with one revision counter, the history of each resource, and how both are read.

A stored version is never changed. Its JSON is encoded once, and gets, lists and watches share it.
"""

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.api.selectors import Selector, parse_selector
from podium.simulation.apiserver.managedfields import Managers
from podium.simulation.apiserver.messages import (
    ApiError,
    ApiResponse,
    Document,
    bad_request,
    expired,
    missing,
)
from podium.simulation.apiserver.resources import ResourceRow
from podium.simulation.apiserver.routing import Target

_END = {"k8s.io/initial-events-end": "true"}


class ObjectVersion(NamedTuple):
    """An object in one version: its document with metadata.resourceVersion, and its JSON."""

    document: Document
    body: bytes
    revision: int
    managers: Managers


class Change(NamedTuple):
    """A write: ADDED, MODIFIED or DELETED, the object after it and the one before it."""

    type: str
    key: str
    revision: int
    line: bytes
    document: Document
    before: Document | None


class Selection(NamedTuple):
    """The objects of a list or watch: a namespace, or all, and selectors."""

    namespace: str = ""
    labels: Selector = Selector()
    fields: tuple[tuple[str, str, bool], ...] = ()

    @property
    def whole(self) -> bool:
        """Return whether only the namespace selects."""
        return not (self.labels.requirements or self.fields)

    def selects(self, document: Mapping[str, Any] | None) -> bool:
        """Return whether an object is selected."""
        if document is None:
            return False
        metadata = document["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.whole:
            return True
        return self.labels.matches(metadata.get("labels") or {}) and all(
            (_field(document, path) == value) is equal for path, value, equal in self.fields
        )


def _field(document: Mapping[str, Any], path: str) -> str:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)


class Objects:
    """The objects of one resource, and the changes since the last compaction."""

    def __init__(self, row: ResourceRow) -> None:
        self.row = row
        self.now: dict[str, ObjectVersion] = {}
        self.changes: list[Change] = []
        # The number of changes that were compacted, and the newest revision that is not known any more.
        self.dropped = 0
        self.compacted = 0

    def selected(self, selection: Selection, revision: int) -> Iterator[tuple[str, Document, bytes]]:
        """Yield key, document and JSON of the selected objects at a revision, in order of their keys."""
        objects: dict[str, Any] = dict(self.now)
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            if change.before is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.before
        for key in sorted(objects):
            entry = objects[key]
            if isinstance(entry, ObjectVersion):
                if selection.selects(entry.document):
                    yield key, entry.document, entry.body
            elif selection.selects(entry):
                yield key, entry, msgspec.json.encode(entry)


def object_key(metadata: Mapping[str, Any]) -> str:
    """Return the key of an object among those of its resource."""
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


class ObjectStore:
    """All objects. `changed` are called with each write and its resource."""

    def __init__(self) -> None:
        self.revision = 1
        self.resources: dict[str, Objects] = {}
        self.changed: list[Callable[[str, Change], None]] = []

    def serve(self, row: ResourceRow) -> None:
        """Add a resource, or change its row."""
        held = self.resources.setdefault(row.resource, Objects(row))
        held.row = row

    def find(self, row: ResourceRow, key: str) -> ObjectVersion | None:
        """Return an object as stored now."""
        return self.resources[row.resource].now.get(key)

    def existing(self, row: ResourceRow, key: str) -> ObjectVersion:
        """Return an object as stored now. Raises ApiError (404)."""
        held = self.find(row, key)
        if held is None:
            raise missing(row.resource, key.partition("/")[2])
        return held

    def put(self, row: ResourceRow, document: Document, managers: Managers) -> ObjectVersion:
        """Store an object in its next version."""
        held = self.resources[row.resource]
        key = object_key(document["metadata"])
        before = held.now.get(key)
        version = self._next(document, managers)
        held.now[key] = version
        self._record(held, "MODIFIED" if before else "ADDED", key, version, before)
        return version

    def delete(self, row: ResourceRow, document: Document) -> ObjectVersion:
        """Delete an object, which is then as `document`."""
        held = self.resources[row.resource]
        key = object_key(document["metadata"])
        version = self._next(document, {})
        self._record(held, "DELETED", key, version, held.now.pop(key))
        return version

    def compact(self) -> None:
        """Forget the history, so older watches and continue tokens are expired."""
        for held in self.resources.values():
            held.dropped += len(held.changes)
            held.changes.clear()
            held.compacted = self.revision

    def _next(self, document: Document, managers: Managers) -> ObjectVersion:
        self.revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.revision)}
        stored = {**document, "metadata": metadata}
        return ObjectVersion(stored, msgspec.json.encode(stored), self.revision, managers)

    def _record(
        self, held: Objects, kind: str, key: str, version: ObjectVersion, before: ObjectVersion | None
    ) -> None:
        change = Change(
            kind,
            key,
            version.revision,
            _line(kind, version.body),
            version.document,
            before.document if before else None,
        )
        held.changes.append(change)
        for call in self.changed:
            call(held.row.resource, change)


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


class Watch:
    """A watch of one resource from a revision on, or a streaming list that continues as a watch."""

    def __init__(
        self,
        store: ObjectStore,
        row: ResourceRow,
        version: str,
        selection: Selection,
        *,
        since: int | None = None,
        initial: bool = False,
    ) -> None:
        """`since` is the revision; without it, the watch begins now, after ADDED events of all objects.

        With `initial` a bookmark ends these events.
        """
        held = store.resources[row.resource]
        self.resource = row.resource
        self._store = store
        self._held = held
        self._row = row
        self._version = version
        self._selection = selection
        self._first: list[bytes] = []
        revision = store.revision if since is None else since
        self._expired = since is not None and since < held.compacted
        self._since = revision
        if since is None:
            self._first = [
                self._as(_line("ADDED", body)) for _, _, body in held.selected(selection, revision)
            ]
            if initial:
                self._first.append(self._bookmark(revision, _END))
        changes = held.changes
        self._position = held.dropped + bisect_right(changes, revision, key=lambda change: change.revision)
        self._seen = revision

    def take(self, limit: int) -> list[bytes]:
        """Return at most `limit` further lines, each an encoded event."""
        if self._first:
            lines, self._first = self._first[:limit], self._first[limit:]
            return lines
        held = self._held
        if self._expired or self._position < held.dropped:
            self._expired = True
            return [self._expiry()]
        lines = []
        while len(lines) < limit and self._position - held.dropped < len(held.changes):
            change = held.changes[self._position - held.dropped]
            self._position += 1
            self._seen = change.revision
            line = self._seen_as(change)
            if line:
                lines.append(self._as(line))
        return lines

    @property
    def behind(self) -> bool:
        """Return whether `take` has a line, except that selectors may leave it out."""
        return (
            bool(self._first)
            or self._expired
            or self._position < self._held.dropped + len(self._held.changes)
        )

    def bookmark(self) -> bytes:
        """Return a bookmark of the last line that was taken, or of now if none is left."""
        if not self.behind:
            self._seen = self._store.revision
        return self._bookmark(self._seen, {})

    def _seen_as(self, change: Change) -> bytes:
        """Return the line of a change, empty for none: an object may begin or end to be selected."""
        selection = self._selection
        if selection.whole:
            chosen = not selection.namespace or change.key.startswith(f"{selection.namespace}/")
            return change.line if chosen else b""
        was, now = selection.selects(change.before), selection.selects(change.document)
        if change.type == "DELETED":
            return change.line if was else b""
        if now:
            return change.line if was or change.type == "ADDED" else _line("ADDED", _body(change.document))
        return _line("DELETED", _body(_at(change))) if was else b""

    def _as(self, line: bytes) -> bytes:
        return served_as(self._row, self._version, line)

    def _bookmark(self, revision: int, annotations: Mapping[str, str]) -> bytes:
        metadata: Document = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        document = {
            "kind": self._row.kind,
            "apiVersion": self._row.api_version(self._version),
            "metadata": metadata,
        }
        return _line("BOOKMARK", msgspec.json.encode(document))

    def _expiry(self) -> bytes:
        error = expired(f"too old resource version: {self._since} ({self._held.compacted})")
        return _line("ERROR", msgspec.json.encode(error.status()))


def _at(change: Change) -> Document:
    """Return the object before a change, with the version of the change."""
    assert change.before is not None
    return {
        **change.before,
        "metadata": {**change.before["metadata"], "resourceVersion": str(change.revision)},
    }


def _body(document: Document) -> bytes:
    return msgspec.json.encode(document)


def served_as(row: ResourceRow, version: str, text: bytes) -> bytes:
    """Return the JSON of stored objects, or of an event, in a served version: they have one form."""
    if version == row.stored:
        return text
    return text.replace(_head(row, row.stored), _head(row, version), 1)


def _head(row: ResourceRow, version: str) -> bytes:
    return b'{"apiVersion":"%s","kind":"%s"' % (row.api_version(version).encode(), row.kind.encode())


# Gets, lists and watches: selectors, pages at one revision, and streaming lists.

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


def read(store: ObjectStore, target: Target) -> ApiResponse | Watch:
    """Return the answer to a get or a list, or the watch. Raises ApiError."""
    row, query = target.row, target.request.query
    if target.name:
        held = store.existing(target.row, target.place)
        return ApiResponse(200, served_as(row, target.version, held.body))
    labels = query.get("labelSelector", "")
    try:
        selection = Selection(
            target.namespace, parse_selector(labels), _fields(query.get("fieldSelector", ""))
        )
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    given = query.get("resourceVersion", "")
    if not given.isdecimal() and given:
        raise bad_request(
            f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax'
        )
    if query.get("watch") in ("1", "true"):
        return _watch(store, target, selection, int(given or 0))
    return _list(store, target, selection, int(given or 0))


def _watch(store: ObjectStore, target: Target, selection: Selection, revision: int) -> Watch:
    initial = target.request.query.get("sendInitialEvents") == "true"
    since = None if initial or not revision else revision
    return Watch(store, target.row, target.version, selection, since=since, initial=initial)


def _list(store: ObjectStore, target: Target, selection: Selection, wanted: int) -> ApiResponse:
    row, query = target.row, target.request.query
    if wanted > store.revision:
        text = f"Too large resource version: {wanted}, current: {store.revision}"
        raise ApiError(504, "Timeout", f"Timeout: {text}", retry_seconds=1)
    revision, start = store.revision, ""
    if token := query.get("continue"):
        revision, start = _position(token)
    elif query.get("resourceVersionMatch") == "Exact":
        revision = wanted
    held = store.resources[row.resource]
    if revision < held.compacted:
        raise expired(_TOO_OLD if start else "The resourceVersion for the provided list is too old.")
    chosen = [entry for entry in held.selected(selection, revision) if entry[0] > start]
    limit = int(query.get("limit") or 0)
    metadata: Document = {"resourceVersion": str(revision)}
    if limit and len(chosen) > limit:
        metadata["continue"] = _token(revision, chosen[limit - 1][0])
        if selection.whole:
            metadata["remainingItemCount"] = len(chosen) - limit
        chosen = chosen[:limit]
    api_version = row.api_version(target.version)
    head = msgspec.json.encode({"kind": f"{row.kind}List", "apiVersion": api_version, "metadata": metadata})
    items = b",".join(served_as(row, target.version, body) for _, _, body in chosen)
    return ApiResponse(200, b'%s,"items":[%s]}' % (head[:-1], items))


def _fields(text: str) -> tuple[tuple[str, str, bool], ...]:
    """Return the requirements of a field selector: path, value, and whether they must be equal."""
    requirements = []
    for part in filter(None, text.split(",")):
        path, sign, value = part.partition("!=") if "!=" in part else part.replace("==", "=").partition("=")
        requirements.append((path, value, sign != "!="))
    return tuple(requirements)


def _token(revision: int, key: str) -> str:
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(text).decode()


def _position(token: str) -> tuple[int, str]:
    try:
        held = jsontext.parse(base64.urlsafe_b64decode(token), dict[str, Any])
        return held["rv"], held["start"]
    except (ValueError, KeyError):
        raise bad_request("continue key is not valid") from None
