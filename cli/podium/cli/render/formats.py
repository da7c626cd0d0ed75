"""Render a report as text: every format by name, all pure functions of the same values."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from podium.answers.audits.report import AuditReport, NotChecked
from podium.answers.whatifreport import WhatIf
from podium.api.findings import Finding, ObjectRef, Severity
from podium.cli.render.context import Context, RuleFindings, by_rule
from podium.cli.render.data import as_json, as_text, audit_document
from podium.cli.render.page import render_page
from podium.cli.render.table import render_table, render_wide
from podium.cli.render.words import aside_lines, headline
from podium.rules.rule import Rule
from podium.text import visible

# The format `name`: one object a line, as `kubectl -o name` writes it, for pipes to kubectl.
#
# Like kubectl's, a line has no namespace. With several namespaces in one report, choose one with -n.


def render_names(report: AuditReport, _context: Context) -> str:
    """Return the objects with findings, each once, in the order of the report."""
    return name_lines(finding.object for finding in report.findings)


def victim_names(report: WhatIf) -> str:
    """Return the pods that a plan evicts."""
    return name_lines(
        ObjectRef("v1", "Pod", unit.namespace, pod.name) for unit in report.plan.victims for pod in unit.pods
    )


def name_lines(refs: Iterable[ObjectRef]) -> str:
    """Return a line for each object: `pod/a`, or `job.batch/a` with an API group."""
    names = {ref: f"{ref.kind.lower()}{f'.{ref.group}' if ref.group else ''}/{ref.name}" for ref in refs}
    return "".join(f"{visible(name)}\n" for name in names.values())


# SARIF 2.1.0 for code scanning: rules with their reasons, and results with stable identities.
#
# A result has a physical location only if the input was files (code scanning refuses results without one). A
# result for a missing object is for the whole file. Live results have only the logical location
# (namespace/kind/name). A kind that could not be checked is a notification of the run, because missing
# results do not mean a clean cluster.

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
            for listed_findings, state in _findings_by_state(report)
            for finding in listed_findings
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


# JUnit XML for CI servers: a suite per rule, a failing case per finding, a passing one for a clean rule.
#
# A rule that could not run is skipped, not passed, and so is a finding that does not count. Every other
# finding fails, whatever its severity (which is the failure's type): use --ignore for findings that should
# not fail a build.


def render_junit(report: AuditReport, context: Context) -> str:
    """Return one suite for every requested rule, those with most findings first."""
    unchecked = {rule: missing for missing in report.summary.notChecked for rule in missing.rules}
    aside = _aside(report)
    groups = by_rule([*report.findings, *aside], context.rules)
    loud = {group.id for group in groups}
    quiet = [rule for rule in context.rules if rule.id not in loud]
    skipped = {
        rule.id: f"{unchecked[rule.id].kind}: {unchecked[rule.id].why}"
        for rule in quiet
        if rule.id in unchecked
    }
    tests = len(report.findings) + len(aside) + len(quiet)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="podium audit" tests="{tests}" failures="{len(report.findings)}" errors="0">',
    ]
    for group in groups:
        lines += _found_suite(group, aside, report, context)
    for rule in quiet:
        lines += _quiet_suite(rule.id, rule.title, skipped)
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _aside(report: AuditReport) -> dict[Finding, str]:
    """Return the findings that do not count, each with the reason."""
    known = (
        "" if report.summary.baseline is None else (f"known: in the baseline {report.summary.baseline.name}")
    )
    why = dict.fromkeys(report.known, known)
    return why | {finding: f"ignored: {finding.reason}" for finding in report.ignored}


def _found_suite(
    group: RuleFindings, aside: Mapping[Finding, str], report: AuditReport, context: Context
) -> list[str]:
    skipped = sum(finding in aside for finding in group.findings)
    total = len(group.findings)
    lines = [
        _suite(group.id, tests=total, failures=total - skipped, skipped=skipped),
        "    <properties>",
        f'      <property name="summary" value={_attribute(headline(report.summary))}/>',
        f'      <property name="kubernetes" value={_attribute(report.summary.kubernetes)}/>',
        f'      <property name="podium" value={_attribute(context.version)}/>',
        "    </properties>",
    ]
    lines += [_found_case(finding, aside.get(finding), context) for finding in group.findings]
    lines.append("  </testsuite>")
    return lines


def _found_case(finding: Finding, aside: str | None, context: Context) -> str:
    name = f"{finding.object} {finding.field}" if finding.field else str(finding.object)
    inside = _failure(finding, context) if aside is None else f"<skipped message={_attribute(aside)}/>"
    return _case(name, finding.rule, inside)


def _failure(finding: Finding, context: Context) -> str:
    place = context.place(finding)
    where = [] if place is None else [":".join(str(field) for field in place if field is not None)]
    text = "\n".join(map(visible, [finding.message, f"Fix: {finding.fix}", *where]))
    failure = f'<failure type="{finding.severity}" message={_attribute(finding.message)}>'
    return f"{failure}{escape(text, quote=False)}</failure>"


def _quiet_suite(rule: str, title: str, skipped: Mapping[str, str]) -> list[str]:
    why = skipped.get(rule)
    inside = "" if why is None else f"<skipped message={_attribute(why)}/>"
    suite = _suite(rule, tests=1, failures=0, skipped=int(bool(inside)))
    return [suite, _case(title, rule, inside), "  </testsuite>"]


def _suite(rule: str, *, tests: int, failures: int, skipped: int) -> str:
    numbers = f'tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}"'
    return f"  <testsuite name={_attribute(rule)} {numbers}>"


def _case(name: str, rule: str, inside: str) -> str:
    named = f"name={_attribute(name)} classname={_attribute('podium.' + rule)}"
    return f"    <testcase {named}>{inside}</testcase>"


def _attribute(text: str) -> str:
    # A parser reads a line break in an attribute as a space.
    written = escape(visible(text), quote=False).replace('"', "&quot;").replace("\n", "&#10;")
    return f'"{written}"'


# GitHub's workflow commands: one annotation per finding, with file and line if the input was files.
#
# The runner reads any line that starts with `::` as a command. Every text is therefore escaped as in GitHub's
# toolkit, and no text from the input is outside a command.

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render_github(report: AuditReport, context: Context) -> str:
    """Return the summary sentences, then every finding that counts, then what was not checked."""
    lines = [headline(report.summary), *aside_lines(report.summary)]
    lines += [_annotation(finding, context) for finding in report.findings]
    lines += [_notice(missing) for missing in report.summary.notChecked]
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding, context: Context) -> str:
    properties = {"title": finding.rule}
    place = context.place(finding)
    if place is not None:
        line = {} if place.line is None else {"line": str(place.line)}
        properties = {"file": PurePath(place.file).as_posix(), **line, **properties}
    message = f"{finding.object}: {finding.message}\nFix: {finding.fix}"
    return command(_COMMANDS[finding.severity], properties, message)


def _notice(missing: NotChecked) -> str:
    rules = ", ".join(missing.rules)
    return command("notice", {"title": f"{missing.kind} was not checked"}, f"{missing.why}\nRules: {rules}")


def command(name: str, properties: dict[str, str], message: str) -> str:
    """Return one workflow command on one line, whatever its properties and message contain."""
    written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {written}::{_data(message)}"


def _data(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_RENDERERS: dict[str, Callable[[AuditReport, Context], str]] = {
    "table": render_table,
    "wide": render_wide,
    "name": render_names,
    "json": lambda report, _: as_text(audit_document(report), "json"),
    "yaml": lambda report, _: as_text(audit_document(report), "yaml"),
    "sarif": render_sarif,
    "junit": render_junit,
    "github": render_github,
    "html": render_page,
}

FORMATS = tuple(_RENDERERS)


def render(report: AuditReport, output: str, context: Context) -> str:
    """Return the whole report in one of FORMATS, with a newline at the end."""
    return _RENDERERS[output](report, context)
