"""An oracle of the dynamic filters, on manifests as dicts and without caches.

It follows the Kubernetes documentation and kube-scheduler's behaviour, one pod and one node at a time, so
that it can be checked by reading. It shares no code with the filters that it checks. It has their scores too.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str]


@dataclass
class Node:
    """The parts of a node that matter to filters on other pods."""

    labels: Labels = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Pod:
    """A pod: its namespace, labels and spec as in a manifest."""

    namespace: str
    labels: Labels
    spec: Mapping[str, Any]
    terminating: bool = False


@dataclass
class Cluster:
    """Nodes by name, the pods on each of them, and the labels of the known namespaces."""

    nodes: dict[str, Node]
    standing: list[tuple[Pod, str]]
    namespaces: Mapping[str, Labels]


def refusals(cluster: Cluster, pod: Pod, node: str) -> list[str]:
    """Return the filters that refuse a node to a pod."""
    reasons = {
        "ports": _ports_taken(cluster, pod, node),
        "skew": _skewed(cluster, pod, node),
        "label": any(
            each["topologyKey"] not in cluster.nodes[node].labels for each in _spread(pod, "DoNotSchedule")
        ),
        "affinity": not _has_company(cluster, pod, node),
        "anti-affinity": any(
            _means(cluster, pod, term, other, known_only=True) and _together(cluster, term, node, place)
            for term in _terms(pod, "podAntiAffinity")
            for other, place in cluster.standing
        ),
        "existing": any(
            _means(cluster, other, term, pod, known_only=False) and _together(cluster, term, node, place)
            for other, place in cluster.standing
            for term in _terms(other, "podAntiAffinity")
        ),
    }
    return [name for name, refused in reasons.items() if refused]


def matches(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether labels match a metav1.LabelSelector."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for each in selector.get("matchExpressions") or []:
        here = each["key"] in labels
        listed = here and labels[each["key"]] in (each.get("values") or [])
        held = {"In": listed, "NotIn": not listed, "Exists": here, "DoesNotExist": not here}
        if not held[each["operator"]]:
            return False
    return True


def _ports(pod: Pod) -> Iterator[tuple[str, str, int]]:
    for container in pod.spec.get("containers", []):
        for port in container.get("ports") or []:
            if port.get("hostPort"):
                yield port.get("protocol", "TCP"), port.get("hostIP") or "0.0.0.0", port["hostPort"]


def _ports_taken(cluster: Cluster, pod: Pod, node: str) -> bool:
    for other, place in cluster.standing:
        for protocol, address, number in _ports(other) if place == node else ():
            for wanted in _ports(pod):
                meet = address == wanted[1] or "0.0.0.0" in (address, wanted[1])
                if (protocol, number) == (wanted[0], wanted[2]) and meet:
                    return True
    return False


def _terms(pod: Pod, kind: str) -> list[dict[str, Any]]:
    affinity = pod.spec.get("affinity", {}).get(kind, {})
    terms: list[dict[str, Any]] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return terms


def _means(cluster: Cluster, owner: Pod, term: dict[str, Any], other: Pod, *, known_only: bool) -> bool:
    """Return whether a term of one pod selects another.

    An unknown namespace has no labels; an incoming pod's selector of namespaces selects known ones only,
    unless it is empty.
    """
    by_name, by_label = term.get("namespaces", []), term.get("namespaceSelector")
    within = other.namespace in by_name
    if not by_name and by_label is None:
        within = other.namespace == owner.namespace
    if by_label is not None:
        known = other.namespace in cluster.namespaces or not known_only or by_label == {}
        within |= known and matches(by_label, cluster.namespaces.get(other.namespace, {}))
    return within and matches(term.get("labelSelector"), other.labels)


def _together(cluster: Cluster, term: dict[str, Any], node: str, other: str) -> bool:
    key = term["topologyKey"]
    value = cluster.nodes[node].labels.get(key)
    return value is not None and value == cluster.nodes[other].labels.get(key)


def _has_company(cluster: Cluster, pod: Pod, node: str) -> bool:
    terms = _terms(pod, "podAffinity")
    keys = [term["topologyKey"] for term in terms]
    if any(key not in cluster.nodes[node].labels for key in keys):
        return False
    places = [
        place
        for other, place in cluster.standing
        if all(_means(cluster, pod, term, other, known_only=True) for term in terms)
    ]
    if all(any(_together(cluster, term, node, place) for place in places) for term in terms):
        return True
    somewhere = any(key in cluster.nodes[place].labels for place in places for key in keys)
    return not somewhere and all(_means(cluster, pod, term, pod, known_only=True) for term in terms)


def _spread(pod: Pod, action: str) -> list[dict[str, Any]]:
    constraints = pod.spec.get("topologySpreadConstraints", [])
    return [each for each in constraints if each["whenUnsatisfiable"] == action]


def _admits(pod: Pod, constraints: list[dict[str, Any]], constraint: dict[str, Any], node: Node) -> bool:
    """Return whether a constraint counts a node."""
    if any(each["topologyKey"] not in node.labels for each in constraints):
        return False
    wanted = pod.spec.get("nodeSelector", {})
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not wanted.items() <= node.labels.items():
        return False
    if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor":
        keeping = [taint for taint in node.taints if taint["effect"] in ("NoSchedule", "NoExecute")]
        tolerated = [each["key"] for each in pod.spec.get("tolerations", [])]
        return all(taint["key"] in tolerated for taint in keeping)
    return True


def _selector(pod: Pod, constraint: dict[str, Any]) -> dict[str, Any] | None:
    selector: dict[str, Any] | None = constraint.get("labelSelector")
    own = {key: pod.labels[key] for key in constraint.get("matchLabelKeys", []) if key in pod.labels}
    if selector is None or not own:
        return selector
    return {**selector, "matchLabels": {**selector.get("matchLabels", {}), **own}}


def _held(
    cluster: Cluster, pod: Pod, constraints: list[dict[str, Any]], constraint: dict[str, Any]
) -> dict[str, int]:
    """Return the number of pods in each domain of a constraint."""
    key, selector = constraint["topologyKey"], _selector(pod, constraint)
    nodes = {
        name: node for name, node in cluster.nodes.items() if _admits(pod, constraints, constraint, node)
    }
    held = {node.labels[key]: 0 for node in nodes.values()}
    for other, place in cluster.standing:
        alike = other.namespace == pod.namespace and matches(selector, other.labels)
        if place in nodes and alike and not other.terminating:
            held[nodes[place].labels[key]] += 1
    return held


def _skewed(cluster: Cluster, pod: Pod, node: str) -> bool:
    """Evaluate the constraints in order, up to the first label that the node lacks."""
    hard = _spread(pod, "DoNotSchedule")
    for each in hard:
        key = each["topologyKey"]
        if key not in cluster.nodes[node].labels:
            return False
        held = _held(cluster, pod, hard, each)
        least = min(held.values(), default=0) if len(held) >= each.get("minDomains", 1) else 0
        here = held.get(cluster.nodes[node].labels[key], 0)
        if here + matches(_selector(pod, each), pod.labels) - least > each["maxSkew"]:
            return True
    return False


def affinity_scores(cluster: Cluster, pod: Pod, nodes: list[str]) -> dict[str, int]:
    """Return the score of the preferred terms of the pod and of the running pods, 0 to 100."""
    points = dict.fromkeys(nodes, 0)
    for node in nodes:
        for other, place in cluster.standing:
            for owner, meant, known_only in ((pod, other, True), (other, pod, False)):
                for weight, term in _wishes(owner, standing=owner is other):
                    if _means(cluster, owner, term, meant, known_only=known_only):
                        points[node] += weight * _together(cluster, term, node, place)
    low, high = min(points.values(), default=0), max(points.values(), default=0)
    return {
        node: int(100.0 * ((each - low) / (high - low))) if high > low else 0 for node, each in points.items()
    }


def _wishes(pod: Pod, *, standing: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    affinity = pod.spec.get("affinity", {})
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for each in affinity.get(kind, {}).get("preferredDuringSchedulingIgnoredDuringExecution", []):
            yield sign * each["weight"], each["podAffinityTerm"]
    if standing:
        yield from ((1, term) for term in _terms(pod, "podAffinity"))


def spread_scores(cluster: Cluster, pod: Pod, nodes: list[str]) -> dict[str, int]:
    """Return the score of the soft constraints, 0 to 100."""
    soft = _spread(pod, "ScheduleAnyway")
    keys = [each["topologyKey"] for each in soft]
    labels = {node: cluster.nodes[node].labels for node in nodes}
    judged = [node for node in nodes if all(key in labels[node] for key in keys)]
    if not soft or not judged:
        return dict.fromkeys(nodes, 0)
    points = {}
    for node in judged:
        total = 0.0
        for each in soft:
            key = each["topologyKey"]
            here = _held(cluster, pod, soft, each).get(labels[node][key], 0)
            total += here * math.log(len({labels[other][key] for other in judged}) + 2) + (
                each["maxSkew"] - 1
            )
        points[node] = math.floor(total + 0.5)
    low, high = min(points.values()), max(points.values())
    scores = {node: 100 * (high + low - each) // high if high else 100 for node, each in points.items()}
    return {node: scores.get(node, 0) for node in nodes}
