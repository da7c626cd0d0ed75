"""`podium report` on a terminal: a summary, then victims, preemptors, failures and cycles."""

from collections.abc import Sequence

from podium.api.records import Party, PlanMode, RecordedPlan
from podium.cli.render.text import Layout
from podium.cli.render.words import amounts, saving_parts
from podium.history.summary import Amount, ModeSums, Share, Summary
from podium.text import accelerator_time, count

# Maximum lengths of the lists in the table; docs/history.md states these numbers.
SHARES = 10
PLANS = 5

_NOTHING = Amount(0, 0)
_DID: dict[str, str] = {
    PlanMode.ENFORCED: "Preemption evicted",
    PlanMode.OBSERVED: "Preemption (observed only) would have evicted",
}


def history_table(summary: Summary, layout: Layout) -> str:
    """Return the summary in the layout's width."""
    layout.paragraph(f"{count(summary.plans, 'plan')} from {summary.since} to {summary.until}.", style="bold")
    for sums in summary.modes:
        layout.paragraph(mode_line(sums))
    if summary.cycles:
        circles = count(len(summary.cycles), "cycle")
        layout.paragraph(f"Workloads evicted each other in {circles}.", style="error")
    if summary.begins > summary.since:
        layout.paragraph(
            f"The records begin at {summary.begins}; earlier preemptions are not known.", style="dim"
        )
    _shares(layout, "Preempted pods, by namespace", "NAMESPACE", summary.victims)
    _shares(layout, "Preemptors, by namespace", "NAMESPACE", summary.preemptors)
    _shares(layout, "Preempted pods, by priority", "PRIORITY", summary.priorities)
    _failed(layout, summary.failed)
    _cycles(layout, summary)
    layout.listing(
        "Workloads that did not save their work twice in a row",
        ("WORKLOAD",),
        summary.untrusted,
        _row,
        limit=SHARES,
    )
    return layout.text()


def mode_line(sums: ModeSums) -> str:
    """Return a sentence on what all plans of a mode evicted, or would have."""
    taken = [count(sums.pods, "pod"), *amounts(sums.accelerators)]
    units = f"{count(sums.units, 'unit')} ({', '.join(taken)})"
    parts = [f"{_DID[sums.mode]} {units} in {count(sums.plans, 'plan')}"]
    if sums.failed:
        parts.append(f"{sums.failed:,} failed")
    if sums.acceleratorSeconds:
        parts.append(f"{accelerator_time(sums.acceleratorSeconds)} of work lost")
    parts += saving_parts(
        sums.acceleratorSecondsSaved, sums.askedPods, sums.savedPods, sums.waitedMilliseconds
    )
    if sums.violations:
        parts.append(f"{count(sums.violations, 'pod')} in violation of a PodDisruptionBudget")
    return f"{'; '.join(parts)}."


def party(subject: Party) -> str:
    """Return the name of a pod or group."""
    return f"{subject.kind} {subject.namespace}/{subject.name}"


def _shares(layout: Layout, title: str, label: str, shares: Sequence[Share]) -> None:
    # A mode without plans has no columns.
    modes = [mode for mode in PlanMode if any(_mode_amount(share, mode) != _NOTHING for share in shares)]

    def row(share: Share) -> list[str | int]:
        of_modes = [_mode_amount(share, mode) for mode in modes]
        return [share.name, *(number for numbers in of_modes for number in (numbers.units, numbers.pods))]

    header = [label, *(name for mode in modes for name in (f"{mode.upper()} UNITS", "PODS"))]
    right = (0,) if label == "PRIORITY" else ()
    layout.listing(title, header, shares, row, limit=SHARES, right=right)


def _mode_amount(share: Share, mode: PlanMode) -> Amount:
    return {PlanMode.ENFORCED: share.enforced, PlanMode.OBSERVED: share.observed}[mode]


def _failed(layout: Layout, plans: Sequence[RecordedPlan]) -> None:
    layout.listing(
        "Failed preemptions, newest first",
        ("TIME", "FOR", "PODS EVICTED", "WHY"),
        plans,
        lambda plan: (plan.time, party(plan.preemptor), plan.podCount, plan.message),
        limit=PLANS,
    )


def _row(workload: str) -> tuple[str]:
    return (workload,)


def _cycles(layout: Layout, summary: Summary) -> None:
    layout.listing(
        "Eviction cycles",
        ("ROUNDS", "LAST", "CYCLE"),
        summary.cycles,
        lambda cycle: (cycle.rounds, cycle.last, " > ".join([*cycle.workloads, cycle.workloads[0]])),
        limit=SHARES,
    )
