"""`podium upgrade`: this version over an older one, one process after the other, or the older one again."""

from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from podium.cli.installing import carry_out, install_options, say, tell

if TYPE_CHECKING:
    from podium.ops.install import Outcome


@click.command()
@click.option("--allow-downgrade", is_flag=True, help="Go back, where a newer version is installed.")
@install_options
def command(
    *,
    allow_downgrade: bool,
    image: str | None,
    dry_run: bool,
    diff: bool,
    force_conflicts: bool,
    timeout: float,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Bring what `podium install` has installed to the version of this command, and back if that fails.

    The mode stays, and the image is pulled from where it was, unless --image says otherwise. Custom resources
    come first, then webhook, reconciler and scheduler, each when the one before is available; what this
    version has no more is removed at the end. Exit code 3: the API server refuses some of it, and nothing was
    written.
    """
    import asyncio  # noqa: PLC0415 - `--help` needs none of it

    from podium.kube.connection import connect  # noqa: PLC0415 - as above
    from podium.ops import install, installing, upgrade  # noqa: PLC0415 - as above

    async def run() -> "list[Outcome]":
        ours = version("podium-k8s")
        async with connect(kubeconfig, context) as connection:
            say(f"context {connection.context}, server {connection.server}")
            inventory = await installing.inventory(connection)
            found = upgrade.installed(inventory)
            upgrade.check(found, ours, downgrade=allow_downgrade)
            for name, each in found.versions.items():
                say(f"{name} is {each or 'of an unknown version'}, to be {ours}")
            documents = install.manifests(found.mode, image or upgrade.image(found, ours))
            return await carry_out(
                connection,
                documents,
                list(upgrade.surplus(inventory, documents)),
                dry=dry_run or diff,
                force=force_conflicts,
                seconds=timeout,
            )

    tell(asyncio.run(run()), "upgraded", dry_run=dry_run, diff=diff)
