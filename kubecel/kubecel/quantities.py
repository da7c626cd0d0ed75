"""Quantities as values of CEL.

Upstream holds a quantity in 64 bits with a power of ten, or as a decimal of any length. Expressions can
tell the two: `isInteger` is false for a decimal, and the least number of 64 bits has no opposite. If one
of two compared quantities is a decimal, the receiver becomes one. So these values change as upstream's do.

A tenant can write 1e2000000000. Upstream computes all digits of such a number. Podium compares without
them, and refuses sums of quantities whose powers of ten are more than MAX_SHIFT apart.

Source: k8s.io/apiserver/pkg/cel/library/quantity.go, k8s.io/apimachinery/pkg/api/resource.
"""

import math
from dataclasses import dataclass, replace

from kubecel.effort import meter
from kubecel.errors import SelectorRuntimeError
from kubecel.quantityscanner import QuantityProblem, QuantityTextError, RawQuantity, scaled_number
from kubecel.values import INT_LIMIT, Opaque

MAX_SHIFT = 1000
# A sum of more digits is refused, and one of as many bits as these takes a unit of effort.
_MAX_BITS, _SHIFTED = 8192, 200
# Upstream holds a decimal in billionths. The largest double is below the power.
_NANO, _LARGEST_POWER = -9, 400
_INT_DIGITS = 19


@dataclass(eq=False, slots=True)
class QuantityValue(Opaque):
    """number * 10^scale; `small` if upstream holds it in 64 bits."""

    number: int
    scale: int
    small: bool
    # Upstream's sums are pointers, and nothing is equal to them: the comparison fails.
    pointer: bool = False
    type_name = "kubernetes.Quantity"

    def __str__(self) -> str:
        return f"{self.number}e{self.scale}" if self.scale else str(self.number)

    def same(self, other: object) -> bool:
        """Return whether two quantities are the same amount."""
        if not isinstance(other, QuantityValue) or other.pointer:
            raise SelectorRuntimeError("no such overload")
        return _order(self, other) == 0


def read(raw: RawQuantity) -> QuantityValue:
    """Return the quantity of an object of the API. Raises QuantityTextError."""
    scaled = scaled_number(raw)
    number, scale = scaled.mantissa, scaled.exponent
    if not scaled.small and number and scale <= _LARGEST_POWER:
        number, scale = number * 10 ** (scale - _NANO), _NANO
    return QuantityValue(number, scale, scaled.small)


def quantity(text: str) -> QuantityValue:
    """Return the quantity of a text. Raises SelectorRuntimeError."""
    if text != text.strip(" "):
        raise SelectorRuntimeError(QuantityProblem.FORM.value)
    try:
        return read(text)
    except QuantityTextError as error:
        raise SelectorRuntimeError(error.problem.value) from None


def sign(value: QuantityValue) -> int:
    """Return -1, 0 or 1."""
    return (value.number > 0) - (value.number < 0)


def compare(first: QuantityValue, second: QuantityValue) -> int:
    """Return -1, 0 or 1."""
    first.small = first.small and second.small
    return _order(first, second)


def greater(first: QuantityValue, second: QuantityValue) -> bool:
    """Return whether the first is more."""
    return compare(first, second) > 0


def less(first: QuantityValue, second: QuantityValue) -> bool:
    """Return whether the first is less."""
    return compare(first, second) < 0


def _order(first: QuantityValue, second: QuantityValue) -> int:
    left, right = first.number, second.number
    if first.scale != second.scale and left and right and (left > 0) == (right > 0):
        gap = math.log10(abs(left)) - math.log10(abs(right)) + (first.scale - second.scale)
        if abs(gap) > 1:
            return 1 if (gap > 0) == (left > 0) else -1
        # The numbers are nearly equal, so the powers differ by no more than the digits.
        scale = min(first.scale, second.scale)
        left, right = left * 10 ** (first.scale - scale), right * 10 ** (second.scale - scale)
    return (left > right) - (left < right)


def approximate(value: QuantityValue) -> float:
    """Return about the nearest double, with upstream's rounding."""
    try:
        base = float(value.number)
    except OverflowError:
        base = math.copysign(math.inf, value.number)
    return base * _power(value.scale) if value.scale else base


def _power(scale: int) -> float:
    """Return a power of ten as Go does, from two tables."""
    if scale < 0:
        return float(f"1e{scale}")
    return float(f"1e{scale - scale % 32}") * float(f"1e{scale % 32}")


def is_integer(value: QuantityValue) -> bool:
    """Return whether upstream holds the amount as a whole number of 64 bits."""
    return _integer(value) is not None


def as_integer(value: QuantityValue) -> int:
    """Return the whole number."""
    whole = _integer(value)
    if whole is None:
        raise SelectorRuntimeError("cannot convert value to integer")
    return whole


def _integer(value: QuantityValue) -> int | None:
    return _shifted(value.number, value.scale) if value.small and value.scale >= 0 else None


def _shifted(number: int, power: int) -> int | None:
    """Return number * 10^power, or None if it does not fit in 64 bits."""
    if number == 0:
        return 0
    shifted: int | None = number * 10**power if power < _INT_DIGITS else None
    return shifted if shifted is not None and -INT_LIMIT <= shifted < INT_LIMIT else None


def add(first: QuantityValue, second: QuantityValue | int) -> QuantityValue:
    """Return the sum."""
    addend = _quantity_of(second)
    small = _small_sum(first, addend) if first.small and addend.small else None
    return small or _decimal_sum(first, addend)


def subtract(first: QuantityValue, second: QuantityValue | int) -> QuantityValue:
    """Return the difference."""
    subtrahend = _quantity_of(second)
    small = None
    if first.small and subtrahend.small:
        # Upstream negates in 64 bits, where the least number is its own opposite.
        negated = subtrahend.number if subtrahend.number == -INT_LIMIT else -subtrahend.number
        small = _small_sum(first, replace(subtrahend, number=negated))
    return small or _decimal_sum(first, replace(subtrahend, number=-subtrahend.number))


def _small_sum(first: QuantityValue, second: QuantityValue) -> QuantityValue | None:
    """Return a sum in 64 bits, or None if it or one of its parts does not fit."""
    if second.number == 0:
        return replace(first, pointer=True)
    if first.number == 0:
        return replace(second, pointer=True)
    scale = min(first.scale, second.scale)
    left = _shifted(first.number, first.scale - scale)
    right = _shifted(second.number, second.scale - scale)
    if left is None or right is None or not -INT_LIMIT <= left + right < INT_LIMIT:
        return None
    return QuantityValue(left + right, scale, small=True, pointer=True)


def _decimal_sum(first: QuantityValue, second: QuantityValue) -> QuantityValue:
    scale = min(first.scale, second.scale)
    bits = max(first.number.bit_length(), second.number.bit_length())
    meter.spend(bits // _SHIFTED)
    if max(first.scale, second.scale) - scale > MAX_SHIFT or bits > _MAX_BITS:
        raise SelectorRuntimeError(f"a sum of quantities that are 10^{MAX_SHIFT} apart")
    left = first.number * 10 ** (first.scale - scale)
    right = second.number * 10 ** (second.scale - scale)
    return QuantityValue(left + right, scale, small=False, pointer=True)


def _quantity_of(value: QuantityValue | int) -> QuantityValue:
    return value if isinstance(value, QuantityValue) else QuantityValue(value, 0, small=True)
