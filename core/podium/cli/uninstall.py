"""`podium uninstall`: remove Podium from a cluster, in an order in which no write is refused meanwhile."""

import sys
import time

import click

from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS


@click.command()
@click.option(
    "--delete-groups", is_flag=True, help="Delete Podium's groups, Workloads and PreemptionRecords, too."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@inputs.server_options()
def command(*, delete_groups: bool, yes: bool, kube: inputs.KubeOptions) -> None:
    """Take away what an install made, and the namespace podium-system with all that is in it.

    Registration goes first: from then on no write is refused for want of an answer. Custom resources are kept
    unless you say otherwise, and the namespace if it holds some. Of what Podium says in the status of groups
    only that they were scheduled stays. Run it again if it is interrupted. Exit code 3 where the server kept
    more of it.
    """
    import asyncio  # noqa: PLC0415 - `--help` does not need it

    from podium.kube.connection import connect  # noqa: PLC0415 - as above
    from podium.ops import uninstalling  # noqa: PLC0415 - as above

    async def run() -> None:
        async with connect(kube.kubeconfig, kube.context) as connection:
            _say(f"context {connection.context}, server {connection.server}")
            planned = await uninstalling.look(connection, delete_groups=delete_groups)
            for step in planned.steps:
                click.echo(str(step))
            for each in planned.kept:
                click.echo(f"keep {each}")
            if not planned.steps:
                _say("nothing to take away")
                return
            if not yes:
                click.confirm("Do this?", abort=True, err=True)
            left = await uninstalling.carry_out(connection, planned, say=_say, clock=time.monotonic)
            for each in left:
                _say(each)
            if left:
                sys.exit(EXIT_FINDINGS)

    asyncio.run(run())


def _say(line: str) -> None:
    click.echo(f"podium: {line}", err=True)
