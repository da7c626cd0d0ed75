"""Hundreds of preemptions, repeated: every preemptor is bound every time.

200 nodes of 4 cpus hold four pods of 900m each, and 200 preemptors of 3 cpus come at once; each evicts three.
kube-scheduler 1.37.0 leaves preemptors pending for more than 90 s in half of such rounds. Nodes have no
kubelet here, and pods a grace period of 0, as in those rounds.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.support.scheduling.world import Sandbox, World, world
from tests.support.servers import FULL
from tools.devcluster.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

ROUNDS = 100 if FULL else 2
NODES = 200
MAKERS = 4
# No round takes this long; upstream's delays take minutes.
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world in which deleted pods are gone at once, and a scheduler without limits."""
    folder = tmp_path_factory.mktemp("world")
    with world(NEWEST.minor, folder, kubelets=False) as made, made.scheduling(way=None):
        yield made


def make(sandbox: Sandbox, bodies: Iterable[dict[str, Any]]) -> None:
    """Make many pods, some at a time."""
    waiting = list(bodies)
    refused: list[Any] = []

    def some(number: int) -> None:
        with closing(sandbox.server.access.client()) as client:
            for body in waiting[number::MAKERS]:
                code, answer = client.request("POST", sandbox.pods_path(), body)
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


# A busy machine may need as long to create and delete the pods of a round.
@pytest.mark.timeout(3 * ROUNDS * PATIENCE_SECONDS)
def test_all_preemptors_are_bound_every_time(quick: World) -> None:
    """Only three pods a preemptor are evicted; no node is ever overcommitted."""
    with quick.sandbox() as sandbox:
        sandbox.nodes(NODES)
        lows = [(f"low-{node}-{index}", f"n{node}") for node in range(NODES) for index in range(4)]
        highs = [f"high-{index}" for index in range(NODES)]
        quickly: dict[str, Any] = {"terminationGracePeriodSeconds": 0}
        for _ in range(ROUNDS):
            make(sandbox, (sandbox.pod_body(name, "900m", 1, node=node, **quickly) for name, node in lows))
            make(sandbox, (sandbox.pod_body(name, 3, 5, **quickly) for name in highs))
            nodes = sandbox.until_bound(highs, PATIENCE_SECONDS)
            assert len({*nodes.values()}) == NODES
            assert len(sandbox.pods()) == 2 * NODES
            assert quick.ledger.problems() == []
            sandbox.ask("DELETE", f"{sandbox.pods_path()}?gracePeriodSeconds=0")
            sandbox.until(lambda: not quick.ledger.pods.now(), "the sandbox is empty")
            quick.forget()
