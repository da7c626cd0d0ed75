"""GitHub's workflow commands: one annotation per finding, with file and line if the input was files.

The runner reads any line that starts with `::` as a command. Every text is therefore escaped as in GitHub's
toolkit, and no text from the input is outside a command.
"""

from pathlib import PurePath

from podium.answers.audits.report import AuditReport, NotChecked
from podium.api.findings import Finding, Severity
from podium.cli.render.context import Context
from podium.cli.render.words import aside_lines, headline
from podium.text import visible

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
