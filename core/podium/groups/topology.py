"""Compares the topology constraint of a group with the nodes that its members run on.

A constrained group is placed in one domain, but labels of nodes may change later. kube-scheduler then places
no further member. Podium places it where most members run, and says so; this module finds the difference.
"""

from collections import Counter

from podium.api.groups import PodGroup
from podium.api.membership import key_of
from podium.cluster.reader import ClusterReader
from podium.text import count, listed


def running_domains(view: ClusterReader, group: PodGroup) -> Counter[str]:
    """Return how many members run in each domain of the group's topology; empty text: in none.

    Members on nodes that were not read are left out, and so are finished ones.
    """
    found = Counter[str]()
    for pod in view.members(key_of(group)).values() if group.topology else ():
        node = view.nodes.get(pod.spec.nodeName or "")
        if node is not None and not pod.finished:
            found[(node.metadata.labels or {}).get(group.topology, "")] += 1
    return found


def straddling(view: ClusterReader, group: PodGroup) -> str:
    """Return the sentence for a group whose members do not run in one domain; empty if they do."""
    found = running_domains(view, group)
    if len(found) < 2 and "" not in found:
        return ""
    key = group.topology
    places = [
        f"{count(pods, 'pod')} {f'in {key}={name}' if name else f'on nodes without {key}'}"
        for name, pods in sorted(found.items(), key=lambda each: (-each[1], each[0]))
    ]
    return f"The members run in more than one topology domain: {listed(places)}."
