"""Computes how long a preemptor waits for an autoscaler to add nodes before pods are evicted for it.

Where nodes can be bought, waiting some minutes is cheaper than the work that an eviction destroys. The
administrator sets the time by PriorityClass. A group may wait longer, because it only delays its own start.
It may not wait less, because the victims are not its own.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from podium.api.core import PriorityClass
from podium.api.durations import seconds
from podium.api.groups import PODIUM_GROUP, PodGroup

# An annotation on a PodGroup or a PriorityClass: the delay of evictions after room was first missing.
DELAY_ANNOTATION: Final = f"{PODIUM_GROUP}/preemption-delay"
_LONGEST: Final = timedelta(hours=24)


class Delay(NamedTuple):
    """The time to wait before the first eviction, and in sentences the problems of the annotations."""

    length: timedelta
    problem: str = ""


def delay(group: PodGroup | None, found: PriorityClass | None) -> Delay:
    """Return the longer of the delays in the annotations of a group and of the preemptor's class.

    An annotation that cannot be read is ignored.
    """
    problems: list[str] = []
    lengths = [timedelta(0)]
    for kind, obj in (("PodGroup", group), ("PriorityClass", found)):
        annotations = obj.metadata.annotations if obj is not None else None
        text = annotations.get(DELAY_ANNOTATION) if annotations else None
        if obj is None or text is None:
            continue
        length = seconds(text)
        if length is not None and length <= _LONGEST.total_seconds():
            lengths.append(timedelta(seconds=length))
            continue
        problems.append(
            f"The annotation {DELAY_ANNOTATION} of {kind} {obj.metadata.name} is ignored: {text[:40]!r} is no"
            " duration of at most 24h, such as 90s, 5m or 1h30m."
        )
    return Delay(max(lengths), " ".join(problems))


def deadline(since: datetime, length: timedelta) -> datetime | None:
    """Return when the first eviction may be, for a preemptor without room since `since`; None for at once."""
    return since + length if length else None
