"""Exact resource quantities (`1.5Gi`, `500m`, `1e3`), read and written as the API server does.

Sums that decide whether a pod fits must not be floats, and the output of `admit` must be what a server would
store. Both follow upstream's resource.Quantity, whose behaviour differs from its grammar. A text that is
canonical enough is kept unchanged, a missing number is zero, a value past the last suffix loses it.

Three cases are stricter than upstream, where upstream's own answer is an accident. A text longer than
MAX_TEXT and an exponent wider than 32 bits are refused (upstream computes for minutes, or wraps). `parse`
stops at 2^63-1 whole units, the documented limit. Upstream applies it to binary suffixes only, and reads a
larger decimal as 0 or as a wrapped number.
"""

import re
from enum import IntEnum, StrEnum
from typing import NamedTuple

from podium.api.core import RawQuantity
from podium.errors import PodiumError

MAX_TEXT = 1000
# The largest number of whole units.
MAX_UNITS = 2**63 - 1
# Values are exact to the nano; a finer remainder is rounded away from zero.
_FINEST = -9
_INT64_DIGITS = 18


class Scale(IntEnum):
    """The power of ten that is the unit of a result: `parse("1", Scale.MILLI)` is 1000."""

    NANO = -9
    MILLI = -3
    ONE = 0


class QuantityProblem(StrEnum):
    """Upstream's texts for a text that is not a quantity."""

    FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    NUMBER = "unable to parse numeric part of quantity"
    SUFFIX = "unable to parse quantity's suffix"


class QuantityError(PodiumError):
    """A text that is not a quantity; the message has the text, and its reader adds the place."""

    def __init__(self, text: str, problem: QuantityProblem) -> None:
        """Take the text and upstream's problem with it."""
        shown = text if len(text) <= 40 else text[:40] + "..."
        super().__init__(f"{shown!r} is not a quantity: write a number with a suffix, such as 500m or 2Gi")
        self.problem = problem


class _Format(StrEnum):
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class ScaledNumber(NamedTuple):
    """mantissa * 10^exponent, exponent >= -9; `kept` is the text that upstream would print unchanged.

    `small` tells whether upstream holds the number in 64 bits, and not as a decimal of any length.
    """

    mantissa: int
    exponent: int
    format: _Format
    small: bool = False
    kept: str = ""


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in _BINARY.items()}

# Possessive, so that a long text is read once.
_SYNTAX = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")


def parse(value: RawQuantity, scale: Scale = Scale.NANO) -> int:
    """Return a quantity as a whole number of 10^scale, rounded away from zero and at most 2^63-1 units.

    A JSON number is read by its shortest text, as in a server. Raises QuantityError.
    """
    number = scaled_number(value)
    limit = _scaled(MAX_UNITS, -scale)
    shift = number.exponent - scale
    if number.mantissa and len(str(abs(number.mantissa))) + shift > len(str(limit)):
        return limit if number.mantissa > 0 else -limit
    return max(-limit, min(limit, _scaled(number.mantissa, shift)))


def canonical(value: RawQuantity, scale: Scale = Scale.NANO) -> str:
    """Return the text that a server stores for a quantity, first rounded away from zero to 10^scale.

    A server rounds to NANO everywhere, and to MILLI in the resources of containers, nodes and quotas. Raises
    QuantityError.
    """
    number = scaled_number(value)
    if number.exponent < scale:
        # Even a value that needs no rounding is formatted again here.
        number = ScaledNumber(_scaled(number.mantissa, number.exponent - scale), scale, number.format)
    if number.kept:
        return number.kept
    if number.mantissa == 0:
        return "0"
    if number.format is _Format.BINARY_SI:
        units, rest = divmod(number.mantissa, 10**-number.exponent)
        if not rest and abs(units) >= 1024:
            mantissa, times = _without_factors(units, 1024)
            return f"{mantissa}{_BINARY_SUFFIX.get(times, '')}"
    mantissa, times = _without_factors(number.mantissa, 10)
    exponent = number.exponent + times
    mantissa *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if number.format is _Format.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    # Upstream has no suffix past E and prints none: 1000E is stored as "1".
    return f"{mantissa}{_DECIMAL_SUFFIX.get(exponent, '')}"


def _text(value: RawQuantity) -> str:
    # Upstream trims what JSON can carry unescaped. A number is read by its JSON text.
    return value.strip(" ") if isinstance(value, str) else repr(value)


def scaled_number(value: RawQuantity) -> ScaledNumber:
    """Return a quantity as upstream's scanner reads it: a missing number is zero (`m`), a lone sign too.

    A large exponent stays one: no digits are computed for 1e2000000000. Raises QuantityError.
    """
    text = _text(value)
    match = _SYNTAX.fullmatch(text) if 0 < len(text) <= MAX_TEXT else None
    if match is None:
        raise QuantityError(text, QuantityProblem.FORM)
    sign, whole, fraction, suffix = match.groups(default="")
    digits = (whole.lstrip("0") or "0") + fraction
    if suffix in _BINARY:
        power, form = _BINARY[suffix], _Format.BINARY_SI
        # Upstream's estimate of whether the product fits 64 bits, which selects its quick path.
        quick = not fraction and 14 - len(digits) - power * 3 // 10 >= 0
        number = _binary(int(digits), -len(fraction), power)
        keep = int(digits) % 8 != 0
    else:
        power, form = _exponent(text, suffix)
        exponent = power - len(fraction)
        quick = len(digits) <= _INT64_DIGITS and exponent >= _FINEST
        number = _rounded(ScaledNumber(int(digits), exponent, form))
        keep = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if not quick and not whole and not fraction:
        raise QuantityError(text, QuantityProblem.NUMBER)
    # The quick path prints a text unchanged if it is canonical enough, such as +1 or 1.500.
    mantissa = -number.mantissa if sign == "-" else number.mantissa
    return number._replace(mantissa=mantissa, small=quick, kept=text if quick and keep else "")


def _exponent(text: str, suffix: str) -> tuple[int, _Format]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], _Format.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    power = int(match[1]) if match is not None else None
    if power is None or not -(2**31) <= power < 2**31:
        raise QuantityError(text, QuantityProblem.SUFFIX)
    return power, _Format.DECIMAL_EXPONENT


def _binary(digits: int, exponent: int, power: int) -> ScaledNumber:
    number = _rounded(ScaledNumber(digits << power, exponent, _Format.BINARY_SI))
    one = 10**-number.exponent
    if number.mantissa > MAX_UNITS * one:
        return ScaledNumber(MAX_UNITS, 0, _Format.BINARY_SI)
    return number._replace(format=_Format.DECIMAL_SI) if 0 < number.mantissa < one else number


def _rounded(number: ScaledNumber) -> ScaledNumber:
    if number.exponent >= _FINEST:
        return number
    return number._replace(mantissa=_scaled(number.mantissa, number.exponent - _FINEST), exponent=_FINEST)


def _scaled(mantissa: int, shift: int) -> int:
    """Return mantissa * 10^shift, rounded away from zero."""
    if mantissa == 0:
        return 0
    if shift >= 0:
        raised: int = mantissa * 10**shift
        return raised
    sign = -1 if mantissa < 0 else 1
    # No power of ten is computed for an exponent of minus a billion.
    rounded: int = 1 if -shift > len(str(abs(mantissa))) else -(-abs(mantissa) // 10**-shift)
    return sign * rounded


def _without_factors(value: int, factor: int) -> tuple[int, int]:
    times = 0
    while value % factor == 0:
        value //= factor
        times += 1
    return value, times
