"""Trust in declarations about saving work: a workload that fails twice in a row is not believed."""

from typing import Any

import pytest
from tests.support.history import party, plan
from tests.support.preemption.scene import group
from tests.support.scheduling.objects import running

from podium.api.meta import OwnerReference
from podium.api.records import Owner, Party, PlanMode, PreemptionRecord, RecordedPlan, Saving
from podium.cluster.state import ClusterState
from podium.history.trust import Trust, distrust, distrusted

LOW = ("Pod", "team-a", "low")
JOB = ("Job", "team-a", "train")


def answered(*answers: str, at: int = 0, **fields: Any) -> RecordedPlan:
    """Return a plan with pods of one Job as its victims; each has the answer to its notice."""
    owner = Owner("Job", "train", fields.pop("uid", "uid"))
    units = tuple(party(f"train-{number}", saving=said, owner=owner) for number, said in enumerate(answers))
    return plan(at, units=units, **fields)


HISTORIES: dict[str, tuple[list[RecordedPlan], bool]] = {
    # the plans, oldest first, and whether the workload is not trusted after them
    "nothing": ([], False),
    "one failure": ([answered("Failed")], False),
    "two failures": ([answered("Failed"), answered("Failed")], True),
    "many failures": ([answered("Failed")] * 5, True),
    "two pods of one preemption failed": ([answered("Failed", "Failed")], False),
    "one pod of each preemption failed": ([answered("Saved", "Failed"), answered("Failed", "")], True),
    "it saved in between": ([answered("Failed"), answered("Saved"), answered("Failed")], False),
    "it saved afterwards": ([*[answered("Failed")] * 5, answered("Saved")], False),
    "it failed twice after it had saved": ([answered("Saved"), *[answered("Failed")] * 2], True),
    "it was evicted without a notice in between": (
        [answered("Failed"), answered(""), answered("Failed")],
        True,
    ),
    "it was created again under its name": ([answered("Failed", uid="1"), answered("Failed", uid="2")], True),
    "a plan that was observed only": (
        [answered("Failed"), answered("Failed", mode=PlanMode.OBSERVED)],
        False,
    ),
    "an answer that only another version knows": (
        [answered("Failed"), answered("Later"), answered("Failed")],
        True,
    ),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_trust_follows_from_the_answers_in_the_records(case: str) -> None:
    """A process that lives on, and one that reads the records, come to the same."""
    plans, untrusted = HISTORIES[case]
    plans = [answered_at(each, at) for at, each in enumerate(plans)]
    lives, reads = Trust(), Trust([PreemptionRecord(plans=plans[1:]), PreemptionRecord(plans=plans[:1])])
    for each in plans:
        lives.add(each)
    assert lives.untrusted == reads.untrusted == (frozenset({JOB}) if untrusted else frozenset())


def answered_at(recorded: RecordedPlan, at: int) -> RecordedPlan:
    """Return a plan at another time."""
    return plan(at, mode=recorded.mode, units=recorded.units)


def test_each_workload_has_its_own_answers() -> None:
    """Neither one of the same name in another namespace, nor one of another kind, loses trust."""
    units = (
        Party("Pod", "team-b", "low", saving=Saving.SAVED),
        Party("Pod", "team-a", "low", saving="Failed"),
    )
    trust = Trust([PreemptionRecord(plans=[plan(at, units=units) for at in range(2)])])
    assert trust.untrusted == {LOW}


def test_the_workloads_that_failed_long_ago_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.history.trust._MOST", 2)
    trust = Trust()
    for name in ("a", "b", "a", "c", "c"):
        trust.add(plan(0, units=(party(name, saving=Saving.FAILED),)))
    assert trust.untrusted == {("Pod", "team-a", "a"), ("Pod", "team-a", "c")}
    trust.add(plan(0, units=(party("d", saving=Saving.FAILED),)))
    assert trust.untrusted == {("Pod", "team-a", "c")}


def seen(*pods: Any) -> tuple[ClusterState, list[str]]:
    """Return a state with pods, and the names of the pods that its observers get."""
    state = ClusterState(native_served=True)
    for each in pods:
        state.apply(each)
    names: list[str] = []
    state.observe(
        lambda _before, after: names.append(after.metadata.name or "") if after is not None else None
    )
    return state, names


def test_observers_get_the_pods_of_a_changed_workload_again() -> None:
    member, controlled = running("member", group="team"), running("controlled")
    controlled.metadata.ownerReferences = [OwnerReference("batch/v1", "Job", "train", "uid", controller=True)]
    state, names = seen(group("team", whole=True), member, controlled, running("low"), running("other"))
    distrust(state, frozenset({JOB, LOW, ("PodGroup", "team-a", "team")}))
    assert sorted(names) == ["controlled", "low", "member"]
    assert [distrusted(state, each) for each in (member, controlled, running("other"))] == [True, True, False]
    distrust(state, frozenset({JOB, LOW}))
    assert names[3:] == ["member"]
    assert state.copy().untrusted == {JOB, LOW}


def test_a_state_that_says_the_same_again_is_no_change() -> None:
    state, names = seen(running("low"))
    distrust(state, frozenset({LOW}))
    revision = state.revision
    distrust(state, frozenset({LOW}))
    assert (state.revision, names) == (revision, ["low"])
