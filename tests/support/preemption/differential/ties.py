"""Orders of equal nodes and pods that reproduce the random choices of kube-scheduler.

kube-scheduler takes any of equally good nodes; the engine takes the smallest name. It takes the members of a
group in any order, that of a Go map; the engine takes the oldest first. It takes any of equally good topology
domains; the engine takes the smallest value of the label. 1.36 charges budgets for a unit's pods node by node
until one is violated; the engine takes the order in which it read the pods.

So the nodes and the label's values are renamed, the pods are read in another order, and the members get other
ages. The first attempt is the order that kube-scheduler's answer shows. It does not show everything, so other
orders are tried too.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from tests.support.preemption.differential.generator import Object
from tests.support.preemption.differential.recording import Recorded

from podium.api.storage import SELECTED_NODE

# The number of orders to try for a group, because an answer does not show them.
_TRIES = 24
_GROUPS = ("PodGroup", "CompositePodGroup")


class Domains(NamedTuple):
    """The values of the label `key`, of which a group takes equal ones in this order; without a key none."""

    group: str = ""
    key: str = ""
    values: Sequence[str] = ()
    shown: int = 0  # the number of values that an answer shows

    def written(self, stored: Object) -> Object:
        """Return a node, or the group, with a label of the group's own whose values have this order.

        An empty value stays empty if it is first.
        """
        kind, metadata = stored["kind"], stored["metadata"]
        if kind == "Node" and self.key in metadata["labels"]:
            plain = metadata["labels"][self.key]
            number = self.values.index(plain)
            own = {self._own: f"domain-{number:03}" if number or plain else ""}
            return {**stored, "metadata": {**metadata, "labels": {**metadata["labels"], **own}}}
        if kind in _GROUPS and metadata["name"] == self.group:
            topology = {"topology": [{"key": self._own}]}
            return {**stored, "spec": {**stored["spec"], "schedulingConstraints": topology}}
        return stored

    @property
    def _own(self) -> str:
        return f"{self.key}-of-{self.group}"


class TieOrder(NamedTuple):
    """The order in which equal nodes, equal pending members of a group, and equal domains are taken."""

    nodes: Sequence[str]
    members: Sequence[str]
    domains: Sequence[Domains] = ()

    def written(self, objects: Sequence[Object]) -> list[Object]:
        """Return the objects with the order, names and ages that give the engine this order."""
        nodes = {name: f"node-{number:03}" for number, name in enumerate(self.nodes)}
        ages = {name: f"2026-01-02T00:00:{number:02}Z" for number, name in enumerate(self.members)}
        for domains in self.domains:
            objects = [domains.written(each) for each in objects]
        written = [_written(each, nodes, ages) for each in objects]
        return sorted(written, key=lambda each: each.get("spec", {}).get("nodeName", ""))


def chances(
    recorded: Recorded, objects: Sequence[Object], *, empty_domain: bool = True
) -> tuple[list[TieOrder], list[TieOrder]]:
    """Return the orders that the answer shows, and for a group other orders, because it shows only some.

    `empty_domain` says that the empty value of a label is a domain.
    """
    took = {**recorded.answer.bound, **recorded.answer.nominated}
    nodes = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    if recorded.preemptor[0] == "Pod":
        return [TieOrder(_first(list(took.values()), nodes), ())], []
    conditions = []
    for members in _orders(recorded, objects):
        taken = {name: took[name] for name in members if name in took}
        domains = _domains(recorded.preemptor[1], objects, taken, empty_domain=empty_domain)
        conditions.append(TieOrder(_first([*taken.values()], nodes), members, domains))
    others = [conditions[0]._replace(nodes=[*reversed(conditions[0].nodes)])]
    used, dice = len(set(took.values())), random.Random(recorded.namespace)
    for number in range(_TRIES):
        order = conditions[number % len(conditions)]
        first, rest = [*order.nodes[:used]], [*order.nodes[used:]]
        dice.shuffle(first)
        dice.shuffle(rest)
        domains = [each._replace(values=_shuffled(each, dice)) for each in order.domains]
        others.append(order._replace(nodes=[*first, *rest], domains=domains))
    return conditions, others


def _domains(
    preemptor: str, objects: Sequence[Object], taken: Mapping[str, str], *, empty_domain: bool
) -> list[Domains]:
    """Return the domains of the groups of the preemptor, those that the answer shows first.

    `taken` are the nodes of its pods in the order in which they are placed.
    """
    groups = _groups(objects)
    leaf_of = {
        each["metadata"]["name"]: each["spec"]["schedulingGroup"]["podGroupName"]
        for each in objects
        if each["kind"] == "Pod" and "schedulingGroup" in each["spec"]
    }
    found = []
    for name, group in groups.items():
        for each in group["spec"].get("schedulingConstraints", {}).get("topology", ()):
            if preemptor in _path(groups, name):
                below = [node for pod, node in taken.items() if name in _path(groups, leaf_of[pod])]
                found.append(_domains_of(name, each["key"], objects, below, empty_domain=empty_domain))
    return found


def _domains_of(
    group: str, key: str, objects: Sequence[Object], taken: Sequence[str], *, empty_domain: bool
) -> Domains:
    of = {
        each["metadata"]["name"]: each["metadata"]["labels"][key]
        for each in objects
        if each["kind"] == "Node" and key in each["metadata"]["labels"]
    }
    shown = [of[node] for node in taken if node in of]
    if not empty_domain and "" in of.values():
        # It stays empty if it is first.
        shown = ["", *shown]
    return Domains(group, key, _first(shown, sorted(set(of.values()))), len(set(shown)))


def _shuffled(domains: Domains, dice: random.Random) -> list[str]:
    """Return the domains that the answer shows first, and the others in another order."""
    first, rest = [*domains.values[: domains.shown]], [*domains.values[domains.shown :]]
    dice.shuffle(rest)
    return [*first, *rest]


def _orders(recorded: Recorded, objects: Sequence[Object]) -> list[tuple[str, ...]]:
    """Return the different orders of the pending members.

    Only the last one of a group may differ from the others. Those of a leaf of a tree are alike.
    """
    pending = [each for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
    if recorded.preemptor[0] == "CompositePodGroup":
        return [tuple(_in_tree(objects, pending))]
    names = [each["metadata"]["name"] for each in pending]
    if len({msgspec.json.encode(each["spec"]["containers"]) for each in pending}) <= 1:
        return [tuple(names)]
    *alike, other = names
    return [(*alike[:at], other, *alike[at:]) for at in range(len(names))]


def _in_tree(objects: Sequence[Object], pending: Sequence[Object]) -> list[str]:
    """Return pods in the order in which kube-scheduler places them: the oldest children first."""
    groups = _groups(objects)

    def place(name: str) -> list[tuple[str, str]]:
        return [(groups[each]["metadata"]["creationTimestamp"], each) for each in _path(groups, name)]

    ordered = sorted(pending, key=lambda pod: place(pod["spec"]["schedulingGroup"]["podGroupName"]))
    return [pod["metadata"]["name"] for pod in ordered]


def _groups(objects: Sequence[Object]) -> dict[str, Object]:
    """Return the groups of a case, of both kinds, by name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] in _GROUPS}


def _path(groups: Mapping[str, Object], name: str) -> list[str]:
    """Return the names of the groups from the root down to a group."""
    found: list[str] = []
    while name in groups:
        found.insert(0, name)
        name = groups[name]["spec"].get("parentCompositePodGroupName", "")
    return found


def _first(taken: Sequence[str], nodes: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*taken, *nodes]))


def _written(stored: Object, nodes: dict[str, str], ages: dict[str, str]) -> Object:
    metadata, spec, status = stored["metadata"], stored.get("spec", {}), stored.get("status", {})
    name = metadata["name"]
    if stored["kind"] in ("Node", "CSINode"):
        return {**stored, "metadata": {**metadata, "name": nodes[name]}}
    if stored["kind"] in ("ResourceSlice", "ResourceClaim"):
        renamed: Object = _named(stored, nodes)
        return renamed
    if SELECTED_NODE in metadata.get("annotations", {}):
        annotations = {**metadata["annotations"], **_renamed(metadata["annotations"], SELECTED_NODE, nodes)}
        return {**stored, "metadata": {**metadata, "annotations": annotations}}
    if stored["kind"] == "VolumeAttachment":
        return {**stored, "spec": {**spec, **_renamed(spec, "nodeName", nodes)}}
    if stored["kind"] != "Pod":
        return stored
    return {
        **stored,
        "metadata": {**metadata, "creationTimestamp": ages.get(name, metadata["creationTimestamp"])},
        "spec": {**spec, **_renamed(spec, "nodeName", nodes)},
        "status": {**status, **_renamed(status, "nominatedNodeName", nodes)},
    }


def _renamed(part: Object, field: str, nodes: dict[str, str]) -> Object:
    return {field: nodes.get(part[field], part[field])} if field in part else {}


def _named(part: Any, nodes: dict[str, str]) -> Any:
    """Return a part of a slice or claim with other names of nodes."""
    if isinstance(part, list):
        return [_named(each, nodes) for each in part]
    if not isinstance(part, dict):
        return part
    if part.get("key") == "metadata.name":
        return {**part, "values": [nodes.get(each, each) for each in part["values"]]}
    return {key: _named(each, nodes) for key, each in part.items()} | _renamed(part, "nodeName", nodes)
