"""`podium report` on a terminal: a summary, then who lost pods to whom, and where plans differed."""

from collections.abc import Sequence

from podium.api.records import Mode, Party, RecordedPlan
from podium.cli.render.text import Layout
from podium.cli.render.words import amounts, visible
from podium.schedulerplugin.scheduling.summary import Amount, ModeSums, Share, Summary
from podium.wording import count, listed, work

# Maximum lengths of the lists in the table; docs/history.md states these numbers.
SHARES = 10
PLANS = 5

_NOTHING = Amount(0, 0)
_DID: dict[str, str] = {
    Mode.ENFORCED: "Preemption evicted",
    Mode.OBSERVED: "Observed only, preemption would have evicted",
    Mode.SHADOW: "For pods of other schedulers Podium would have evicted",
}


def history_table(summary: Summary, layout: Layout) -> str:
    """Return the summary in the layout's width."""
    layout.paragraph(f"{count(summary.plans, 'plan')} from {summary.since} to {summary.until}.", style="bold")
    for sums in summary.modes:
        layout.paragraph(visible(mode_line(sums)))
    if line := agreement_line(summary):
        layout.paragraph(visible(line))
    if summary.cycles:
        circles = count(len(summary.cycles), "circle")
        layout.paragraph(f"Workloads evicted each other in {circles}.", style="error")
    if summary.begins > summary.since:
        layout.paragraph(f"The records begin at {summary.begins}; nothing is known of before.", style="dim")
    _shares(layout, "Who lost, by namespace", "NAMESPACE", summary.victims)
    _shares(layout, "For whom, by namespace", "NAMESPACE", summary.preemptors)
    _shares(layout, "Who lost, by priority", "PRIORITY", summary.priorities)
    _agreements(layout, summary)
    _differing(layout, summary.differing)
    _failed(layout, summary.failed)
    _cycles(layout, summary)
    return layout.text()


def mode_line(sums: ModeSums) -> str:
    """Return a sentence on what all plans of a mode evicted, or would have."""
    taken = [count(sums.pods, "pod"), *amounts(sums.accelerators)]
    units = f"{count(sums.units, 'unit')} ({', '.join(taken)})"
    parts = [f"{_DID[sums.mode]} {units} in {count(sums.plans, 'plan')}"]
    if sums.failed:
        parts.append(f"{sums.failed:,} failed")
    if sums.acceleratorSeconds:
        parts.append(f"{work(sums.acceleratorSeconds)} of work lost")
    if sums.violations:
        parts.append(f"{count(sums.violations, 'pod')} against a PodDisruptionBudget")
    return f"{'; '.join(parts)}."


def agreement_line(summary: Summary) -> str:
    """Return how the shadow's plans compare with the actions of other schedulers, in numbers."""
    if not summary.agreements:
        return ""
    parts = [f"{each.plans:,} {each.agreement}" for each in summary.agreements]
    theirs = sum(each.theirPods for each in summary.agreements)
    return f"Beside the other schedulers: {listed(parts)}; those evicted {count(theirs, 'pod')}."


def party(each: Party) -> str:
    """Return the name of a pod or group."""
    return f"{each.kind} {each.namespace}/{each.name}"


def _shares(layout: Layout, title: str, what: str, shares: Sequence[Share]) -> None:
    if not shares:
        return
    layout.heading(title)
    # A mode without plans has no columns.
    modes = [mode for mode in Mode if any(_of(each, mode) != _NOTHING for each in shares)]
    header, rows = [what], [[visible(each.name)] for each in shares[:SHARES]]
    for mode in modes:
        header += [f"{mode.upper()} UNITS", "PODS"]
        for row, each in zip(rows, shares[:SHARES], strict=True):
            amount = _of(each, mode)
            row += [f"{amount.units:,}", f"{amount.pods:,}"]
    right = range(0 if what == "PRIORITY" else 1, len(header))
    layout.columns(header, rows, right=right)
    _cut(layout, len(shares), SHARES)


def _of(share: Share, mode: Mode) -> Amount:
    return {Mode.ENFORCED: share.enforced, Mode.OBSERVED: share.observed, Mode.SHADOW: share.shadow}[mode]


def _agreements(layout: Layout, summary: Summary) -> None:
    if not summary.agreements:
        return
    layout.heading("Podium's plans and what the other schedulers did")
    rows = [
        (visible(each.agreement), f"{each.plans:,}", f"{each.pods:,}", f"{each.theirPods:,}")
        for each in summary.agreements
    ]
    layout.columns(("AGREEMENT", "PLANS", "PODS OF PODIUM'S PLANS", "PODS OF THEIRS"), rows, right=(1, 2, 3))


def _differing(layout: Layout, plans: Sequence[RecordedPlan]) -> None:
    if not plans:
        return
    layout.heading("Where they differed, newest first")
    rows = [
        (
            visible(plan.time),
            visible(party(plan.preemptor)),
            visible(plan.agreement),
            f"{plan.podCount:,}",
            f"{plan.theirPods:,}",
            _units(plan),
        )
        for plan in plans[:PLANS]
    ]
    header = ("TIME", "FOR", "AGREEMENT", "PODS", "THEIRS", "PODIUM'S PLAN")
    layout.columns(header, rows, right=(3, 4))
    _cut(layout, len(plans), PLANS)


def _units(plan: RecordedPlan) -> str:
    """Return the names of a plan's first units, and the number of the others."""
    shown = [visible(party(unit)) for unit in plan.units[:2]]
    more = plan.unitCount - len(shown)
    return ", ".join([*shown, f"{more:,} more"] if more > 0 else shown) or "nobody"


def _failed(layout: Layout, plans: Sequence[RecordedPlan]) -> None:
    if not plans:
        return
    layout.heading("Preemptions that failed, newest first")
    rows = [
        (
            visible(plan.time),
            visible(party(plan.preemptor)),
            f"{plan.podCount:,}",
            visible(plan.message),
        )
        for plan in plans[:PLANS]
    ]
    layout.columns(("TIME", "FOR", "PODS EVICTED", "WHY"), rows, right=(2,))
    _cut(layout, len(plans), PLANS)


def _cycles(layout: Layout, summary: Summary) -> None:
    if not summary.cycles:
        return
    layout.heading("Who evicted each other")
    rows = [
        (f"{each.rounds:,}", visible(each.last), visible(" > ".join([*each.workloads, each.workloads[0]])))
        for each in summary.cycles[:SHARES]
    ]
    layout.columns(("ROUNDS", "LAST", "WHO EVICTED WHOM"), rows, right=(0,))
    _cut(layout, len(summary.cycles), SHARES)


def _cut(layout: Layout, total: int, limit: int) -> None:
    if total > limit:
        layout.paragraph(f"... and {total - limit:,} more (-o json has all)", indent="  ", style="dim")
