"""`podium dump`: write what Podium reads of a cluster to one file that can be shared."""

import secrets
from pathlib import Path

import click

from podium.cli import progress
from podium.cli.kubeoptions import KubeOptions, kube_options
from podium.cli.live import check_read, read_live
from podium.cli.main import examples
from podium.cli.render.output import Output, output_options, to_stdout
from podium.documents.load import collector_paused
from podium.stderr import say


@click.command(
    epilog=examples(
        ("Dump all namespaces", "podium dump -A --output-file cluster.json.gz"),
        (
            "Dump with names, namespaces and label values replaced",
            "podium dump -A --pseudonyms --output-file shared.json.gz",
        ),
    )
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
@output_options("json")
def command(output: Output, pseudonyms: bool, events: bool, kube: KubeOptions) -> None:
    """Write what Podium reads of a cluster, for an audit or a plan elsewhere.

    The dump holds only the fields that rules and schedulers read: no environment, arguments, images or
    foreign annotations. Only your account can read the file, which is compressed if its name ends in .gz.
    The cluster is read with get and list requests only.
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
        numbers = recorder.counts().values()
        # The List and the ClusterInfo have lines, and so have both ends of the List of each kind.
        with progress.working("writing lines", 3 + 2 * len(numbers) + sum(numbers)) as work:
            written = work.track(dump.lines(recorder, info, rename))
            if output.file is None:
                to_stdout(b"".join(written))
            else:
                dump.write(Path(output.file), written)
    counts = ", ".join(f"{count:,} {name}" for name, count in recorder.counts().items() if count)
    say(f"podium: {output.file or 'standard output'}: {counts or 'no objects'}")
    for kind, why in info.unread.items():
        say(f"podium: not included: {kind}: {why}")
