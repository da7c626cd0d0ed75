"""Events in kube-scheduler's form, one a unit, which name a preemptor in its own namespace only."""

import pytest
from tests.unit.schedulerplugin.scheduling.test_conditions import OURS, group_with

from podium.api.events import EventDraft
from podium.api.findings import ObjectRef
from podium.cluster.state import ClusterState
from podium.schedulerplugin.scheduling import messages
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Preemptor, Unit

POD = PodRef("team", "a", "uid-a")
PREEMPTOR = Preemptor("podgroup", "secret", "mine", "uid-mine", 9)
GROUP = Unit("PodGroup", "team", "train", "uid-train", 5, (POD, PodRef("team", "b", "uid-b")))
LONE = Unit("Pod", "other", "c", "uid-c", 1, (PodRef("other", "c", "uid-c"),))


def evict(*units: Unit, domain: str = "cluster") -> Evict:
    """A preemption of some units."""
    return Evict(("secret", "mine"), PREEMPTOR, (), units, domain, "full")


def test_a_bound_pod() -> None:
    note = messages.scheduled_event(POD, "node-1")
    assert note == EventDraft(
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
    note = messages.failed_event(POD, "0/3 nodes are available: 3 Insufficient cpu.")
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
def test_a_preemption_has_one_event_for_each_unit(plan: Evict, kind: str, rest: str) -> None:
    state = ClusterState(native_served=True)
    state.apply(group_with())
    notes = messages.preempted_events(state, plan)
    assert notes[0].regarding.kind == kind
    for note, unit in zip(notes, plan.units, strict=True):
        version = OURS if unit.kind == "PodGroup" else "v1"
        assert note.regarding == ObjectRef(version, unit.kind, unit.namespace, unit.name)
        assert (note.uid, note.type) == (unit.uid, "Normal")
        assert (note.reason, note.action) == ("Preempted", "Preempting")
        assert note.text == f"Preempted by podgroup uid-mine {rest}"
        assert "secret" not in note.text + note.token


def test_the_preemptor_is_named_in_its_own_namespace_only() -> None:
    """kube-scheduler's text comes first, so tools that match it still do."""
    state = ClusterState(native_served=True)
    state.apply(group_with())
    plan = evict(GROUP, LONE)._replace(preemptor=PREEMPTOR._replace(namespace="team"))
    text = "Preempted by podgroup uid-mine on node cluster, 3 pods in 2 units"
    assert [note.text for note in messages.preempted_events(state, plan)] == [f"{text}, team/mine", text]


def test_of_a_group_that_is_gone_a_pod_is_told() -> None:
    (note,) = messages.preempted_events(ClusterState(native_served=True), evict(GROUP))
    assert (note.regarding, note.uid) == (ObjectRef("v1", "Pod", "team", "a"), "uid-a")


def test_a_leader_that_resumes_a_preemption_emits_the_same_event() -> None:
    """It has fewer victims left, and it is one event."""
    state = ClusterState(native_served=True)
    state.apply(group_with())
    first, _ = messages.preempted_events(state, evict(GROUP, LONE))
    (again,) = messages.preempted_events(state, evict(GROUP._replace(pods=GROUP.pods[1:])))
    assert again.token == first.token
    other = evict(GROUP)._replace(preemptor=PREEMPTOR._replace(uid="uid-other"))
    assert messages.preempted_events(state, other)[0].token != first.token


def test_another_message_or_pod_is_another_event() -> None:
    notes = [
        messages.failed_event(POD, "full"),
        messages.failed_event(POD, "fuller"),
        messages.scheduled_event(POD, "full"),
    ]
    notes.append(messages.failed_event(POD._replace(uid="uid-later"), "full"))
    assert len({note.token for note in notes}) == len(notes)
    assert messages.failed_event(POD, "full") == notes[0]
