"""The differences between the semantics: the KEP, the releases, and plain pod preemption.

docs/differences.md has them in a table. The behaviour of kube-scheduler was read in its sources, and
`differential` compares it with the real one.
"""

import ast
from typing import Any

import pytest
from tests.support.preemption.scene import (
    HOST,
    composite,
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    placed,
    planned,
    pod,
    priority_class,
    scheduled,
    tree_of,
    victims,
)
from tests.unit.planner.preemption.test_budgets import budget
from tools.docs.sources import modules

from podium.api.minors import MINORS
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

KEP, V36, V37, V38, PODS = Semantics
# The victims on n1 of a pod of priority 5 that needs 2 cpus; empty for none.
Taken = dict[Semantics, list[str]]


def test_rules_and_minors_state_the_same_facts() -> None:
    """The audit reads them from the minor, without the planner."""
    for semantics in (V36, V37, V38):
        rules, minor = semantics.rules, MINORS[int(semantics.removeprefix("1."))]
        assert rules.empty_selector is minor.empty_selectors
        assert rules.empty_domain is not minor.named_domains
        assert rules.tree_agreement is minor.compared_trees


def test_no_other_module_asks_which_rule_set_it_has() -> None:
    """A rule set is rows of one module, so a new one changes no branch elsewhere."""
    asking = [
        f"{name}: {ast.unparse(node)}"
        for name, source in modules()
        if name != "podium.planner.semantics"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare | ast.MatchValue) and "Semantics." in ast.unparse(node)
    ]
    assert not asking


def check(expected: Taken, *objects: Any, by: Any = "high") -> None:
    for semantics, names in expected.items():
        plan = planned(*objects, by=by, semantics=semantics)
        assert victims(plan) == names, semantics
        assert plan.semantics is semantics


def high_group(members: int = 1, cpu: int = 2, least: int = 1) -> list[Any]:
    return [group("high", 5, least), gang("high", [None] * members, cpu, priority=5)]


def test_the_unit_of_a_group_of_mode_podgroup() -> None:
    """1.36 knows groups only if a group preempts."""
    low = [group("low", 1, 2, whole=True), gang("low", ["n1", "n1"], 2, priority=1, ago=60)]
    both, one = ["low-0", "low-1"], ["low-1"]
    check({KEP: both, V37: both, V38: both, V36: one, PODS: one}, node("n1"), low, pod("high", 2, 5))
    check({KEP: both, V37: both, V38: both, V36: both}, node("n1"), low, high_group(), by=of("high"))


def test_the_priority_of_members_of_mode_pod() -> None:
    """The group's under `kep` and in 1.37, their own in 1.36 and 1.38."""
    raised = [node("n1"), group("g", 9, 1), gang("g", ["n1"], 4, priority=1)]
    lowered = [node("n1"), group("g", 1, 1), gang("g", ["n1"], 4, priority=9)]
    for by in ("high", of("high")):
        mine = high_group() if by != "high" else pod("high", 2, 5)
        check({KEP: [], V37: [], V36: ["g-0"], V38: ["g-0"]}, raised, mine, by=by)
        check({KEP: ["g-0"], V37: ["g-0"], V36: [], V38: []}, lowered, mine, by=by)


def test_the_priority_of_a_group_of_mode_podgroup_that_a_group_preempts() -> None:
    lowered = [node("n1"), group("g", 1, 1, whole=True), gang("g", ["n1"], 4, priority=9)]
    check({KEP: ["g-0"], V37: ["g-0"], V36: ["g-0"], V38: []}, lowered, high_group(), by=of("high"))


def test_the_search_for_n() -> None:
    """Only `kep` has it. 1.36 places the group again in each step of the reprieve, 1.37 and 1.38 once.

    1.38 places it on the node with the cheapest victims.
    """
    cluster = [
        node("n1"),
        node("n2"),
        pod("three", 4, 3, node="n1", ago=60),
        pod("one", 4, 1, node="n2", ago=60),
    ]
    check(
        {KEP: ["one"], V36: ["one"], V37: ["three"], V38: ["one"]}, cluster, high_group(cpu=4), by=of("high")
    )


def test_the_number_of_members_that_preempt() -> None:
    """Exactly minCount under `kep`; in 1.37 all that fit without any victim; 1.36 ends with fewer."""
    cluster = [node("n1"), node("n2"), [pod(f"low-{at}", 4, 1, node=f"n{at}", ago=at) for at in (1, 2)]]
    for semantics, number in {KEP: 1, V36: 1, V37: 2, V38: 2}.items():
        plan = planned(cluster, high_group(2, 4), by=of("high"), semantics=semantics)
        assert len(victims(plan)) == len(placed(plan)) == number


def test_the_members_that_only_spared_pods_attract() -> None:
    """1.37 nominates what it places before it spares any pod; 1.36 places the group again afterwards."""
    term = {"labelSelector": {"matchLabels": {"app": "c"}}, "topologyKey": HOST}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = [
        node("n1"),
        pod("peer", 1, 1, node="n1", ago=90, labels={"app": "c"}),
        pod("low", 3, 1, node="n1", ago=60),
        pod("high-0", 2, 5, group="high"),
        pod("high-1", 1, 5, group="high", affinity=near),
    ]
    in_tree = [composite("tree", 5, 1), group("high", 5, 1, composite="tree")]
    for groups, by in (([group("high", 5, 1)], of("high")), (in_tree, tree_of("tree"))):
        for semantics, members in {KEP: 2, V37: 1, V38: 1}.items():
            plan = planned(cluster, groups, by=by, semantics=semantics)
            assert victims(plan) == ["low"]
            assert placed(plan) == {f"high-{at}": "n1" for at in range(members)}, (semantics, by)
    assert len(placed(planned(cluster, group("high", 5, 1), by=of("high"), semantics=V36))) == 2


@pytest.mark.parametrize("semantics", [V36, V37, V38, PODS])
def test_leaving_pods_are_potential_victims_in_the_releases(semantics: Semantics) -> None:
    """Under `kep` the preemptor waits for its room, at no cost."""
    cluster = [node("n1"), pod("going", 4, 1, node="n1", terminating=True), pod("high", 2, 5)]
    spec, release = planned(cluster), planned(cluster, semantics=semantics)
    assert (spec.outcome, victims(spec)) == (Outcome.FITS_AFTER_PREEMPTION, [])
    assert (release.outcome, victims(release)) == (Outcome.FITS_AFTER_PREEMPTION, ["going"])


def test_protection_holds_under_kep_only() -> None:
    """kube-system, a class that does not exist, and a toleration protect under `kep` only."""
    patient = priority_class("patient", 1, minimum=10, seconds=-1)
    for victim in (
        pod("low", 4, 1, node="n1", namespace="kube-system"),
        pod("low", 4, 1, node="n1", priorityClassName="gone"),
        pod("low", 4, 1, node="n1", priorityClassName="patient", status=scheduled(60)),
    ):
        check(
            {KEP: [], V36: ["low"], V37: ["low"], V38: ["low"], PODS: ["low"]},
            node("n1"),
            patient,
            victim,
            pod("high", 2, 5),
        )


def test_evict_only_holds_under_all_semantics() -> None:
    cluster = [node("n1"), pod("low", 4, 1, node="n1"), pod("high", 2, 5)]
    for semantics in Semantics:
        assert victims(planned(cluster, semantics=semantics, evict_only="podium-scheduler")) == []


def test_how_budgets_are_charged() -> None:
    """In 1.37 a pod that violates one budget is charged to no further one.

    Releases charge all potential victims, `kep` only the victims: `less` alone uses no more than `second`
    allows.

    `more` is the more important of two pods. It is in both budgets: the first by name allows no disruption,
    the second allows one. `less` is in the second budget only.
    """
    both, second = {"app": "a", "tier": "b"}, {"tier": "b"}
    cluster = [
        node("n1"),
        pod("more", 2, 1, node="n1", labels=both, ago=90),
        pod("less", 2, 1, node="n1", labels=second, ago=60),
        budget("first", allowed=0),
        budget("second", {"matchLabels": {"tier": "b"}}, allowed=1),
        pod("high", 2, 5),
    ]
    violated = {
        semantics: [unit.violatesBudget for unit in planned(cluster, semantics=semantics).victims]
        for semantics in Semantics
    }
    assert violated == {KEP: [False], V36: [True], PODS: [True], V37: [False], V38: [False]}


def test_how_budgets_are_charged_for_a_group() -> None:
    """In 1.36 no pod of a unit is charged after one of its pods violates a budget."""
    cluster = [
        node("n1"),
        group("low", 1, 2, whole=True),
        pod("low-0", 1, 1, node="n1", group="low", labels={"app": "a"}),
        pod("low-1", 1, 1, node="n1", group="low", labels={"app": "b"}),
        pod("single", 2, 1, node="n1", labels={"app": "b"}),
        budget("a", allowed=0),
        budget("b", {"matchLabels": {"app": "b"}}, allowed=1),
        high_group(cpu=4),
    ]
    for semantics, violates in {KEP: True, V36: False, V37: True, V38: True}.items():
        plan = planned(cluster, by=of("high"), semantics=semantics)
        assert [unit.violatesBudget for unit in plan.victims] == [True, violates], semantics


def test_plain_pod_preemption_ignores_groups() -> None:
    """Gates off: a member preempts with its own priority, without its gang."""
    cluster = [node("n1"), pod("low", 4, 1, node="n1"), high_group(2, 4, 2)]
    assert planned(cluster, by="high-0").outcome is Outcome.DOES_NOT_FIT
    alone = planned(cluster, by="high-0", semantics=PODS)
    assert (alone.outcome, victims(alone)) == (Outcome.FITS_AFTER_PREEMPTION, ["low"])


def test_a_group_with_pods_of_another_priority() -> None:
    """1.37 and 1.38 refuse it; under `kep` and in 1.36 the preemptor has the group's priority."""
    cluster = [node("n1"), pod("low", 4, 1, node="n1"), group("high", 5, 1)]
    divergent = gang("high", [None], 2, priority=0)
    check({KEP: ["low"], V36: ["low"], V37: [], V38: []}, cluster, divergent, by=of("high"))
    for semantics in (V37, V38):
        refused = planned(cluster, divergent, by=of("high"), semantics=semantics)
        assert refused.outcome is Outcome.NOT_ELIGIBLE
        why = f"kube-scheduler {semantics} refuses it, because it has priority 5 and pods of it 0"
        assert refused.message == why


@pytest.mark.parametrize("semantics", [V36, V37, V38, PODS])
def test_a_lone_pod_waits_while_a_victim_is_leaving_its_nominated_node(semantics: Semantics) -> None:
    """A terminating marked victim counts as leaving; otherwise the releases look for new victims."""
    nominated = pod("high", 4, 5, status={"nominatedNodeName": "n1"})
    others = [node("n1"), node("n2"), pod("low", 4, 1, node="n2", ago=60)]
    going = pod("going", 4, 1, node="n1", terminating=True, status=marked_for_deletion())
    waits = planned(others, going, nominated, semantics=semantics)
    assert waits.outcome is Outcome.NOT_ELIGIBLE
    assert waits.message.startswith("not eligible due to a terminating pod on the nominated node.")
    deleted = pod("going", 4, 1, node="n1", terminating=True)
    assert len(victims(planned(others, deleted, nominated, semantics=semantics))) == 1


def test_a_group_keeps_its_nominations_while_victims_leave_from_1_37_on() -> None:
    """1.36 does not check, and preempts again."""
    cluster = [
        node("n1"),
        node("n2"),
        pod("going", 4, 1, node="n1", terminating=True, status=marked_for_deletion()),
        pod("low", 4, 1, node="n2", ago=60),
        group("high", 5, 1),
        gang("high", [None], 4, priority=5, status={"nominatedNodeName": "n1"}),
    ]
    for semantics in (V37, V38):
        keeps = planned(cluster, by=of("high"), semantics=semantics)
        assert (keeps.outcome, victims(keeps)) == (Outcome.FITS_AFTER_PREEMPTION, [])
        assert placed(keeps) == {"high-0": "n1"}
    assert len(victims(planned(cluster, by=of("high"), semantics=V36))) == 1


def test_without_gates_the_members_of_a_group_preempt_one_by_one() -> None:
    """Each with its own priority, whatever minCount is."""
    cluster = [
        node("n1"),
        pod("low", 4, 1, node="n1", ago=60),
        group("high", 9, 2),
        pod("high-0", 4, 5, group="high"),
        pod("high-1", 4, 1, group="high"),
    ]
    plan = planned(cluster, by=of("high"), semantics=PODS)
    assert (victims(plan), placed(plan)) == (["low"], {"high-0": "n1"})


def test_the_nominated_node_of_a_lone_preemptor() -> None:
    """Under every rule, nominations of equal or higher priority count, and lower ones do not."""
    cluster = [
        node("n1"),
        pod("equal", 2, 5, status={"nominatedNodeName": "n1"}),
        pod("lower", 2, 4, status={"nominatedNodeName": "n1"}),
    ]
    for semantics in Semantics:
        assert planned(cluster, pod("high", 2, 5), semantics=semantics).outcome is Outcome.FITS
        assert planned(cluster, pod("high", 4, 5), semantics=semantics).outcome is Outcome.DOES_NOT_FIT
