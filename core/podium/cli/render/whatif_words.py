"""What `podium whatif` says to a person, the same in the table and on the page: three lines before any list.

The first tells the outcome and where, the second whom it costs, the third why, or what to do otherwise. Every
name in them is somebody else's word, so a format passes what it takes from here through its own escaping.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.cli.render.words import amounts
from podium.schedulerplugin.preemption.outcome import Outcome, Plan, Semantics, UnitPod, UnitVerdict
from podium.wording import count, listed, some

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


class Bill(NamedTuple):
    """What a preemption costs others; `violating` counts the units whose budget it violates."""

    units: int
    pods: int
    accelerators: Mapping[str, int]
    violating: int


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
    """A plan and what a reader has to know of it; `preemptor` is in a person's words."""

    plan: Plan
    preemptor: str
    bill: Bill
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


def cost_line(report: WhatIf) -> str:
    """Say whom it costs."""
    plan, bill = report.plan, report.bill
    if not plan.victims:
        return "Nobody is preempted."
    held = [count(bill.pods, "pod"), *amounts(bill.accelerators)]
    kinds = Counter("group" if unit.kind == "PodGroup" else "single pod" for unit in plan.victims)
    units = listed([count(kinds[kind], kind) for kind in ("group", "single pod") if kinds[kind]])
    below = "" if plan.minimalPriority is None else f" of priority {plan.minimalPriority} or lower"
    violating = f"{bill.violating:,} of them against a PodDisruptionBudget"
    against = violating if bill.violating else "no budget violated"
    return f"It costs others {units}{below} ({', '.join(held)}); {against}."


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


def bill(victims: Iterable[UnitVerdict], accelerators: Mapping[str, int]) -> Bill:
    """Add up what victims cost; `accelerators` is what their pods hold together."""
    victims = tuple(victims)
    pods = sum(len(unit.pods) for unit in victims)
    return Bill(len(victims), pods, accelerators, sum(unit.violatesBudget for unit in victims))
