"""Why a deleted object still exists, as a function of the object and of the pods that belong to it.

Finalizers keep an object, and a namespace or a definition says in its conditions which content is left. A
Deployment that is deleted in the foreground waits for its pods, and a pod on a lost node never ends.
"""

from collections.abc import Iterable

from podium.ops.rollout import Document
from podium.text import some

# The conditions with the remaining content (pkg/controller/namespace/deletion, apiextensions' finalizer).
_TYPES = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
    "Terminating",
)


def remaining(document: Document, pods: Iterable[Document] = ()) -> str:
    """Return what a deleted object waits for, in words; empty if it does not say."""
    finalizers = document["metadata"].get("finalizers") or []
    parts = [f"finalizers {some(finalizers)}"] if finalizers else []
    parts += [
        each["message"]
        for each in (document.get("status") or {}).get("conditions") or ()
        if each["type"] in _TYPES and each["status"] == "True" and each.get("message")
    ]
    ending = [_described(each) for each in pods if "deletionTimestamp" in each["metadata"]]
    parts += [f"pods that have not ended: {some(ending)}"] if ending else []
    return "; ".join(parts)


def _described(pod: Document) -> str:
    node = pod["spec"].get("nodeName", "")
    return f"{pod['metadata']['name']}{f' on node {node}' if node else ''}"
