"""Planned events under writes: no write fails, and none passes the webhooks by."""

from collections.abc import Callable, Iterator

import pytest
from tests.e2e.conftest import NEXT_IMAGE, RATE, Measured, documents
from tests.support.e2e.cluster import Nodes, wait_ready
from tests.support.faults.writing import Writer, webhook_failures, writing
from tests.support.install.scene import NAMESPACE, apply

pytestmark = pytest.mark.e2e

# As many are written before an event, so that connections are open, and as many after it.
_FEW = 80


@pytest.fixture(scope="module")
def writer(podium_nodes: Nodes) -> Iterator[Writer]:
    """Yield writers that are well on their way."""
    with writing(podium_nodes.server, podium_nodes.server.new_namespace("e2e-"), rate=RATE) as started:
        started.more(_FEW)
        yield started


def _roll(nodes: Nodes) -> None:
    nodes.server.kubectl("-n", NAMESPACE, "rollout", "restart", "deployment")
    wait_ready(nodes)


def _upgrade(nodes: Nodes) -> None:
    apply(nodes.server, documents(NEXT_IMAGE))
    wait_ready(nodes)


def _drain(nodes: Nodes) -> None:
    ignored = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
    nodes.server.kubectl("drain", "node-1", *ignored)
    nodes.server.kubectl("uncordon", "node-1")
    wait_ready(nodes)


@pytest.mark.parametrize("event", [_roll, _upgrade, _drain])
def test_no_write_fails(
    podium_nodes: Nodes, writer: Writer, event: Callable[[Nodes], None], measured: Measured
) -> None:
    failures = webhook_failures(podium_nodes.server)
    event(podium_nodes)
    writer.more(_FEW)
    measured(str(writer.record))
    assert [str(each) for each in writer.record.failures()] == []
    assert writer.record.unanswered() == []
    assert webhook_failures(podium_nodes.server) == failures
