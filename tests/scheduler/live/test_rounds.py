"""Preemption by the hundred, again and again: everybody is bound every time.

200 nodes of 4 cpus hold four pods of 900m each, and 200 preemptors of 3 cpus come at once; each evicts three.
kube-scheduler 1.37.0 leaves preemptors pending for more than 90 s in half of such rounds. Nodes have no
kubelet here, and pods a grace period of 0, as where that was seen.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.fixtures.servers import FULL
from tests.scheduler.world import World, Yard, world

from podium.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

ROUNDS = 100 if FULL else 5
NODES = 200
MAKERS = 4
# Nobody is late; where upstream got stuck it took minutes.
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world in which what is deleted is gone."""
    with world(NEWEST.minor, tmp_path_factory.mktemp("world"), kubelets=False) as made, made.scheduling():
        yield made


def make(yard: Yard, bodies: Iterable[dict[str, Any]]) -> None:
    """Make many pods, some at a time."""
    waiting = list(bodies)
    refused: list[Any] = []

    def some(number: int) -> None:
        with closing(yard.server.access.client()) as client:
            for body in waiting[number::MAKERS]:
                code, answer = client.request("POST", yard.pods_path(), body)
                if code != 201:
                    refused.append(answer)

    _together(some)
    assert refused == []


def _together(some: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=some, args=(number,)) for number in range(MAKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_everybody_is_bound_every_time(quick: World) -> None:
    """And three pods a preemptor are all that goes; no node ever holds more than it has."""
    for _ in range(ROUNDS):
        with quick.yard() as yard:
            yard.nodes(NODES)
            make(
                yard,
                (
                    yard.pod_body(
                        f"low-{node}-{index}", "900m", 1, node=f"n{node}", terminationGracePeriodSeconds=0
                    )
                    for node in range(NODES)
                    for index in range(4)
                ),
            )
            yard.witness()
            names = [f"high-{index}" for index in range(NODES)]
            make(yard, (yard.pod_body(name, 3, 5, terminationGracePeriodSeconds=0) for name in names))
            nodes = yard.until_bound(names, PATIENCE_SECONDS)
            assert len({*nodes.values()}) == NODES
            assert len(yard.evicted()) == len({*yard.evicted_uids()}) == 3 * NODES
        quick.forget()
