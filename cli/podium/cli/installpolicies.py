"""The policies of an install, derived from the AdmissionPolicy of the cluster.

The manifests contain those of a policy that allows every class. An administrator who restricts classes writes
this into the ConfigMap of the webhook, and the next install or upgrade creates policies from it.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from podium.cli.config.policyfile import PolicyModel
from podium.documents.configfile import config_of
from podium.ops.install import MANAGED_BY, MANAGER, Action, Document, InstallOutcome, Key, key_of, rank
from podium.ops.installing import read
from podium.rules.policy import Policy
from podium.webhooks.policies import default_names, defaults
from podium.webhooks.registration import NAMESPACE, Options

if TYPE_CHECKING:
    from podium.kube.connection import Connection

CONFIGURATION = Key("v1", "ConfigMap", NAMESPACE, "podium-webhook")
_FILE = "policy.yaml"
_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


async def configured(connection: "Connection") -> Policy:
    """Return the AdmissionPolicy of the webhook in a cluster. Raises PodiumError."""
    found = await read(connection, CONFIGURATION.path)
    text = ((found or {}).get("data") or {}).get(_FILE)
    return Policy() if text is None else config_of(f"{CONFIGURATION}: {_FILE}", text, PolicyModel).policy()


def administered(documents: Sequence[Document], policy: Policy) -> list[Document]:
    """Return the manifests of an install with the policies of an AdmissionPolicy instead of the defaults."""
    own = defaults(policy, Options())
    for each in own:
        each["metadata"]["labels"] = {**each["metadata"]["labels"], MANAGED_BY: MANAGER}
    return sorted([*(each for each in documents if not _is_default(each)), *own], key=rank)


def outdated(inventory: Sequence[Document], documents: Sequence[Document]) -> Iterator[InstallOutcome]:
    """Yield the policies of an earlier install that the present AdmissionPolicy no longer needs."""
    wanted = {key_of(each) for each in documents}
    for each in sorted(inventory, key=rank, reverse=True):
        if _is_default(each) and key_of(each) not in wanted:
            yield InstallOutcome(key_of(each), Action.REMOVED, each, None)


def _is_default(document: Document) -> bool:
    return document["kind"] in _KINDS and document["metadata"]["name"] in default_names()
