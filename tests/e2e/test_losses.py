"""The end and the stop of each process under writes, as the kernel of a node does it.

Only the loss of a webhook may cost writes, for a bounded time: requests that it has, and those that
kube-proxy leads to it until its endpoint is gone. No write passes the webhooks by.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.e2e.conftest import RATE, Measured
from tests.support.e2e.cluster import Nodes, holder, is_succeeded, wait_ready
from tests.support.faults.writing import Record, Writer, writing
from tests.support.install.scene import NAMESPACE
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

_FEW = 80
# From the signal to the last write that failed. A killed process resets its connections. One that stands
# still keeps those of the API server until its liveness probe has failed three times and it is killed.
_BOUND_SECONDS = {"SIGKILL": 5.0, "SIGSTOP": 45.0}
# kube-controller-manager waits 50 s for a node's lease.
_NODE_SECONDS = 70.0
# A lease lasts 15 s.
_LEADERLESS_SECONDS = 30.0


@pytest.fixture(scope="module")
def writer(podium_nodes: Nodes) -> Iterator[Writer]:
    """Yield writers that are well on their way."""
    with writing(podium_nodes.server, podium_nodes.server.new_namespace("e2e-"), rate=RATE) as started:
        started.more(_FEW)
        yield started


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_the_loss_of_a_webhook_costs_writes_for_a_bounded_time(
    podium_nodes: Nodes, writer: Writer, name: str, measured: Measured
) -> None:
    """Each replica in turn, because the API server may have all of its connections to one."""
    for pod in podium_nodes.pods("app.kubernetes.io/component=webhook"):
        before = len(writer.record.writes)
        podium_nodes.signal(pod, name)
        until(partial(_is_unready, podium_nodes, pod), "its endpoint is gone")
        writer.more(_FEW)
        _resume(podium_nodes, pod, name)
        wait_ready(podium_nodes)
        writer.more(_FEW)
        failed = [each for each in writer.record.writes[before:] if each.wrong]
        span = _span(writer.record, before)
        first = str(failed[0]) if failed else "none"
        measured(f"{len(failed)} of {writer.record} failed in {span:.1f} s; the first: {first}")
        assert span < _BOUND_SECONDS[name]
        assert not [str(each) for each in failed if each.code < 400 or "not guarded" in each.wrong]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_other_processes_lead_and_no_write_fails(podium_nodes: Nodes, writer: Writer, name: str) -> None:
    """The leaders of both processes at once. A stopped leader goes on when another has its lease."""
    before = len(writer.record.writes)
    firsts = {process: holder(podium_nodes, process) for process in ("controller", "scheduler")}
    leaders = [_pod_of(podium_nodes, process, first) for process, first in firsts.items()]
    for pod in leaders:
        podium_nodes.signal(pod, name)
    for process, first in firsts.items():
        leads = partial(is_succeeded, podium_nodes, process, first)
        until(leads, f"another {process} leads", _LEADERLESS_SECONDS)
    for pod in leaders:
        _resume(podium_nodes, pod, name)
    wait_ready(podium_nodes)
    writer.more(_FEW)
    assert [str(each) for each in writer.record.writes[before:] if each.wrong] == []
    assert writer.record.unanswered() == []


def test_the_loss_of_a_node_costs_writes_until_its_endpoint_is_gone(
    podium_nodes: Nodes, writer: Writer, measured: Measured
) -> None:
    """No packet reaches the node any more. Its replicas are ready again when the network is back."""
    before = len(writer.record.writes)
    with podium_nodes.cut("node-1"):
        until(partial(_is_lost, podium_nodes, "node-1"), "the node is not ready")
        writer.more(_FEW)
    wait_ready(podium_nodes)
    writer.more(_FEW)
    failed = [each for each in writer.record.writes[before:] if each.wrong]
    span = _span(writer.record, before)
    measured(f"{len(failed)} of {writer.record} failed in {span:.1f} s")
    assert span < _NODE_SECONDS
    assert not [str(each) for each in failed if each.code < 400 or "not guarded" in each.wrong]


def _pod_of(nodes: Nodes, process: str, held_by: str) -> dict[str, Any]:
    """Return the pod of a holder of a process's Lease."""
    pods = nodes.pods(f"app.kubernetes.io/component={process}")
    return next(pod for pod in pods if pod["metadata"]["name"] in held_by)


def _resume(nodes: Nodes, pod: dict[str, Any], name: str) -> None:
    """Let a stopped process go on, unless its kubelet has ended it."""
    if name == "SIGSTOP" and nodes.runs(pod):
        nodes.signal(pod, "SIGCONT")


def _is_unready(nodes: Nodes, pod: dict[str, Any]) -> bool:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    code, found = nodes.server.request("GET", path)
    conditions = found["status"]["conditions"] if code == 200 else ()
    return not any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_lost(nodes: Nodes, node: str) -> bool:
    conditions = nodes.server.request("GET", f"/api/v1/nodes/{node}")[1]["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "Unknown" for each in conditions)


def _span(record: Record, since: int) -> float:
    """Return the seconds from the first write after `since` to the end of the last failed one."""
    writes = record.writes[since:]
    return max((each.ended for each in writes if each.wrong), default=writes[0].began) - writes[0].began
