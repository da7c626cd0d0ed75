"""Log and memory of a day of work, compressed into minutes: both stay small."""

import contextlib
from collections.abc import Iterator

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e.cluster import Nodes, metric
from tests.support.e2e.work import Space, Work
from tests.support.faults.writing import CLASS
from tests.support.install.scene import NAMESPACE
from tests.support.scheduling.kubelet import kubelet
from tests.support.servers import Server
from tests.support.waiting import until
from tools.devcluster.controlplane.nodes import node

from podium.api.groups import RESERVED

_LABEL = "e2e.podium.dev/simulated"
_DEVICE = "nvidia.com/gpu"


@contextlib.contextmanager
def simulated(nodes: Nodes, count: int) -> Iterator[None]:
    """Add nodes of 8 accelerators, reserved for gangs, while the block runs."""
    server = nodes.server
    names = [_add(server, index) for index in range(count)]
    try:
        with kubelet(server, label=_LABEL):
            until(lambda: all(_is_ready(server, name) for name in names), "the simulated nodes are ready")
            yield
    finally:
        server.kubectl("delete", "nodes", "-l", _LABEL)


def run_gangs(space: Space, class_name: str, gangs: int, members: int, first: int) -> None:
    """Create gangs of pods with one accelerator each, wait until all are bound, and delete them."""
    for number in range(first, first + gangs):
        space.gang(f"work-{number}", members, class_name)
        for member in range(members):
            space.pod(
                f"work-{number}-{member}",
                Work(),
                {"cpu": "1", _DEVICE: "1"},
                priorityClassName=class_name,
                schedulingGroup={"podGroupName": f"work-{number}"},
                nodeSelector={_LABEL: ""},
            )
    until(lambda: all(pod["spec"].get("nodeName") for pod in space.listed()), "all pods are bound")
    for number in range(first, first + gangs):
        space.delete_gang(f"work-{number}")
    space.server.kubectl("-n", space.name, "delete", "pods", "--all", "--wait=false")
    until(lambda: not space.pods(), "all pods are gone")


def memory(nodes: Nodes) -> dict[str, float]:
    """Return the resident memory of each of Podium's pods in MiB."""
    return {
        pod["metadata"]["name"]: metric(nodes, pod, "process_resident_memory_bytes") / 2**20
        for pod in nodes.pods("app.kubernetes.io/part-of=podium")
    }


def log_bytes(nodes: Nodes) -> dict[str, int]:
    """Return the size of the log of each of Podium's pods."""
    names = [pod["metadata"]["name"] for pod in nodes.pods("app.kubernetes.io/part-of=podium")]
    return {name: len(nodes.server.kubectl("-n", NAMESPACE, "logs", name).encode()) for name in names}


def _add(server: Server, index: int) -> str:
    body = node(index, version=server.release.version)
    name = f"simulated-{index}"
    body["metadata"]["name"] = name
    body["metadata"]["labels"] |= {"kubernetes.io/hostname": name, RESERVED: "yes", _LABEL: ""}
    body["spec"] = {"taints": [{"key": RESERVED, "value": "yes", "effect": "NoSchedule"}]}
    code, answer = server.request("POST", "/api/v1/nodes", body)
    assert code == 201, answer
    return name


def _is_ready(server: Server, name: str) -> bool:
    conditions = server.request("GET", f"/api/v1/nodes/{name}")[1]["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


pytestmark = pytest.mark.e2e

# A day of a shared cluster: 200 gangs of five pods.
_ROUNDS, _GANGS, _MEMBERS = 10, 20, 5
_NODES = 16
# Limits: the memory that a process adds in the second half of the day, and its log of the whole day.
_GROWTH_MIB = 8.0
_LOG_BYTES = 2 * 2**20


def test_a_day_of_work_fills_neither_memory_nor_log(podium_nodes: Nodes, measured: Measured) -> None:
    space = Space(podium_nodes)
    before = log_bytes(podium_nodes)
    noon: dict[str, float] = {}
    with simulated(podium_nodes, _NODES):
        for each in range(_ROUNDS):
            if each == _ROUNDS // 2:
                noon = memory(podium_nodes)
            run_gangs(space, CLASS, _GANGS, _MEMBERS, each * _GANGS)
        evening = memory(podium_nodes)
    after = log_bytes(podium_nodes)
    logged = {name: after[name] - before[name] for name in after}
    growth = {name: evening[name] - noon[name] for name in evening}
    for name, size in evening.items():
        measured(f"{name}: {size:.0f} MiB (noon {noon[name]:.0f}), {logged[name]:,} bytes of log")
    assert max(growth.values()) < _GROWTH_MIB
    assert max(logged.values()) < _LOG_BYTES
