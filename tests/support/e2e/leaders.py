"""The end of the scheduler's leader at chosen moments on real nodes: SIGKILL at an event, or after a stop."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.support.e2e.cluster import Nodes, leader
from tests.support.e2e.work import FirstEvent
from tests.support.waiting import until


@contextlib.contextmanager
def killing_leader(nodes: Nodes, path: str, at: Callable[[dict[str, Any]], bool]) -> Iterator[None]:
    """Kill the leader at the first event for which `at` holds; the block causes it. Wait for a new leader."""
    name, process = _leader(nodes)
    reaction = FirstEvent(nodes.server, path, of=at, act=partial(os.kill, process, signal.SIGKILL))
    reaction.start()
    try:
        yield
        until(lambda: reaction.came, "the leader is killed")
    finally:
        reaction.close()
    _wait_for_another(nodes, name)


@contextlib.contextmanager
def stopped_leader(nodes: Nodes) -> Iterator[None]:
    """Stop the leader while the block runs, and kill it then. Wait for a new leader."""
    name, process = _leader(nodes)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGKILL)
    _wait_for_another(nodes, name)


def _leader(nodes: Nodes) -> tuple[str, int]:
    """Return the pod that leads, and its process."""
    name = leader(nodes, "scheduler")
    pods = nodes.pods("app.kubernetes.io/component=scheduler")
    (pod,) = [each for each in pods if each["metadata"]["name"] == name]
    return name, nodes.process(pod)


def _wait_for_another(nodes: Nodes, name: str) -> None:
    until(lambda: leader(nodes, "scheduler") not in ("", name), "another leads")
