"""JUnit XML for CI servers: a suite per rule, a failing case per finding, a passing one for a clean rule.

A rule that could not run is skipped, not passed, and so is a finding that does not count. Every other finding
fails, whatever its severity (which is the failure's type): use --ignore for findings that should not fail a
build.
"""

from collections.abc import Mapping
from html import escape

from podium.answers.audits.report import AuditReport
from podium.api.findings import Finding
from podium.cli.render.context import Context, RuleFindings, by_rule
from podium.cli.render.words import headline
from podium.text import visible


def render_junit(report: AuditReport, context: Context) -> str:
    """Return one suite for every requested rule, those with most findings first."""
    unchecked = {rule: missing for missing in report.summary.notChecked for rule in missing.rules}
    aside = _aside(report)
    found = by_rule([*report.findings, *aside], context.rules)
    loud = {group.id for group in found}
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
    for group in found:
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
    where = [] if place is None else [":".join(str(part) for part in place if part is not None)]
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
