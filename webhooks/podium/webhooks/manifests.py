"""The manifests of the webhooks and the policies, as they are checked in: by Service, with the usual levels.

`python -m podium.webhooks.manifests manifests` writes them; without a folder they are printed. What an
administrator's AdmissionPolicy changes is a matter of `registration.configurations` and `policies.policies`.
"""

import sys
from pathlib import Path
from typing import Any

from podium import crds
from podium.rules.policy import Policy
from podium.webhooks import classuse
from podium.webhooks.policies import policies
from podium.webhooks.registration import CONVERT, NAMESPACE, SERVICE, Endpoint, Options, configurations


def documents() -> dict[str, list[dict[str, Any]]]:
    """Give the manifests by their path below manifests/.

    The caBundle is not among them: the webhook or cert-manager writes it, and applying them keeps it.
    """
    endpoint, options = Endpoint(service=(NAMESPACE, SERVICE)), Options()
    return {
        "webhooks/crds.yaml": crds.crds(endpoint.client(CONVERT, None)),
        "webhooks/configurations.yaml": configurations(Policy(), endpoint, options, None),
        "policies/twin.yaml": policies(Policy(), options),
        "policies/class-use.yaml": classuse.policy(options),
    }


def render() -> dict[str, str]:
    """Give the files by path."""
    return {path: text(each) for path, each in documents().items()}


def text(each: list[dict[str, Any]]) -> str:
    """Write documents as one file of YAML."""
    import yaml  # noqa: PLC0415 - nothing else here needs it

    class Dumper(yaml.SafeDumper):
        """Writes what two documents share twice: anchors end with a document."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    return yaml.dump_all(each, Dumper=Dumper, sort_keys=False, width=110)


def main() -> None:
    """Write the files into the folder that the command line names, or print them."""
    for path, text in render().items():
        if len(sys.argv) > 1:
            target = Path(sys.argv[1]) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(f"---\n{text}")


if __name__ == "__main__":
    main()
