"""`podium why`: why a pod or group waits, its effective priority, and what evicted it.

podium.answers computes the answer from values. This module reads, and shows the result.
"""

import functools
from datetime import UTC, datetime

import click

from podium.cli import inputs, kubeoptions, naming, progress
from podium.cli.main import examples
from podium.cli.options import option_errors, plugin_option
from podium.cli.render.data import as_builtins, document
from podium.cli.render.output import Output, output_options
from podium.cluster.reader import Name
from podium.documents.reading import ClusterReading, every_namespace


@click.command(
    epilog=examples(
        ("Explain a group in a dump", "podium why group team-vision/ablation -f cluster.json.gz"),
        ("Explain a pod of the live cluster", "podium why pod trainer -n team-a"),
    )
)
@click.argument("kind", type=naming.KindChoice(with_name=True))
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False)
@naming.within_option
@inputs.file_options
@kubeoptions.server_options()
@click.option(
    "--config", metavar="FILE", help="File with a WhatIfConfiguration (budgets, victims, divergence)."
)
@plugin_option
@click.option(
    "--tenant",
    metavar="NS",
    help="Namespace of the reader; objects of other namespaces are shown by UID only.",
)
@output_options("table", "json", "yaml")
def command(
    *,
    kind: str,
    name: str | None,
    within: str | None,
    files: inputs.InputFiles,
    kube: kubeoptions.KubeOptions,
    config: str | None,
    plugins: tuple[str, ...],
    tenant: str | None,
    output: Output,
) -> None:
    """Show why a pod or group waits, its effective priority, and which workload preempted it.

    Reads files (-f) or the live cluster with get and list requests only.

    Exit code: 0 explained, 2 usage error, 1 pod or group not found, or the command failed. All formats give
    the same exit code.
    """
    kind, slash, named_so = kind.partition("/")
    if (name is not None) == bool(slash):
        raise click.UsageError("Name one pod or group, such as pod team-a/trainer or pod/trainer -n team-a.")
    named = naming.Naming(within, tenant, kube, live=not files.names).full(kind, name or named_so)
    inputs.stdin_once([*files.names, config or ""])
    cluster, settings = _read(kind, named, tenant, files, kube), inputs.overriding_settings(config, plugins)
    from podium.answers import why  # noqa: PLC0415 - numpy takes 0.1 s to import
    from podium.cli.render.why_words import why_table  # noqa: PLC0415 - as above

    with option_errors({kind: f"{kind}: {{}}"}), progress.working("looking for the reasons") as work:
        engine = progress.counting_engine(work, 1)
        account = why(cluster, named, kind, settings=settings, tenant=tenant, engine=engine).account
    now = datetime.now(UTC) if cluster.live else None
    output.report(
        functools.partial(why_table, account, now), lambda: document("WhyReport", **as_builtins(account))
    )


def _read(
    kind: str, name: Name, tenant: str | None, files: inputs.InputFiles, kube: kubeoptions.KubeOptions
) -> ClusterReading:
    """Return the content of files, or the needed part of a cluster. Raises PodiumError."""
    from podium.answers.accounts import explain  # noqa: PLC0415 - numpy, as above
    from podium.answers.accounts.answer import WhyQuery, draft_account  # noqa: PLC0415 - as above
    from podium.cli import clusterinput  # noqa: PLC0415 - as above

    if files.names:
        return clusterinput.from_files(files, kube.scope_of_files())
    query = WhyQuery(kind, name, tenant=tenant)

    def namespaces(read: ClusterReading) -> set[str]:
        account = draft_account(query, read._replace(known=every_namespace))
        return explain.namespaces(account) if account is not None and tenant is None else set()

    def whole(read: ClusterReading) -> bool:
        account = draft_account(query, read)
        if account is None:
            return False
        return explain.wants_room(account) or (tenant is None and explain.unnamed(account))

    return clusterinput.from_cluster(
        kube._replace(namespace=name[0]), clusterinput.FurtherData(namespaces, whole)
    )
