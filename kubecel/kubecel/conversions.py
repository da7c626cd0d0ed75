"""Conversions between types: `int("1")`, `string(2.0)`, `timestamp(0)`.

Source: cel-go common/types (ConvertToType of each type), Go strconv.
"""

import re

from kubecel.effort import meter
from kubecel.errors import SelectorRuntimeError
from kubecel.gotext import shortest
from kubecel.operators import checked_timestamp
from kubecel.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from kubecel.values import INT_LIMIT, UINT_LIMIT, Duration, Timestamp, Uint, type_name

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
# Possessive, so that a long text is read once.
_FLOAT = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_HEX_FLOAT = re.compile(
    r"[+-]?0x(?:[0-9a-f]++(?:\.[0-9a-f]*+)?|\.[0-9a-f]++)p[+-]?[0-9]++", re.ASCII | re.IGNORECASE
)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


def _no_conversion(value: object, target: str) -> SelectorRuntimeError:
    return SelectorRuntimeError(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_bool(value: object) -> object:
    """Return a value as bool."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUE | _FALSE:
        return value in _TRUE
    raise _no_conversion(value, "bool")


def to_bytes(value: object) -> object:
    """Return a value as bytes."""
    if isinstance(value, str):
        meter.make_text(len(value))
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    raise _no_conversion(value, "bytes")


def to_double(value: object) -> object:
    """Return a value as double."""
    if isinstance(value, (int, Uint, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        number = _float(value)
        if number is not None:
            return number
    raise _no_conversion(value, "double")


def _float(text: str) -> float | None:
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else None
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    return None


def to_int(value: object) -> object:
    """Return a value as int."""
    if isinstance(value, Uint):
        if value >= INT_LIMIT:
            raise SelectorRuntimeError("integer overflow")
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        # Upstream refuses the two bounds too, which a double does not hold exactly.
        if not -INT_LIMIT < value < INT_LIMIT:
            raise SelectorRuntimeError("integer overflow")
        return int(value)
    if isinstance(value, Duration):
        return value.nanos
    if isinstance(value, Timestamp):
        return value.nanos // 10**9
    if isinstance(value, str) and _INT.fullmatch(value):
        digits = value.lstrip("+-").lstrip("0") or "0"
        if len(digits) < 20:
            number = -int(digits) if value[0] == "-" else int(digits)
            if -INT_LIMIT <= number < INT_LIMIT:
                return number
    raise _no_conversion(value, "int")


def to_uint(value: object) -> object:
    """Return a value as uint."""
    if isinstance(value, Uint):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise SelectorRuntimeError("unsigned integer overflow")
        return Uint(value)
    if isinstance(value, float):
        if not 0 <= value < UINT_LIMIT:
            raise SelectorRuntimeError("unsigned integer overflow")
        return Uint(value)
    if isinstance(value, str) and _UINT.fullmatch(value):
        digits = value.lstrip("0") or "0"
        if len(digits) < 21 and int(digits) < UINT_LIMIT:
            return Uint(digits)
    raise _no_conversion(value, "uint")


def to_string(value: object) -> object:
    """Return a value as string."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Uint)):
        return str(int(value))
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, bytes):
        # It has no more characters, unless each is a byte.
        meter.make_text(len(value) // 4)
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise SelectorRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    raise _no_conversion(value, "string")


def to_duration(value: object) -> object:
    """Return a value as duration."""
    duration = parse_duration(value) if isinstance(value, str) else value
    if isinstance(duration, Duration):
        return duration
    raise _no_conversion(value, "google.protobuf.Duration")


def to_timestamp(value: object) -> object:
    """Return a value as timestamp."""
    if isinstance(value, int) and not isinstance(value, (bool, Uint)):
        return checked_timestamp(value * 10**9)
    timestamp = parse_timestamp(value) if isinstance(value, str) else value
    if isinstance(timestamp, Timestamp):
        return timestamp
    raise _no_conversion(value, "google.protobuf.Timestamp")
