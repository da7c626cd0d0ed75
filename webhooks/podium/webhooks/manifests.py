"""The manifests of the webhooks and the policies for an administrator's AdmissionPolicy.

`python -m podium.webhooks.manifests manifests` writes the manifests in the repository: by Service, with the
default levels. `podium manifests` prints them for another policy.
"""

import sys
from pathlib import Path
from typing import Any

from podium.crds import definitions
from podium.documents.yamlwriter import dump_all
from podium.rules.policy import Policy
from podium.webhooks import classuse
from podium.webhooks.policies import defaults, policies
from podium.webhooks.registration import CONVERT, NAMESPACE, SERVICE, Endpoint, Options, configurations

# The kinds of manifests by their names on the command line, and their files below manifests/.
FILES = {
    "crds": "webhooks/crds.yaml",
    "webhooks": "webhooks/configurations.yaml",
    "policies": "policies/default/policies.yaml",
    "twin": "policies/twin/policies.yaml",
    "class-use": "policies/class-use.yaml",
}


def documents(what: str, policy: Policy, service: tuple[str, str], options: Options) -> list[dict[str, Any]]:
    """Return the manifests of one of FILES, for webhooks behind a Service (namespace, name).

    They have no caBundle: the webhook or cert-manager writes it, and applying the manifests keeps it.
    """
    endpoint = Endpoint(service=service)
    match what:
        case "crds":
            return [*definitions.crds(endpoint.client(CONVERT, None)), definitions.records()]
        case "webhooks":
            return configurations(policy, endpoint, options, None)
        case "policies":
            return defaults(policy, options)
        case "twin":
            return policies(policy, options)
        case _:
            return classuse.policy(options)


def render() -> dict[str, str]:
    """Return the manifests in the repository, by path; those in crds/ serve clusters without the webhook."""
    crds = {
        f"crds/{crd['metadata']['name']}.yaml": dump_all([crd])
        for crd in (*definitions.crds(), definitions.records())
    }
    return crds | {
        path: dump_all(documents(what, Policy(), (NAMESPACE, SERVICE), Options()))
        for what, path in FILES.items()
    }


def main() -> None:
    """Write the manifests in the repository into the folder that the command line names."""
    for path, content in render().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
