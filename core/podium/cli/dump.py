"""`podium dump`: write what Podium reads of a cluster to one file that can be shared."""

import secrets
from pathlib import Path

import click

from podium.cli.inputs import KubeOptions, check_read, kube_options, read_live
from podium.cli.render.output import to_stdout
from podium.documents.load import collector_paused


@click.command()
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE.json.gz|-",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The file to write, gzip where its name ends in .gz; - is stdout.",
)
@click.option(
    "--pseudonyms", is_flag=True, help="Replace names, namespaces and label values, each always by the same."
)
@click.option(
    "--events",
    is_flag=True,
    help="Also what `podium why` tells the past by: events of evictions, PreemptionRecords, and what "
    "schedulers and kubelets say of pods and groups.",
)
@kube_options
def command(output: str, pseudonyms: bool, events: bool, kube: KubeOptions) -> None:
    """Write what Podium reads of a cluster to a file, for an audit or a plan elsewhere.

    Only the fields that rules and schedulers read: no environment, arguments, images, nor annotations of
    others. The file is readable by you alone. Reads by get and list only.
    """
    from podium.api.events import PAST_READS  # noqa: PLC0415 - as below
    from podium.api.schedulable import SCHEDULING_READS  # noqa: PLC0415 - as below
    from podium.ops import dump, share  # noqa: PLC0415 - `--help` does not need it

    if events and kube.selector:
        raise click.UsageError("--events does not go with -l: an event has no labels.")
    with collector_paused():
        reads = {**SCHEDULING_READS, **PAST_READS} if events else SCHEDULING_READS
        recorder, info = read_live(kube, dump.Recorder, reads)
        check_read(info, reads)
        info = recorder.limit(info)
        rename = share.pseudonyms(secrets.token_bytes(32)) if pseudonyms else None
        if output == "-":
            to_stdout(b"".join(dump.lines(recorder, info, rename)))
        else:
            dump.write(Path(output), recorder, info, rename)
    counts = ", ".join(f"{count:,} {name}" for name, count in recorder.counts().items() if count)
    where = "standard output" if output == "-" else output
    click.echo(f"podium: {where}: {counts or 'no objects'}", err=True)
    for kind, why in info.unread.items():
        click.echo(f"podium: not in it: {kind}: {why}", err=True)
