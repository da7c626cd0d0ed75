"""The number of pods of a group for which units are evicted: those that minCount still needs."""

from typing import Any

import pytest
from tests.support.preemption.scene import (
    HOST,
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    placed,
    planned,
    pod,
    victims,
)

from podium.planner.preemption.grouptarget import PREEMPT_FOR_ALL
from podium.planner.preemption.outcome import Outcome, Plan


def full_nodes(*lows: int) -> list[Any]:
    """Return nodes n1, n2... of 4 cpus, each with a pod of priority 1 that takes that many."""
    nodes = [node(f"n{at}") for at in range(1, len(lows) + 1)]
    return [nodes, [pod(f"low-{at}", cpu, 1, node=f"n{at}", ago=60) for at, cpu in enumerate(lows, 1) if cpu]]


def want(members: int, least: int | None, *more: Any, cpu: int = 4, **settings: Any) -> Plan:
    mine = [group("high", 5, least), gang("high", [None] * members, cpu, priority=5)]
    return planned(mine, *more, by=of("high"), **settings)


def test_room_is_made_for_exactly_min_count() -> None:
    plan = want(3, 2, full_nodes(4, 4, 4))
    assert len(victims(plan)) == len(placed(plan)) == 2
    assert plan.message == "2 of 3 pending pods fit after preempting 2 pods"


def test_further_members_take_free_room() -> None:
    """One member preempts, and one more takes free room; no unit is evicted for the third."""
    plan = want(3, 2, full_nodes(4, 0, 4))
    assert len(victims(plan)) == 1
    assert len(placed(plan)) == 2
    both = want(3, 2, full_nodes(4, 0, 0, 4))
    assert (both.outcome, victims(both), len(placed(both))) == (Outcome.FITS, [], 2)


def test_further_members_take_room_that_victims_leave_over() -> None:
    """The pod on n1 is evicted for one member of 2 cpus; another member fits beside it."""
    plan = want(2, 1, full_nodes(4), cpu=2)
    assert victims(plan) == ["low-1"]
    assert placed(plan) == {"high-0": "n1", "high-1": "n1"}


def test_running_members_count_toward_min_count() -> None:
    runs = [pod(f"runs-{at}", 4, 5, node="n9", group="high") for at in range(2)]
    plan = want(2, 3, full_nodes(4, 4), node("n9", 8), runs)
    assert len(victims(plan)) == len(placed(plan)) == 1


@pytest.mark.parametrize("leaving", [{"terminating": True}, {"status": marked_for_deletion()}])
def test_members_that_are_leaving_do_not_count(leaving: dict[str, Any]) -> None:
    goes = pod("goes", 1, 5, node="n9", group="high", **leaving)
    plan = want(2, 2, full_nodes(4, 4), node("n9", 1), goes)
    assert len(victims(plan)) == len(placed(plan)) == 2


def test_finished_members_do_not_count() -> None:
    done = pod("done", 1, 5, node="n9", group="high", phase="Succeeded")
    plan = want(1, 2, full_nodes(4), node("n9", 1), done)
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    waiting = "1 pod can be placed and 0 run, 1 pod has ended and does not count, minCount is 2"
    assert plan.message == f"waiting for minCount pods: {waiting}"


def test_a_basic_group_preempts_for_all_its_pods_at_once() -> None:
    plan = want(3, None, full_nodes(4, 4, 4))
    assert len(victims(plan)) == len(placed(plan)) == 3


def test_a_basic_group_needs_one_pod() -> None:
    plan = want(3, None, full_nodes(4))
    assert len(victims(plan)) == len(placed(plan)) == 1


RUNS = [pod(f"runs-{at}", 4, 5, node="n9", group="high") for at in range(2)]


def test_no_unit_is_evicted_for_members_beyond_min_count() -> None:
    plan = want(2, 1, full_nodes(4, 4), node("n9", 8), RUNS)
    assert (plan.outcome, victims(plan)) == (Outcome.NOT_ELIGIBLE, [])
    reason = "2 pods run and minCount is 1, so no pod is evicted for one more member"
    assert plan.message.startswith(reason)


def test_members_beyond_min_count_take_free_room() -> None:
    plan = want(1, 1, node("n1", 4), node("n9", 8), RUNS)
    assert (plan.outcome, len(placed(plan))) == (Outcome.FITS, 1)


@pytest.mark.parametrize(("size", "taken"), [(2, 2), (3, 1)])
def test_an_annotation_lets_a_group_preempt_for_all_members(size: int, taken: int) -> None:
    """If there is no room for all of them, units are evicted for what minCount needs."""
    annotated = group("high", 5, 1, annotations={PREEMPT_FOR_ALL: "true"})
    members = gang("high", [None] * size, 4, priority=5)
    plan = planned(annotated, members, full_nodes(4, 4), by=of("high"))
    assert len(victims(plan)) == len(placed(plan)) == taken


def test_no_unit_is_evicted_for_a_group_that_cannot_reach_min_count() -> None:
    plan = want(3, 3, full_nodes(4, 4))
    assert (plan.outcome, victims(plan), placed(plan)) == (Outcome.DOES_NOT_FIT, [], {})
    assert plan.message == (
        "even without all that may be preempted: 2 of 3 members have room; 0/2 nodes are available: "
        "2 node(s) were taken by other members of the group (Insufficient cpu)."
    )


def test_members_are_taken_by_priority_then_age_then_name() -> None:
    """The order decides which members get the free room."""
    late, early = pod("late", 4, 5, group="high"), pod("early", 4, 5, group="high")
    late.metadata.creationTimestamp = "2026-01-01T00:00:01Z"
    early.metadata.creationTimestamp = "2026-01-01T00:00:00Z"
    best = pod("best", 4, 6, group="high")
    best.metadata.creationTimestamp = "2026-01-01T00:00:02Z"
    mine = [group("high", 5, 1), late, early, best]
    assert set(placed(planned(node("n1"), mine, by=of("high")))) == {"best"}
    assert set(placed(planned(node("n1"), node("n2"), mine, by=of("high")))) == {"best", "early"}
    same = [group("high", 5, 1), pod("b", 4, 5, group="high"), pod("a", 4, 5, group="high")]
    assert set(placed(planned(node("n1"), same, by=of("high")))) == {"a"}


def test_members_of_several_shapes_are_placed_each_where_it_fits() -> None:
    plan = planned(
        node("n1"),
        node("n2", labels={"disk": "ssd"}),
        pod("low-1", 4, 1, node="n1", ago=60),
        pod("low-2", 4, 1, node="n2", ago=60),
        group("high", 5, 2),
        pod("high-a", 3, 5, group="high", nodeSelector={"disk": "ssd"}),
        pod("high-b", 2, 5, group="high"),
        by=of("high"),
    )
    assert sorted(victims(plan)) == ["low-1", "low-2"]
    assert placed(plan) == {"high-a": "n2", "high-b": "n1"}


def test_a_podium_group_is_placed_like_a_native_one() -> None:
    label: dict[str, Any] = {"labels": {"scheduling.podium.dev/pod-group": "ours"}}
    plan = planned(
        full_nodes(4, 4),
        group("ours", 5, 2, native=False),
        [pod(f"ours-{at}", 4, 5, **label) for at in range(2)],
        by=of("ours", native=False),
    )
    assert len(victims(plan)) == len(placed(plan)) == 2


def test_its_own_running_members_are_never_victims() -> None:
    """They have the group's priority, whatever their own priority is."""
    runs = pod("runs", 4, 0, node="n1", group="high")
    mine = [group("high", 5, 2), pod("waits", 4, 5, group="high"), runs]
    plan = planned(node("n1"), mine, by=of("high"))
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])


def test_members_take_equal_nodes_by_name_in_any_order_of_the_input() -> None:
    """Members of several kinds are packed, and two of these nodes are equal."""
    cluster: list[list[Any]] = [
        [node("n1"), node("n2"), node("n3"), pod("low", 2, node="n2")],
        [group("high", 5, 3), pod("small", 1, 7, group="high")],
        [pod(name, 4, 5, group="high") for name in ("big-a", "big-b")],
    ]
    for objects in (cluster, reversed_(cluster)):
        plan = planned(objects, by=of("high"))
        assert placed(plan) == {"big-a": "n1", "big-b": "n3", "small": "n2"}


def test_the_reason_of_a_victim_is_about_the_first_member_by_name() -> None:
    """Each member on a node of the victim has another reason."""
    hated = {"labelSelector": {"matchLabels": {"app": "high"}}, "topologyKey": HOST}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [hated]}}
    cluster: list[list[Any]] = [
        [node("n1", 2), node("n2", 2), group("low", 1, whole=True)],
        [
            pod("low-a", 1, 1, node="n1", group="low", affinity=anti),
            pod("low-b", 2, 1, node="n2", group="low"),
        ],
        [group("high", 5, 1)],
        [pod(f"high-{name}", 1, 5, group="high", labels={"app": "high"}) for name in "ab"],
    ]
    (first,) = planned(cluster, by=of("high")).victims
    (second,) = planned(reversed_(cluster), by=of("high")).victims
    assert first.reason == second.reason


def reversed_(cluster: list[list[Any]]) -> list[Any]:
    """Return the objects of a cluster in the opposite order."""
    return [each for objects in reversed(cluster) for each in reversed(objects)]
