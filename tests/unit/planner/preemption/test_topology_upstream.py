"""kube-scheduler's own cases for groups with a topology constraint, with semantics 1.37 and 1.38.

They are in Kubernetes 1.37.0 and 1.38.0-beta.0: in test/integration/scheduler, folders
podgroup/topology_aware_scheduling and preemption/podgroup, and in the plugin that generates placements. There
each case runs a scheduler in steps. Here each step is planned and applied until nothing more happens. A node
has 2 cpus unless stated otherwise. Cases with several plugins that generate placements are not taken over,
because Podium has one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from tests.support.preemption.scene import group, node, of, placed, planned, pod, victims
from tests.support.preemption.treesteps import RACK, V1_37, V1_38, ZONE, Steps, Wave, running

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics


class Arrival(NamedTuple):
    """Pending members of a group that arrive together, and the result.

    `cpus` are their requests in order, and `least` is the minCount (None: basic). All that find room run on
    `where`, a value of the label `key`; several values are equal choices. `runs` is their number, by default
    all. `gone` are pods that end before. `ranked` are the victims in 1.38, if they are others.
    """

    group: str
    cpus: Sequence[int]
    where: str
    runs: int = -1
    least: int | None = 1
    key: str = RACK
    priority: int = 100
    victims: Sequence[str] = ()
    gone: Sequence[str] = ()
    ranked: Sequence[str] = ()


def racks(zones: Mapping[str, str] | None = None, *, cpu: int = 2, **sizes: int) -> list[Any]:
    """Make racks of so many nodes, with their zones; the nodes are numbered over all racks."""
    where = [rack for rack, size in sizes.items() for _ in range(size)]
    return [
        node(f"n{number}", cpu, labels={RACK: rack, ZONE: (zones or {}).get(rack, "z1")})
        for number, rack in enumerate(where, 1)
    ]


# Each of the three members requests 1 cpu.
THREE = (1, 1, 1)
GANG = {
    "takes the only rack with room": (
        [*racks(a=3, b=2, c=1), *running("x n4 2 100")],
        [Arrival("g", THREE, "a", least=3)],
    ),
    "waits if every rack is too small": (racks(a=2, b=1, c=1), [Arrival("g", (2, 2, 2), "", least=3)]),
    "waits for pods of its own priority, and runs when one ends": (
        [*racks(a=3), *running("x n1 2 100, y n3 2 100")],
        [Arrival("g", THREE, "", least=3), Arrival("g", (), "a", runs=3, least=3, gone=["x"])],
    ),
    "evicts pods of lower priority from all nodes of the placement": (
        [*racks(a=3), *running("x n1 2 100, y n3 2 100")],
        [Arrival("g", THREE, "a", least=3, priority=200, victims=["x", "y"], ranked=["x"])],
    ),
    "evicts in the rack that is fuller with the gang": (
        [*racks(a=2, b=3, c=1), *running("low-a n1 2 10, low-b n3 2 10, low-c n4 2 10")],
        [Arrival("g", THREE, "a", least=3, priority=200, victims=["low-a"])],
    ),
    "evicts in the rack that pods of its own priority fill most": (
        [
            *racks(a=2, b=3, c=3, d=1),
            *running("x n3 2 200, y n8 1 200, low-a n1 2 10, low-b n4 2 10, low-c n6 2 10, low-d n8 1 10"),
        ],
        [Arrival("g", THREE, "b", least=3, priority=200, victims=["low-b"])],
    ),
    "takes the rack that is fuller with the gang": (
        racks(a=2, b=3, c=1),
        [Arrival("g", THREE, "a", least=3)],
    ),
    "counts running pods of a rack": (
        [*racks(a=2, b=3, c=3, d=1), *running("x n3 2 100, y n8 1 100")],
        [Arrival("g", THREE, "b", least=3)],
    ),
    "leaves another rack to the next gang": (
        racks(a=3, b=2),
        [Arrival("g", (2, 2, 2), "a", least=3), Arrival("h", (1, 1), "b", least=2)],
    ),
    "leaves room in its rack to the next gang": (
        racks(a=3, b=1),
        [Arrival("g", (2, 1), "a", least=2), Arrival("h", THREE, "a", least=3)],
    ),
    "and another with another key each get a domain": (
        racks({"a": "z1", "b": "z1", "c": "z2"}, a=2, b=1, c=3),
        [Arrival("g", (2, 2, 2), "c", least=3), Arrival("h", (2, 2, 2), "z1", least=3, key=ZONE)],
    ),
    "fills the cluster, and the next one waits": (
        racks(a=2),
        [Arrival("g", THREE, "a", least=3), Arrival("h", (1, 1), "", least=2)],
    ),
    "of fewer needed members than pods uses one rack": (
        racks(a=2, b=2),
        [Arrival("g", THREE, "a b", least=2)],
    ),
    "gets late members in its rack, and the last one waits": (
        racks(a=3, b=2, c=1),
        [
            Arrival("g", THREE, "b", least=3),
            Arrival("g", (1,), "b", least=3),
            Arrival("g", (1,), "", least=3),
        ],
    ),
    "evicts in its rack for a late member": (
        [*racks(a=3, b=2, c=1), *running("low n5 1 10")],
        [
            Arrival("g", THREE, "b", least=3, priority=200),
            Arrival("g", (1,), "b", least=3, priority=200, victims=["low"]),
            Arrival("g", (1,), "", least=3, priority=200),
        ],
    ),
    "evicts no pod of its own priority": (
        [*racks(a=2), *running("x n2 2 100")],
        [Arrival("g", THREE, "", least=3)],
    ),
    "evicts both pods of the only rack": (
        [*racks(a=2, cpu=1), *running("x n1 1 10, y n2 1 10")],
        [Arrival("g", (1, 1), "a", least=2, victims=["x", "y"])],
    ),
    "evicts in the rack without pods of higher priority": (
        [*racks(a=2, b=2, cpu=1), *running("x n1 1 10, y n2 1 10, high n3 1 200, higher n4 1 200")],
        [Arrival("g", (1, 1), "a", least=2, victims=["x", "y"])],
    ),
    "evicts nothing if that does not free a whole rack": (
        [*racks(a=2, b=2, cpu=1), *running("x n1 1 10, high n2 1 200, y n3 1 10, higher n4 1 200")],
        [Arrival("g", (1, 1), "", least=2)],
    ),
}
BASIC = {
    "runs on the only rack": (racks(a=2), [Arrival("g", THREE, "a", least=None)]),
    "runs on one of equal racks": (racks(a=2, b=2, c=2), [Arrival("g", THREE, "a b c", least=None)]),
    "runs in part if one rack is too small for all": (
        racks(a=1, b=1),
        [Arrival("g", THREE, "a b", runs=2, least=None)],
    ),
    "waits if no member fits": (racks(a=1, b=1), [Arrival("g", (3, 3), "", least=None)]),
    "runs without a member that fits on no node": (
        racks(a=1, b=1),
        [Arrival("g", (3, 1), "a b", runs=1, least=None)],
    ),
    "takes the rack that is fuller with the group": (racks(a=2, b=3), [Arrival("g", THREE, "a", least=None)]),
    "counts running pods of a rack": (
        [*racks(a=3, b=3, c=4), *running("x n1 1 100, y n5 1 100, z n6 1 100")],
        [Arrival("g", THREE, "b", least=None)],
    ),
    "stays in the rack of its first member, which is too small for all": (
        [*racks(a=4, b=1), *running("x n1 2 100")],
        [Arrival("g", (1,), "b", least=None), Arrival("g", (1, 1), "b", runs=1, least=None)],
    ),
    "leaves another rack to the next group": (
        racks(a=3, b=1),
        [Arrival("g", (1, 1), "b", least=None), Arrival("h", (1, 1), "a", least=None)],
    ),
    "leaves room in its rack to the next group": (
        racks(a=3),
        [Arrival("g", (1, 1), "a", least=None), Arrival("h", THREE, "a", least=None)],
    ),
    "and another with another key each get a domain": (
        racks({"a": "z1", "b": "z2", "c": "z2"}, a=1, b=2, c=2),
        [Arrival("g", (1, 1), "a", least=None), Arrival("h", (2, 2, 2), "z2", least=None, key=ZONE)],
    ),
    "leaves the larger rack to the next group, and keeps a member that waits": (
        racks(a=2, b=1),
        [
            Arrival("g", (1,), "b", least=None),
            Arrival("g", (1, 1), "b", runs=1, least=None),
            Arrival("h", THREE, "a", least=None),
        ],
    ),
    "runs its last member when a pod in its rack ends": (
        [*racks(a=1, b=1), *running("x n1 1 100")],
        [
            Arrival("g", (1,), "a", least=None),
            Arrival("g", (1,), "", least=None),
            Arrival("g", (), "a", runs=1, least=None, gone=["x"]),
        ],
    ),
}
CASES = {
    **{f"a gang {name}": case for name, case in GANG.items()},
    **{f"a basic group {name}": case for name, case in BASIC.items()},
}


@pytest.mark.parametrize(("objects", "arrivals"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("rules", [V1_37, V1_38])
def test_a_group_with_a_constraint_is_scheduled_as_upstream(
    objects: list[Any], arrivals: list[Arrival], rules: Semantics
) -> None:
    steps = Steps(rules, objects)
    labels = {each.metadata.name: each.metadata.labels for each in objects if each.metadata.labels}
    for number, arrival in enumerate(arrivals):
        name, cpus = arrival.group, arrival.cpus
        high = group(name, arrival.priority, arrival.least, topology=arrival.key)
        members = [
            pod(f"{name}-{number}{at}", cpu, arrival.priority, group=name) for at, cpu in enumerate(cpus)
        ]
        landed, evicted = steps.step(Wave([high, members], by=of(name), gone=arrival.gone, waits=f"{name}-"))
        runs = (len(cpus) if arrival.where else 0) if arrival.runs < 0 else arrival.runs
        expected = (arrival.ranked if rules is V1_38 else ()) or arrival.victims
        assert (len(landed), sorted(evicted)) == (runs, sorted(expected)), arrival
        domains = {labels[node_name][arrival.key] for node_name in landed.values()}
        assert len(domains) == (1 if runs else 0), arrival
        assert domains <= set(arrival.where.split()), arrival


# Nodes, running pods, the node to which the pending members are nominated, and the one that they take under
# each set of rules.
NOMINATED: dict[str, tuple[list[Any], list[Any], str, dict[Semantics, str]]] = {
    "the nominated rack, though the other one would be fuller": (
        [node("n1", 2, labels={RACK: "a"}), node("n2", 4, labels={RACK: "b"})],
        [],
        "n2",
        {V1_37: "n1", V1_38: "n2"},
    ),
    "the rack of its members, though a node of the other one is nominated": (
        [node("n1", 1, labels={RACK: "a"}), node("n2", 4, labels={RACK: "b"})],
        running("x n1 1 100, g-a n2 1 100 g, g-b n2 1 100 g"),
        "n1",
        {V1_37: "n2", V1_38: "n2"},
    ),
}


@pytest.mark.parametrize(("objects", "members", "nominated", "where"), NOMINATED.values(), ids=NOMINATED)
@pytest.mark.parametrize("rules", [V1_37, V1_38])
def test_a_gang_takes(
    objects: list[Any], members: list[Any], nominated: str, where: Mapping[Semantics, str], rules: Semantics
) -> None:
    status = {"nominatedNodeName": nominated}
    pending = [pod(f"g-{at}", 1, 100, group="g", status=status) for at in range(2)]
    made = planned(
        *(objects, group("g", 100, 2, topology=RACK), members, pending), by=of("g"), semantics=rules
    )
    assert set(placed(made).values()) == {where[rules]}


# The domains that the plugin generates: nodes by label, and the nodes of running members. An error of the
# plugin ends kube-scheduler's cycle, so it evicts nothing either.
FITS, WAITS, ERROR = Outcome.FITS, Outcome.DOES_NOT_FIT, Outcome.NOT_ELIGIBLE
_GENERATED: dict[str, tuple[list[Any], str, Sequence[str], Outcome, set[str]]] = {
    "every node without a constraint": (racks(a=1, b=1), "", (), FITS, {"n1", "n2"}),
    "the nodes of one value": (racks(a=2, b=1), RACK, (), FITS, {"n1", "n2"}),
    "no node without the label": ([node("n1", 2, labels={ZONE: "z1"})], RACK, (), WAITS, set()),
    "the domain of running members": (racks(a=2, b=3), RACK, ("n1", "n2"), FITS, {"n1", "n2"}),
    "no domain for running members in several": (racks(a=2, b=2), RACK, ("n1", "n3"), ERROR, set()),
    "no domain for a member that runs without the label": (
        *([*racks(a=2), node("n3", 2)], RACK, ("n3",)),
        *(ERROR, set()),
    ),
    "no domain for a member that runs on an unknown node": (
        racks(a=2),
        RACK,
        ("n1", "gone"),
        *(ERROR, set()),
    ),
}
_HALF = [*racks(a=1), node("n2", 2, labels={RACK: ""})]
# 1.37 makes a domain of the nodes whose label is empty.
_EMPTY: dict[str, tuple[list[Any], str, Sequence[str], Outcome, set[str]]] = {
    "no node whose label is empty": (_HALF, RACK, (), FITS, {"n1"}),
    "no domain for a member that runs where the label is empty": (_HALF, RACK, ("n2",), ERROR, set()),
}
GENERATED = [
    pytest.param(*case, rules, id=f"{rules}-{name}")
    for rules, cases in ((V1_37, _GENERATED), (V1_38, _GENERATED | _EMPTY))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("objects", "key", "members", "outcome", "used", "rules"), GENERATED)
@pytest.mark.parametrize("filled", [False, True], ids=["free", "filled"])
def test_a_group_may_use(  # noqa: PLR0917 - a case
    objects: list[Any],
    key: str,
    members: Sequence[str],
    outcome: Outcome,
    used: set[str],
    rules: Semantics,
    *,
    filled: bool,
) -> None:
    """With and without pods of lower priority on all nodes; the group is so large that it uses every node."""
    lower = [pod(f"low-{each.metadata.name}", 2, 1, node=each.metadata.name) for each in objects]
    there = [pod(f"there-{at}", 0, 5, group="high", node=name) for at, name in enumerate(members)]
    pending = [pod(f"high-{at}", 1, 5, group="high") for at in range(2 * len(used) or 1)]
    high = group("high", 5, None, topology=key)
    made = planned(*(objects, lower if filled else [], high, there, pending), by=of("high"), semantics=rules)
    assert set(placed(made).values()) == used
    preempts = filled and outcome is FITS
    assert made.outcome is (Outcome.FITS_AFTER_PREEMPTION if preempts else outcome)
    assert sorted(victims(made)) == (sorted(f"low-{name}" for name in used) if preempts else [])
