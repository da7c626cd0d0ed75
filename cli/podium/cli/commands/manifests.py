"""`podium manifests`: print what to apply to a cluster for a given policy; it applies nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from podium.cli.config.processoptions import OBJECT_NAME, policy_of, policy_options
from podium.cli.main import examples
from podium.cli.render.data import as_list
from podium.cli.render.output import Output, deliver, output_options
from podium.documents.yamlwriter import dump_all

if TYPE_CHECKING:
    from podium.rules.policy import Policy
    from podium.webhooks.registration import Options

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
    from podium.webhooks.registration import Options  # noqa: PLC0415 - `--help` does not need it

    manifests = documents(kind, policy_of(config), service, Options(failure=dict(failure_policies)))
    deliver(dump_all(manifests) if output.format == "yaml" else as_list(manifests), output.file)


def documents(
    kind: str, policy: "Policy", service: tuple[str, str], options: "Options"
) -> list[dict[str, Any]]:
    """Return the manifests of one of _KINDS, for webhooks behind a Service (namespace, name).

    They have no caBundle: the webhook or cert-manager writes it, and applying the manifests keeps it. The
    webhook configurations have no webhooks: the process registers them.
    """
    from podium.crds import definitions  # noqa: PLC0415 - as above
    from podium.webhooks import policies, registration  # noqa: PLC0415 - as above

    match kind:
        case "crds":
            conversion = registration.Endpoint(service=service).client(registration.CONVERT, None)
            return [*definitions.crds(conversion), definitions.records()]
        case "webhooks":
            return registration.empty_configurations()
        case "policies":
            return policies.defaults(policy, options)
        case _:
            return policies.class_use_policy(options)
