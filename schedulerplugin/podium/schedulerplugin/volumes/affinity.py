"""The node affinity of a volume, as alternatives of which a node must meet one."""

from podium.api.selectors import NodeRequirement, node_terms
from podium.api.storage import PersistentVolume

# The terms of which the labels of a node must meet one.
Alternatives = tuple[NodeRequirement, ...]


def node_affinity(volume: PersistentVolume, unreadable: dict[str, None]) -> Alternatives | None:
    """Return the terms of a volume's node affinity in their order, None if it has none.

    `unreadable` collects what cannot be evaluated. kube-scheduler compares a volume with labels alone:
    expressions on fields match any node.
    """
    affinity = volume.spec.nodeAffinity if volume.spec is not None else None
    if affinity is None or affinity.required is None:
        return None
    terms = node_terms(affinity.required.nodeSelectorTerms, unreadable)
    return tuple(NodeRequirement(term.expressions) for term in terms)
