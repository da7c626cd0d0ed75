"""Preemptions on a timeline: for each mode a lane of bars, one bar for the plans of a span of time.

The height of a bar is the number of pods, on one scale for all lanes.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from podium.api.records import PlanMode, RecordedPlan, Result
from podium.api.times import LAST_SECOND, seconds, written_at
from podium.cli.render.pictures.drawing import Anchor, Box, Drawing, Label, Spot, Style
from podium.history.records import moment_of
from podium.text import count

# Maximum number of spans of time; docs/ui.md states the number.
SPANS = 60
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# The lengths of a span in seconds; a longer history has spans of some multiple of the last.
_LENGTHS = (_MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY)
_FAILED, _OTHER = "Enforced, failed", "Other modes"
_LANES: Mapping[str, str] = {PlanMode.ENFORCED: "Enforced", PlanMode.OBSERVED: "Observed only"}
_ORDER = ("Enforced", _FAILED, "Observed only", _OTHER)
# A lane: the baseline of its label, the top and height of its bars, and its whole height; the axis below.
_BASE, _TOP, _BARS, _LANE, _AXIS = 12, 18, 36, 62, 18
# The height of a bar of no pods, as of a plan that failed at once.
_LEAST = 3
# The share of a span that its bar takes.
_WIDTH = 0.8
# 0001-01-01T00:00:00Z
_FIRST_SECOND = -62_135_596_800


class _Sum(NamedTuple):
    """The plans of a lane in a span: their number, and the pods that they preempt."""

    plans: int = 0
    pods: int = 0


class _TimeAxis(NamedTuple):
    """The start of the first span, the length of each (both in seconds), and their number."""

    start: int
    length: int
    spans: int

    def time(self, span: int) -> str:
        """Return the start of a span as text, to the minute, or to the day if spans are days."""
        second = min(max(self.start + span * self.length, _FIRST_SECOND), LAST_SECOND)
        moment = written_at(second).rjust(len("2026-11-24T09:00:00Z"), "0")
        return moment[:10] if self.length % _DAY == 0 else moment[:16].replace("T", " ")


def timeline(plans: Iterable[RecordedPlan]) -> Drawing | None:
    """Return the picture of plans; None if no plan has a time."""
    timed = [(seconds(moment), plan) for plan in plans if (moment := moment_of(plan)) is not None]
    if not timed:
        return None
    axis = _axis(min(at for at, _ in timed), max(at for at, _ in timed))
    lanes: dict[str, dict[int, _Sum]] = {lane: {} for lane in _ORDER}
    for at, plan in timed:
        lane, span = lanes[_lane(plan)], (at - axis.start) // axis.length
        before = lane.get(span, _Sum())
        lane[span] = _Sum(before.plans + 1, before.pods + max(plan.podCount, 0))
    return _drawing({lane: sums for lane, sums in lanes.items() if sums}, axis)


def _axis(first: int, last: int) -> _TimeAxis:
    """Return at most SPANS spans of a round length that hold both times."""
    week = _LENGTHS[-1]
    length = next((each for each in _LENGTHS if last // each - first // each < SPANS), 0)
    length = length or -(-(last - first) // week // (SPANS - 1)) * week + week
    return _TimeAxis(first // length * length, length, last // length - first // length + 1)


def _lane(plan: RecordedPlan) -> str:
    if plan.result == Result.FAILED:
        return _FAILED
    return _LANES.get(plan.mode, _OTHER)


def _drawing(lanes: Mapping[str, Mapping[int, _Sum]], axis: _TimeAxis) -> Drawing:
    most = max(each.pods for sums in lanes.values() for each in sums.values())
    width = round(100 / axis.spans, 2)
    boxes: list[Box] = []
    spots: list[Spot] = []
    labels: list[Label] = []
    totals = []
    for number, (lane, sums) in enumerate(lanes.items()):
        top = number * _LANE
        total = _Sum(sum(each.plans for each in sums.values()), sum(each.pods for each in sums.values()))
        totals.append(f"{lane}: {_words(total)}")
        labels.append(Label(totals[-1], 0, top + _BASE))
        bottom = top + _TOP + _BARS
        boxes.append(Box(Style.LINE, 0, bottom, 100, 1))
        for span, each in sorted(sums.items()):
            x, height = round(100 * span / axis.spans, 2), max(_LEAST, _BARS * each.pods / max(most, 1))
            boxes.append(Box(Style.EVENT, x, bottom - height, round(width * _WIDTH, 2), height))
            times = f"{axis.time(span)} to {axis.time(span + 1)} UTC"
            spots.append(Spot(f"{lane}, {times}: {_words(each)}", x, top + _TOP, width, _BARS))
    labels.append(Label(f"highest bar: {count(most, 'pod')}", 100, _BASE, Anchor.END, muted=True))
    bottom = len(lanes) * _LANE + _BASE
    labels += [
        Label(axis.time(0), 0, bottom, muted=True),
        Label(axis.time(axis.spans), 100, bottom, Anchor.END, muted=True),
    ]
    title = f"Preemptions from {axis.time(0)} to {axis.time(axis.spans)} UTC"
    return Drawing(title, "; ".join(totals), bottom - _BASE + _AXIS, boxes, spots, labels, stretched=True)


def _words(each: _Sum) -> str:
    return f"{count(each.plans, 'plan')}, {count(each.pods, 'pod')}"
