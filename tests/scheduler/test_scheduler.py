"""The scheduler without a cluster: what it does for a few objects, and what when a write fails."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.preemption.scene import group, node, priority_class
from tests.scheduler.rig import World, pod

from podium.schedulerplugin.scheduling.effects import Bind, Evict, Spare
from podium.schedulerplugin.scheduling.settings import LiveSettings, Mode
from podium.schedulerplugin.settings import DivergencePolicy, Settings


def gang(name: str, *, size: int, cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> list[Any]:
    """Make members of a group, pending."""
    return [pod(f"{name}-{at}", cpu, priority, group=name, **kwargs) for at in range(size)]


def running(name: str, where: str, cpu: str | int = 1, priority: int = 0, **kwargs: Any) -> Any:
    """Make a pod of ours that runs."""
    return pod(name, cpu, priority, node=where, **kwargs)


@dataclass
class Case:
    """Objects that are there, and what becomes of them."""

    objects: list[Any]
    bound: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    message: dict[str, str] = field(default_factory=dict)


CASES = {
    "a pod is bound where there is room": Case([node(), pod("a")], {"a": "n1"}),
    "a pod of another scheduler is let alone": Case([node(), pod("a", schedulerName="other")]),
    "the higher priority goes first": Case(
        [node(cpu=1), pod("low", 1, 1), pod("high", 1, 2)], {"high": "n1"}
    ),
    "a gang is bound as a whole": Case(
        [node(cpu=2), group("g", least=2), *gang("g", size=2)], {"g-0": "n1", "g-1": "n1"}
    ),
    "of a gang nobody is bound where not all fit": Case(
        [node(cpu=1), group("g", least=2), *gang("g", size=2)],
        message={
            "g-0": "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            "No preemption victims found for incoming preemptor."
        },
    ),
    "what fits of a group beyond minCount is bound": Case(
        [node(cpu=2), group("g", least=1), *gang("g", size=3)], {"g-0": "n1", "g-1": "n1"}
    ),
    "fewer members than minCount wait": Case(
        [node(), group("g", least=3), *gang("g", size=2)],
        message={"g-0": "waiting for minCount pods: 2 pods can be placed and 0 run, minCount is 3"},
    ),
    "members of no group wait for it": Case(
        [node(), *gang("g", size=1)],
        message={"g-0": "waiting for the pod group team-a/g, which does not exist"},
    ),
    "a pod with a scheduling gate is told nothing": Case(
        [node(), pod("a", schedulingGates=[{"name": "x"}])], message={"a": ""}
    ),
    "what cannot be judged stays pending": Case(
        [node(), pod("a", resourceClaims=[{}])],
        message={"a": "what it asks for cannot be judged: resource claims"},
    ),
    "lower priority is evicted": Case(
        [node(cpu=1), running("low", "n1"), pod("high", 1, 10)], {"high": "n1"}, ["low"]
    ),
    "equal priority is not": Case(
        [node(cpu=1), running("low", "n1", priority=10), pod("high", 1, 10)],
        {"low": "n1"},
        message={
            "high": "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            "No preemption victims found for incoming preemptor."
        },
    ),
    "pods of another scheduler are not evicted": Case(
        [node(cpu=1), running("low", "n1", schedulerName="other"), pod("high", 1, 10)], {"low": "n1"}
    ),
    "nobody is evicted in kube-system": Case(
        [node(cpu=1), running("low", "n1", namespace="kube-system"), pod("high", 1, 10)], {"low": "n1"}
    ),
    "a gang takes free and freed room at once": Case(
        [
            *(node("n1", 1), node("n2", 1), running("low", "n1")),
            *(group("g", 10, 2), *gang("g", size=2, priority=10)),
        ],
        {"g-0": "n1", "g-1": "n2"},
        ["low"],
    ),
    "a gang that never fits evicts nobody": Case(
        [
            *(node("n1", 1), node("n2", 1), running("low", "n1")),
            *(group("g", 10, 3), *gang("g", size=3, priority=10)),
        ],
        {"low": "n1"},
    ),
    "a group of mode PodGroup goes as a whole": Case(
        [
            *(node("n1", 1), node("n2", 1), group("v", 0, 2, whole=True)),
            *(running("v-0", "n1", group="v"), running("v-1", "n2", group="v"), pod("high", 1, 10)),
        ],
        {"high": "n1"},
        ["v-0", "v-1"],
    ),
    "of a group of mode Pod one goes": Case(
        [
            *(node("n1", 1), node("n2", 1), group("v", 0, 2)),
            *(running("v-0", "n1", group="v"), running("v-1", "n2", group="v"), pod("high", 1, 10)),
        ],
        {"high": "n1", "v-1": "n2"},
        ["v-0"],
    ),
    "preemptionPolicy Never": Case(
        [node(cpu=1), running("low", "n1"), pod("high", 1, 10, preemptionPolicy="Never")],
        {"low": "n1"},
        message={
            "high": "0/1 nodes are available: 1 Insufficient cpu. preemption: "
            "not eligible due to preemptionPolicy=Never."
        },
    ),
    "a divergent group evicts nobody": Case(
        [node(cpu=1), running("low", "n1"), group("g", 10, 1), *gang("g", size=1, priority=5)],
        {"low": "n1"},
        message={
            "g-0": "0/1 nodes are available: 1 Insufficient cpu. preemption: its pods do not all have its "
            "priority, and the divergence policy is NoPreemption"
        },
    ),
    "a divergent group may take free room": Case(
        [node(cpu=1), group("g", 10, 1), *gang("g", size=1, priority=5)], {"g-0": "n1"}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_done(name: str) -> None:
    """Each case as its name says."""
    case = CASES[name]
    world = World(case.objects)
    world.run()
    world.later(60)
    assert world.bound() == case.bound
    assert world.evicted() == case.evicted
    for pod_name, message in case.message.items():
        assert world.message(pod_name) == message


def test_no_bind_before_all_members_are_assumed() -> None:
    """A gang is one effect, which names all members that it needs."""
    world = World(node(cpu=3), group("g", least=3), gang("g", size=3))
    binds = [effect for effect in world.run() if isinstance(effect, Bind)]
    assert [[pod.name for pod, _ in bind.pods] for bind in binds] == [["g-0", "g-1", "g-2"]]


def test_pods_that_join_late_are_bound_beside_those_that_run() -> None:
    """Running members count toward minCount."""
    world = World(node(cpu=4), group("g", least=2), gang("g", size=2))
    world.run()
    world.run(pod("g-2", group="g"))
    assert sorted(world.bound()) == ["g-0", "g-1", "g-2"]


def test_a_bind_that_fails_is_repeated_on_the_same_node() -> None:
    """The pod keeps its node meanwhile, against others of its priority, and is tried first."""
    world = World(node("n1", 1), pod("a", priority=5))
    world.hold_binds = True
    world.run()
    world.apply(pod("b", priority=5))
    world.release(failed="500")
    assert world.bound() == {"a": "n1"}


def test_binds_that_fail_again_and_again_are_tried_later_each_time() -> None:
    """A pod that the server does not take keeps nobody else busy."""
    world = World(node("n1", 1), pod("a"))
    world.failing = "403"
    world.run()
    world.later(20)
    assert len([effect for effect in world.effects if isinstance(effect, Bind)]) == 5
    world.failing = ""
    world.later(10)
    assert world.bound() == {"a": "n1"}


def test_members_already_bound_stay_when_another_bind_fails() -> None:
    """What is bound runs; what is not is tried again, alone, and nobody is evicted to roll back."""
    world = World(node(cpu=2), group("g", least=2), gang("g", size=2))
    world.hold_binds = True
    world.run()
    (bind,) = world.held
    assert isinstance(bind, Bind)
    world.held = [bind._replace(pods=bind.pods[1:])]
    done = bind.pods[0][0]
    member = world.state.pods[done.key]
    world.state.apply(
        msgspec.structs.replace(member, spec=msgspec.structs.replace(member.spec, nodeName="n1"))
    )
    world.release(failed="500")
    assert world.bound() == {"g-0": "n1", "g-1": "n1"}
    assert not world.evictions()


def test_a_nominated_preemptor_waits_while_its_victims_die() -> None:
    """No new preemption begins, however often it is looked at, and it lands when they are gone."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.lingering = True
    world.run()
    world.later(600)
    assert (world.evicted(), world.nominated("high")) == (["low"], "n1")
    world.die("low")
    world.run()
    assert world.bound() == {"high": "n1"}


def test_a_better_place_may_be_taken_while_victims_die() -> None:
    """A node that comes meanwhile is taken, and the reservation ends."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.lingering = True
    world.run()
    world.run(node("n2", 1))
    world.later(60)
    assert world.bound() == {"low": "n1", "high": "n2"}
    assert len(world.evictions()) == 1


def test_planning_starts_afresh_when_the_nomination_is_of_no_use() -> None:
    """The reserved node goes; what terminates elsewhere still counts, and only what is lacking is evicted."""
    world = World(
        node("n1", 1),
        node("n2", 1),
        running("low-1", "n1"),
        running("low-2", "n2", priority=1),
        pod("high", 1, 10),
    )
    world.lingering = True
    world.run()
    assert world.nominated("high") == "n1"
    world.state.remove(world.state.nodes["n1"])
    world.run()
    world.later(60)
    assert world.evicted() == ["low-1", "low-2"]
    assert world.nominated("high") == "n2"


def test_a_failed_preemption_gives_everything_back() -> None:
    """The nomination ends, the victims count as running, and the preemptor tries again after a while."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    assert world.nominated("high") == "n1"
    world.release(failed="the server said no")
    assert (world.nominated("high"), world.bound()) == ("", {"low": "n1"})
    assert world.message("high").endswith("preemption: the server said no")
    world.later(20)
    assert world.bound() == {"high": "n1"}


def test_the_preemptor_is_gated_while_its_victims_are_told() -> None:
    """However much happens meanwhile, it is not looked at before that has ended."""
    world = World(node("n1", 1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.run(node("n2", 1))
    assert world.bound() == {"low": "n1"}
    world.release()
    assert world.bound()["high"] in ("n1", "n2")


@pytest.mark.parametrize("other", [5, 10])
def test_the_pod2s_scheduling_is_successful_pod2_is_equal_or_lower_priority_than_pod1(other: int) -> None:
    """A pod of no higher priority does not take the room that is being made for pod1."""
    world = World(node("n1", 1), running("low", "n1"), pod("pod1", 1, 10))
    world.hold_evictions = True
    world.run()
    held = world.held[0]
    assert isinstance(held, Evict)
    world.die("low")
    world.run(pod("pod2", 1, other))
    assert "pod2" not in world.bound()
    world.release()
    assert world.bound() == {"pod1": "n1"}


def test_the_pod2s_scheduling_is_successful_pod2_is_higher_priority_than_pod1() -> None:
    """A pod of higher priority may take it, and pod1 looks anew."""
    world = World(
        node("n1", 1), node("n2", 1), running("low", "n1"), running("same", "n2", 1, 10), pod("pod1", 1, 10)
    )
    world.hold_evictions = True
    world.run()
    world.die("low")
    world.run(pod("pod2", 1, 20))
    assert world.bound()["pod2"] == "n1"
    world.release()
    world.later(60)
    assert "pod1" not in world.bound()
    assert world.evicted() == ["low"]


@pytest.mark.parametrize("other", [5, 10])
def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_equal_or_lower(other: int) -> None:
    """Its plan counts pod1 where that is nominated: room is made for both."""
    world = World(node("n1", 2), running("low-1", "n1"), running("low-2", "n1"), pod("pod1", 1, 10))
    world.hold_evictions = True
    world.run()
    world.run(pod("pod2", 1, other))
    assert len(world.evictions()) == 2
    assert sorted(world.evicted()) == ["low-1", "low-2"]
    world.release()
    assert world.bound() == {"pod1": "n1", "pod2": "n1"}


def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_higher_priority() -> None:
    """It ignores pod1's nomination; nobody is told to go twice, and pod1 looks elsewhere."""
    world = World(
        node("n1", 1),
        node("n2", 1),
        running("low-1", "n1"),
        running("low-2", "n2", priority=1),
        pod("pod1", 1, 10),
    )
    world.lingering = True
    world.run()
    world.run(pod("pod2", 1, 20))
    world.later(60)
    assert sorted(world.evicted()) == ["low-1", "low-2"]
    world.die("low-1", "low-2")
    world.later(60)
    assert sorted(world.bound()) == ["pod1", "pod2"]


def test_mode_off_never_plans_to_the_end() -> None:
    """Nobody goes, and the pod is told why."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=Mode.OFF)
    world.run()
    assert (world.evicted(), world.observed()) == ([], [])
    assert world.message("high").endswith("preemption: it is switched off")


def test_observe_tells_a_plan_once_and_deletes_nothing() -> None:
    """The room that is not made is reserved for nobody."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=Mode.OBSERVE)
    world.run()
    world.later(3600)
    assert (world.evicted(), world.observed(), world.nominated("high")) == ([], [["low"]], "")
    assert world.message("high").endswith(
        "preemption: 1 pod would be evicted, but preemption is only observed"
    )


def test_switching_to_enforce_takes_effect() -> None:
    """At once: whoever waited is looked at again."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10), mode=Mode.OBSERVE)
    world.run()
    world.live = LiveSettings()
    world.scheduler.switched()
    world.run()
    assert world.bound() == {"high": "n1"}


def test_switching_off_stops_a_preemption_under_way() -> None:
    """Before the first delete it is given up."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.live = LiveSettings(mode=Mode.OFF)
    world.release()
    assert world.bound() == {"low": "n1"}


def test_evictions_have_a_rate() -> None:
    """Two units a minute: the others wait, and say what for."""
    pods = [running(f"low-{at}", f"n{at}") for at in range(4)]
    nodes = [node(f"n{at}", 1) for at in range(4)]
    highs = [pod(f"high-{at}", 1, 10) for at in range(4)]
    world = World(nodes, pods, highs, evictions_a_minute=2)
    world.run()
    assert len(world.evicted()) == 2
    assert "rate of 2 units a minute" in world.message("high-3")
    world.later(120)
    assert len(world.evicted()) == 4


def _slow() -> Any:
    """Make a class whose preemptors wait for new nodes."""
    slow = priority_class("slow", 10)
    slow.metadata.annotations = {"scheduling.podium.dev/preemption-delay": "90s"}
    return slow


def test_a_window_is_not_begun_anew_by_another_process() -> None:
    """Since when a pod finds no room is in its condition."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T11:59:00Z",
    }
    high = pod("high", 1, 10, priorityClassName="slow", status={"conditions": [condition]})
    world = World(node(cpu=1), _slow(), running("low", "n1"), high)
    world.run()
    assert "waiting until 2026-01-01T12:00:30Z for new nodes" in world.message("high")


def test_a_window_waits_for_an_autoscaler() -> None:
    """Nobody goes before its end, which the message names."""
    slow = _slow()
    world = World(node(cpu=1), slow, running("low", "n1"), pod("high", 1, 10, priorityClassName="slow"))
    world.run()
    assert "waiting until 2026-01-01T12:01:30Z for new nodes" in world.message("high")
    world.later(80)
    assert not world.evictions()
    world.later(20)
    assert world.bound() == {"high": "n1"}


def test_a_toleration_window_ends_without_any_event() -> None:
    """The preemptor is looked at when it does."""
    patient = priority_class("patient", 0, minimum=100, seconds=30)
    victim = running(
        "low",
        "n1",
        priorityClassName="patient",
        status={
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}
            ]
        },
    )
    world = World(node(cpu=1), patient, victim, pod("high", 1, 10))
    world.later(25)
    assert not world.evictions()
    world.later(10)
    assert world.bound() == {"high": "n1"}


def test_a_pod_that_a_kubelet_rejects_is_counted_and_its_group_planned_anew() -> None:
    """OutOfcpu: the room was taken by somebody else before it came."""
    world = World(node("n1", 1), group("g", least=1), gang("g", size=1))
    world.run()
    failed = world.state.pods["team-a", "g-0"]
    world.state.apply(
        msgspec.structs.replace(
            failed, status=msgspec.convert({"phase": "Failed", "reason": "OutOfcpu"}, type(failed.status))
        )
    )
    world.run(pod("g-1", group="g"))
    assert world.rejected() == ["OutOfcpu"]
    assert world.bound()["g-1"] == "n1"


def test_members_that_come_one_by_one_are_looked_at_together() -> None:
    """Fewer than minCount wait, and say so."""
    world = World(node(cpu=4), group("g", least=500, priority=0))
    world.run(gang("g", size=400))
    assert not world.bound()
    assert "400 pods can be placed" in world.message("g-0")


def test_use_group_priority_lets_a_divergent_group_preempt() -> None:
    """By the spec the group's integer rules."""
    settings = Settings(divergence=DivergencePolicy.USE_GROUP_PRIORITY, evict_only="podium-scheduler")
    world = World(
        node(cpu=1), running("low", "n1"), group("g", 10, 1), gang("g", size=1, priority=5), engine=settings
    )
    world.run()
    assert world.bound() == {"g-0": "n1"}


def test_a_victim_that_is_gone_already_frees_its_room_at_once() -> None:
    """The end of the task finds nothing to wait for."""
    world = World(node(cpu=1), running("low", "n1"), pod("high", 1, 10))
    world.hold_evictions = True
    world.run()
    world.die("low")
    world.run()
    assert world.bound() == {}
    world.release()
    assert world.bound() == {"high": "n1"}


def told_to_go(by: str = "team-a-high", scheduler: str = "podium-scheduler") -> dict[str, Any]:
    """Give the status of a victim of a preemption whose process died."""
    message = f"{scheduler}: preempting to accommodate a higher priority pod (UID {by})"
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
    }
    return {"conditions": [condition]}


@dataclass
class Begun:
    """What an earlier process left, whom the next evicts, and whom it tells that they stay."""

    objects: list[Any]
    evicted: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    resumed: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


def preemptor(on: str = "n1", **kwargs: Any) -> Any:
    """Make the pod that an earlier process had nominated."""
    return pod("high", 1, 10, status={"nominatedNodeName": on} if on else None, **kwargs)


BEGUN = {
    "what was begun is ended": Begun(
        [node(cpu=1), running("low", "n1", status=told_to_go()), preemptor()], ["low"]
    ),
    "not by the condition of another scheduler": Begun(
        [
            node(cpu=1),
            running("low", "n1", priority=10, status=told_to_go(scheduler="default-scheduler")),
            preemptor(),
        ]
    ),
    "not where the victim's priority is not lower": Begun(
        [node(cpu=1), running("low", "n1", priority=10, status=told_to_go()), preemptor()], spared=["low"]
    ),
    "not a pod of another scheduler": Begun(
        [node(cpu=1), running("low", "n1", schedulerName="other", status=told_to_go()), preemptor()],
        spared=["low"],
    ),
    "not in kube-system": Begun(
        [node(cpu=1), running("low", "n1", namespace="kube-system", status=told_to_go()), preemptor()],
        spared=["low"],
    ),
    "not a pod that tolerates it": Begun(
        [
            *(node(cpu=1), priority_class("patient", 0, minimum=100, seconds=-1)),
            running("low", "n1", priorityClassName="patient", status=told_to_go()),
            preemptor(),
        ],
        spared=["low"],
    ),
    "not for a preemptor that is gone": Begun(
        [node(cpu=1), running("low", "n1", status=told_to_go())], spared=["low"]
    ),
    "not for one that fits without": Begun(
        [node(cpu=2), running("low", "n1", status=told_to_go()), preemptor()], spared=["low"]
    ),
    "not when it is switched off": Begun(
        [node(cpu=1), running("low", "n1", status=told_to_go()), preemptor()],
        spared=["low"],
        settings={"mode": Mode.OFF},
    ),
    "a part of what is needed is planned afresh": Begun(
        [
            *(node(cpu=2), running("low-1", "n1", status=told_to_go()), running("low-2", "n1")),
            pod("high", 2, 10, status={"nominatedNodeName": "n1"}),
        ],
        ["low-1", "low-2"],
        ["low-1"],
        resumed=False,
    ),
    "a part of a group is planned afresh": Begun(
        [
            *(node("n1", 1), node("n2", 1), group("v", whole=True)),
            *(running("v-0", "n1", group="v", status=told_to_go()), running("v-1", "n2", group="v")),
            preemptor(),
        ],
        ["v-0", "v-1"],
        ["v-0"],
        resumed=False,
    ),
}


@pytest.mark.parametrize("name", BEGUN)
def test_what_an_earlier_process_had_begun(name: str) -> None:
    """Its conditions are hints: every rule is asked again, and what would not be done is withdrawn."""
    case = BEGUN[name]
    world = World(case.objects, **case.settings)
    world.run()
    assert world.evicted() == case.evicted
    assert [evict.resumed for evict in world.evictions()] == [case.resumed] * bool(case.evicted)
    assert [ref.name for each in world.effects if isinstance(each, Spare) for ref in each.pods] == case.spared
