"""The record of a preemption: names, owners and the victims' devices at that time."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.support.filters import builders
from tests.support.history import party, plan
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import group, node, of

from podium.api.meta import OwnerReference
from podium.api.records import (
    MAX_UNITS,
    Owner,
    Party,
    PlanMode,
    PreemptionRecord,
    RecordedPlan,
    Result,
    Saving,
)
from podium.api.schedulable import Schedulable
from podium.cluster.reader import name_in
from podium.history.evictioncycles import Identity
from podium.history.records import counted, identity, recent
from podium.history.trust import Trust
from podium.schedulerplugin.history.planned import ended, planned
from podium.schedulerplugin.scheduling.effects import Evict, Key, PodRef, Preemptor, Unit
from podium.schedulerplugin.scheduling.preemptions import Answers

GPU = "nvidia.com/gpu"
JOB = OwnerReference("batch/v1", "Job", "train", "uid-job", controller=True)


def pod(name: str, gpus: int = 1, *, owner: OwnerReference | None = None, **kwargs: Any) -> Schedulable:
    """Make a pod that holds devices."""
    made = builders.pod(name, {"cpu": 1, GPU: gpus}, uid=f"uid-{name}", **kwargs)
    made.metadata.ownerReferences = [owner] if owner is not None else None
    return made


def unit(name: str, *pods: str, kind: str = "Pod") -> Unit:
    refs = tuple(PodRef(NS, each, f"uid-{each}") for each in pods)
    return Unit(kind, NS, name, f"uid-{name}", 3, refs)


def evict(*units: Unit, key: Key = (NS, "high"), kind: str = "pod") -> Evict:
    who = Preemptor(kind, NS, name_in(key)[1], "uid-high", 10)
    return Evict(
        key, who, ((PodRef(NS, "high", "uid-high"), "n1"),), units, "n1", "0/1 nodes", violations=2, work=90
    )


def test_pods_and_what_they_hold() -> None:
    """The devices are the victims', by resource; the preemptor's own do not count."""
    view = state_of([node(), pod("high", 8), pod("a", 2, node="n1", owner=JOB), pod("b", 1, node="n1")])
    made = planned(evict(unit("a", "a"), unit("b", "b")), view, NOW, PlanMode.ENFORCED)
    assert made == RecordedPlan(
        time="2026-01-01T12:00:00Z",
        mode="Enforced",
        result="Planned",
        message="0/1 nodes",
        preemptor=Party("Pod", NS, "high", "uid-high", 10, 1),
        domain="n1",
        units=(
            Party("Pod", NS, "a", "uid-a", 3, 1, Owner("Job", "train", "uid-job")),
            Party("Pod", NS, "b", "uid-b", 3, 1),
        ),
        unitCount=2,
        podCount=2,
        accelerators={GPU: 3},
        violations=2,
        acceleratorSeconds=90,
    )


def test_groups_are_named_with_what_makes_them() -> None:
    """A member that is evicted alone is named with its group; a preemptor that is a group by the group."""
    owned = group("owned", 0, 2, whole=True)
    owned.metadata.ownerReferences = [JOB]
    members = [pod(name, node="n1", group=name[:-2]) for name in ("owned-0", "owned-1", "free-0")]
    view = state_of([node(), owned, group("free"), group("high", 10), pod("high-0", group="high"), *members])
    units = (unit("owned", "owned-0", "owned-1", kind="PodGroup"), unit("free-0", "free-0"))
    made = planned(evict(*units, key=of("high"), kind="podgroup"), view, NOW, PlanMode.OBSERVED)
    assert made.preemptor == Party("PodGroup", NS, "high", "uid-high", 10, 1)
    whole, single = made.units
    assert (whole.kind, whole.pods, whole.owner) == ("PodGroup", 2, Owner("Job", "train", "uid-job"))
    assert (single.kind, single.owner) == ("Pod", Owner("PodGroup", "free"))
    assert identity(whole) == Identity("Job", NS, "train", "uid-job")
    assert identity(single) == Identity("PodGroup", NS, "free")


def test_a_large_plan_names_its_first_units_and_counts_all() -> None:
    names = [f"pod-{at}" for at in range(MAX_UNITS + 5)]
    view = state_of([node(), pod("high"), *(pod(name, node="n1") for name in names)])
    made = planned(evict(*(unit(name, name) for name in names)), view, NOW, PlanMode.ENFORCED)
    assert len(made.units) == MAX_UNITS
    assert (made.unitCount, made.podCount) == (MAX_UNITS + 5, MAX_UNITS + 5)
    assert made.accelerators == {GPU: MAX_UNITS + 5}


def test_victims_that_are_gone_are_named_all_the_same() -> None:
    made = planned(evict(unit("gone", "gone")), state_of([node()]), NOW, PlanMode.ENFORCED)
    assert made.units == (Party("Pod", NS, "gone", "uid-gone", 3, 1),)


def test_how_it_ended() -> None:
    """For a failed preemption, the record counts the pods that were deleted."""
    begun = plan(0, podCount=3, result=Result.PLANNED, message="0/1 nodes")
    done = ended(begun, "", [], 1.2345)
    assert (done.result, done.message, done.podCount, done.milliseconds) == ("Evicted", "0/1 nodes", 3, 1234)
    failed = ended(begun, "it is frozen", [PodRef(NS, "a", "uid-a")], 0.5)
    assert (failed.result, failed.message, failed.podCount) == ("Failed", "it is frozen", 1)


def test_the_answers_of_victims_that_were_asked() -> None:
    """Work that was to be saved and was not counts as lost."""
    units = party("a"), party("b"), party("c")
    begun = plan(0, units=units, unitCount=3, acceleratorSeconds=90, acceleratorSecondsSaved=700)
    units_answers = {"uid-a": Saving.SAVED, "uid-b": Saving.FAILED}
    done = ended(begun, "", [], 42.0, Answers(3, 1, 1, units_answers, lost=600, seconds=40.5))
    assert [unit.saving for unit in done.units] == ["Saved", "Failed", ""]
    assert (done.acceleratorSeconds, done.acceleratorSecondsSaved) == (690, 100)
    assert (done.askedPods, done.savedPods, done.waitedMilliseconds) == (3, 1, 40_500)
    assert Trust([PreemptionRecord(plans=[done, done])]).untrusted == {("Pod", NS, "b")}


def test_a_plan_is_read_back_as_it_was_written() -> None:
    """An empty field is left out and is read as empty."""
    view = state_of([node(), pod("high"), pod("a", node="n1", owner=JOB)])
    made = planned(evict(unit("a", "a")), view, NOW, PlanMode.ENFORCED)
    assert msgspec.json.decode(msgspec.json.encode(made), type=RecordedPlan) == made
    sent = msgspec.to_builtins(made)
    assert "agreement" not in sent
    assert "milliseconds" not in sent


def test_recent_evictions() -> None:
    """Executed plans since a time are returned by time, failed ones too; those without a time are skipped."""
    records = [
        PreemptionRecord(plans=[plan(50), plan(60), plan(70, PlanMode.OBSERVED)]),
        PreemptionRecord(plans=[plan(55, result=Result.FAILED), msgspec.structs.replace(plan(99), time="?")]),
    ]
    since = datetime(2026, 1, 1, 0, 0, 55, tzinfo=UTC)
    found = recent(records, since)
    assert [(at.second if at.minute == 0 else 60, of_.name) for at, _, of_ in found] == [
        (55, "low-55"),
        (60, "low-60"),
    ]
    assert found[0][1] == identity(party("high-55"))


def test_of_a_large_plan_those_count_that_are_not_named() -> None:
    """The rate of a new leader counts units, also those that a record does not list."""
    records = [PreemptionRecord(plans=[plan(60, unitCount=3), plan(50, unitCount=2)])]
    since = datetime(2026, 1, 1, 0, 0, 55, tzinfo=UTC)
    assert [at.minute for at in counted(records, since)] == [1, 1, 1]
