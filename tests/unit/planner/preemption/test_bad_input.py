"""Unusable input is named in a finding, and no plan counts on it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters import builders
from tests.support.preemption.scene import (
    gang,
    group,
    node,
    of,
    placed,
    planned,
    pod,
    priority_class,
    victims,
)
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.podrequests import pod_requests
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics

FAR = 10**30
LOW = pod("low", 4, 0, node="n1", ago=60)


def named(plan: Plan) -> set[tuple[str, str]]:
    """Return object and field of the findings."""
    return {(str(each.object), each.field or "") for each in plan.findings}


@pytest.mark.parametrize("amount", ["-1", "-500m", "lots", "", "1e999", str(FAR), "NaN", "1 Gi"])
def test_a_preemptor_with_an_unusable_request_is_placed_nowhere(amount: str) -> None:
    """A negative or unreadable request never gets a node."""
    plan = planned(node("n1"), LOW, pod("high", amount, 5))
    assert plan.outcome in (Outcome.NOT_JUDGED, Outcome.DOES_NOT_FIT)
    assert victims(plan) == []


@pytest.mark.parametrize(
    ("amount", "field"),
    [
        ("-4", "spec.containers[0].resources.requests[cpu]"),
        ("lots", "spec.containers[0].resources.requests[cpu]"),
        (str(FAR), "spec[cpu]"),
    ],
)
@pytest.mark.parametrize("semantics", [Semantics.KEP, Semantics.V1_36, Semantics.V1_37])
@pytest.mark.parametrize("by", ["high", of("group")])
def test_a_running_pod_with_an_unusable_request_leaves_nothing_free_but_may_be_a_victim(
    by: Any, semantics: Semantics, amount: str, field: str
) -> None:
    """It counts as all of that resource until it is gone; the plan names it."""
    mine = [pod("high", 1, 5), group("group", 5, 1), gang("group", [None], 1, priority=5)]
    odd = pod("odd", amount, 0, node="n1", ago=60)
    cluster = [node("n1"), odd, pod("low", 1, 1, node="n1"), mine]
    plan = planned(cluster, by=by, semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, ["odd"])
    assert named(plan) == {("Pod team-a/odd", field)}
    above = [node("n1"), pod("odd", amount, 9, node="n1", ago=60), pod("low", 1, 1, node="n1"), mine]
    assert planned(above, by=by, semantics=semantics).outcome is Outcome.DOES_NOT_FIT
    assert list(placed(planned(cluster, node("n2"), by=by, semantics=semantics)).values()) == ["n2"]


NOT_OFFERED = {"absurd": "5P", "negative": "-1", "no quantity": "lots", "ordinary": "1"}


@pytest.mark.parametrize("amount", NOT_OFFERED.values(), ids=NOT_OFFERED)
def test_a_request_for_a_resource_that_the_node_lacks_blocks_no_other_pod(amount: str) -> None:
    """The kubelet ignores such a request: the node has the room that it has."""
    odd = builders.pod("odd", {"odd.example.com/x": amount}, node="n1", priority=9)
    plan = planned(node("n1"), odd, pod("high", 1, 5))
    assert (plan.outcome, placed(plan)) == (Outcome.FITS, {"high": "n1"})


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize("by", ["high", of("group")])
def test_a_request_for_a_resource_that_no_node_offers_fits_nowhere(by: Any, semantics: Semantics) -> None:
    pod_spec: dict[str, Any] = {"containers": [builders.container({"cpu": "1", "odd.example.com/x": "1"})]}
    mine = [
        pod("high", 1, 5, **pod_spec),
        group("group", 5, 2),
        gang("group", [None, None], 1, priority=5, **pod_spec),
    ]
    plan = planned(node("n1"), LOW, mine, by=by, semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    assert "Insufficient odd.example.com/x" in plan.message


@pytest.mark.parametrize("room", ["-4", "many", str(FAR)])
def test_a_node_with_unusable_allocatable_takes_no_pod(room: str) -> None:
    plan = planned(node("n1", room), pod("high", 1, 5))
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert ("Node n1", "status.allocatable[cpu]") in named(plan)
    assert placed(planned(node("n1", room), node("n2"), pod("high", 1, 5))) == {"high": "n2"}


def test_sums_past_64_bits_leave_nothing_free() -> None:
    """Each request is valid; their sum would overflow 64 bits."""
    most = 2**52 // 1000
    huge = [pod(f"huge-{at}", most, 0, node="n1", ago=60) for at in range(2100)]
    plan = planned(node("n1", room={"pods": 3000}), node("n2"), huge, pod("high", 1, 5))
    assert placed(plan) == {"high": "n2"}
    assert plan.outcome is Outcome.FITS


def test_a_request_far_beyond_any_node_fits_nowhere() -> None:
    plan = planned(node("n1"), LOW, pod("high", "1000000", 5))
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    assert plan.findings == ()


def test_a_pod_on_an_unknown_node_is_named_and_counts_nowhere() -> None:
    plan = planned(node("n1"), LOW, pod("lost", 4, 0, node="gone", ago=60), pod("high", 4, 5))
    assert victims(plan) == ["low"]
    assert named(plan) == {("Pod team-a/lost", "spec.nodeName")}
    assert [each.message for each in plan.findings] == ["node gone does not exist."]


def test_members_on_an_unknown_node_are_in_no_unit() -> None:
    low = [group("low", 0, 2, whole=True), gang("low", ["n1", "gone"], 4, ago=60)]
    plan = planned(node("n1"), low, pod("high", 4, 5))
    assert [(each.name, each.node) for unit in plan.victims for each in unit.pods] == [("low-0", "n1")]
    assert ("Pod team-a/low-1", "spec.nodeName") in named(plan)


@pytest.mark.parametrize("time", ["yesterday", "2026-13-01T00:00:00Z", "0", "2026-01-01T00:00:00"])
def test_an_unreadable_start_time_counts_as_none_and_is_named(time: str) -> None:
    """No start counts as now, so the pod is the least important of equals."""
    odd = builders.pod("odd", {"cpu": "2"}, node="n1", start=time)
    plan = planned(node("n1"), odd, pod("other", 2, 0, node="n1", ago=1), pod("high", 2, 5))
    assert victims(plan) == ["odd"]
    assert ("Pod team-a/odd", "status.startTime") in named(plan)


def test_an_unreadable_time_of_scheduling_exempts_and_is_named() -> None:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "soon"}
    plan = planned(
        node("n1"),
        priority_class("patient", 0, minimum=9, seconds=60),
        pod("odd", 4, 0, node="n1", priorityClassName="patient", status={"conditions": [condition]}),
        pod("high", 2, 5),
    )
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    assert ("Pod team-a/odd", "status.conditions") in named(plan)


def test_a_budget_that_does_not_parse_counts_no_pod_and_is_named() -> None:
    odd = budget(selector={"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]})
    plan = planned(node("n1"), pod("low", 4, 0, node="n1", labels={"app": "a"}), odd, pod("high", 2, 5))
    assert [unit.violatesBudget for unit in plan.victims] == [False]
    assert ("PodDisruptionBudget team-a/pdb", "spec.selector") in named(plan)


def test_a_negative_allowance_is_0_and_is_named() -> None:
    plan = planned(
        node("n1"), pod("low", 4, 0, node="n1", labels={"app": "a"}), budget(allowed=-3), pod("high", 2, 5)
    )
    assert [unit.violatesBudget for unit in plan.victims] == [True]
    assert ("PodDisruptionBudget team-a/pdb", "status.disruptionsAllowed") in named(plan)


def test_of_objects_with_one_name_the_last_counts() -> None:
    plan = planned(
        node("n1", 1),
        node("n1", 4),
        pod("low", 1, 9, node="n1"),
        pod("low", 4, 0, node="n1", ago=60),
        pod("high", 4, 5),
    )
    assert (victims(plan), placed(plan)) == (["low"], {"high": "n1"})


def test_a_group_without_members_waits_for_them() -> None:
    plan = planned(node("n1"), group("high", 5, 2), by=of("high"))
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert plan.message == "waiting for minCount pods: 0 pods can be placed and 0 run, minCount is 2"


@pytest.mark.parametrize("least", [0, -1, 2**31 - 1])
def test_an_absurd_min_count_places_one_pod_or_none(least: int) -> None:
    """The API allows 1 and more. Less counts as 1, because a plan places at least one pod."""
    plan = planned(
        node("n1"), LOW, group("high", 5, least), gang("high", [None, None], 4, priority=5), by=of("high")
    )
    if least > 2:
        assert (plan.outcome, victims(plan)) == (Outcome.NOT_ELIGIBLE, [])
    else:
        assert (victims(plan), len(placed(plan))) == (["low"], 1)


NO_ROOM = {
    "no node": ([], "no nodes available to schedule pods"),
    "a node that is too small": (
        [node("n1")],
        (
            "cpu: no node that suits the pod has enough, even without other pods; "
            "0/1 nodes are available: 1 Insufficient cpu."
        ),
    ),
}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("by", ["high", of("group")])
@pytest.mark.parametrize(("nodes", "message"), NO_ROOM.values(), ids=NO_ROOM)
def test_a_cluster_without_pods_is_planned(
    nodes: list[Any], message: str, by: Any, semantics: Semantics
) -> None:
    mine = [group("group", 5, 1), gang("group", [None], 9, priority=5)]
    plan = planned(nodes, pod("high", 9, 5), mine, by=by, semantics=semantics)
    assert (plan.outcome, victims(plan), plan.message) == (Outcome.DOES_NOT_FIT, [], message)


@pytest.mark.parametrize("lowest", [-(2**31), 2**31 - 1])
def test_the_ends_of_the_range_of_priorities(lowest: int) -> None:
    """Sums over them are exact and do not overflow."""
    cluster = [node("n1"), pod("low", 4, lowest, node="n1", ago=60)]
    plan = planned(cluster, pod("high", 4, 2**31 - 1))
    assert victims(plan) == (["low"] if lowest < 0 else [])


_amounts = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=4),
    st.sampled_from(["1", "2", "500m", "1Ki", "1e3"]),
)


@given(_amounts, _amounts, _amounts, st.sampled_from(Semantics))
def test_any_amounts_give_an_answer_that_fits(
    room: str, held: str, wanted: str, semantics: Semantics
) -> None:
    """A placed pod requests nothing, or a usable amount on a node with usable allocatable."""
    high = pod("high", wanted, 5)
    plan = planned(node("n1", room), pod("low", held, 0, node="n1", ago=60), high, semantics=semantics)
    if placed(plan) and pod_requests(high).amounts.get("cpu"):
        assert not {name for name, _ in named(plan)} & {"Node n1", "Pod team-a/high"}
