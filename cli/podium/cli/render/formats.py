"""Render a report as text: every format by name, all pure functions of the same values."""

from collections.abc import Callable

from podium.answers.audits.report import AuditReport
from podium.cli.render.context import Context
from podium.cli.render.data import as_text, audit_document
from podium.cli.render.github import render_github
from podium.cli.render.junit import render_junit
from podium.cli.render.names import render_names
from podium.cli.render.page import render_page
from podium.cli.render.sarif import render_sarif
from podium.cli.render.table import render_table, render_wide

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
