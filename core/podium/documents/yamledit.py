"""Change values in YAML text and keep all else: comments, order, quotes and block scalars.

A person reviews a converted manifest in Git, so only the lines that change may differ. The text is edited at
the places that the parser reports, and the result is read again. A text whose edit does not give exactly the
wanted value is left to the writer.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from podium.documents import yamldoc
from podium.documents.yamlwriter import dump_all

_COMMENT = re.compile(r"(?:^|\s)#")


class _Edit(NamedTuple):
    """Replace the characters from `start` to `end`."""

    start: int
    end: int
    text: str


class _NotInPlaceError(Exception):
    """The text has no place of its own for the change, as in an alias."""


@functools.lru_cache(maxsize=1)
def texts(stream: bytes) -> tuple[str, ...]:
    """Return the text of each document of a YAML stream, without separators. Raises YamlError."""
    import yaml  # noqa: PLC0415 - most input is JSON, and the import costs 20 ms

    whole = stream.decode()
    starts: list[tuple[int, int]] = []
    for event in yamldoc.events(stream):
        if type(event) is yaml.DocumentStartEvent:
            mark: Any = event.end_mark if event.explicit else None
            begin = mark.index - len("---") if mark is not None else 0
            starts.append((begin, mark.index if mark is not None else 0))
    ends = [*(begin for begin, _ in starts[1:]), len(whole)]
    bodies = []
    for number, ((begin, after), end) in enumerate(zip(starts, ends, strict=True)):
        # Comments above the first separator belong to the first document.
        head = whole[:begin] if number == 0 else ""
        body = whole[after:end].removeprefix("\r\n").removeprefix("\n")
        bodies.append(f"{head}{body}".removesuffix("...\n"))
    return tuple(bodies)


def line_break(text: str) -> str:
    """Return the line break of a text: of Windows, or of Unix."""
    return "\r\n" if "\r\n" in text else "\n"


def has_comments(text: str) -> bool:
    """Return whether a text seems to have comments; a `#` in quotes or in a block counts too."""
    return _COMMENT.search(text) is not None


def edited(text: str, old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Return the text of a document with value `old` changed to `new`, or None if that is not possible.

    The values have no null entries in maps, and the text may.
    """
    import yaml  # noqa: PLC0415 - as above

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    newline = line_break(text)
    try:
        root = yaml.compose(text, loader)
        for edit in sorted(_Differ(text).edits(root, old, new), reverse=True):
            text = text[: edit.start] + edit.text.replace("\n", newline) + text[edit.end :]
        (reread,) = yamldoc.load_all(text.encode())
    except (_NotInPlaceError, yaml.YAMLError, yamldoc.YamlError, ValueError):
        return None
    return text if without_null_entries(reread) == new else None


class _Differ:
    """Finds the edits between two values of one document's nodes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def edits(self, node: Any, old: Any, new: Any) -> Iterator[_Edit]:
        """Yield the edits of a node. Raises _NotInPlaceError if its parent must be changed instead."""
        if old == new:
            return
        if node.id == "mapping" and isinstance(old, dict) and isinstance(new, dict) and old and new:
            if node.flow_style:
                yield _Edit(node.start_mark.index, node.end_mark.index, _flow(new))
            else:
                yield from self._mapping(node, old, new)
        elif node.id == "sequence" and isinstance(new, list) and len(node.value) == len(new) == len(old):
            for inner, before, after in zip(node.value, old, new, strict=True):
                yield from self.edits(inner, before, after)
        elif node.id == "scalar" and node.style not in ("|", ">") and _is_scalar(new):
            yield _Edit(node.start_mark.index, node.end_mark.index, _block(new).rstrip("\n"))
        else:
            raise _NotInPlaceError

    def _mapping(self, node: Any, old: dict[str, Any], new: dict[str, Any]) -> Iterator[_Edit]:
        entries = {key.value: (key, value) for key, value in node.value}
        if entries.keys() != old.keys():
            raise _NotInPlaceError
        added = {key: value for key, value in new.items() if key not in old}
        indent = " " * node.start_mark.column
        for name, (key, value) in entries.items():
            if name not in new:
                yield self._entry(key, value, "")
                continue
            try:
                yield from list(self.edits(value, old[name], new[name]))
            except _NotInPlaceError:
                yield self._entry(key, value, _indented({name: new[name]}, indent))
        if added:
            end = self._lines[self._end_line(node)]
            yield _Edit(end, end, _indented(added, indent))

    def _entry(self, key: Any, value: Any, text: str) -> _Edit:
        """Return the edit that replaces the lines of an entry, which must begin its line."""
        line = key.start_mark.line
        if self._text[self._lines[line] : key.start_mark.index].strip():
            raise _NotInPlaceError
        return _Edit(self._lines[line], self._lines[self._end_line(value)], text)

    def _end_line(self, node: Any) -> int:
        """Return the line after the last one of a node, without comments that follow."""
        if node.id != "scalar" and not node.flow_style and node.value:
            last = node.value[-1]
            return self._end_line(last[1] if node.id == "mapping" else last)
        mark = node.end_mark
        return int(mark.line) + (1 if mark.column or node.style not in ("|", ">") else 0)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _block(value: Any) -> str:
    return dump_all([value]).removesuffix("...\n")


def _indented(entries: dict[str, Any], indent: str) -> str:
    return "".join(f"{indent}{line}" for line in _block(entries).splitlines(keepends=True))


def _flow(value: Any) -> str:
    """Return a value in flow style, in the writer's spelling of scalars."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_flow(key)}: {_flow(item)}' for key, item in value.items())}}}"
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case _:
            return _block(value).rstrip("\n")


# Null entries of maps, read as the API server reads them: an empty text, or the quantity 0.
#
# Authors leave them behind (`nvidia.com/gpu:` without a number), and templates write them for values that
# are not set. Go's decoder gives such an entry the zero value of its map. The Structs read a null field as
# absent.


# The maps of text and of quantities in the kinds that are read, by the name of their field.
_ZEROS: dict[str, str] = {
    **dict.fromkeys(("labels", "annotations", "matchLabels", "nodeSelector"), ""),
    **dict.fromkeys(("requests", "limits", "overhead", "capacity", "allocatable"), "0"),
}


def without_null_entries(value: Any) -> Any:
    """Return a value with zeros for the null entries of its maps; the same value if it has none."""
    if isinstance(value, list):
        items = [without_null_entries(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    fields = {key: _entries(key, without_null_entries(entry)) for key, entry in value.items()}
    return fields if any(fields[key] is not entry for key, entry in value.items()) else value


def _entries(field: Any, value: Any) -> Any:
    """Return the value of a field, in which no entry is null if the field is a map."""
    zero = _ZEROS.get(field) if isinstance(field, str) else None
    if zero is None or not isinstance(value, dict) or None not in value.values():
        return value
    return {key: zero if entry is None else entry for key, entry in value.items()}
