"""The objects of an installation of this version: the manifests, and what follows from an AdmissionPolicy.

The manifests have the policies of an AdmissionPolicy that allows every class, and no webhooks.
"""

from podium.documents.packagedata import folder
from podium.errors import PodiumError
from podium.ops.doctor.facts import REGISTRATIONS, Document
from podium.rules.policy import Policy
from podium.webhooks.policies import default_names, defaults
from podium.webhooks.registration import NAMESPACE, SERVICE, Endpoint, Options, configurations

_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def manifests() -> list[Document]:
    """Return the manifests of all processes. Raises PodiumError if there are none."""
    import yaml  # noqa: PLC0415 - imported for `--help` of the commands too

    path = folder("manifests") / "rendered" / "scheduler.yaml"
    try:
        return list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    except OSError as error:
        raise PodiumError(f"{path}: read failed: {error.strerror}. Reinstall podium-k8s") from None


def expected(documents: list[Document], policy: Policy) -> list[Document]:
    """Return the objects of an installation with this AdmissionPolicy, from its manifests."""
    own = defaults(policy, Options())
    registered = configurations(policy, Endpoint(service=(NAMESPACE, SERVICE)), Options(), None)
    return [*(each for each in documents if not _follows(each)), *own, *registered]


def _follows(document: Document) -> bool:
    """Return whether an object follows from the AdmissionPolicy."""
    name = document["metadata"]["name"]
    return document["kind"] in REGISTRATIONS or (document["kind"] in _POLICIES and name in default_names())
