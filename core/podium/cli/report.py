"""`podium report`: who lost pods to whom, from the history that the scheduler keeps in PreemptionRecords.

This command is for administrators: it reads Podium's own namespace and names the pods and groups of everyone.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from podium.api.durations import seconds
from podium.api.reads import Kind
from podium.api.records import RECORD_KIND, RECORD_PLURAL, RECORD_READS, RECORD_VERSION, PreemptionRecord
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.data import as_json, as_yaml, document
from podium.cli.render.output import deliver, layout
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.kube.discovery import Discovery
    from podium.kube.listing import Page

# Days, which Go's durations do not have, then a Go duration.
_SINCE = re.compile(r"(?:(\d{1,5})d)?(.*)", re.ASCII)
_DAY_SECONDS = 86_400.0
_LIST = f"{RECORD_KIND}List"


class Span(click.ParamType[timedelta]):
    """A time span: `7d`, `36h`, `1d12h`."""

    name = "duration"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the time span."""
        if isinstance(value, timedelta):
            return value
        found = _SINCE.fullmatch(value)
        days, rest = (found[1], found[2]) if found is not None else (None, value)
        more = seconds(rest) if rest else 0.0
        if more is None or not (days or rest):
            self.fail(f"{value!r} is not a length of time such as 7d or 36h.", param, ctx)
        try:
            return timedelta(seconds=int(days or 0) * _DAY_SECONDS + more)
        except OverflowError:
            self.fail(f"{value!r} is too long.", param, ctx)


@click.command("report", short_help="Sum up who was preempted for whom, and what would have been.")
@inputs.file_options
@inputs.server_options(inputs.namespace_option("Read the records of one namespace, not of all."))
@click.option(
    "--since", type=Span(), default="7d", show_default=True, metavar="TIME", help="How far back: 7d, 36h."
)
@inputs.output_options("table", "json", "yaml")
def command(
    *,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    since: timedelta,
    output: str,
    output_file: str | None,
) -> None:
    """Sum up the preemptions of the last days: carried out, only observed, and planned by a shadow.

    The records are read from files (-f) or live. Exit code: 0 all well, 3 preemptions failed or went in
    circles, 2 usage, 1 the tool failed; the same in every format.
    """
    from podium.cli.render.history_table import history_table  # noqa: PLC0415 - numpy, as below
    from podium.schedulerplugin.scheduling.summary import summarize  # noqa: PLC0415 - `--help` needs no numpy

    records = _from_files(filenames, kube, strict=strict) if filenames else _live(kube)
    until = _newest(records) if filenames else datetime.now(UTC)
    summary = summarize(records, _before(until, since), until)
    if output == "table":
        text = history_table(summary, layout(to_file=output_file is not None))
    else:
        # Converted through JSON, which has only lists.
        whole = document(
            "PreemptionReport", plans=summary.plans, **msgspec.json.decode(msgspec.json.encode(summary))
        )
        text = as_json(whole) if output == "json" else as_yaml(whole)
    deliver(text, output_file)
    if summary.failed or summary.cycles:
        sys.exit(EXIT_FINDINGS)


def _from_files(
    filenames: Sequence[str], kube: inputs.KubeOptions, *, strict: bool
) -> list[PreemptionRecord]:
    """Return the records in files; other kinds are ignored, or refused if `strict`. Raises PodiumError."""
    kube.refuse_with_files()
    records, listed = [], False
    for each in inputs.read_documents(filenames):
        if (each.apiVersion, each.kind) == (RECORD_VERSION, RECORD_KIND):
            records.append(each.read(PreemptionRecord))
        elif (each.apiVersion, each.kind) == (RECORD_VERSION, _LIST) or each.kind == "List":
            listed = True
        elif strict:
            raise each.error(f"{each.apiVersion} {each.kind} is no {RECORD_KIND} (--strict)")
    if not records and not listed:
        raise PodiumError(
            f"the input holds no {RECORD_KIND}; write one with: kubectl get {RECORD_PLURAL} -A -o json"
        )
    return records


class _Records:
    """Collects the records of a live cluster."""

    def __init__(self, discovery: "Discovery") -> None:  # noqa: ARG002 - every collector has this signature
        self.records: list[PreemptionRecord] = []

    def add_page(self, page: "Page") -> None:
        """Decode a page. Raises ReadError."""
        self.records += [each.read(PreemptionRecord) for each in page.documents]


def _live(kube: inputs.KubeOptions) -> list[PreemptionRecord]:
    """Return the records of a live cluster. Raises PodiumError."""
    whole = kube._replace(all_namespaces=kube.namespace is None)
    found, info = inputs.read_live(whole, _Records, RECORD_READS)
    why = info.unread.get(Kind.PREEMPTION_RECORD)
    if why is not None:
        raise PodiumError(
            f"{RECORD_KIND}: {why}; the scheduler keeps its history where `podium manifests crds` is applied"
        )
    return found.records


def _newest(records: Iterable[PreemptionRecord]) -> datetime:
    """Return the time of the newest plan, because a file is from the past."""
    from podium.schedulerplugin.scheduling.history import moment_of  # noqa: PLC0415 - as above

    times = [at for record in records for plan in record.plans if (at := moment_of(plan)) is not None]
    return max(times, default=datetime.now(UTC)).astimezone(UTC)


def _before(until: datetime, since: timedelta) -> datetime:
    try:
        return until - since
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
