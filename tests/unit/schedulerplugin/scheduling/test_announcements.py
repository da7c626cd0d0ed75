"""The steps before the first delete of a preemption, and the facts that a new leader needs no record for."""

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World, pod

from podium.api.meta import OwnerReference
from podium.planner.semantics import Semantics
from podium.schedulerplugin.scheduling.effects import Evict
from podium.schedulerplugin.scheduling.preemptions import Announcements, announcements

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job", "controller": True}
REPLICAS = {**JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
CUSTOM = {**JOB, "apiVersion": "example.com/v1", "kind": "Experiment"}


def announced(*objects: Any, semantics: Semantics = Semantics.KEP) -> tuple[Announcements, Evict]:
    """Return the announcements of the only preemption on these objects."""
    world = World(*objects)
    world.hold_evictions = True
    world.run()
    (evict,) = world.evictions()
    return announcements(world.state, evict, semantics), evict


OWNED: dict[str, tuple[dict[str, Any], bool]] = {
    "no gates": ({}, False),
    "a ReplicaSet": ({"ownerReferences": [REPLICAS]}, False),
    "a Job": ({"ownerReferences": [JOB]}, True),
    "a controller that is not known": ({"ownerReferences": [CUSTOM]}, True),
    "an owner that does not control it": ({"ownerReferences": [{**JOB, "controller": False}]}, False),
}


@pytest.mark.parametrize("by", OWNED)
def test_a_lone_victim_is_marked_first_if_its_controller_may_read_it(by: str) -> None:
    metadata, marked = OWNED[by]
    victim = running("low", "n1")
    victim.metadata.ownerReferences = msgspec.convert(
        metadata.get("ownerReferences", []), list[OwnerReference]
    )
    first, evict = announced(node(cpu=1), victim, pod("high", 1, 10))
    assert first == Announcements((), evict.victims if marked else (), ())


def test_a_victim_with_a_long_grace_period_is_marked_first() -> None:
    """After ten minutes only the mark of a preemption shows that its room is awaited."""
    victim = running("low", "n1", terminationGracePeriodSeconds=3600)
    first, evict = announced(node(cpu=1), victim, pod("high", 1, 10))
    assert first.marks == evict.victims


def test_a_whole_group_is_marked_in_place_of_its_pods() -> None:
    members = (running("v-0", "n1", group="v"), running("v-1", "n1", group="v"))
    first, evict = announced(node(cpu=2), group("v", whole=True), *members, pod("high", 2, 10))
    assert first == Announcements((), (), evict.units)


@pytest.mark.parametrize("whole", [False, True])
def test_a_victim_that_is_asked_is_marked_first(*, whole: bool) -> None:
    """The mark is the request, and what the next leader resumes from."""
    objects = (group("v", whole=whole), *(running(f"v-{at}", "n1", group="v") for at in range(2)))
    _, evict = announced(node(cpu=2), *objects, pod("high", 2, 10))
    asked, world = frozenset(evict.victims), World(*objects)
    first = announcements(world.state, evict, Semantics.KEP, asked)
    assert first == Announcements((), evict.victims, evict.units if whole else (), asked)


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_the_rules_of_kube_scheduler_announce_all(semantics: Semantics) -> None:
    first, evict = announced(node(cpu=1), running("low", "n1"), pod("high", 1, 10), semantics=semantics)
    assert first == Announcements(evict.nominations, evict.victims, ())


VICTIMS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=4)


@given(st.lists(VICTIMS, min_size=1, max_size=4), st.integers(1, 6), st.data())
def test_a_new_leader_evicts_no_more_than_the_plan_of_the_one_before(
    nodes: list[list[tuple[int, int]]], cpu: int, data: st.DataObject
) -> None:
    """The plan is the same for a lone pod over lone pods, whichever victims went first, without a record."""
    objects = {
        (at, index): running(f"v-{at}-{index}", f"n{at}", cpu=size, priority=priority)
        for at, pods in enumerate(nodes)
        for index, (size, priority) in enumerate(pods)
    }
    hosts = [node(f"n{at}", sum(size for size, _ in pods)) for at, pods in enumerate(nodes)]
    world = World(*hosts, *objects.values(), pod("high", cpu, 10))
    world.hold_evictions = True
    world.run()
    planned = world.evicted()
    gone = data.draw(st.sets(st.sampled_from(planned))) if planned else set()
    left = [each for each in objects.values() if each.metadata.name not in gone]
    heir = World(*hosts, *left, pod("high", cpu, 10))
    heir.run()
    assert len(gone) + len(heir.evicted()) <= len(planned)
    assert set(heir.evicted()) | gone <= set(planned)
