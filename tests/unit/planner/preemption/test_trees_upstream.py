"""kube-scheduler's own cases for trees of composite groups, with semantics 1.37 and 1.38.

They are in Kubernetes 1.37.0 and 1.38.0-beta.0 in test/integration/scheduler/podgroup (cpg_test.go,
hierarchy_validation_test.go and topology_aware_scheduling/cpg_tas_test.go), in
test/integration/scheduler/preemption/podgroup, in test/integration/scheduler/preemption, and in the tests of
pkg/scheduler/framework/preemption. 1.38 refuses a basic group below a gang, so most of these are gangs of one
here. There each case
runs a scheduler in steps. Here each step is planned and applied until nothing more happens. Those with
preemption are in test_preempting_trees_upstream and test_tree_victims_upstream.

Not taken over:
- Cases with the gate CompositePodGroup off: Podium has no such setting.
- Cases whose plugins are fakes, such as those of TestCPGSchedulingPlacementAlgorithm and "Reserve plugins are
  called during preemption simulation": they test calls of plugins.
- Cases of the queue, the cache, events and metrics, and the admission of a parent without a workloadRef.
- Limits on placements: any domain is right there, and the other cases have them all.
- Conditions of groups, such as those of TestCPGStatusConditions: a plan has none.
- Policies of the gate PodGroupPreemptionPolicy that differ within a tree: kube-scheduler ends with an error.
- "Binding first before preemption" with groups that are removed meanwhile: the engine sees one state.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.preemption.clusters import NOW, state_of
from tests.support.preemption.scene import placed, pod, tree_of, victims
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
    V1_38,
    ZONE,
    ZONES,
    Wave,
    anywhere,
    by_rules,
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

from podium.api.groups import TemplateRef
from podium.planner.engine import plan
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

SECOND = tree_of("second")


def second(least: int) -> list[Any]:
    """Make another tree of two groups in one rack."""
    return [
        inner("second", 2, RACK),
        *(leaf(name, least, parent="second") for name in ("pg3", "pg4")),
    ]


PLACED: dict[str, Wave | list[Wave]] = {
    "a rack with room for all children": Wave(
        [SQUARE, running("x n4 2 100"), root(2, RACK), two(), pending("pg1 2, pg2 2")],
        anywhere("pg1 pg2", "n1 n2"),
    ),
    "the rack of a pod of the tree": Wave(
        [SQUARE, running("x n4 1 100 pg1"), root(2, RACK), two(), pending("pg1 1, pg2 2")],
        anywhere("pg1 pg2", "n3 n4"),
    ),
    "no rack, as none takes all children": Wave(
        [
            nodes("n1 r1 z1, n2 r2 z1"),
            running("x n1 1 100, y n2 1 100"),
            root(2, RACK),
            two("", 1),
            pending("pg1 1, pg2 1"),
        ]
    ),
    "racks within a zone": Wave(
        [ZONES, running("x n3 1 100"), root(2, ZONE), two(RACK), pending("pg1 2, pg2 2")],
        anywhere("pg1 pg2", "n1 n2"),
        [(RACK, "pg1"), (RACK, "pg2")],
    ),
    "a rack within a zone beside a child without a constraint": Wave(
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
    ),
    "the zone and the rack of a pod of a child": Wave(
        [PINNED, root(2, ZONE), two(RACK), running("x n1 1 100 pg1"), pending("pg1 1, pg2 2")],
        {"pg1": "n1", "pg2": "n2 n3"},
    ),
    "nothing for pods in two zones": Wave(
        [
            nodes("n1 r1 z1, n2 r1 z1, n3 r1 z2, n4 r1 z2"),
            root(2, ZONE),
            two(RACK),
            running("x n1 1 100 pg1, y n3 1 100 pg2"),
            pending("pg1 1, pg2 1"),
        ]
    ),
    "a zone, blocks and racks": Wave(
        [BLOCKS, root(2, ZONE), four(BLOCK, RACK), pending(FOUR)],
        anywhere(ALL, "n1 n2 n3 n4"),
        [(BLOCK, "pg1 pg2"), (BLOCK, "pg3 pg4"), *((RACK, name) for name in ALL.split())],
    ),
    "a zone and racks below composite groups without a constraint": Wave(
        [
            nodes("n1 r1 z1, n2 r2 z1, n3 r1 z2"),
            root(2, ZONE),
            inner("sub1", 1, parent="root"),
            inner("sub2", 1, parent="root"),
            leaf("pg1", 2, RACK, parent="sub1"),
            leaf("pg2", 2, RACK, parent="sub2"),
            pending("pg1 2, pg2 2"),
        ],
        anywhere("pg1 pg2", "n1 n2"),
        [(RACK, "pg1"), (RACK, "pg2")],
    ),
    "zones and racks below a root without a constraint": Wave(
        [
            nodes("n1 r1 z1, n2 r2 z1, n3 r3 z2, n4 r4 z2, n5 r5 z2"),
            root(None),
            four(ZONE, RACK),
            pending(FOUR),
        ],
        anywhere(ALL, "n1 n2 n3 n4 n5"),
        [(ZONE, "pg1 pg2"), (ZONE, "pg3 pg4"), *((RACK, name) for name in ALL.split())],
    ),
    "a zone and racks above groups without a constraint": Wave(
        [SIX, root(2, ZONE), four(RACK), pending(FOUR)],
        anywhere(ALL, "n1 n2 n3 n4"),
        [(RACK, "pg1 pg2"), (RACK, "pg3 pg4")],
    ),
    "the domains of a pod of a group on each level": Wave(
        [EIGHT, root(2, ZONE), four(RACK), running("x n5 1 100 pg1"), pending("pg1 1, pg2 2, pg3 2, pg4 2")],
        {**anywhere("pg1 pg2", "n5 n6"), **anywhere("pg3 pg4", "n7 n8")},
    ),
    "all of a hierarchy but what is too large": Wave(
        [
            nodes("n1", 20),
            root(2),
            inner("sub1", 2, parent="root"),
            inner("sub2", 1, parent="root"),
            inner("sub3", 2, parent="root"),
            *(leaf(f"pg{number}", 3, parent="sub1") for number in (1, 2, 3)),
            leaf("pg4", 1, parent="sub2"),
            leaf("pg5", 3, parent="sub2"),
            *(leaf(f"pg{number}", 3, parent="sub3") for number in (6, 7)),
            pending("pg1 3, pg2 3, pg4 3, pg5 3, pg6 3"),
            pending("pg3 3, pg7 3", 100),
        ],
        anywhere("pg1 pg2 pg4 pg5", "n1"),
    ),
    "minGroupCount of its children": Wave(
        [
            nodes("n1", 20),
            root(2),
            *(leaf(f"pg{number}", 3) for number in (1, 2, 3)),
            pending("pg1 3, pg2 3, pg3 2"),
            pod("pg3-x", 100, 100, group="pg3"),
        ],
        anywhere("pg1 pg2", "n1"),
    ),
    "one of two gangs below a basic root": Wave(
        [
            nodes("n1", 20),
            root(None),
            two("", 3),
            pending("pg1 3, pg2 2"),
            pod("pg2-x", 100, 100, group="pg2"),
        ],
        {"pg1": "n1"},
    ),
    "basic groups below a basic root": Wave(
        [nodes("n1", 20), root(None), two("", None), pending("pg1 2, pg2 2")], anywhere("pg1 pg2", "n1")
    ),
    "basic groups below a gang": Wave(
        [
            nodes("n1", 8),
            root(2),
            two("", None),
            leaf("pg3", None),
            pending("pg1 3, pg2 3"),
            pending("pg3 3", 10),
        ],
        anywhere("pg1 pg2", "n1"),
        rules=[V1_37],
    ),
    "no basic group that is too large": Wave(
        [nodes("n1", 20), root(None), two("", None), pending("pg1 2, pg2 2", 50)]
    ),
    "children that come later, once enough of them are there": [
        Wave([nodes("n1", 20), root(None), leaf("pg1", None), pending("pg1 2")], {"pg1": "n1"}),
        Wave([leaf("pg2", None), pending("pg2 2")], {"pg2": "n1"}),
        Wave([inner("sub", 2, parent="root"), leaf("pg3", 1, parent="sub"), pending("pg3 2")]),
        Wave([leaf("pg4", 1, parent="sub"), pending("pg4 2")], anywhere("pg3 pg4", "n1")),
    ],
    "the rack that is fuller with the tree": Wave(
        [
            SQUARE,
            running("x n1 1 100"),
            root(2, RACK),
            leaf("pg1", 1),
            leaf("pg2", 2),
            pending("pg1 1, pg2 2"),
        ],
        anywhere("pg1 pg2", "n1 n2"),
    ),
    "the rack for more of its pods, though another one is fuller": Wave(
        [
            nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r2 z1, n5 r2 z1"),
            running("x n1 1 100"),
            root(1, RACK),
            two(),
            pending("pg1 2, pg2 2"),
        ],
        anywhere("pg1 pg2", "n3 n4 n5"),
    ),
    "a rack for as many children as fit": Wave(
        [
            SQUARE,
            running("x n3 2 100, y n4 2 100"),
            root(2, RACK),
            two(),
            leaf("pg3"),
            pending("pg1 2, pg2 2, pg3 2"),
        ],
        anywhere("pg1 pg2", "n1 n2"),
    ),
    "its rack and no other one, until there is room": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1"),
                running("x n1 2 100"),
                root(None, RACK),
                two("", None),
                pending("pg1 1"),
            ],
            {"pg1": "n2"},
        ),
        Wave([pod("pg1-late", 1, 100, group="pg1")], {"pg1": "n2"}),
        Wave([pending("pg2 2")]),
        Wave([], {"pg2": "n1"}, gone=["x"]),
    ],
    "the rack of another tree": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r2 z1, n5 r2 z1"),
                root(2, RACK),
                two("", 1),
                pending("pg1 1, pg2 1"),
            ],
            anywhere("pg1 pg2", "n1 n2"),
        ),
        Wave([second(1), pending("pg3 1, pg4 1")], anywhere("pg3 pg4", "n1 n2"), by=SECOND),
    ],
    "the rack that another tree leaves": [
        Wave(
            [SQUARE, root(2, RACK), two(), pending("pg1 2, pg2 2")],
            anywhere("pg1 pg2", "n1 n2 n3 n4"),
            [(RACK, "pg1 pg2")],
        ),
        Wave(
            [second(2), pending("pg3 2, pg4 2")],
            anywhere("pg3 pg4", "n1 n2 n3 n4"),
            [(RACK, "pg3 pg4")],
            by=SECOND,
        ),
    ],
    "no two racks beside another tree, and later one with a further node": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r3 z1"),
                root(2, RACK),
                two(),
                pending("pg1 2, pg2 2"),
            ],
            anywhere("pg1 pg2", "n1 n2"),
        ),
        Wave([second(2), pending("pg3 2, pg4 2")], by=SECOND),
        Wave([nodes("n5 r2 z1")], anywhere("pg3 pg4", "n3 n5"), by=SECOND),
    ],
    "a zone, and racks for some of its children": Wave(
        [
            nodes("n1 r1 z1, n2 r1 z1, n3 r2 z1, n4 r2 z1, n5 r1 z2, n6 r2 z2"),
            root(3, ZONE),
            inner("first", 2, RACK, parent="root"),
            leaf("pg1", 2, parent="first"),
            leaf("pg2", 2, parent="first"),
            leaf("pg3", 2, RACK),
            leaf("pg4", 2),
            pending(FOUR),
        ],
        anywhere(ALL, "n1 n2 n3 n4"),
        [(RACK, "pg1 pg2"), (RACK, "pg3")],
    ),
    "more of its children than minGroupCount": Wave(
        [
            nodes("n1", 20),
            root(2),
            *(leaf(f"pg{number}", 3) for number in (1, 2, 3)),
            pending("pg1 3, pg2 3, pg3 3"),
        ],
        anywhere("pg1 pg2 pg3", "n1"),
    ),
    "what fits of a gang and of a basic branch": Wave(
        [
            nodes("n1", 12),
            root(None),
            inner("sub1", 2, parent="root"),
            inner("sub2", None, parent="root"),
            *(leaf(f"pg{number}", 3, parent="sub1") for number in (1, 2, 3)),
            leaf("pg4", None, parent="sub2"),
            leaf("pg5", 3, parent="sub2"),
            pending("pg1 3, pg2 3, pg4 3"),
            pending("pg3 3, pg5 3", 10),
        ],
        anywhere("pg1 pg2 pg4", "n1"),
    ),
    "the nodes of a gang branch that fails": Wave(
        [
            nodes("n1, n2", 1),
            root(None),
            inner("sub1", 2, parent="root"),
            inner("sub2", None, parent="root"),
            *(leaf(name, 2, parent="sub1") for name in ("pg1", "pg2")),
            *(leaf(name, None, parent="sub2") for name in ("pg3", "pg4")),
            pending("pg1 2, pg2 2, pg3 1, pg4 1"),
        ],
        anywhere("pg3 pg4", "n1 n2"),
    ),
    "nothing for one of two needed children": Wave(
        [nodes("n1"), nodes("n2", 1), root(2), two(), pending("pg1 2, pg2 2")]
    ),
}
# kube-scheduler 1.38 places no pod of these trees, whatever the room.
REFUSED: dict[str, list[Any]] = {
    "of five levels": [
        root(None),
        inner("sub1", None, parent="root"),
        inner("sub2", None, parent="sub1"),
        inner("sub3", None, parent="sub2"),
        leaf("pg1", None, parent="sub3"),
    ],
    "with an empty composite group on the fourth level": [
        root(None),
        inner("sub1", None, parent="root"),
        inner("sub2", None, parent="sub1"),
        inner("sub3", None, parent="sub2"),
        leaf("pg1", None),
    ],
    "of two Workloads": [
        root(None, template_ref=TemplateRef("wl-1", "root")),
        leaf("pg1", None, template_ref=TemplateRef("wl-2", "leaf")),
    ],
    "with a basic group below a gang": [root(1), leaf("pg1", None)],
    "of mode all with a group of mode single": [root(1, whole=True), leaf("pg1", 1)],
    "with a group of another priority": [root(None), leaf("pg1", None, priority=50)],
}


@pytest.mark.parametrize(("waves", "rules"), by_rules(PLACED))
def test_a_tree_takes_as_upstream(waves: Wave | list[Wave], rules: Semantics) -> None:
    run(waves, rules)


@pytest.mark.parametrize("tree", REFUSED.values(), ids=REFUSED)
def test_a_tree_is_refused_as_upstream(tree: list[Any]) -> None:
    cluster = state_of(flat([nodes("n1"), tree, pending("pg1 1")]))
    made = plan(cluster, TREE, NOW, Settings(semantics=V1_38))
    assert (made.outcome, made.placements) == (Outcome.NOT_ELIGIBLE, ())


@pytest.mark.parametrize(("objects", "key", "members", "outcome", "used", "rules"), GENERATED)
@pytest.mark.parametrize("filled", [False, True], ids=["free", "filled"])
def test_a_tree_may_use(  # noqa: PLR0917 - a case
    objects: list[Any],
    key: str,
    members: Sequence[str],
    outcome: Outcome,
    used: set[str],
    rules: Semantics,
    *,
    filled: bool,
) -> None:
    """The root has the constraint, and its members run in one group and wait in another."""
    lower = [pod(f"low-{each.metadata.name}", 2, 1, node=each.metadata.name) for each in objects]
    there = [pod(f"there-{at}", 0, 100, group="pg1", node=name) for at, name in enumerate(members)]
    tree = [root(None, key), leaf("pg1", None), leaf("pg2", None)]
    waiting = pending(f"pg2 {2 * len(used) or 1}")
    made = plan(
        state_of(flat([objects, lower if filled else [], tree, there, waiting])),
        TREE,
        NOW,
        Settings(semantics=rules),
    )
    assert set(placed(made).values()) == used
    preempts = filled and outcome is Outcome.FITS
    assert made.outcome is (Outcome.FITS_AFTER_PREEMPTION if preempts else outcome)
    assert sorted(victims(made)) == (sorted(f"low-{name}" for name in used) if preempts else [])
