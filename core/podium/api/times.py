"""Times as objects and reports carry them: whole seconds, and RFC 3339 text in UTC.

They are written and counted in many places that must not differ by a zone or by which way a fraction goes.
How a time of an object is read is in `meta`, beside the fields that hold one.
"""

from datetime import UTC, datetime

# 9999-12-31T23:59:59Z: what ends later cannot be written, and lasts for ever to anybody.
LAST_SECOND = 253_402_300_799


def seconds(moment: datetime) -> int:
    """Give the second since 1970 that a moment is in: all that an API server stores of one."""
    return int(moment.timestamp() // 1)


def written(moment: datetime) -> str:
    """Write a moment of any zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """Write a moment of any zone as metav1.MicroTime, of which an API server takes no other form."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def written_at(second: int) -> str:
    """Write a second since 1970, up to LAST_SECOND."""
    return written(datetime.fromtimestamp(second, UTC))
