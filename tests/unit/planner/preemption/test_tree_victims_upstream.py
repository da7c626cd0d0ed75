"""kube-scheduler's own cases for trees that are preempted; see test_trees_upstream."""

from typing import Any

import pytest
from tests.support.preemption.scene import HOST, group, of, pod
from tests.support.preemption.treesteps import (
    HIGH,
    V1_37,
    V1_38,
    Wave,
    by_rules,
    inner,
    leaf,
    nodes,
    pending,
    run,
    running,
)
from tests.unit.planner.preemption.test_budgets import budget

from podium.planner.semantics import Semantics


def old(whole: bool, inner_whole: bool | None = None) -> list[Any]:
    """Make a running tree, or one of three levels: pg1 is at the bottom, pg2 too if all go at once."""
    top = inner("old", None, priority=10, whole=whole)
    if inner_whole is None:
        return [top, *(leaf(name, 1, parent="old", priority=10) for name in ("old1", "old2"))]
    middle = inner("middle", None, parent="old", priority=10, whole=inner_whole)
    return [
        *(top, middle, leaf("old1", 1, parent="middle", priority=10)),
        leaf("old2", 1, parent="middle" if whole else "old", priority=10),
    ]


def high(cpu: str | int = 2, where: str = "") -> Any:
    """Make the pending pod."""
    return pod("high-0", cpu, 100, nodeSelector={HOST: where} if where else None)


THREE = running("low1 n1 1 10 old1, low2 n2 1 10 old1, low3 n2 1 10 old2")
N1 = {"high": "n1"}
GANG, OF_GANG = [group("high", 100, 1), pending("high 1")], of("high")
OTHER = [inner("other", None, priority=10, whole=True), leaf("other1", 1, parent="other", priority=10)]
VICTIMS = {
    "all pods of a tree of mode all": Wave(
        [nodes("n1, n2"), old(True), THREE, high(2, "n1")], N1, victims="low1 low2 low3", by=HIGH
    ),
    "one pod of a tree of mode single": Wave(
        [nodes("n1, n2"), old(False), THREE, high(2, "n1")], N1, victims="low1", by=HIGH
    ),
    "all pods below a grandparent of mode all": Wave(
        [nodes("n1, n2"), old(True, False), THREE, high(2, "n1")], N1, victims="low1 low2 low3", by=HIGH
    ),
    "the pods below a parent of mode all": Wave(
        [nodes("n1, n2"), old(False, True), THREE, high(2, "n1")], N1, victims="low1 low2", by=HIGH
    ),
    "no pod of a tree that makes too little room": Wave(
        [nodes("n1"), old(False), running("low1 n1 1 10 old1"), high(3)], by=HIGH
    ),
    "the group and not the tree of equal priority": Wave(
        [
            nodes("n1"),
            old(True),
            group("lone", 10, 1),
            running("low1 n1 1 10 lone, low2 n1 1 10 old1"),
            group("high", 100, 1),
            pending("high 1"),
        ],
        N1,
        victims="low1",
        by=of("high"),
    ),
    "the tree of lower priority": Wave(
        [
            nodes("n1", 3),
            old(False),
            inner("other", None, priority=20),
            leaf("other1", 1, parent="other", priority=20),
            running("low1 n1 1 10 old1, other-0 n1 1 20 other1"),
            high(2),
        ],
        N1,
        victims="low1",
        by=HIGH,
    ),
    "the tree of mode all without a budget": Wave(
        [
            nodes("n1", 3),
            old(True),
            inner("other", None, priority=10, whole=True),
            leaf("other1", 1, parent="other", priority=10),
            [pod(f"kept{at}", 1, 10, node="n1", group="old1", labels={"app": "a"}) for at in (1, 2)],
            running("low1 n1 1 10 other1"),
            budget(),
            high(1),
        ],
        N1,
        victims="low1",
        by=HIGH,
    ),
    "the tree of mode all with a budget as a last resort, and no more": Wave(
        [
            nodes("n1", 3),
            old(True),
            inner("other", None, priority=10, whole=True),
            leaf("other1", 1, parent="other", priority=10),
            [pod(f"low{at}", 1, 10, node="n1", group="old1", labels={"app": "a"}) for at in (1, 2)],
            running("x n1 1 10 other1"),
            budget(),
            high(2),
        ],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "the group without a budget of a tree of mode single": Wave(
        [
            nodes("n1", 3),
            old(False),
            [pod(f"kept{at}", 1, 10, node="n1", group="old1", labels={"app": "a"}) for at in (1, 2)],
            running("low1 n1 1 10 old2"),
            budget(),
            high(1),
        ],
        N1,
        victims="low1",
        by=HIGH,
    ),
    "the pod and not the tree of equal priority": Wave(
        [nodes("n1"), old(True), running("low1 n1 1 10, low2 n1 1 10 old1"), GANG],
        N1,
        victims="low1",
        by=OF_GANG,
    ),
    "the pod and the pod of a group, and not the tree of equal priority": Wave(
        [
            *(nodes("n1", 3), old(True), group("lone", 10, 1), group("high", 100, 1), pending("high 1", 2)),
            running("low1 n1 1 10, low2 n1 1 10 lone, x n1 1 10 old1"),
        ],
        N1,
        victims="low1 low2",
        by=OF_GANG,
    ),
    "the branch of mode all, and no pod of the other branch": Wave(
        [
            *(nodes("n1, n2"), inner("old", None, priority=10), high(2, "n1")),
            inner("left", 1, parent="old", priority=10, whole=True),
            inner("right", None, parent="old", priority=10),
            *(leaf(f"old{at}", 1, parent="left" if at < 3 else "right", priority=10) for at in (1, 2, 3)),
            running("low1 n1 1 10 old1, low2 n2 1 10 old2, x n2 1 10 old3"),
        ],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "pods below a parent that is gone, whatever the priority of its root": Wave(
        [
            *(nodes("n1"), inner("old", None, priority=100), high(2)),
            leaf("old1", 2, parent="middle", priority=20),
            running("low1 n1 1 20 old1, low2 n1 1 20 old1"),
        ],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "the larger group and not the tree of equal priority": Wave(
        [
            *(nodes("n1", 3), old(True), group("lone", 10, 1, whole=True), GANG),
            running("low1 n1 1 10 lone, low2 n1 1 10 lone, low3 n1 1 10 old1"),
        ],
        N1,
        victims="low1 low2",
        by=OF_GANG,
    ),
    "the older group and not the younger tree": Wave(
        [
            *(nodes("n1"), old(True), group("lone", 10, 1), GANG),
            pod("low1", 1, 10, node="n1", group="lone", ago=90),
            pod("low2", 1, 10, node="n1", group="old1", ago=30),
        ],
        N1,
        victims="low1",
        by=OF_GANG,
    ),
    "the group of higher priority only after the tree": Wave(
        [*(nodes("n1"), old(True), group("lone", 20, 1), GANG), running("low1 n1 1 10 old1, x n1 1 20 lone")],
        N1,
        victims="low1",
        by=OF_GANG,
    ),
    "the smaller of two trees": Wave(
        [
            *(nodes("n1", 3), old(True), OTHER, GANG),
            running("low1 n1 1 10 other1, low2 n1 1 10 old1, low3 n1 1 10 old2"),
        ],
        N1,
        victims="low1",
        by=OF_GANG,
    ),
    "the younger of two trees": Wave(
        [
            *(nodes("n1"), old(True), OTHER, GANG),
            pod("low1", 1, 10, node="n1", group="other1", ago=30),
            pod("low2", 1, 10, node="n1", group="old1", ago=90),
        ],
        N1,
        victims="low1",
        by=OF_GANG,
    ),
    **{
        f"{name} {priority}": Wave(
            [
                *(nodes("n1"), above, GANG),
                leaf("old1", 1, parent="middle", priority=1),
                running("low1 n1 1 10, low2 n1 1 1 old1"),
            ],
            N1,
            victims=victim,
            by=OF_GANG,
            rules=[rules],
        )
        for name, above in {
            "pods below a grandparent": [
                inner("old", None, priority=20),
                inner("middle", None, parent="old", priority=5),
            ],
            "pods below a parent without its own": [inner("middle", None, parent="gone", priority=20)],
        }.items()
        for priority, victim, rules in (
            ("by the priority of the highest group", "low1", V1_37),
            ("by their own priority", "low2", V1_38),
        )
    },
    "a group alone whose parent is gone, and not its tree": Wave(
        [
            *(nodes("n1, n2"), inner("old", None, priority=10, whole=True), high(2, "n1")),
            inner("middle", None, parent="old", priority=10, whole=True),
            leaf("old1", 1, parent="gone", priority=10, whole=True),
            leaf("old2", 1, parent="middle", priority=10, whole=True),
            running("low1 n1 1 10 old1, low2 n2 1 10 old1, x n2 1 10 old2"),
        ],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "the nested tree of mode all below a root of mode single": Wave(
        [
            *(nodes("n1, n2"), inner("old", None, priority=10), high(2, "n1")),
            *(
                inner(name, None, parent="old", priority=10, whole=name == "left")
                for name in ("left", "right")
            ),
            *(leaf(f"old{at}", 1, parent="left" if at < 3 else "right", priority=10) for at in (1, 2, 3)),
            running("low1 n1 1 10 old1, low2 n2 1 10 old2, x n2 1 10 old3"),
        ],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "the pods of a tree of mode all on one node": Wave(
        [nodes("n1", 5), old(True), running("low1 n1 2 10 old1, low2 n1 2 10 old1"), high(3)],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "one of two trees on two nodes": Wave(
        [
            nodes("n1, n2", 5),
            old(True),
            inner("other", None, priority=50, whole=True),
            leaf("other1", None, parent="other", priority=50),
            running("low1 n1 2 10 old1, low2 n2 2 10 old1, x n1 2 50 other1, y n2 2 50 other1"),
            high(3, "n1"),
        ],
        N1,
        victims="low1 low2",
        by=HIGH,
    ),
    "no tree beside a pod of the same priority": Wave(
        [
            nodes("n1", 10),
            old(True),
            pod("same", 5, 100, node="n1"),
            running("low1 n1 1500m 10 old1, low2 n1 1500m 10 old1"),
            high(6),
        ],
        by=HIGH,
    ),
}


@pytest.mark.parametrize(("wave", "rules"), by_rules(VICTIMS))
def test_a_preemptor_evicts_as_upstream(wave: Wave, rules: Semantics) -> None:
    run(wave, rules)
