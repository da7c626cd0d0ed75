"""Writes on real API servers: the objects they change, and their effects when the network fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest
from tests.support.proxy import Cut, Fault, Proxy, Refuse, Where
from tests.support.servers import Server

from podium.api.findings import ObjectRef
from podium.api.meta import Condition
from podium.kube.connection import connect
from podium.kube.preconditions import StaleError
from podium.planner.liveplugin import ChangedError, GoneError
from podium.schedulerplugin.live.writes import TakenError, Writes
from podium.schedulerplugin.scheduling.effects import PodRef

pytestmark = pytest.mark.server

NOW = "2026-11-21T10:00:00Z"
TARGET = Condition("DisruptionTarget", "True", "PreemptionByScheduler", "why", NOW, observedGeneration=1)
WAITS = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available", NOW)
Write = Callable[[Writes, PodRef], Awaitable[None]]


@asynccontextmanager
async def writing(kubeconfig: Path) -> AsyncIterator[Writes]:
    """Write without a lease, and without waiting between attempts."""

    async def no_sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with connect(str(kubeconfig), None) as connection:
        yield Writes(
            connection,
            lambda: inf,
            sleep=no_sleep,
            random=lambda: 0.0,
            counted=lambda _what, _how: None,
        )


@pytest.fixture
async def writes(server: Server) -> AsyncIterator[Writes]:
    async with writing(server.kubeconfig) as opened:
        yield opened


def _make(server: Server, namespace: str, name: str = "p", **spec: Any) -> PodRef:
    meta = {"name": name, "finalizers": spec.pop("finalizers", [])}
    made = {
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "image": "x"}], "schedulerName": "podium-scheduler"} | spec,
    }
    code, stored = server.request("POST", f"/api/v1/namespaces/{namespace}/pods", made)
    assert code == 201, stored
    return PodRef(namespace, name, stored["metadata"]["uid"])


def _read(server: Server, pod: PodRef) -> Any:
    code, stored = server.request("GET", _path(pod))
    return stored if code == 200 else None


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _conditions(stored: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each.get("reason", "")) for each in stored["status"]["conditions"]}


async def test_a_binding_is_of_one_pod_to_one_node(server: Server, namespace: str, writes: Writes) -> None:
    """A pod is bound once; a bind to the same node succeeds, to another node it fails."""
    pod = _make(server, namespace)
    await writes.nominate(pod, "n1", WAITS)
    await writes.bind(pod, "n1")
    await writes.bind(pod, "n1")
    with pytest.raises(TakenError) as taken:
        await writes.bind(pod, "n2")
    assert taken.value.node == "n1"
    stored = _read(server, pod)
    assert stored["spec"]["nodeName"] == "n1"
    assert _conditions(stored)["PodScheduled"] == ("True", "")


async def test_a_pod_that_cannot_be_bound_has_a_reason(
    server: Server, namespace: str, writes: Writes
) -> None:
    """A terminating or replaced pod counts as gone; a gated pod does not."""
    going = _make(server, namespace, "going", nodeName="n1", finalizers=["podium.dev/test"])
    assert server.request("DELETE", _path(going), {"gracePeriodSeconds": 0})[0] == 200
    other = _make(server, namespace, "other")._replace(uid="another")
    gated = _make(server, namespace, "gated", schedulingGates=[{"name": "podium.dev/wait"}])
    for pod in (going, other, PodRef(namespace, "none", "none")):
        with pytest.raises(GoneError):
            await writes.bind(pod, "n2")
    with pytest.raises(StaleError, match="schedulingGates"):
        await writes.bind(gated, "n2")
    assert "nodeName" not in _read(server, other)["spec"]
    server.request("PATCH", _path(going), {"metadata": {"finalizers": None}}, "application/merge-patch+json")


async def test_a_nomination_comes_and_goes(server: Server, namespace: str, writes: Writes) -> None:
    pod = _make(server, namespace)
    await writes.nominate(pod, "n1", WAITS)
    stored = _read(server, pod)
    assert stored["status"]["nominatedNodeName"] == "n1"
    assert _conditions(stored)["PodScheduled"] == ("False", "Unschedulable")
    await writes.nominate(pod, None, None)
    stored = _read(server, pod)
    assert "nominatedNodeName" not in stored["status"]
    assert _conditions(stored)["PodScheduled"] == ("False", "Unschedulable")


async def test_a_mark_is_one_condition_more(server: Server, namespace: str, writes: Writes) -> None:
    """The pod's other conditions stay; the mark can be withdrawn."""
    pod = _make(server, namespace, nodeName="n1")
    await writes.nominate(pod, None, WAITS)
    await writes.mark(pod, TARGET)
    assert _conditions(_read(server, pod)) == {
        "DisruptionTarget": ("True", "PreemptionByScheduler"),
        "PodScheduled": ("False", "Unschedulable"),
    }
    await writes.mark(pod, Condition(TARGET.type, "False", TARGET.reason, "no more", NOW))
    assert _conditions(_read(server, pod))["DisruptionTarget"] == ("False", "PreemptionByScheduler")


async def test_a_mark_may_be_of_one_version(server: Server, namespace: str, writes: Writes) -> None:
    """A later write is not undone."""
    pod = _make(server, namespace, nodeName="n1")
    version = _read(server, pod)["metadata"]["resourceVersion"]
    await writes.mark(pod, TARGET, version)
    with pytest.raises(ChangedError):
        await writes.mark(pod, Condition(TARGET.type, "False", TARGET.reason, "no more", NOW), version)
    assert _conditions(_read(server, pod))["DisruptionTarget"][0] == "True"


async def test_a_status_is_of_one_pod(server: Server, namespace: str, writes: Writes) -> None:
    """A later pod of the name does not get the earlier one's condition."""
    pod = _make(server, namespace)
    for gone in (pod._replace(uid="another"), PodRef(namespace, "none", "none")):
        with pytest.raises(GoneError):
            await writes.mark(gone, TARGET)
        with pytest.raises(GoneError):
            await writes.nominate(gone, "n1", None)
    stored = _read(server, pod)
    assert not stored["status"].get("conditions")
    assert "nominatedNodeName" not in stored["status"]


async def test_a_delete_is_of_one_pod(server: Server, namespace: str, writes: Writes) -> None:
    """The delete has the pod's own grace period; a later pod of the name stays."""
    pod = _make(server, namespace, nodeName="n1", terminationGracePeriodSeconds=77)
    await writes.delete(pod._replace(uid="another"))
    assert "deletionTimestamp" not in _read(server, pod)["metadata"]
    await writes.delete(pod)
    assert _read(server, pod)["metadata"]["deletionGracePeriodSeconds"] == 77
    await writes.delete(pod)
    quick = _make(server, namespace, "quick", terminationGracePeriodSeconds=0)
    await writes.delete(quick)
    assert _read(server, quick) is None
    await writes.delete(quick)


async def test_conditions_of_a_group(server: Server, namespace: str, writes: Writes) -> None:
    """All our conditions are written at once, none of others', and none to a later group of the name."""
    version = "v1alpha2" if server.release.minor == "1.36" else "v1beta1"
    parent = f"/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups"
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    code, made = server.request("POST", parent, {"metadata": {"name": "train"}, "spec": policy})
    assert code == 201, made
    other = {"type": "Other", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": NOW}
    kind = "application/merge-patch+json"
    code, answer = server.request(
        "PATCH", f"{parent}/train/status", {"status": {"conditions": [other]}}, kind
    )
    assert code == 200, answer
    ref = ObjectRef(f"scheduling.k8s.io/{version}", "PodGroup", namespace, "train")
    waits = Condition("PodGroupScheduled", "False", "Unschedulable", "why", NOW)
    uid = made["metadata"]["uid"]
    await writes.apply_group(ref, uid, (waits, TARGET))
    await writes.apply_group(ref, uid, (waits,))
    stored = server.request("GET", f"{parent}/train")[1]
    assert _conditions(stored) == {
        "Other": ("True", "Theirs"),
        "PodGroupScheduled": ("False", "Unschedulable"),
    }
    for gone in (("train", "another"), ("none", uid)):
        with pytest.raises(GoneError):
            await writes.apply_group(
                ObjectRef(ref.apiVersion, ref.kind, namespace, gone[0]), gone[1], (waits,)
            )


FAULTS: list[Fault] = [
    Cut(answered=True),
    Cut(answered=False),
    Refuse(429, "TooManyRequests", retry_after=1),
    Refuse(500, "InternalError"),
    Refuse(503, "ServiceUnavailable", retry_after=1),
]


WRITES: dict[str, Write] = {
    "POST": lambda writes, pod: writes.bind(pod, "n1"),
    "PATCH": lambda writes, pod: writes.mark(pod, TARGET),
    "DELETE": lambda writes, pod: writes.delete(pod),
}


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_fault_is_got_over(
    server_137: Server, namespace: str, tmp_path: Path, fault: Fault, method: str
) -> None:
    """After two attempts the write is done, and the server has accepted one binding only."""
    pod = _make(server_137, namespace, terminationGracePeriodSeconds=0)
    where = Where(f"/pods/{pod.name}", method=method)
    with Proxy(server_137).running() as proxy:
        async with writing(proxy.kubeconfig(tmp_path)) as writes:
            with proxy.fault(where, fault, times=2) as rule:
                await WRITES[method](writes, pod)
        done = [each for each in proxy.writes(where) if each.code in (200, 201)]
    if method == "POST":
        assert len(done) == 1
        assert _read(server_137, pod)["spec"]["nodeName"] == "n1"
    elif method == "PATCH":
        assert _conditions(_read(server_137, pod))["DisruptionTarget"][0] == "True"
    else:
        assert len(done) == 1
        assert _read(server_137, pod) is None
    assert rule.hits >= 1
