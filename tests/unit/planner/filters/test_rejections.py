"""Nodes that rejected pods, and how long similar pods avoid these nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import empty_snapshot, node, pod
from tests.support.filters.dynamic_scene import NAMESPACES

from podium.planner import rejections
from podium.planner.placement import Placer
from podium.planner.rejections import MOST, SECONDS, Rejections, rejected_for
from podium.planner.shapes import Shape, shape_of


def shape(**spec: Any) -> Shape:
    return shape_of(pod("p", {"cpu": "1"}, **spec), empty_snapshot().plugins)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}, "OutOfnvidia.com/gpu"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ({"phase": "Failed", "reason": "TopologyAffinityError"}, "TopologyAffinityError"),
        ({"phase": "Failed", "reason": "PodFeatureUnsupported"}, "PodFeatureUnsupported"),
        ({"phase": "Failed", "reason": "NodeAffinity"}, "NodeAffinity"),
        ({"phase": "Failed", "reason": "Evicted"}, ""),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, ""),
        ({"phase": "Failed"}, ""),
        ({"phase": "Running", "reason": "OutOfcpu"}, ""),
        ({}, ""),
    ],
)
def test_the_reasons_by_which_a_kubelet_rejects_pods(status: dict[str, str], reason: str) -> None:
    """Pods that ran and failed, or were evicted, do not count."""
    assert rejected_for(pod("p", node="n", status=status)) == reason


def test_equal_pods_avoid_a_node_for_some_minutes() -> None:
    """Labels make no difference; another namespace, request or selector does."""
    known = Rejections()
    known.record(shape(labels={"index": "0"}), "n", 100.0)
    assert known.nodes(shape(labels={"index": "1"})) == ("n",)
    others = (
        shape(namespace="team-b"),
        shape(nodeSelector={"a": "b"}),
        shape_of(pod("p"), empty_snapshot().plugins),
    )
    assert [known.nodes(each) for each in others] == [()] * 3
    known.expire(100.0 + SECONDS - 1)
    assert known.nodes(shape()) == ("n",)
    known.expire(100.0 + SECONDS)
    assert known.nodes(shape()) == ()
    assert len(known) == 0


def test_another_rejection_restarts_the_time() -> None:
    known = Rejections()
    known.record(shape(), "n", 0.0)
    known.record(shape(), "m", 10.0)
    known.record(shape(), "n", 20.0)
    known.expire(SECONDS + 10.0)
    assert known.nodes(shape()) == ("n",)


def test_the_number_of_rejections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are dropped, whatever pods cause the others."""
    assert MOST == 4096
    monkeypatch.setattr(rejections, "MOST", 3)
    known = Rejections()
    for at in range(5):
        known.record(shape(), f"n{at}", float(at))
    assert known.nodes(shape()) == ("n2", "n3", "n4")
    assert len(known) == 3


NODES = {"m": "8", "n": "4", "o": "2"}


@given(avoided=st.sets(st.sampled_from("mnox")), count=st.integers(1, 14), run=st.sampled_from([1, 64]))
def test_avoided_nodes_are_taken_when_all_others_are_full(avoided: set[str], count: int, run: int) -> None:
    """A better score does not change that; the pods fill the other nodes first."""
    snapshot = empty_snapshot()
    for name, cpu in NODES.items():
        snapshot.apply(None, node(name, {"cpu": cpu, "memory": "64Gi"}))
    for at in range(count):
        snapshot.apply(None, pod(f"p{at}", {"cpu": "1"}))
    placer = Placer(snapshot, NAMESPACES, by_hash=True)
    for name in avoided:
        placer.rejections.record(shape(), name, 0.0)
    welcome = sum(int(cpu) for name, cpu in NODES.items() if name not in avoided)
    with pytest.MonkeyPatch.context() as patch, snapshot.trial():
        patch.setattr("podium.planner.placement._RUN", run)
        got = placer.place_many(list(snapshot.pod_row.values()))
    on = [snapshot.names[row] for row in got.values()]
    assert len(on) == min(count, sum(map(int, NODES.values())))
    assert sum(name not in avoided for name in on) == min(count, welcome)
