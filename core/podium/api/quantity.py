"""Exact resource quantities (`1.5Gi`, `500m`, `1e3`), read and written as the API server does.

Sums that decide whether a pod fits must not be floats, and the output of `admit` must be what a server would
store. Both follow upstream's resource.Quantity: a text that is canonical enough is kept unchanged, and a
value past the last suffix loses it.

One case is stricter than upstream, beside those of the scanner. `parse` stops at 2^63-1 whole units, the
documented limit. Upstream applies it to binary suffixes only, and reads a larger decimal as 0 or as a wrapped
number.
"""

from enum import IntEnum

from kubecel.quantityscanner import (
    BINARY_SUFFIXES,
    DECIMAL_SUFFIXES,
    MAX_UNITS,
    QuantityFormat,
    QuantityTextError,
    ScaledNumber,
    scaled,
    scaled_number,
)
from podium.api.core import RawQuantity
from podium.errors import PodiumError

_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in BINARY_SUFFIXES.items()}


class Scale(IntEnum):
    """The power of ten that is the unit of a result: `parse("1", Scale.MILLI)` is 1000."""

    NANO = -9
    MILLI = -3
    ONE = 0


class QuantityError(PodiumError):
    """A text that is not a quantity; the message has the text, and its reader adds the place."""


def parse(value: RawQuantity, scale: Scale = Scale.NANO) -> int:
    """Return a quantity as a whole number of 10^scale, rounded away from zero and at most 2^63-1 units.

    A JSON number is read by its shortest text, as in a server. Raises QuantityError.
    """
    number = _number(value)
    limit = scaled(MAX_UNITS, -scale)
    shift = number.exponent - scale
    if number.mantissa and len(str(abs(number.mantissa))) + shift > len(str(limit)):
        return limit if number.mantissa > 0 else -limit
    return max(-limit, min(limit, scaled(number.mantissa, shift)))


def canonical(value: RawQuantity, scale: Scale = Scale.NANO) -> str:
    """Return the text that a server stores for a quantity, first rounded away from zero to 10^scale.

    A server rounds to NANO everywhere, and to MILLI in the resources of containers, nodes and quotas. Raises
    QuantityError.
    """
    number = _number(value)
    if number.exponent < scale:
        # Even a value that needs no rounding is formatted again here.
        number = ScaledNumber(scaled(number.mantissa, number.exponent - scale), scale, number.format)
    if number.kept:
        return number.kept
    if number.mantissa == 0:
        return "0"
    if number.format is QuantityFormat.BINARY_SI:
        units, rest = divmod(number.mantissa, 10**-number.exponent)
        if not rest and abs(units) >= 1024:
            mantissa, times = _without_factors(units, 1024)
            return f"{mantissa}{_BINARY_SUFFIX.get(times, '')}"
    mantissa, times = _without_factors(number.mantissa, 10)
    exponent = number.exponent + times
    mantissa *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if number.format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    # Upstream has no suffix past E and prints none: 1000E is stored as "1".
    return f"{mantissa}{_DECIMAL_SUFFIX.get(exponent, '')}"


def _number(value: RawQuantity) -> ScaledNumber:
    try:
        return scaled_number(value)
    except QuantityTextError as error:
        raise QuantityError(str(error)) from None


def _without_factors(value: int, factor: int) -> tuple[int, int]:
    times = 0
    while value % factor == 0:
        value //= factor
        times += 1
    return value, times
