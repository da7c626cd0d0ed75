"""The reasons why preemption does not help, by node, under the rules of every release."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from tests.support.preemption.clusters import (
    GANG,
    GIB,
    LONE,
    NOW,
    NS,
    OURS,
    SECONDS,
    clusters,
    objects,
    state_of,
    target,
)
from tests.support.preemption.plain_cluster import Budget, Cluster, Group, Node, Pod, fits, place
from tests.support.preemption.plain_preemption import eligible, preemptor_of, promised, staying, units
from tests.support.preemption.scene import HOST, ZONE, engine_of, gang, group, node, of, planned, pod
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World
from tests.support.scheduling.rig import pod as ours
from tests.unit.planner.preemption.test_budgets import budget
from tests.unit.planner.preemption.test_priority_1_9 import apart, app, in_a_zone, near

from podium.api.schedulable import Schedulable
from podium.planner import Outcome, Settings, plan
from podium.planner.preemption.decision import STRICT_BUDGETS
from podium.planner.preemption.outcome import Plan, TenantNames
from podium.planner.semantics import Semantics
from podium.planner.settings import Budgets, DivergencePolicy

# The text around the reasons.
EVEN_SO = "even without all that may be preempted: 0/"
SAME_NODE = "even without all that may be preempted on the same node: 0/"
APART = "node(s) didn't match pod anti-affinity rules"
ONE_ELSEWHERE = "1 node could take the pod only if pods on other nodes were preempted, which is not tried."


def zoned(name: str, zone: str = "z", cpu: int = 4) -> Any:
    return node(name, cpu, labels={ZONE: zone})


def spread(key: str) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "s"}},
        }
    ]


def with_port(name: str, priority: int, cpu: int = 1, **kwargs: Any) -> Schedulable:
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}, **ports}
    return pod(name, cpu, priority, containers=[container], **kwargs)


CASES: dict[str, tuple[list[Any], str]] = {
    "the preemptor's anti-affinity, to a pod on another node": (
        in_a_zone(),
        (
            f"{HOST}=n: 1 of 2 nodes has this label; "
            f"{SAME_NODE}2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            f"1 node(s) didn't match pod anti-affinity rules. {ONE_ELSEWHERE} "
            "For node n that would be team-a/q on m."
        ),
    ),
    "the anti-affinity of a pod on another node": (
        [
            zoned("n1"),
            zoned("n2", cpu=1),
            pod("low", 4, 1, node="n1", ago=60),
            pod("q", 1, 1, node="n2", ago=60, affinity=apart("p", ZONE)),
            pod("p", 4, 9, labels={"app": "p"}),
        ],
        (
            f"{SAME_NODE}2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy existing pods "
            f"anti-affinity rules. {ONE_ELSEWHERE} For node n1 that would be team-a/q on n2."
        ),
    ),
    "topology spread, by a pod on another node": (
        [
            zoned("n1", "a"),
            zoned("n2", "b", 1),
            zoned("n3", "a", 1),
            app("s", "s", 1, "n3"),
            pod("low", 4, 1, node="n1", ago=60),
            pod("p", 4, 9, labels={"app": "s"}, topologySpreadConstraints=spread(ZONE)),
        ],
        (
            f"{SAME_NODE}3 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
            f"2 Insufficient cpu. {ONE_ELSEWHERE} For node n1 that would be team-a/s on n3."
        ),
    ),
    "several nodes, of which the first has an example": (
        [
            zoned("n1"),
            zoned("n2"),
            zoned("n3", cpu=1),
            [pod(f"low-{at}", 4, 1, node=f"n{at}", ago=60) for at in (1, 2)],
            app("q", "q", 1, "n3"),
            pod("p", 4, 9, affinity=apart("q", ZONE)),
        ],
        (
            f"{SAME_NODE}3 nodes are available: 1 Insufficient cpu, 2 {APART}. 2 nodes could take the pod "
            "only if pods on other nodes were preempted, which is not tried. "
            "For node n1 that would be team-a/q on n3."
        ),
    ),
    "anti-affinity to a pod that may not be preempted": (
        [
            zoned("n1"),
            zoned("n2"),
            app("q", "q", 9, "n2"),
            app("low", "x", 1, "n1", 4),
            pod("p", 4, 9, affinity=apart("q", ZONE)),
        ],
        f"{EVEN_SO}2 nodes are available: 1 Insufficient cpu, 1 {APART}.",
    ),
    "company that would be preempted itself": (
        [node("n1"), app("friend", "friend", 1, "n1", 4), pod("p", 2, 9, affinity=near("friend"))],
        f"{EVEN_SO}1 nodes are available: 1 node(s) didn't match pod affinity rules.",
    ),
    "a host port of a pod that may not be preempted": (
        [
            node("n1"),
            with_port("held", 9, node="n1", ago=60),
            app("low", "x", 1, "n1", 3),
            with_port("p", 9, 2),
        ],
        f"{EVEN_SO}1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    ),
    "room of pods that may not be preempted": (
        [node("n1"), app("peer", "x", 9, "n1", 3), app("low", "x", 1, "n1"), pod("p", 2, 9)],
        f"{EVEN_SO}1 nodes are available: 1 Insufficient cpu.",
    ),
    "no pod of lower priority": (
        [node("n1"), app("peer", "x", 9, "n1", 4), pod("p", 2, 9)],
        "nothing has a lower priority: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("case", CASES)
def test_each_node_has_its_real_reason(case: str, semantics: Semantics) -> None:
    cluster, message = CASES[case]
    answer = planned(cluster, by="p", semantics=semantics)
    assert (answer.outcome, answer.message) == (Outcome.DOES_NOT_FIT, message)


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("strict", [False, True])
def test_only_strict_budgets_are_a_reason(semantics: Semantics, *, strict: bool) -> None:
    """They count beside the reasons of other nodes."""
    answer = planned(
        [zoned("n1"), zoned("n2"), zoned("n3", cpu=1), zoned("n4", "y")],
        [pod(f"low-{at}", 4, 1, node=f"n{at}", ago=60, labels={"app": "a"}) for at in (1, 2)],
        app("q", "q", 1, "n4"),
        app("peer", "x", 9, "n4", 3),
        budget(allowed=0),
        pod("p", 4, 9, affinity=apart("q", ZONE)),
        by="p",
        semantics=semantics,
        budgets=Budgets.STRICT if strict else Budgets.BEST_EFFORT,
    )
    if not strict:
        assert answer.outcome is Outcome.FITS_AFTER_PREEMPTION
        return
    assert answer.message == f"{EVEN_SO}4 nodes are available: 2 Insufficient cpu, 2 {STRICT_BUDGETS}."


def test_the_message_says_why_it_may_not_preempt_and_what_refuses_it() -> None:
    """In sentences: kube-scheduler's words end with a full stop, and others get one."""
    cluster = [node("n1"), app("low", "x", 1, "n1", 4)]
    mine = [group("g", 9, 1), gang("g", [None], 4, priority=0)]
    answer = planned(cluster, mine, by=of("g"), divergence=DivergencePolicy.NO_PREEMPTION)
    nodes = "0/1 nodes are available: 1 Insufficient cpu."
    assert answer.message.endswith(f"the divergence policy is NoPreemption. {nodes}")
    never = planned(cluster, pod("p", 4, 9, preemptionPolicy="Never"), by="p")
    assert never.message == f"not eligible due to preemptionPolicy=Never. {nodes}"


def test_a_groups_reasons_are_those_without_all_potential_victims() -> None:
    """Its domain is the cluster, so pods on other nodes are preempted and are never the reason."""
    cluster = [zoned("n1"), zoned("n2", cpu=1), app("q", "q", 1, "n2"), app("low", "x", 1, "n1", 4)]
    mine = [group("g", 9, 1), gang("g", [None], 4, priority=9, affinity=apart("q", ZONE))]
    assert planned(cluster, mine, by=of("g")).outcome is Outcome.FITS_AFTER_PREEMPTION
    held = app("held", "q", 9, "n2")
    assert planned(cluster, held, mine, by=of("g")).message == (
        f"{EVEN_SO}2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod anti-affinity rules."
    )


def test_only_its_tenant_reads_the_name_of_the_pod_on_another_node() -> None:
    state = state_of([zoned("n1"), zoned("n2", cpu=1), *in_two_namespaces()])
    names = TenantNames(state, NS)
    message = plan(state, (NS, "p"), NOW, namer=names.name).message
    assert message.endswith("For node n1 that would be uid-of-q on n2.")


def in_two_namespaces() -> list[Any]:
    theirs = {"labelSelector": {"matchLabels": {"app": "q"}}, "topologyKey": ZONE, "namespaceSelector": {}}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [theirs]}}
    q = pod("q", 1, 1, node="n2", ago=60, namespace="team-b", uid="uid-of-q", labels={"app": "q"})
    return [pod("low", 4, 1, node="n1", ago=60), q, pod("p", 4, 9, affinity=required)]


@pytest.mark.parametrize("semantics", Semantics)
def test_the_condition_counts_nodes_blocked_by_pods_on_other_nodes(semantics: Semantics) -> None:
    """It names no pod, because the pods may belong to other tenants."""
    world = World(
        zoned("n1"),
        zoned("n2", cpu=1),
        running("low", "n1", 4),
        running("q", "n2", labels={"app": "q"}),
        ours("p", 4, 10, affinity=apart("q", ZONE)),
        engine=Settings(semantics=semantics),
    )
    world.run()
    assert world.message("p") == (
        f"0/2 nodes are available: 2 Insufficient cpu. preemption: {SAME_NODE}2 nodes are available: "
        f"1 Insufficient cpu, 1 {APART}. {ONE_ELSEWHERE}"
    )


@pytest.mark.parametrize(
    ("victim", "preemptor", "reason"),
    [
        (
            with_port("v", 1, node="n1", ago=60),
            with_port("p", 9),
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (app("v", "q", 1, "n1"), pod("p", 1, 9, affinity=apart("q")), APART),
        (
            pod("v", 1, 1, node="n1", ago=60, affinity=apart("p")),
            pod("p", 1, 9, labels={"app": "p"}),
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
        (
            app("v", "s", 1, "n1"),
            pod("p", 1, 9, labels={"app": "s"}, topologySpreadConstraints=spread(HOST)),
            "node(s) didn't match pod topology spread constraints",
        ),
    ],
)
@pytest.mark.parametrize("semantics", Semantics)
def test_a_victims_reason_names_the_filter_that_refuses_the_preemptor_beside_it(
    victim: Schedulable, preemptor: Schedulable, reason: str, semantics: Semantics
) -> None:
    answer = planned([node("n1"), node("n2", 0, taints=[])], victim, preemptor, by="p", semantics=semantics)
    assert [each.reason for each in answer.victims] == [f"the preemptor cannot run beside it: {reason}"]


def test_a_victims_reason_is_room_only_if_room_refuses_the_preemptor() -> None:
    """Room is short now. Once `big` is gone, the port of `small` blocks the preemptor."""
    answer = planned(
        node("n1"),
        pod("big", 3, 1, node="n1", ago=60),
        with_port("small", 1, node="n1", ago=60),
        with_port("p", 9, 3),
        by="p",
    )
    assert {each.name: each.reason for each in answer.victims} == {
        "big": "its cpu on n1 is needed",
        "small": (
            "the preemptor cannot run beside it: node(s) didn't have free ports for the requested pod ports"
        ),
    }


def test_an_explanation_leaves_the_engine_as_it_was() -> None:
    """The decision stays known, although the explanation tries placements."""
    engine = engine_of(
        node("n1"), with_port("v", 1, node="n1", ago=60), [with_port(name, 9) for name in ("p", "twin")]
    )
    decision = engine.decide((NS, "p"), NOW)
    assert engine.explain(decision, NOW).victims[0].reason.startswith("the preemptor cannot run beside it:")
    again = engine.decide((NS, "twin"), NOW)
    assert again.chosen is not None
    assert decision.chosen is not None
    assert again.chosen.plan.victims is decision.chosen.plan.victims


def _cpu(amount: int, pods: int = 0) -> dict[str, int]:
    return {"cpu": amount, "memory": GIB, **({"pods": pods} if pods else {})}


# The first member in order takes the node that only the second one needs.
_ONLY_PACKED = Cluster(
    (Node("n0", _cpu(2000, 8)), Node("n1", _cpu(1000, 8))),
    (
        *(Pod(f"member-{at}", _cpu(1000 * (1 + at)), 3, group=GANG) for at in range(2)),
        *(Pod(f"low-{at}", _cpu(2000 - 1000 * at), 0, f"n{at}", app="a", start=0) for at in range(2)),
    ),
    (Group(GANG, 3, 2),),
    (Budget("budget", "a", 0),),
    SECONDS,
)


@given(clusters(), st.sampled_from(Budgets))
@example((_ONLY_PACKED, GANG), Budgets.STRICT)
def test_strict_budgets_are_the_reason_only_on_nodes_where_the_preemptor_would_fit(
    case: tuple[Cluster, str], budgets: Budgets
) -> None:
    """For a pod on each node with room without its units; for a group if it fits in the cluster."""
    cluster, name = case
    answer = plan(state_of(objects(cluster)), target(name), NOW, Settings(evict_only=OURS, budgets=budgets))
    event(answer.outcome)
    if answer.outcome is not Outcome.DOES_NOT_FIT:
        return
    preemptor = preemptor_of(cluster, name)
    may = [unit for unit in units(cluster) if eligible(cluster, unit, preemptor.priority)]
    gone = {pod.name for unit in may for pod in unit.pods}
    others = {**staying(cluster), **promised(cluster, preemptor)}
    left = {name: at for name, at in others.items() if name not in gone}
    if name == LONE:
        roomy = sum(fits(cluster, left, preemptor.pods[0], each) for each in cluster.nodes)
        assert counted(answer, STRICT_BUDGETS) == roomy
    else:
        roomy = bool(counted(answer, STRICT_BUDGETS))
        # A plan also packs members that differ, where those placed in order find too few nodes.
        in_order = len(place(cluster, left, preemptor.pods, preemptor.needed)) >= preemptor.needed
        assert in_order <= roomy <= can_be_placed(cluster, left, preemptor.pods, preemptor.needed)
    event(f"{name}: budgets {'are' if roomy else 'are not'} the reason")
    assert budgets is Budgets.STRICT or not roomy


def can_be_placed(cluster: Cluster, standing: Mapping[str, str], pods: Sequence[Pod], needed: int) -> bool:
    """Return whether any placement has so many of the pods."""
    return not needed or any(
        can_be_placed(cluster, {**standing, pod.name: place.name}, pods[at + 1 :], needed - 1)
        for at, pod in enumerate(pods)
        for place in cluster.nodes
        if fits(cluster, standing, pod, place)
    )


def counted(answer: Plan, reason: str) -> int:
    return sum(each.count for each in answer.nodes if each.reason == reason)


_kinds = st.fixed_dictionaries(
    {
        "node": st.integers(1, 4),
        "app": st.sampled_from("abp"),
        "priority": st.sampled_from([0, 0, 0, 9]),
        "avoids": st.sampled_from([None, None, None, "p"]),
    }
)
_wishes = st.sampled_from([{"affinity": apart("a", ZONE)}, {"topologySpreadConstraints": spread(ZONE)}, {}])


@given(st.lists(_kinds, min_size=3, max_size=8), _wishes, st.sampled_from(Semantics))
def test_the_named_pods_on_other_nodes_are_necessary_and_sufficient(
    kinds: list[dict[str, Any]], wishes: dict[str, Any], semantics: Semantics
) -> None:
    """Without the node's own pods and the named pods the preemptor fits; with any of these it does not."""
    nodes = [zoned("n1", "x", 2), zoned("n2", "x", 2), zoned("n3", "y", 2), zoned("n4", "y", 1)]
    pods = [
        app(f"p{at}", "s" if each["app"] == "a" and "affinity" not in wishes else each["app"],
            each["priority"], f"n{each['node']}")
        if each["avoids"] is None
        else pod(f"p{at}", 1, each["priority"], node=f"n{each['node']}", ago=60, affinity=apart("p", ZONE))
        for at, each in enumerate(kinds)
    ]  # fmt: skip
    mine = pod(
        "high", 2, 5, labels={"app": "p" if "topologySpreadConstraints" not in wishes else "s"}, **wishes
    )
    engine = engine_of(nodes, pods, mine, semantics=semantics)
    decision = engine.decide((NS, "high"), NOW)
    elsewhere = None if decision.obstacles is None else decision.obstacles.elsewhere
    event("elsewhere" if elsewhere is not None else "not elsewhere")
    if elsewhere is None:
        return
    where = engine.snapshot.names[elsewhere.node] or ""
    rows = elsewhere.units.tolist()
    named = {each.metadata.name for each in map(engine.snapshot.pods.__getitem__, rows) if each is not None}
    lower = {each.metadata.name for each in pods if each.spec.nodeName == where and not each.spec.priority}

    def fits_without(gone: set[str | None]) -> bool:
        stay = [each for each in pods if each.metadata.name not in gone]
        snapshot = (rest := engine_of(nodes, stay, mine, semantics=semantics)).snapshot
        row = snapshot.pod_row[NS, "high"]
        rest.placer.announce([row])
        return rest.placer.chain.fits(snapshot.shapes[snapshot.shape.item(row)], snapshot.row[where])

    assert named
    assert fits_without(lower | named)
    assert not any(fits_without(lower | named - {name}) for name in named)
