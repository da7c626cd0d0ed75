"""An object of the input that is not decoded yet, its place, and the errors that name the place.

A read decodes the fields that it names. An error has one line with file, document, line and field.
"""

import re
from typing import Any, TypeVar

import msgspec

from podium import jsontext
from podium.api.fieldpath import Path, at, parse_path
from podium.api.inputnotes import SkippedInput, SkipReason
from podium.documents import jsondoc, textfile, yamldoc, yamledit
from podium.documents.yamledit import without_null_entries
from podium.errors import PodiumError

# Line numbers of fields in a file, computed only for reported fields: a dump has millions of lines.

_BLOCK = 1 << 16


class Lines:
    """Line numbers in one text; results of a call (lists, YAML, line counts) are cached for the next."""

    def __init__(self, text: memoryview) -> None:
        self._text = text
        self._walk = jsondoc.Walk(text)
        self._sections: list[textfile.Section] = []
        self._rest = textfile.sections(text)
        self._yaml: dict[int, dict[Path, int]] = {}
        self._breaks: list[int] = []

    def line(self, document: int, field: str = "") -> int | None:
        """Return the 1-based line of a document's field, or of the deepest part of its path that exists."""
        path = parse_path(field)
        try:
            section = self._section(document)
            if section is None:
                return None
            if section.yaml:
                return self._yaml_line(section, document - section.number, path)
            return self._line_at(self._walk.find(section.start, path))
        except (jsondoc.JsonError, yamldoc.YamlError):
            # The text is malformed after or around the field, which its reader has reported.
            return None

    def _section(self, document: int) -> textfile.Section | None:
        known = self._sections
        while not known or (known[-1].number < document and not known[-1].yaml):
            section = next(self._rest, None)
            if section is None:
                return None
            known.append(section)
        # JSON values are numbered from 1 without a gap; a YAML stream is the last section.
        return known[min(document, len(known)) - 1]

    def _yaml_line(self, section: textfile.Section, ordinal: int, path: Path) -> int | None:
        if ordinal not in self._yaml:
            self._yaml[ordinal] = yamldoc.lines(bytes(self._text[section.start :]), ordinal)
        lines = self._yaml[ordinal]
        deepest = next((path[:size] for size in range(len(path), -1, -1) if path[:size] in lines), None)
        return None if deepest is None else self._line_at(section.start) - 1 + lines[deepest]

    def _line_at(self, offset: int) -> int:
        block = offset // _BLOCK
        while len(self._breaks) <= block:
            start = len(self._breaks) * _BLOCK
            before = bytes(self._text[max(0, start - _BLOCK) : start]).count(b"\n")
            self._breaks.append(before + (self._breaks[-1] if self._breaks else 0))
        return self._breaks[block] + bytes(self._text[block * _BLOCK : offset]).count(b"\n") + 1


T = TypeVar("T")
E = TypeVar("E", bound="ReadError")
_AT = re.compile(r"(.*?)(?: - at `(.*?)`)?", re.DOTALL)
# In an error about an entry of a map.
_NULL_ENTRY = "got `null` - at `$."
_GOT = re.compile(r"got `(\w+)`$")
# The type names of msgspec, with their JSON names and Python types.
TYPE_NAMES = {
    "int": ("integer", int),
    "str": ("string", str),
    "bool": ("boolean", bool),
    "float": ("fraction", float),
    "null": ("null", type(None)),
    "array": ("list", list),
    "object": ("object", dict),
}


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


# A value that envsubst and similar tools replace.
_PLACEHOLDER = re.compile(
    rb"^[^\"'#\n]*[:-][ \t]+(\$(?:\{[A-Za-z_]\w*\}|[A-Za-z_]\w*))[ \t]*(?:#.*)?$", re.MULTILINE
)


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


class DocumentPlace(msgspec.Struct, frozen=True, gc=False):
    """A document of a file: the data that its objects share, for errors and lines.

    `found` says that the file was found in a folder, not named by the user. `live` says that it is an answer
    of an API server: what is nested too deeply is left out there, and refused in a file.
    """

    file: str
    text: memoryview
    number: int
    found: bool = False
    live: bool = False

    def error(self, items: tuple[int, ...], problem: str, field: str = "") -> ReadError:
        """Return the error about a field of the object at `items`, or of the document itself."""
        if (placeholder := _PLACEHOLDER.search(self.text)) is not None:
            name = placeholder[1].decode()
            hint = f"looks like a template ({name}). Render it first, for example with `envsubst`"
            return self._error(TemplateError, items, f"{problem}; the file {hint}", field)
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
    place: DocumentPlace
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
        value: dict[str, Any] = without_null_entries(body)
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
            body = self._with_header() if self.inherits else self.body
            value: T = jsontext.parse(body, type, refuses=not self.place.live)
        except msgspec.DecodeError as error:
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

    def _refusal(self, error: msgspec.DecodeError) -> ReadError:
        message = _AT.fullmatch(str(error))
        assert message is not None
        problem, field = message[1], (message[2] or "").removeprefix("$").removeprefix(".")
        got = _GOT.search(problem)
        if got is not None and field.endswith("[...]"):
            field = self._entry(field.removesuffix("[...]"), TYPE_NAMES[got[1]][1])
        return self.error(in_json_words(problem), field)

    def _entry(self, field: str, wrong: type) -> str:
        """Return the path of the mapping's entry with the wrong type; msgspec reports only the mapping."""
        try:
            mapping = at(self.value(), parse_path(field))
        except LookupError:
            # The mapping was built from other fields, as for a Spark driver.
            return field
        return next((f"{field}[{key}]" for key, value in mapping.items() if type(value) is wrong), field)


def in_json_words(problem: str) -> str:
    """Return a message of msgspec with JSON's names of types."""

    def word(name: str) -> str:
        return TYPE_NAMES[name][0] if name in TYPE_NAMES else name

    words = re.sub(r"`([^`]+)`", lambda match: " or ".join(map(word, match[1].split(" | "))), problem)
    return words[:1].lower() + words[1:]
