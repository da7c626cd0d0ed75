"""The history page: the scheduler's record of every preemption, plan by plan, the newest first.

Records name the pods and groups of everyone. A reader who may not read the pods of a namespace sees none of
its names, as in `podium why`. Kind and UID replace them, and messages, which may contain names, are left out
in that case.
"""

from collections.abc import Iterable, Mapping, Sequence

from podium.api.records import Mode, Party, PreemptionRecord, RecordedPlan, Result
from podium.cli.render.history_table import agreement_line, mode_line
from podium.cli.render.html import section, table, text
from podium.cli.render.words import amounts
from podium.cli.site.frame import Here, Surroundings, object_link, page, pager, select, sliced
from podium.schedulerplugin.scheduling.summary import Summary
from podium.why.departing import Known, named
from podium.wording import count, work

# Maximum number of units in a row; docs/ui.md states the number.
UNITS = 10

_MODES: Mapping[str, tuple[str, str]] = {
    Mode.ENFORCED: ("error", "enforced"),
    Mode.OBSERVED: ("info", "observed only"),
    Mode.SHADOW: ("plain", "shadow"),
}


def newest_first(records: Iterable[PreemptionRecord]) -> list[RecordedPlan]:
    """Return all plans, the newest first."""
    return sorted(
        (plan for record in records for plan in record.plans), key=lambda plan: plan.time, reverse=True
    )


def history(
    plans: Sequence[RecordedPlan], summary: Summary, known: Known, here: Here, around: Surroundings
) -> str:
    """Return the page; `summary` has the totals, `known` says for which namespaces names may be shown."""
    mode = here.query.get("mode", "")
    wanted = [plan for plan in plans if mode not in tuple(Mode) or plan.mode == mode]
    shown, part = sliced(wanted, here.query.get("page", ""))
    said = count(len(plans), "plan") if plans else "No plan"
    header = f"<h1>{said} of preemption {'is' if len(plans) <= 1 else 'are'} recorded.</h1>\n" + "".join(
        f"<p>{text(line)}</p>" for line in _lines(summary)
    )
    options = [("", "all"), *((each, _MODES[each][1]) for each in Mode)]
    choice = (
        f'<form class="ask" method="get" action="/history">{select("mode", "Mode", options, mode)}'
        "<button>Show</button></form>"
    )
    head = (
        '<th scope="col">Time</th><th scope="col">What</th><th scope="col">For</th>'
        '<th scope="col">Who went, or would have</th><th scope="col">Why, and how it ended</th>'
    )
    rows = [_row(plan, known) for plan in shown]
    body = "\n".join(
        [
            choice,
            table("Newest first", head, rows, len(rows), len(rows), kind="rows"),
            "" if wanted else '<p class="cut">There is none of these.</p>',
            pager(here, part, len(shown), len(wanted)),
        ]
    )
    return page("History", here, around, header, [section("plans", "Plan by plan", body) if plans else ""])


def _lines(summary: Summary) -> list[str]:
    lines = [mode_line(sums) for sums in summary.modes]
    if line := agreement_line(summary):
        lines.append(line)
    if summary.cycles:
        lines.append(
            f"Workloads evicted each other in {count(len(summary.cycles), 'circle')}: podium report."
        )
    return lines


def _row(plan: RecordedPlan, known: Known) -> str:
    style, mode = _MODES.get(plan.mode, ("plain", plan.mode))
    failed = ' <span class="badge error">failed</span>' if plan.result == Result.FAILED else ""
    theirs = f"; theirs: {count(plan.theirPods, 'pod')}"
    agreement = f'<p class="note">{text(plan.agreement)}{theirs}</p>' if plan.agreement else ""
    return (
        f'<tr><th scope="row" class="time">{text(plan.time)}</th>'
        f'<td><span class="badge {style}">{text(mode)}</span>{failed}{agreement}</td>'
        f"<td>{_party(plan.preemptor, known)}</td><td>{_units(plan, known)}</td>"
        f"<td>{_end(plan, known)}</td></tr>"
    )


def _party(party: Party, known: Known) -> str:
    whom = named(party, known)
    name = object_link(whom.kind, whom.namespace, whom.name) if whom.name else text(str(whom))
    kind = "group" if whom.kind == "PodGroup" else "pod" if whom.kind == "Pod" else whom.kind
    of = f", {party.pods:,} pods" if party.pods > 1 else ""
    return f'{name} <span class="note">{text(kind)}, priority {party.priority}{of}</span>'


def _units(plan: RecordedPlan, known: Known) -> str:
    items = [f"<li>{_party(unit, known)}</li>" for unit in plan.units[:UNITS]]
    more = plan.unitCount - len(items)
    if more > 0:
        items.append(f'<li class="cut">{more:,} more</li>')
    return f'<ul class="plain">{"".join(items)}</ul>' if items else "nobody"


def _end(plan: RecordedPlan, known: Known) -> str:
    parts = [count(plan.podCount, "pod"), *amounts(plan.accelerators)]
    if plan.domain:
        parts.append("across the cluster" if plan.domain == "cluster" else f"on node {plan.domain}")
    if plan.acceleratorSeconds:
        parts.append(f"{work(plan.acceleratorSeconds)} of work lost")
    if plan.violations:
        parts.append(f"{count(plan.violations, 'pod')} against a PodDisruptionBudget")
    if plan.milliseconds:
        parts.append(f"{plan.milliseconds:,} ms")
    all_known = all(known(party.namespace) for party in (plan.preemptor, *plan.units))
    message = f'<p class="note">{text(plan.message)}</p>' if plan.message and all_known else ""
    return f"{text(', '.join(parts))}{message}"
