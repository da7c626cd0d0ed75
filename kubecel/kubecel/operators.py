"""Operators: arithmetic in 64 bits, comparison across number types, size, membership and types.

Source: cel-go common/types (int.go, uint.go, double.go, overflow.go, compare.go, list.go, map.go).
"""

import math
from collections.abc import Callable

from kubecel.effort import COPIED, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.values import (
    INT_LIMIT,
    NO_OVERLOAD,
    NUMBER_TYPES,
    UINT_LIMIT,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    contains,
    order,
    read_key,
    type_name,
)

_RECEIVERS = (str, Duration, Timestamp)
_MIN_SECONDS, _MAX_SECONDS = -62135596800, 253402300799
_SECOND = 1_000_000_000


def no_trait(function: str, value: object) -> SelectorRuntimeError:
    """Return the error of an operator that a type of value does not have."""
    return SelectorRuntimeError(
        NO_OVERLOAD if isinstance(value, _RECEIVERS) else f"{NO_OVERLOAD}: {function}"
    )


def _refused() -> SelectorRuntimeError:
    return SelectorRuntimeError(NO_OVERLOAD)


def checked_int(value: int) -> int:
    """Return a signed number. Raises SelectorRuntimeError if it exceeds 64 bits."""
    if not -INT_LIMIT <= value < INT_LIMIT:
        raise SelectorRuntimeError("integer overflow")
    return value


def checked_uint(value: int) -> Uint:
    """Return an unsigned number. Raises SelectorRuntimeError if it exceeds 64 bits."""
    if not 0 <= value < UINT_LIMIT:
        raise SelectorRuntimeError("unsigned integer overflow")
    return Uint(value)


def checked_duration(nanos: int) -> Duration:
    """Return a duration. Raises SelectorRuntimeError if it exceeds 64 bits of nanoseconds."""
    if not -INT_LIMIT <= nanos < INT_LIMIT:
        raise SelectorRuntimeError("duration overflow")
    return Duration(nanos)


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return an instant. Raises SelectorRuntimeError if it is not in the years 1 to 9999."""
    if not _MIN_SECONDS <= nanos // _SECOND <= _MAX_SECONDS:
        raise SelectorRuntimeError("timestamp overflow")
    return Timestamp(nanos, offset)


def add(first: object, second: object) -> object:
    """Return first + second."""
    kind = type(first)
    if kind in _ADDERS:
        if type(second) is kind:
            return _ADDERS[kind](first, second)
        if kind is Duration and isinstance(second, Timestamp):
            return checked_timestamp(second.nanos + first.nanos, second.offset)  # type: ignore[attr-defined]
        raise _refused()
    if isinstance(first, Timestamp):
        if isinstance(second, Duration):
            return checked_timestamp(first.nanos + second.nanos, first.offset)
        raise _refused()
    raise no_trait("_+_", first)


def _texts(first: str, second: str) -> str:
    meter.make_text(len(first) + len(second))
    return first + second


def _octets(first: bytes, second: bytes) -> bytes:
    meter.make_text(len(first) + len(second))
    return first + second


def _lists(first: list[object], second: list[object]) -> list[object]:
    meter.make_items(len(first) + len(second))
    return first + second


_ADDERS: dict[type, Callable[..., object]] = {
    int: lambda a, b: checked_int(a + b),
    Uint: lambda a, b: checked_uint(int(a) + int(b)),
    float: lambda a, b: a + b,
    str: _texts,
    bytes: _octets,
    list: _lists,
    Duration: lambda a, b: checked_duration(a.nanos + b.nanos),
}


def subtract(first: object, second: object) -> object:
    """Return first - second."""
    if isinstance(first, Timestamp):
        if isinstance(second, Duration):
            return checked_timestamp(first.nanos - second.nanos, first.offset)
        if isinstance(second, Timestamp):
            return checked_duration(first.nanos - second.nanos)
        raise _refused()
    return _calculated("_-_", _SUBTRACTORS, first, second)


_SUBTRACTORS: dict[type, Callable[..., object]] = {
    int: lambda a, b: checked_int(a - b),
    Uint: lambda a, b: checked_uint(int(a) - int(b)),
    float: lambda a, b: a - b,
    Duration: lambda a, b: checked_duration(a.nanos - b.nanos),
}
_MULTIPLIERS: dict[type, Callable[..., object]] = {
    int: lambda a, b: checked_int(a * b),
    Uint: lambda a, b: checked_uint(int(a) * int(b)),
    float: lambda a, b: a * b,
}


def multiply(first: object, second: object) -> object:
    """Return first * second."""
    return _calculated("_*_", _MULTIPLIERS, first, second)


def divide(first: object, second: object) -> object:
    """Return first / second; whole numbers are rounded towards zero."""
    return _calculated("_/_", _DIVIDERS, first, second)


def modulo(first: object, second: object) -> object:
    """Return first % second with the sign of the first."""
    return _calculated("_%_", _MODDERS, first, second)


def _calculated(
    function: str, known: dict[type, Callable[..., object]], first: object, second: object
) -> object:
    kind = type(first)
    operation = known.get(kind)
    if operation is None:
        raise no_trait(function, first)
    if type(second) is not kind:
        raise _refused()
    return operation(first, second)


def _divided(first: int, second: int) -> int:
    if second == 0:
        raise SelectorRuntimeError("division by zero")
    quotient = abs(first) // abs(second)
    return checked_int(quotient if (first < 0) == (second < 0) else -quotient)


def _remainder(first: int, second: int) -> int:
    if second == 0:
        raise SelectorRuntimeError("modulus by zero")
    if first == -INT_LIMIT and second == -1:
        raise SelectorRuntimeError("integer overflow")
    remainder = abs(first) % abs(second)
    return -remainder if first < 0 else remainder


def _float_divided(first: float, second: float) -> float:
    if second:
        return first / second
    if first == 0 or math.isnan(first) or math.isnan(second):
        return math.nan
    return math.copysign(math.inf, first) * math.copysign(1.0, second)


_DIVIDERS: dict[type, Callable[..., object]] = {
    int: _divided,
    Uint: lambda a, b: Uint(_divided_uint(int(a), int(b))),
    float: _float_divided,
}
_MODDERS: dict[type, Callable[..., object]] = {
    int: _remainder,
    Uint: lambda a, b: Uint(_remainder(int(a), int(b))),
}


def _divided_uint(first: int, second: int) -> int:
    if second == 0:
        raise SelectorRuntimeError("division by zero")
    return first // second


def negate(value: object) -> object:
    """Return -value."""
    if isinstance(value, bool):
        raise _refused()
    if type(value) is int:
        return checked_int(-value)
    if isinstance(value, float):
        return -value
    if isinstance(value, Duration):
        return checked_duration(-value.nanos)
    raise no_trait("-_", value)


def logical_not(value: object) -> bool:
    """Return !value."""
    if value is True:
        return False
    if value is False:
        return True
    raise _refused()


def compare(function: str, first: object, second: object) -> int:
    """Return -1, 0 or 1."""
    kind = type(first)
    if kind in NUMBER_TYPES:
        if type(second) not in NUMBER_TYPES:
            if kind is float and math.isnan(first):  # type: ignore[arg-type]
                raise SelectorRuntimeError("NaN values cannot be ordered")
            raise _refused()
        ordering = order(first, second)
        if ordering is None:
            raise SelectorRuntimeError("NaN values cannot be ordered")
        return ordering
    if kind not in _COMPARED:
        raise no_trait(function, first)
    if type(second) is not kind:
        raise _refused()
    if kind is Duration or kind is Timestamp:
        first, second = first.nanos, second.nanos  # type: ignore[attr-defined]
    elif kind is not bool and len(first) > COPIED:  # type: ignore[arg-type]
        meter.spend(2 * len(first) // COPIED)  # type: ignore[arg-type]
    return int(first > second) - int(first < second)  # type: ignore[operator]


_COMPARED = frozenset({str, bytes, bool, Duration, Timestamp})
COMPARABLE = _COMPARED | NUMBER_TYPES


def less(first: object, second: object) -> bool:
    """Return first < second."""
    return compare("_<_", first, second) < 0


def less_equal(first: object, second: object) -> bool:
    """Return first <= second."""
    return compare("_<=_", first, second) <= 0


def greater(first: object, second: object) -> bool:
    """Return first > second."""
    return compare("_>_", first, second) > 0


def greater_equal(first: object, second: object) -> bool:
    """Return first >= second."""
    return compare("_>=_", first, second) >= 0


def member_of(value: object, container: object) -> bool:
    """Return value in container."""
    if isinstance(container, list):
        return contains(container, value, reverse=True)
    if isinstance(container, Map):
        read_key(value)
        return container.has(value)
    raise _refused()


def size(value: object) -> int:
    """Return the number of characters, bytes or elements."""
    if isinstance(value, (str, bytes, list, Map)):
        return len(value)
    raise no_trait("size", value)


def type_value(value: object) -> TypeValue:
    """Return the type of a value."""
    return TypeValue(type_name(value))
