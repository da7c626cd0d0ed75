"""The scheduler without a cluster: its effects for a few objects, and after a failed bind.

Each case has a few objects and all of their effects, so wrong ones are seen too.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.support.filters.builders import claim, mounts, storage_class, volume
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World, pod

from podium.api.membership import key_of
from podium.planner import rejections
from podium.planner.settings import DivergencePolicy, Settings
from podium.schedulerplugin.scheduling.effects import Bind


@dataclass
class Case:
    """The existing objects, and the expected effects."""

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
    "a gang that fits in part binds no pod": Case(
        [node(cpu=1), group("g", least=2), *gang("g", size=2)],
        message={
            "g-0": "1 of 2 members has room; 0/1 nodes are available: 1 node(s) were taken by other members "
            "of the group (Insufficient cpu). preemption: No preemption victims found for incoming preemptor."
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
    "a pod with a scheduling gate gets no condition": Case(
        [node(), pod("a", schedulingGates=[{"name": "x"}])], message={"a": ""}
    ),
    "what cannot be judged stays pending": Case(
        [node(), pod("a", tolerations=[{"key": "a", "operator": "Lt", "value": "1"}])],
        message={"a": "what it asks for cannot be judged: the toleration operator Lt"},
    ),
    "a claim that does not exist refuses every node": Case(
        [node(), pod("a", **mounts("c"))],
        message={
            "a": '0/1 nodes are available: persistentvolumeclaim "c" not found. preemption: '
            "Preemption is not helpful for scheduling."
        },
    ),
    "a delayed claim for which there is no volume": Case(
        [
            *(node(), storage_class("wait", "WaitForFirstConsumer")),
            *(claim("c", storageClassName="wait"), pod("a", **mounts("c"))),
        ],
        message={
            "a": "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
            "preemption: Preemption is not helpful for scheduling. "
            "Claim c finds no volume on 1 node."
        },
    ),
    "the user of a claim of one pod is evicted": Case(
        [
            *(node(), claim("c", "v", accessModes=["ReadWriteOncePod"]), volume("v")),
            *(running("low", "n1", **mounts("c")), running("other", "n1"), pod("high", 1, 10, **mounts("c"))),
        ],
        {"high": "n1", "other": "n1"},
        ["low"],
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
    "nothing is evicted in kube-system": Case(
        [node(cpu=1), running("low", "n1", namespace="kube-system"), pod("high", 1, 10)], {"low": "n1"}
    ),
    "a gang takes free and freed room at once": Case(
        [
            *(node("n1", 1), node("n2", 1), running("low", "n1")),
            *(group("g", 10, 2), *gang("g", size=2, priority=10)),
        ],
        {"g-0": "n2", "g-1": "n1"},
        ["low"],
    ),
    "a gang that never fits evicts nothing": Case(
        [
            *(node("n1", 1), node("n2", 1), running("low", "n1")),
            *(group("g", 10, 3), *gang("g", size=3, priority=10)),
        ],
        {"low": "n1"},
        message={
            "g-0": "1 of 3 members has room; 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were "
            "taken by other members of the group (Insufficient cpu). preemption: even without all that may "
            "be preempted: 2 of 3 members have room; 0/2 nodes are available: 2 node(s) were taken by other "
            "members of the group (Insufficient cpu)."
        },
    ),
    "a pod that is larger than any node evicts nothing": Case(
        [node(cpu=2), running("low", "n1"), pod("high", 3, 10)],
        {"low": "n1"},
        message={
            "high": "cpu: no node that suits the pod has enough, even without other pods; 0/1 nodes are "
            "available: 1 Insufficient cpu. preemption: Preemption is not helpful for scheduling."
        },
    ),
    "a selected label that no node has comes first": Case(
        [node(cpu=1), running("low", "n1"), pod("high", 1, 10, nodeSelector={"pool": "gpu"})],
        {"low": "n1"},
        message={
            "high": "pool=gpu: no node has this label; 0/1 nodes are available: 1 node(s) didn't match Pod's "
            "node affinity/selector. preemption: Preemption is not helpful for scheduling."
        },
    ),
    "room that no victim makes": Case(
        [
            *(node(cpu=2), running("low", "n1"), running("peer", "n1", priority=10)),
            pod("high", 2, 10),
        ],
        {"low": "n1", "peer": "n1"},
        message={
            "high": "0/1 nodes are available: 1 Insufficient cpu. preemption: even without all that may be "
            "preempted: 0/1 nodes are available: 1 Insufficient cpu."
        },
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
    "a divergent group evicts nothing": Case(
        [node(cpu=1), running("low", "n1"), group("g", 10, 1), *gang("g", size=1, priority=5)],
        {"low": "n1"},
        message={
            "g-0": "0/1 nodes are available: 1 Insufficient cpu. preemption: not all of its pods have its "
            "priority, and the divergence policy is NoPreemption"
        },
    ),
    "a divergent group may take free room": Case(
        [node(cpu=1), group("g", 10, 1), *gang("g", size=1, priority=5)], {"g-0": "n1"}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_effects_of_a_scene(name: str) -> None:
    """Each case has the effects that its name describes."""
    case = CASES[name]
    world = World(case.objects)
    world.run()
    world.later(60)
    assert world.bound() == case.bound
    assert world.evicted() == case.evicted
    for pod_name, message in case.message.items():
        assert world.message(pod_name) == message


def test_no_bind_before_all_members_are_assumed() -> None:
    """A gang is one effect with all members that it needs."""
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
    """The pod keeps its node meanwhile against others of its priority, and is tried first."""
    world = World(node("n1", 1), pod("a", priority=5))
    world.hold_binds = True
    world.run()
    world.apply(pod("b", priority=5))
    world.release(failed="500")
    assert world.bound() == {"a": "n1"}


def test_binds_that_fail_again_and_again_are_tried_later_each_time() -> None:
    """A pod that the server refuses does not delay others."""
    world = World(node("n1", 1), pod("a"))
    world.failing = "403"
    world.run()
    world.later(20)
    assert len([effect for effect in world.effects if isinstance(effect, Bind)]) == 5
    world.failing = ""
    world.later(10)
    assert world.bound() == {"a": "n1"}


def test_members_already_bound_stay_when_another_bind_fails() -> None:
    """Bound members run; the others are tried again, alone, and no pod is evicted to roll back."""
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


def test_a_pod_that_a_kubelet_rejects_is_counted_and_its_group_planned_anew() -> None:
    """OutOfcpu: another pod took the room first."""
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


def test_a_node_that_rejected_a_pod_is_avoided_by_the_next_one_for_some_minutes() -> None:
    """A Job recreates the pod, and n1 is by far the better node, but its kubelet rejects all."""
    world = World(node("n1", 64), node("n2", 2))
    for attempt in range(4):
        world.run(pod(f"train-{attempt}"))
        if attempt == 2:
            world.later(rejections.SECONDS)
        made = world.state.pods["team-a", f"train-{attempt}"]
        rejected = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        if made.spec.nodeName == "n1":
            world.state.apply(
                msgspec.structs.replace(made, status=msgspec.convert(rejected, type(made.status)))
            )
    world.run()
    assert world.rejected() == ["UnexpectedAdmissionError"] * 2
    assert world.bound() == {"train-0": "n1", "train-1": "n2", "train-2": "n2", "train-3": "n1"}


def test_members_that_come_one_by_one_are_looked_at_together() -> None:
    """Fewer than minCount wait, with a message."""
    world = World(node(cpu=4), group("g", least=500, priority=0))
    world.run(gang("g", size=400))
    assert not world.bound()
    assert "400 pods can be placed" in world.message("g-0")


def test_use_group_priority_lets_a_divergent_group_preempt() -> None:
    """With that setting the group's integer decides."""
    settings = Settings(divergence=DivergencePolicy.USE_GROUP_PRIORITY, evict_only="podium-scheduler")
    world = World(
        node(cpu=1), running("low", "n1"), group("g", 10, 1), gang("g", size=1, priority=5), engine=settings
    )
    world.run()
    assert world.bound() == {"g-0": "n1"}


@pytest.mark.parametrize(("needs", "size", "satisfied"), [(2, 1, False), (2, 2, True), (2, 3, True)])
def test_a_gang_is_scheduled_when_as_many_as_it_needs_have_a_node(
    needs: int, size: int, satisfied: bool
) -> None:
    """The group's condition is then final; another member waits, and one has failed."""
    made = group("g", 10, needs)
    failed = running("g-failed", group="g", status={"phase": "Failed"})
    here = [running(f"g-{at}", priority=10, group="g") for at in range(size)]
    world = World(node(cpu=size), made, failed, here, pod("g-waits", 1, 10, group="g"))
    world.run()
    assert world.scheduler.entries.satisfied(key_of(made)) == [key_of(made)] * satisfied


def test_a_gang_with_a_failed_bind_is_not_scheduled() -> None:
    """Members with a bind in flight count until then."""
    world = World(node(cpu=2), group("g", 10, 2), gang("g", size=2, priority=10))
    world.hold_binds = True
    world.run()
    key = key_of(group("g"))
    assert world.scheduler.entries.satisfied(key)
    (bind,) = world.held
    assert isinstance(bind, Bind)
    pod_of_it, where = bind.pods[0]
    world.scheduler.holds.bind_failed(key, pod_of_it, where, settled=False)
    assert not world.scheduler.entries.satisfied(key)
