"""The audit's report as one HTML file: the numbers, the groups and the findings in the frame of `html`.

Its script filters findings and sorts groups. Long lists are cut, so that a page with 10,000 findings still
opens at once.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from podium.answers.audits.report import (
    AuditReport,
    AuditSummary,
    BlockedShare,
    DivergentGroup,
    FixShare,
    IgnoredFinding,
    IgnoreShare,
)
from podium.api.findings import Finding
from podium.cli.render import words
from podium.cli.render.context import Context, RuleFindings, by_rule
from podium.cli.render.html import (
    Cell,
    finding_item,
    first_of,
    fix_markup,
    section,
    table,
    text,
    tiles,
    whole,
)
from podium.cli.render.pictures.sections import map_section
from podium.text import count, listed, some

# Maximum lengths of the lists on the page; docs/reports.md states these numbers.
FINDINGS = 200  # Of one rule.
GROUPS = 500
POD_NAMES = 50  # Of one integer in one group.
BARS = 12  # For priorities, namespaces and owners.
FIXES = 25
ASIDE = 200  # For known, gone or ignored findings, and for ignores.

_SCRIPT = Path(__file__).with_name("page.js")


def render_page(report: AuditReport, context: Context) -> str:
    """Return the whole page."""
    summary = report.summary
    sections = [
        _overview(summary),
        map_section(context.cluster),
        _fixes(summary.fixes),
        groups_section(report.groups),
        findings_section(words.findings_title(summary), by_rule(report.findings, context.rules)),
        _aside("known", "Known", "Findings that are also in the baseline", report.known),
        _aside("gone", "Gone", "Findings of the baseline that are gone", report.gone),
        _ignores(words.by_need(summary.ignores)),
        _aside("ignored", "Ignored", "Ignored findings, with reasons", report.ignored),
        left_out_section(summary),
    ]
    footer = (
        f"Made by podium {text(context.version)} on {text(context.made)}.\n"
        "Long lists are cut; <code>podium audit -o json</code> has everything."
    )
    title = f"Podium audit: {words.headline(summary)}"
    return whole(title, _header(report, context), sections, footer, script=_SCRIPT.read_text("utf-8"))


def _header(report: AuditReport, context: Context) -> str:
    summary = report.summary
    blocked = summary.blocked
    new = words.new_to(summary)
    verdict = "blocked" if blocked.groups or blocked.pods else "clear" if words.is_all_clear(summary) else ""
    numbers = [
        ("blocked", "group", "will not schedule", blocked.groups),
        ("blocked", "pod", "will not schedule", blocked.pods),
        ("blocked", "accelerator", "they ask for", sum(blocked.accelerators.values())),
        ("error", "divergent group", "", len(report.groups)),
        ("error", f"{new}error", "", summary.errors),
        ("warning", f"{new}warning", "", summary.warnings),
        ("info", f"{new}info", "", summary.infos),
    ]
    if summary.baseline is not None:
        numbers += [
            ("", "known finding", "", summary.baseline.known),
            ("", "gone finding", "", summary.baseline.gone),
        ]
    if summary.ignores:
        numbers.append(("", "ignored finding", "", summary.ignored))
    eyebrow = f"Podium audit for Kubernetes {summary.kubernetes} ({summary.chosenBy})"
    unchecked = words.unchecked_line(summary.notChecked)
    return "\n".join(
        [
            "<header>",
            f'<p class="eyebrow">{text(eyebrow)}</p>',
            f'<h1 class="{verdict}">{text(words.headline(summary))}</h1>',
            f'<p class="caution">{text(unchecked)}</p>' if unchecked else "",
            tiles(numbers),
            *(f"<p>{text(line)}</p>" for line in words.aside_lines(summary)),
            f"<p>{text(words.read_line(summary, context.input))}</p>",
            "</header>",
        ]
    )


def _overview(summary: AuditSummary) -> str:
    tables = [
        _priorities(summary),
        _blocked("namespace", summary.blockedByNamespace),
        _blocked("owner", summary.blockedByOwner),
    ]
    if not any(tables):
        return ""
    return section(
        "overview", "Distribution", '<div class="cards">' + "\n".join(filter(None, tables)) + "</div>"
    )


def _priorities(summary: AuditSummary) -> str:
    rows = [
        (str(share.priority), ", ".join(share.classes) or "no class", share.pods)
        for share in summary.priorities
    ]
    return _chart("Pods by priority", "Priority", "", rows)


def _blocked(label: str, shares: Sequence[BlockedShare]) -> str:
    rows = []
    for share in shares:
        groups = [count(share.blocked.groups, "group")] if share.blocked.groups else []
        note = ", ".join([*groups, *words.amounts(share.blocked.accelerators)])
        rows.append((share.name, note, share.blocked.pods))
    return _chart(f"Will not schedule, by {label}", label.capitalize(), "bad", rows)


def _chart(caption: str, first: str, kind: str, rows: Sequence[tuple[str, str, int]]) -> str:
    """Return pods by name as bars in a table, with the numbers as text."""
    most = max((pods for _, _, pods in rows), default=0)

    def row(entry: tuple[str, str, int]) -> tuple[str, int]:
        name, note, pods = entry
        return f'{text(name)} <span class="note">{text(note)}</span>{_bar(pods, most)}', pods

    return table(caption, (first, "Pods"), rows, row, limit=BARS, kind=f"card {kind}")


def _fixes(fixes: Sequence[FixShare]) -> str:
    def row(share: FixShare) -> tuple[int, str]:
        link = f'<a class="note" href="#rule-{text(share.rule)}">{text(share.rule)}</a>'
        return share.clears, f"{fix_markup(share.fix)} {link}"

    clears = table("Number of findings that each fix clears", ("Clears", "Fix"), fixes, row, limit=FIXES)
    return section("fixes", "Fixes that clear most", clears)


def _name(group: DivergentGroup) -> str:
    return text(words.group_name(group))


def groups_section(
    groups: Sequence[DivergentGroup], *, named: Callable[[DivergentGroup], str] = _name
) -> str:
    """Return the groups with divergent pods; empty for none. `named` writes the name of one."""

    def row(group: DivergentGroup) -> tuple[str | int | Cell, ...]:
        pods = Cell(_pods(group), f' data-value="{len(group.divergent)}"')
        return named(group), str(group.priority), group.members, pods

    header = ("Group", "Priority", "Members", "Divergent pods")
    caption = "Groups and the live pods that differ from them"
    divergent = table(caption, header, groups, row, limit=GROUPS, numbers=(1,), kind="rows sortable")
    return section("groups", "Divergent groups", divergent)


def _pods(group: DivergentGroup) -> str:
    values = words.by_value(group.divergent)
    short = "; ".join(f"{len(names):,} at {priority}: {some(names)}" for priority, names in values)
    lists = [
        f"<p>At {priority}:</p><ul>{''.join(f'<li>{text(name)}</li>' for name in names[:POD_NAMES])}</ul>"
        + first_of(len(names), POD_NAMES)
        for priority, names in values
    ]
    return f"<details><summary>{text(short)}</summary>{''.join(lists)}</details>"


def findings_section(title: str, groups: Sequence[RuleFindings]) -> str:
    """Return findings by rule; empty for none."""
    body = [
        '<div class="filter" hidden>',
        '<label>Filter <input type="search" id="filter" placeholder="namespace, name, rule, text"></label>',
        "<fieldset><legend>Severity</legend>",
        *(
            f'<label><input type="checkbox" value="{severity}" checked> {severity}</label>'
            for severity in dict.fromkeys(str(group.severity) for group in groups)
        ),
        '</fieldset><output id="shown" for="filter"></output></div>',
        *map(_rule, groups),
    ]
    return section("findings", title, "\n".join(body)) if groups else ""


def _rule(group: RuleFindings) -> str:
    title = group.rule.title if group.rule else group.id
    why = (
        f'<p class="why">{text(group.rule.why)} '
        f'<span class="note">Source: {text(group.rule.source)}</span></p>'
        if group.rule
        else ""
    )
    number = count(len(group.findings), "finding")
    opened = " open" if group.severity.rank == 0 else ""
    return "\n".join(
        [
            f'<details class="rule {group.severity}" id="rule-{text(group.id)}"{opened}>',
            "<summary>",
            f'<span class="badge {group.severity}">{group.severity}</span>',
            f"<h3>{text(title)}</h3>",
            f'<span class="note"><code>{text(group.id)}</code> {number}</span>',
            "</summary>",
            why,
            '<ul class="findings">',
            *map(finding_item, group.findings[:FINDINGS]),
            "</ul>",
            first_of(len(group.findings), FINDINGS),
            "</details>",
        ]
    )


def _aside(name: str, title: str, caption: str, findings: Sequence[Finding]) -> str:
    """Return findings that do not count, with the reason if there is one."""

    def row(finding: Finding) -> tuple[str, str]:
        reason = ""
        if isinstance(finding, IgnoredFinding):
            reason = f'<p class="fix"><b>Ignored:</b> {text(finding.reason)}</p>'
        rule = f'<span class="note"><code>{text(finding.rule)}</code></span>'
        return f"{text(str(finding.object))} {rule}", text(finding.message) + reason

    return section(name, title, table(caption, ("Object", "Finding"), findings, row, limit=ASIDE))


def _ignores(ignores: Sequence[IgnoreShare]) -> str:
    def row(share: IgnoreShare) -> tuple[str, str]:
        objects = text(", ".join(share.objects)) or "all objects"
        note = f'<span class="note">{count(share.findings, "finding")}, {text(words.holds(share))}</span>'
        return f"<code>{text(share.rule)}</code> {objects} {note}", text(share.reason)

    body = table("What the configuration ignores", ("Ignore", "Reason"), ignores, row, limit=ASIDE)
    return section("ignores", "Ignores", body)


def left_out_section(summary: AuditSummary) -> str:
    """Return what was not read or not checked; empty for none."""
    skipped = ", ".join(words.amounts(summary.skipped))
    parts = [
        table(
            "Kinds that could not be read",
            ("Kind", "Why", "Rules that did not run"),
            summary.notChecked,
            lambda missing: (text(missing.kind), text(missing.why), text(listed(missing.rules)) or "none"),
        ),
        f"<p>Kinds that Podium does not read were skipped: {text(skipped)}.</p>" if skipped else "",
    ]
    return section("left-out", "Not checked", "\n".join(filter(None, parts)))


def _bar(value: int, most: int) -> str:
    """Return a bar for a share of the largest value; hidden from screen readers, which read the number."""
    width = round(100 * value / most, 2) if most else 0
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect width="{width:g}" height="10"/></svg>'
    )
