"""The sentences of `podium whatif`, shared by the table and the page: three lines before any list.

The first states the outcome and the place, the second the cost for others, the third the reason, or an
alternative. Every name in them comes from outside, so a format escapes these sentences.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.answers.whatifreport import Basis, WhatIf
from podium.cli.render.words import amounts
from podium.planner.preemption.outcome import (
    GOOD,
    DomainVerdict,
    HarmLevel,
    Outcome,
    Plan,
    PlanHarm,
    PlanTopology,
    UnitPod,
    UnitVerdict,
    WorkloadPlan,
)
from podium.planner.semantics import Semantics
from podium.text import SHOWN, accelerator_time, count, listed, natural

# Maximum number of priorities in the harm line; lower ones are added up.
_LEVELS = 3

SEMANTICS: Mapping[Semantics, str] = {
    **{semantics: f"{semantics.rules.scheduler} with the Workload API" for semantics in Semantics},
    Semantics.KEP: "KEP-5710 as Podium's scheduler implements it",
    Semantics.PODS: "kube-scheduler without the Workload API, pod by pod",
}
_OUTCOMES: Mapping[Outcome, str] = {
    Outcome.FITS: "fits without preemption",
    Outcome.FITS_AFTER_WAIT: "fits after a wait, without preemption",
    Outcome.FITS_AFTER_PREEMPTION: "fits after preemption",
    Outcome.DOES_NOT_FIT: "does not fit",
    Outcome.NOT_ELIGIBLE: "is not eligible",
    Outcome.NOT_JUDGED: "cannot be judged",
}


_OUTCOMES_OF_ALL: Mapping[Outcome, str] = {
    Outcome.FITS: "fit without preemption",
    Outcome.FITS_AFTER_WAIT: "fit after a wait, without preemption",
    Outcome.FITS_AFTER_PREEMPTION: "fit after preemption",
    Outcome.DOES_NOT_FIT: "do not all fit",
    Outcome.NOT_ELIGIBLE: "are not all eligible",
    Outcome.NOT_JUDGED: "cannot all be judged",
}


class PageOrigin(NamedTuple):
    """The origin of a page: Podium's version, and the time (RFC 3339)."""

    version: str
    made: str


def rules_title(basis: Basis) -> str:
    """Return the rules of an answer."""
    return f"Rules: {SEMANTICS[basis.semantics]}"


def rules_line(basis: Basis) -> str:
    """Return the semantics, the time and the settings, and how each was chosen."""
    by = (
        f"{rules_title(basis)} (semantics {basis.semantics}: {basis.rules_why}). "
        f"Time: {basis.now} ({basis.now_why})."
    )
    return f"{by} {basis.settings}" if basis.settings else by


def caveats(basis: Basis) -> list[str]:
    """Return sentences on what makes the answer uncertain: another scheduler, and data that it lacks."""
    unread = f"Not read and left out: {'; '.join(basis.unknown)}." if basis.unknown else ""
    return [line for line in (basis.approximation, unread) if line]


def outcome_line(report: WhatIf) -> str:
    """Return what happens to the preemptor, and where."""
    plan = report.plan
    plural = len(report.workloads) > 1
    outcome = f"{report.preemptor} {(_OUTCOMES_OF_ALL if plural else _OUTCOMES)[plan.outcome]}"
    if not plan.placements:
        return f"{outcome}."
    nodes = {placed.node for placed in plan.placements}
    if len(plan.placements) == 1 and plan.outcome in GOOD:
        return f"{outcome}, on node {plan.placements[0].node}."
    where = f"node{'s' * (len(nodes) > 1)} {_nodes_words(nodes)}"
    pods, waiting = len(plan.placements), sum(workload.pods for workload in report.workloads)
    if plan.outcome in GOOD or pods == waiting:
        return f"{outcome}: {count(pods, 'pod')} on {where}."
    placed = f"{pods:,} of {count(waiting, 'pod')}" if waiting else count(pods, "pod")
    return f"{outcome}: only {placed}, on {where}."


def most_line(report: WhatIf) -> str:
    """Return how many replicas fit, or an empty text if that was not asked."""
    if report.most is None:
        return ""
    free, all_of_them = report.most
    return f"Replicas that fit: {free:,} without preemption, {all_of_them:,} with preemption."


def harm_line(report: WhatIf) -> str:
    """Return the plan's cost for others: units and pods by priority, work, budgets."""
    harm = report.plan.harm
    if harm is None:
        return "No pod is preempted."
    held = ", ".join(amounts(report.held))
    lost = (
        f"{accelerator_time(harm.acceleratorSeconds)} of work lost"
        if harm.acceleratorSeconds
        else "no work lost"
    )
    saved = (
        f", {accelerator_time(harm.acceleratorSecondsSaved)} saved" if harm.acceleratorSecondsSaved else ""
    )
    on = f"{lost} on {held}{saved}" if held else "no accelerators"
    against = f"{count(harm.violations, 'pod')} in violation of a PodDisruptionBudget"
    budgets = against if harm.violations else "no budget violated"
    return f"Harm: {_levels(harm.levels)}; {on}; {budgets}."


def outcome_words(workload: WorkloadPlan) -> str:
    """Return the result of one workload of several."""
    outcome = _OUTCOMES[workload.outcome]
    return outcome if workload.fits else f"{outcome}: {workload.message}"


def victims_words(harm: PlanHarm | None) -> str:
    """Return the number of units and pods that a plan preempts; empty for none."""
    return _victims(harm.units, harm.pods) if harm is not None else ""


def harm_words(harm: PlanHarm) -> str:
    """Return the harm of one plan of several: units and pods by priority, and the work that is lost."""
    lost = f", {accelerator_time(harm.acceleratorSeconds)} lost" if harm.acceleratorSeconds else ""
    budgets = f", {count(harm.violations, 'pod')} against a budget" if harm.violations else ""
    return f"{_levels(harm.levels)}{lost}{budgets}"


def _levels(levels: Sequence[HarmLevel]) -> str:
    """Return the number of units and pods of each priority; of many priorities the highest."""
    shown = levels if len(levels) <= _LEVELS + 1 else levels[:_LEVELS]
    parts = [f"{_victims(level.units, level.pods)} of priority {level.priority}" for level in shown]
    if rest := levels[len(shown) :]:
        units, pods = sum(level.units for level in rest), sum(level.pods for level in rest)
        parts.append(f"{_victims(units, pods)} of lower priorities")
    return listed(parts)


def _victims(units: int, pods: int) -> str:
    return f"{count(units, 'unit')} ({count(pods, 'pod')})"


def domains_heading(topology: PlanTopology) -> str:
    """Return a heading for the topology domains of a group."""
    compared = len(topology.domains)
    some_of = "" if compared == topology.count else f", {compared:,} compared"
    return f"{count(topology.count, 'topology domain')}{some_of}"


def domain_words(domain: DomainVerdict) -> tuple[str, str, str]:
    """Return the room of a domain for the group now and at most, and the result there."""
    if domain.outcome in GOOD:
        evicted = f"preempts {harm_words(domain.harm)}" if domain.harm is not None else domain.message
        result = f"{evicted or 'free'}; chosen" if domain.chosen else evicted or "free"
    else:
        result = domain.message
    return _number(domain.free), _number(domain.capacity), result


def _number(pods: int | None) -> str:
    return "" if pods is None else f"{pods:,}"


def nodes_heading(plan: Plan) -> str:
    """Return a heading for the reasons by node: with the present pods, or without all possible victims."""
    if plan.outcome is Outcome.DOES_NOT_FIT:
        return "Why preemption does not help"
    return "Why it does not fit without preemption"


def unit_name(unit: UnitVerdict) -> str:
    """Return the name of a unit; a unit in a hidden namespace has a UID as its name."""
    return f"{unit.namespace}/{unit.name}" if unit.namespace else unit.name


def pods_words(pods: Sequence[UnitPod]) -> str:
    """Return the number of a unit's pods, and their nodes."""
    nodes = {pod.node for pod in pods}
    return f"{len(pods):,} on {_nodes_words(nodes)}"


def _nodes_words(nodes: Iterable[str]) -> str:
    """Return the first few nodes by number, and the number of the others."""
    first = sorted(nodes, key=natural)
    more = f" and {len(first) - SHOWN:,} more" if len(first) > SHOWN else ""
    return f"{', '.join(first[:SHOWN])}{more}"
