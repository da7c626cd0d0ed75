"""`podium dump`: write what Podium reads of a cluster to one file that can be shared."""

import secrets
from pathlib import Path

import click

from podium.cli.kubeoptions import KubeOptions, kube_options
from podium.cli.live import check_read, read_live
from podium.cli.main import examples
from podium.cli.render.output import to_stdout
from podium.documents.load import collector_paused
from podium.stderr import say


@click.command(
    epilog=examples(
        ("Dump all namespaces", "podium dump -A -o cluster.json.gz"),
        (
            "Dump with names, namespaces and label values replaced",
            "podium dump -A --pseudonyms -o shared.json.gz",
        ),
    )
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE.json.gz|-",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Output file, compressed if its name ends in .gz; - for stdout.",
)
@click.option(
    "--pseudonyms",
    is_flag=True,
    help="Replace names, namespaces and label values consistently by pseudonyms.",
)
@click.option(
    "--events",
    is_flag=True,
    help="Include the history for `podium why`: eviction events, PreemptionRecords, and the "
    "conditions of pods and groups.",
)
@kube_options
def command(output: str, pseudonyms: bool, events: bool, kube: KubeOptions) -> None:
    """Write what Podium reads of a cluster to a file, for an audit or a plan elsewhere.

    The file holds only the fields that rules and schedulers read: no environment, arguments, images or
    foreign annotations. Only your account can read it. The cluster is read with get and list requests only.
    """
    from podium.api.events import PAST_READS  # noqa: PLC0415 - as below
    from podium.api.schedulable import SCHEDULING_READS  # noqa: PLC0415 - as below
    from podium.ops import dump, share  # noqa: PLC0415 - `--help` does not need it

    if events and kube.selector:
        raise click.UsageError("--events excludes -l, because events have no labels.")
    with collector_paused():
        reads = {**SCHEDULING_READS, **PAST_READS} if events else SCHEDULING_READS
        recorder, info = read_live(kube, dump.DumpRecorder, reads)
        check_read(info, reads)
        info = recorder.limit(info)
        rename = share.pseudonyms(secrets.token_bytes(32)) if pseudonyms else None
        if output == "-":
            to_stdout(b"".join(dump.lines(recorder, info, rename)))
        else:
            dump.write(Path(output), recorder, info, rename)
    counts = ", ".join(f"{count:,} {name}" for name, count in recorder.counts().items() if count)
    where = "standard output" if output == "-" else output
    say(f"podium: {where}: {counts or 'no objects'}")
    for kind, why in info.unread.items():
        say(f"podium: not included: {kind}: {why}")
