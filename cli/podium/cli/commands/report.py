"""`podium report`: victims and preemptors, from the history that the scheduler keeps in PreemptionRecords.

This command is for administrators: it reads Podium's own namespace and names the pods and groups of everyone.
"""

import functools
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from podium.api.durations import seconds
from podium.api.inputnotes import InputNotes
from podium.api.reads import Kind
from podium.api.records import RECORD_KIND, RECORD_PLURAL, RECORD_READS, RECORD_VERSION, PreemptionRecord
from podium.cli import inputs, kubeoptions, options, progress
from podium.cli.live import read_live
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.data import as_builtins, document
from podium.cli.render.output import Output, output_options
from podium.documents.scope import ScopeFilter
from podium.documents.sources import read_documents
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.kube.discovery import Discovery
    from podium.kube.listing import Page

# Days, which Go's durations do not have, then a Go duration.
_SINCE = re.compile(r"(?:(\d{1,5})d)?(.*)", re.ASCII)
_DAY_SECONDS = 86_400.0
_LIST = f"{RECORD_KIND}List"


def _span(text: str) -> timedelta:
    """Return a time span such as `7d`, `36h` or `1d12h`."""
    match = _SINCE.fullmatch(text)
    days, rest = (match[1], match[2]) if match is not None else (None, text)
    more = seconds(rest) if rest else 0.0
    if more is None or not (days or rest):
        raise ValueError(f"{text!r} is not a duration, such as 7d or 36h.")
    try:
        return timedelta(seconds=int(days or 0) * _DAY_SECONDS + more)
    except OverflowError:
        raise ValueError(f"{text!r} is too long.") from None


SPAN = options.Parsed("duration", _span)


@click.command(
    epilog=examples(
        ("Summarize the last 7 days of the live cluster", "podium report"),
        ("Summarize the last 14 days of a file of records", "podium report -f records.yaml --since 14d"),
    )
)
@inputs.file_options
@kubeoptions.scope_options("Namespace of the PreemptionRecords. By default all.")
@click.option(
    "--since",
    type=SPAN,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Age of the oldest preemption, such as 7d or 36h.",
)
@output_options("table", "json", "yaml")
def command(
    *, files: inputs.InputFiles, kube: kubeoptions.KubeOptions, since: timedelta, output: Output
) -> None:
    """Summarize recent preemptions, carried out and observed only.

    Reads PreemptionRecords from files (-f) or the live cluster.

    Exit code: 0 no problem; 3 a preemption failed, or workloads evicted each other in a cycle; 2 usage
    error, 1 the command failed. All formats give the same exit code.
    """
    from podium.cli.render.history_table import history_table  # noqa: PLC0415 - numpy, as below
    from podium.history.summary import summarize  # noqa: PLC0415 - `--help` needs no numpy

    records = _from_files(files, kube) if files.names else _live(kube)
    until = _newest(records) if files.names else datetime.now(UTC)
    summary = summarize(records, _before(until, since), until)
    whole = document("PreemptionReport", plans=summary.plans, **as_builtins(summary))
    output.report(functools.partial(history_table, summary), lambda: whole)
    if summary.failed or summary.cycles:
        sys.exit(EXIT_FINDINGS)


def _from_files(files: inputs.InputFiles, kube: kubeoptions.KubeOptions) -> list[PreemptionRecord]:
    """Return the records in files; other kinds are ignored, or refused if strict. Raises PodiumError."""
    chosen = ScopeFilter(kube.scope_of_files())
    notes = InputNotes()
    records, listed = [], False
    with progress.working("reading objects") as work:
        for stored in inputs.tracked(work, files.names, read_documents(files, notes)):
            if (stored.apiVersion, stored.kind) == (RECORD_VERSION, RECORD_KIND):
                record = stored.read(PreemptionRecord)
                if chosen.keeps(record.metadata):
                    records.append(record)
            elif (stored.apiVersion, stored.kind) == (RECORD_VERSION, _LIST) or stored.kind == "List":
                listed = True
            elif files.strict:
                raise stored.error(f"{stored.apiVersion} {stored.kind} is not a {RECORD_KIND} (--strict)")
    inputs.say_notes(notes)
    chosen.check()
    if not records and not listed:
        raise PodiumError(
            f"no {RECORD_KIND} in the input. To write one: kubectl get {RECORD_PLURAL} -A -o json"
        )
    return records


class _Records:
    """Collects the records of a live cluster."""

    def __init__(self, discovery: "Discovery") -> None:  # noqa: ARG002 - every collector has this signature
        self.records: list[PreemptionRecord] = []

    def add_page(self, page: "Page") -> None:
        """Decode a page. Raises ReadError."""
        self.records += [stored.read(PreemptionRecord) for stored in page.documents]


def _live(kube: kubeoptions.KubeOptions) -> list[PreemptionRecord]:
    """Return the records of a live cluster. Raises PodiumError."""
    decoded, info = read_live(kube.everything, _Records, RECORD_READS)
    why = info.unread.get(Kind.PREEMPTION_RECORD)
    if why is not None:
        raise PodiumError(
            f"{RECORD_KIND}: {why}. The scheduler records preemptions only if the custom resources "
            "are installed (podium manifests crds)"
        )
    return decoded.records


def _newest(records: Iterable[PreemptionRecord]) -> datetime:
    """Return the time of the newest plan, because a file is from the past."""
    from podium.history.records import moment_of  # noqa: PLC0415 - as above

    times = [at for record in records for plan in record.plans if (at := moment_of(plan)) is not None]
    return max(times, default=datetime.now(UTC)).astimezone(UTC)


def _before(until: datetime, since: timedelta) -> datetime:
    try:
        return until - since
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
