"""SARIF 2.1.0 for code scanning: rules with their reasons, and results with stable identities.

A result has a physical location only if the input was files (code scanning refuses results without one). A
result for a missing object is for the whole file. Live results have only the logical location
(namespace/kind/name). A kind that could not be checked is a notification of the run, because missing results
do not mean a clean cluster.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from podium.answers.audits.report import AuditReport, NotChecked
from podium.api.findings import Finding, ObjectRef, Severity
from podium.cli.render.context import Context, by_rule
from podium.cli.render.data import as_json
from podium.cli.render.words import headline
from podium.rules.rule import Rule
from podium.text import visible

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "podiumFinding/v1"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render_sarif(report: AuditReport, context: Context) -> str:
    """Return one run with every requested rule and every finding.

    Findings that are gone are left out: a viewer that does not know `absent` would show them as present.
    """
    findings = [*report.findings, *report.known, *report.ignored]
    rules = [_rule(rule) for rule in context.rules]
    known = {rule.id for rule in context.rules}
    rules += [{"id": group.id} for group in by_rule(findings, context.rules) if group.id not in known]
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "podium", "version": context.version, "rules": rules}},
        "invocations": [
            {
                "executionSuccessful": True,
                "endTimeUtc": context.made,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": headline(report.summary)}},
                    *(_notification(missing) for missing in report.summary.notChecked),
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, index[finding.rule], context) | state
            for part, state in _findings_by_state(report)
            for finding in part
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return as_json(log)


def _rule(rule: Rule) -> dict[str, Any]:
    level = _LEVELS[rule.severity]
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.title}. {rule.why} Source: {rule.source}",
            "markdown": f"**{rule.title}**\n\n{rule.why}\n\nSource: {rule.source}",
        },
        "defaultConfiguration": {"level": level},
        "properties": {"problem.severity": "recommendation" if level == "note" else level},
    }


def _findings_by_state(report: AuditReport) -> Iterator[tuple[Sequence[Finding], dict[str, Any]]]:
    """Yield the findings with SARIF's terms for their state relative to the baseline and the ignores."""
    compared = report.summary.baseline is not None
    yield report.findings, {"baselineState": "new"} if compared else {}
    yield report.known, {"baselineState": "unchanged"}
    for finding in report.ignored:
        suppression = {"kind": "external", "status": "accepted", "justification": visible(finding.reason)}
        yield [finding], {"suppressions": [suppression]}


def _result(finding: Finding, rule_index: int, context: Context) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [_logical(finding.object)]}
    place = context.place(finding)
    if place is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": file_uri(place.file)}}
        if place.line is not None:
            location["physicalLocation"]["region"] = {"startLine": place.line}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": visible(f"{finding.object}: {finding.message} Fix: {finding.fix}")},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {"apiVersion": finding.object.apiVersion, "field": finding.field},
    }


def _logical(ref: ObjectRef) -> dict[str, str]:
    parts = (ref.namespace, ref.kind, ref.name) if ref.namespace else (ref.kind, ref.name)
    return {"name": ref.name, "fullyQualifiedName": "/".join(parts), "kind": "object"}


def _notification(missing: NotChecked) -> dict[str, Any]:
    rules = ", ".join(missing.rules)
    return {
        "level": "warning",
        "message": {"text": visible(f"{missing.kind} was not checked: {missing.why} (rules: {rules})")},
    }


def file_uri(path: str) -> str:
    """Return a path as a URI reference: relative paths stay relative to the folder the audit ran in."""
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else quote(os.fsencode(pure.as_posix()))
