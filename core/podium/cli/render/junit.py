"""JUnit XML for CI servers: a suite a rule, a failing test case a finding, one that passes for a clean rule.

A rule that could not run is skipped, not passed. Every finding fails, whatever its severity (it is the
failure's type): what should not fail a build is left out with --ignore.
"""

from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from podium.cli.render.context import Context, RuleFindings, by_rule
from podium.cli.render.words import headline, visible
from podium.findings import Finding
from podium.report import AuditReport


def render_junit(report: AuditReport, context: Context) -> str:
    """Write one suite for every rule that was asked for, those that found most first."""
    unchecked = {rule: missing for missing in report.summary.notChecked for rule in missing.rules}
    failing = by_rule(report.findings, context.rules)
    found = {group.id for group in failing}
    quiet = [rule for rule in context.rules if rule.id not in found]
    skipped = {
        rule.id: f"{unchecked[rule.id].kind}: {unchecked[rule.id].why}"
        for rule in quiet
        if rule.id in unchecked
    }
    tests = len(report.findings) + len(quiet)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="podium audit" tests="{tests}" failures="{len(report.findings)}" errors="0">',
    ]
    for group in failing:
        lines += _failing_suite(group, report, context)
    for rule in quiet:
        lines += _quiet_suite(rule.id, rule.title, skipped)
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _failing_suite(group: RuleFindings, report: AuditReport, context: Context) -> list[str]:
    total = len(group.findings)
    lines = [
        _suite(group.id, tests=total, failures=total, skipped=0),
        "    <properties>",
        f'      <property name="summary" value={_attribute(headline(report.summary))}/>',
        f'      <property name="kubernetes" value={_attribute(report.summary.kubernetes)}/>',
        f'      <property name="podium" value={_attribute(context.version)}/>',
        "    </properties>",
    ]
    lines += [_failure(finding, context) for finding in group.findings]
    lines.append("  </testsuite>")
    return lines


def _failure(finding: Finding, context: Context) -> str:
    place = context.place(finding)
    where = [] if place is None else [":".join(str(part) for part in place if part is not None)]
    name = f"{finding.object} {finding.field}" if finding.field else str(finding.object)
    text = "\n".join(map(visible, [finding.message, f"Fix: {finding.fix}", *where]))
    failure = f'<failure type="{finding.severity}" message={_attribute(finding.message)}>'
    return _case(name, finding.rule, f"{failure}{escape(text)}</failure>")


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
    return quoteattr(visible(text))
