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
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from tests.support.preemption.differential.generator import Object
from tests.support.preemption.differential.recording import Recorded

from podium.api.storage import SELECTED_NODE

# The number of orders to try for a group, because an answer does not show them.
_TRIES = 24


class Domains(NamedTuple):
    """The values of the label `key`, of which equal ones are taken in this order; without a key none."""

    key: str = ""
    values: Sequence[str] = ()

    def written(self, node: Object) -> Object:
        """Return a node with the value that has this order; an empty value stays empty if it is first."""
        labels = node["metadata"]["labels"]
        if self.key not in labels:
            return node
        number = self.values.index(labels[self.key])
        value = f"domain-{number:03}" if number or labels[self.key] else ""
        return {**node, "metadata": {**node["metadata"], "labels": {**labels, self.key: value}}}


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
            objects = [domains.written(each) if each["kind"] == "Node" else each for each in objects]
        written = [_written(each, nodes, ages) for each in objects]
        return sorted(written, key=lambda each: each.get("spec", {}).get("nodeName", ""))


def chances(recorded: Recorded, objects: Sequence[Object]) -> tuple[list[TieOrder], list[TieOrder]]:
    """Return the orders that the answer shows, and for a group other orders, because it shows only some."""
    took = {**recorded.answer.bound, **recorded.answer.nominated}
    nodes = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    if recorded.preemptor[0] == "Pod":
        return [TieOrder(_first(list(took.values()), nodes), ())], []
    conditions = []
    for members in _orders(recorded, objects):
        taken = [took[name] for name in members if name in took]
        conditions.append(TieOrder(_first(taken, nodes), members, _domains(recorded, objects, taken)))
    others = [conditions[0]._replace(nodes=[*reversed(conditions[0].nodes)])]
    used, dice = len(set(took.values())), random.Random(recorded.namespace)
    for number in range(_TRIES):
        order = conditions[number % len(conditions)]
        first, rest = [*order.nodes[:used]], [*order.nodes[used:]]
        dice.shuffle(first)
        dice.shuffle(rest)
        others.append(order._replace(nodes=[*first, *rest]))
    return conditions, others


def _domains(recorded: Recorded, objects: Sequence[Object], taken: Sequence[str]) -> list[Domains]:
    """Return the domains of the preempting group or tree, those of the nodes that the answer shows first."""
    whole = {recorded.preemptor[1]}
    keys: dict[str, None] = {}
    # A parent comes before its children.
    for each in objects:
        if each["kind"] not in ("PodGroup", "CompositePodGroup"):
            continue
        name, spec = each["metadata"]["name"], each["spec"]
        if name in whole or spec.get("parentCompositePodGroupName") in whole:
            whole.add(name)
            topology = spec.get("schedulingConstraints", {}).get("topology", ())
            keys |= dict.fromkeys(one["key"] for one in topology)
    return [_domains_of(key, objects, taken) for key in keys]


def _domains_of(key: str, objects: Sequence[Object], taken: Sequence[str]) -> Domains:
    of = {
        each["metadata"]["name"]: each["metadata"]["labels"][key]
        for each in objects
        if each["kind"] == "Node" and key in each["metadata"]["labels"]
    }
    return Domains(key, _first([of[node] for node in taken if node in of], sorted(set(of.values()))))


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
    groups = {
        each["metadata"]["name"]: each for each in objects if "schedulingPolicy" in each.get("spec", {})
    }

    def place(name: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        while name in groups:
            found.insert(0, (groups[name]["metadata"]["creationTimestamp"], name))
            name = groups[name]["spec"].get("parentCompositePodGroupName", "")
        return found

    ordered = sorted(pending, key=lambda pod: place(pod["spec"]["schedulingGroup"]["podGroupName"]))
    return [pod["metadata"]["name"] for pod in ordered]


def _first(taken: Sequence[str], nodes: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*taken, *nodes]))


def _written(stored: Object, nodes: dict[str, str], ages: dict[str, str]) -> Object:
    metadata, spec, status = stored["metadata"], stored.get("spec", {}), stored.get("status", {})
    name = metadata["name"]
    if stored["kind"] in ("Node", "CSINode"):
        return {**stored, "metadata": {**metadata, "name": nodes[name]}}
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
