"""The JSON contract of `podium whatif`; docs/whatif.md describes it, and the YAML has the same content."""

from typing import Any

import msgspec

from podium.cli.render.data import document
from podium.schedulerplugin.preemption.outcome import Plan, UnitVerdict


def whatif_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as a WhatIfReport."""
    return document(
        "WhatIfReport",
        semantics=str(plan.semantics),
        outcome=str(plan.outcome),
        message=plan.message,
        minimalPriority=plan.minimalPriority,
        harm=None if plan.harm is None else msgspec.to_builtins(plan.harm),
        placements=[msgspec.to_builtins(placed) for placed in plan.placements],
        victims=[_unit(unit) for unit in plan.victims],
        spared=[_unit(unit) for unit in plan.spared],
        nodes=[
            {"reason": each.reason, "count": each.count, "examples": list(each.examples)}
            for each in plan.nodes
        ],
        findings=[finding.as_json() for finding in plan.findings],
    )


def _unit(unit: UnitVerdict) -> dict[str, Any]:
    return {
        "kind": unit.kind,
        "namespace": unit.namespace,
        "name": unit.name,
        "priority": unit.priority,
        "pods": [{"name": pod.name, "node": pod.node} for pod in unit.pods],
        "violatesBudget": unit.violatesBudget,
        "reason": unit.reason,
    }
