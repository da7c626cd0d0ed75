"""The format `name`: one object a line, as `kubectl -o name` writes it, for pipes to kubectl.

Like kubectl's, a line has no namespace. With several namespaces in one report, choose one with -n.
"""

from collections.abc import Iterable

from podium.answers.audits.report import AuditReport
from podium.answers.whatifreport import WhatIf
from podium.api.findings import ObjectRef
from podium.cli.render.context import Context
from podium.text import visible


def render_names(report: AuditReport, _context: Context) -> str:
    """Return the objects with findings, each once, in the order of the report."""
    return _lines(finding.object for finding in report.findings)


def victim_names(report: WhatIf) -> str:
    """Return the pods that a plan evicts."""
    return _lines(
        ObjectRef("v1", "Pod", unit.namespace, pod.name) for unit in report.plan.victims for pod in unit.pods
    )


def _lines(refs: Iterable[ObjectRef]) -> str:
    """Return a line for each object: `pod/a`, or `job.batch/a` with an API group."""
    names = {ref: f"{ref.kind.lower()}{f'.{ref.group}' if ref.group else ''}/{ref.name}" for ref in refs}
    return "".join(f"{visible(name)}\n" for name in names.values())
