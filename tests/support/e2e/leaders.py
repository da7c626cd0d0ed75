"""The end of the scheduler's leader at chosen moments on real nodes: SIGKILL at an event, or after a stop."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.support.e2e.cluster import Nodes, holder, is_succeeded
from tests.support.e2e.work import FirstEvent
from tests.support.waiting import until


@contextlib.contextmanager
def killing_leader(nodes: Nodes, path: str, at: Callable[[dict[str, Any]], bool]) -> Iterator[None]:
    """Kill the leader at the first event for which `at` holds; the block causes it. Wait for a new leader."""
    first, process = _leader(nodes)
    reaction = FirstEvent(nodes.server, path, of=at, act=partial(os.kill, process, signal.SIGKILL))
    reaction.start()
    try:
        yield
        until(lambda: reaction.came, "the leader is killed")
    finally:
        reaction.close()
    _wait_for_another(nodes, first)


@contextlib.contextmanager
def stopped_leader(nodes: Nodes) -> Iterator[None]:
    """Stop the leader while the block runs, and kill it then. Wait for a new leader."""
    first, process = _leader(nodes)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGKILL)
    _wait_for_another(nodes, first)


def _leader(nodes: Nodes) -> tuple[str, int]:
    """Return the holder of the Lease, and its process."""
    first = holder(nodes, "scheduler")
    pods = nodes.pods("app.kubernetes.io/component=scheduler")
    (pod,) = [each for each in pods if each["metadata"]["name"] in first]
    return first, nodes.process(pod)


def _wait_for_another(nodes: Nodes, first: str) -> None:
    until(partial(is_succeeded, nodes, "scheduler", first), "another leads")
