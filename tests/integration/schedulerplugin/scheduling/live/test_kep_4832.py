"""KEP-4832: its four race scenarios, live, while the preemption for pod1 is delayed.

The names of the tests are the headings of the spec. pod1 frees its room on node1.
"""

import contextlib
from collections.abc import Iterator

import pytest
from tests.support.proxy import Hold
from tests.support.scheduling.world import Sandbox

pytestmark = pytest.mark.server

# The priority of pod1.
PRIORITY = 7
LOWER_OR_EQUAL = pytest.mark.parametrize("priority", [PRIORITY, 5], ids=["equal", "lower"])


@contextlib.contextmanager
def preempting(sandbox: Sandbox, cpu: int) -> Iterator[None]:
    """Let pod1 preempt two pods of 2 cpus; one is gone, the other held while the block runs."""
    for name in ("victim-a", "victim-b"):
        sandbox.pod(name, 2, 1, node="node1")
    before = len(sandbox.pods())
    with sandbox.world.proxy.fault(sandbox.deletes, Hold(), times=1, skip=1) as held:
        sandbox.pod("pod1", cpu, PRIORITY)
        sandbox.until(lambda: held.hits == 1, "the last delete is held")
        sandbox.until(lambda: len(sandbox.pods()) == before, "the other victim is gone")
        yield


@LOWER_OR_EQUAL
def test_the_pod2s_scheduling_is_successful_pod2_is_equal_or_lower_priority_than_pod1(
    priority: int, sandbox: Sandbox
) -> None:
    """pod2 does not take pod1's place on node1, although half of node1 is empty: it goes to node2."""
    sandbox.node("node1")
    with preempting(sandbox, 3):
        sandbox.node("node2", 2)
        sandbox.pod("pod2", 2, priority)
        assert sandbox.until_bound(["pod2"]) == {"pod2": "node2"}
    assert sandbox.until_bound(["pod1"]) == {"pod1": "node1"}
    assert sorted(sandbox.evicted()) == ["victim-a", "victim-b"]


def test_the_pod2s_scheduling_is_successful_pod2_is_higher_priority_than_pod1(sandbox: Sandbox) -> None:
    """pod2 takes the room on node1; pod1 may then not fit there, and its message reports it."""
    sandbox.node("node1")
    with preempting(sandbox, 3):
        sandbox.pod("pod2", 2, PRIORITY + 2)
        assert sandbox.until_bound(["pod2"]) == {"pod2": "node1"}
    sandbox.until(lambda: sorted(sandbox.pods()) == ["pod1", "pod2"], "the other victim is gone")
    sandbox.until_message("pod1", "0/1 nodes are available")
    sandbox.until_nominated("pod1", "")
    assert sorted(sandbox.evicted()) == ["victim-a", "victim-b"]
    sandbox.end("pod2")
    assert sandbox.until_bound(["pod1"]) == {"pod1": "node1"}


@LOWER_OR_EQUAL
def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_equal_or_lower_priority_than_pod1(
    priority: int, sandbox: Sandbox
) -> None:
    """pod2's preemption counts pod1's nomination: it makes room for both."""
    sandbox.node("node1", 8)
    lows = [sandbox.pod(f"low-{index}", 2, 3, node="node1")["metadata"]["name"] for index in range(2)]
    with preempting(sandbox, 4):
        sandbox.pod("pod2", 4, priority)
        sandbox.until_nominated("pod2", "node1")
        sandbox.until(lambda: not {*lows} & {*sandbox.pods()}, "the lows are gone")
    sandbox.until_bound(["pod1", "pod2"])
    assert sorted(sandbox.evicted()) == [*lows, "victim-a", "victim-b"]


def test_the_pod2s_scheduling_is_failed_and_starts_the_preemption_pod2_is_higher_priority_than_pod1(
    sandbox: Sandbox,
) -> None:
    """pod2 ignores pod1's nomination and uses the room freed for it; no victim is evicted twice."""
    sandbox.node("node1")
    with preempting(sandbox, 3):
        sandbox.pod("pod2", 3, PRIORITY + 2)
        sandbox.until_nominated("pod2", "node1")
    assert sandbox.until_bound(["pod2"]) == {"pod2": "node1"}
    sandbox.until_message("pod1", "0/1 nodes are available")
    assert sorted(sandbox.evicted()) == ["victim-a", "victim-b"]
    sandbox.end("pod2")
    assert sandbox.until_bound(["pod1"]) == {"pod1": "node1"}
