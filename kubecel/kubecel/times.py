"""Durations and timestamps: their texts and their parts.

Source: cel-go common/types/timestamp.go and duration.go, Go time.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from kubecel.effort import SEARCHED, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.gotext import plain
from kubecel.operators import checked_timestamp
from kubecel.values import INT_LIMIT, Duration, Timestamp

_SECOND = 10**9
# The effort of looking for the file of a time zone.
_FILE = 500
_MAX_DIGITS = 18
_UNITS = {
    "ns": 1, "us": 1000, "\xb5s": 1000, "\u03bcs": 1000, "ms": 10**6, "s": _SECOND,
    "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART = re.compile(r"([0-9]*+)(?:(\.)([0-9]*+))?([^0-9.]++)")
_STAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T"
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> Duration | None:
    """Return the duration of a text such as 1h30m; None if it is none."""
    body = text[1:] if text[:1] in {"-", "+"} else text
    if body == "0":
        return Duration(0)
    total, place = 0, 0
    while place < len(body):
        match = _PART.match(body, place)
        if match is None or not (match[1] or match[3]) or match[4] not in _UNITS:
            return None
        unit = _UNITS[match[4]]
        total += int(match[1] or 0) * unit if len(match[1]) < 25 else INT_LIMIT * 2
        if match[3]:
            digits = match[3][:18]
            total += int(digits) * unit // 10 ** len(digits)
        place = match.end()
    nanos = -total if text.startswith("-") else total
    return Duration(nanos) if body and -INT_LIMIT <= nanos < INT_LIMIT else None


def parse_timestamp(text: str) -> Timestamp | None:
    """Return the instant of a text of RFC 3339; None if it is none. Raises SelectorRuntimeError."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(field) for field in match.groups()[:6])
    zone = match[8]
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 60 + minutes) * 60 * (-1 if zone[0] == "-" else 1)
    try:
        moment = datetime(max(year, 1), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = round((moment - _EPOCH).total_seconds()) - offset
    if year == 0:
        seconds -= 366 * 86400
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * _SECOND + fraction, offset)


def _moment(value: Timestamp, offset: timezone | ZoneInfo) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // _SECOND)).astimezone(offset)
    except OverflowError:
        raise SelectorRuntimeError("timestamp overflow") from None


def timestamp_text(value: Timestamp) -> str:
    """Return the text of RFC 3339, with as many digits as needed."""
    moment = _moment(value, timezone(timedelta(seconds=value.offset)))
    fraction = f"{value.nanos % _SECOND:09d}".rstrip("0")
    zone = moment.strftime("%z")
    shown = "Z" if value.offset == 0 else f"{zone[:3]}:{zone[3:5]}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + (f".{fraction}" if fraction else "") + shown


def duration_text(value: Duration) -> str:
    """Return the text of a duration in seconds."""
    seconds, rest = divmod(abs(value.nanos), _SECOND)
    total = float(seconds) + rest / 1e9
    return plain(-total if value.nanos < 0 else total) + "s"


def _zone(text: str, minor: int) -> timezone | ZoneInfo:
    meter.spend(len(text) // SEARCHED)
    hours, colon, minutes = text.partition(":")
    if not colon:
        if text in {"", "UTC"}:
            return UTC
        meter.spend(_FILE)
        try:
            return ZoneInfo(text)
        except (OSError, ValueError, KeyError):
            raise SelectorRuntimeError(f"unknown time zone {text}") from None
    numbers = []
    for number in (hours, minutes):
        if not re.fullmatch(r"[+-]?[0-9]+", number):
            raise SelectorRuntimeError(f'strconv.Atoi: parsing "{number}": invalid syntax')
        if len(number) > _MAX_DIGITS:
            raise SelectorRuntimeError(f'strconv.Atoi: parsing "{number}": value out of range')
        numbers.append(int(number))
    if minor >= 37 and not 0 <= numbers[1] <= 59:
        raise SelectorRuntimeError(f"timezone offset minutes out of range [0, 59]: {text}")
    offset = numbers[0] * 60 + (-numbers[1] if text[0] == "-" else numbers[1])
    try:
        return timezone(timedelta(minutes=offset))
    except (ValueError, OverflowError):
        raise SelectorRuntimeError(f"timezone offset out of range: {text}") from None


_PARTS = {
    "getFullYear": lambda m: m.year,
    "getMonth": lambda m: m.month - 1,
    "getDayOfYear": lambda m: m.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda m: m.day - 1,
    "getDate": lambda m: m.day,
    "getDayOfWeek": lambda m: m.isoweekday() % 7,
    "getHours": lambda m: m.hour,
    "getMinutes": lambda m: m.minute,
    "getSeconds": lambda m: m.second,
}
_SPANS = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}
PARTS = (*_PARTS, "getMilliseconds")


def part(name: str, minor: int, value: Timestamp | Duration, zone: str = "UTC") -> int:
    """Return a part of an instant in a time zone, or a duration in a unit, rounded towards zero."""
    if isinstance(value, Duration):
        units = abs(value.nanos) // _SPANS[name]
        return -units if value.nanos < 0 else units
    if name == "getMilliseconds":
        return value.nanos % _SECOND // 10**6
    return int(_PARTS[name](_moment(value, _zone(zone, minor))))
