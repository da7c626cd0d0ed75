"""`podium install`: Podium in a cluster, in one command, or not at all."""

from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from podium.cli.installing import carry_out, install_options, say, tell
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.ops.install import Outcome

_MODES = ("admission", "scheduler")


@click.command()
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default=_MODES[0],
    show_default=True,
    help="Webhooks and reconciler, or these and the scheduler.",
)
@install_options
def command(
    *,
    mode: str,
    image: str | None,
    dry_run: bool,
    diff: bool,
    force_conflicts: bool,
    timeout: float,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Install Podium into the namespace podium-system, wait until it works, and undo it if it does not.

    The API server is asked about every object first. Exit code 3: it refuses one, and nothing was written.
    """
    import asyncio  # noqa: PLC0415 - `--help` needs none of it

    from podium.kube.connection import connect  # noqa: PLC0415 - as above
    from podium.ops import install, installing, upgrade  # noqa: PLC0415 - as above

    async def run() -> "list[Outcome]":
        documents = install.manifests(mode, image)
        async with connect(kubeconfig, context) as connection:
            say(f"context {connection.context}, server {connection.server}")
            found = upgrade.installed(await installing.inventory(connection))
            if other := upgrade.others(found, version("podium-k8s")):
                raise PodiumError(f"{other} is installed: podium upgrade")
            return await carry_out(
                connection, documents, dry=dry_run or diff, force=force_conflicts, seconds=timeout
            )

    tell(asyncio.run(run()), "installed", dry_run=dry_run, diff=diff)
