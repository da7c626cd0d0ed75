"""kube-scheduler's own cases for trees of composite groups, on Podium's engine with semantics 1.37.

They are in Kubernetes 1.37.0 in test/integration/scheduler/podgroup (cpg_test.go and
topology_aware_scheduling/cpg_tas_test.go), in test/integration/scheduler/preemption/podgroup, in
test/integration/scheduler/preemption, and in the tests of pkg/scheduler/framework/preemption. There each case
runs a scheduler in steps. Here each step is planned and applied until nothing more happens. Those with
preemption are in test_preempting_trees_upstream and test_tree_victims_upstream.

Not taken over:
- Cases with the gate CompositePodGroup off: Podium has no such setting.
- Cases whose plugins are fakes, such as those of TestCPGSchedulingPlacementAlgorithm and "Reserve plugins are
  called during preemption simulation": they test calls of plugins.
- Cases of the queue, the cache, events and metrics, and the admission of a parent without a workloadRef.
- Policies of the gate PodGroupPreemptionPolicy that differ within a tree: kube-scheduler ends with an error.
- "Binding first before preemption" with groups that are removed meanwhile: the engine sees one state.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.preemption.clusters import NOW, state_of
from tests.support.preemption.scene import placed, pod, victims
from tests.support.preemption.treesteps import (
    ALL,
    BLOCK,
    BLOCKS,
    EIGHT,
    FOUR,
    OF_TAINTED,
    PINNED,
    RACK,
    SIX,
    SQUARE,
    TAINTED,
    TREE,
    V1_37,
    ZONE,
    ZONES,
    Wave,
    anywhere,
    flat,
    four,
    inner,
    leaf,
    nodes,
    pending,
    root,
    run,
    running,
    two,
)
from tests.unit.planner.preemption.test_topology_upstream import GENERATED

from podium.planner.engine import plan
from podium.planner.preemption.outcome import Outcome

PLACED = {
    "a rack with room for all children": [
        Wave(
            [SQUARE, running("x n4 2 100"), root(2, RACK), two(), pending("pg1 2, pg2 2")],
            anywhere("pg1 pg2", "n1 n2"),
        )
    ],
    "the rack of a pod of the tree": [
        Wave(
            [SQUARE, running("x n4 1 100 pg1"), root(2, RACK), two(), pending("pg1 1, pg2 2")],
            anywhere("pg1 pg2", "n3 n4"),
        )
    ],
    "no rack, as none takes all children": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r2 z1"),
                running("x n1 1 100, y n2 1 100"),
                root(2, RACK),
                two("", None),
                pending("pg1 1, pg2 1"),
            ]
        )
    ],
    "racks within a zone": [
        Wave(
            [ZONES, running("x n3 1 100"), root(2, ZONE), two(RACK), pending("pg1 2, pg2 2")],
            anywhere("pg1 pg2", "n1 n2"),
            [(RACK, "pg1"), (RACK, "pg2")],
        )
    ],
    "a rack within a zone beside a child without a constraint": [
        Wave(
            [
                TAINTED,
                running("x n5 1 100, y n2 1 100, z n3 1 100"),
                root(2, ZONE),
                leaf("pg1", 2, RACK),
                leaf("pg2"),
                OF_TAINTED,
            ],
            {"pg1": "n1", "pg2": "n2 n3"},
            [(ZONE, "pg1 pg2"), (RACK, "pg1")],
        )
    ],
    "the zone and the rack of a pod of a child": [
        Wave(
            [
                PINNED,
                root(2, ZONE),
                two(RACK),
                running("x n1 1 100 pg1"),
                pending("pg1 1, pg2 2"),
            ],
            {"pg1": "n1", "pg2": "n2 n3"},
        )
    ],
    "nothing for pods in two zones": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r1 z1, n3 r1 z2, n4 r1 z2"),
                root(2, ZONE),
                two(RACK),
                running("x n1 1 100 pg1, y n3 1 100 pg2"),
                pending("pg1 1, pg2 1"),
            ]
        )
    ],
    "a zone, blocks and racks": [
        Wave(
            [BLOCKS, root(2, ZONE), four(BLOCK, RACK), pending(FOUR)],
            anywhere(ALL, "n1 n2 n3 n4"),
            [(BLOCK, "pg1 pg2"), (BLOCK, "pg3 pg4"), *((RACK, name) for name in ALL.split())],
        )
    ],
    "a zone and racks below composite groups without a constraint": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r2 z1, n3 r1 z2"),
                root(2, ZONE),
                inner("sub1", None, parent="root"),
                inner("sub2", None, parent="root"),
                leaf("pg1", 2, RACK, parent="sub1"),
                leaf("pg2", 2, RACK, parent="sub2"),
                pending("pg1 2, pg2 2"),
            ],
            anywhere("pg1 pg2", "n1 n2"),
            [(RACK, "pg1"), (RACK, "pg2")],
        )
    ],
    "zones and racks below a root without a constraint": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r2 z1, n3 r3 z2, n4 r4 z2, n5 r5 z2"),
                root(None),
                four(ZONE, RACK),
                pending(FOUR),
            ],
            anywhere(ALL, "n1 n2 n3 n4 n5"),
            [(ZONE, "pg1 pg2"), (ZONE, "pg3 pg4"), *((RACK, name) for name in ALL.split())],
        )
    ],
    "a zone and racks above groups without a constraint": [
        Wave(
            [SIX, root(2, ZONE), four(RACK), pending(FOUR)],
            anywhere(ALL, "n1 n2 n3 n4"),
            [(RACK, "pg1 pg2"), (RACK, "pg3 pg4")],
        )
    ],
    "the domains of a pod of a group on each level": [
        Wave(
            [
                EIGHT,
                root(2, ZONE),
                four(RACK),
                running("x n5 1 100 pg1"),
                pending("pg1 1, pg2 2, pg3 2, pg4 2"),
            ],
            {**anywhere("pg1 pg2", "n5 n6"), **anywhere("pg3 pg4", "n7 n8")},
        )
    ],
    "all of a hierarchy but what is too large": [
        Wave(
            [
                nodes("n1", 20),
                root(2),
                inner("sub1", 2, parent="root"),
                inner("sub2", None, parent="root"),
                inner("sub3", 2, parent="root"),
                *(leaf(f"pg{number}", 3, parent="sub1") for number in (1, 2, 3)),
                leaf("pg4", None, parent="sub2"),
                leaf("pg5", 3, parent="sub2"),
                *(leaf(f"pg{number}", 3, parent="sub3") for number in (6, 7)),
                pending("pg1 3, pg2 3, pg4 3, pg5 3, pg6 3"),
                pending("pg3 3, pg7 3", 100),
            ],
            anywhere("pg1 pg2 pg4 pg5", "n1"),
        )
    ],
    "minGroupCount of its children": [
        Wave(
            [
                nodes("n1", 20),
                root(2),
                *(leaf(f"pg{number}", 3) for number in (1, 2, 3)),
                pending("pg1 3, pg2 3, pg3 2"),
                pod("pg3-x", 100, 100, group="pg3"),
            ],
            anywhere("pg1 pg2", "n1"),
        )
    ],
    "one of two gangs below a basic root": [
        Wave(
            [
                nodes("n1", 20),
                root(None),
                two("", 3),
                pending("pg1 3, pg2 2"),
                pod("pg2-x", 100, 100, group="pg2"),
            ],
            {"pg1": "n1"},
        )
    ],
    "basic groups below a basic root": [
        Wave([nodes("n1", 20), root(None), two("", None), pending("pg1 2, pg2 2")], anywhere("pg1 pg2", "n1"))
    ],
    "basic groups below a gang": [
        Wave(
            [
                nodes("n1", 8),
                root(2),
                two("", None),
                leaf("pg3", None),
                pending("pg1 3, pg2 3"),
                pending("pg3 3", 10),
            ],
            anywhere("pg1 pg2", "n1"),
        )
    ],
    "no basic group that is too large": [
        Wave([nodes("n1", 20), root(None), two("", None), pending("pg1 2, pg2 2", 50)])
    ],
    "children that come later, once enough of them are there": [
        Wave([nodes("n1", 20), root(None), leaf("pg1", None), pending("pg1 2")], {"pg1": "n1"}),
        Wave([leaf("pg2", None), pending("pg2 2")], {"pg2": "n1"}),
        Wave([inner("sub", 2, parent="root"), leaf("pg3", None, parent="sub"), pending("pg3 2")]),
        Wave([leaf("pg4", None, parent="sub"), pending("pg4 2")], anywhere("pg3 pg4", "n1")),
    ],
}


@pytest.mark.parametrize("waves", PLACED.values(), ids=PLACED)
def test_a_tree_takes_as_upstream(waves: list[Wave]) -> None:
    run(waves)


@pytest.mark.parametrize(("objects", "key", "members", "outcome", "used"), GENERATED.values(), ids=GENERATED)
@pytest.mark.parametrize("filled", [False, True], ids=["free", "filled"])
def test_a_tree_may_use(
    objects: list[Any], key: str, members: Sequence[str], outcome: Outcome, used: set[str], *, filled: bool
) -> None:
    """The root has the constraint, and its members run in one group and wait in another."""
    lower = [pod(f"low-{each.metadata.name}", 2, 1, node=each.metadata.name) for each in objects]
    there = [pod(f"there-{at}", 0, 100, group="pg1", node=name) for at, name in enumerate(members)]
    tree = [root(None, key), leaf("pg1", None), leaf("pg2", None)]
    waiting = pending(f"pg2 {2 * len(used) or 1}")
    made = plan(state_of(flat([objects, lower if filled else [], tree, there, waiting])), TREE, NOW, V1_37)
    assert set(placed(made).values()) == used
    preempts = filled and outcome is Outcome.FITS
    assert made.outcome is (Outcome.FITS_AFTER_PREEMPTION if preempts else outcome)
    assert sorted(victims(made)) == (sorted(f"low-{name}" for name in used) if preempts else [])
