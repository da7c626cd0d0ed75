"""The report on a terminal: `table` fits a screen and says what it left out, `wide` is complete.

Both have the same sections in the same order. The most important facts come first. A list is cut after its
first entries (the worst or largest) with a count of the rest. Even 10,000 findings need only a page or two.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeVar

from podium.cli.render.context import Context, RuleFindings, by_rule
from podium.cli.render.text import Layout
from podium.cli.render.words import (
    accelerators,
    amounts,
    aside_lines,
    by_need,
    by_value,
    findings_line,
    findings_title,
    group_name,
    headline,
    holds,
    read_line,
    unchecked_line,
    visible,
)
from podium.findings import Finding
from podium.report import (
    AuditReport,
    BlockedShare,
    DivergentGroup,
    IgnoredFinding,
    IgnoreShare,
    NotChecked,
    Summary,
)
from podium.wording import count, listed, some

T = TypeVar("T")

# Maximum lengths of the lists in the table.
FINDINGS = 5  # Of one rule.
GROUPS = 20
SHARES = 5  # For namespaces, owners and fixes.
PRIORITIES = 8
POD_NAMES = 3  # Of one integer in one group.
IGNORES = 10


def render_table(report: AuditReport, context: Context) -> str:
    """Return the report in the context's width, with each list cut after its first entries."""
    return _render(report, context, Layout(width=context.width, colour=context.colour))


def render_wide(report: AuditReport, context: Context) -> str:
    """Return the complete report, one line per entry, without wrapped lines."""
    return _render(report, context, Layout(width=None, colour=context.colour))


def _render(report: AuditReport, context: Context, layout: Layout) -> str:
    summary = report.summary
    layout.paragraph(headline(summary), style="bold")
    if unchecked := unchecked_line(summary.notChecked):
        layout.paragraph(unchecked)
    layout.paragraph(findings_line(summary, report.groups))
    for line in aside_lines(summary):
        layout.paragraph(line)
    layout.paragraph(read_line(summary, context.input))
    layout.paragraph(f"Kubernetes {summary.kubernetes}: {visible(summary.chosenBy)}.")
    _blocked(layout, "namespace", summary.blockedByNamespace)
    _blocked(layout, "owner", summary.blockedByOwner)
    _priorities(layout, summary)
    _fixes(layout, summary)
    _groups(layout, report.groups)
    findings_by_rule(layout, findings_title(summary), by_rule(report.findings, context.rules))
    _aside(layout, "Known", by_rule(report.known, context.rules))
    _aside(layout, "Gone", by_rule(report.gone, context.rules))
    _ignores(layout, by_need(summary.ignores))
    if layout.width is None:
        findings_by_rule(layout, "Ignored", by_rule(report.ignored, context.rules))
    _left_out(layout, summary)
    return layout.text()


def _blocked(layout: Layout, what: str, shares: Sequence[BlockedShare]) -> None:
    if not shares:
        return
    layout.heading(f"Will not schedule, by {what}")
    rows = [
        (
            visible(share.name),
            f"{share.blocked.groups:,}",
            f"{share.blocked.pods:,}",
            accelerators(share.blocked),
        )
        for share in first(layout, shares, SHARES)
    ]
    layout.columns((what.upper(), "GROUPS", "PODS", "ACCELERATORS"), rows, right=(1, 2))
    cut(layout, len(shares), SHARES)


def _priorities(layout: Layout, summary: Summary) -> None:
    if not summary.priorities:
        return
    layout.heading("Pods by priority")
    rows = [
        (str(share.priority), f"{share.pods:,}", visible(", ".join(share.classes)) or "no class")
        for share in first(layout, summary.priorities, PRIORITIES)
    ]
    layout.columns(("PRIORITY", "PODS", "CLASSES"), rows, right=(0, 1))
    cut(layout, len(summary.priorities), PRIORITIES)


def _fixes(layout: Layout, summary: Summary) -> None:
    if not summary.fixes:
        return
    layout.heading("Fixes that clear most")
    rows = [
        (f"{share.clears:,}", visible(share.fix), share.rule)
        for share in first(layout, summary.fixes, SHARES)
    ]
    layout.columns(("CLEARS", "FIX", "RULE"), rows, right=(0,))
    cut(layout, len(summary.fixes), SHARES)


def _groups(layout: Layout, groups: Sequence[DivergentGroup]) -> None:
    if not groups:
        return
    layout.heading("Divergent groups")
    rows = [
        (group_name(group), str(group.priority), f"{group.members:,}", _divergent(layout, group))
        for group in first(layout, groups, GROUPS)
    ]
    layout.columns(("GROUP", "PRIORITY", "MEMBERS", "DIVERGENT PODS"), rows, right=(1, 2))
    cut(layout, len(groups), GROUPS)


def _divergent(layout: Layout, group: DivergentGroup) -> str:
    parts = []
    for priority, names in by_value(group.divergent):
        shown = some(names, len(names) if layout.width is None else POD_NAMES)
        parts.append(f"{len(names):,} at {priority}: {shown}")
    return "; ".join(parts)


def findings_by_rule(layout: Layout, title: str, groups: Sequence[RuleFindings]) -> None:
    """Write findings under their rules, only the first few of each rule if the layout has a width."""
    if groups:
        layout.heading(title)
    for number, group in enumerate(groups):
        if number:
            layout.lines.append("")
        severity = layout.style(group.severity.upper(), group.severity.value)
        layout.lines.append(
            f"{severity}  {layout.style(group.id, 'bold')}  {count(len(group.findings), 'finding')}"
        )
        if group.rule is not None:
            layout.paragraph(group.rule.title)
        for finding in first(layout, group.findings, FINDINGS):
            _finding(layout, finding)
        cut(layout, len(group.findings), FINDINGS)


def _finding(layout: Layout, finding: Finding) -> None:
    where = visible(f"{finding.object}  {finding.field}" if finding.field else str(finding.object))
    what = f"ignored: {finding.reason}" if isinstance(finding, IgnoredFinding) else f"fix: {finding.fix}"
    message, fix = visible(finding.message), visible(what)
    if layout.width is None:
        layout.paragraph(f"{where}  {message}  {fix}", indent="  ")
        return
    layout.paragraph(where, indent="  ")
    layout.paragraph(message, indent="    ")
    layout.paragraph(fix, indent="    ", hang="     ")


def _aside(layout: Layout, title: str, groups: Sequence[RuleFindings]) -> None:
    """Write findings that do not count as a number and the first objects, because they need no action."""
    if layout.width is None:
        findings_by_rule(layout, title, groups)
    elif groups:
        layout.heading(title)
        rows = [
            (f"{len(group.findings):,}", group.id, visible(some(str(each.object) for each in group.findings)))
            for group in groups
        ]
        layout.columns(("FINDINGS", "RULE", "OBJECTS"), rows, right=(0,))


def _ignores(layout: Layout, ignores: Sequence[IgnoreShare]) -> None:
    if not ignores:
        return
    layout.heading("Ignores")
    for share in first(layout, ignores, IGNORES):
        objects = visible(", ".join(share.objects)) or "all objects"
        what = f"{share.rule}  {objects}  {count(share.findings, 'finding')}, {holds(share)}"
        reason = visible(f"reason: {share.reason}")
        if layout.width is None:
            layout.paragraph(f"{what}  {reason}", indent="  ")
        else:
            layout.paragraph(what, indent="  ")
            layout.paragraph(reason, indent="    ", hang="     ")
    cut(layout, len(ignores), IGNORES)


def _left_out(layout: Layout, summary: Summary) -> None:
    not_checked(layout, summary.notChecked)
    if summary.skipped:
        layout.heading("Skipped")
        layout.paragraph(f"Kinds that Podium does not read: {', '.join(amounts(summary.skipped))}.")


def not_checked(layout: Layout, missing: Sequence[NotChecked]) -> None:
    """Write the kinds that were not read, the reasons, and the consequences; nothing if all were read."""
    if missing:
        layout.heading("Not checked")
    for each in missing:
        rules = listed(each.rules) or "no rule"
        layout.paragraph(f"{visible(each.kind)}: {visible(each.why)} (leaves out {rules})", hang="  ")


def first(layout: Layout, entries: Sequence[T], limit: int) -> Iterable[T]:
    """Return the entries that a table shows; a layout without a width shows all."""
    return entries if layout.width is None else islice(entries, limit)


def cut(layout: Layout, total: int, limit: int) -> None:
    """Write how many entries are left out, if any are."""
    if layout.width is not None and total > limit:
        layout.paragraph(f"... and {total - limit:,} more (-o wide shows all)", indent="  ", style="dim")
