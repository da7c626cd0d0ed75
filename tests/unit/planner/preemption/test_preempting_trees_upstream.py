"""kube-scheduler's own cases for trees that preempt; see test_trees_upstream."""

import pytest
from tests.support.filters import builders
from tests.support.preemption.scene import HOST, pod
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
    V1_37,
    V1_38,
    ZONE,
    ZONES,
    Wave,
    anywhere,
    by_rules,
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

from podium.planner.semantics import Semantics

FULL = [nodes("n1", 3), running("low1 n1 1 10, low2 n1 1 10, low3 n1 1 10")]
PREEMPTING: dict[str, Wave | list[Wave]] = {
    "a rack by eviction": [
        Wave(
            [
                SQUARE,
                running("low1 n1 2 10, low2 n2 2 10, x n4 2 100"),
                root(2, RACK),
                two(),
                pending("pg1 2, pg2 2"),
            ],
            anywhere("pg1 pg2", "n1 n2"),
            victims="low1 low2",
        ),
        Wave([pod("pg1-late", 1, 100, group="pg1")]),
    ],
    "the rack of a pod of the tree by eviction": Wave(
        [
            SQUARE,
            running("x n4 1 100 pg1, low1 n3 2 10, low2 n4 1 10"),
            root(2, RACK),
            two(),
            pending("pg1 1, pg2 2"),
        ],
        anywhere("pg1 pg2", "n3 n4"),
        victims="low1 low2",
    ),
    "one node by eviction for small groups": Wave(
        [
            nodes("n1 r1 z1, n2 r2 z1"),
            running("low1 n1 2 10, x n2 2 100"),
            root(2, RACK),
            two("", 1),
            pending("pg1 1, pg2 1"),
        ],
        anywhere("pg1 pg2", "n1"),
        victims="low1",
    ),
    "racks within a zone by eviction": Wave(
        [
            ZONES,
            running("low1 n1 2 10, low2 n2 2 10, x n3 1 100"),
            root(2, ZONE),
            two(RACK),
            pending("pg1 2, pg2 2"),
        ],
        anywhere("pg1 pg2", "n1 n2"),
        [(RACK, "pg1"), (RACK, "pg2")],
        "low1 low2",
    ),
    "racks of its zone for late children, by eviction if that helps": [
        Wave(
            [
                nodes("n1 r1 z1, n2 r2 z1, n3 r3 z1, n4 r1 z2, n5 r1 z2"),
                running("low1 n3 2 10, low2 n4 2 10"),
                root(2, ZONE),
                two(RACK),
                pending("pg1 2, pg2 2"),
            ],
            anywhere("pg1 pg2", "n1 n2"),
            [(RACK, "pg1"), (RACK, "pg2")],
        ),
        Wave([leaf("pg3", 2, RACK), pending("pg3 2")], {"pg3": "n3"}, victims="low1"),
        Wave([leaf("pg4", 2, RACK), pending("pg4 2")]),
    ],
    "a rack by eviction beside a child without a constraint": Wave(
        [
            TAINTED,
            running("low1 n1 2 10, x n5 1 100, y n2 1 100, z n3 1 100"),
            root(2, ZONE),
            leaf("pg1", 2, RACK),
            leaf("pg2"),
            OF_TAINTED,
        ],
        {"pg1": "n1", "pg2": "n2 n3"},
        victims="low1",
    ),
    **{
        f"the zone and the rack of a pod of a child by eviction, {name}": Wave(
            [
                PINNED,
                root(2, ZONE),
                two(RACK),
                running("x n1 1 100 pg1, low1 n1 1 10, low2 n2 2 10"),
                pending("pg1 1, pg2 2"),
            ],
            {"pg1": "n1", "pg2": where},
            victims=victims,
            rules=[rules],
        )
        for name, where, victims, rules in (
            ("of any node of the rack", "n2 n3", "low1 low2", V1_37),
            ("but for a rack with a free node", "n3", "low1", V1_38),
        )
    },
    "a zone, blocks and racks by eviction": Wave(
        [
            BLOCKS,
            running("low1 n1 2 10, low2 n2 2 10, low3 n3 2 10, low4 n4 2 10"),
            root(2, ZONE),
            four(BLOCK, RACK),
            pending(FOUR),
        ],
        anywhere(ALL, "n1 n2 n3 n4"),
        [(BLOCK, "pg1 pg2"), (BLOCK, "pg3 pg4"), *((RACK, name) for name in ALL.split())],
        "low1 low2 low3 low4",
    ),
    "a zone and racks by eviction below composite groups without a constraint": Wave(
        [
            nodes("n1 r1 z1, n2 r2 z1, n3 r1 z2"),
            running("low1 n1 2 10, low2 n2 2 10"),
            root(2, ZONE),
            inner("sub1", 1, parent="root"),
            inner("sub2", 1, parent="root"),
            leaf("pg1", 2, RACK, parent="sub1"),
            leaf("pg2", 2, RACK, parent="sub2"),
            pending("pg1 2, pg2 2"),
        ],
        anywhere("pg1 pg2", "n1 n2"),
        [(RACK, "pg1"), (RACK, "pg2")],
        "low1 low2",
    ),
    "zones and racks by eviction below a root without a constraint": Wave(
        [
            nodes("n1 r1 z1, n2 r2 z1, n3 r3 z2, n4 r4 z2"),
            running("low1 n1 2 10, low2 n2 2 10, low3 n3 2 10, low4 n4 2 10"),
            root(None),
            four(ZONE, RACK),
            pending(FOUR),
        ],
        anywhere(ALL, "n1 n2 n3 n4"),
        [(ZONE, "pg1 pg2"), (ZONE, "pg3 pg4"), *((RACK, name) for name in ALL.split())],
        "low1 low2 low3 low4",
    ),
    "a zone and racks by eviction above groups without a constraint": Wave(
        [
            SIX,
            running("low1 n1 2 10, low2 n2 2 10, low3 n3 2 10, low4 n4 2 10"),
            root(2, ZONE),
            four(RACK),
            pending(FOUR),
        ],
        anywhere(ALL, "n1 n2 n3 n4"),
        [(RACK, "pg1 pg2"), (RACK, "pg3 pg4")],
        "low1 low2 low3 low4",
    ),
    "the domains of a pod of a group on each level by eviction": Wave(
        [
            EIGHT,
            root(2, ZONE),
            four(RACK),
            running("x n5 1 100 pg1, low1 n6 2 10, low2 n7 2 10"),
            pending("pg1 1, pg2 2, pg3 2, pg4 2"),
        ],
        {**anywhere("pg1 pg2", "n5 n6"), **anywhere("pg3 pg4", "n7 n8")},
        victims="low1 low2",
    ),
    "the fullest of the racks that one eviction frees": Wave(
        [
            nodes("n1 r1 z1, n2 r1 z1, n3 r2 z2, n4 r2 z2, n5 r2 z2, n6 r3 z2, n7 r3 z2, n8 r3 z2, n9 r4 z2"),
            running("x n3 2 100, y n8 1 100, low1 n1 2 10, low2 n4 2 10, low3 n6 2 10, low4 n8 1 10"),
            root(2, RACK),
            two("", 1)[1:],
            leaf("pg1", 2),
            pending("pg1 2, pg2 1"),
        ],
        anywhere("pg1 pg2", "n4 n5"),
        victims="low2",
    ),
    "two nodes for a gang and a basic branch": Wave(
        [
            nodes("n1, n2"),
            running("low1 n1 1500m 10, low2 n2 1500m 10"),
            root(None),
            inner("sub1", 1, parent="root"),
            leaf("pg1", 2, parent="sub1"),
            leaf("pg2", None),
            [pod(f"pg1-{name}", 1, 100, group="pg1", nodeSelector={HOST: name}) for name in ("n1", "n2")],
            pending("pg2 1", nodeSelector={HOST: "n1"}),
        ],
        {"pg1": "n1 n2", "pg2": "n1"},
        victims="low1 low2",
    ),
    "nothing for a child that needs a third node": Wave(
        [nodes("n1, n2"), running("low1 n1 2 10, low2 n2 2 10"), root(1), leaf("pg1", 3), pending("pg1 3", 2)]
    ),
    "a part of two nodes, and spares the pod beside it": Wave(
        [
            nodes("n1, n2"),
            running("low1 n1 2 10, low2 n2 1 10"),
            root(None),
            leaf("pg1", 3),
            pending("pg1 3"),
        ],
        {"pg1": "n1 n2"},
        victims="low1",
    ),
    "a node of three lone pods": Wave(
        [FULL, root(None), leaf("pg1", 3), pending("pg1 3")], {"pg1": "n1"}, victims="low1 low2 low3"
    ),
    "a node of three lone pods, by a policy of its own": Wave(
        [
            FULL,
            root(None, preemption_policy="PreemptLowerPriority"),
            leaf("pg1", 2),
            leaf("pg2", 1),
            pending("pg1 2, pg2 1", preemptionPolicy="PreemptLowerPriority"),
        ],
        anywhere("pg1 pg2", "n1"),
        victims="low1 low2 low3",
    ),
    "nothing with the policy Never": Wave(
        [
            FULL,
            root(None, preemption_policy="Never"),
            leaf("pg1", 2, preemption_policy="Never"),
            leaf("pg2", 1, preemption_policy="Never"),
            pending("pg1 2, pg2 1", preemptionPolicy="Never"),
        ]
    ),
    "nothing if its pods have the policy Never": Wave(
        [FULL, root(None), leaf("pg1", 3), pending("pg1 3", preemptionPolicy="Never")]
    ),
    "the node of a pod that its members avoid": Wave(
        [
            nodes("n1, n2"),
            pod("low1", "250m", 10, node="n1", labels={"app": "initial"}),
            root(None),
            leaf("pg1", 2),
            pending(
                "pg1 2",
                "1500m",
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": {"matchLabels": {"app": "initial"}}, "topologyKey": HOST}
                        ]
                    }
                },
            ),
        ],
        {"pg1": "n1 n2"},
        victims="low1",
    ),
    "the node of a pod with its port": Wave(
        [
            nodes("n1, n2"),
            pod(
                "low1",
                "250m",
                10,
                node="n1",
                containers=[
                    builders.container({"cpu": "250m"}, ports=[{"hostPort": 8080, "containerPort": 8080}])
                ],
            ),
            root(None),
            leaf("pg1", 2),
            pending(
                "pg1 2",
                "1500m",
                containers=[
                    builders.container({"cpu": "1500m"}, ports=[{"hostPort": 8080, "containerPort": 8080}])
                ],
            ),
        ],
        {"pg1": "n1 n2"},
        victims="low1",
    ),
    "the nodes of the pods of another tree": Wave(
        [
            nodes("n1, n2"),
            inner("old", None, priority=10),
            leaf("old1", 4, parent="old", priority=10),
            running("low1 n1 1 10 old1, low2 n2 1 10 old1"),
            root(None),
            leaf("pg1", 4),
            pending("pg1 4"),
        ],
        {"pg1": "n1 n2"},
        victims="low1 low2",
    ),
    "the pods of a tree whose root is gone": Wave(
        [
            nodes("n1"),
            leaf("old1", 2, parent="old", priority=10),
            running("low1 n1 1 10 old1, low2 n1 1 10 old1"),
            root(None),
            leaf("pg1", 2),
            pending("pg1 2"),
        ],
        {"pg1": "n1"},
        victims="low1 low2",
    ),
}


@pytest.mark.parametrize(("waves", "rules"), by_rules(PREEMPTING))
def test_a_preempting_tree_takes_as_upstream(waves: Wave | list[Wave], rules: Semantics) -> None:
    run(waves, rules)
