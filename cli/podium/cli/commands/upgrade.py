"""`podium upgrade`: replace an older version by this one, process by process, or restore the older one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from podium.cli.installing import Command, InstallOptions, InstallPlan, carry_out, echo, install_options
from podium.cli.main import examples
from podium.version import VERSION

if TYPE_CHECKING:
    from podium.ops.install import Document
    from podium.rules.policy import Policy


@click.command(
    epilog=examples(
        ("Show the fields that an upgrade changes", "podium upgrade --diff"),
        ("Upgrade to another image", "podium upgrade --image registry.example.com/podium:0.1.0"),
    )
)
@click.option("--allow-downgrade", is_flag=True, help="Replace a newer version by this older one.")
@install_options
def command(*, allow_downgrade: bool, options: InstallOptions) -> None:
    """Upgrade an installation of `podium install` to the version of this command.

    The mode stays. The image stays too, with the tag of this version, unless --image names another. Custom
    resources are upgraded first, then webhook, reconciler and scheduler, each when the one before is
    available. Objects that this version no longer has are removed last. A failed upgrade is rolled back.

    Exit code 3: the API server refuses an object, and nothing was written.
    """

    def planned(inventory: "Sequence[Document]", policy: "Policy") -> InstallPlan:
        from podium.cli import installpolicies  # noqa: PLC0415 - `--help` does not need it
        from podium.ops import install, upgrade  # noqa: PLC0415 - as above

        ours = VERSION
        found = upgrade.installed(inventory)
        upgrade.require_upgrade(found, ours, downgrade=allow_downgrade)
        for name, each in found.versions.items():
            echo(f"{name}: {each or 'unknown version'} to {ours}")
        documents = install.manifests(found.mode, options.image or upgrade.image(found, ours))
        documents = installpolicies.administered(documents, policy)
        return InstallPlan(found.mode, documents, list(upgrade.surplus(inventory, documents)))

    # The mode is known only after the existing objects were read.
    carry_out(options, Command("upgraded", "scheduler", "Ask a cluster-admin to run it", planned))
