"""Gangs of real Jobs on a real kubelet: preemption with grace periods, and room that others take."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e.cluster import GANG_NODE, Nodes, leader, wait_ready
from tests.support.e2e.work import PodWatch, Space, Work, advertise, create_classes
from tests.support.install.scene import MERGE
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

_DEVICE = "example.com/accelerator"
_DEVICES = 8
_LOW, _HIGH = "e2e-batch", "e2e-research"
_ATTEMPTS = 6
# From the end of a pod to the binding of one that waits for its room, in backoff.
_BOUND_SECONDS = 2.0


@pytest.fixture(scope="module")
def gang_nodes(podium_nodes: Nodes) -> Nodes:
    """Return the cluster, with accelerators on the node of gangs and two classes."""
    create_classes(podium_nodes, {_LOW: 100, _HIGH: 1000})
    advertise(podium_nodes, GANG_NODE, _DEVICE, _DEVICES)
    return podium_nodes


@pytest.fixture
def space(gang_nodes: Nodes) -> Iterator[Space]:
    """Yield a namespace, whose pods are gone at the end."""
    made = Space(gang_nodes)
    yield made
    made.clear()


def test_a_gang_waits_for_the_last_pod_of_the_gang_that_it_preempts(space: Space, watch: PodWatch) -> None:
    """Two pods get SIGTERM, run for three more seconds and fail; none of the winners is bound before that.

    The Job creates its pods again, after a pause that doubles with each failed pod. They wait, and run to
    their end when the winners have ended.
    """
    lingering = Work(lifetime="10s", linger="3s", grace_seconds=20)
    space.gang("nightly", 2, _LOW)
    space.job("nightly", 2, _LOW, lingering, {"cpu": "50m", _DEVICE: "3"})
    until(partial(_run, watch, "nightly", 2), "nightly runs")
    victims = set(watch.bound("nightly"))
    space.gang("train", 2, _HIGH)
    space.job("train", 2, _HIGH, Work(lifetime="5s"), {"cpu": "50m", _DEVICE: "4"})
    until(lambda: space.completed("train"), "train completes")
    ended = watch.ended("nightly")
    assert victims <= set(ended)
    assert min(watch.bound("train").values()) >= max(ended[name] for name in victims)
    targets = {each.name for each in watch.of("nightly") if each.is_target}
    assert victims <= targets
    until(lambda: space.completed("nightly"), "nightly completes after train")
    again = {name: at for name, at in watch.bound("nightly").items() if name not in victims}
    assert min(again.values()) >= max(watch.ended("train").values())
    assert {each.reason for each in watch.of("train") if each.phase == "Failed"} == set()


def test_a_new_leader_goes_on_with_the_preemption_of_one_that_was_killed(
    gang_nodes: Nodes, space: Space, watch: PodWatch
) -> None:
    """The leader ends while the victims use their grace period. No other pod is evicted for the same gang."""
    lingering = Work(lifetime="60s", linger="8s", grace_seconds=30)
    space.gang("nightly", 2, _LOW)
    space.job("nightly", 2, _LOW, lingering, {"cpu": "50m", _DEVICE: "2"})
    space.gang("other", 2, _LOW)
    space.job("other", 2, _LOW, Work(lifetime="60s"), {"cpu": "50m", _DEVICE: "2"})
    until(partial(_run, watch, "nightly", 2), "nightly runs")
    until(partial(_run, watch, "other", 2), "other runs")
    space.gang("train", 2, _HIGH)
    space.job("train", 2, _HIGH, Work(lifetime="3s"), {"cpu": "50m", _DEVICE: "2"})
    until(lambda: len(_evicted(watch)) == 2, "one gang is evicted")
    victims = _evicted(watch)
    first = leader(gang_nodes, "scheduler")
    (pod,) = [
        each
        for each in gang_nodes.pods("app.kubernetes.io/component=scheduler")
        if each["metadata"]["name"] == first
    ]
    gang_nodes.signal(pod, "SIGKILL")
    until(lambda: space.completed("train"), "train completes")
    wait_ready(gang_nodes)
    assert _evicted(watch) == victims
    assert len({name.rsplit("-", 1)[0] for name in victims}) == 1
    ended = {**watch.ended("nightly"), **watch.ended("other")}
    assert min(watch.bound("train").values()) >= max(ended[name] for name in victims)


def test_a_pod_that_the_kubelet_refuses_is_replaced_and_bound_when_there_is_room(
    gang_nodes: Nodes, space: Space, watch: PodWatch
) -> None:
    """The node has more processors for a moment, in which a gang is bound and the kubelet stands still.

    The kubelet refuses one pod of the gang with OutOfcpu. The Job makes another, which waits for the end of
    another pod of the same priority.
    """
    server, path = gang_nodes.server, f"/api/v1/nodes/{GANG_NODE}/status"
    room = _millicores(gang_nodes)
    share = {"cpu": f"{room * 45 // 100}m"}
    space.pod("other", Work(), share, priorityClassName=_HIGH)
    until(partial(_run, watch, "other", 1), "the other pod runs")
    gang_nodes.on(GANG_NODE, "pkill", "-STOP", "kubelet")
    try:
        assert server.request("PATCH", path, _processors(2 * room), MERGE)[0] == 200
        space.gang("race", 2, _HIGH)
        space.job("race", 2, _HIGH, Work(), share)
        until(lambda: len(watch.bound("race")) == 2, "the gang is bound")
        # A kubelet judges pods by the node that the API server has.
        assert server.request("PATCH", path, _processors(room), MERGE)[0] == 200
    finally:
        gang_nodes.on(GANG_NODE, "pkill", "-CONT", "kubelet")
    until(lambda: bool(_refused(watch, "race")), "the kubelet refuses a pod")
    until(partial(_exist, watch, "race", 3), "the Job makes another")
    assert len(watch.bound("race")) == 2
    space.delete_pod("other")
    until(partial(_run, watch, "race", 2), "the gang runs")
    assert len(_refused(watch, "race")) == 1
    assert watch.bound("race").keys() - _refused(watch, "race") <= set(space.pods())


def test_a_waiting_pod_is_bound_soon_after_room_is_free(
    gang_nodes: Nodes, space: Space, watch: PodWatch, measured: Measured
) -> None:
    """The pod has failed several times, so it is in backoff when the room comes.

    kube-scheduler waits out such a backoff of up to ten seconds, unless it has nothing else to do.
    """
    room = _millicores(gang_nodes) - 400
    space.pod("hog", Work(), {"cpu": f"{room}m"})
    until(partial(_run, watch, "hog", 1), "the room is taken")
    space.pod("waiting", Work(lifetime="1s"), {"cpu": f"{room - 200}m"})
    for at in range(_ATTEMPTS):
        small = f"small-{at}"
        space.pod(small, Work(), {"cpu": "100m"}, nodeName=GANG_NODE)
        until(partial(_run, watch, small, 1), "it runs")
        space.delete_pod(small)  # room comes, and is too little: an attempt, and a longer backoff
        until(partial(_is_gone, watch, small), "it is gone")
    assert not watch.bound("waiting")
    space.delete_pod("hog")
    until(lambda: bool(watch.bound("waiting")), "the waiting pod is bound")
    ended, bound = watch.ended("hog")["hog"], watch.bound("waiting")["waiting"]
    measured(f"bound {bound - ended:.3f} s after the room was free")
    assert bound - ended < _BOUND_SECONDS


def _millicores(nodes: Nodes) -> int:
    """Return the allocatable processor time of the node of gangs."""
    code, node = nodes.server.request("GET", f"/api/v1/nodes/{GANG_NODE}")
    assert code == 200, node
    amount: str = node["status"]["allocatable"]["cpu"]
    return int(amount[:-1]) if amount.endswith("m") else 1000 * int(amount)


def _exist(watch: PodWatch, job: str, count: int) -> bool:
    return len({each.name for each in watch.of(job)}) >= count


def _run(watch: PodWatch, job: str, count: int) -> bool:
    """Return whether so many pods of a Job have started to run."""
    return len({each.name for each in watch.of(job) if each.phase == "Running"}) >= count


def _processors(millicores: int) -> dict[str, Any]:
    amount = {"cpu": f"{millicores}m"}
    return {"status": {"allocatable": amount, "capacity": amount}}


def _refused(watch: PodWatch, job: str) -> set[str]:
    return {each.name for each in watch.of(job) if each.reason == "OutOfcpu"}


def _is_gone(watch: PodWatch, pod: str) -> bool:
    return any(each.kind == "DELETED" for each in watch.of(pod))


def _evicted(watch: PodWatch) -> set[str]:
    """Return the pods of lower priority that were deleted while they ran."""
    return {
        each.name
        for job in ("nightly", "other")
        for each in watch.of(job)
        if each.terminating and each.node and each.is_target
    }
