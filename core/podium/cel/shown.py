"""Texts of values as Go's fmt and strconv write them, for errors and conversions.

Source: Go strconv and fmt; cel-go common/types/format.go.
"""

import math
import re

from podium.cel.values import Duration, Map, Optional, Timestamp, TypeValue, Uint

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
    found = special(value)
    if found:
        return found
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
    found = special(value)
    if found:
        return found
    text = shortest(value)
    match = re.fullmatch(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)", text)
    if match is None:
        return text
    sign, first, rest, exponent = match.groups(default="")
    return sign + positional(first + rest, int(exponent) + 1)


def verb_v(value: object) -> str:
    """Return a value as %v writes it in an error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, (str, Uint, int)):
        return str(value)
    if isinstance(value, bytes):
        return "[" + " ".join(map(str, value)) + "]"
    if value is None:
        return "0"
    if isinstance(value, list):
        return "[" + ", ".join(map(verb_v, value)) + "]"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return f"optional({verb_v(value.value)})" if value.present else "optional.none()"
    if isinstance(value, Map):
        return "{" + ", ".join(f"{verb_v(k)}: {verb_v(v)}" for k, v in value.entries.values()) + "}"
    if isinstance(value, (Duration, Timestamp)):
        return str(value.nanos)
    return str(value)
