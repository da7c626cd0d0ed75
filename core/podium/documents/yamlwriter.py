"""YAML of reports, manifests and differences: JSON values in block style, written by PyYAML's emitter.

Values go to the emitter as events. PyYAML's own `dump` takes seven times as long, because it resolves each
scalar by regular expressions. It also writes text without quotes that kubectl reads as another type (`y`,
`1e3`).
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from podium.text import visible_lines

_WIDTH = 110
# Text that a YAML reader, 1.1 or 1.2, may read as null, a boolean, a number, a date or a merge key.
_NOT_TEXT = re.compile(
    r"(?:|true|false|yes|no|on|off|null|y|n|~|<<|=|[-+]?\.(?:inf|nan)|[-+._]*[0-9][0-9a-fox_.:tz+ -]*)",
    re.IGNORECASE,
)
# Text of several lines that a block scalar holds as it is: no line ends in a space, and the first one begins
# with none.
_BLOCK = re.compile(r"[^ \n](?:[^\n]*[^ \n])?(?:\n+ *[^ \n](?:[^\n]*[^ \n])?)*\n?")
# Characters that the emitter writes unchanged inside quotes, but readers fold or terminals obey.
_UNPRINTABLE = re.compile("[^\x20-\x7e\u00a1-\u1fff\u2100-\ud7ff\uf900-\ufdff]")


def dump_all(documents: Iterable[Any]) -> str:
    """Return JSON values as one YAML stream; the keys keep their order, and readers get the same values."""
    import yaml  # noqa: PLC0415 - most output is no YAML, and the import costs 20 ms

    values = list(documents)
    events: list[Any] = [yaml.StreamStartEvent()]
    add = _events(yaml, events.append)
    for value in values:
        events.append(yaml.DocumentStartEvent(explicit=False))
        add(value)
        events.append(yaml.DocumentEndEvent(explicit=False))
    events.append(yaml.StreamEndEvent())
    printable = not _UNPRINTABLE.search(msgspec.json.encode(values).decode())
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.emit(events, Dumper=dumper, width=_WIDTH, allow_unicode=printable)
    return visible_lines(text)


def _events(yaml: Any, append: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function that appends the events of one value."""
    # The emitter changes no event, so one event serves many places.
    mapping = yaml.MappingStartEvent(None, None, True, flow_style=False)
    mapping_end = yaml.MappingEndEvent()
    sequence = yaml.SequenceStartEvent(None, None, True, flow_style=False)
    sequence_end = yaml.SequenceEndEvent()

    @functools.lru_cache(maxsize=4096)
    def text(value: str) -> Any:
        plain = not _NOT_TEXT.fullmatch(value)
        # Only double quotes have escapes.
        style = _style(value) if visible_lines(value) == value else '"'
        return yaml.ScalarEvent(None, None, (plain, True), value, style=style)

    def add(value: Any) -> None:
        if isinstance(value, str):
            append(text(value))
        elif isinstance(value, dict):
            append(mapping)
            for key, inner in value.items():
                append(text(key))
                add(inner)
            append(mapping_end)
        elif isinstance(value, list | tuple):
            append(sequence)
            for inner in value:
                add(inner)
            append(sequence_end)
        else:
            append(yaml.ScalarEvent(None, None, (True, False), _literal(value)))

    return add


def _style(text: str) -> str | None:
    """Return the style of a text: the emitter's choice for one line, else a block if all readers keep it."""
    if "\n" not in text:
        return None
    return "|" if _BLOCK.fullmatch(text) and not _UNPRINTABLE.search(text.replace("\n", "")) else '"'


def _literal(value: float | bool | None) -> str:
    """Return a number, a boolean or null; in YAML 1.1 `1e16` is text, because a float needs a point."""
    if isinstance(value, float):
        written = repr(value)
        return written if "." in written else written.replace("e", ".0e")
    return msgspec.json.encode(value).decode()
