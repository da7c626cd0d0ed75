"""The page of divergences: the audit's findings on priorities that differ, rendered as in the audit."""

from podium.answers.audits.report import AuditReport, DivergentGroup
from podium.audit import classes, groups, members, neighbours
from podium.audit.table import RULES
from podium.cli.render.context import by_rule
from podium.cli.render.html import text, tiles
from podium.cli.render.page import findings_section, groups_section, left_out_section
from podium.cli.render.words import group_name
from podium.cli.ui.page_parts import Here, PageContext, object_link, page
from podium.rules import podiumrules
from podium.text import count

# The rules of the audit on priorities that differ.
ABOUT = (
    members.POD_PRIORITY_DIFFERS,
    members.PREEMPTION_POLICY_DIFFERS,
    members.POD_OLDER_THAN_GROUP,
    podiumrules.GROUP_UNLIKE_TEMPLATE,
    groups.TEMPLATE_PRIORITIES_DIFFER,
    classes.CLASS_VALUE_CHANGED,
    neighbours.KUEUE_PRIORITY_DIFFERS,
    neighbours.INFERRED_PRIORITY_DIFFERS,
)


def diverging(report: AuditReport, here: Here, around: PageContext) -> str:
    """Return the page of a report of these rules."""
    summary = report.summary
    divergent_groups = len(report.groups)
    subject = count(divergent_groups, "group") if divergent_groups else "No group"
    style = "blocked" if divergent_groups else "clear"
    verb = "has" if divergent_groups <= 1 else "have"
    header = (
        f'<p class="eyebrow">For Kubernetes {text(summary.kubernetes)} ({text(summary.chosenBy)})</p>\n'
        f'<h1 class="{style}">{subject} {verb} pods of another priority.</h1>\n'
        + tiles(
            [
                ("error", "divergent group", "", divergent_groups),
                ("error", "error", "", summary.errors),
                ("warning", "warning", "", summary.warnings),
                ("info", "info", "", summary.infos),
            ]
        )
        + (
            f"<p>Checked by {len(ABOUT)} of the audit's {len(RULES)} rules; <code>podium audit</code> "
            "checks all.</p>"
        )
    )
    sections = [
        groups_section(report.groups, named=_link),
        findings_section("Findings by rule", by_rule(report.findings, ABOUT)),
        left_out_section(summary),
    ]
    return page("Divergences", here, around, header, sections)


def _link(group: DivergentGroup) -> str:
    """Return a link to a group; an inferred group has no page."""
    if group.source == "inferred":
        return text(group_name(group))
    return object_link("PodGroup", group.namespace, group.name)
