"""The results of `podium admit`, for people and for programs: the AdmissionReport and its table."""

from collections.abc import Sequence
from typing import Any

import msgspec

from podium.answers.admission import AdmissionResult
from podium.api.inputnotes import InputNotes
from podium.api.minors import named
from podium.cli.render.data import document
from podium.cli.render.text import Layout
from podium.rules.admission import UNKNOWN_FIELD, Profile, Verdict
from podium.rules.context import DROPPED
from podium.text import count, listed, visible

# The parts of an object that a verdict covers, and those that only a server judges.
JUDGED = ("metadata", "priority", "group", "field names", "required fields", "selectors", "restart policies")
NOT_JUDGED = ("values of other fields", "quotas", "permissions", "other webhooks")


def admission_document(results: Sequence[AdmissionResult], notes: InputNotes) -> dict[str, Any]:
    """Return the report's JSON contract."""
    return document(
        "AdmissionReport",
        results=[result.as_json() for result in results],
        skippedFiles=msgspec.to_builtins(notes.skipped),
        duplicates=msgspec.to_builtins(notes.duplicates),
        judged=list(JUDGED),
        notJudged=list(NOT_JUDGED),
    )


def admission_table(results: Sequence[AdmissionResult], profile: Profile, layout: Layout) -> str:
    """Return the report in the layout's width."""
    rows = [
        (
            visible(str(result.ref)),
            "allowed" if result.verdict.allowed else "REFUSED",
            str(result.verdict.code),
            visible(changes(result.verdict)),
        )
        for result in results
    ]
    layout.columns(("OBJECT", "VERDICT", "CODE", "CHANGES"), rows)
    refused = [result for result in results if not result.verdict.allowed]
    if refused:
        layout.heading("Refused")
    for result in refused:
        _refusal(layout, result)
    warned = [(result.ref, warning) for result in results for warning in result.verdict.warnings]
    if warned:
        layout.heading("Warnings")
    for ref, warning in warned:
        layout.paragraph(f"{ref}: {warning}", hang="  ", style="warning")
    layout.lines.append("")
    verdicts = f"{len(results) - len(refused)} allowed, {len(refused)} refused"
    judged_by = f"Kubernetes {named(profile.minor)}, rules {profile.rules}"
    layout.paragraph(f"{count(len(results), 'object')}: {verdicts}. {judged_by}.", style="bold")
    layout.paragraph(f"Judged: {listed(JUDGED)}. Not judged: {listed(NOT_JUDGED)}.")
    return layout.text()


def _refusal(layout: Layout, result: AdmissionResult) -> None:
    for line in f"{result.ref}: {result.verdict.message}".splitlines():
        layout.paragraph(line, hang="  ", style="error")
    for finding in result.verdict.findings:
        if _drops(finding.rule):
            continue
        # The verdict has the message of one finding only.
        message = "" if finding.message in result.verdict.message else f"{finding.message}. "
        text = f"{message}{finding.fix}"
        layout.paragraph(f"{finding.field}: {text}" if finding.field else text, indent="  ", hang="  ")


def _drops(rule: str) -> bool:
    return rule in (UNKNOWN_FIELD.rule.id, DROPPED.rule.id)


def changes(verdict: Verdict) -> str:
    """Return the changes of admission: fields that were set, dropped, or are unknown to the server."""
    parts = []
    written = {operation["path"]: operation["value"] for operation in verdict.patch}
    for path, value in written.items():
        if path in ("/spec", "/spec/priorityClassName") and "/spec/priority" in written:
            continue
        field = path.removeprefix("/").replace("/", ".")
        shown = value if isinstance(value, str | int) else msgspec.json.encode(value).decode()
        parts.append(f"{field}: {shown}{_class_note(verdict, path)}")
    if verdict.allowed:
        parts += [f"{finding.field} dropped" for finding in verdict.findings if _drops(finding.rule)]
    return "; ".join(parts)


def _class_note(verdict: Verdict, path: str) -> str:
    if path != "/spec/priority" or verdict.admitted is None:
        return ""
    name = verdict.admitted["spec"].get("priorityClassName")
    return f" (class {name})" if name else " (no class)"
