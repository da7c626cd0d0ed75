"""Texts of values as Go's fmt and strconv write them, and the names of their types in Go.

Source: Go strconv and fmt; cel-go common/types/format.go.
"""

import math
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kubecel.effort import READ, meter
from kubecel.quantities import QuantityValue
from kubecel.values import Duration, Map, Optional, Timestamp, TypeValue, Uint, type_name

# The effort of each part of a list or a map.
_PART = 3
# The exponent from which the shortest text has one.
_SHORT = 6


def special(value: float) -> str:
    """Return the text of an infinity or of NaN, else an empty text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return ""


def shortest(value: float) -> str:
    """Return the shortest text of a double, as %g and %v do."""
    named = special(value)
    if named:
        return named
    digits, _, exponent_text = f"{value!r}".partition("e")
    sign, number = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = number.partition(".")
    significant = (whole + fraction).lstrip("0") or "0"
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    point = len(whole) - leading + int(exponent_text or 0)
    significant = significant.rstrip("0") or "0"
    if significant == "0":
        return sign + "0"
    exponent = point - 1
    if exponent < -4 or exponent >= _SHORT:
        mantissa = significant[0] + ("." + significant[1:] if len(significant) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + positional(significant, point)


def positional(significant: str, point: int) -> str:
    """Return digits with the decimal point after the first `point` of them."""
    if point <= 0:
        return "0." + "0" * -point + significant
    if len(significant) <= point:
        return significant + "0" * (point - len(significant))
    return significant[:point] + "." + significant[point:]


def plain(value: float) -> str:
    """Return the shortest text of a double without an exponent."""
    named = special(value)
    if named:
        return named
    text = shortest(value)
    match = re.fullmatch(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)", text)
    if match is None:
        return text
    sign, first, rest, exponent = match.groups(default="")
    return sign + positional(first + rest, int(exponent) + 1)


class Written(NamedTuple):
    """A part of a text that is written already."""

    text: str


def joined(opening: str, parts: Iterable[tuple[object, ...]], closing: str) -> list[object]:
    """Return what a list or a map consists of: its brackets, its parts and the commas between them."""
    pieces: list[object] = [Written(opening)]
    for number, part in enumerate(parts):
        pieces += (Written(", "), *part) if number else part
    return [*pieces, Written(closing)]


def written(value: object, shown: Callable[[object], str | list[object]]) -> str:
    """Return the text of a value. `shown` returns the text of a part, or the parts that it consists of.

    The parts wait on a stack, however deep the value is, and the text is bounded while it grows.
    """
    texts: list[str] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        content = part.text if isinstance(part, Written) else shown(part)
        if isinstance(content, list):
            meter.make_objects(len(content))
            meter.spend(_PART * len(content))
            waiting += reversed(content)
        else:
            meter.make_text(len(content))
            texts.append(content)
    meter.make_text(sum(map(len, texts)))
    return "".join(texts)


def verb_v(value: object) -> str:
    """Return a value as %v writes it in an error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, (str, Uint, int)):
        return str(value)
    if isinstance(value, bytes):
        meter.spend(len(value) // READ)
        meter.make_text(4 * len(value))
        return "[" + " ".join(map(str, value)) + "]"
    if value is None:
        return "0"
    if isinstance(value, (list, Map)) or (isinstance(value, Optional) and value.present):
        return written(value, _parts)
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return "optional.none()"
    if isinstance(value, (Duration, Timestamp)):
        return str(value.nanos)
    return str(value)


def _parts(value: object) -> str | list[object]:
    if isinstance(value, list):
        return joined("[", ((item,) for item in value), "]")
    if isinstance(value, Map):
        return joined("{", ((key, Written(": "), held) for key, held in value.entries.values()), "}")
    if isinstance(value, Optional) and value.present:
        return [Written("optional("), value.value, Written(")")]
    return verb_v(value)


# The Go types of the values of cel-go and of Kubernetes' libraries.
_GO_TYPES = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def go_type(value: object) -> str:
    """Return the name of the Go type of a value; sums of quantities are pointers."""
    name = type_name(value)
    pointer = isinstance(value, QuantityValue) and value.pointer
    return f"{'*' if pointer else ''}{_GO_TYPES.get(name, name)}"
