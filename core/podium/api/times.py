"""Times in objects and reports: whole seconds, and RFC 3339 text in UTC.

Many modules write and count times, and must not differ in zone or rounding. The parser for an object's time
is in `meta`, beside the fields that hold times.
"""

from datetime import UTC, datetime

# 9999-12-31T23:59:59Z: a later end cannot be written, and counts as never.
LAST_SECOND = 253_402_300_799


def seconds(moment: datetime) -> int:
    """Return the seconds since 1970, rounded down: the precision that an API server stores."""
    return int(moment.timestamp() // 1)


def written(moment: datetime) -> str:
    """Return a time of any zone as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """Return a time of any zone as metav1.MicroTime, the only form that an API server accepts there."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def written_at(second: int) -> str:
    """Return a second since 1970, up to LAST_SECOND, as text."""
    return written(datetime.fromtimestamp(second, UTC))
