"""`podium whatif` on a terminal: three lines, then victims, spared, nodes and findings, each list limited."""

from collections.abc import Sequence

from podium.cli.render.text import Layout
from podium.cli.render.whatif_words import (
    WhatIf,
    harm_line,
    nodes_heading,
    outcome_line,
    pods_words,
    rules_line,
    unit_name,
    unknown_line,
)
from podium.cli.render.words import visible
from podium.findings import Finding
from podium.schedulerplugin.preemption.outcome import NodeReason, Outcome, Placed, UnitVerdict
from podium.wording import count, some

# Maximum lengths of the lists in the table; docs/whatif.md states these numbers.
PLACED = 10  # Nodes with pods of the preemptor.
VICTIMS = 20
SPARED = 10
NODES = 10  # Reasons.
FINDINGS = 5

_STYLES = {Outcome.DOES_NOT_FIT: "error", Outcome.NOT_ELIGIBLE: "error"}


def whatif_table(report: WhatIf, layout: Layout) -> str:
    """Return the report in the layout's width."""
    plan = report.plan
    layout.paragraph(visible(rules_line(report.basis)), style="dim")
    layout.paragraph(visible(outcome_line(report)), style=_STYLES.get(plan.outcome, "bold"))
    layout.paragraph(visible(harm_line(report)))
    layout.paragraph(visible(plan.message))
    if unknown := unknown_line(report.basis):
        layout.paragraph(visible(unknown), style="warning")
    _placements(layout, plan.placements)
    _units(layout, "Victims", plan.victims, VICTIMS)
    _units(layout, "Spared", plan.spared, SPARED)
    _nodes(layout, nodes_heading(plan), plan.nodes)
    _findings(layout, plan.findings)
    return layout.text()


def _placements(layout: Layout, placements: Sequence[Placed]) -> None:
    if not placements:
        return
    nodes: dict[str, list[str]] = {}
    for placed in placements:
        nodes.setdefault(placed.node, []).append(placed.pod)
    layout.heading("Where it goes")
    rows = [
        (visible(node), f"{len(pods):,}", visible(some(pods))) for node, pods in list(nodes.items())[:PLACED]
    ]
    layout.columns(("NODE", "PODS", "NAMES"), rows, right=(1,))
    _cut(layout, len(nodes), PLACED)


def _units(layout: Layout, title: str, units: Sequence[UnitVerdict], limit: int) -> None:
    if not units:
        return
    layout.heading(f"{title}: {count(len(units), 'unit')}")
    shown = units[:limit]
    columns: dict[str, list[str]] = {
        "KIND": [unit.kind for unit in shown],
        "NAME": [visible(unit_name(unit)) for unit in shown],
        "PRIORITY": [str(unit.priority) for unit in shown],
        "PODS": [visible(pods_words(unit.pods)) for unit in shown],
        "BUDGET": ["violated" if unit.violatesBudget else "" for unit in shown],
        "WHY": [visible(unit.reason) for unit in shown],
    }
    if not any(columns["BUDGET"]):
        # Most units have no budget, and the other columns need the width.
        del columns["BUDGET"]
    layout.columns(tuple(columns), list(zip(*columns.values(), strict=True)), right=(2,))
    _cut(layout, len(units), limit)


def _nodes(layout: Layout, heading: str, nodes: Sequence[NodeReason]) -> None:
    if not nodes:
        return
    layout.heading(heading)
    rows = [
        (f"{each.count:,}", visible(each.reason), visible(", ".join(each.examples))) for each in nodes[:NODES]
    ]
    layout.columns(("NODES", "REASON", "SUCH AS"), rows, right=(0,))
    _cut(layout, len(nodes), NODES)


def _findings(layout: Layout, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    layout.heading("Findings")
    for finding in findings[:FINDINGS]:
        layout.paragraph(
            visible(f"{finding.object} {finding.field}: {finding.message}"), hang="  ", style=finding.severity
        )
        layout.paragraph(visible(f"fix: {finding.fix}"), indent="  ", hang="  ")
    _cut(layout, len(findings), FINDINGS)


def _cut(layout: Layout, total: int, limit: int) -> None:
    if total > limit:
        layout.paragraph(f"... and {total - limit:,} more (-o json has all)", indent="  ", style="dim")
