"""Several preemptors are planned one after another, and their plans add up."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.devices import scene as devices
from tests.support.filters import builders
from tests.support.oracle.clusters import replicas
from tests.support.preemption.clusters import NOW, SECONDS, state_of, time_of
from tests.support.preemption.scene import HOST, group, node

from podium.api.core import PodDisruptionBudget
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.storage import PersistentVolumeStatus
from podium.cluster.reader import Target
from podium.cluster.state import ClusterState
from podium.planner import series
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import HarmLevel, Outcome, WorkloadPlan
from podium.planner.semantics import Semantics
from podium.planner.series import Step, by_workload, plan_series, sum_of_harm, summed, undone
from podium.planner.settings import Budgets, Settings

GPU, NS = "nvidia.com/gpu", builders.NS
SAMPLE = 60
GANG = GroupKey(True, NS, "gang")


def pod(name: str, gpus: int, priority: int, where: str | None = None, **kwargs: Any) -> Any:
    """Make a pod with accelerators; a pod with a node started an hour ago."""
    start = time_of(SECONDS - 3_600) if where else None
    return builders.pod(name, {GPU: gpus}, node=where, priority=priority, start=start, **kwargs)


def nodes(number: int) -> list[Any]:
    return [node(f"n{at}", 100, room={GPU: 8}) for at in range(number)]


def full(number: int, priority: int = 1) -> list[Any]:
    """Make nodes, each of them full with one pod."""
    return [*nodes(number), *(pod(f"old-{at}", 8, priority, f"n{at}") for at in range(number))]


SOURCE = ObjectRef("apps/v1", "Deployment", NS, "web")


def planned(objects: Sequence[Any], targets: Sequence[Target]) -> list[Step]:
    return in_series(state_of(objects), targets)


def in_series(
    state: ClusterState, targets: Sequence[Target], at_once: int = 64, **settings: Any
) -> list[Step]:
    """Plan for preemptors of one object; this many or more equal lone pods are planned at once."""
    engine = Engine(state, Settings(**settings))
    state.observe(engine.apply)
    with patch.object(series, "_AT_ONCE", at_once):
        return list(plan_series(state, dict.fromkeys(targets, SOURCE), NOW, lambda _: engine))


def named(*names: str) -> list[Target]:
    return [(NS, name) for name in names]


def where(steps: Sequence[Step]) -> dict[str, str]:
    return {
        placed.pod.removeprefix(f"{NS}/"): placed.node for step in steps for placed in step.plan.placements
    }


def gang(size: int) -> list[Any]:
    return [group("gang", 9, size), *(pod(f"gang-{at}", 8, 9, group="gang") for at in range(size))]


CASES: dict[str, tuple[list[Any], list[Target], list[str], list[Outcome]]] = {
    "plans do not share free room": (
        [*nodes(2), *(pod(name, 8, 5) for name in "abc")],
        named("a", "b", "c"),
        ["a", "b"],
        [Outcome.FITS, Outcome.FITS, Outcome.DOES_NOT_FIT],
    ),
    "plans do not share victims": (
        [*full(2), *(pod(name, 8, 5) for name in "abc")],
        named("a", "b", "c"),
        ["a", "b"],
        [Outcome.FITS_AFTER_PREEMPTION] * 2 + [Outcome.DOES_NOT_FIT],
    ),
    "the highest priority comes first": (
        [*nodes(1), pod("low", 8, 5), pod("high", 8, 7)],
        named("low", "high"),
        ["high"],
        [Outcome.FITS, Outcome.DOES_NOT_FIT],
    ),
    "equal priorities keep the order of the file": (
        [*nodes(1), pod("second", 8, 5), pod("first", 8, 5)],
        named("first", "second"),
        ["first"],
        [Outcome.FITS, Outcome.DOES_NOT_FIT],
    ),
    "room that a victim leaves is free for the next": (
        [*full(1), pod("a", 4, 5), pod("b", 4, 5)],
        named("a", "b"),
        ["a", "b"],
        [Outcome.FITS_AFTER_PREEMPTION, Outcome.FITS],
    ),
    "a group and a pod in one file": (
        [*full(3), *gang(2), pod("a", 8, 5)],
        [(NS, "a"), GANG],
        ["gang-0", "gang-1", "a"],
        [Outcome.FITS_AFTER_PREEMPTION] * 2,
    ),
    "what does not fit leaves the room to others": (
        [*nodes(1), *gang(2), pod("a", 8, 5)],
        [GANG, (NS, "a")],
        ["a"],
        [Outcome.DOES_NOT_FIT, Outcome.FITS],
    ),
}


@pytest.mark.parametrize(("objects", "targets", "placed", "outcomes"), CASES.values(), ids=CASES)
def test_each_plan_is_made_after_the_plans_before_it(
    objects: list[Any], targets: list[Target], placed: list[str], outcomes: list[Outcome]
) -> None:
    steps = planned(objects, targets)
    assert list(where(steps)) == placed
    assert [step.plan.outcome for step in steps] == outcomes


@given(st.integers(0, 10_000))
def test_the_sum_fits_the_cluster_and_adds_up(seed: int) -> None:
    """No node is over its capacity, nothing is evicted twice, and no pod with a plan is a victim."""
    rng = random.Random(seed)
    old = [
        pod(f"old-{at}-{number}", rng.choice((1, 2, 4)), rng.choice((0, 1, 5)), f"n{at}")
        for at in range(3)
        for number in range(2)
    ]
    new = [pod(f"new-{at}", rng.choice((2, 4, 8)), rng.choice((1, 5, 9))) for at in range(5)]
    steps = planned([*nodes(3), *old, *new], named(*(each.metadata.name for each in new)))
    whole = summed([step.plan for step in steps], "sum")
    gone = [victim.name for unit in whole.victims for victim in unit.pods]
    assert len(gone) == len(set(gone)) == (whole.harm.pods if whole.harm is not None else 0)
    assert set(gone) <= {each.metadata.name for each in old}
    used = Counter[str]()
    size = {each.metadata.name: int(each.spec.containers[0].resources.requests[GPU]) for each in [*old, *new]}
    for each in old:
        if each.metadata.name not in gone:
            used[each.spec.nodeName] += size[each.metadata.name]
    for name, place in where(steps).items():
        used[place] += size[name]
    assert max(used.values(), default=0) <= 8
    assert [step.priority for step in steps] == sorted((step.priority for step in steps), reverse=True)


def test_a_sum_has_the_worst_outcome_and_all_harm() -> None:
    steps = planned([*full(2), *(pod(name, 8, 5) for name in "abc")], named("a", "b", "c"))
    whole = summed([step.plan for step in steps], "2 of 3")
    assert (whole.outcome, whole.message) == (Outcome.DOES_NOT_FIT, "2 of 3")
    assert whole.harm is not None
    assert whole.harm.levels == (HarmLevel(1, 2, 2),)
    assert whole.harm.acceleratorSeconds == 2 * 8 * 3_600
    assert {unit.name for unit in whole.victims} == {"old-0", "old-1"}
    assert whole.nodes == steps[-1].plan.nodes
    assert not {unit.name for unit in whole.spared} & {unit.name for unit in whole.victims}


def test_steps_are_added_up_by_the_object_that_brings_them() -> None:
    job, other = ObjectRef("batch/v1", "Job", NS, "job"), ObjectRef("v1", "Pod", NS, "c")
    targets = named("a", "b", "c")
    steps = planned([*full(2), *(pod(name, 8, 5) for name in "abc")], targets)
    assert by_workload(steps, dict(zip(targets, (job, job, other), strict=True))) == [
        WorkloadPlan(
            kind="Job",
            namespace=NS,
            name="job",
            priority=5,
            pods=2,
            placed=2,
            outcome=Outcome.FITS_AFTER_PREEMPTION,
            message=steps[0].plan.message,
            harm=summed([step.plan for step in steps], "").harm,
        ),
        WorkloadPlan(
            kind="Pod",
            namespace=NS,
            name="c",
            priority=5,
            pods=1,
            placed=0,
            outcome=Outcome.DOES_NOT_FIT,
            message=steps[2].plan.message,
            harm=None,
        ),
    ]


def test_changes_in_a_trial_are_undone() -> None:
    """Added objects are gone, removed ones are back, and a following engine plans as before."""
    state = state_of([*full(2), pod("a", 8, 5), pod("b", 8, 0)])
    engine = Engine(state)
    state.observe(engine.apply)
    before, plan = dict(state.pods), engine.plan((NS, "a"), NOW)
    with undone(state):
        state.apply(pod("c", 8, 9))
        steps = list(plan_series(state, dict.fromkeys(named("a", "c"), SOURCE), NOW, lambda _: engine))
        assert [step.plan.outcome for step in steps] == [Outcome.FITS_AFTER_PREEMPTION] * 2
        assert state.pods != before
    assert state.pods == before
    assert engine.plan((NS, "a"), NOW) == plan


def fitting(steps: Sequence[Step]) -> tuple[int, int]:
    """Return how many pods fit before the first preemption, and how many in all."""
    free = takewhile(lambda step: step.plan.outcome is Outcome.FITS, steps)
    return sum(step.pods for step in free), sum(len(step.plan.placements) for step in steps)


def overfull(state: ClusterState) -> list[str]:
    """Return the nodes whose pods request more than they have."""
    engine = Engine(state)
    snapshot = engine.snapshot
    return [
        node
        for node, row in snapshot.row.items()
        if any(
            snapshot.used[at].item(row) > snapshot.allocatable[at].item(row)
            for at in snapshot.resource.values()
        )
    ]


@given(st.integers(0, 10_000), st.sampled_from(Semantics), st.sampled_from(Budgets))
def test_equal_pods_planned_at_once_fit_as_one_by_one(
    seed: int, semantics: Semantics, budgets: Budgets
) -> None:
    """As many fit, without preemption and with it, and no node is over its capacity."""
    one, names = replicas(seed)
    whole = one.copy()
    given: dict[str, Any] = {"semantics": semantics, "budgets": budgets}
    apart, together = in_series(one, names, len(names) + 1, **given), in_series(whole, names, 1, **given)
    assert fitting(together) == fitting(apart)
    assert sum(step.pods for step in together) == len(names)
    assert not overfull(whole)


def test_equal_pods_planned_at_once_do_no_more_harm_in_nearly_all_clusters() -> None:
    """In 95 of 100 clusters they violate no more budgets, and the highest priority is not higher."""
    worse, evicted = 0, Counter[str]()
    for seed in range(SAMPLE):
        one, names = replicas(seed)
        whole = one.copy()
        apart = sum_of_harm(step.plan for step in in_series(one, names, len(names) + 1))
        together = sum_of_harm(step.plan for step in in_series(whole, names, 1))
        if apart is None or together is None:
            assert apart is together
            continue
        evicted.update(apart=apart.pods, together=together.pods)
        ours, theirs = ((each.violations, each.levels[0].priority) for each in (together, apart))
        worse += ours > theirs
    assert worse <= 0.05 * SAMPLE
    assert evicted["together"] <= evicted["apart"]


def test_pods_without_place_share_one_answer() -> None:
    steps = planned([*nodes(1), *(pod(name, 8, 5) for name in "abc")], named("a", "b", "c"))
    assert [(step.plan.outcome, step.pods) for step in steps] == [
        (Outcome.FITS, 1),
        (Outcome.DOES_NOT_FIT, 2),
    ]


def test_many_equal_pods_have_a_plan_for_each_outcome() -> None:
    """Some fit, some use the room of a leaving pod, some preempt, and the others do not fit."""
    running = [
        pod("high", 7, 9, "n0"),
        pod("leaving", 8, 1, "n1", terminating=True),
        pod("old", 8, 1, "n2"),
        pod("kept", 8, 9, "n3"),
    ]
    names = [f"new-{at:02d}" for at in range(64)]
    steps = planned([*nodes(4), *running, *(pod(name, 1, 5) for name in names)], named(*names))
    assert [(step.plan.outcome, step.pods, len(step.plan.victims)) for step in steps] == [
        (Outcome.FITS, 1, 0),
        (Outcome.FITS_AFTER_PREEMPTION, 8, 0),
        (Outcome.FITS_AFTER_PREEMPTION, 8, 1),
        (Outcome.DOES_NOT_FIT, 47, 0),
    ]
    assert steps[2].plan.message == "8 of 8 pending pods fit after preempting 1 pod"


def test_a_budget_is_charged_for_the_plans_before() -> None:
    """Two pods of an app with one disruption left are evicted, one for each preemptor."""
    old = [pod(f"old-{at}", 8, 1, f"n{at}", labels={"app": "old"}) for at in range(2)]
    budget = msgspec.convert(
        {
            "metadata": {"name": "old", "namespace": NS},
            "spec": {"selector": {"matchLabels": {"app": "old"}}},
            "status": {"disruptionsAllowed": 1},
        },
        PodDisruptionBudget,
    )
    steps = planned([*nodes(2), *old, budget, pod("a", 8, 5), pod("b", 8, 5)], named("a", "b"))
    assert [step.plan.harm.violations for step in steps if step.plan.harm is not None] == [0, 1]


def counted(*parts: Any) -> list[Any]:
    """Return objects in one list; scenes of devices have lists of their own."""
    return [each for part in parts for each in (part if isinstance(part, list) else [part])]


def local(name: str, where: str) -> Any:
    """Make a free volume of a node's disk."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [where]}]}
    made = builders.volume(name, terms=[term], storageClassName="local", capacity={"storage": "1Gi"})
    return msgspec.structs.replace(made, status=PersistentVolumeStatus(phase="Available"))


def disk(name: str) -> list[Any]:
    """Return a pod of 1 cpu with a claim of its own for a local volume."""
    return [
        builders.claim(name, storageClassName="local", resources={"requests": {"storage": "1Gi"}}),
        builders.pod(name, {"cpu": 1}, **builders.mounts(name)),
    ]


LOCAL = builders.storage_class("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
FITS, AFTER, NOT = Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION, Outcome.DOES_NOT_FIT
# The objects, with the preemptors a, b and c; the outcome of each of them, and the pods evicted in all.
CLAIMS: dict[str, tuple[list[Any], list[Outcome], list[str]]] = {
    "a device is of one pod": (
        counted(devices.cluster(1, 2), *(devices.waiting(name) for name in "abc")),
        [FITS, FITS, NOT],
        [],
    ),
    "a victim leaves all of its devices": (
        counted(
            devices.cluster(1, 2),
            devices.holder("low", ["n0/gpu-0", "n0/gpu-1"]),
            *(devices.waiting(name) for name in "abc"),
        ),
        [AFTER, FITS, NOT],
        ["low"],
    ),
    "so it is for extended resources of a class": (
        counted(
            devices.cluster(1, 2, devices.RESOURCE),
            devices.with_devices("low", ["n0/gpu-0", "n0/gpu-1"]),
            *(devices.requesting(name, 1, 10) for name in "abc"),
        ),
        [AFTER, FITS, NOT],
        ["low"],
    ),
    "a claim with two users keeps its devices for the other": (
        counted(
            devices.cluster(1, 2),
            devices.claim("both", ["n0/gpu-0"], ["low", "high"]),
            devices.holder("other", ["n0/gpu-1"]),
            devices.pod("low", 0, ["both"], node="n0"),
            devices.pod("high", 100, ["both"], node="n0"),
            *(devices.waiting(name) for name in "abc"),
        ),
        [AFTER, NOT, NOT],
        ["other"],
    ),
    "a volume is of one claim": (
        counted(
            *(devices.node(f"n{at}") for at in range(2)),
            LOCAL,
            *(local(f"v{at}", f"n{at}") for at in range(2)),
            *(disk(name) for name in "abc"),
        ),
        [FITS, FITS, NOT],
        [],
    ),
}


@pytest.mark.parametrize(("objects", "outcomes", "victims"), CLAIMS.values(), ids=list(CLAIMS))
def test_volumes_and_devices_of_a_plan_are_taken_for_the_next_one(
    objects: list[Any], outcomes: list[Outcome], victims: list[str]
) -> None:
    steps = planned(objects, named("a", "b", "c"))
    assert [step.plan.outcome for step in steps for _ in step.targets] == outcomes
    assert [unit.name for step in steps for unit in step.plan.victims] == victims
