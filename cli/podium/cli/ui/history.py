"""The history page: the scheduler's record of every preemption, plan by plan, the newest first.

Records name the pods and groups of everyone. A reader who may not read the pods of a namespace sees none of
its names, as in `podium why`. Kind and UID replace them, and messages, which may contain names, are left out
in that case.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.answers.accounts.disruptions import named
from podium.api.records import Party, PlanMode, PreemptionRecord, RecordedPlan, Result
from podium.api.times import LAST_SECOND, seconds, written_at
from podium.cli.render.history_table import mode_line
from podium.cli.render.html import Cell, section, table, text
from podium.cli.render.pictures.drawing import Anchor, Box, Drawing, Label, Spot, Style, svg
from podium.cli.render.words import amounts, saving_parts
from podium.cli.ui.page_parts import Here, PageContext, object_link, page, pager, select, sliced
from podium.documents.reading import Known
from podium.history.records import moment_of
from podium.history.summary import Summary
from podium.history.trust import Trust
from podium.text import accelerator_time, count, some

# Maximum number of units in a row; docs/ui.md states the number.
UNITS = 10

_MODES: Mapping[str, tuple[str, str]] = {
    PlanMode.ENFORCED: ("plain", "enforced"),
    PlanMode.OBSERVED: ("info", "observed only"),
}


def newest_first(records: Iterable[PreemptionRecord]) -> list[RecordedPlan]:
    """Return all plans, the newest first."""
    return sorted(
        (plan for record in records for plan in record.plans), key=lambda plan: plan.time, reverse=True
    )


def history(
    plans: Sequence[RecordedPlan], summary: Summary, known: Known, here: Here, around: PageContext
) -> str:
    """Return the page; `summary` has the totals, `known` says for which namespaces names may be shown."""
    mode = here.query.get("mode", "")
    chosen = [plan for plan in plans if mode not in tuple(PlanMode) or plan.mode == mode]
    shown, position = sliced(chosen, here.query.get("page", ""))
    number = count(len(plans), "plan") if plans else "No plan"
    header = f"<h1>{number} of preemption {'is' if len(plans) <= 1 else 'are'} recorded.</h1>\n" + "".join(
        f"<p>{text(line)}</p>" for line in _lines(summary, plans, known)
    )
    options = [("", "all"), *((plan_mode, _MODES[plan_mode][1]) for plan_mode in PlanMode)]
    choice = (
        f'<form class="ask" method="get" action="/history">{select("mode", "Mode", options, mode)}'
        "<button>Show</button></form>"
    )
    names = ("Time", "Mode", "Preemptor", "Victims, real or planned", "Reason and result")
    body = "\n".join(
        [
            choice,
            table("Newest first", names, shown, lambda plan: _row(plan, known), kind="rows"),
            "" if chosen else '<p class="cut">No match.</p>',
            pager(here, position, len(shown), len(chosen)),
        ]
    )
    sections = [_timeline(chosen), section("plans", "Plans", body) if plans else ""]
    return page("History", here, around, header, sections)


def _timeline(plans: Sequence[RecordedPlan]) -> str:
    drawn = timeline(plans)
    if drawn is None:
        return ""
    words = "Preempted pods, in UTC. The height of a bar is the number of pods."
    return section("timeline", "Timeline", f'<p>{words}</p><div class="panel">{svg(drawn)}</div>')


def _lines(summary: Summary, plans: Sequence[RecordedPlan], known: Known) -> list[str]:
    lines = [mode_line(sums) for sums in summary.modes]
    if summary.cycles:
        lines.append(f"Workloads evicted each other in {count(len(summary.cycles), 'cycle')}: podium report.")
    untrusted = Trust([PreemptionRecord(plans=[*plans])]).untrusted
    names = [f"{kind} {namespace}/{name}" for kind, namespace, name in sorted(untrusted) if known(namespace)]
    if names:
        lines.append(f"Not trusted to save their work as declared: {some(names)}.")
    return lines


def _row(plan: RecordedPlan, known: Known) -> tuple[Cell | str, ...]:
    style, mode = _MODES.get(plan.mode, ("plain", plan.mode))
    failed = ' <span class="badge error">failed</span>' if plan.result == Result.FAILED else ""
    time, badge = Cell(text(plan.time), ' class="time"'), f'<span class="badge {style}">{text(mode)}</span>'
    preemptor, victims = _party(plan.preemptor, known), _units(plan, known)
    return time, f"{badge}{failed}", preemptor, victims, _ending(plan, known)


def _party(party: Party, known: Known) -> str:
    preempting = named(party, known)
    name = (
        object_link(preempting.kind, preempting.namespace, preempting.name)
        if preempting.name
        else text(str(preempting))
    )
    kind = (
        "group" if preempting.kind == "PodGroup" else "pod" if preempting.kind == "Pod" else preempting.kind
    )
    of = f", {party.pods:,} pods" if party.pods > 1 else ""
    return f'{name} <span class="note">{text(kind)}, priority {party.priority}{of}</span>'


def _units(plan: RecordedPlan, known: Known) -> str:
    items = [f"<li>{_party(unit, known)}</li>" for unit in plan.units[:UNITS]]
    more = plan.unitCount - len(items)
    if more > 0:
        items.append(f'<li class="cut">{more:,} more</li>')
    return f'<ul class="plain">{"".join(items)}</ul>' if items else "none"


def _ending(plan: RecordedPlan, known: Known) -> str:
    parts = [count(plan.podCount, "pod"), *amounts(plan.accelerators)]
    if plan.domain:
        parts.append("across the cluster" if plan.domain == "cluster" else f"on node {plan.domain}")
    if plan.acceleratorSeconds:
        parts.append(f"{accelerator_time(plan.acceleratorSeconds)} of work lost")
    parts += saving_parts(
        plan.acceleratorSecondsSaved, plan.askedPods, plan.savedPods, plan.waitedMilliseconds
    )
    if plan.violations:
        parts.append(f"{count(plan.violations, 'pod')} in violation of a PodDisruptionBudget")
    if plan.milliseconds:
        parts.append(f"{plan.milliseconds:,} ms")
    all_known = all(known(party.namespace) for party in (plan.preemptor, *plan.units))
    message = f'<p class="note">{text(plan.message)}</p>' if plan.message and all_known else ""
    return f"{text(', '.join(parts))}{message}"


# Preemptions on a timeline: for each mode a lane of bars, one bar for the plans of a span of time.
#
# The height of a bar is the number of pods, on one scale for all lanes.


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
    length = next((span for span in _LENGTHS if last // span - first // span < SPANS), 0)
    length = length or -(-(last - first) // week // (SPANS - 1)) * week + week
    return _TimeAxis(first // length * length, length, last // length - first // length + 1)


def _lane(plan: RecordedPlan) -> str:
    if plan.result == Result.FAILED:
        return _FAILED
    return _LANES.get(plan.mode, _OTHER)


def _drawing(lanes: Mapping[str, Mapping[int, _Sum]], axis: _TimeAxis) -> Drawing:
    most = max(amount.pods for sums in lanes.values() for amount in sums.values())
    width = round(100 / axis.spans, 2)
    boxes: list[Box] = []
    spots: list[Spot] = []
    labels: list[Label] = []
    totals = []
    for number, (lane, sums) in enumerate(lanes.items()):
        top = number * _LANE
        total = _Sum(
            sum(amount.plans for amount in sums.values()), sum(amount.pods for amount in sums.values())
        )
        totals.append(f"{lane}: {_words(total)}")
        labels.append(Label(totals[-1], 0, top + _BASE))
        bottom = top + _TOP + _BARS
        boxes.append(Box(Style.LINE, 0, bottom, 100, 1))
        for span, amount in sorted(sums.items()):
            x, height = round(100 * span / axis.spans, 2), max(_LEAST, _BARS * amount.pods / max(most, 1))
            boxes.append(Box(Style.EVENT, x, bottom - height, round(width * _WIDTH, 2), height))
            times = f"{axis.time(span)} to {axis.time(span + 1)} UTC"
            spots.append(Spot(f"{lane}, {times}: {_words(amount)}", x, top + _TOP, width, _BARS))
    labels.append(Label(f"highest bar: {count(most, 'pod')}", 100, _BASE, Anchor.END, muted=True))
    bottom = len(lanes) * _LANE + _BASE
    labels += [
        Label(axis.time(0), 0, bottom, muted=True),
        Label(axis.time(axis.spans), 100, bottom, Anchor.END, muted=True),
    ]
    title = f"Preemptions from {axis.time(0)} to {axis.time(axis.spans)} UTC"
    return Drawing(title, "; ".join(totals), bottom - _BASE + _AXIS, boxes, spots, labels, stretched=True)


def _words(amount: _Sum) -> str:
    return f"{count(amount.plans, 'plan')}, {count(amount.pods, 'pod')}"
