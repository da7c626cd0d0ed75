"""Split input into Kubernetes objects: JSON or YAML, one or many, Lists, gzip.

A dump of a large cluster is one List of nearly a gigabyte, so nothing is decoded before it is needed. An item
is a slice of the file, and its kind comes from its first bytes. `read` decodes the slice directly into the
Struct with the needed fields.

Unreadable input raises a ReadError, one line with file, document, line and field; no other exception escapes.
For two equal keys JSON uses the last, as the API server does; YAML refuses them (`podium.documents.yamldoc`).
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.documents import jsondoc, textfile, yamldoc
from podium.documents.document import (
    TYPE_NAMES,
    Document,
    DocumentPlace,
    NoObjectError,
    Origin,
    ReadError,
    TemplateError,
    in_json_words,
)

MAX_NESTED_LISTS = 16

# kubectl and the API server write apiVersion and kind first.
_HEADER = re.compile(
    rb'[ \t\r\n]*\{[ \t\r\n]*"apiVersion"[ \t\r\n]*:[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*,'
    rb'[ \t\r\n]*"kind"[ \t\r\n]*:[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*[,}]'
)
# The placeholder of Helm and similar tools, outside of quotes and comments. In YAML it is a mapping as the
# key of another mapping, which kubectl never accepts.
_TEMPLATE = re.compile(rb"^[^\"'#\n]*\{[{%]", re.MULTILINE)
RENDER = "looks like a template ({{ ... }}), not YAML. Render it first, for example with `helm template`"
# The first line of `kubectl get` without -o or with `-o name`.
_TABLE = re.compile(
    rb"(?:NAMESPACE +)?(?:NAME|LAST SEEN) +[A-Z]|No resources found|[a-z][a-z0-9.]*/[a-z0-9][a-z0-9.-]*\s"
)
_TABLE_HINT = "; this is a table or list of kubectl, so use kubectl get -o yaml"
_NAMELESS = "is missing or not a string; this is not a Kubernetes object"
# Receives each document of a file that is not an object; without one such a document ends the reading.
Skip = Callable[[NoObjectError], None]


class _Head(NamedTuple):
    """A node's JSON type, apiVersion and kind, and its items if it has a list (null is an empty list)."""

    type: str
    apiVersion: object = None
    kind: object = None
    items: list[Any] | None = None


class _Top(msgspec.Struct, gc=False):
    """The fields that identify a JSON object."""

    apiVersion: str | None = None
    kind: str | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _AnyTop(msgspec.Struct, gc=False):
    """The same for wrong types, or if `items` is a field of the object itself."""

    apiVersion: msgspec.Raw = msgspec.Raw(b"null")
    kind: msgspec.Raw = msgspec.Raw(b"null")


def split(
    data: bytes | bytearray | memoryview, file: str, skip: Skip | None = None, *, live: bool = False
) -> Iterator[Document]:
    """Yield the objects in a file's bytes, Lists flattened; `file` is its name in errors.

    An empty YAML document is counted as a document and yields nothing. For a file of a folder `skip` receives
    the documents that are not objects. `live` is for the answer of an API server. Raises ReadError, possibly
    after some documents.
    """
    try:
        text = textfile.expand(data)
    except textfile.TextError as error:
        raise ReadError(file, error.problem, line=error.line) from None
    for section in textfile.sections(text):
        if section.yaml:
            yield from _yaml_objects(file, text, section, skip)
        else:
            place = DocumentPlace(file, text, section.number, skip is not None, live)
            yield from _json_objects(place, section, skip)


def _tolerant(documents: Iterator[Document], skip: Skip | None) -> Iterator[Document]:
    """Yield the documents until a node is no object; `skip` receives that error, or it is raised."""
    try:
        yield from documents
    except NoObjectError as error:
        if skip is None:
            raise
        skip(error)


def _json_objects(place: DocumentPlace, section: textfile.Section, skip: Skip | None) -> Iterator[Document]:
    view = place.text[section.start :]
    try:
        head, length = _json_head(view)
    except jsondoc.JsonError as error:
        line = textfile.line_breaks(place.text, section.start + error.offset) + 1
        raise ReadError(Origin(place.file, place.number), error.problem, line=line) from None
    section.end = section.start + length
    yield from _tolerant(_flatten(place, (), msgspec.Raw(view[:length]), head, None), skip)


def _yaml_objects(
    file: str, text: memoryview, section: textfile.Section, skip: Skip | None
) -> Iterator[Document]:
    number = section.number
    try:
        for value in yamldoc.load_all(bytes(text[section.start :])):
            if value is not None:
                place = DocumentPlace(file, text, number, skip is not None)
                yield from _tolerant(_flatten(place, (), value, _value_head(value), None), skip)
            number += 1
    except yamldoc.YamlError as error:
        line = textfile.line_breaks(text, section.start) + error.line if error.line else None
        if _TEMPLATE.search(text, section.start):
            raise TemplateError(Origin(file, number), RENDER, line=line) from None
        raise ReadError(Origin(file, number), f"malformed YAML: {error.problem}", line=line) from None


def _flatten(
    place: DocumentPlace, items: tuple[int, ...], node: Any, head: _Head, inherited: tuple[str, str] | None
) -> Iterator[Document]:
    """Yield the object at a node, or the objects in it if it is a List."""
    if head.type != "object":
        hint = _TABLE_HINT if _TABLE.match(place.text) else _hint(items, head)
        raise place.no_object(items, f"expected a Kubernetes object, got {head.type}{hint}")
    api_version, kind = head.apiVersion, head.kind
    inherits = inherited is not None and (api_version is None or kind is None)
    if inherited is not None:
        api_version = inherited[0] if api_version is None else api_version
        kind = inherited[1] if kind is None else kind
    if not isinstance(api_version, str) or not api_version:
        raise place.no_object(items, _NAMELESS, "apiVersion")
    if not isinstance(kind, str) or not kind:
        raise place.no_object(items, _NAMELESS, "kind")
    if not head.items or not kind.endswith("List"):
        yield Document(api_version, kind, place, items, node, inherits)
        return
    if len(items) == MAX_NESTED_LISTS:
        raise place.error(items, f"Lists nested more than {MAX_NESTED_LISTS} deep")
    element = None if kind == "List" else (api_version, kind.removesuffix("List"))
    for index, item in enumerate(head.items):
        here = (*items, index)
        yield from _flatten(place, here, item, _head(place, here, item), element)


def _head(place: DocumentPlace, items: tuple[int, ...], node: Any) -> _Head:
    if not isinstance(node, msgspec.Raw):
        return _value_head(node)
    header = _HEADER.match(node)
    if header is not None and not header[2].endswith(b"List"):
        return _names(header[1], header[2])
    try:
        return _json_head(memoryview(node))[0]
    except jsondoc.JsonError as error:
        raise place.error(items, error.problem) from None


@functools.lru_cache(maxsize=1024)
def _names(api_version: bytes, kind: bytes) -> _Head:
    return _Head("object", api_version.decode(), kind.decode())


def _json_head(view: memoryview) -> tuple[_Head, int]:
    """Return the head of the value at the start of a text, and its end. Raises JsonError."""
    top, length = None, len(view)
    try:
        top = jsontext.parse(view, _Top)
    except msgspec.ValidationError:
        length = jsondoc.end_of_value(view, 0)
    except msgspec.DecodeError as error:
        length = jsondoc.trailing(error, view, 0)
        top = jsontext.parse(view[:length], _Top)
    if top is not None:
        items = None if isinstance(top.items, msgspec.UnsetType) else top.items or []
        return _Head("object", top.apiVersion, top.kind, items), length
    try:
        loose = jsontext.parse(view[:length], _AnyTop)
    except msgspec.ValidationError as error:
        return _Head(in_json_words(str(error)).rpartition("got ")[2]), length
    return _Head("object", _text_or_raw(loose.apiVersion), _text_or_raw(loose.kind)), length


def _text_or_raw(raw: msgspec.Raw) -> object:
    """Return a text or null as itself, and any other value as its JSON."""
    return jsontext.parse(raw, str | None) if bytes(memoryview(raw)[:1]) in (b'"', b"n") else raw


def _value_head(value: Any) -> _Head:
    if not isinstance(value, dict):
        return _Head(next((name for name, kind in TYPE_NAMES.values() if type(value) is kind), "nothing"))
    items = value.get("items", ()) or []
    return _Head(
        "object", value.get("apiVersion"), value.get("kind"), items if isinstance(items, list) else None
    )


def _hint(items: tuple[int, ...], head: _Head) -> str:
    if items or head.type != "list":
        return ""
    return '; write it as {"apiVersion": "v1", "kind": "List", "items": [...]}'
