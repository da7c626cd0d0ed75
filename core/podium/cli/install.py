"""`podium install`: install Podium into a cluster with one command, completely or not at all."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from podium.cli.installing import Command, Options, Planned, carry_out, install_options
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.ops.install import Document
    from podium.rules.policy import Policy

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
def command(*, mode: str, options: Options) -> None:
    """Install Podium into the namespace podium-system, wait until it works, and undo it if it does not.

    The API server is asked about every object first. Exit code 3: it refuses one, and nothing was written.
    """
    from podium.ops.install import rendered  # noqa: PLC0415 - `--help` does not need it

    def planned(inventory: "Sequence[Document]", policy: "Policy") -> Planned:
        from podium.cli import installpolicies  # noqa: PLC0415 - as above
        from podium.ops import install, upgrade  # noqa: PLC0415 - as above

        if other := upgrade.others(upgrade.installed(inventory), version("podium-k8s")):
            raise PodiumError(f"{other} is installed: podium upgrade")
        documents = installpolicies.administered(install.manifests(mode, options.image), policy)
        return Planned(mode, documents, list(installpolicies.outdated(inventory, documents)))

    instead = f"have a cluster-admin do it, or apply {rendered(mode)} (docs/install.md)"
    carry_out(options, Command("installed", mode, instead, planned))
