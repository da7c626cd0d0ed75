"""The manifests of the webhooks and the policies for an administrator's AdmissionPolicy."""

from typing import Any

from podium.crds import definitions
from podium.rules.policy import Policy
from podium.webhooks import policies
from podium.webhooks.policies import defaults
from podium.webhooks.registration import CONVERT, Endpoint, Options, empty_configurations

# The kinds of manifests by their names on the command line, and their files below manifests/.
FILES = {
    "crds": "chart/files/webhooks/crds.yaml",
    "webhooks": "chart/files/webhooks/configurations.yaml",
    "policies": "chart/files/policies/policies.yaml",
    "class-use": "policies/class-use.yaml",
}


def documents(file: str, policy: Policy, service: tuple[str, str], options: Options) -> list[dict[str, Any]]:
    """Return the manifests of one of FILES, for webhooks behind a Service (namespace, name).

    They have no caBundle: the webhook or cert-manager writes it, and applying the manifests keeps it. The
    webhook configurations have no webhooks: the process registers them.
    """
    endpoint = Endpoint(service=service)
    match file:
        case "crds":
            return [*definitions.crds(endpoint.client(CONVERT, None)), definitions.records()]
        case "webhooks":
            return empty_configurations()
        case "policies":
            return defaults(policy, options)
        case _:
            return policies.class_use_policy(options)
