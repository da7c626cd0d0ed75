"""JSON and YAML of every report: one envelope, one order of keys."""

from collections.abc import Sequence
from typing import Any

import msgspec

from podium import jsontext
from podium.answers.audits.report import API_VERSION, AuditReport
from podium.answers.whatifreport import WhatIf
from podium.documents.yamlwriter import dump_all
from podium.text import json_visible


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the audit's JSON contract as one document."""
    return document(
        "AuditReport",
        summary=msgspec.to_builtins(report.summary),
        findings=[finding.as_json() for finding in report.findings],
        groups=msgspec.to_builtins(report.groups),
        known=[finding.as_json() for finding in report.known],
        ignored=[finding.as_json() for finding in report.ignored],
        gone=[finding.as_json() for finding in report.gone],
    )


def whatif_document(report: WhatIf) -> dict[str, Any]:
    """Return the JSON contract of `podium whatif`; docs/whatif.md describes it."""
    plan = report.plan
    findings = [finding.as_json() for finding in plan.findings]
    workloads = [as_builtins(workload) for workload in report.workloads]
    body = as_builtins(plan) | {"findings": findings, "workloads": workloads}
    basis, most = report.basis, report.most
    replicas = None
    if most is not None:
        replicas = {"withoutPreemption": most.without_preemption, "withPreemption": most.with_preemption}
    body |= {"notRead": list(basis.unknown), "approximation": basis.approximation, "replicas": replicas}
    return document("WhatIfReport", **body)


def as_builtins(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a report, converted through JSON, which has only lists."""
    fields: dict[str, Any] = jsontext.parse(msgspec.json.encode(value), Any)
    return fields


def document(kind: str, **body: Any) -> dict[str, Any]:
    """Return a report's parts in the envelope that every command's JSON and YAML have."""
    return {"apiVersion": API_VERSION, "kind": kind, **body}


def as_json(value: dict[str, Any]) -> str:
    """Return a document as JSON, indented by two, with a newline at the end."""
    return json_visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n"


def as_list(documents: Sequence[dict[str, Any]]) -> str:
    """Return objects as JSON: one as it is, others as a List."""
    whole = {"apiVersion": "v1", "kind": "List", "items": documents}
    return as_json(documents[0] if len(documents) == 1 else whole)


def as_text(value: dict[str, Any], output: str) -> str:
    """Return a document in the format `output`, `json` or `yaml`."""
    return as_json(value) if output == "json" else dump_all([value])
