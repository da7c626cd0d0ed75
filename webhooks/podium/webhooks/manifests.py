"""The manifests of the webhooks and the policies: what an administrator's AdmissionPolicy makes of them.

`python -m podium.webhooks.manifests manifests` writes those that are checked in: by Service, with the usual
levels; `podium manifests` prints them for a policy of one's own.
"""

import sys
from pathlib import Path
from typing import Any

from podium import crds
from podium.rules.policy import Policy
from podium.webhooks import classuse
from podium.webhooks.policies import defaults, policies
from podium.webhooks.registration import CONVERT, NAMESPACE, SERVICE, Endpoint, Options, configurations

# Each kind of manifest by the name that the command line has for it, and its file below manifests/.
FILES = {
    "crds": "webhooks/crds.yaml",
    "webhooks": "webhooks/configurations.yaml",
    "policies": "policies/default/policies.yaml",
    "twin": "policies/twin/policies.yaml",
    "class-use": "policies/class-use.yaml",
}


def documents(what: str, policy: Policy, service: tuple[str, str], options: Options) -> list[dict[str, Any]]:
    """Give the manifests of one of FILES, for webhooks behind a Service (namespace, name).

    The caBundle is not among them: the webhook or cert-manager writes it, and applying them keeps it.
    """
    endpoint = Endpoint(service=service)
    match what:
        case "crds":
            return [*crds.crds(endpoint.client(CONVERT, None)), crds.records()]
        case "webhooks":
            return configurations(policy, endpoint, options, None)
        case "policies":
            return defaults(policy, options)
        case "twin":
            return policies(policy, options)
        case _:
            return classuse.policy(options)


def render() -> dict[str, str]:
    """Give the files that are checked in, by path."""
    return {
        path: text(documents(what, Policy(), (NAMESPACE, SERVICE), Options())) for what, path in FILES.items()
    }


def text(each: list[dict[str, Any]]) -> str:
    """Write documents as one file of YAML."""
    import yaml  # noqa: PLC0415 - nothing else here needs it

    class Dumper(yaml.SafeDumper):
        """Writes what two documents share twice: anchors end with a document."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    return yaml.dump_all(each, Dumper=Dumper, sort_keys=False, width=110)


def main() -> None:
    """Write the files that are checked in into the folder that the command line names."""
    for path, content in render().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
