"""`podium uninstall`: remove Podium from a cluster, in an order in which no write is refused meanwhile."""

import sys

import click

from podium.cli import kubeoptions
from podium.cli.installing import echo
from podium.cli.main import EXIT_FINDINGS, examples
from podium.text import visible, visible_lines


@click.command(
    epilog=examples(
        ("Remove Podium and keep its groups", "podium uninstall"),
        ("Remove Podium and its groups without a prompt", "podium uninstall --delete-groups --yes"),
    )
)
@click.option(
    "--delete-groups", is_flag=True, help="Also delete Podium's groups, Workloads and PreemptionRecords."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@kubeoptions.server_options()
def command(*, delete_groups: bool, yes: bool, kube: kubeoptions.KubeOptions) -> None:
    """Remove Podium from the cluster, with the namespace podium-system and everything in it.

    The webhook registration goes first, so no write is refused meanwhile. Custom resources are kept unless
    --delete-groups is given, and so is the namespace if it holds some. The status of groups keeps only that
    they were scheduled. If it is interrupted, run it again.

    Exit code 3: the API server kept some objects.
    """
    import asyncio  # noqa: PLC0415 - `--help` does not need it

    from podium.kube.connection import connect  # noqa: PLC0415 - as above
    from podium.ops import uninstalling  # noqa: PLC0415 - as above

    async def run() -> None:
        async with connect(kube.kubeconfig, kube.context, kube.requests) as connection:
            echo(f"context {connection.context}, server {connection.server}")
            planned = await uninstalling.look(connection, delete_groups=delete_groups)
            for step in planned.steps:
                click.echo(visible_lines(str(step)))
            for each in planned.kept:
                click.echo(visible(f"keep {each}"))
            if not planned.steps:
                echo("nothing to remove")
                return
            if not yes:
                click.confirm("Continue?", abort=True, err=True)
            left = await uninstalling.carry_out(connection, planned, echo=echo)
            for each in left:
                echo(each)
            if left:
                sys.exit(EXIT_FINDINGS)

    asyncio.run(run())
