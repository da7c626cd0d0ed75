"""`podium audit`: read a cluster from files or live, audit it, and write one report in the requested format.

The report may be compared with a baseline: an earlier report, or another input, which is then audited first.
The report is complete before its first byte is written, and the exit code comes from the findings that count.
Neither depends on the format.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from podium.answers import audit
from podium.answers.audits.baseline import Triage, baseline_of
from podium.answers.audits.report import API_VERSION, AuditReport, AuditSummary
from podium.answers.audits.run import MINORS, check_rules
from podium.api.claims import AUDIT_READS
from podium.api.findings import Finding
from podium.api.reads import Kind
from podium.api.times import written
from podium.audit.table import RULES
from podium.cli import inputs, kubeoptions, options, progress
from podium.cli.live import watch_live
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.options import option_errors
from podium.cli.render.context import Context, FindingLocation
from podium.cli.render.formats import FORMATS, render
from podium.cli.render.output import Output, deliver, output_options
from podium.cli.render.pictures.clustermap import ClusterMap, cluster_map
from podium.documents.load import Loaded, Origins, collector_paused
from podium.documents.reading import ClusterReading, objects_read, source_words
from podium.documents.sources import OWN_CONFIG, InputFiles, read_documents
from podium.errors import PodiumError
from podium.rules.rule import Rule
from podium.stderr import say
from podium.text import count
from podium.version import VERSION

# The formats that say in the report for which release it is.
_FOR_PEOPLE = ("table", "wide", "html")


@click.command(
    epilog=examples(
        ("Audit all namespaces of the live cluster", "podium audit -A"),
        (
            "Audit a dump and write the findings as SARIF",
            "podium audit -f cluster.json.gz -o sarif --output-file audit.sarif",
        ),
    )
)
@inputs.file_options
@kubeoptions.kube_options
@output_options(*FORMATS)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="Minimum severity for exit code 3.",
)
@click.option("--select", multiple=True, metavar="RULE", help="Run only this rule. Can be repeated.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Skip this rule. Can be repeated.")
@click.option("--baseline", metavar="FILE", help="Earlier report (-o json) whose findings do not count.")
@click.option(
    "--diff",
    nargs=2,
    metavar="OLD NEW",
    help="Count only the findings of NEW that OLD does not have. Both as for -f.",
)
@click.option(
    "--config",
    metavar="FILE",
    help="File with an AuditConfiguration (severities, ignores; docs/ci.md), '' for none.  [default: "
    "$PODIUM_CONFIG, else .podium.yaml of the current folder or its repository]",
)
@click.option(
    "--watch", is_flag=True, help="Read the live cluster until Ctrl-C, and print each report that differs."
)
@click.option(
    "--kubernetes", type=options.minor_choice(MINORS), help="Kubernetes minor.  [default: the server's]"
)
def command(
    *,
    files: inputs.InputFiles,
    kube: kubeoptions.KubeOptions,
    output: Output,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: str | None,
    diff: tuple[str, str] | None,
    config: str | None,
    watch: bool,
    kubernetes: str | None,
) -> None:
    """Find groups and pods that Kubernetes will not schedule, and groups whose pods differ from them.

    Reads files (-f) or the live cluster, and writes nothing to it.

    Exit code: 0 no findings, 3 findings at the --fail-on level or above, 2 usage error, 1 the command
    failed. All formats give the same exit code. Ctrl-C ends --watch with the exit code of its last report.
    """
    judge = AuditRun(select, ignore, kubernetes)
    with option_errors({}):
        check_rules(select, ignore)
    before, after = InputFiles(), files
    if diff is not None:
        before, after = files._replace(names=diff[:1]), files._replace(names=diff[1:])
    if diff is not None and (files.names or kube.given or baseline is not None):
        raise click.UsageError(
            "--diff reads OLD and NEW and excludes -f, --baseline and the flags of a live cluster."
        )
    if watch and (files.names or diff is not None):
        raise click.UsageError("--watch reads a live cluster and excludes -f and --diff.")
    triage_file = _config(config)
    inputs.stdin_once([*before.names, *after.names, *filter(None, (baseline, triage_file))])
    triage = _triage(triage_file)
    if diff is not None:
        old = judge.report(inputs.load(before, kube, reads=AUDIT_READS), before, Triage())
        _say_minor(old, diff[0])
        triage = msgspec.structs.replace(triage, baseline=baseline_of(old, diff[0]))
    elif baseline is not None:
        triage = msgspec.structs.replace(triage, baseline=baseline_of(_read_report(baseline), baseline))
    printer = ReportPrinter(judge, triage, after, output, diff[1] if diff is not None else "")
    if watch:
        watch_live(kube, AUDIT_READS, printer.show)
    else:
        printer.show(inputs.load(after, kube, reads=AUDIT_READS))
    if printer.report is None:
        raise PodiumError("stopped before the first report")
    if _fails(printer.report.summary, fail_on):
        sys.exit(EXIT_FINDINGS)


class ReportPrinter:
    """Prints the audit of each reading whose findings differ from those before; `report` is the newest."""

    def __init__(
        self, judge: "AuditRun", triage: Triage, files: InputFiles, output: Output, name: str
    ) -> None:
        """`name` is that of the input on stderr, if a command has several."""
        self.report: AuditReport | None = None
        self._judge = judge
        self._triage = triage
        self._files = files
        self._output = output
        self._name = name

    def show(self, loaded: Loaded) -> None:
        """Audit a reading and print the report. Raises PodiumError."""
        triage = msgspec.structs.replace(self._triage, today=_today())
        report = self._judge.report(loaded, self._files, triage)
        before, self.report = self.report, report
        if before is not None and _outcome(before) == _outcome(report):
            return
        if before is not None:
            say("")
            say(f"podium: {written(datetime.now(UTC))}: the report has changed")
        if self._output.format not in _FOR_PEOPLE:
            _say_minor(report, self._name)
        context = _context(self._files, loaded, self._judge.rules(triage), self._output)
        with collector_paused(), progress.working("writing the report"):
            text = render(report, self._output.format, context)
        deliver(text, self._output.file)


def _outcome(report: AuditReport) -> tuple[object, ...]:
    """Return the parts of a report whose change is news; the counts of objects change all the time."""
    summary = report.summary
    return (
        *(report.findings, report.groups, report.known, report.ignored, report.gone),
        *(summary.blocked, summary.notChecked, summary.kubernetes),
    )


def _say_minor(report: AuditReport, name: str) -> None:
    summary = report.summary
    prefix = f"{name}: " if name else ""
    say(f"podium: {prefix}Kubernetes {summary.kubernetes} ({summary.chosenBy})")


class AuditRun(NamedTuple):
    """The requested rules, and the minor to audit for, None for the input's own."""

    select: Collection[str]
    ignore: Collection[str]
    kubernetes: str | None

    def rules(self, triage: Triage) -> list[Rule]:
        """Return the requested rules with their configured severities."""
        return [
            msgspec.structs.replace(rule, severity=triage.severities.get(rule.id, rule.severity))
            for rule in RULES
            if (not self.select or rule.id in self.select) and rule.id not in self.ignore
        ]

    def report(self, loaded: Loaded, files: InputFiles, triage: Triage) -> AuditReport:
        """Return the audit of the input. Raises click.UsageError if nothing was read that it looks at."""
        inputs.check_read(loaded, "podium audit")
        cluster = ClusterReading(loaded, source_words(files, loaded), datetime.now(UTC))
        objects = count(sum(objects_read(loaded).values()), "object")
        with progress.working(f"auditing {objects}, rules") as work:
            return audit(
                cluster,
                chosen_by="set by --kubernetes",
                triage=triage,
                track=work.track_all,
                **self._asdict(),
            )


def _config(option: str | None) -> str | None:
    """Return the configuration file; stderr names one that no option names."""
    # Path.home fails for an account without a home.
    home = Path(os.path.expanduser("~"))  # noqa: PTH111
    chosen = choose_config(option, os.environ, Path.cwd(), home)
    if chosen is not None and option is None:
        say(f"podium: configuration {chosen} (--config '' for none)")
    return chosen


def _today() -> date:
    return datetime.now(UTC).date()


def _triage(config: str | None) -> Triage:
    if config is None:
        return Triage(today=_today())
    from podium.cli.config.auditfile import read_triage  # noqa: PLC0415 - an audit without a file needs no pydantic

    return read_triage(config, _today())


def _read_report(path: str) -> AuditReport:
    """Return a report that was written with -o json (or yaml). Raises PodiumError for any other file."""
    documents = list(read_documents(InputFiles([path])))
    document = documents[0]
    if len(documents) != 1 or (document.apiVersion, document.kind) != (API_VERSION, "AuditReport"):
        held = f"{len(documents)} objects" if len(documents) > 1 else f"{document.apiVersion} {document.kind}"
        raise PodiumError(f"{path}: found {held}. Give a report of `podium audit -o json`")
    return document.read(AuditReport)


def _context(files: InputFiles, loaded: Loaded, rules: Sequence[Rule], output: Output) -> Context:
    """Return what a rendering needs from the terminal, the clock and the input."""
    width, colour = output.terminal
    return Context(
        rules=rules,
        input=source_words(files, loaded),
        place=_places(files.names, loaded.origins),
        version=VERSION,
        made=written(datetime.now(UTC)),
        width=width,
        colour=colour,
        headers=not output.no_headers,
        cluster=_map(loaded) if output.format == "html" else None,
    )


def _map(loaded: Loaded) -> ClusterMap | None:
    """Return the map of a whole cluster; a part of one would show used accelerators as free."""
    whole = not loaded.scope.partial and not {Kind.POD, Kind.NODE} & loaded.state.unread.keys()
    return cluster_map(loaded.state) if whole else None


def _places(filenames: Sequence[str], origins: Origins) -> Callable[[Finding], FindingLocation | None]:
    """Return a function that finds findings in the input's files; lines are looked up on demand.

    A finding on an object that is in no file, such as a missing group, is placed in the first file as a
    whole.
    """
    whole = next((FindingLocation(name, None) for name in filenames if Path(name).is_file()), None)

    def place(finding: Finding) -> FindingLocation | None:
        origin = origins.get(finding.object)
        if origin is None:
            return whole
        line = origins.line(finding.object, finding.field)
        return None if line is None else FindingLocation(origin.file, line)

    return place


def _fails(summary: AuditSummary, fail_on: str) -> bool:
    counted = {"error": summary.errors, "warning": summary.errors + summary.warnings, "never": 0}
    return counted[fail_on] > 0


# The configuration that a repository brings along only hides findings or changes their severity, and runs
# nothing. Still, a user must not get it from another user's folder: /tmp is the parent of many folders, and
# every user may write there.


def choose_config(option: str | None, environ: Mapping[str, str], start: Path, home: Path) -> str | None:
    """Return the configuration file: of the option, the environment, else the found one; None for none.

    An empty option means none, and an empty variable is as an absent one.
    """
    if option is not None:
        return option or None
    return environ.get("PODIUM_CONFIG") or _found(start, home)


def _found(start: Path, home: Path) -> str | None:
    """Return the path of the nearest file from a folder up to the root of its repository, or None.

    A file above the folder counts only if it has the folder's owner.
    """
    for folder in _repository(start, home):
        file = folder / OWN_CONFIG
        if file.is_file() and (folder == start or file.lstat().st_uid == start.stat().st_uid):
            return os.path.relpath(file, start)
    return None


def _repository(start: Path, home: Path) -> Iterator[Path]:
    """Yield a folder and those above it up to the one with .git; only the folder if it is in no repository.

    The home folder is not searched from below, because it often is a repository of settings.
    """
    folders = []
    for folder in (start, *start.parents):
        if folder == home and folder != start:
            break
        folders.append(folder)
        if (folder / ".git").exists():
            yield from folders
            return
    yield start
