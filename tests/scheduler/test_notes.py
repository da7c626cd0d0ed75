"""Events in kube-scheduler's form, one a plan, and no name of a preemptor in a victim's namespace."""

import pytest
from tests.scheduler.test_conditions import OURS, group_with

from podium.findings import ObjectRef
from podium.note import Note
from podium.schedulerplugin.scheduling import notes
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Preemptor, Unit
from podium.state import State

POD = PodRef("team", "a", "uid-a")
PREEMPTOR = Preemptor("podgroup", "secret", "mine", "uid-mine", 9)
GROUP = Unit("PodGroup", "team", "train", "uid-train", 5, (POD, PodRef("team", "b", "uid-b")))
LONE = Unit("Pod", "other", "c", "uid-c", 1, (PodRef("other", "c", "uid-c"),))


def evict(*units: Unit, domain: str = "cluster") -> Evict:
    """A preemption of some units."""
    return Evict(("secret", "mine"), PREEMPTOR, (), units, domain, "full")


def test_a_bound_pod() -> None:
    note = notes.scheduled(POD, "node-1")
    assert note == Note(
        ObjectRef("v1", "Pod", "team", "a"),
        "uid-a",
        "",
        "Normal",
        "Scheduled",
        "Binding",
        "Successfully assigned team/a to node-1",
        note.token,
    )


def test_a_pod_without_a_place() -> None:
    note = notes.failed(POD, "0/3 nodes are available: 3 Insufficient cpu.")
    assert (note.type, note.reason, note.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert note.text == "0/3 nodes are available: 3 Insufficient cpu."
    assert note.regarding == ObjectRef("v1", "Pod", "team", "a")


PREEMPTIONS = {
    "a pod": (evict(LONE, domain="node-1"), "Pod", "on node node-1, 1 pod in 1 unit"),
    "a group": (evict(GROUP), "PodGroup", "on node cluster, 2 pods in 1 unit"),
    "a group before others": (evict(GROUP, LONE), "PodGroup", "on node cluster, 3 pods in 2 units"),
    "a pod before others": (evict(LONE, GROUP), "Pod", "on node cluster, 3 pods in 2 units"),
    "work that is lost": (
        evict(GROUP)._replace(work=45_000),
        "PodGroup",
        "on node cluster, 2 pods in 1 unit, 12.5 accelerator-hours lost",
    ),
}


@pytest.mark.parametrize(("plan", "kind", "rest"), PREEMPTIONS.values(), ids=PREEMPTIONS.keys())
def test_a_preemption_is_told_once_about_its_first_unit(plan: Evict, kind: str, rest: str) -> None:
    state = State(native_served=True)
    state.apply(group_with())
    note = notes.preempted(state, plan)
    unit = plan.units[0]
    version = OURS if kind == "PodGroup" else "v1"
    assert note.regarding == ObjectRef(version, kind, unit.namespace, unit.name)
    assert (note.uid, note.type, note.reason, note.action) == (unit.uid, "Normal", "Preempted", "Preempting")
    assert note.text == f"Preempted by podgroup uid-mine {rest}"
    assert "secret" not in note.text + note.token


def test_of_a_group_that_is_gone_a_pod_is_told() -> None:
    note = notes.preempted(State(native_served=True), evict(GROUP))
    assert (note.regarding, note.uid) == (ObjectRef("v1", "Pod", "team", "a"), "uid-a")


def test_who_takes_a_plan_over_tells_the_same() -> None:
    """It has fewer victims left, and it is one event."""
    state = State(native_served=True)
    state.apply(group_with())
    first = notes.preempted(state, evict(GROUP, LONE))
    assert notes.preempted(state, evict(GROUP._replace(pods=GROUP.pods[1:]))).token == first.token
    other = evict(GROUP)._replace(preemptor=PREEMPTOR._replace(uid="uid-other"))
    assert notes.preempted(state, other).token != first.token


def test_what_is_said_anew_is_another_event() -> None:
    told = [notes.failed(POD, "full"), notes.failed(POD, "fuller"), notes.scheduled(POD, "full")]
    told.append(notes.failed(POD._replace(uid="uid-later"), "full"))
    assert len({note.token for note in told}) == len(told)
    assert notes.failed(POD, "full") == told[0]
