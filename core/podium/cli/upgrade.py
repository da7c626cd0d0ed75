"""`podium upgrade`: replace an older version by this one, process by process, or restore the older one."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from podium.cli.installing import Command, Options, Planned, carry_out, install_options, say

if TYPE_CHECKING:
    from podium.ops.install import Document
    from podium.rules.policy import Policy


@click.command()
@click.option("--allow-downgrade", is_flag=True, help="Go back, where a newer version is installed.")
@install_options
def command(*, allow_downgrade: bool, options: Options) -> None:
    """Bring what `podium install` has installed to the version of this command, and back if that fails.

    The mode stays, and the image is pulled from where it was, unless --image says otherwise. Custom resources
    come first, then webhook, reconciler and scheduler, each when the one before is available; what this
    version has no more is removed at the end. Exit code 3: the API server refuses some of it, and nothing was
    written.
    """

    def planned(inventory: "Sequence[Document]", policy: "Policy") -> Planned:
        from podium.cli import installpolicies  # noqa: PLC0415 - `--help` does not need it
        from podium.ops import install, upgrade  # noqa: PLC0415 - as above

        ours = version("podium-k8s")
        found = upgrade.installed(inventory)
        upgrade.check(found, ours, downgrade=allow_downgrade)
        for name, each in found.versions.items():
            say(f"{name} is {each or 'of an unknown version'}, to be {ours}")
        documents = install.manifests(found.mode, options.image or upgrade.image(found, ours))
        documents = installpolicies.administered(documents, policy)
        return Planned(found.mode, documents, list(upgrade.surplus(inventory, documents)))

    # The mode is known only after the existing objects were read.
    carry_out(options, Command("upgraded", "scheduler", "have a cluster-admin do it", planned))
