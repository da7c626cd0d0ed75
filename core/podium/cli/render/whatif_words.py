"""What `podium whatif` says to a person, the same in the table and on the page: three lines before any list.

The first tells the outcome and where, the second whom it costs, the third why, or what to do otherwise. Every
name in them is somebody else's word, so a format passes what it takes from here through its own escaping.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from podium.cli.render.words import amounts
from podium.schedulerplugin.preemption.outcome import (
    HarmLevel,
    Outcome,
    Plan,
    Semantics,
    UnitPod,
    UnitVerdict,
)
from podium.wording import count, listed, some, work

# Priorities that the harm line names; those below are summed up.
_LEVELS = 3

SEMANTICS: Mapping[Semantics, str] = {
    Semantics.KEP: "KEP-5710 as Podium's scheduler follows it",
    Semantics.V1_36: "kube-scheduler 1.36 with the Workload API",
    Semantics.V1_37: "kube-scheduler 1.37 with the Workload API",
    Semantics.PODS: "kube-scheduler without the Workload API, pod by pod",
}
_OUTCOMES: Mapping[Outcome, str] = {
    Outcome.FITS: "fits as the cluster is",
    Outcome.FITS_AFTER_PREEMPTION: "fits after preemption",
    Outcome.DOES_NOT_FIT: "does not fit",
    Outcome.NOT_ELIGIBLE: "is not eligible",
}


class Basis(NamedTuple):
    """What an answer rests on: whose rules and when, each with how it was chosen, and what was read.

    `unknown` names the kinds that were not in the input, each with why. `settings` names the settings and
    where they come from, in a sentence; empty for kube-scheduler's rules.
    """

    semantics: Semantics
    rules_why: str
    now: str
    now_why: str
    input: str
    unknown: Sequence[str] = ()
    settings: str = ""


class Surroundings(NamedTuple):
    """What the page says of its making: Podium's version, and when (RFC 3339)."""

    version: str
    made: str


class WhatIf(NamedTuple):
    """A plan and what a reader has to know of it.

    `preemptor` is in a person's words. `held` are the accelerators of the victims, by resource.
    """

    plan: Plan
    preemptor: str
    held: Mapping[str, int]
    basis: Basis


def rules_line(basis: Basis) -> str:
    """Name the semantics, the time and the settings, and how each was chosen."""
    by = (
        f"By {SEMANTICS[basis.semantics]} (semantics {basis.semantics}: {basis.rules_why}), "
        f"at {basis.now} ({basis.now_why})."
    )
    return f"{by} {basis.settings}" if basis.settings else by


def unknown_line(basis: Basis) -> str:
    """Say what the answer goes without, or nothing."""
    return f"Not known, and so left out: {'; '.join(basis.unknown)}." if basis.unknown else ""


def outcome_line(report: WhatIf) -> str:
    """Say what becomes of the preemptor, and where."""
    plan = report.plan
    said = f"{report.preemptor} {_OUTCOMES[plan.outcome]}"
    if not plan.placements:
        return f"{said}."
    nodes = {placed.node for placed in plan.placements}
    if len(plan.placements) == 1:
        return f"{said}, on node {plan.placements[0].node}."
    where = f"node {', '.join(nodes)}" if len(nodes) == 1 else f"nodes {some(nodes)}"
    return f"{said}: {count(len(plan.placements), 'pod')} on {where}."


def harm_line(report: WhatIf) -> str:
    """Say what the plan costs others: units and pods by priority, work, budgets."""
    harm = report.plan.harm
    if harm is None:
        return "No pod is preempted."
    held = ", ".join(amounts(report.held))
    lost = f"{work(harm.acceleratorSeconds)} of work lost" if harm.acceleratorSeconds else "no work lost"
    on = f"{lost} on {held}" if held else "no accelerators"
    against = f"{count(harm.violations, 'pod')} against a PodDisruptionBudget"
    budgets = against if harm.violations else "no budget violated"
    return f"Harm: {_levels(harm.levels)}; {on}; {budgets}."


def _levels(levels: Sequence[HarmLevel]) -> str:
    """Say how many units and pods of each priority; of many priorities the highest."""
    shown = levels if len(levels) <= _LEVELS + 1 else levels[:_LEVELS]
    parts = [f"{_victims(level.units, level.pods)} of priority {level.priority}" for level in shown]
    if rest := levels[len(shown) :]:
        units, pods = sum(level.units for level in rest), sum(level.pods for level in rest)
        parts.append(f"{_victims(units, pods)} of lower priorities")
    return listed(parts)


def _victims(units: int, pods: int) -> str:
    return f"{count(units, 'unit')} ({count(pods, 'pod')})"


def nodes_heading(plan: Plan) -> str:
    """Say what the reasons by node speak of: the cluster as it is, or with all gone that may be preempted."""
    if plan.outcome is Outcome.DOES_NOT_FIT:
        return "Why preemption does not help"
    return "Why it does not fit as the cluster is"


def unit_name(unit: UnitVerdict) -> str:
    """Name a unit; one whose namespace may not be told has a UID for a name."""
    return f"{unit.namespace}/{unit.name}" if unit.namespace else unit.name


def pods_words(pods: Sequence[UnitPod]) -> str:
    """Say how many pods a unit has, and on which nodes."""
    nodes = {pod.node for pod in pods}
    return f"{len(pods):,} on {some(nodes)}"
