"""How long a preemptor leaves an autoscaler the time to bring nodes before anybody is evicted for it.

Where nodes can be bought, a few minutes of patience are cheaper than the work that an eviction throws away;
how many is the administrator's choice by PriorityClass. A group may wait longer, for it is only its own start
that it puts off, but no shorter: what is evicted is not its own.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from podium.api.core import PriorityClass
from podium.api.durations import seconds
from podium.api.groups import PODIUM_GROUP, PodGroup

# An annotation on a PodGroup or a PriorityClass: nothing is evicted for so long after room was first missing.
DELAY_ANNOTATION: Final = f"{PODIUM_GROUP}/preemption-delay"
_LONGEST: Final = timedelta(hours=24)


class Delay(NamedTuple):
    """How long to wait before the first eviction, and in sentences what is wrong with how that is written."""

    length: timedelta
    problem: str = ""


def delay(group: PodGroup | None, found: PriorityClass | None) -> Delay:
    """Give the longer of what the annotations of a group and of the preemptor's class say.

    What cannot be read counts as not written.
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
    """Give when the first eviction may be, for who found no room since then; None if it need not wait."""
    return since + length if length else None
