"""Generates clusters in which a tree of composite groups is pending, from a seed.

Nodes lie in racks, and racks in blocks; both labels belong to the case. The root, an inner composite group
and a leaf may have a constraint each. Running pods are alone, in groups, or in trees of mode `all` or
`single`. The groups of a tree are created in a random order of their names, because kube-scheduler tries
children by age and then by name.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.preemption.differential import driver
from tests.support.preemption.differential.generator import (
    EPOCH,
    GPU,
    PREEMPTOR,
    ROLE_LABEL,
    Case,
    Object,
    written_time,
)
from tests.support.preemption.differential.recording import Recording
from tests.support.preemption.differential.topology import TopologyMaker
from tests.support.servers import exclusive
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, Release

from podium.api.groups import NATIVE_GROUP
from podium.api.minors import group_minor
from podium.minors.minor import COMPOSITE

# The gates of API server and scheduler, beside those of the Workload API.
_GATES = ("TopologyAwareWorkloadScheduling=true", "CompositePodGroup=true")
# Those that know trees, and topology constraints with them.
RELEASES = tuple(item for item in BUILDABLE.values() if COMPOSITE in group_minor(int(item.minor[2:])).gates)
# Cases in a recording.
CASES = 200

# The share of pending trees that kube-scheduler 1.38 may refuse; 1.37 has fewer rules for them.
_FAULTY = 0.1
_LOW = ("below-zero", "value-0", "value-10", "value-20", "value-50")
# More than the 12 leaves and 6 inner groups of the widest tree.
_NAMES = tuple(f"{letter}{number}" for letter in "abcdefg" for number in range(3))


class _Leaf(NamedTuple):
    """A group of the pending tree with so many pending members."""

    name: str
    size: int


def record(release: Release, seed: int, indices: Sequence[int]) -> Recording:
    """Record the answers of a release's scheduler to these cases."""
    gates = (f"--feature-gates={','.join(_GATES)}",)
    with exclusive(release, apiserver=gates) as server:
        return driver.record(server, seed, indices, driver.Options(more=_GATES), tree_case)


def tree_case(seed: int, index: int, minor: str = NEWEST.minor) -> Case:
    """Make case number `index` of a seed."""
    return _TreeMaker(random.Random(f"trees/{seed}/{index}"), f"trees-{index}", minor).make()


class _TreeMaker(TopologyMaker):
    """Builds one case: nodes in racks and blocks, running pods, groups and trees, and one pending tree."""

    def __init__(self, dice: random.Random, name: str, minor: str) -> None:
        super().__init__(dice, name, minor)
        self.key = f"tests.podium.dev/{name}-rack"
        self.block = f"tests.podium.dev/{name}-block"
        self.names = dice.sample(_NAMES, len(_NAMES))
        self.leaves: list[_Leaf] = []

    def make(self) -> Case:
        made = super().make()
        if self.api.strict_modes and not self.chance(_FAULTY):
            self.straighten()
        return made._replace(preemptor=("CompositePodGroup", PREEMPTOR))

    def straighten(self) -> None:
        """Give the groups of the pending tree the class of the root, and policies and modes of their parents.

        kube-scheduler 1.38 refuses other trees.
        """
        tree: dict[str, Object] = {}
        for each in self.objects:
            name, spec = each["metadata"]["name"], each["spec"]
            above = tree.get(spec.get("parentCompositePodGroupName", ""))
            if above is not None:
                spec["priorityClassName"] = above["priorityClassName"]
                if "gang" in above["schedulingPolicy"] and "basic" in spec["schedulingPolicy"]:
                    least = "minCount" if each["kind"] == "PodGroup" else "minGroupCount"
                    spec["schedulingPolicy"] = {"gang": {least: 1}}
                if "all" in above.get("disruptionMode", ()):
                    spec["disruptionMode"] = {"all": {}}
            if above is not None or (each["kind"], name) == ("CompositePodGroup", PREEMPTOR):
                tree[name] = spec

    def node(self, number: int, rack: str | None) -> Object:
        made = super().node(number, rack)
        labels = made["metadata"]["labels"]
        # Two racks make a block; few racks are in none.
        if rack and (rack != "rack-4" or self.alike):
            labels[self.block] = f"block-{int(rack.rpartition('-')[2]) // 2}"
        return made

    def groups(self) -> list[tuple[str, str]]:
        """Make the groups and trees of running pods; return each PodGroup and the class of its members."""
        made = super().groups()
        for number in range(self.dice.choice((0, 1, 1, 2))):
            root, class_name = f"tree-{number}", self.dice.choice(_LOW)
            above = [root]
            self.composite(root, class_name, self.dice.choice((None, 1, 2)), mode=self.mode())
            if self.chance(0.3):
                self.composite(f"{root}-inner", self.other(class_name), None, parent=root, mode=self.mode())
                above.append(f"{root}-inner")
            for leaf in range(self.dice.choice((1, 2, 2, 3))):
                name = f"{root}-{leaf}"
                gang = None if self.chance(0.3) else self.dice.randint(1, 3)
                self.leaf(name, self.other(class_name), gang, self.dice.choice(above), mode=self.mode())
                made.append((name, class_name))
        self.dice.shuffle(made)
        return made

    def mode(self) -> str | None:
        return self.dice.choice((None, "Pod", "PodGroup", "PodGroup"))

    def other(self, class_name: str) -> str:
        """Return the class, or seldom another one: only that of the root counts."""
        return self.dice.choice(_LOW) if self.chance(0.2) else class_name

    def leaf(
        self,
        name: str,
        class_name: str,
        gang: int | None,
        parent: str,
        *,
        mode: str | None,
        topology: str = "",
    ) -> None:
        """Make a PodGroup of a tree."""
        self.group(name, class_name, gang, mode)
        self.put_in_tree(self.objects[-1], parent, topology)

    def composite(
        self,
        name: str,
        class_name: str,
        least: int | None,
        *,
        parent: str = "",
        mode: str | None = None,
        topology: str = "",
    ) -> None:
        """Make a composite group."""
        self.group(name, class_name, least, mode)
        made = self.objects[-1]
        version = self.api.versions("CompositePodGroup")[0]
        made["apiVersion"], made["kind"] = f"{NATIVE_GROUP}/{version}", "CompositePodGroup"
        if least is not None:
            made["spec"]["schedulingPolicy"] = {"gang": {"minGroupCount": least}}
        self.put_in_tree(made, parent, topology)

    def put_in_tree(self, group: Object, parent: str, topology: str) -> None:
        spec = group["spec"]
        spec["workloadRef"] = {"workloadName": "tree", "templateName": group["metadata"]["name"]}
        if parent:
            spec["parentCompositePodGroupName"] = parent
        if topology:
            spec["schedulingConstraints"] = {"topology": [{"key": topology}]}

    def preempting_group(self, nodes: list[Object]) -> None:
        """Make the pending tree; some trees have members that run already."""
        before = len(self.objects)
        self.level(PREEMPTOR, "", 1, "")
        places = self.places()
        members: list[Object] = []
        for number, node in enumerate(places):
            leaf = self.dice.choice(self.leaves)
            members.append(self.member(f"member-{number}", number, leaf.name, node))
        for each in self.objects[before:]:
            runs = sum(
                m["spec"]["schedulingGroup"]["podGroupName"] == each["metadata"]["name"] for m in members
            )
            gang = each["spec"]["schedulingPolicy"].get("gang", {})
            if runs and "minCount" in gang and self.chance(0.7):
                gang["minCount"] += runs
        self.objects += members
        wished = self.wish(nodes)
        pending: list[Object] = []
        for leaf in self.leaves:
            wished = wished if self.chance(0.5) else self.wish(nodes)
            one = self.pending("", wished, self.class_name, leaf.name)
            for spread in one["spec"].get("topologySpreadConstraints", ()):
                if self.chance(0.3):
                    spread["topologyKey"] = self.key
            pending += [
                one | {"metadata": {**one["metadata"], "name": f"{leaf.name}-{number}"}}
                for number in range(leaf.size)
            ]
        if self.chance(0.04):
            # A pod of another priority or policy; kube-scheduler refuses the tree.
            wrong = "never-1000" if self.class_name == "value-1000" and self.chance(0.5) else "value-500"
            pending[-1]["spec"] = {**pending[-1]["spec"], "priorityClassName": wrong}
        if self.chance(0.03):
            self.ongoing(pending)
        self.objects += pending

    def level(self, name: str, parent: str, depth: int, above: str) -> None:
        """Make a composite group and those below it; `above` is the narrowest constraint around it."""
        children = self.dice.choice((1, 2, 2, 2, 3, 3)) if depth == 1 else self.dice.choice((1, 2, 2))
        least = (
            None if self.chance(0.15) else children if self.chance(0.6) else self.dice.randint(1, children)
        )
        topology = self.topology(above, (45, 35, 20))
        own = self.own_class() if parent else self.class_name
        self.composite(name, own, least, parent=parent, mode=self.mode(), topology=topology)
        for _ in range(children):
            below, inner = self.names.pop(), depth < 3 and self.chance((0, 0.3, 0.15)[depth])
            if inner:
                self.level(below, name, depth + 1, topology or above)
                continue
            size = self.dice.choice((1, 1, 2, 2, 3, 4))
            gang = None if self.chance(0.15) else size if self.chance(0.7) else self.dice.randint(1, size)
            where = self.topology(topology or above, (45, 10, 45))
            self.leaf(below, self.own_class(), gang, name, mode=self.mode(), topology=where)
            self.objects[-1]["metadata"]["labels"] = {ROLE_LABEL: PREEMPTOR}
            self.leaves.append(_Leaf(below, size))

    def own_class(self) -> str:
        """Return the class of a group of the pending tree; seldom another one, as only the root's counts."""
        return self.dice.choice(("value-20", "value-500")) if self.chance(0.05) else self.class_name

    def topology(self, above: str, weights: tuple[int, int, int]) -> str:
        """Return no constraint, that of blocks or that of racks; within a rack seldom that of blocks."""
        chosen = self.dice.choices(("", self.block, self.key), weights)[0]
        return "" if above == self.key and chosen == self.block and not self.chance(0.1) else chosen

    def member(self, name: str, number: int, group: str, node: Object) -> Object:
        """Make a member of the tree that runs."""
        made = self.pod(name, {"cpu": 10, "memory": 1}, self.class_name, group=group, labels={})
        made["spec"]["nodeName"] = node["metadata"]["name"]
        made["status"] = {"phase": "Running", "startTime": written_time(EPOCH + self.started[-1 - number])}
        return made

    def wish(self, nodes: list[Object]) -> dict[str, int]:
        wanted = super().wish(nodes)
        wanted[GPU] = min(wanted[GPU], 1)
        return wanted
