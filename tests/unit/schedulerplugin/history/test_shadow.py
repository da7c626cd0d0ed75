"""The shadow: its plans for pods of other schedulers, and its comparison with their actions."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import group, node, pod

from podium.api.meta import Condition
from podium.api.podrequests import LATEST
from podium.api.records import Agreement, RecordedPlan
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.cluster.state import ClusterState, Readable
from podium.planner.deadline import NEVER
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.history.shadow import Shadow
from podium.schedulerplugin.scheduling.effects import Moment

OWN = "podium-scheduler"
WAIT = 60.0


class World:
    """A cluster of another scheduler, and the shadow that watches it."""

    def __init__(self, *objects: Readable) -> None:
        self.state = ClusterState(native_served=True)
        for each in objects:
            self.state.apply(each)
        self.seconds = 0.0
        self.told: list[RecordedPlan] = []
        self.shadow = Shadow(self.state, LiveSettings().engine, LATEST, OWN, deadline=lambda: NEVER)
        self.state.observe(self.shadow.apply)
        self.shadow.initialize()

    def step(self, later: float = 1.0) -> None:
        """Advance the clock by some seconds, and run the shadow."""
        self.seconds += later
        while (due := self.shadow.due()) is not None and due <= self.seconds:
            self.told += self.shadow.step(Moment(NOW + timedelta(seconds=self.seconds), self.seconds))

    def refuse(self, name: str, nominated: str = "") -> None:
        """Mark a pod as unschedulable as the other scheduler does, with its nominated node."""
        condition = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
        self._status(name, condition, nominatedNodeName=nominated or None)

    def tell_to_go(self, *names: str, by: str = "default-scheduler") -> None:
        """Mark victims as a scheduler does."""
        message = f"{by}: preempting to accommodate a higher priority pod"
        for name in names:
            self._status(name, Condition("DisruptionTarget", "True", "PreemptionByScheduler", message))

    def bind(self, name: str, where: str) -> None:
        found = self.pod(name)
        spec = msgspec.structs.replace(found.spec, nodeName=where)
        self.state.apply(msgspec.structs.replace(found, spec=spec))

    def remove(self, *names: str) -> None:
        for name in names:
            self.state.remove(self.pod(name))

    def pod(self, name: str) -> Schedulable:
        found = self.state.pods[NS, name]
        assert isinstance(found, Schedulable)
        return found

    def _status(self, name: str, condition: Condition, **fields: Any) -> None:
        found = self.pod(name)
        status = found.status or SchedulableStatus()
        others = [each for each in status.conditions or () if each.type != condition.type]
        status = msgspec.structs.replace(status, conditions=[*others, condition], **fields)
        self.state.apply(msgspec.structs.replace(found, status=status))

    @property
    def agreements(self) -> list[str]:
        return [each.agreement for each in self.told]


# Two nodes of two cpus; possible victims are `low` on n1, or both of `a` and `b` on n2.
CLUSTER: list[Readable] = [
    node("n1", 2),
    node("n2", 2),
    pod("low", 2, 1, node="n1"),
    pod("a", 1, 1, node="n2"),
    pod("b", 1, 1, node="n2"),
]


@dataclass
class Case:
    """The other scheduler's actions after the plan, and the expected report of them."""

    told: list[str]
    nominated: str = ""
    marks: list[str] = field(default_factory=list)
    ends: str = ""
    theirs: int = 0


CASES = {
    "the same victims": Case([Agreement.SAME], "n1", ["low"], "bound", 1),
    "the same victims, still waiting for them": Case([Agreement.SAME], "n1", ["low"], "", 1),
    "other victims": Case([Agreement.OTHER_VICTIMS], "n2", ["a", "b"], "bound", 2),
    "no victim, though it waited": Case([Agreement.THEY_DID_NOT]),
    "no victim, and a place was found": Case([Agreement.THEY_DID_NOT], ends="bound"),
    "the pod was deleted before": Case([Agreement.UNKNOWN], ends="deleted"),
    "the pod was deleted after": Case([Agreement.SAME], "n1", ["low"], "deleted", 1),
    "victims of another preemptor on another node": Case([Agreement.THEY_DID_NOT], "", ["a", "b"], "bound"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_result_of_the_other_scheduler_is_recorded(case: Case) -> None:
    world = World(*CLUSTER, pod("high", 2, 10))
    world.refuse("high")
    world.step()
    if case.nominated:
        world.refuse("high", case.nominated)
    world.tell_to_go(*case.marks)
    world.remove(*case.marks)
    match case.ends:
        case "bound":
            world.bind("high", case.nominated or "n1")
        case "deleted":
            world.remove("high")
        case _:
            world.step(WAIT - 2)
            assert world.told == [], "it has its time"
    world.step(2)
    assert world.agreements == case.told
    (plan,) = world.told
    assert (plan.mode, plan.result, plan.theirPods) == ("Shadow", "Planned", case.theirs)
    assert (plan.preemptor.name, [unit.name for unit in plan.units], plan.podCount) == ("high", ["low"], 1)


def test_a_schedulers_words_may_come_in_any_order() -> None:
    """Victims are marked and gone before their preemptor is known: both schedulers saw the same cluster."""
    world = World(*CLUSTER, pod("high", 2, 10))
    world.tell_to_go("low")
    world.remove("low")
    world.step()
    world.refuse("high", "n1")
    world.step()
    world.bind("high", "n1")
    world.step()
    assert world.agreements == [Agreement.SAME]
    assert world.told[0].podCount == 1


def test_a_pod_bound_before_its_plan_is_planned_for() -> None:
    """Without grace periods a scheduler takes milliseconds, so the shadow uses the earlier cluster."""
    world = World(node("n1", 2), pod("low", 2, 1, node="n1"), pod("high", 2, 10))
    world.refuse("high", "n1")
    world.tell_to_go("low")
    world.remove("low")
    world.bind("high", "n1")
    world.step()
    assert world.agreements == [Agreement.SAME]
    # The pod is watched again.
    world.state.apply(pod("next", 2, 20))
    world.refuse("next")
    world.step()
    world.step(WAIT)
    assert [unit.name for unit in world.told[1].units] == ["high"]


def test_one_after_the_other_in_no_time() -> None:
    """The room of one plan is not free for the next."""
    names = [f"high-{at}" for at in range(3)]
    lows = [pod(f"low-{at}", 2, 1, node=f"n{at}") for at in range(3)]
    world = World(*(node(f"n{at}", 2) for at in range(3)), *lows, *(pod(name, 2, 10) for name in names))
    for at, name in enumerate(names):
        world.refuse(name, f"n{at}")
        world.tell_to_go(f"low-{at}")
        world.remove(f"low-{at}")
        world.bind(name, f"n{at}")
        world.step(0.5)
    assert world.agreements == [Agreement.SAME] * 3


def test_a_pod_that_stopped_waiting_is_dropped() -> None:
    """More pods come and go than there are plans in the time."""
    names = [f"high-{at}" for at in range(40)]
    world = World(*CLUSTER, *(pod(name, 2, 10) for name in names))
    for name in names:
        world.refuse(name)
        world.remove(name)
    for _ in range(20):
        world.step(0.5)
    assert world.shadow.due() is None
    assert 5 < len(world.told) < 15


def test_a_plan_that_came_too_late() -> None:
    """The victims were gone for the shadow too: the plan saw another cluster than the scheduler did."""
    world = World(*CLUSTER, pod("high", 2, 10))
    world.tell_to_go("low")
    world.remove("low")
    world.step()
    world.step(10)
    world.refuse("high", "n1")
    world.step()
    world.bind("high", "n1")
    world.step()
    assert world.agreements == [Agreement.TOO_LATE]


def test_a_pod_with_a_victims_name_is_seen_in_time() -> None:
    """A new pod has a victim's name while that victim still counts as running."""
    world = World(*CLUSTER, pod("high", 2, 10))
    world.tell_to_go("low")
    world.remove("low")
    world.state.apply(pod("low", 2, 1, node="n1", uid="another"))
    world.step()
    world.step(10)
    world.refuse("high")
    world.step()
    world.step(WAIT)
    (plan,) = world.told
    assert (plan.agreement, [unit.uid for unit in plan.units]) == (Agreement.THEY_DID_NOT, ["another"])


def test_another_choice_among_equals_is_alike() -> None:
    world = World(
        *(node("n1", 2), node("n2", 2), pod("one", 2, 1, node="n1"), pod("two", 2, 1, node="n2")),
        pod("high", 2, 10),
    )
    world.refuse("high")
    world.step()
    world.refuse("high", "n2")
    world.tell_to_go("two")
    world.bind("high", "n2")
    world.step()
    assert world.agreements == [Agreement.ALIKE]


def test_they_preempt_where_podium_would_not() -> None:
    """A pod in kube-system is never a victim here, so the plan has only the preemptor."""
    low = builders.pod("low", {"cpu": 2}, namespace="kube-system", node="n1", priority=1)
    world = World(node("n1", 2), low, pod("high", 2, 10))
    world.refuse("high")
    world.step()
    condition = Condition(
        "DisruptionTarget", "True", "PreemptionByScheduler", "default-scheduler: preempting"
    )
    world.refuse("high", "n1")
    world.state.apply(msgspec.structs.replace(low, status=SchedulableStatus(conditions=[condition])))
    world.bind("high", "n1")
    world.step()
    (plan,) = world.told
    assert (plan.agreement, plan.units, plan.theirPods) == (Agreement.WE_WOULD_NOT, (), 1)


@pytest.mark.parametrize(
    ("objects", "refused"),
    [
        ([node("n1", 4), pod("high", 2, 10)], "high"),
        ([node("n1", 2), pod("low", 2, 10, node="n1"), pod("high", 2, 10)], "high"),
        ([*CLUSTER, pod("high", 2, 10, schedulingGates=[{"name": "x"}])], "high"),
        ([*CLUSTER, pod("high", 2, 10, schedulerName=OWN)], "high"),
        ([*CLUSTER, pod("high", 2, 10, group="missing")], "high"),
    ],
    ids=["there is room", "no pod is lower", "it is gated", "it is Podium's own", "its group is missing"],
)
def test_a_pod_that_cannot_preempt_has_no_shadow_plan(objects: list[Readable], refused: str) -> None:
    world = World(*objects)
    world.refuse(refused)
    world.step()
    world.step(2 * WAIT)
    assert world.told == []


def test_a_pod_not_tried_yet_is_not_planned_for() -> None:
    """Its scheduler has not tried it yet."""
    world = World(*CLUSTER, pod("high", 2, 10))
    assert world.shadow.due() is None


def test_a_pod_that_waited_before_the_shadow_is_planned_for() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    world = World(*CLUSTER, pod("high", 2, 10, status={"conditions": [condition]}))
    world.step()
    world.step(WAIT)
    assert world.agreements == [Agreement.THEY_DID_NOT]


def test_an_entry_is_planned_for_once_until_it_waits_no_more() -> None:
    """Every attempt of its scheduler repeats that it is unschedulable."""
    world = World(*CLUSTER, pod("high", 2, 10))
    for _ in range(5):
        world.refuse("high")
        world.step(WAIT)
    assert world.agreements == [Agreement.THEY_DID_NOT]
    world.remove("high")
    world.step()
    world.state.apply(pod("high", 2, 10))
    world.refuse("high")
    world.step()
    world.step(WAIT)
    assert world.agreements == [Agreement.THEY_DID_NOT] * 2


def test_plans_are_made_at_a_pace() -> None:
    """The shadow makes one plan in half a second for any number of waiting pods: it shares a loop."""
    names = [f"high-{at}" for at in range(10)]
    world = World(*CLUSTER, *(pod(name, 2, 10) for name in names))
    for name in names:
        world.refuse(name)
    world.step(0)
    assert world.shadow.due() == 0.5
    world.step(4)
    assert world.shadow.due() is not None
    world.step(2 * WAIT)
    world.step(2 * WAIT)
    assert len(world.told) < len(names)


def test_a_group_is_planned_for_as_a_whole() -> None:
    """The victims are a group too, whose members on other nodes are also evicted."""
    objects: list[Readable] = [
        *(node("n1", 1), node("n2", 1), node("n3", 1), group("low", 1, 3, whole=True), group("high", 10, 2)),
        *(pod(f"low-{at}", 1, 1, node=f"n{at + 1}", group="low") for at in range(3)),
        *(pod(f"high-{at}", 1, 10, group="high") for at in range(2)),
    ]
    world = World(*objects)
    world.refuse("high-0")
    world.refuse("high-1")
    world.step()
    world.refuse("high-0", "n1")
    world.refuse("high-1", "n2")
    world.tell_to_go("low-0", "low-1", "low-2")
    world.remove("low-0", "low-1", "low-2")
    world.bind("high-0", "n1")
    world.step()
    (plan,) = world.told
    assert (plan.agreement, plan.preemptor.kind, plan.preemptor.pods) == (Agreement.SAME, "PodGroup", 2)
    assert [(unit.kind, unit.name, unit.pods) for unit in plan.units] == [("PodGroup", "low", 3)]
    assert plan.theirPods == 3


def test_podiums_own_evictions_are_not_attributed_to_others() -> None:
    world = World(*CLUSTER, pod("high", 2, 10))
    world.refuse("high")
    world.step()
    world.refuse("high", "n1")
    world.tell_to_go("low", by=OWN)
    world.bind("high", "n1")
    world.step()
    assert world.agreements == [Agreement.THEY_DID_NOT]


def test_a_victim_counts_for_one_preemptor() -> None:
    """Two that were nominated to one node, one after the other."""
    world = World(*CLUSTER, pod("first", 2, 10), pod("second", 2, 10))
    for name in ("first", "second"):
        world.refuse(name)
        world.step()
    world.refuse("first", "n1")
    world.tell_to_go("low")
    world.bind("first", "n1")
    world.step()
    world.refuse("second", "n1")
    world.bind("second", "n1")
    world.step()
    assert [(each.preemptor.name, each.theirPods) for each in world.told] == [("first", 1), ("second", 0)]


NAMES = ("low", "a", "b", "high", "g-0", "g-1")
OPERATIONS = st.tuples(
    st.sampled_from(["refuse", "nominate", "mark", "remove", "bind", "make", "step", "step", "wait"]),
    st.sampled_from(NAMES),
    st.sampled_from(["n1", "n2"]),
)


def made(name: str) -> Schedulable:
    """Make a pod of the random tests: a preemptor, a member of a preempting group, or a running pod."""
    uid = uuid4().hex
    if name.startswith("g-"):
        return pod(name, 1, 8, group="g", uid=uid)
    if name == "high":
        return pod(name, 2, 10, uid=uid)
    return pod(name, 2 if name == "low" else 1, 1, node="n1" if name == "low" else "n2", uid=uid)


@given(st.lists(OPERATIONS, max_size=40))
def test_whatever_happens_it_follows(operations: list[tuple[str, str, str]]) -> None:
    """When all is quiet its state equals the cluster's, nothing waits for ever, and its reports agree."""
    world = World(node("n1", 2), node("n2", 2), group("g", 8, 2), *map(made, NAMES))
    for operation, name, where in operations:
        there = (NS, name) in world.state.pods
        match operation:
            case "step":
                world.step(0.3)
            case "wait":
                world.step(WAIT)
            case "make":
                if not there:
                    world.state.apply(made(name))
            case _ if not there:
                continue
            case "refuse":
                world.refuse(name)
            case "nominate":
                world.refuse(name, where)
            case "mark":
                world.tell_to_go(name)
            case "remove":
                world.remove(name)
            case _:
                world.bind(name, where)
    for _ in range(20):
        world.step(WAIT)
    assert world.shadow.due() is None
    assert world.shadow._state.pods == world.state.pods
    for plan in world.told:
        theirs, ours = plan.theirPods > 0, plan.podCount > 0
        assert theirs == (plan.agreement not in (Agreement.THEY_DID_NOT, Agreement.UNKNOWN))
        assert ours == (plan.agreement != Agreement.WE_WOULD_NOT) or plan.agreement == Agreement.TOO_LATE
