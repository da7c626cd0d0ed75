"""`podium whatif` on a terminal: three lines, then victims, spared, nodes and findings, each list limited."""

from collections.abc import Sequence

from podium.answers.whatifreport import WhatIf
from podium.api.findings import Finding
from podium.cli.render.text import Layout
from podium.cli.render.whatif_words import (
    caveats,
    domain_words,
    domains_heading,
    harm_line,
    most_line,
    nodes_heading,
    outcome_line,
    outcome_words,
    pods_words,
    rules_line,
    unit_name,
    victims_words,
)
from podium.planner.preemption.outcome import (
    ClaimVolumePlan,
    DevicePlan,
    DomainVerdict,
    Outcome,
    Placed,
    PlanTopology,
    UnitVerdict,
    WorkloadPlan,
)
from podium.text import count, some

# Maximum lengths of the lists in the table; docs/whatif.md states these numbers.
WORKLOADS = 20
PLACED = 10  # Nodes with pods of the preemptor.
VICTIMS = 20
SPARED = 10
NODES = 10  # Reasons.
FINDINGS = 5

_STYLES = {Outcome.DOES_NOT_FIT: "error", Outcome.NOT_ELIGIBLE: "error", Outcome.NOT_JUDGED: "warning"}


def whatif_table(report: WhatIf, layout: Layout) -> str:
    """Return the report in the layout's width."""
    plan = report.plan
    layout.paragraph(rules_line(report.basis), style="dim")
    layout.paragraph(outcome_line(report), style=_STYLES.get(plan.outcome, "bold"))
    if most := most_line(report):
        layout.paragraph(most, style="bold")
    layout.paragraph(harm_line(report))
    layout.paragraph(plan.message)
    for caveat in caveats(report.basis):
        layout.paragraph(caveat, style="warning")
    if len(report.workloads) > 1:
        _workloads(layout, report.workloads)
    _placements(layout, plan.placements)
    if plan.topology is not None:
        _domains(layout, plan.topology)
    _units(layout, "Victims", plan.victims, VICTIMS)
    _units(layout, "Spared", plan.spared, SPARED)
    layout.listing(
        nodes_heading(plan),
        ("NODES", "REASON", "SUCH AS"),
        plan.nodes,
        lambda each: (each.count, each.reason, ", ".join(each.examples)),
        limit=NODES,
    )
    _findings(layout, plan.findings)
    return layout.text()


def _workloads(layout: Layout, workloads: Sequence[WorkloadPlan]) -> None:
    def row(each: WorkloadPlan) -> tuple[str | int, ...]:
        placed = f"{each.placed:,} of {each.pods:,}"
        return str(each), str(each.priority), placed, victims_words(each.harm), outcome_words(each)

    header = ("WORKLOAD", "PRIORITY", "PODS PLACED", "PREEMPTS", "RESULT")
    title = "Workloads, in the order of their plans"
    layout.listing(title, header, workloads, row, limit=WORKLOADS, right=(1, 2))


def _placements(layout: Layout, placements: Sequence[Placed]) -> None:
    nodes: dict[str, list[str]] = {}
    for placed in placements:
        nodes.setdefault(placed.node, []).append(placed.pod)

    def row(node: str) -> tuple[str | int, ...]:
        return node, len(nodes[node]), some(nodes[node])

    layout.listing("Placement", ("NODE", "PODS", "NAMES"), list(nodes), row, limit=PLACED)
    volumes = [(placed, volume) for placed in placements for volume in placed.volumes]

    def volume_row(each: tuple[Placed, ClaimVolumePlan]) -> tuple[str | int, ...]:
        placed, volume = each
        return placed.pod, volume.claim, volume.volume or "(is provisioned)", placed.node

    if volumes:
        layout.listing("Volumes", ("POD", "CLAIM", "VOLUME", "NODE"), volumes, volume_row, limit=PLACED)
    devices = [
        (placed, claim.name, each)
        for placed in placements
        for claim in placed.claims
        for each in claim.results
    ]

    def device_row(row: tuple[Placed, str, DevicePlan]) -> tuple[str | int, ...]:
        placed, claim, each = row
        return placed.pod, claim, each.request, each.driver, each.pool, each.device

    if devices:
        titles = ("POD", "CLAIM", "REQUEST", "DRIVER", "POOL", "DEVICE")
        layout.listing("Devices", titles, devices, device_row, limit=PLACED)


def _domains(layout: Layout, topology: PlanTopology) -> None:
    def row(each: DomainVerdict) -> tuple[str | int, ...]:
        return each.name, each.nodes, *domain_words(each)

    header = (topology.key, "NODES", "ROOM NOW", "AT MOST", "RESULT")
    layout.listing(domains_heading(topology), header, topology.domains, row, right=(1, 2, 3))


def _units(layout: Layout, title: str, units: Sequence[UnitVerdict], limit: int) -> None:
    # Most units have no budget, and the other columns need the width.
    budget = any(unit.violatesBudget for unit in layout.first(units, limit))

    def row(unit: UnitVerdict) -> tuple[str, ...]:
        violated = ("violated" if unit.violatesBudget else "",) * budget
        return unit.kind, unit_name(unit), str(unit.priority), pods_words(unit.pods), *violated, unit.reason

    header = ("KIND", "NAME", "PRIORITY", "PODS", *("BUDGET",) * budget, "WHY")
    layout.listing(f"{title}: {count(len(units), 'unit')}", header, units, row, limit=limit, right=(2,))


def _findings(layout: Layout, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    layout.heading("Findings")
    for finding in layout.first(findings, FINDINGS):
        layout.paragraph(
            f"{finding.object} {finding.field}: {finding.message}", hang="  ", style=finding.severity
        )
        layout.paragraph(f"fix: {finding.fix}", indent="  ", hang="  ")
    layout.cut(findings, FINDINGS)
