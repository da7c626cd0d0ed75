"""Random choices of topology domains by kube-scheduler 1.38, which a plan names for a group and its parts."""

import pytest
from tests.support.preemption.clusters import NOW, state_of
from tests.support.preemption.scene import node, pod
from tests.support.preemption.treesteps import RACK, TREE, V1_38, ZONE, inner, leaf, pending, root

from podium.api.core import Node
from podium.api.schedulable import Schedulable
from podium.planner.engine import plan
from podium.planner.preemption.outcome import Outcome
from podium.planner.settings import Settings

# Two zones of three racks, 20 nodes of 1 cpu in each. Of so many nodes a share of the domains is looked at.
_NODES = [
    node(f"z{zone}-r{rack}-{at:02}", 1, labels={ZONE: f"z{zone}", RACK: f"z{zone}-r{rack}"})
    for zone in (1, 2)
    for rack in (1, 2, 3)
    for at in range(20)
]
_FULL = [pod(f"low-{at:03}", 1, 0, node=each.metadata.name, ago=60) for at, each in enumerate(_NODES)]
_ZONE1 = _NODES[:60]
_PODS = pending("pg1 2, pg2 2")
_RACKS = "one of {0}-r1, {0}-r2, {0}-r3 for PodGroup team-a/pg{1}"
_ORDER = "kube-scheduler 1.38 looks at domains in random order and takes "
_OF_PARTS = f"{_RACKS.format('z1', 1)} and {_RACKS.format('z1', 2)}"
_NESTED = [inner("mid", 1, ZONE, parent="root"), leaf("pg1", 2, RACK, "mid"), leaf("pg2", 2, RACK, "mid")]

_CASES = {
    "a root alone": ([*_NODES, root(2, ZONE), leaf("pg1"), leaf("pg2"), *_PODS], "one of z1, z2"),
    "parts alone": ([*_ZONE1, root(), leaf("pg1", 2, RACK), leaf("pg2", 2, RACK), *_PODS], _OF_PARTS),
    "root and parts": (
        [*_NODES, root(2, ZONE), leaf("pg1", 2, RACK), leaf("pg2", 2, RACK), *_PODS],
        f"one of z1, z2, {_OF_PARTS}",
    ),
    "a tree below the root": (
        [*_NODES, root(1), *_NESTED, *_PODS],
        f"one of z1, z2 for CompositePodGroup team-a/mid, {_OF_PARTS}",
    ),
    "parts of which one has room in one rack": (
        [
            *_ZONE1,
            *(pod(f"high-{at}", 1, 200, node=each.metadata.name) for at, each in enumerate(_ZONE1[:40])),
            *(root(), leaf("pg1", 2, RACK), leaf("pg2"), *_PODS),
        ],
        "",
    ),
}


@pytest.mark.parametrize("full", [False, True], ids=["free", "full"])
@pytest.mark.parametrize("case", _CASES)
def test_a_plan_names_the_domains_that_are_taken_by_chance(case: str, full: bool) -> None:
    objects, expected = _CASES[case]
    there = {member.metadata.name for member in objects if isinstance(member, Node)}
    taken = {member.spec.nodeName for member in objects if isinstance(member, Schedulable)}
    low = [running for running in _FULL if running.spec.nodeName in there - taken] if full else []
    made = plan(state_of([*objects, *low]), TREE, NOW, Settings(semantics=V1_38))
    assert made.outcome is (Outcome.FITS_AFTER_PREEMPTION if full else Outcome.FITS), made.message
    assert (_ORDER in made.message) is bool(expected), made.message
    assert expected in made.message, made.message
