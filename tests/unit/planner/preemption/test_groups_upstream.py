"""kube-scheduler's own cases for groups that preempt, on Podium's engine with semantics 1.37 and 1.38.

They are TestPodGroupPreemption in test/integration/scheduler/preemption/podgroup of Kubernetes 1.37.0 and
1.38.0-beta.0, and for the ranks of nodes TestCompareVictimSets in pkg/scheduler/framework/preemption. Their
plugin that scores nodes is a preference of the pending pods here. Cases with a topology constraint are in
test_topology_upstream.

Not taken over:
- "Reserve plugins are called during preemption simulation": its plugin is a fake.
- What "Multi-node Preemption" says of nominations: pods of lower priority lose theirs in the cluster, and a
  plan writes none.
- The basic group of mode `all` as victim: 1.38 refuses to create it.
"""

from typing import Any

import pytest
from tests.support.filters import builders
from tests.support.preemption.scene import HOST, group, of, placed, planned, pod
from tests.support.preemption.treesteps import (
    V1_37,
    V1_38,
    Wave,
    by_rules,
    nodes,
    pending,
    run,
    running,
)
from tests.unit.planner.preemption.test_budgets import budget

from podium.planner.semantics import Semantics

ONES = nodes("n1, n2, n3, n4", 1)
FULL = [nodes("n1", 3), running("low1 n1 1 10, low2 n1 1 10, low3 n1 1 10")]


def wave(where: str, *objects: Any, victims: str = "", rules: Any = (V1_37, V1_38)) -> Wave:
    """Return a case in which the group g preempts; `where` are the nodes that it may use."""
    return Wave(objects, {"g": where} if where else {}, victims=victims, by=of("g"), rules=rules)


def gang(size: int, least: int | None = None, cpu: str | int = 1, **spec: Any) -> list[Any]:
    """Make the preempting group of so many pods, all of which are needed by default."""
    policy = spec.pop("policy", None)
    needed = size if least is None else least
    return [group("g", 100, needed, preemption_policy=policy), pending(f"g {size}", cpu, **spec)]


def basic(size: int, **spec: Any) -> list[Any]:
    """Make the preempting group of so many pods with the basic policy."""
    return [group("g", 100, None), pending(f"g {size}", **spec)]


def whole(name: str, priority: int, least: int) -> Any:
    return group(name, priority, least, whole=True)


def preferring(**scores: int) -> dict[str, Any]:
    """Return the affinity that gives nodes these scores."""
    terms = [
        {
            "weight": score,
            "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]},
        }
        for name, score in scores.items()
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def at(node: str) -> dict[str, str]:
    return {HOST: node}


FIRST = preferring(n1=100)
LATE = pod("late", 1, 100, group="g")
SPREAD: dict[str, Any] = {
    "nodeSelector": at("n1"),
    "labels": {"app": "foo"},
    "topologySpreadConstraints": [
        {
            "maxSkew": 2,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "foo"}},
            "minDomains": 10,
        }
    ],
}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "topologyKey": HOST,
            }
        ]
    }
}


def with_port(cpu: str) -> list[Any]:
    return [builders.container({"cpu": cpu}, ports=[{"hostPort": 8080, "containerPort": 8080}])]


PREEMPTING = {
    "three pods for a gang": wave("n1", FULL, gang(3), victims="low1 low2 low3"),
    "three pods for a basic group": wave("n1", FULL, basic(3), victims="low1 low2 low3"),
    "the pod of the node that its members prefer": wave(
        "n1 n2",
        nodes("n1, n2"),
        running("low1 n1 2 10, low2 n2 1 10"),
        gang(3, affinity=FIRST),
        victims="low1",
    ),
    "for a basic group the pod of the node that its last member prefers": wave(
        "n1 n2",
        nodes("n1, n2"),
        running("low1 n1 1 10, low2 n2 1 5"),
        basic(3, affinity=FIRST),
        victims="low1",
        rules=[V1_37],
    ),
    "for a basic group the pod of lower priority, not that of the preferred node": wave(
        "n1 n2",
        nodes("n1, n2"),
        running("low1 n1 1 10, low2 n2 1 5"),
        basic(3, affinity=FIRST),
        victims="low2",
        rules=[V1_38],
    ),
    "nothing on a second node, because an empty one ranks first": wave(
        "n1 n2",
        nodes("n1, n2, n3", 1),
        running("low1 n1 1 10, low2 n3 1 10"),
        gang(2, affinity=preferring(n1=100, n3=50)),
        victims="low1",
        rules=[V1_38],
    ),
    "pods of two preferred nodes beside an empty one": wave(
        "n1 n3",
        nodes("n1, n2, n3", 1),
        running("low1 n1 1 10, low2 n3 1 10"),
        gang(2, affinity=preferring(n1=100, n3=50)),
        victims="low1 low2",
        rules=[V1_37],
    ),
    "the pod of lower priority, not that of the preferred node": wave(
        "n2",
        nodes("n1, n2"),
        running("mid1 n1 2 50, low1 n2 2 10"),
        gang(2, affinity=FIRST),
        victims="low1",
        rules=[V1_38],
    ),
    "the pod of the preferred node, whatever its priority": wave(
        "n1",
        nodes("n1, n2"),
        running("mid1 n1 2 50, low1 n2 2 10"),
        gang(2, affinity=FIRST),
        victims="mid1",
        rules=[V1_37],
    ),
    "one of two groups of mode all, on whose nodes both pods fit": wave(
        "n1 n2",
        ONES,
        [whole("one", 10, 2), whole("two", 10, 2)],
        running("a1 n1 1 10 one, a2 n2 1 10 one, b1 n3 1 10 two, b2 n4 1 10 two"),
        gang(2, affinity=preferring(n1=100, n3=90)),
        victims="a1 a2",
        rules=[V1_38],
    ),
    "both groups of mode all, because the preferred nodes have a pod of each": wave(
        "n1 n3",
        ONES,
        [whole("one", 10, 2), whole("two", 10, 2)],
        running("a1 n1 1 10 one, a2 n2 1 10 one, b1 n3 1 10 two, b2 n4 1 10 two"),
        gang(2, affinity=preferring(n1=100, n3=90)),
        victims="a1 a2 b1 b2",
        rules=[V1_37],
    ),
    "the pod without a budget": wave(
        "n1",
        nodes("n1", 3),
        [pod(f"kept{number}", 1, 10, node="n1", labels={"app": "a"}) for number in (1, 2)],
        running("low3 n1 1 10"),
        budget(),
        gang(2, cpu="500m"),
        victims="low3",
    ),
    "all pods of two nodes": wave(
        "n1 n2",
        nodes("n1, n2"),
        running("low1 n1 1 10, low2 n1 1 10, low3 n2 1 10, low4 n2 1 10"),
        gang(4),
        victims="low1 low2 low3 low4",
    ),
    "nothing if that does not free room for all": wave(
        "", nodes("n1", 3), running("x n1 1 500, low1 n1 1 10, low2 n1 1 10"), gang(3)
    ),
    "the pods of the lowest priority": wave(
        "n1",
        nodes("n1", 3),
        running("mid1 n1 1 50, low1 n1 1 10, low2 n1 1 10"),
        gang(2),
        victims="low1 low2",
    ),
    "a whole group if one pod would suffice": wave(
        "n1",
        nodes("n1", 3),
        whole("old", 10, 3),
        running("low1 n1 1 10 old, low2 n1 1 10 old, low3 n1 1 10 old"),
        gang(1),
        victims="low1 low2 low3",
    ),
    "nothing with the policy Never of the group": wave(
        "", FULL, gang(3, policy="Never", preemptionPolicy="Never")
    ),
    "three pods with the policy of the group": wave(
        "n1", FULL, gang(3, policy="PreemptLowerPriority"), victims="low1 low2 low3"
    ),
    "nothing with the policy Never of its pods": wave("", FULL, gang(3, preemptionPolicy="Never")),
    "the pod of one of two nodes": wave(
        "n1 n2", nodes("n1, n2"), running("low1 n1 2 10"), gang(2, cpu=2), victims="low1"
    ),
    "the pod of lower priority on a node": wave(
        "n1 n2",
        nodes("n1, n2"),
        running("low1 n1 1 5, mid1 n1 1 10"),
        gang(2, 2)[:1],
        [pod(f"g-{name}", 1, 100, group="g", nodeSelector=at(name)) for name in ("n1", "n2")],
        victims="low1",
    ),
    "the pod that its members avoid": wave(
        "n1 n2",
        nodes("n1, n2"),
        pod("low1", "250m", 10, node="n1", labels={"app": "initial"}),
        gang(2, cpu="1500m", affinity=APART),
        victims="low1",
    ),
    "the pod with their port": wave(
        "n1 n2",
        nodes("n1, n2"),
        pod("low1", "250m", 10, node="n1", containers=with_port("250m")),
        gang(2, cpu="1500m", containers=with_port("1500m")),
        victims="low1",
    ),
    "the pod that makes them uneven": wave(
        "n1",
        nodes("n1, n2", 16),
        pod("low1", 1, 10, node="n1", labels={"app": "foo"}),
        gang(2, **SPREAD),
        victims="low1",
    ),
    "the pod that makes them uneven, and not that of another node": wave(
        "n1",
        nodes("n1, n2", 16),
        pod("low1", 1, 10, node="n1", labels={"app": "foo"}),
        pod("low2", 1, 5, node="n2", labels={"app": "foo"}),
        gang(2, **SPREAD),
        victims="low1",
    ),
    **{
        f"{name} for as many as fit, by {policy}": wave(where, *objects, member, LATE, victims=victims)
        for policy, member in (("gang", gang(2, 1)), ("basic", basic(2)))
        for name, where, objects, victims in (
            (
                "two pods",
                "n1 n2",
                [ONES, running("low1 n1 1 10, low2 n2 1 10, x n3 1 200, y n4 1 200")],
                "low1 low2",
            ),
            (
                "a group",
                "n1 n2",
                [
                    ONES,
                    [whole("old", 50, 2), whole("high", 200, 2)],
                    running("low1 n1 1 50 old, low2 n2 1 50 old, x n3 1 200 high, y n4 1 200 high"),
                ],
                "low1 low2",
            ),
        )
    },
    **{
        f"a pod and a group of higher priority, by {policy}": wave(
            "n1 n2 n3",
            nodes("n1, n2, n3", 1),
            whole("old", 50, 1),
            running("low1 n1 1 50 old, low2 n2 1 50 old, low3 n3 1 10"),
            member,
            victims="low1 low2 low3",
        )
        for policy, member in (("gang", gang(3)), ("basic", basic(3)))
    },
    **{
        f"a pod for the last member of a {policy} after the others run": wave(
            "n1",
            nodes("n1", 4),
            group("g", 100, least),
            running("g-a n1 1 100 g, g-b n1 1 100 g, low1 n1 1 10"),
            pending("g 2"),
            victims="low1",
        )
        for policy, least in (("gang", 2), ("basic group", None))
    },
    # The oldest pods stay.
    **{
        f"one pod of a {victim} of mode single, by a {policy}": wave(
            "n1",
            nodes("n1", 3),
            group("old", 10, least),
            [pod(f"low{number}", 1, 10, node="n1", group="old", ago=60 - number) for number in (1, 2, 3)],
            member,
            victims="low3",
        )
        for victim, least in (("gang", 2), ("complete gang", 3), ("basic group", None))
        for policy, member in (("gang", gang(1)), ("basic group", basic(1)))
    },
}


@pytest.mark.parametrize(("waves", "rules"), by_rules(PREEMPTING))
def test_a_group_evicts_as_upstream(waves: Wave, rules: Semantics) -> None:
    run(waves, rules)


# The victims of two nodes, the cheaper ones first: their priorities, with a budget (!), or as a group (x3).
RANKED = {
    "no budget": ("20", "10!"),
    "the lower priority": ("10", "20"),
    "the second priority before the number of pods": ("20 1x3", "20 19"),
    "fewer pods of the highest priority": ("10 9", "10x3 1"),
    "fewer pods of the highest priority, one of which is alone": ("20 19", "20x2 1"),
    "fewer pods": ("10x2", "10 10 10"),
    "one group of four pods": ("10x4", "10x3 10x3 10x3"),
    "a pod before a group of one": ("10", "10x1"),
    "the smaller group": ("10x2", "10x4"),
    "one pod": ("10", "10 10"),
    "the lower one of the highest priorities": ("15", "20 5"),
}


def victims_on(node: str, text: str) -> list[Any]:
    """Make the victims of a text on a node."""
    made: list[Any] = []
    for number, (unit, _, size) in enumerate(each.partition("x") for each in text.split()):
        priority, name = int(unit.rstrip("!")), f"{node}-{number}"
        made += [whole(name, priority, 1)] if size else []
        made += [
            pod(
                f"{name}-{at}",
                1,
                priority,
                node=node,
                group=name if size else "",
                labels={"app": "a"} if "!" in unit else {},
                ago=60,
            )
            for at in range(int(size or 1))
        ]
    return made


def node_taken(on_n1: str, on_n2: str, preferred: str) -> str:
    """Return the node that a gang takes with these victims, of which it needs the whole room."""
    cluster = [
        nodes("n1, n2", 12),
        victims_on("n1", on_n1),
        victims_on("n2", on_n2),
        budget(),
        gang(1, cpu=12, affinity=preferring(**{preferred: 100})),
    ]
    return placed(planned(*cluster, by=of("g"), semantics=V1_38))["g-0"]


@pytest.mark.parametrize(("cheaper", "other"), RANKED.values(), ids=RANKED)
def test_victims_decide_before_scores(cheaper: str, other: str) -> None:
    assert (node_taken(cheaper, other, "n2"), node_taken(other, cheaper, "n1")) == ("n1", "n2")


@pytest.mark.parametrize("preferred", ["n1", "n2"])
def test_scores_decide_between_equal_victims(preferred: str) -> None:
    assert node_taken("10", "10", preferred) == preferred
