"""Workloads that evict each other in turn: the scheduler detects cycles and slows each one more each time."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.preemption.scene import group

from podium.api.meta import OwnerReference
from podium.api.schedulable import Schedulable
from podium.history.evictioncycles import (
    Evictions,
    Identity,
    identity_of,
    identity_of_group,
)

A, B, C, D = (Identity("Job", "team-a", name) for name in "abcd")
MINUTE = 60.0


def noted(*evictions: tuple[Identity, Identity, float]) -> Evictions:
    """Return evictions of the past."""
    found = Evictions()
    for each in evictions:
        found.record(*each)
    return found


@pytest.mark.parametrize(
    "evictions, by, of, circle",
    [
        pytest.param([], A, B, (), id="the first"),
        pytest.param([(A, B, 0.0)], A, B, (), id="the same again"),
        pytest.param([(A, B, 0.0)], B, A, (B, A), id="back"),
        pytest.param([(A, B, 0.0), (B, C, 1.0)], C, A, (C, A, B), id="by way of another"),
        pytest.param([(A, B, 0.0), (B, C, 1.0)], A, C, (), id="the way that others went"),
        pytest.param(
            [(A, B, 0.0), (B, C, 1.0), (C, D, 2.0), (A, C, 3.0)], D, A, (D, A, C), id="the shortest way"
        ),
        pytest.param([(B, C, 0.0), (C, B, 1.0)], A, B, (), id="a circle of others"),
        pytest.param([(A, A, 0.0)], A, A, (A,), id="itself again"),
        pytest.param([(A, B, 0.0), (B, A, 1.0)], A, A, (A, B), id="itself by way of another"),
        pytest.param([(A, B, -1800.0)], B, A, (), id="half an hour ago"),
        pytest.param([(A, B, -1799.0)], B, A, (B, A), id="less than half an hour ago"),
    ],
)
def test_circles(
    evictions: list[tuple[Identity, Identity, float]],
    by: Identity,
    of: Identity,
    circle: tuple[Identity, ...],
) -> None:
    """An eviction closes a cycle if the whole cycle took at most half an hour."""
    found = noted(*evictions)
    assert found.closes(by, of, 0.0) == circle
    assert (found.wait(by, of, 0.0) > 0) == bool(circle)


def test_each_round_takes_longer() -> None:
    """The wait counts from the first query, doubles with each round, and ends at half an hour."""
    found, now = noted((A, B, 0.0)), 10.0
    waits = []
    by, of = B, A
    for _ in range(7):
        waits.append(found.wait(by, of, now))
        assert found.wait(by, of, now + waits[-1] - 1) == 1.0
        now += waits[-1]
        assert found.wait(by, of, now) == 0.0
        found.record(by, of, now)
        by, of = of, by
    assert waits == [each * MINUTE for each in (1, 2, 4, 8, 16, 30, 30)]


def test_the_count_of_a_cycle_restarts_after_a_pause() -> None:
    """After half an hour without evictions or queries a cycle starts with a minute again."""
    found = noted((A, B, 0.0))
    found.wait(B, A, 0.0)
    found.record(B, A, 100.0)
    found.record(A, B, 2000.0)
    assert found.wait(B, A, 2000.0) == MINUTE


def test_a_circle_holds_up_no_other() -> None:
    """Waits are kept by cycle, in either direction."""
    found = noted((A, B, 0.0), (B, A, 1.0), (C, D, 2.0))
    assert found.wait(A, B, 30.0) == MINUTE
    assert found.wait(B, A, 60.0) == 30.0
    assert found.wait(D, C, 60.0) == MINUTE
    assert found.wait(A, C, 60.0) == 0.0


def test_memory_is_bounded() -> None:
    """Only the latest evictions are stored, up to a limit, for any number of workloads."""
    found = Evictions()
    crowd = [Identity("Job", "team-a", str(number)) for number in range(12_000)]
    for number, (one, other) in enumerate(itertools.pairwise(crowd)):
        found.record(one, other, number / 1000)
        found.wait(other, one, number / 1000)
    assert len(found._times) == 10_000
    assert len(found._holds) == 1_000
    assert found.closes(crowd[-1], crowd[-2], 12.0)
    assert not found.closes(crowd[1], crowd[0], 12.0)


@given(
    st.lists(st.tuples(st.sampled_from([A, B, C, D]), st.sampled_from([A, B, C, D])), max_size=12),
    st.sampled_from([A, B, C, D]),
    st.sampled_from([A, B, C, D]),
)
def test_a_circle_is_one(pairs: list[tuple[Identity, Identity]], by: Identity, of: Identity) -> None:
    """A cycle is found if and only if evictions lead from one to the other, and each step is one."""
    found = noted(*((one, other, float(at)) for at, (one, other) in enumerate(pairs)))
    reached = {other for one, other in pairs if one == of}
    for _ in range(4):
        reached |= {other for one, other in pairs if one in reached}
    circle = found.closes(by, of, 20.0)
    assert bool(circle) == (by in reached)
    if circle:
        assert circle[0] == by
        assert len(set(circle)) == len(circle)
        others = circle[1:] if by == of else circle[2:]
        way = [of, *others, by]
        assert by == of or circle[1] == of
        assert all(step in pairs for step in itertools.pairwise(way))


def pod(**metadata: Any) -> Schedulable:
    """Make a pod."""
    return msgspec.convert({"metadata": {"namespace": "team-a", **metadata}}, Schedulable)


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-1", "controller": True}


def test_identities() -> None:
    """A workload is the object that outlives its pods: their group, their controller, else their name."""
    assert identity_of(pod(name="p", uid="1"), None) == Identity("Pod", "team-a", "p")
    assert identity_of(pod(name="p"), None) == identity_of(pod(name="p", uid="2"), None)
    assert identity_of(pod(name="p", ownerReferences=[JOB]), None) == Identity(
        "Job", "team-a", "train", "u-1"
    )
    assert identity_of(pod(name="p", ownerReferences=[{**JOB, "controller": False}]), None).kind == "Pod"
    gang = group("g")
    assert identity_of(pod(name="p", ownerReferences=[JOB]), gang) == identity_of_group(gang)
    assert identity_of_group(gang) == Identity("PodGroup", gang.metadata.namespace or "", "g")
    owner = msgspec.convert(JOB, OwnerReference)
    owned = msgspec.structs.replace(
        gang, metadata=msgspec.structs.replace(gang.metadata, ownerReferences=[owner])
    )
    assert identity_of_group(owned)[2:] == ("train", "u-1")
