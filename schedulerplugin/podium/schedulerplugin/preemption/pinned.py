"""Recognizes pods that belong to a node, not to a workload: mirrors of static pods, and pods of DaemonSets.

Evicting one is futile. Its kubelet or its DaemonSet creates it again for the same node, where it competes
with the preemptor for the room. But a tenant may write any annotation, owner or affinity into a pod, so none
of these is proof alone. The part that the API server can confirm counts: the owner exists, with that UID. The
owner undoes the rest. A kubelet deletes mirror pods that it has no static pod for. The DaemonSet controller
deletes all pods of a DaemonSet on a node but one, and disowns those that its selector does not match.
"""

from podium.api.core import MIRROR
from podium.api.meta import OwnerReference
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.findings import ObjectRef
from podium.view import View

DAEMON_SET = ("apps/v1", "DaemonSet")


def daemon_set(pod: Schedulable) -> str | None:
    """Return the UID of the DaemonSet that a pod names as its controller, None if it names none."""
    owner = _controller(pod, DAEMON_SET)
    return None if owner is None else owner.uid


def of_daemon_set(pod: Schedulable, view: View) -> bool:
    """Return whether a DaemonSet that exists made a pod for the node where the pod is.

    If DaemonSets could not be read, it is enough that the pod names one.
    """
    owner = _controller(pod, DAEMON_SET)
    if owner is None or not _made_for_its_node(pod):
        return False
    found = view.owners.get(ObjectRef(*DAEMON_SET, pod.metadata.namespace or "", owner.name))
    return found.metadata.uid == owner.uid if found is not None else Kind.OWNER in view.unread


def is_mirror(pod: Schedulable, view: View) -> bool:
    """Return whether a kubelet made a pod, as the mirror of a static pod on its node."""
    owner = _controller(pod, ("v1", "Node"))
    if owner is None or MIRROR not in (pod.metadata.annotations or {}):
        return False
    node = view.nodes.get(owner.name)
    return owner.name == pod.spec.nodeName and node is not None and node.metadata.uid == owner.uid


def _controller(pod: Schedulable, kind: tuple[str, str]) -> OwnerReference | None:
    owner = pod.metadata.controller()
    return owner if owner is not None and (owner.apiVersion, owner.kind) == kind else None


def _made_for_its_node(pod: Schedulable) -> bool:
    """Return whether the node affinity is in the DaemonSet controller's form: the name of one node."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    terms = (required.nodeSelectorTerms if required is not None else None) or ()
    fields = [field for term in terms for field in term.matchFields or ()]
    return len(terms) == 1 and [(each.key, each.operator, each.values) for each in fields] == [
        ("metadata.name", "In", [pod.spec.nodeName])
    ]
