"""A preemptor waits for pods that end by themselves, if its class or group allows it and room comes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NOW, NS, state_of, time_of
from tests.support.preemption.scene import (
    SECONDS,
    engine_of,
    gang,
    group,
    node,
    of,
    placed,
    planned,
    pod,
    priority_class,
    scheduled,
    victims,
)

from podium.api.meta import OwnerReference
from podium.api.podkinds.kind import PodOwner
from podium.api.podkinds.workloads import JOB_KEY, Job
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import LONGEST_WAIT_FOR_ROOM, PREEMPTION_DELAY, RUN_TIME
from podium.cluster.state import ClusterState
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

PATIENT = priority_class("patient", 9)
PATIENT.metadata.annotations = {LONGEST_WAIT_FOR_ROOM: "10m"}
SYSTEM = priority_class("system", HIGHEST_USER_PRIORITY + 1)
SYSTEM.metadata.annotations = {LONGEST_WAIT_FOR_ROOM: "10m"}
# Seconds until the API server shows an end.
LATE = 10


def running(name: str, where: str = "n1", *, ago: int | None = 600, run: str = "", **kwargs: Any) -> Any:
    """Make a running pod that started so many seconds `ago`, and declares a `run` time."""
    made = pod(name, 4, 1, node=where, ago=ago, **kwargs)
    made.metadata.annotations = {RUN_TIME: run} if run else {}
    return made


def high(**kwargs: Any) -> Any:
    return pod("high", 4, **{"priority": 9, "priorityClassName": "patient", **kwargs})


def waiting(ago: int) -> dict[str, Any]:
    """Return the status of a pod that finds no room since so many seconds."""
    condition = {**scheduled(ago, "False")["conditions"][0], "reason": "Unschedulable"}
    return {"conditions": [condition]}


# The running pod, the preemptor, and in how many seconds the pod is gone (None: the preemptor evicts).
ENDS: dict[str, tuple[Any, Any, int | None]] = {
    "a run time": (running("low", run="15m"), high(), 300 + LATE),
    "a deadline, with the grace period": (running("low", activeDeadlineSeconds=900), high(), 330 + LATE),
    "a grace period of its own": (
        running("low", activeDeadlineSeconds=900, terminationGracePeriodSeconds=100),
        high(),
        400 + LATE,
    ),
    "the earlier of both": (running("low", run="12m", activeDeadlineSeconds=900), high(), 120 + LATE),
    "no end": (running("low"), high(), None),
    "an end that is no duration": (running("low", run="soon"), high(), None),
    "an end after the longest wait": (running("low", run="19m51s"), high(), None),
    "an end within the longest wait": (running("low", run="19m50s"), high(), 600),
    "an end that has passed": (running("low", run="9m50s"), high(), None),
    "an end that has passed a moment ago": (running("low", run="9m51s"), high(), 1),
    "a pod that has not started": (running("low", ago=None, run="1m"), high(), None),
    "a preemptor that has waited": (running("low", run="15m"), high(status=waiting(200)), 300 + LATE),
    "a preemptor that has waited too long": (running("low", run="15m"), high(status=waiting(300)), None),
    "a class that does not wait": (running("low", run="15m"), high(priorityClassName=None), None),
    "a system class": (
        running("low", run="15m"),
        high(priorityClassName="system", priority=SYSTEM.value),
        None,
    ),
}


@pytest.mark.parametrize(("low", "preemptor", "seconds"), ENDS.values(), ids=ENDS)
def test_a_preemptor_waits_for_an_end_in_time(low: Any, preemptor: Any, seconds: int | None) -> None:
    plan = planned(node(), PATIENT, SYSTEM, low, preemptor)
    if seconds is None:
        assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, ["low"])
        return
    minutes = -(-seconds // 60)
    assert plan.outcome is Outcome.FITS_AFTER_WAIT
    assert (placed(plan), victims(plan), plan.harm) == ({"high": "n1"}, [], None)
    unit = "minute" if minutes == 1 else "minutes"
    assert plan.message == (
        f"fits on node n1 in {minutes} {unit}, by the end of team-a/low; no unit is evicted"
    )


def job(
    name: str = "eval", uid: str = "j", *, ago: int | None = 600, suspend: bool = False, **spec: Any
) -> PodOwner:
    """Make a Job that started so many seconds `ago`, and is stored with a UID."""
    start = None if ago is None else time_of(SECONDS - ago)
    document = {
        **dict(zip(("apiVersion", "kind"), JOB_KEY, strict=True)),
        "metadata": {"name": name, "namespace": NS, "uid": uid},
        "spec": {"suspend": suspend, **spec},
        "status": {"startTime": start},
    }
    return msgspec.convert(document, Job).neutral()


def of_job(made: Any, name: str = "eval", uid: str = "j", **owner: Any) -> Any:
    """Return a pod that names a Job as its controller."""
    version, kind = JOB_KEY
    reference: dict[str, Any] = {"apiVersion": version, "kind": kind, "controller": True, **owner}
    made.metadata.ownerReferences = [OwnerReference(**reference, name=name, uid=uid)]
    return made


BY_JOB = "the deadline of Job team-a/eval"
BY_POD = "the end of team-a/low"
# The Job, its running pod, and by what and in how many seconds the pod is gone (None: the preemptor evicts).
JOBS: dict[str, tuple[PodOwner, Any, tuple[str, int] | None]] = {
    "from the start of the Job": (
        job(ago=800, activeDeadlineSeconds=900),
        of_job(running("low", ago=10)),
        (BY_JOB, 130 + LATE),
    ),
    "a grace period of its own": (
        job(activeDeadlineSeconds=900),
        of_job(running("low", terminationGracePeriodSeconds=100)),
        (BY_JOB, 400 + LATE),
    ),
    "an earlier run time": (
        job(activeDeadlineSeconds=900),
        of_job(running("low", run="11m")),
        (BY_POD, 60 + LATE),
    ),
    "an earlier deadline than the run time": (
        job(activeDeadlineSeconds=900),
        of_job(running("low", run="19m")),
        (BY_JOB, 330 + LATE),
    ),
    "an earlier deadline of the pod": (
        job(activeDeadlineSeconds=900),
        of_job(running("low", activeDeadlineSeconds=800)),
        (BY_POD, 230 + LATE),
    ),
    "no deadline": (job(), of_job(running("low")), None),
    "a suspended Job": (job(suspend=True, activeDeadlineSeconds=900), of_job(running("low")), None),
    "a Job that has not started": (job(ago=None, activeDeadlineSeconds=900), of_job(running("low")), None),
    "a deadline that has passed": (job(activeDeadlineSeconds=0), of_job(running("low")), None),
    "a later deadline than the longest wait": (
        job(activeDeadlineSeconds=1161),
        of_job(running("low")),
        None,
    ),
    "a deadline later than any": (job(activeDeadlineSeconds=2**63 - 1), of_job(running("low")), None),
    "a Job of another UID": (job(uid="other", activeDeadlineSeconds=900), of_job(running("low")), None),
    "an owner that does not control the pod": (
        job(activeDeadlineSeconds=900),
        of_job(running("low"), controller=None),
        None,
    ),
    "an owner of another kind": (
        job(activeDeadlineSeconds=900),
        of_job(running("low"), apiVersion="example.com/v1"),
        None,
    ),
}


@pytest.mark.parametrize(("owner", "low", "expected"), JOBS.values(), ids=JOBS)
def test_the_deadline_of_a_job_ends_its_pods(
    owner: PodOwner, low: Any, expected: tuple[str, int] | None
) -> None:
    """The rule is `pastActiveDeadline` of upstream's Job controller."""
    plan = planned(node(), PATIENT, owner, low, high())
    if expected is None:
        assert victims(plan) == ["low"]
        return
    cause, seconds = expected
    minutes = -(-seconds // 60)
    unit = "minute" if minutes == 1 else "minutes"
    assert plan.message == f"fits on node n1 in {minutes} {unit}, by {cause}; no unit is evicted"


def test_a_job_is_named_once() -> None:
    """A plan that waits for two pods of one Job and for another pod names both causes."""
    low = [of_job(running(f"low-{at}", f"n{at}")) for at in range(2)]
    objects = [job(activeDeadlineSeconds=900), *low, running("lone", "n2", run="15m")]
    team = group("high", 9, 3, annotations={LONGEST_WAIT_FOR_ROOM: "10m"})
    members = gang("high", [None] * 3, 4, priority=9)
    plan = planned(*(node(f"n{at}") for at in range(3)), objects, team, members, by=of("high"))
    assert f"by the end of team-a/lone and {BY_JOB}; no unit is evicted" in plan.message


@pytest.mark.parametrize("ends", [900, 700])
def test_a_changed_deadline_counts_at_once(ends: int) -> None:
    """The engine follows a Job that appears, changes and is deleted."""
    state = state_of([node(), PATIENT, of_job(running("low")), high()])
    engine = Engine(state)
    state.observe(engine.apply)
    outcomes = []
    for owner in (job(activeDeadlineSeconds=5000), job(activeDeadlineSeconds=ends)):
        state.apply(owner)
        outcomes.append(engine.plan((NS, "high"), NOW).outcome)
    state.remove(job())
    outcomes.append(engine.plan((NS, "high"), NOW).outcome)
    evicts = Outcome.FITS_AFTER_PREEMPTION
    assert outcomes == [evicts, Outcome.FITS_AFTER_WAIT, evicts]


def test_the_releases_do_not_wait() -> None:
    objects = node(), PATIENT, running("low", run="15m"), high()
    assert victims(planned(*objects, semantics=Semantics.V1_37)) == ["low"]


def test_a_group_inherits_the_end_to_its_pods() -> None:
    low = gang("low", ["n1"], 4, priority=1, ago=600)
    team = group("low", 1, annotations={RUN_TIME: "15m"})
    assert planned(node(), PATIENT, team, low, high()).outcome is Outcome.FITS_AFTER_WAIT


def test_the_least_wait_is_chosen() -> None:
    """The first end that gives room counts, on whichever node it is."""
    low = [running("late", "n1", run="19m"), running("soon", "n2", run="11m")]
    plan = planned(node("n1"), node("n2"), PATIENT, low, high())
    assert placed(plan) == {"high": "n2"}
    assert "in 2 minutes, by the end of team-a/soon;" in plan.message


def test_an_end_of_higher_priority_gives_room_too() -> None:
    """Nothing has to be evicted, so priorities do not matter."""
    above, low = running("above", "n1", run="11m"), running("low", "n2")
    above.spec.priority = 99
    assert placed(planned(node("n1"), node("n2"), PATIENT, above, low, high())) == {"high": "n1"}


@pytest.mark.parametrize(("annotation", "ends", "waits"), [
    (LONGEST_WAIT_FOR_ROOM, ("15m", "12m"), True),
    (PREEMPTION_DELAY, ("15m", "12m"), True),
    (LONGEST_WAIT_FOR_ROOM, ("15m", ""), False),
])  # fmt: skip
def test_a_gang_waits_for_all_its_room(annotation: str, ends: tuple[str, str], waits: bool) -> None:
    """A wait for a part of the room would end with an eviction anyway."""
    low = [running(f"low-{at}", f"n{at}", run=run) for at, run in enumerate(ends)]
    team = group("high", 9, 2, annotations={annotation: "10m"})
    plan = planned(
        node("n0"), node("n1"), low, team, gang("high", [None, None], 4, priority=9), by=of("high")
    )
    assert plan.outcome is (Outcome.FITS_AFTER_WAIT if waits else Outcome.FITS_AFTER_PREEMPTION)


@pytest.mark.parametrize(("priority", "waits"), [(8, True), (9, False)])
def test_room_that_another_has_reserved_is_not_awaited(priority: int, waits: bool) -> None:
    """Two preemptors never wait for the same end; a higher one takes the reservation of a lower one."""
    other = pod("other", 4, priority, status={"nominatedNodeName": "n1"})
    low = [running("low", "n1", run="15m"), running("endless", "n2")]
    plan = planned(node("n1"), node("n2"), PATIENT, low, other, high())
    assert victims(plan) == ([] if waits else ["endless"])


ends = st.lists(st.sampled_from([0, 1, 300, 590, 600]), min_size=3, max_size=6)
cpus = st.lists(st.integers(1, 3), min_size=6, max_size=6)


def _cluster(seconds: list[int], sizes: list[int], needed: int, reserved: str | None) -> list[Any]:
    """Return nodes with pods that end in so many seconds (0: never), and a gang that waits ten minutes."""
    objects: list[Any] = [node(f"n{at}") for at in range(3)]
    for at, end in enumerate(seconds):
        made = pod(f"low-{at}", sizes[at], 1, node=f"n{at % 3}", ago=900)
        made.metadata.annotations = {RUN_TIME: f"{900 - LATE + end}s"} if end else {}
        objects.append(made)
    objects += [group("high", 9, needed, annotations={LONGEST_WAIT_FOR_ROOM: "10m"})]
    objects += gang("high", [None] * needed, 2, priority=9)
    status = {"nominatedNodeName": reserved}
    return [*objects, pod("other", 2, 9, status=status)]


def _fits_without(state: ClusterState, gone: set[str]) -> bool:
    """Return whether a new engine places the gang if some pods do not exist."""
    kept = [each for (_, name), each in state.pods.items() if name not in gone]
    others = [*state.nodes.values(), *state.groups.values(), *kept]
    return Engine(state_of(others)).decide(of("high"), NOW).outcome is Outcome.FITS  # type: ignore[arg-type]


@given(ends, cpus, st.integers(1, 4), st.sampled_from([None, "n0", "n1"]))
def test_a_wait_is_chosen_exactly_if_the_ends_place_the_gang(
    seconds: list[int], sizes: list[int], needed: int, reserved: str | None
) -> None:
    """A new engine without the pods that have ended agrees, and no wait is longer than it may be."""
    engine = engine_of(*_cluster(seconds, sizes, needed, reserved))
    decision = engine.decide(of("high"), NOW)
    wait = engine.wait_for_ends(decision, NOW)
    state = engine.view
    assert isinstance(state, ClusterState)
    if decision.chosen is None:
        assert wait is None
        return
    by = {end: {f"low-{at}" for at, own in enumerate(seconds) if 0 < own <= end} for end in {0, *seconds}}
    least = next((end for end in sorted(by) if _fits_without(state, by[end])), None)
    if wait is None:
        assert least is None
        return
    assert wait.room_at - SECONDS == least
    names = {engine.snapshot.pod_at(row).metadata.name for row in wait.awaited}
    assert names
    assert names <= by[wait.room_at - SECONDS]
    assert len(wait.placed) >= len(decision.placed)
