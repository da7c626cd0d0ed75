"""`podium manifests`: print what to apply to a cluster for a given policy; it applies nothing."""

from collections.abc import Sequence

import click

from podium.cli.config.processoptions import OBJECT_NAME
from podium.cli.config.webhookoptions import policy_of, policy_options
from podium.cli.main import examples
from podium.cli.render.data import as_list
from podium.cli.render.output import Output, deliver, output_options
from podium.documents.yamlwriter import dump_all

_KINDS = ("crds", "webhooks", "policies", "class-use")
_SERVICE = ("podium-system", "podium-webhook")


@click.command(
    epilog=examples(
        ("Apply the custom resources", "podium manifests crds | kubectl apply --server-side -f -"),
        ("Print the policies of an AdmissionPolicy file", "podium manifests policies --config policy.yaml"),
    )
)
@click.argument("kind", type=click.Choice(_KINDS))
@click.option(
    "--service",
    type=OBJECT_NAME,
    default=_SERVICE,
    show_default="podium-system/podium-webhook",
    help="Service of the webhooks.",
)
@policy_options
@output_options("yaml", "json")
def command(
    *,
    kind: str,
    service: tuple[str, str],
    config: str | None,
    failure_policies: Sequence[tuple[str, str]],
    output: Output,
) -> None:
    """Print manifests, for `kubectl apply --server-side -f -`.

    \b
    crds       the custom resources, with conversion by the webhooks
    webhooks   the webhook configurations; the webhook process writes their webhooks
    policies   ValidatingAdmissionPolicies for allowed classes and the group label
               (part of every install)
    class-use  the verb `use` on a PriorityClass is required to name it
    """  # noqa: D301 - \b keeps the lines of a paragraph
    from podium.webhooks import manifests, registration  # noqa: PLC0415 - `--help` does not need it

    options = registration.Options(failure=dict(failure_policies))
    documents = manifests.documents(kind, policy_of(config), service, options)
    deliver(dump_all(documents) if output.format == "yaml" else as_list(documents), output.file)
