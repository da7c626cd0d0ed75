"""`podium install`: install Podium into a cluster with one command, completely or not at all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from podium.cli.installing import Command, InstallOptions, InstallPlan, carry_out, install_options
from podium.cli.main import examples
from podium.errors import PodiumError
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.ops.install import Document
    from podium.rules.policy import Policy

_MODES = ("admission", "scheduler")


@click.command(
    epilog=examples(
        ("List the objects that an install creates", "podium install --mode scheduler --dry-run"),
        (
            "Install webhooks, reconciler and scheduler",
            "podium install --mode scheduler --image registry.example.com/podium:0.1.0",
        ),
    )
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default=_MODES[0],
    show_default=True,
    help="Webhooks and reconciler, or also the scheduler.",
)
@install_options
def command(*, mode: str, options: InstallOptions) -> None:
    """Install Podium into the namespace podium-system, and wait until it is ready.

    The API server checks every object in a dry run first. A failed install is undone.

    Exit code 3: the API server refuses an object, and nothing was written.
    """
    from podium.ops.install import rendered  # noqa: PLC0415 - `--help` does not need it

    def planned(inventory: "Sequence[Document]", policy: "Policy") -> InstallPlan:
        from podium.cli import installpolicies  # noqa: PLC0415 - as above
        from podium.ops import install, upgrade  # noqa: PLC0415 - as above

        if other := upgrade.others(upgrade.installed(inventory), VERSION):
            raise PodiumError(f"{other} is installed. Run podium upgrade")
        documents = installpolicies.administered(install.manifests(mode, options.image), policy)
        return InstallPlan(mode, documents, list(installpolicies.outdated(inventory, documents)))

    instead = f"Ask a cluster-admin to run it, or to apply {rendered(mode)} (docs/install.md)"
    carry_out(options, Command("installed", mode, instead, planned))
