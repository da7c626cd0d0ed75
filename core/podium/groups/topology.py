"""Reads the topology requests of a group, and compares them with the nodes that its members run on.

A group may require one domain (`schedulingConstraints.topology`). Annotations of Podium's own say more: the
narrower domains that it prefers. Labels of nodes may change while members run. kube-scheduler then places no
further member. Podium places it where most members run, and says so; this module finds the difference.
"""

from collections import Counter
from collections.abc import Mapping

from podium.api.groups import PODIUM_GROUP, PodGroup
from podium.api.membership import key_of
from podium.cluster.reader import Child, ClusterReader
from podium.text import count, listed

# An annotation on a group: labels of nodes, joined by commas. Its pods share one value of the first label if
# that is possible without more harm, else of the next one.
PREFERRED_TOPOLOGY = f"{PODIUM_GROUP}/preferred-topology"
# Annotations on a group: its members run in slices of so many pods, in the natural order of their names. The
# pods of a slice share one value of the label.
SLICE_SIZE, SLICE_TOPOLOGY = f"{PODIUM_GROUP}/slice-size", f"{PODIUM_GROUP}/slice-topology"
# Annotations on a group: groups of a namespace with one name of a set, as the replicas of a server, go to
# different values of the label as far as possible.
SPREAD_SET, SPREAD_TOPOLOGY = f"{PODIUM_GROUP}/spread-set", f"{PODIUM_GROUP}/spread-topology"
# The most labels that count; each may need a plan of its own.
MOST_PREFERRED = 3


def preferred_topology(group: Child) -> tuple[str, ...]:
    """Return the labels whose value the pods of a group should share, the most wanted first."""
    text = (group.metadata.annotations or {}).get(PREFERRED_TOPOLOGY, "")
    if not text:
        return ()
    keys = (key.strip() for key in text.split(","))
    return tuple(dict.fromkeys(key for key in keys if key and key != group.topology))[:MOST_PREFERRED]


def slice_topology(group: PodGroup) -> tuple[str, int]:
    """Return the label and the size of a group's slices; an empty label for a group without valid ones."""
    annotations = group.metadata.annotations or {}
    if SLICE_TOPOLOGY not in annotations:
        return "", 0
    key, size = annotations.get(SLICE_TOPOLOGY, "").strip(), annotations.get(SLICE_SIZE, "").strip()
    return (key, int(size)) if key and size.isascii() and size.isdigit() and int(size[:9]) > 0 else ("", 0)


def spread_topology(group: PodGroup) -> tuple[str, str]:
    """Return the label over which a group and those of its set spread, and the set; empty for none."""
    annotations = group.metadata.annotations or {}
    if SPREAD_SET not in annotations:
        return "", ""
    key, name = (annotations.get(annotation, "").strip() for annotation in (SPREAD_TOPOLOGY, SPREAD_SET))
    return (key, name) if key and name else ("", "")


def running_domains(
    view: ClusterReader,
    group: PodGroup,
    key: str,
    bound: Mapping[str, str] = {},
    *,
    empty_domain: bool = False,
) -> Counter[str | None]:
    """Return how many members run in each domain of a label; None: on nodes without the label.

    With `empty_domain` an empty label is a domain too, as in kube-scheduler 1.36 and 1.37. `bound` are nodes
    of members, by name, that the view may not show yet. Members on nodes that were not read are left out, and
    so are finished ones.
    """
    domains = Counter[str | None]()
    for name, pod in view.members(key_of(group)).items() if key else ():
        node = view.nodes.get(pod.spec.nodeName or bound.get(name, ""))
        if node is not None and not pod.finished:
            domain = (node.metadata.labels or {}).get(key)
            domains[domain or (domain if empty_domain else None)] += 1
    return domains


def straddling(
    view: ClusterReader, group: PodGroup, bound: Mapping[str, str] = {}, *, empty_domain: bool = False
) -> str:
    """Return the sentence for a group whose members do not run in one required domain; empty if they do."""
    domains = running_domains(view, group, group.topology, bound, empty_domain=empty_domain)
    return _spread(domains, group.topology)


def not_preferred(view: ClusterReader, group: PodGroup, bound: Mapping[str, str] = {}) -> str:
    """Return the sentence for a group whose members do not run in one domain of the first preferred label."""
    first = next(iter(preferred_topology(group)), "")
    return _spread(running_domains(view, group, first, bound), first)


def _spread(domains: Counter[str | None], key: str) -> str:
    if len(domains) < 2 and None not in domains:
        return ""
    places = [
        f"{count(pods, 'pod')} {f'in {key}={name}' if name is not None else f'on nodes without {key}'}"
        for name, pods in sorted(
            domains.items(), key=lambda domain: (-domain[1], domain[0] is None, domain[0] or "")
        )
    ]
    return f"The members run in more than one topology domain: {listed(places)}."
