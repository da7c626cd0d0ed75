"""YAML as kubectl reads it, built from parser events instead of PyYAML's loader.

A manifest must have the same meaning here as in `kubectl apply`. kubectl reads YAML 1.1 through
sigs.k8s.io/yaml (go-yaml v2): `y` and `on` are true, `0777` is octal, `12:30` and a date are text, `1e3` is
the integer 1000, keys that are numbers or booleans become text. PyYAML's safe loader differs in each of these
and expands aliases without limit. This module therefore uses only its scanner and parser (libyaml) and builds
the values itself: no recursion, limited depth, limited aliases, duplicate keys refused.

Two differences from kubectl are intentional. A key that is a fraction is refused (kubectl turns a label key
1.10 into "1.1"). An explicit key has precedence over a merged one (`<<`) in any position.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from podium.api.fieldpath import Path
from podium.jsontext import MAX_DEPTH

# The size that go-yaml lets aliases add to a document before it reports excessive aliasing.
MAX_ALIASED = 400_000

_TAG = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    text: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")))
    for word in words
    for text in (word, word.capitalize(), word.upper())
}
_NOT_FINITE = frozenset(
    sign + word
    for sign, words in (
        ("", (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF")),
        ("+", (".inf", ".Inf", ".INF")),
        ("-", (".inf", ".Inf", ".INF")),
    )
    for word in words
)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
# go-yaml parses the text after a plain 0b as a separate number, including its sign.
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_STRAY_UNDERSCORE = re.compile(r"(?<![0-9])_|_(?![0-9])")
_TAB_INDENT = re.compile(rb" *\t")
_NUMBER_STARTS = frozenset("+-.0123456789")
# Go's encoding/json writes a float below this limit without point or exponent.
_PLAIN_FLOAT_LIMIT = 1e21


class YamlError(Exception):
    """A problem in a YAML text; `line` is 1-based, 0 if unknown."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


class _Merge:
    """The key `<<`; a separate class, because the quoted text "<<" is an ordinary key."""


_MERGE = _Merge()


class _Frame(msgspec.Struct):
    """A mapping or sequence under construction; `size` and `depth` count its nodes with aliases expanded."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    path: Path
    line: int
    size: int = 1
    depth: int = 1
    key: str | _Merge | None = None
    merged: list[dict[str, Any]] = msgspec.field(default_factory=list)


def load_all(text: bytes) -> Iterator[Any]:
    """Yield the value of every document of a YAML stream, None for an empty one.

    Raises YamlError. `text` is valid UTF-8.
    """
    for events in _documents(text):
        yield _Builder(None).build(events)


def lines(text: bytes, ordinal: int) -> dict[Path, int]:
    """Return the 1-based line of every key and list element of one document (0-based ordinal)."""
    for number, events in enumerate(_documents(text)):
        if number == ordinal:
            noted: dict[Path, int] = {}
            _Builder(noted).build(events)
            return noted
        for _ in events:
            pass
    return {}


def _documents(text: bytes) -> Iterator[Iterator[Any]]:
    """Yield the events of each document; a reader must exhaust one document before it asks for the next."""
    import yaml  # noqa: PLC0415 - most input is JSON, and the import costs 20 ms

    parser = events(text)
    for event in parser:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _until_end(yaml, parser)


def events(text: bytes) -> Iterator[Any]:
    """Yield the parser's events of a YAML stream. Raises YamlError."""
    import yaml  # noqa: PLC0415 - as above

    parser_type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        parser = parser_type(text)
        while (event := parser.get_event()) is not None:
            yield event
    except yaml.reader.ReaderError as error:
        line = text.count(b"\n", 0, error.position) + 1 if isinstance(error.position, int) else 0
        raise YamlError(f"{error.reason} (U+{error.character:04X})", line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "cannot be parsed"
        if mark is not None and any(map(_TAB_INDENT.match, text.split(b"\n")[mark.line : mark.line + 1])):
            problem = "a tab indents this line. Use spaces"
        raise YamlError(problem, mark.line + 1 if mark is not None else 0) from None


def _until_end(yaml: Any, parser: Iterator[Any]) -> Iterator[Any]:
    for event in parser:
        if isinstance(event, yaml.DocumentEndEvent):
            return
        yield event


class _Builder:
    """Builds one document's value, and records the line of each field if requested."""

    def __init__(self, lines: dict[Path, int] | None) -> None:
        self._lines = lines
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._aliased = 0
        self._root: Any = None

    def build(self, events: Iterator[Any]) -> Any:
        """Return the value of one document from its events."""
        for event in events:
            line = event.start_mark.line + 1
            match type(event).__name__:
                case "ScalarEvent":
                    self._scalar(event, line)
                case "MappingStartEvent":
                    self._open({}, event, line)
                case "SequenceStartEvent":
                    self._open([], event, line)
                case "AliasEvent":
                    self._alias(event.anchor, line)
                case _:
                    self._close()
        return self._root

    def _scalar(self, event: Any, line: int) -> None:
        frame = self._stack[-1] if self._stack else None
        value = _resolve(event, line)
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            if event.anchor is not None:
                self._anchors[event.anchor] = (value, 1, 0)
            self._key(frame, value, line)
        else:
            self._add(value, 1, 0, event.anchor, line)

    def _key(self, frame: _Frame, value: Any, line: int) -> None:
        key = value if isinstance(value, _Merge) else _key_text(value, line)
        if isinstance(key, str):
            if key in frame.value:
                raise YamlError(f"the key {key!r} is written twice in one mapping", line)
            if self._lines is not None:
                self._lines[*frame.path, key] = line
        frame.key = key

    def _open(self, value: dict[str, Any] | list[Any], event: Any, line: int) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            raise YamlError("a mapping or a list cannot be a key", line)
        if len(self._stack) >= MAX_DEPTH:
            raise YamlError(f"nested more than {MAX_DEPTH} deep", line)
        self._stack.append(_Frame(value, event.anchor, self._here(frame), line))

    def _here(self, frame: _Frame | None) -> Path:
        if frame is None:
            return ()
        if isinstance(frame.value, list):
            return (*frame.path, len(frame.value))
        return (*frame.path, frame.key if isinstance(frame.key, str) else "<<")

    def _close(self) -> None:
        frame = self._stack.pop()
        value = frame.value
        if isinstance(value, dict):
            for source in frame.merged:
                for key, inherited in source.items():
                    value.setdefault(key, inherited)
        self._add(value, frame.size, frame.depth, frame.anchor, frame.line)

    def _alias(self, name: str, line: int) -> None:
        if name not in self._anchors:
            inside = any(frame.anchor == name for frame in self._stack)
            raise YamlError(f"the alias *{name} {'contains itself' if inside else 'has no anchor'}", line)
        value, size, depth = self._anchors[name]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise YamlError("excessive aliasing", line)
        if len(self._stack) + depth > MAX_DEPTH:
            raise YamlError(f"nested more than {MAX_DEPTH} deep", line)
        frame = self._stack[-1]
        if isinstance(frame.value, dict) and frame.key is None:
            self._key(frame, value, line)
        else:
            # A copy, so that a change by a reader in one place does not affect the other.
            self._add(copy.deepcopy(value), size, depth, None, line)

    def _add(self, value: Any, size: int, depth: int, anchor: str | None, line: int) -> None:
        if isinstance(value, _Merge):
            value = "<<"
        if anchor is not None:
            self._anchors[anchor] = (value, size, depth)
        if not self._stack:
            if self._lines is not None:
                self._lines[()] = line
            self._root = value
            return
        frame = self._stack[-1]
        frame.size += size
        frame.depth = max(frame.depth, depth + 1)
        if isinstance(frame.value, list):
            if self._lines is not None:
                self._lines[*frame.path, len(frame.value)] = line
            frame.value.append(value)
        elif isinstance(frame.key, str):
            frame.value[frame.key] = value
            frame.key = None
        else:
            frame.merged.extend(_sources(value, line))
            frame.key = None


def _sources(value: Any, line: int) -> list[dict[str, Any]]:
    """Return the mappings that a merge key names, in order of precedence."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise YamlError("the merge key << needs a mapping or a list of mappings", line)
    return sources


def _key_text(value: Any, line: int) -> str:
    """Return a mapping's key as text, as sigs.k8s.io/yaml does."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            raise YamlError("a key must be text; quote it", line)


def _resolve(event: Any, line: int) -> Any:
    """Return the value of a scalar by its tag, or by its syntax if it is plain and has no tag."""
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        return _plain(text, line) if tag is None and event.implicit[0] else text
    if not tag.startswith(_TAG):
        return text
    kind = tag.removeprefix(_TAG)
    if kind == "merge":
        return _MERGE
    if kind == "binary":
        raise YamlError("!!binary is not supported; write the base64 text without the tag", line)
    if kind not in ("null", "bool", "int", "float"):
        return text
    value = _plain(text, line)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if not fits[kind]:
        raise YamlError(f"{text!r} is not a !!{kind}", line)
    return value


def _plain(text: str, line: int) -> Any:
    if text in _NULLS:
        return None
    boolean = _BOOLEANS.get(text)
    if boolean is not None:
        return boolean
    if text == "<<":
        return _MERGE
    if text[0] not in _NUMBER_STARTS:
        return text
    if text in _NOT_FINITE:
        raise YamlError(f"{text} cannot be written as JSON", line)
    return _number(text)


def _number(text: str) -> int | float | str:
    # go-yaml drops underscores anywhere; if a number starts with its point, only those between digits.
    digits = text if text[0] == "." and _STRAY_UNDERSCORE.search(text) else text.replace("_", "")
    if len(digits) > 400:
        # Longer than any finite float; Python would also refuse such an integer, or take long.
        return text
    if _INTEGER.fullmatch(digits):
        return _integer(digits)
    binary = _SIGNED_BINARY.fullmatch(digits)
    if binary is not None:
        return int(binary[1], 2)
    if not _FLOAT.fullmatch(digits):
        return text
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        return text
    return int(value) if value.is_integer() and abs(value) < _PLAIN_FLOAT_LIMIT else value


def _integer(digits: str) -> int:
    sign = -1 if digits.startswith("-") else 1
    bare = digits.lstrip("+-")
    if len(bare) > 1 and bare[0] == "0" and bare[1] in "01234567":
        return sign * int(bare, 8)
    return sign * int(bare, 0)
