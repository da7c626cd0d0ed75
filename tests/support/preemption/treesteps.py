"""Groups and trees of composite groups in steps, for the cases of kube-scheduler's own tests.

Most cases are the same in Kubernetes 1.37 and 1.38. A node has 2 cpus and a pod requests 1 unless stated
otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import composite, group, node, placed, pod, tree_of, victims

from podium.planner.engine import plan
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

BLOCK, RACK, ZONE = "block", "rack", "zone"
V1_37, V1_38 = Semantics.V1_37, Semantics.V1_38
TREE = tree_of("root")
HIGH = (NS, "high-0")


class Wave(NamedTuple):
    """Objects that arrive together, and the result for the preemptor `by`.

    `where` gives the nodes that each group may use; the pods of other groups wait. Each text of `one` names
    groups that are in one domain of a label. `gone` names pods that end before. The preemptor is planned for
    while a pod waits whose name starts with `waits`. `rules` are those of the releases that have the case.
    """

    objects: Sequence[Any]
    where: Mapping[str, str] = {}
    one: Sequence[tuple[str, str]] = ()
    victims: str = ""
    by: Any = TREE
    gone: Sequence[str] = ()
    waits: str = ""
    rules: Sequence[Semantics] = (V1_37, V1_38)


def by_rules(waves: Mapping[str, Wave | list[Wave]]) -> list[Any]:
    """Return each case with each set of rules that it has, as parameters of a test."""
    return [
        pytest.param(each, rules, id=f"{rules}-{name}")
        for name, each in waves.items()
        for rules in (each[0] if isinstance(each, list) else each).rules
    ]


# --- objects --------------------------------------------------------------------------------------------


def nodes(text: str, cpu: int = 2) -> list[Any]:
    """Make nodes of a text: their names, racks, zones and blocks."""
    made = []
    for each in text.split(","):
        name, *values = each.split()
        made.append(node(name, cpu, labels=dict(zip((RACK, ZONE, BLOCK), values, strict=False))))
    return made


def running(text: str) -> list[Any]:
    """Make running pods of a text: their names, nodes, cpus, priorities and groups."""
    made = []
    for each in text.split(","):
        name, where, cpu, priority, *its = each.split()
        made.append(pod(name, cpu, int(priority), node=where, group="".join(its), ago=60))
    return made


def pending(text: str, cpu: str | int = 1, **spec: Any) -> list[Any]:
    """Make pending pods of a text: groups with their numbers of pods."""
    counts = [each.split() for each in text.split(",")]
    return [
        pod(f"{name}-{at}", cpu, 100, group=name, **spec)
        for name, count in counts
        for at in range(int(count))
    ]


def inner(
    name: str, least: int | None = 2, topology: str = "", parent: str = "", priority: int = 100, **fields: Any
) -> Any:
    """Make a composite group, the root by default."""
    return composite(name, priority, least, parent=parent, topology=topology, **fields)


def root(least: int | None = 2, topology: str = "", **fields: Any) -> Any:
    """Make the root of the pending tree."""
    return inner("root", least, topology, **fields)


def leaf(
    name: str,
    least: int | None = 2,
    topology: str = "",
    parent: str = "root",
    priority: int = 100,
    **fields: Any,
) -> Any:
    """Make a group of a tree."""
    return group(name, priority, least, composite=parent, topology=topology, **fields)


def two(topology: str = "", least: int | None = 2) -> list[Any]:
    """Make the groups pg1 and pg2."""
    return [leaf("pg1", least, topology), leaf("pg2", least, topology)]


def four(middle: str = "", bottom: str = "", least: int | None = 2) -> list[Any]:
    """Make two composite groups with two groups each."""
    return [
        *(inner(name, least, middle, parent="root") for name in ("sub1", "sub2")),
        *(leaf(f"pg{number}", 2, bottom, parent="sub1" if number < 3 else "sub2") for number in range(1, 5)),
    ]


def anywhere(groups: str, among: str) -> dict[str, str]:
    """Return that each of these groups uses some of the nodes."""
    return dict.fromkeys(groups.split(), among)


SQUARE = nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r2 z1")
ZONES = nodes("n1 r1 z1, n2 r2 z1, n3 r1 z2, n4 r1 z2")
PINNED = nodes("n1 r1 z1, n2 r2 z1, n3 r2 z1, n4 r1 z2, n5 r1 z2")
BLOCKS = nodes("n1 r1 z1 b1, n2 r2 z1 b1, n3 r1 z1 b2, n4 r2 z1 b2, n5 r1 z2 b1, n6 r1 z2 b1")
EIGHT = nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r2 z1, n5 r1 z2, n6 r1 z2, n7 r2 z2, n8 r2 z2")
SIX = nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r2 z1, n5 r3 z2, n6 r3 z2")
FOUR = "pg1 2, pg2 2, pg3 2, pg4 2"
ALL = "pg1 pg2 pg3 pg4"
TAINTED = [
    node("n1", 2, labels={RACK: "r1", ZONE: "z1"}, taints=[{"key": "taint", "effect": "NoSchedule"}]),
    *nodes("n2 r2 z1, n3 r3 z1, n4 r1 z2, n5 r2 z2"),
]
IN_N4 = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n4"]}]},
            }
        ]
    }
}
OF_TAINTED = [
    pending("pg1 2", tolerations=[{"key": "taint", "operator": "Exists"}]),
    pending("pg2 2", affinity=IN_N4),
]


class Steps:
    """Objects by kind and name; `step` plans and applies the plan, until it changes nothing."""

    def __init__(self, rules: Semantics, objects: Sequence[Any] = ()) -> None:
        self.settings = Settings(semantics=rules)
        self.objects: dict[tuple[str, str], Any] = {}
        self.add(objects)

    def add(self, objects: Sequence[Any]) -> None:
        """Add the objects of nested lists, each in place of one of its kind and name."""
        for obj in flat(objects):
            self.objects[type(obj).__name__, obj.metadata.name] = obj

    def step(self, wave: Wave) -> tuple[dict[str, str], list[str]]:
        """Return the node of each pod that finds room, and the victims, after a wave."""
        for name in wave.gone:
            del self.objects["Schedulable", name]
        self.add(wave.objects)
        landed: dict[str, str] = {}
        evicted: list[str] = []
        while any(name.startswith(wave.waits) for name in self.pending()):
            made = plan(state_of([*self.objects.values()]), wave.by, NOW, self.settings)
            if made.outcome not in (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION):
                break
            evicted += victims(made)
            for name in victims(made):
                del self.objects["Schedulable", name]
            for name, where in placed(made).items():
                before = self.objects["Schedulable", name]
                self.objects["Schedulable", name] = msgspec.structs.replace(
                    before, spec=msgspec.structs.replace(before.spec, nodeName=where)
                )
            landed |= placed(made)
        return landed, evicted

    def pending(self) -> list[str]:
        """Return the names of the pods without a node."""
        return [
            name
            for (kind, name), each in self.objects.items()
            if kind == "Schedulable" and each.spec.nodeName is None
        ]


def flat(objects: Sequence[Any]) -> list[Any]:
    """Return the objects of nested lists."""
    return [each for some in objects for each in (flat(some) if isinstance(some, list) else [some])]


def run(waves: Wave | list[Wave], rules: Semantics) -> None:
    """Assert that each wave has its result."""
    steps = Steps(rules)
    for wave in waves if isinstance(waves, list) else [waves]:
        landed, evicted = steps.step(wave)
        by_group: dict[str, set[str]] = {}
        for name, where in landed.items():
            by_group.setdefault(name.partition("-")[0], set()).add(where)
        assert sorted(evicted) == wave.victims.split()
        assert set(by_group) == set(wave.where)
        assert {name.partition("-")[0] for name in steps.pending()} & set(by_group) == set()
        for name, used in by_group.items():
            assert used <= set(wave.where[name].split()), name
        labels = {key[1]: each.metadata.labels for key, each in steps.objects.items() if "Node" in key[0]}
        for key, groups in wave.one:
            used = set().union(*(by_group[name] for name in groups.split()))
            assert len({labels[where][key] for where in used}) == 1, (key, groups)
