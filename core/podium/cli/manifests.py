"""`podium manifests`: print what to apply to a cluster for a given policy; it applies nothing."""

from collections.abc import Sequence

import click

from podium.cli.processoptions import ObjectName
from podium.cli.webhookoptions import policy_of, policy_options

_KINDS = ("crds", "webhooks", "policies", "twin", "class-use")
_SERVICE = ("podium-system", "podium-webhook")


@click.command()
@click.argument("what", type=click.Choice(_KINDS))
@click.option(
    "--service",
    type=ObjectName(),
    default=_SERVICE,
    show_default="podium-system/podium-webhook",
    help="The Service of the webhooks.",
)
@policy_options
def command(
    *,
    what: str,
    service: tuple[str, str],
    config: str | None,
    failure_policies: Sequence[tuple[str, str]],
) -> None:
    """Print manifests as YAML, to be applied with `kubectl apply --server-side -f -`.

    crds: the custom resources, converted by the webhooks. webhooks: their registration, without a caBundle,
    which they write themselves. policies: the rules on allowed classes and on the group's label, which the
    API server checks by itself; an install has them. twin: the other rules of which it can check that.
    class-use: naming a PriorityClass takes the verb `use` on it.
    """
    from podium.webhooks import manifests, registration  # noqa: PLC0415 - `--help` does not need it

    options = registration.Options(failure=dict(failure_policies))
    documents = manifests.documents(what, policy_of(config), service, options)
    click.echo(manifests.text(documents), nl=False)
