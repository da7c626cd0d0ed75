"""Quantities as values of CEL.

A quantity keeps whether upstream holds it as a whole number of 64 bits, because `isInteger` shows that.

Source: k8s.io/apiserver/pkg/cel/library/quantity.go, k8s.io/apimachinery/pkg/api/resource.
"""

import re
from dataclasses import dataclass, replace

from podium.api.core import RawQuantity
from podium.api.quantity import QuantityError, parse
from podium.cel.nodes import SelectorRuntimeError
from podium.cel.values import INT_LIMIT, Opaque

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_LOOSE = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = -9
_WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@dataclass(frozen=True, slots=True)
class QuantityValue(Opaque):
    """number * 10^scale; `small` if upstream holds it in 64 bits."""

    number: int
    scale: int
    small: bool
    # Upstream's sums are pointers, and nothing is equal to them: the comparison fails.
    pointer: bool = False
    type_name = "kubernetes.Quantity"

    @property
    def nanos(self) -> int:
        """Return the exact value in billionths."""
        return int(self.number * 10 ** (self.scale - _NANO))

    def same(self, other: object) -> bool:
        """Return whether two quantities are the same amount."""
        if not isinstance(other, QuantityValue) or other.pointer:
            raise SelectorRuntimeError("no such overload")
        return self.nanos == other.nanos


def read(raw: RawQuantity) -> QuantityValue:
    """Return the quantity of an object of the API. Raises QuantityError."""
    text = raw.strip(" ") if isinstance(raw, str) else repr(raw)
    nanos = parse(raw)
    match = _FORM.fullmatch(text)
    if match is not None:
        sign, whole, fraction, suffix = match.groups(default="")
        digits = (whole.lstrip("0") or "0") + fraction
        number = -int(digits) if sign == "-" else int(digits)
        if suffix in _BINARY:
            power = _BINARY[suffix]
            if not fraction and 14 - len(digits) - power * 3 // 10 >= 0:
                return QuantityValue(number << power, 0, small=True)
        else:
            exponent = _DECIMAL.get(suffix)
            exponent = int(suffix[1:]) if exponent is None else exponent
            if len(digits) <= 18 and exponent - len(fraction) >= _NANO:
                return QuantityValue(number, exponent - len(fraction), small=True)
    return QuantityValue(nanos, _NANO, small=False)


def quantity(text: str) -> QuantityValue:
    """Return the quantity of a text. Raises SelectorRuntimeError."""
    try:
        if text != text.strip(" "):
            raise SelectorRuntimeError(_WRONG_FORM)
        return read(text)
    except QuantityError:
        loose = _LOOSE.fullmatch(text)
        message = (
            _WRONG_FORM if loose is None or loose[1].count(".") > 1 else "unable to parse quantity's suffix"
        )
        raise SelectorRuntimeError(message) from None


def is_quantity(text: str) -> bool:
    """Return whether a text is a quantity."""
    try:
        quantity(text)
    except SelectorRuntimeError:
        return False
    return True


def sign(value: QuantityValue) -> int:
    """Return -1, 0 or 1."""
    return (value.number > 0) - (value.number < 0)


def compare(first: QuantityValue, second: QuantityValue) -> int:
    """Return -1, 0 or 1."""
    if first.scale == second.scale:
        return (first.number > second.number) - (first.number < second.number)
    left, right = first.nanos, second.nanos
    return (left > right) - (left < right)


def greater(first: QuantityValue, second: QuantityValue) -> bool:
    """Return whether the first is more."""
    return compare(first, second) > 0


def less(first: QuantityValue, second: QuantityValue) -> bool:
    """Return whether the first is less."""
    return compare(first, second) < 0


def approximate(value: QuantityValue) -> float:
    """Return the nearest double."""
    if value.scale >= 0:
        return float(value.number) * 10.0**value.scale if value.scale else float(value.number)
    return float(value.number) * float(f"1e{value.scale}")


def is_integer(value: QuantityValue) -> bool:
    """Return whether upstream holds the amount as a whole number of 64 bits."""
    if not value.small or value.scale < 0:
        return False
    return -INT_LIMIT <= int(value.number * 10**value.scale) < INT_LIMIT


def as_integer(value: QuantityValue) -> int:
    """Return the whole number."""
    if not is_integer(value):
        raise SelectorRuntimeError("cannot convert value to integer")
    return int(value.number * 10**value.scale)


def add(first: QuantityValue, second: QuantityValue | int) -> QuantityValue:
    """Return the sum."""
    other = _quantity_of(second)
    if first.number == 0 and first.small and other.small:
        return replace(other, pointer=True)
    if other.number == 0:
        return replace(first, pointer=True)
    scale = min(first.scale, other.scale)
    number = first.number * 10 ** (first.scale - scale) + other.number * 10 ** (other.scale - scale)
    small = first.small and other.small and -INT_LIMIT <= number < INT_LIMIT
    return QuantityValue(number, scale, small, pointer=True)


def subtract(first: QuantityValue, second: QuantityValue | int) -> QuantityValue:
    """Return the difference."""
    other = _quantity_of(second)
    # Upstream negates in 64 bits, where the least number has no opposite.
    wraps = first.small and other.small and other.number == -INT_LIMIT and first.number >= 0
    return add(first, QuantityValue(other.number if wraps else -other.number, other.scale, other.small))


def _quantity_of(value: QuantityValue | int) -> QuantityValue:
    return value if isinstance(value, QuantityValue) else QuantityValue(value, 0, small=True)
