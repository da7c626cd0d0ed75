"""Write the manifests of the webhooks and the policies in the repository, for the default levels.

`python -m tools.manifests.webhooks manifests` writes them; `podium manifests` prints them for another policy.
"""

import sys
from pathlib import Path

from podium.cli.commands.manifests import documents
from podium.crds import definitions
from podium.documents.yamlwriter import dump_all
from podium.rules.policy import Policy
from podium.webhooks.registration import NAMESPACE, SERVICE, Options

# The files of the kinds of `podium manifests`, below manifests/.
FILES = {
    "crds": "chart/files/webhooks/crds.yaml",
    "webhooks": "chart/files/webhooks/configurations.yaml",
    "policies": "chart/files/policies/policies.yaml",
    "class-use": "policies/class-use.yaml",
}


def render() -> dict[str, str]:
    """Return the manifests in the repository, by path; those in crds/ serve clusters without the webhook."""
    crds = {
        f"crds/{crd['metadata']['name']}.yaml": dump_all([crd])
        for crd in (*definitions.crds(), definitions.records())
    }
    return crds | {
        path: dump_all(documents(kind, Policy(), (NAMESPACE, SERVICE), Options()))
        for kind, path in FILES.items()
    }


def main() -> None:
    """Write the manifests in the repository into the folder that the command line names."""
    for path, content in render().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
