"""Generates clusters in which a group with a topology constraint is pending, from a seed.

Racks are the values of one node label. They have different numbers and sizes of nodes and are filled to
different degrees, so the scores of two racks are mostly different. Each case has a label key of its own,
because one server holds many cases. A rack of another case is never a domain then. Members that run already
bind a group to their rack. They are in several racks, or on a node that is unknown or has no label, in few
cases: these are errors of kube-scheduler.

No pod that may be evicted has anti-affinity, because kube-scheduler overlooks it (`explained`). The cases of
`generator` have such pods.
"""

import random
from collections.abc import Sequence

from tests.support.preemption.differential import driver
from tests.support.preemption.differential.generator import (
    CLASSES,
    EPOCH,
    GPU,
    HOST,
    PREEMPTOR,
    Case,
    CaseMaker,
    Object,
    written_time,
)
from tests.support.preemption.differential.recording import Recording
from tests.support.servers import TOPOLOGY, exclusive
from tools.devcluster.controlplane.releases import Release

# Cases in a recording.
CASES = 200

PREEMPTORS = ("value-20", "value-50", "value-100", "value-1000", "never-1000")
_SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6, 8)


def record(release: Release, seed: int, indices: Sequence[int]) -> Recording:
    """Record the answers of a release's scheduler to these cases."""
    with exclusive(release, apiserver=(f"--feature-gates={TOPOLOGY}",)) as server:
        return driver.record(server, seed, indices, driver.Options(more=(TOPOLOGY,)), topology_case)


def topology_case(seed: int, index: int, minor: str) -> Case:
    """Make case number `index` of a seed."""
    return TopologyMaker(random.Random(f"topology/{seed}/{index}"), f"topology-{index}", minor).make()


class TopologyMaker(CaseMaker):
    """Builds one case: racks of nodes, running pods and groups, budgets and one pending group."""

    def __init__(self, dice: random.Random, name: str, minor: str) -> None:
        super().__init__(dice, name, minor)
        # A node by itself is a domain too. Groups without a constraint have the whole cluster.
        own = f"tests.podium.dev/{name}"
        self.key = dice.choices((own, HOST, ""), (86, 6, 8))[0]
        self.class_name = dice.choices(PREEMPTORS, (12, 20, 20, 44, 4))[0]
        self.racks: dict[str, list[Object]] = {}
        self.outside: list[Object] = []

    def make(self) -> Case:
        groups = self.groups()
        nodes = self.nodes()
        for rack in (*self.racks.values(), self.outside):
            filled = self.dice.choice((0.3, 0.6, 0.9, 1.0, 1.0, 1.0))
            for node in rack:
                self.crowded = filled
                self.fill(node, groups)
        if self.chance(0.6):
            self.budgets(overlapping=False)
        self.preempting_group(nodes)
        self.empty_selectors()
        return Case(self.name, tuple(self.objects), tuple(self.terminating), ("PodGroup", PREEMPTOR))

    def nodes(self) -> list[Object]:
        """Make up to six racks of one to five nodes, and in some cases nodes without the label."""
        racks = [f"rack-{number}" for number in range(self.dice.choice((1, 2, 2, 3, 3, 4, 5, 6)))]
        if self.chance(0.05):
            racks[0] = ""
        if self.chance(0.03):
            racks = []
        made: list[Object] = []
        for rack in racks:
            self.racks[rack] = [
                self.node(len(made) + at, rack) for at in range(self.dice.choice((1, 2, 3, 3, 4, 5)))
            ]
            made += self.racks[rack]
        if not racks or self.chance(0.3):
            self.outside = [self.node(len(made) + at, None) for at in range(self.dice.choice((1, 2)))]
            made += self.outside
        self.objects += made
        return made

    def node(self, number: int, rack: str | None) -> Object:
        """Make a node of an odd size, in some cases with accelerators."""
        size = self.dice.choice((2000, 4000, 8000)) + self.dice.randrange(0, 1500, 10)
        room = {
            "cpu": f"{size}m",
            "memory": f"{self.dice.randrange(size, size * 3)}Mi",
            "pods": "4" if self.chance(0.04) else "110",
            **({GPU: str(self.dice.choice((1, 2, 4)))} if self.has_gpus and self.chance(0.7) else {}),
        }
        name = f"{self.name}-{number:02}"
        labels = self.labels(name, f"zone-{number % 2}")
        if rack is not None and self.key not in ("", HOST):
            labels[self.key] = rack
        spec: Object = {}
        if self.chance(0.06):
            spec["taints"] = [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}]
        if self.chance(0.03):
            spec["unschedulable"] = True
        status = {"allocatable": room, "capacity": room}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": status,
        }

    def running(self, node: str, requests: dict[str, int], groups: list[tuple[str, str]]) -> None:
        super().running(node, requests, groups)
        spec = self.objects[-1]["spec"]
        group = spec.get("schedulingGroup", {}).get("podGroupName", "")
        named = next((each for each in self.objects if each["metadata"]["name"] == group), None)
        priority, _ = CLASSES[named["spec"]["priorityClassName"] if named else spec["priorityClassName"]]
        if priority < CLASSES[self.class_name][0]:
            spec.pop("affinity", None)

    def preempting_group(self, nodes: list[Object]) -> None:
        """Make the pending group; some groups have members that run already."""
        class_name, size = self.class_name, self.dice.choice(_SIZES)
        places = self.places()
        gang = None
        if not self.chance(0.2):
            gang = len(places) + (size if self.chance(0.5) else self.dice.randint(1, size))
        if gang is not None and gang > 1 and self.chance(0.1):
            gang = len(places) or gang  # It is complete already, and the pending members are beyond it.
        self.group(PREEMPTOR, class_name, gang, self.dice.choice((None, "Pod", "PodGroup")))
        if self.key:
            self.objects[-1]["spec"]["schedulingConstraints"] = {"topology": [{"key": self.key}]}
        for number, node in enumerate(places):
            member = self.pod(
                f"member-{number}", {"cpu": 10, "memory": 1}, class_name, group=PREEMPTOR, labels={}
            )
            member["spec"]["nodeName"] = node["metadata"]["name"]
            member["status"] = {
                "phase": "Running",
                "startTime": written_time(EPOCH + self.started[-1 - number]),
            }
            self.objects.append(member)
            if self.chance(0.1):
                self.terminating.append(member["metadata"]["name"])
        self.objects += self.members(nodes, size, class_name)

    def members(self, nodes: list[Object], size: int, class_name: str) -> list[Object]:
        """Return the pending members; the last one differs in some cases."""
        one = self.pending("", self.wish(nodes), class_name, PREEMPTOR)
        names = [f"{PREEMPTOR}-{number}" for number in range(size)]
        pending: list[Object] = [one | {"metadata": {**one["metadata"], "name": name}} for name in names]
        for spread in one["spec"].get("topologySpreadConstraints", ()):
            if self.key and self.chance(0.4):
                spread["topologyKey"] = self.key
        if self.chance(0.12):
            changed = self.pod("", self.wish(nodes), class_name, group=PREEMPTOR, labels={})["spec"]
            pending[-1]["spec"] = {**pending[-1]["spec"], "containers": changed["containers"]}
        if self.chance(0.04):
            self.ongoing(pending)
        return pending

    def places(self) -> list[Object]:
        """Return the nodes of running members: mostly none, often one rack, seldom several or none."""
        if not self.chance(0.3):
            return []
        number = self.dice.choice((1, 1, 2, 3))
        kind = self.dice.choices(("rack", "racks", "outside", "unknown"), (70, 13, 12, 5))[0]
        named = [nodes for rack, nodes in self.racks.items() if rack]
        if kind == "racks" and len(named) > 1:
            return [self.dice.choice(nodes) for nodes in self.dice.sample(named, 2)]
        if kind == "unknown":
            return [{"metadata": {"name": f"{self.name}-unknown"}}]
        if self.outside and (kind == "outside" or not self.racks):
            return self.dice.sample(self.outside, 1)
        rack: Sequence[Object] = self.dice.choice([*self.racks.values()])
        return [self.dice.choice(rack[:1] if self.key == HOST else rack) for _ in range(number)]

    def wish(self, nodes: list[Object]) -> dict[str, int]:
        """Return the request of a pending pod: mostly a part of a node, so that a node takes several."""
        wanted = super().wish(nodes)
        if self.chance(0.6):
            wanted["cpu"] = max(wanted["cpu"] // 30 * 10, 10)
            wanted["memory"] //= 3
        if self.chance(0.06):
            wanted[self.dice.choice(("cpu", "memory"))] = 0
        if wanted[GPU] and self.chance(0.5):
            wanted[GPU] = 1
        return wanted
