"""The history page: the scheduler's record of every preemption, plan by plan, the newest first.

Records name the pods and groups of everyone. A reader who may not read the pods of a namespace sees none of
its names, as in `podium why`. Kind and UID replace them, and messages, which may contain names, are left out
in that case.
"""

from collections.abc import Iterable, Mapping, Sequence

from podium.answers.accounts.disruptions import named
from podium.api.records import Party, PlanMode, PreemptionRecord, RecordedPlan, Result
from podium.cli.render.history_table import mode_line
from podium.cli.render.html import Cell, section, table, text
from podium.cli.render.pictures.svg import svg
from podium.cli.render.pictures.timeline import timeline
from podium.cli.render.words import amounts
from podium.cli.ui.frame import Here, PageContext, object_link, page, pager, select, sliced
from podium.documents.reading import Known
from podium.history.summary import Summary
from podium.text import accelerator_time, count

# Maximum number of units in a row; docs/ui.md states the number.
UNITS = 10

_MODES: Mapping[str, tuple[str, str]] = {
    PlanMode.ENFORCED: ("error", "enforced"),
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
    wanted = [plan for plan in plans if mode not in tuple(PlanMode) or plan.mode == mode]
    shown, part = sliced(wanted, here.query.get("page", ""))
    number = count(len(plans), "plan") if plans else "No plan"
    header = f"<h1>{number} of preemption {'is' if len(plans) <= 1 else 'are'} recorded.</h1>\n" + "".join(
        f"<p>{text(line)}</p>" for line in _lines(summary)
    )
    options = [("", "all"), *((each, _MODES[each][1]) for each in PlanMode)]
    choice = (
        f'<form class="ask" method="get" action="/history">{select("mode", "Mode", options, mode)}'
        "<button>Show</button></form>"
    )
    names = ("Time", "Mode", "Preemptor", "Victims, real or planned", "Reason and result")
    body = "\n".join(
        [
            choice,
            table("Newest first", names, shown, lambda plan: _row(plan, known), kind="rows"),
            "" if wanted else '<p class="cut">No match.</p>',
            pager(here, part, len(shown), len(wanted)),
        ]
    )
    sections = [_timeline(wanted), section("plans", "Plans", body) if plans else ""]
    return page("History", here, around, header, sections)


def _timeline(plans: Sequence[RecordedPlan]) -> str:
    drawn = timeline(plans)
    if drawn is None:
        return ""
    words = "Preempted pods, in UTC. The height of a bar is the number of pods."
    return section("timeline", "Timeline", f'<p>{words}</p><div class="panel">{svg(drawn)}</div>')


def _lines(summary: Summary) -> list[str]:
    lines = [mode_line(sums) for sums in summary.modes]
    if summary.cycles:
        lines.append(f"Workloads evicted each other in {count(len(summary.cycles), 'cycle')}: podium report.")
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
    if plan.violations:
        parts.append(f"{count(plan.violations, 'pod')} in violation of a PodDisruptionBudget")
    if plan.milliseconds:
        parts.append(f"{plan.milliseconds:,} ms")
    all_known = all(known(party.namespace) for party in (plan.preemptor, *plan.units))
    message = f'<p class="note">{text(plan.message)}</p>' if plan.message and all_known else ""
    return f"{text(', '.join(parts))}{message}"
