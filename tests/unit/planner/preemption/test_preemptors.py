"""The pods and groups that may preempt, and those refused: gates, policies, unknown demands, divergence."""

from typing import Any

import pytest
from tests.support.filters.builders import claim
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

from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics
from podium.planner.settings import DivergencePolicy

FULL = [node("n1"), pod("low", 4, 0, node="n1", ago=60)]
NEVER = "not eligible due to preemptionPolicy=Never."
# The pod's message without preemption.
REFUSED = "0/1 nodes are available: 1 Insufficient cpu."


def for_pod(*more: Any, semantics: Semantics = Semantics.KEP, **fields: Any) -> Plan:
    return planned(FULL, more, pod("high", 2, 5, **fields), semantics=semantics)


def for_group(*more: Any, by_group: dict[str, Any] | None = None, **fields: Any) -> Plan:
    mine = [group("high", 5, 1, **by_group or {}), gang("high", [None], 2, priority=5, **fields)]
    return planned(FULL, more, mine, by=of("high"))


# preemptionPolicy Never.


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(for_pod(preemptionPolicy="Never"), id="of a pod"),
        pytest.param(
            for_pod(priority_class("calm", 5, preemptionPolicy="Never"), priorityClassName="calm"),
            id="of a pod's class, where the pod has none yet",
        ),
        pytest.param(for_group(by_group={"preemption_policy": "Never"}), id="of a group"),
        pytest.param(
            for_group(
                priority_class("calm", 5, preemptionPolicy="Never"), by_group={"priority_class_name": "calm"}
            ),
            id="of a group's class, where the group has none",
        ),
        pytest.param(for_group(preemptionPolicy="Never"), id="of a member"),
    ],
)
def test_policy_never_preempts_no_pod(plan: Plan) -> None:
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert victims(plan) == []
    assert plan.message == f"{NEVER} {REFUSED}"


def test_a_pods_own_policy_wins_over_its_class() -> None:
    plan = for_pod(
        priority_class("calm", 5, preemptionPolicy="Never"),
        priorityClassName="calm",
        preemptionPolicy="PreemptLowerPriority",
    )
    assert victims(plan) == ["low"]


@pytest.mark.parametrize("semantics", Semantics)
def test_never_takes_free_room_and_room_that_is_about_to_be_free(semantics: Semantics) -> None:
    free = planned(node("n1"), pod("high", 2, 5, preemptionPolicy="Never"), semantics=semantics)
    assert free.outcome is Outcome.FITS
    going = planned(
        node("n1"),
        pod("going", 4, 0, node="n1", terminating=True),
        pod("high", 2, 5, preemptionPolicy="Never"),
    )
    assert (going.outcome, victims(going)) == (Outcome.FITS_AFTER_PREEMPTION, [])


# Gates.


def test_a_gated_pod_is_no_preemptor() -> None:
    """A gated pod gets not even free room: Kueue and others hold it on purpose."""
    plan = planned(node("n1"), pod("high", 2, 5, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert plan.message == "it is held by scheduling gates: kueue.x-k8s.io/admission (waiting for Kueue)"


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("least", [1, 2, 3, None])
def test_one_gated_member_holds_its_whole_group_from_1_37_on(semantics: Semantics, least: int | None) -> None:
    """Although enough other members could be placed; other semantics place these."""
    gated = pod("held", 1, group="high", schedulingGates=[{"name": "a"}, {"name": "b"}])
    cluster = node("n1"), group("high", 5, least), gang("high", [None, None], 1, priority=5), gated
    plan = planned(*cluster, by=of("high"), semantics=semantics)
    if semantics in (Semantics.V1_37, Semantics.V1_38):
        held = f"kube-scheduler {semantics} holds the whole group: 1 pod held by scheduling gates: a, b"
        assert (plan.outcome, plan.message) == (Outcome.NOT_ELIGIBLE, held)
    else:
        assert (plan.outcome is Outcome.FITS) is (least != 3)


@pytest.mark.parametrize("semantics", Semantics)
def test_a_gated_member_that_comes_late_holds_the_others_from_1_37_on(semantics: Semantics) -> None:
    """Running members keep their places; a pending member gets none."""
    gated = pod("held", 1, group="high", schedulingGates=[{"name": "a"}])
    cluster = node("n1"), group("high", 5, 1), gang("high", ["n1", None], 1, priority=5), gated
    plan = planned(*cluster, by=of("high"), semantics=semantics)
    assert (plan.outcome is Outcome.FITS) is (semantics not in (Semantics.V1_37, Semantics.V1_38))


def test_gated_members_do_not_count_toward_min_count() -> None:
    gate = [{"name": "kueue.x-k8s.io/topology"}]
    mine = [gang("high", [None, None], 1), pod("held", 1, group="high", schedulingGates=gate)]
    waits = planned(node("n1"), group("high", 5, 3), mine, by=of("high"))
    assert waits.outcome is Outcome.NOT_ELIGIBLE
    assert waits.message == (
        "2 pods can be placed and 0 run, minCount is 3: 1 pod held by scheduling gates: "
        "kueue.x-k8s.io/topology (waiting for Kueue)"
    )
    goes = planned(node("n1"), group("high", 5, 2), mine, by=of("high"))
    assert set(placed(goes)) == {"high-0", "high-1"}


# Preemptors that cannot be planned for are refused by name.

UNKNOWN: dict[str, Any] = {"tolerations": [{"key": "a", "operator": "Lt", "value": "1"}]}
VOLUME: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_a_pod_with_an_unsupported_demand_is_refused_by_name() -> None:
    for plan in (for_pod(**UNKNOWN), for_group(**UNKNOWN)):
        assert plan.outcome is Outcome.NOT_JUDGED
        assert "cannot be judged: " in plan.message
        assert "the toleration operator Lt" in plan.message
        assert victims(plan) == []


@pytest.mark.parametrize("claims", [[], [claim("data")]], ids=["no claim", "an unbound claim"])
def test_no_unit_is_evicted_for_a_pod_that_its_claim_refuses(claims: list[Any]) -> None:
    why = (
        "pod has unbound immediate PersistentVolumeClaims"
        if claims
        else 'persistentvolumeclaim "data" not found'
    )
    for plan in (for_pod(claims, **VOLUME), for_group(claims, **VOLUME)):
        assert plan.outcome is Outcome.DOES_NOT_FIT
        assert plan.message.endswith(f"0/1 nodes are available: {why}.")
        assert victims(plan) == []


@pytest.mark.parametrize("demand", ["resource claims", "a composite group"])
def test_a_group_with_an_unsupported_demand_is_refused_by_name(demand: str) -> None:
    plan = for_group(by_group={"demands": (demand,)})
    assert plan.outcome is Outcome.NOT_JUDGED
    assert plan.message == f"the group has what cannot be judged: {demand}"


def test_members_with_unsupported_demands_are_left_out_if_the_others_are_enough() -> None:
    odd = pod("odd", 1, 5, group="high", **UNKNOWN)
    plan = for_group(odd)
    assert (victims(plan), set(placed(plan))) == (["low"], {"high-0"})


# Divergence: pods of another priority than their group's.

DIVERGES = (Condition("PodsNotMatchingPriority", "True", "PriorityMismatch"),)
DIVERGENT: dict[str, tuple[list[Any], str]] = {
    "pods of another priority": ([group("high", 5, 1), gang("high", [None], 2, priority=1)], ""),
    "the condition alone": (
        [group("high", 5, 1, conditions=DIVERGES), gang("high", [None], 2, priority=5)],
        "its condition PodsNotMatchingPriority is True",
    ),
}


@pytest.mark.parametrize(
    ("policy", "full", "free"),
    [
        (DivergencePolicy.USE_GROUP_PRIORITY, Outcome.FITS_AFTER_PREEMPTION, Outcome.FITS),
        (DivergencePolicy.NO_PREEMPTION, Outcome.NOT_ELIGIBLE, Outcome.FITS),
        (DivergencePolicy.HOLD, Outcome.NOT_ELIGIBLE, Outcome.NOT_ELIGIBLE),
    ],
)
@pytest.mark.parametrize(("diverges", "named"), DIVERGENT.values(), ids=DIVERGENT)
def test_a_divergent_group_preempts_and_takes_free_room_as_its_policy_allows(
    diverges: list[Any], named: str, policy: DivergencePolicy, full: Outcome, free: Outcome
) -> None:
    plan = planned(FULL, diverges, by=of("high"), divergence=policy)
    assert plan.outcome is full
    assert victims(plan) == (["low"] if full is Outcome.FITS_AFTER_PREEMPTION else [])
    if full is Outcome.NOT_ELIGIBLE:
        assert policy in plan.message
        assert named in plan.message
    assert planned(node("n1"), diverges, by=of("high"), divergence=policy).outcome is free


def test_the_condition_takes_no_protection_from_a_running_group() -> None:
    """Otherwise any writer of a status could have the group evicted."""
    runs = [group("runs", 9, 1, conditions=DIVERGES), gang("runs", ["n1"], 4, priority=9)]
    plan = planned(node("n1"), runs, pod("high", 2, 5), divergence=DivergencePolicy.NO_PREEMPTION)
    assert victims(plan) == []


def test_a_group_with_an_unresolved_class_preempts_no_pod() -> None:
    unresolved = [group("high", None, 1, priority_class_name="gold"), gang("high", [None], 2, priority=0)]
    cluster = node("n1"), pod("low", 4, -5, node="n1"), priority_class("gold", 5), unresolved
    plan = planned(*cluster, by=of("high"), divergence=DivergencePolicy.NO_PREEMPTION)
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert "never resolved" in plan.message


@pytest.mark.parametrize("policy", DivergencePolicy)
@pytest.mark.parametrize(("preemptor", "evicted"), [(9, 0), (10, 8)])
def test_a_divergent_group_is_protected_at_its_own_integer(
    policy: DivergencePolicy, preemptor: int, evicted: int
) -> None:
    """KEP-5710: the priority of a pod of a group is ignored, so one low member gives the group to no one."""
    nodes = [f"n{at}" for at in range(8)]
    runs = [
        group("runs", 9, 8, whole=True),
        gang("runs", nodes[:7], 4, priority=9),
        pod("low", 4, 1, node="n7", group="runs"),
    ]
    plan = planned([node(name) for name in nodes], runs, pod("high", 4, preemptor), divergence=policy)
    assert len(victims(plan)) == evicted


# The possible preemptors of a query.


@pytest.mark.parametrize(
    ("by", "words"),
    [
        pytest.param(("team-a", "nobody"), "pod team-a/nobody: there is no such pod", id="no such pod"),
        pytest.param(("team-a", "low"), "pod team-a/low: it runs on node n1 already", id="it runs"),
        pytest.param(("team-a", "done"), "pod team-a/done: it has run to its end", id="it has finished"),
        pytest.param(of("none"), "pod group team-a/none: there is no such group", id="no such group"),
        pytest.param(of("runs"), "pod group team-a/runs: no member is pending", id="all members run"),
    ],
)
def test_a_target_that_is_not_pending_is_an_error(by: Any, words: str) -> None:
    cluster = [FULL, pod("done", 1, phase="Failed"), group("runs", 5, 1), gang("runs", ["n1"], 0, priority=5)]
    with pytest.raises(PodiumError, match=words):
        planned(cluster, by=by)


def test_a_request_for_a_member_is_one_for_its_group() -> None:
    mine = [group("high", 5, 2), gang("high", [None, None], 2, priority=5)]
    plan = planned(FULL, mine, by="high-1")
    assert set(placed(plan)) == {"high-0", "high-1"}


def test_a_pod_waits_for_a_group_that_does_not_exist() -> None:
    plan = for_pod(group="gone")
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert plan.message == "waiting for the pod group team-a/gone, which does not exist"


def test_a_pod_that_is_being_deleted_is_no_preemptor() -> None:
    plan = for_pod(terminating=True)
    assert (plan.outcome, plan.message) == (Outcome.NOT_ELIGIBLE, "it is being deleted")
