"""The numbers of quantities (`1.5Gi`, `500m`, `1e3`), as upstream's scanner reads their texts.

Its behaviour differs from its grammar: a missing number is zero, and a text that is canonical enough is kept.
Two cases are stricter than upstream. A text longer than MAX_TEXT and an exponent wider than 32 bits are
refused (upstream computes for minutes, or wraps).

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

import re
from enum import StrEnum
from typing import NamedTuple

# A quantity in JSON: nearly always text, but a bare number is legal.
RawQuantity = str | int | float
MAX_TEXT = 1000
# The largest number of whole units with a binary suffix.
MAX_UNITS = 2**63 - 1
# Values are exact to the nano; a finer remainder is rounded away from zero.
_FINEST = -9
_INT64_DIGITS = 18
DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# The powers of two.
BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Possessive, so that a long text is read once.
_SYNTAX = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")


class QuantityProblem(StrEnum):
    """Upstream's texts for a text that is not a quantity."""

    FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    NUMBER = "unable to parse numeric part of quantity"
    SUFFIX = "unable to parse quantity's suffix"


class QuantityTextError(Exception):
    """A text that is not a quantity; the message has the text, and its reader adds the place."""

    def __init__(self, text: str, problem: QuantityProblem) -> None:
        """Take the text and upstream's problem with it."""
        shown = text if len(text) <= 40 else text[:40] + "..."
        super().__init__(f"{shown!r} is not a quantity: write a number with a suffix, such as 500m or 2Gi")
        self.problem = problem


class QuantityFormat(StrEnum):
    """Upstream's formats, by the suffix of the text."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class ScaledNumber(NamedTuple):
    """mantissa * 10^exponent, exponent >= -9; `kept` is the text that upstream would print unchanged.

    `small` tells whether upstream holds the number in 64 bits, and not as a decimal of any length.
    """

    mantissa: int
    exponent: int
    format: QuantityFormat
    small: bool = False
    kept: str = ""


def scaled_number(value: RawQuantity) -> ScaledNumber:
    """Return a quantity as upstream's scanner reads it: a missing number is zero (`m`), a lone sign too.

    A large exponent stays one: no digits are computed for 1e2000000000. Raises QuantityTextError.
    """
    text = _text(value)
    match = _SYNTAX.fullmatch(text) if 0 < len(text) <= MAX_TEXT else None
    if match is None:
        raise QuantityTextError(text, QuantityProblem.FORM)
    sign, whole, fraction, suffix = match.groups(default="")
    digits = (whole.lstrip("0") or "0") + fraction
    if suffix in BINARY_SUFFIXES:
        power, form = BINARY_SUFFIXES[suffix], QuantityFormat.BINARY_SI
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
        raise QuantityTextError(text, QuantityProblem.NUMBER)
    # The quick path prints a text unchanged if it is canonical enough, such as +1 or 1.500.
    mantissa = -number.mantissa if sign == "-" else number.mantissa
    return number._replace(mantissa=mantissa, small=quick, kept=text if quick and keep else "")


def _exponent(text: str, suffix: str) -> tuple[int, QuantityFormat]:
    if suffix in DECIMAL_SUFFIXES:
        return DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    power = int(match[1]) if match is not None else None
    if power is None or not -(2**31) <= power < 2**31:
        raise QuantityTextError(text, QuantityProblem.SUFFIX)
    return power, QuantityFormat.DECIMAL_EXPONENT


def _binary(digits: int, exponent: int, power: int) -> ScaledNumber:
    number = _rounded(ScaledNumber(digits << power, exponent, QuantityFormat.BINARY_SI))
    unit = 10**-number.exponent
    if number.mantissa > MAX_UNITS * unit:
        return ScaledNumber(MAX_UNITS, 0, QuantityFormat.BINARY_SI)
    return number._replace(format=QuantityFormat.DECIMAL_SI) if 0 < number.mantissa < unit else number


def _rounded(number: ScaledNumber) -> ScaledNumber:
    if number.exponent >= _FINEST:
        return number
    return number._replace(mantissa=scaled(number.mantissa, number.exponent - _FINEST), exponent=_FINEST)


def _text(value: RawQuantity) -> str:
    # Upstream trims what JSON can carry unescaped. A number is read by its JSON text.
    return value.strip(" ") if isinstance(value, str) else repr(value)


def scaled(mantissa: int, shift: int) -> int:
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
