"""Units of preemption, and the order of importance in which they are reprieved."""

from typing import Any

import pytest
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, state_of
from tests.support.preemption.scene import (
    gang,
    group,
    node,
    of,
    placed,
    planned,
    pod,
    priority_class,
    spared,
    unit,
    victims,
)

from podium.api.schedulable import Schedulable
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

LOW = 1
OURS = "podium-scheduler"


def one_of(*units: Any, **settings: Any) -> Plan:
    """Plan on n1 of 4 cpus, with units of 2 cpus each, for a pod of 2 cpus."""
    nodes = [node("n1"), node("n2"), pod("full", 0, 9, node="n2", ago=1)]
    high = pod("high", 2, 5, nodeSelector={"kubernetes.io/hostname": "n1"})
    return planned(nodes, units, high, **settings)


def alone(name: str, **kwargs: Any) -> Schedulable:
    return pod(name, 2, **{"priority": LOW, "node": "n1", "ago": 60, **kwargs})


def whole(name: str, *elsewhere: str, priority: int = LOW, uid: str = "", **kwargs: Any) -> list[Any]:
    """Make a group of mode PodGroup with one member on n1, and others elsewhere without requests."""
    return [
        group(name, priority, 1, whole=True, uid=uid),
        pod(f"{name}-0", 2, node="n1", group=name, **{"ago": 60, **kwargs}),
        [pod(f"{name}-{at}", 0, node=where, group=name, ago=60) for at, where in enumerate(elsewhere, 1)],
    ]


@pytest.mark.parametrize(
    ("stays", "goes"),
    [
        pytest.param([alone("stays", priority=2)], [alone("goes", priority=1)], id="priority"),
        pytest.param(
            [alone("stays", priority=2, ago=10)], whole("goes", "n2"), id="priority before everything else"
        ),
        pytest.param(whole("stays", ago=10), [alone("goes", ago=600)], id="a group over a pod"),
        pytest.param(
            whole("stays", "n2", ago=10), whole("goes", ago=600), id="more running members, wherever they run"
        ),
        pytest.param([alone("stays", ago=61)], [alone("goes", ago=60)], id="earlier start"),
        pytest.param([alone("stays", ago=1)], [alone("goes", ago=None)], id="no start is now"),
        pytest.param(
            whole("stays", ago=600), whole("goes", ago=60), id="earlier start of groups of one size"
        ),
        pytest.param([alone("stays", uid="a")], [alone("goes", uid="b")], id="then UID"),
        pytest.param(
            [alone("stays", uid="00000000-0000-a")],
            [alone("goes", uid="00000000-0000-b")],
            id="the whole of it",
        ),
        pytest.param(whole("stays", uid="a"), whole("goes", uid="b"), id="a group's own UID"),
        pytest.param(
            [alone("stays", ago=None, uid="a")],
            [alone("goes", ago=None, uid="b")],
            id="two without start have the same",
        ),
    ],
)
def test_the_order_of_importance(stays: list[Any], goes: list[Any]) -> None:
    """Either unit makes enough room; the more important one stays, in either order."""
    for units in ((stays, goes), (goes, stays)):
        plan = one_of(*units)
        assert {each.name for each in plan.victims} == {"goes"}
        assert spared(plan) == {
            "stays": "the preemptor fits beside it"
            if plan.minimalPriority == plan.victims[0].priority == unit(plan, "stays").priority
            else f"it is enough to take units of priority {plan.minimalPriority} or lower"
        }


def test_the_start_of_a_group_is_that_of_its_earliest_member() -> None:
    old = [pod("old-1", 0, node="n2", group="old", ago=600), pod("old-2", 0, node="n2", group="old")]
    young = [pod(f"young-{at}", 0, node="n2", group="young", ago=100) for at in (1, 2)]
    plan = one_of(whole("young", ago=100), young, whole("old", ago=10), old)
    assert [each.name for each in plan.victims] == ["young"]


def test_a_start_in_the_future_counts_as_now() -> None:
    """It counts like a missing start: the UID decides."""
    plan = one_of(alone("stays", ago=None, uid="a"), alone("goes", ago=-60, uid="b"))
    assert victims(plan) == ["goes"]


def member(name: str, **kwargs: Any) -> list[Any]:
    """Make a group of mode Pod with one member."""
    return [group(name, LOW, 1), pod(f"{name}-0", 2, node="n1", group=name, **{"ago": 60, **kwargs})]


@pytest.mark.parametrize(
    ("semantics", "victim"),
    [(Semantics.KEP, "member-0"), (Semantics.V1_37, "single"), (Semantics.PODS, "member-0")],
)
def test_a_member_of_mode_pod_ranks_as_a_pod_under_kep_and_as_a_group_in_1_37(
    semantics: Semantics, victim: str
) -> None:
    """The single pod started earlier than the member."""
    plan = one_of(member("member", priority=LOW, ago=10), alone("single", ago=600), semantics=semantics)
    assert victims(plan) == [victim]


@pytest.mark.parametrize(
    ("semantics", "victim"),
    [(Semantics.KEP, "member-0"), (Semantics.V1_36, "single"), (Semantics.V1_37, "single")],
)
def test_the_same_for_a_group_that_preempts(semantics: Semantics, victim: str) -> None:
    plan = planned(
        node("n1"),
        member("member", priority=LOW, ago=10),
        alone("single", ago=600),
        group("high", 5, 1),
        gang("high", [None], 2, priority=5),
        by=of("high"),
        semantics=semantics,
    )
    assert victims(plan) == [victim]


def test_a_member_of_mode_pod_counts_with_the_priority_of_its_group() -> None:
    plan = one_of(
        [group("high-group", 4, 1), pod("in-group", 2, 0, node="n1", group="high-group", ago=1)],
        alone("single", priority=2),
    )
    assert victims(plan) == ["single"]
    assert unit(plan, "in-group").priority == 4


def test_a_nil_priority_is_0() -> None:
    plan = one_of([group("nil", None, 1, whole=True), gang("nil", ["n1"], 2, priority=9)], alone("single"))
    assert [(each.name, each.priority) for each in plan.victims] == [("nil", 0)]


OTHERS: dict[str, Any] = {"schedulerName": "other"}


@pytest.mark.parametrize("semantics", [Semantics.KEP, Semantics.V1_37])
def test_a_group_is_evicted_without_its_protected_member(semantics: Semantics) -> None:
    """A member of another scheduler protects only itself, and keeps its room."""
    mixed = [
        group("mixed", 0, 2, whole=True),
        pod("ours-0", 1, 0, node="n1", group="mixed", schedulerName=OURS),
        pod("ours-1", 1, 0, node="n2", group="mixed", schedulerName=OURS),
        pod("theirs", 1, 0, node="n1", group="mixed", **OTHERS),
    ]
    high = pod("high", 3, 5, nodeSelector={"kubernetes.io/hostname": "n1"})
    plan = planned(node("n1"), node("n2"), mixed, high, evict_only=OURS, semantics=semantics)
    assert [(each.kind, each.name) for each in plan.victims] == [("PodGroup", "mixed")]
    assert victims(plan) == ["ours-0", "ours-1"]
    assert plan.message == "fits on node n1 after preempting 2 pods, 1 whole group among them"
    left = unit(plan, "theirs")
    assert (left.kind, [each.name for each in left.pods]) == ("Pod", ["theirs"])
    assert left.reason == "it belongs to other, and only pods of podium-scheduler are evicted"
    assert planned(node("n1"), mixed, pod("high", 4, 5), evict_only=OURS).outcome is Outcome.DOES_NOT_FIT


def test_a_group_with_protected_members_only_is_protected() -> None:
    plan = one_of(
        [group("g", 0, 2, whole=True), [alone(f"g-{at}", group="g", **OTHERS) for at in range(2)]],
        evict_only=OURS,
    )
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert spared(plan)["g"].startswith("team-a/g-0: it belongs to other")


def test_a_protected_member_does_not_count_for_its_group() -> None:
    """Its size, start and toleration do not count for its group, so the smaller or younger one is evicted."""
    plan = one_of(
        whole("goes", ago=60, schedulerName=OURS),
        [pod(f"goes-{at}", 0, node="n2", group="goes", ago=600, **OTHERS) for at in (1, 2)],
        whole("stays", "n2", ago=60, schedulerName=OURS),
        evict_only=None,
    )
    assert {each.name for each in plan.victims} == {"stays"}
    plan = one_of(
        whole("goes", ago=60, schedulerName=OURS),
        [pod(f"goes-{at}", 0, node="n2", group="goes", ago=600, **OTHERS) for at in (1, 2)],
        whole("stays", ago=61, schedulerName=OURS),
        evict_only=OURS,
    )
    assert victims(plan) == ["goes-0"]


def test_a_member_that_loses_its_protection_joins_its_unit() -> None:
    """So does a member that is no longer protected, because its class was recreated."""
    state = state_of(
        [
            node("n1"),
            group("g", 0, 2, whole=True),
            pod("g-0", 2, node="n1", group="g"),
            pod("g-1", 1, node="n1", group="g", schedulerName="other"),
            pod("high", 4, 5),
        ]
    )
    engine = Engine(state, Settings(evict_only="default-scheduler"))
    state.observe(engine.apply)
    assert engine.plan(("team-a", "high"), NOW).outcome is Outcome.DOES_NOT_FIT
    state.apply(pod("g-1", 1, node="n1", group="g", uid="again"))
    assert victims(engine.plan(("team-a", "high"), NOW)) == ["g-0", "g-1"]


@pytest.mark.parametrize("amount", ["lots", "-1", "10P"])
@pytest.mark.parametrize("name", ["cpu", "example.com/unknown"])
def test_a_member_with_an_unusable_request_is_evicted_with_its_group(name: str, amount: str) -> None:
    """It protects neither the others nor itself.

    Once it is gone, the node's room counts.
    """
    plan = planned(
        [node("n1"), node("n2")],
        group("g", 0, 2, whole=True),
        [pod(f"g-{at}", 4, node=f"n{at}", group="g") for at in (1, 2)],
        builders.pod("odd", {name: amount}, namespace="team-a", node="n1", group="g"),
        pod("high", 4, 5),
    )
    assert (victims(plan), placed(plan)) == (["g-1", "g-2", "odd"], {"high": "n1"})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_member_that_is_named_does_not_depend_on_the_order(order: tuple[int, int]) -> None:
    """The first by name is named, whether it is protected or exempt."""
    protected = [group("g", 0, 2, whole=True), [alone(f"g-{at}", group="g", **OTHERS) for at in order]]
    why = spared(one_of(protected, evict_only="podium-scheduler"))["g"]
    assert why.startswith("team-a/g-0: ")
    exempt = [
        priority_class("patient", 0, minimum=9, seconds=60),
        group("g", 0, 2, whole=True, priority_class_name="patient"),
        [alone(f"g-{at}", group="g") for at in order],
    ]
    assert spared(one_of(exempt))["g"].endswith("and team-a/g-0 is not scheduled yet")


def test_pods_of_kube_system_are_never_victims() -> None:
    plan = one_of(alone("system", namespace="kube-system", priority=0), alone("single", priority=2))
    assert victims(plan) == ["single"]
    assert set(spared(plan)) == {"system"}


@pytest.mark.parametrize(("evict_only", "victim"), [(None, "theirs"), ("podium-scheduler", "ours")])
def test_victims_may_belong_to_any_scheduler_unless_configured_otherwise(
    evict_only: str | None, victim: str
) -> None:
    plan = one_of(
        alone("theirs", priority=0),
        alone("ours", priority=1, schedulerName="podium-scheduler"),
        evict_only=evict_only,
    )
    assert victims(plan) == [victim]


def test_a_member_of_a_missing_group_is_a_lone_pod() -> None:
    plan = one_of(alone("orphan", group="gone", priority=0), alone("single", priority=2))
    assert [(each.kind, each.name, each.priority) for each in plan.victims] == [("Pod", "orphan", 0)]


def test_a_podium_group_is_a_unit_like_a_native_one() -> None:
    label = {"scheduling.podium.dev/pod-group": "ours"}
    plan = one_of(
        group("ours", 0, 2, whole=True, native=False),
        alone("ours-0", labels=label),
        pod("ours-1", 1, 9, node="n2", labels=label),
        alone("other", priority=3),
    )
    assert [(each.kind, each.name) for each in plan.victims] == [("PodGroup", "ours")]
    assert victims(plan) == ["ours-0", "ours-1"]


def test_finished_and_pending_members_are_not_in_a_unit() -> None:
    plan = one_of(
        whole("unit"),
        pod("pending", 1, group="unit"),
        pod("done", 1, group="unit", node="n2", phase="Succeeded"),
        alone("other", priority=3),
    )
    assert victims(plan) == ["unit-0"]


# The preemption priority of a group, which differs from its scheduling priority.


@pytest.mark.parametrize(
    ("enabled", "native", "named", "expected"),
    [
        pytest.param(True, False, "gold", 4, id="it raises"),
        pytest.param(False, False, "gold", 1, id="off unless the administrator enables it"),
        pytest.param(True, True, "gold", 1, id="on a Podium group only"),
        pytest.param(True, False, "bronze", 1, id="never lower than the scheduling priority"),
        pytest.param(True, False, "gone", 1, id="a class that does not exist raises nothing"),
    ],
)
def test_the_preemption_priority_of_a_group(enabled: bool, native: bool, named: str, expected: int) -> None:
    member = {"labels": {"scheduling.podium.dev/pod-group": "g"}} if not native else {"group": "g"}
    plan = one_of(
        priority_class("gold", 4),
        priority_class("bronze", -4),
        group(
            "g",
            1,
            1,
            whole=True,
            native=native,
            annotations={"scheduling.podium.dev/preemption-priority-class": named},
        ),
        alone("g-0", **member),
        alone("other", priority=2),
        preemption_priority=enabled,
    )
    assert unit(plan, "g").priority == expected
    assert victims(plan) == (["other"] if expected > 2 else ["g-0"])
