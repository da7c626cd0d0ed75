"""The nodes that reach a volume, by its node affinity and its zone labels, as alternatives for their labels.

Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.
"""

from podium.api.selectors import Labels, NodeRequirement, Requirement, node_terms
from podium.api.storage import PersistentVolume

# The terms of which the labels of a node must meet one.
Alternatives = tuple[NodeRequirement, ...]

# Zone labels of volumes, each with the label that replaced it on nodes.
_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


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


def zone_terms(labels: Labels) -> list[Alternatives]:
    """Return, for each zone label of a volume, the terms that match its nodes: in its zones, or without zone.

    Several zones are joined by `__`; an old label is looked for under its new name too.
    """
    nowhere = NodeRequirement(tuple(sorted(Requirement(key, "DoesNotExist") for key in _ZONES)))
    alternatives: list[Alternatives] = []
    for key, newer in _ZONES.items():
        zones = tuple(sorted({zone.strip() for zone in labels[key].split("__")})) if key in labels else ()
        if not all(zones) or not zones:
            continue
        terms = {nowhere, NodeRequirement((Requirement(key, "In", zones),))}
        if newer != key:
            old, new = Requirement(key, "DoesNotExist"), Requirement(newer, "In", zones)
            terms.add(NodeRequirement(tuple(sorted((old, new)))))
        alternatives.append(tuple(sorted(terms)))
    return alternatives
