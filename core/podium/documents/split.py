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
from typing import Any, NamedTuple, TypeVar

import msgspec

from podium.api.fieldpath import at, parse_path
from podium.api.inputnotes import SkippedInput, SkipReason
from podium.documents import jsondoc, textfile, yamldoc, yamledit
from podium.documents.lines import Lines
from podium.documents.nulls import without_null_entries
from podium.errors import PodiumError

T = TypeVar("T")
E = TypeVar("E", bound="ReadError")

MAX_NESTED_LISTS = 16

# kubectl and the API server write apiVersion and kind first.
_HEADER = re.compile(
    rb'[ \t\r\n]*\{[ \t\r\n]*"apiVersion"[ \t\r\n]*:[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*,'
    rb'[ \t\r\n]*"kind"[ \t\r\n]*:[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*[,}]'
)
_AT = re.compile(r"(.*?)(?: - at `(.*?)`)?", re.DOTALL)
# In an error about an entry of a map.
_NULL_ENTRY = "got `null` - at `$."
_GOT = re.compile(r"got `(\w+)`$")
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
# The type names of msgspec, with their JSON names and Python types.
_NAMES = {
    "int": ("integer", int),
    "str": ("string", str),
    "bool": ("boolean", bool),
    "float": ("fraction", float),
    "null": ("null", type(None)),
    "array": ("list", list),
    "object": ("object", dict),
}


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The place of a document: file as given or `<stdin>`, 1-based document, path in its List."""

    file: str
    document: int
    item: str = ""

    def __str__(self) -> str:
        """Return the place in words: `cluster.json, document 1, items[17]`."""
        place = f"{self.file}, document {self.document}"
        return f"{place}, {self.item}" if self.item else place

    def path(self, field: str) -> str:
        """Return the path of one of its fields from the document's root: `items[17].spec.priority`."""
        return f"{self.item}.{field}" if self.item and field else self.item or field


class ReadError(PodiumError):
    """Input that cannot be read: one line with file, document, line, field and problem.

    `reason` is the reason for which a file of a folder is skipped then.
    """

    reason = SkipReason.UNREADABLE

    def __init__(
        self, where: Origin | str, problem: str, *, field: str = "", line: int | None = None
    ) -> None:
        place = f"{where}, line {line}" if line else str(where)
        text = f"{place}: {field}: {problem}" if field else f"{place}: {problem}"
        # The message is one line for any input: a key may contain a line break.
        super().__init__("".join(char if char.isprintable() else ascii(char)[1:-1] for char in text))
        self._where = str(where)

    def skipped(self) -> SkippedInput:
        """Return the note on the skipped place."""
        return SkippedInput(self._where, self.reason, str(self))


class NoObjectError(ReadError):
    """A document that is not a Kubernetes object, such as the values of a chart."""

    reason = SkipReason.NO_OBJECT


class TemplateError(ReadError):
    """A file that must be rendered to become YAML."""

    reason = SkipReason.TEMPLATE


# Receives each document of a file that is not an object; without one such a document ends the reading.
Skip = Callable[[NoObjectError], None]


class _DocumentPlace(msgspec.Struct, frozen=True, gc=False):
    """A document of a file: the data that its objects share, for errors and lines.

    `found` says that the file was found in a folder, not named by the user.
    """

    file: str
    text: memoryview
    number: int
    found: bool = False

    def error(self, items: tuple[int, ...], problem: str, field: str = "") -> ReadError:
        """Return the error about a field of the object at `items`, or of the document itself."""
        return self._error(ReadError, items, problem, field)

    def no_object(self, items: tuple[int, ...], problem: str, field: str = "") -> NoObjectError:
        """Return the error about a node that is not a Kubernetes object."""
        return self._error(NoObjectError, items, problem, field)

    def _error(self, error: type[E], items: tuple[int, ...], problem: str, field: str) -> E:
        origin = self.origin(items)
        line = Lines(self.text).line(self.number, origin.path(field))
        return error(origin, problem, field=field, line=line)

    def origin(self, items: tuple[int, ...]) -> Origin:
        """Return the origin of the object at `items`."""
        return Origin(self.file, self.number, ".".join(f"items[{index}]" for index in items))


class Document(msgspec.Struct, gc=False):
    """An object of the input, not yet decoded. A List without items is a document itself: it was listed.

    `items` are its indices in the List, and in nested Lists. An item of a typed List without apiVersion and
    kind `inherits` them from the List.
    """

    apiVersion: str
    kind: str
    place: _DocumentPlace
    items: tuple[int, ...]
    body: msgspec.Raw | dict[str, Any]
    inherits: bool

    @property
    def found(self) -> bool:
        """Return whether the file was found in a folder, not named by the user."""
        return self.place.found

    @property
    def origin(self) -> Origin:
        """Return the place of the document."""
        return self.place.origin(self.items)

    def value(self) -> dict[str, Any]:
        """Return the whole decoded document, untyped, without null entries in maps. Raises ReadError."""
        if not isinstance(self.body, dict):
            body = self.read(dict[str, Any])
        elif self.inherits:
            body = {**self.body, "apiVersion": self.apiVersion, "kind": self.kind}
        else:
            body = self.body
        try:
            value: dict[str, Any] = without_null_entries(body)
        except RecursionError as error:
            raise self._refusal(error) from None
        return value

    def text(self) -> str | None:
        """Return the YAML text of the document, and of its whole List if it is in one; None if it is JSON."""
        if not isinstance(self.body, dict):
            return None
        try:
            return yamledit.texts(bytes(self.place.text))[self.place.number - 1]
        except (yamldoc.YamlError, IndexError):
            # JSON and YAML in one file.
            return None

    def read(self, type: type[T]) -> T:  # noqa: A002 - reads well at the call
        """Return the fields that `type` names. Raises ReadError with the field that does not fit."""
        try:
            if isinstance(self.body, dict):
                return msgspec.convert(self.value(), type)
            value: T = _decoder(type).decode(self._with_header() if self.inherits else self.body)
        except (msgspec.DecodeError, RecursionError) as error:
            if _NULL_ENTRY in str(error) and not isinstance(self.body, dict):
                return self._from_value(type)
            raise self._refusal(error) from None
        return value

    def _from_value(self, type: type[T]) -> T:  # noqa: A002 - as above
        """Return the fields that `type` names, of a JSON document that has null entries in its maps."""
        try:
            return msgspec.convert(self.value(), type)
        except msgspec.ValidationError as error:
            raise self._refusal(error) from None

    def error(self, problem: str, field: str = "") -> ReadError:
        """Return an error with the place of this document and the line of one of its fields."""
        return self.place.error(self.items, problem, field)

    def _with_header(self) -> bytes:
        header = msgspec.json.encode({"apiVersion": self.apiVersion, "kind": self.kind})
        assert isinstance(self.body, msgspec.Raw)
        rest = bytes(memoryview(self.body)).lstrip()[1:].lstrip()
        return header[:-1] + (rest if rest.startswith(b"}") else b"," + rest)

    def _refusal(self, error: Exception) -> ReadError:
        if isinstance(error, RecursionError):
            return self.error("nested too deeply")
        message = _AT.fullmatch(str(error))
        assert message is not None
        problem, field = message[1], (message[2] or "").removeprefix("$").removeprefix(".")
        got = _GOT.search(problem)
        if got is not None and field.endswith("[...]"):
            field = self._entry(field.removesuffix("[...]"), _NAMES[got[1]][1])
        return self.error(in_json_words(problem), field)

    def _entry(self, field: str, wrong: type) -> str:
        """Return the path of the mapping's entry with the wrong type; msgspec reports only the mapping."""
        try:
            mapping = at(self.value(), parse_path(field))
        except LookupError:
            # The mapping was built from other fields, as for a Spark driver.
            return field
        return next((f"{field}[{key}]" for key, value in mapping.items() if type(value) is wrong), field)


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

    apiVersion: object = None
    kind: object = None


def split(data: bytes | bytearray | memoryview, file: str, skip: Skip | None = None) -> Iterator[Document]:
    """Yield the objects in a file's bytes, Lists flattened; `file` is its name in errors.

    An empty YAML document is counted as a document and yields nothing. For a file of a folder `skip` receives
    the documents that are not objects. Raises ReadError, possibly after some documents.
    """
    try:
        text = textfile.expand(data)
    except textfile.TextError as error:
        raise ReadError(file, error.problem, line=error.line) from None
    for section in textfile.sections(text):
        if section.yaml:
            yield from _yaml_objects(file, text, section, skip)
        else:
            yield from _json_objects(
                _DocumentPlace(file, text, section.number, skip is not None), section, skip
            )


def _tolerant(documents: Iterator[Document], skip: Skip | None) -> Iterator[Document]:
    """Yield the documents until a node is no object; `skip` receives that error, or it is raised."""
    try:
        yield from documents
    except NoObjectError as error:
        if skip is None:
            raise
        skip(error)


def _json_objects(place: _DocumentPlace, section: textfile.Section, skip: Skip | None) -> Iterator[Document]:
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
                place = _DocumentPlace(file, text, number, skip is not None)
                yield from _tolerant(_flatten(place, (), value, _value_head(value), None), skip)
            number += 1
    except yamldoc.YamlError as error:
        line = textfile.line_breaks(text, section.start) + error.line if error.line else None
        if _TEMPLATE.search(text, section.start):
            raise TemplateError(Origin(file, number), RENDER, line=line) from None
        raise ReadError(Origin(file, number), f"malformed YAML: {error.problem}", line=line) from None


def _flatten(
    place: _DocumentPlace, items: tuple[int, ...], node: Any, head: _Head, inherited: tuple[str, str] | None
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


def _head(place: _DocumentPlace, items: tuple[int, ...], node: Any) -> _Head:
    if not isinstance(node, msgspec.Raw):
        return _value_head(node)
    found = _HEADER.match(node)
    if found is not None and not found[2].endswith(b"List"):
        return _names(found[1], found[2])
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
        top = _decoder(_Top).decode(view)
    except msgspec.ValidationError:
        length = jsondoc.end_of_value(view, 0)
    except (msgspec.DecodeError, RecursionError) as error:
        length = jsondoc.trailing(error, view, 0)
        top = _decoder(_Top).decode(view[:length])
    if top is not None:
        items = None if isinstance(top.items, msgspec.UnsetType) else top.items or []
        return _Head("object", top.apiVersion, top.kind, items), length
    try:
        loose = _decoder(_AnyTop).decode(view[:length])
    except msgspec.ValidationError as error:
        return _Head(in_json_words(str(error)).rpartition("got ")[2]), length
    return _Head("object", loose.apiVersion, loose.kind), length


def _value_head(value: Any) -> _Head:
    if not isinstance(value, dict):
        return _Head(next((name for name, kind in _NAMES.values() if type(value) is kind), "nothing"))
    items = value.get("items", ()) or []
    return _Head(
        "object", value.get("apiVersion"), value.get("kind"), items if isinstance(items, list) else None
    )


def _hint(items: tuple[int, ...], head: _Head) -> str:
    if items or head.type != "list":
        return ""
    return '; write it as {"apiVersion": "v1", "kind": "List", "items": [...]}'


def in_json_words(problem: str) -> str:
    """Return a message of msgspec with JSON's names of types."""

    def word(name: str) -> str:
        return _NAMES[name][0] if name in _NAMES else name

    words = re.sub(r"`([^`]+)`", lambda found: " or ".join(map(word, found[1].split(" | "))), problem)
    return words[:1].lower() + words[1:]


def _decoder(type: Any) -> msgspec.json.Decoder[Any]:  # noqa: A002
    decoder = _DECODERS.get(type)
    if decoder is None:
        decoder = _DECODERS[type] = msgspec.json.Decoder(type)
    return decoder
