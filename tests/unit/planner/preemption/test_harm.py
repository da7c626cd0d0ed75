"""The harm of a plan: under every rule the same sums over the victims."""

from typing import Any

import pytest
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, time_of
from tests.support.preemption.scene import SECONDS, engine_of, gang, group, node, of, planned, pod, victims
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.core import PriorityClass
from podium.api.meta import ObjectMeta
from podium.api.saving import (
    CHECKPOINT,
    CHECKPOINT_INTERVAL,
    LONGEST_WAIT,
    RESTART_TIME,
    SAVES_ON_NOTICE,
    SAVES_ON_TERMINATION,
)
from podium.cluster.state import ClusterState
from podium.history.trust import distrust
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import HarmLevel, Outcome, PlanHarm
from podium.planner.semantics import Semantics
from podium.schedulerplugin.scheduling.verdicts import eviction

GPU = "nvidia.com/gpu"
APP = {"app": "a"}
NODE = node("n1", room={GPU: 8})


def low(name: str, gpus: int, *, priority: int = 1, ago: int = 600, where: str = "n1", **kwargs: Any) -> Any:
    """Make a running pod that holds accelerators, and started so many seconds `ago`."""
    requests = {"cpu": 1, GPU: gpus}
    start = time_of(SECONDS - ago)
    return builders.pod(name, requests, priority=priority, start=start, node=where, **kwargs)


def high(gpus: int, **kwargs: Any) -> Any:
    return builders.pod("high", {"cpu": 1, GPU: gpus}, priority=9, **kwargs)


def harm_of(violations: int, work: int, *levels: tuple[int, int, int], saved: int = 0) -> PlanHarm:
    return PlanHarm(violations, tuple(HarmLevel(*each) for each in levels), work, saved)


CASES: dict[str, tuple[list[Any], PlanHarm]] = {
    "a pod": ([low("a", 8), high(8)], harm_of(0, 4_800, (1, 1, 1))),
    "pods of two priorities, the highest first": (
        [low("a", 4, priority=1), low("b", 4, priority=3, ago=60), high(8)],
        harm_of(0, 2_640, (3, 1, 1), (1, 1, 1)),
    ),
    "a whole group is one unit": (
        [group("g", 1, 2, whole=True), [low(f"g-{at}", 4, group="g") for at in range(2)], high(8)],
        harm_of(0, 4_800, (1, 1, 2)),
    ),
    "pods without accelerators": (
        [pod("a", 4, 1, node="n1", ago=600), pod("high", 4, 9)],
        harm_of(0, 0, (1, 1, 1)),
    ),
    "a pod that has not started": ([low("a", 8, ago=-60), high(8)], harm_of(0, 0, (1, 1, 1))),
    "a budget that allows one of two": (
        [low("a", 4, labels=APP), low("b", 4, labels=APP), budget(allowed=1), high(8)],
        harm_of(1, 4_800, (1, 2, 2)),
    ),
}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(("objects", "expected"), CASES.values(), ids=list(CASES))
def test_harm_of_a_plan(objects: list[Any], expected: PlanHarm, semantics: Semantics) -> None:
    plan = planned(NODE, *objects, semantics=semantics)
    if semantics is Semantics.PODS or semantics is Semantics.V1_36:
        # Under these rules a lone preemptor's only units are pods.
        expected = PlanHarm(
            expected.violations,
            tuple(HarmLevel(each.priority, each.pods, each.pods) for each in expected.levels),
            expected.acceleratorSeconds,
        )
    assert plan.harm == expected
    assert (plan.harm.units, plan.harm.pods) == (
        len(plan.victims),
        sum(len(unit.pods) for unit in plan.victims),
    )


@pytest.mark.parametrize(
    ("own", "of_group", "seconds"),
    [
        ({CHECKPOINT: time_of(SECONDS - 10)}, {}, 10),
        ({CHECKPOINT: time_of(SECONDS - 10), CHECKPOINT_INTERVAL: "3s"}, {}, 10),
        ({CHECKPOINT: time_of(SECONDS - 900), CHECKPOINT_INTERVAL: "7m"}, {}, 180),
        ({CHECKPOINT_INTERVAL: "7m"}, {}, 180),
        ({SAVES_ON_TERMINATION: "20s"}, {}, 20),
        ({SAVES_ON_TERMINATION: "20s", CHECKPOINT: time_of(SECONDS - 10)}, {}, 10),
        ({SAVES_ON_TERMINATION: "31s"}, {}, 600),
        ({SAVES_ON_TERMINATION: "soon"}, {}, 600),
        ({SAVES_ON_NOTICE: "45s"}, {}, 45),
        ({SAVES_ON_NOTICE: "45s", SAVES_ON_TERMINATION: "20s"}, {}, 20),
        ({SAVES_ON_NOTICE: "61s"}, {}, 600),
        ({RESTART_TIME: "2m"}, {}, 600),
        ({SAVES_ON_TERMINATION: "20s", RESTART_TIME: "2h"}, {}, 600),
        ({SAVES_ON_TERMINATION: "20s", RESTART_TIME: "2m"}, {}, 140),
        ({}, {SAVES_ON_TERMINATION: "20s", RESTART_TIME: "2m"}, 140),
        ({SAVES_ON_TERMINATION: "10s"}, {SAVES_ON_TERMINATION: "20s", RESTART_TIME: "2m"}, 130),
    ],
    ids=[
        "the last checkpoint",
        "a checkpoint counts before the interval",
        "a checkpoint of an earlier pod leaves the interval",
        "the interval from the start",
        "it saves its work",
        "it saves its work, and did so a moment ago",
        "it needs more than its grace period",
        "no duration",
        "it saves its work on notice",
        "it saves its work sooner after SIGTERM",
        "it needs a longer notice than the scheduler gives",
        "a restart alone is no reason to stay",
        "it says that it cannot restart soon",
        "it saves its work, and restarts",
        "its group says so",
        "its own annotation counts before its group's",
    ],
)
def test_work_that_is_lost_follows_from_the_declaration(
    own: dict[str, str], of_group: dict[str, str], seconds: int
) -> None:
    running, team = low("a", 8, group="g"), group("g", 1, 1)
    running.metadata.annotations, team.metadata.annotations = own, of_group
    plan = planned(NODE, team, running, high(8))
    assert plan.harm == harm_of(0, 8 * seconds, (1, 1, 1), saved=8 * (600 - seconds))


def test_a_longer_grace_period_leaves_more_time_to_save() -> None:
    running = low("a", 8, terminationGracePeriodSeconds=120)
    running.metadata.annotations = {SAVES_ON_TERMINATION: "2m"}
    assert planned(NODE, running, high(8)).harm == harm_of(0, 960, (1, 1, 1), saved=3_840)


def test_a_pod_that_has_not_started_has_no_restart() -> None:
    waiting = low("a", 8, ago=-60)
    waiting.metadata.annotations = {RESTART_TIME: "2m"}
    assert planned(NODE, waiting, high(8)).harm == harm_of(0, 0, (1, 1, 1))


def test_a_start_costs_the_time_of_the_settings_unless_the_pod_declares_it() -> None:
    plain, declared = low("plain", 4), low("declared", 4)
    declared.metadata.annotations = {RESTART_TIME: "2m"}
    plan = planned(NODE, plain, declared, high(8), pod_start_seconds=300)
    assert plan.harm == harm_of(0, 4 * 900 + 4 * 720, (1, 2, 2), saved=4 * 180)


@pytest.mark.parametrize(("start_seconds", "evicted"), [(0, 4), (300, 1)])
def test_with_a_price_of_starts_fewer_pods_are_evicted(start_seconds: int, evicted: int) -> None:
    """A gang of four that began a minute ago loses less work than a pod of ten minutes, and four starts."""
    nodes = [node(f"n{at}", room={GPU: 8}) for at in range(1, 6)]
    team = [low(f"g-{at}", 8, ago=60, where=f"n{at}", group="g") for at in range(1, 5)]
    lone = low("lone", 8, where="n5")
    plan = planned(nodes, group("g", 1, 4, whole=True), team, lone, high(8), pod_start_seconds=start_seconds)
    assert len(victims(plan)) == evicted


@pytest.mark.parametrize(
    ("of_pods", "semantics", "reason"),
    [
        (({}, {}), Semantics.KEP, ""),
        (({SAVES_ON_TERMINATION: "20s"}, {}), Semantics.KEP, ""),
        (
            ({SAVES_ON_TERMINATION: "20s"}, {SAVES_ON_TERMINATION: "30s"}),
            Semantics.KEP,
            "; it saves its work within 30 s after SIGTERM",
        ),
        (
            ({SAVES_ON_NOTICE: "20s"}, {SAVES_ON_TERMINATION: "30s"}),
            Semantics.KEP,
            "; it is asked first, and saves its work within 30 s",
        ),
        (({SAVES_ON_NOTICE: "20s"}, {SAVES_ON_NOTICE: "61s"}), Semantics.KEP, ""),
        (({SAVES_ON_NOTICE: "20s"}, {SAVES_ON_NOTICE: "20s"}), Semantics.V1_38, ""),
    ],
    ids=[
        "nothing declared",
        "one of two members",
        "after SIGTERM",
        "one of them on notice",
        "longer than the scheduler waits",
        "kube-scheduler asks no workload",
    ],
)
def test_a_plan_says_how_a_victim_saves_its_work(
    of_pods: tuple[dict[str, str], ...], semantics: Semantics, reason: str
) -> None:
    members = [low(f"g-{at}", 4, group="g") for at in range(2)]
    for member, annotations in zip(members, of_pods, strict=True):
        member.metadata.annotations = annotations
    plan = planned(NODE, group("g", 1, 2, whole=True), members, high(8), semantics=semantics)
    assert {unit.reason for unit in plan.victims} == {f"its {GPU} on n1 is needed{reason}"}


def test_the_workload_that_saves_its_work_is_evicted() -> None:
    """It began long before the other one, which loses ten minutes."""
    saving, other = low("saving", 8, ago=90_000), low("other", 8, where="n2")
    saving.metadata.annotations = {SAVES_ON_TERMINATION: "20s"}
    plan = planned(NODE, node("n2", room={GPU: 8}), saving, other, high(8))
    assert victims(plan) == ["saving"]


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("objects", "outcome"),
    [
        ([high(8)], Outcome.FITS),
        ([low("a", 8), high(9)], Outcome.DOES_NOT_FIT),
        ([low("a", 8), high(8, preemptionPolicy="Never")], Outcome.NOT_ELIGIBLE),
    ],
    ids=["it fits", "it does not fit", "it may not preempt"],
)
def test_without_eviction_there_is_no_harm(
    objects: list[Any], outcome: Outcome, semantics: Semantics
) -> None:
    plan = planned(NODE, *objects, semantics=semantics)
    assert (plan.outcome, plan.harm) == (outcome, None)


def test_a_gang_of_mode_pod_violates_what_its_victims_violate_together() -> None:
    """Each member alone would stay within the budget."""
    plan = planned(
        [node(f"n{at}") for at in range(2)],
        [pod(f"low-{at}", 4, 1, node=f"n{at}", ago=60, labels=APP) for at in range(2)],
        budget(allowed=1),
        group("high", 9, 2),
        gang("high", [None, None], 4, priority=9),
        by=of("high"),
        semantics=Semantics.PODS,
    )
    assert plan.harm == harm_of(1, 0, (1, 2, 2))


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(("objects", "_expected"), CASES.values(), ids=list(CASES))
def test_the_scheduler_records_the_harm_that_whatif_shows(
    objects: list[Any], _expected: PlanHarm, semantics: Semantics
) -> None:
    engine = engine_of(NODE, *objects, semantics=semantics)
    key = (builders.NS, "high")
    decision = engine.decide(key, NOW)
    shown = engine.explain(decision, NOW).harm
    evict = eviction(engine, key, decision, SECONDS, "")
    assert shown is not None
    assert (evict.violations, evict.work) == (shown.violations, shown.acceleratorSeconds)
    assert evict.saved == shown.acceleratorSecondsSaved == sum(unit.saves for unit in evict.units)
    assert (len(evict.units), len(evict.victims)) == (shown.units, shown.pods)


def distrusting(*objects: Any) -> tuple[Engine, ClusterState]:
    """Return an engine that follows its state, and the state."""
    engine = engine_of(*objects)
    state = engine.view
    assert isinstance(state, ClusterState)
    state.observe(engine.apply)
    return engine, state


@pytest.mark.parametrize("declared", [{SAVES_ON_NOTICE: "45s"}, {SAVES_ON_TERMINATION: "20s"}])
@pytest.mark.parametrize("ago", [600, 10])
def test_a_workload_that_is_not_trusted_costs_as_much_as_without_a_declaration(
    declared: dict[str, str], ago: int
) -> None:
    """The plan says so. Workloads of the name in another namespace, or of another kind, are others."""
    running = low("a", 8, ago=ago)
    running.metadata.annotations = declared
    engine, state = distrusting(NODE, running, high(8))
    shown = []
    for untrusted in (
        {("Pod", "team-b", "a"), ("Job", builders.NS, "a")},
        {("Pod", builders.NS, "a")},
        set(),
    ):
        distrust(state, frozenset(untrusted))
        plan = engine.plan((builders.NS, "high"), NOW)
        assert plan.harm is not None
        shown.append((plan.harm.acceleratorSeconds, plan.victims[0].reason.partition("; ")[2]))
    others, distrusted, forgiven = shown
    assert distrusted == (8 * ago, "it declares to save its work, and failed to 2 times in a row")
    assert others == forgiven
    assert forgiven[0] <= distrusted[0]


def test_another_workload_is_evicted_in_place_of_one_that_is_not_trusted() -> None:
    saving, other = low("saving", 8, ago=90_000), low("other", 8, where="n2")
    saving.metadata.annotations = {SAVES_ON_NOTICE: "20s"}
    engine, state = distrusting(NODE, node("n2", room={GPU: 8}), saving, other, high(8))
    assert victims(engine.plan((builders.NS, "high"), NOW)) == ["saving"]
    distrust(state, frozenset({("Pod", builders.NS, "saving")}))
    assert victims(engine.plan((builders.NS, "high"), NOW)) == ["other"]


@pytest.mark.parametrize(
    ("limit", "priority", "asked"),
    [
        ({}, 9, True),
        ({LONGEST_WAIT: "20s"}, 9, True),
        ({LONGEST_WAIT: "19s"}, 9, False),
        ({}, 2_000_000_000, False),
    ],
    ids=["no limit", "long enough", "too short", "a system class"],
)
def test_a_plan_says_that_a_victim_is_asked_only_if_the_preemptor_waits(
    limit: dict[str, str], priority: int, asked: bool
) -> None:
    running = low("a", 8)
    running.metadata.annotations = {SAVES_ON_NOTICE: "20s"}
    waiting = builders.pod("high", {"cpu": 1, GPU: 8}, priority=priority, priorityClassName="fast")
    fast = PriorityClass(metadata=ObjectMeta(name="fast", annotations=limit), value=priority)
    (victim,) = planned(NODE, fast, running, waiting).victims
    assert ("asked first" in victim.reason) is asked


@pytest.mark.parametrize("semantics", Semantics)
def test_budgets_are_charged_by_the_victims_alone(semantics: Semantics) -> None:
    """The releases charge `kept` first, although it is reprieved."""
    plan = planned(
        node("n1"),
        pod("kept", 1, 1, node="n1", ago=90, labels=APP),
        pod("taken", 3, 1, node="n1", ago=60, labels=APP),
        budget(allowed=1),
        pod("high", 3, 9),
        semantics=semantics,
    )
    assert plan.harm == harm_of(0, 0, (1, 1, 1))
    assert [unit.violatesBudget for unit in plan.victims] == [semantics is not Semantics.KEP]


@pytest.mark.parametrize("members", [1, 2, 5])
def test_lone_pods_go_rather_than_a_larger_gang_of_their_priority(members: int) -> None:
    """Source: KEP-5710, "minimize (the cost of) preemptions"."""
    nodes = [node(f"n{at}", 1) for at in range(50 + members)]
    big = gang("big", [f"n{at}" for at in range(50)], 1, priority=1, ago=3_600)
    lone = [pod(f"lone-{at}", 1, 1, node=f"n{50 + at}", ago=3_600) for at in range(members)]
    preemptor = [group("high", 10, members), *gang("high", [None] * members, 1, priority=10)]
    plan = planned(nodes, group("big", 1, 50, whole=True), big, lone, preemptor, by=of("high"))
    assert victims(plan) == [f"lone-{at}" for at in range(members)]
