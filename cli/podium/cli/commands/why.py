"""`podium why`: why a pod or group waits, its effective priority, and what evicted it.

podium.cli.whyanswer computes the answer from values. This module reads, and shows the result.
"""

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from podium.cli import inputs, kubeoptions, naming
from podium.cli.main import examples
from podium.cli.render.data import as_builtins, document
from podium.cli.render.output import Output, output_options
from podium.cli.whyanswer import WhyQuery, draft_account, explain_query, not_found_message, placed_query
from podium.documents.load import collector_paused
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.cli.whyinput import WhyData


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
    question = WhyQuery(kind, named, config, tenant, live=not files.names)
    read = _read(question, files, kube)
    question = placed_query(question, read)
    with collector_paused(), read.near.origins.placed():
        account = explain_query(question, read, datetime.now(UTC)).account
    if account is None:
        raise PodiumError(not_found_message(question, read))
    from podium.cli.render.why_table import why_table  # noqa: PLC0415 - numpy, as below

    now = datetime.now(UTC) if question.live else None
    output.report(
        functools.partial(why_table, account, now), lambda: document("WhyReport", **as_builtins(account))
    )


def _read(question: WhyQuery, files: inputs.InputFiles, kube: kubeoptions.KubeOptions) -> "WhyData":
    """Return the content of files, or the needed part of a cluster. Raises PodiumError."""
    from podium.answers.accounts import explain  # noqa: PLC0415 - as above
    from podium.cli import whyinput  # noqa: PLC0415 - numpy, as below

    if files.names:
        return whyinput.from_files(files, kube.scope_of_files())

    def others(read: "WhyData") -> set[str]:
        account = draft_account(question, read._replace(known=lambda _namespace: True), datetime.now(UTC))
        return explain.namespaces(account) if account is not None and question.tenant is None else set()

    def whole(read: "WhyData") -> bool:
        account = draft_account(question, read, datetime.now(UTC))
        if account is None:
            return False
        return explain.wants_room(account) or (question.tenant is None and explain.unnamed(account))

    return whyinput.from_cluster(kube._replace(namespace=question.name[0]), whyinput.Asks(others, whole))
