"""kube-scheduler 1.37 and a group that it has placed without any potential victim.

Each case has one answer: the second node is the larger one, so the group is placed there first.
"""

from typing import Any

import pytest
from tests.support.preemption.differential import driver
from tests.support.preemption.differential.compare import compared
from tests.support.preemption.differential.generator import (
    CASE_LABEL,
    HOST,
    PREEMPTOR,
    ROLE_LABEL,
    Case,
    Object,
    small_pod_spec,
)
from tests.support.servers import exclusive
from tools.devcluster.controlplane.releases import NEWEST

_ROLE = {ROLE_LABEL: PREEMPTOR}
_PEER = {"app": "peer"}


def _terms(kind: str, labels: dict[str, str]) -> Object:
    """Return required affinity or anti-affinity to pods in the one zone."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "zone"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _node(case: str, number: int, cpu: int) -> Object:
    name = f"{case}-{number}"
    room = {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": {HOST: name, CASE_LABEL: case, "zone": "zone-0"}}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def _running(case: str, name: str, number: int, cpu: int, second: int, **more: Any) -> Object:
    """Make a pod that runs on a node and started in a second."""
    labels = more.pop("labels", {})
    spec = small_pod_spec("value-10", cpu, nodeName=f"{case}-{number}", **more)
    status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{second:02}Z"}
    metadata = {"name": name, "namespace": case, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _pending(case: str, name: str, cpu: int, **more: Any) -> Object:
    """Make a pending member of the group."""
    more |= {"schedulingGroup": {"podGroupName": PREEMPTOR}, "nodeSelector": {CASE_LABEL: case}}
    metadata = {"name": name, "namespace": case, "labels": _ROLE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": small_pod_spec("value-1000", cpu, **more),
    }


def _case(_seed: int, index: int, _minor: str) -> Case:
    """Make a case by its place in `_EXPLAINED`."""
    name = [*_EXPLAINED][index]
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": PREEMPTOR, "namespace": name, "labels": _ROLE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, "priorityClassName": "value-1000"},
    }
    if name == "attracted":
        pods = [
            _running(name, "peer", 1, 500, 10, labels=_PEER),
            _running(name, "low", 0, 4000, 20),
            _running(name, "large", 1, 7500, 30),
            _pending(name, "high", 3000),
            _pending(name, "near", 500, affinity=_terms("podAffinity", _PEER)),
        ]
    else:
        pods = [
            _running(name, "hostile", 0, 500, 10, affinity=_terms("podAntiAffinity", _ROLE)),
            _running(name, "large", 1, 7000, 20),
            _pending(name, "high", 3000),
        ]
    nodes = (_node(name, 0, 4), _node(name, 1, 8))
    return Case(name, (group, *nodes, *pods), (), ("PodGroup", PREEMPTOR))


# The explanation of each case. `large` is the one victim, and `high` the one nominated pod.
_EXPLAINED = {
    # A member that only a spared pod attracts is not placed, though there is room.
    "attracted": None,
    # The anti-affinity of a potential victim is the only thing that keeps the group off the first node.
    "hostile": "skipped-anti-affinity",
}


@pytest.mark.server
def test_spared_pods_neither_attract_nor_repel_members() -> None:
    with exclusive(NEWEST) as server:
        recorded = driver.record(server, 0, range(len(_EXPLAINED)), make=_case)
    for one in recorded.cases:
        assert ([*one.answer.nominated], one.answer.victims) == (["high"], ["large"]), one
        explained = _EXPLAINED[one.namespace]
        found = compared(recorded.header, one)
        assert (found.agrees, found.explained) == (explained is None, explained), str(found)
