"""The report on a terminal: `table` fits a screen and says what it left out, `wide` is complete.

Both have the same sections in the same order. The most important facts come first. A list is cut after its
first entries (the worst or largest) with a count of the rest. Even 10,000 findings need only a page or two.
"""

from collections.abc import Sequence

from podium.answers.audits.report import (
    AuditReport,
    AuditSummary,
    BlockedShare,
    DivergentGroup,
    IgnoredFinding,
    IgnoreShare,
    NotChecked,
)
from podium.api.findings import Finding
from podium.cli.render import words
from podium.cli.render.context import Context, RuleFindings, by_rule
from podium.cli.render.text import Layout
from podium.text import count, listed, some, visible

# Maximum lengths of the lists in the table.
FINDINGS = 5  # Of one rule.
GROUPS = 20
SHARES = 5  # For namespaces, owners and fixes.
PRIORITIES = 8
POD_NAMES = 3  # Of one integer in one group.
IGNORES = 10


def render_table(report: AuditReport, context: Context) -> str:
    """Return the report in the context's width, with each list cut after its first entries."""
    layout = Layout(width=context.width, colour=context.colour, headers=context.headers)
    return _render(report, context, layout)


def render_wide(report: AuditReport, context: Context) -> str:
    """Return the complete report, one line per entry, without wrapped lines."""
    layout = Layout(width=None, colour=context.colour, headers=context.headers)
    return _render(report, context, layout)


def _render(report: AuditReport, context: Context, layout: Layout) -> str:
    summary = report.summary
    if words.is_of_another_release(summary):
        layout.paragraph(words.release_line(summary))
    layout.paragraph(words.headline(summary), style="bold")
    if unchecked := words.unchecked_line(summary.notChecked):
        layout.paragraph(unchecked)
    layout.paragraph(words.findings_line(summary, report.groups))
    for line in words.aside_lines(summary):
        layout.paragraph(line)
    layout.paragraph(words.read_line(summary, context.input))
    if not words.is_of_another_release(summary):
        layout.paragraph(words.release_line(summary))
    _blocked(layout, "namespace", summary.blockedByNamespace)
    _blocked(layout, "owner", summary.blockedByOwner)
    layout.listing(
        "Pods by priority",
        ("PRIORITY", "PODS", "CLASSES"),
        summary.priorities,
        lambda share: (str(share.priority), share.pods, ", ".join(share.classes) or "no class"),
        limit=PRIORITIES,
        right=(0,),
    )
    layout.listing(
        "Fixes that clear most",
        ("CLEARS", "FIX", "RULE"),
        summary.fixes,
        lambda share: (share.clears, share.fix, share.rule),
        limit=SHARES,
    )
    _groups(layout, report.groups)
    findings_by_rule(layout, words.findings_title(summary), by_rule(report.findings, context.rules))
    _aside(layout, "Known", by_rule(report.known, context.rules))
    _aside(layout, "Gone", by_rule(report.gone, context.rules))
    _ignores(layout, words.by_need(summary.ignores))
    if layout.width is None:
        findings_by_rule(layout, "Ignored", by_rule(report.ignored, context.rules))
    _left_out(layout, summary)
    return layout.text()


def _blocked(layout: Layout, label: str, shares: Sequence[BlockedShare]) -> None:
    layout.listing(
        f"Will not schedule, by {label}",
        (label.upper(), "GROUPS", "PODS", "ACCELERATORS"),
        shares,
        lambda share: (
            share.name,
            share.blocked.groups,
            share.blocked.pods,
            words.accelerators(share.blocked),
        ),
        limit=SHARES,
    )


def _groups(layout: Layout, groups: Sequence[DivergentGroup]) -> None:
    layout.listing(
        "Divergent groups",
        ("GROUP", "PRIORITY", "MEMBERS", "DIVERGENT PODS"),
        groups,
        lambda group: (
            words.group_name(group),
            str(group.priority),
            group.members,
            _divergent(layout, group),
        ),
        limit=GROUPS,
        right=(1,),
    )


def _divergent(layout: Layout, group: DivergentGroup) -> str:
    parts = []
    for priority, names in words.by_value(group.divergent):
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
        for finding in layout.first(group.findings, FINDINGS):
            _finding(layout, finding)
        layout.cut(group.findings, FINDINGS)


def _finding(layout: Layout, finding: Finding) -> None:
    where = visible(f"{finding.object}  {finding.field}" if finding.field else str(finding.object))
    remark = f"ignored: {finding.reason}" if isinstance(finding, IgnoredFinding) else f"fix: {finding.fix}"
    message, fix = visible(finding.message), visible(remark)
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
    else:
        layout.listing(
            title,
            ("FINDINGS", "RULE", "OBJECTS"),
            groups,
            lambda group: (
                len(group.findings),
                group.id,
                some(str(finding.object) for finding in group.findings),
            ),
        )


def _ignores(layout: Layout, ignores: Sequence[IgnoreShare]) -> None:
    if not ignores:
        return
    layout.heading("Ignores")
    for share in layout.first(ignores, IGNORES):
        objects = visible(", ".join(share.objects)) or "all objects"
        line = f"{share.rule}  {objects}  {count(share.findings, 'finding')}, {words.holds(share)}"
        reason = visible(f"reason: {share.reason}")
        if layout.width is None:
            layout.paragraph(f"{line}  {reason}", indent="  ")
        else:
            layout.paragraph(line, indent="  ")
            layout.paragraph(reason, indent="    ", hang="     ")
    layout.cut(ignores, IGNORES)


def _left_out(layout: Layout, summary: AuditSummary) -> None:
    not_checked(layout, summary.notChecked)
    if summary.skipped:
        layout.heading("Skipped")
        layout.paragraph(f"Kinds that Podium does not read: {', '.join(words.amounts(summary.skipped))}.")


def not_checked(layout: Layout, missing: Sequence[NotChecked]) -> None:
    """Write what was not checked: one line, or in a layout without a width the rules of each kind.

    Nothing is written if all was read.
    """
    if missing:
        layout.heading("Not checked")
    if missing and layout.width is not None:
        layout.paragraph(f"{words.unrun_line(missing)} -o wide lists the rules.")
        return
    for skipped in missing:
        rules = listed(skipped.rules) or "no rule"
        layout.paragraph(f"{visible(skipped.kind)}: {visible(skipped.why)} (leaves out {rules})", hang="  ")
