"""Runs cases on a real kube-scheduler and reads its answers.

The API server runs without controllers. Nothing counts budgets, evicts pods from nodes without a kubelet, or
removes pods. So a bound pod that is being deleted stays forever. The scheduler starts when a batch of cases
is complete, so it never sees half of a case. SchedulerAsyncPreemption is off, so it preempts before it
reports. When every preemptor has its verdict, its victims are known. A pod with unbound claims that fits
waits for a volume controller. Its node is nominated then, and its volumes and claims are written. Afterwards
the scheduler stops and the cluster is cleared.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.support.preemption.differential.generator import CLASSES, PREEMPTOR, ROLE_LABEL, Case, Object, case
from tests.support.preemption.differential.recording import Answer, Header, Recorded, Recording, compact
from tests.support.servers import Server
from tests.support.waiting import comes

from podium.api.storage import SELECTED_NODE
from podium.controlplane import process
from podium.controlplane.components import commands, log
from podium.documents import packagedata

# A group preemptor examines every pod: 1.36 places its members again for each of them. A lone pod examines
# only the nodes of its case.
_BATCH, _LONE_BATCH = 8, 60
_READY_SECONDS = 120.0
_GRACE_SECONDS = 10.0
_SCHEDULER = "kube-scheduler"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_PENDING = f"/api/v1/pods?labelSelector={ROLE_LABEL}%3D{PREEMPTOR}"
_PLURALS = {
    "Pod": "pods",
    "Node": "nodes",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodGroup": "podgroups",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "VolumeAttachment": "volumeattachments",
    "CSIStorageCapacity": "csistoragecapacities",
}
Maker = Callable[[int, int, str], Case]
# A finalizer of the API server keeps these until they are no longer used.
_DELETED = ("Pod", "PersistentVolumeClaim", "PersistentVolume")
MERGE = "application/merge-patch+json"


def record(
    server: Server,
    seed: int,
    indices: Sequence[int],
    *,
    gates: bool = True,
    more: Sequence[str] = (),
    make: Maker = case,
) -> Recording:
    """Record the answers of a server's scheduler to these cases; the server must have no other user.

    Without its gates the scheduler does not know groups. `more` are further feature gates of the scheduler,
    such as "Gate=true". `make` makes the cases.
    """
    release = server.release
    classes = [_create_class(server, name) for name in CLASSES]
    _wait_for_classes(server)
    cases: list[Recorded] = []
    size = _BATCH if gates else _LONE_BATCH
    for first in range(0, len(indices), size):
        batch = [make(seed, index, release.minor) for index in indices[first : first + size]]
        cases += _answered(server, batch, gates=gates, more=more)
        print(f"{release.version}: {len(cases)} of {len(indices)}", file=sys.stderr, flush=True)  # noqa: T201 - minutes
    header = Header(minor=release.minor, version=release.version, seed=seed, gates=gates, classes=classes)
    return Recording(header=header, cases=cases)


def _answered(server: Server, batch: Sequence[Case], *, gates: bool, more: Sequence[str]) -> list[Recorded]:
    """Create a batch on the server, run the scheduler, and clear the cluster."""
    before = [_put(server, each) for each in batch]
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with _scheduler(server, gates=gates, more=more):
        _await(server)
        # A scheduler that stops gives up the pods that wait for their volumes.
        answers = [_answer(server, each) for each in batch]
    for each in batch:
        _delete(server, f"/api/v1/namespaces/{each.namespace}/pods?gracePeriodSeconds=0")
        _delete(server, f"/apis/policy/v1/namespaces/{each.namespace}/poddisruptionbudgets")
    _delete(server, "/api/v1/nodes")
    return [
        Recorded(namespace=each.namespace, preemptor=each.preemptor, now=now, objects=objects, answer=answer)
        for each, objects, answer in zip(batch, before, answers, strict=True)
    ]


def _put(server: Server, one: Case) -> list[Object]:
    """Create a case's objects; return them as the scheduler will read them."""
    _request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": one.namespace}})
    stored = []
    uids: dict[str, str] = {}
    names: dict[str, str] = {}
    for each in one.objects:
        wanted = _owned(each, uids)
        where = _collection(wanted)
        name = wanted["metadata"]["name"]
        made = _request(server, "POST", where, wanted)
        if "status" in wanted and wanted["kind"] != "Node":
            made = _request(server, "PATCH", f"{where}/{name}/status", {"status": wanted["status"]}, MERGE)
        uids[name] = made["metadata"]["uid"]
        names[made["metadata"]["uid"]] = name
        if wanted["kind"] in _DELETED and name in one.terminating:
            made = _request(server, "DELETE", f"{where}/{name}")
        stored.append(compact(_claimed(made, names), wanted["apiVersion"], wanted["kind"]))
    return stored


def _claimed(wanted: Object, uids: Mapping[str, str]) -> Object:
    """Return a volume with another UID of its claim, if that is listed."""
    owner = wanted.get("spec", {}).get("claimRef", {})
    if owner.get("uid") not in uids:
        return wanted
    return {**wanted, "spec": {**wanted["spec"], "claimRef": {**owner, "uid": uids[owner["uid"]]}}}


def _owned(wanted: Object, uids: Mapping[str, str]) -> Object:
    """Return an object whose owners have the UIDs that the server gave them; cases use their names."""
    wanted = _claimed(wanted, uids)
    owners = wanted["metadata"].get("ownerReferences")
    if owners is None:
        return wanted
    owners = [{**each, "uid": uids[each["uid"]]} for each in owners]
    return {**wanted, "metadata": {**wanted["metadata"], "ownerReferences": owners}}


@contextlib.contextmanager
def _scheduler(server: Server, *, gates: bool, more: Sequence[str]) -> Iterator[None]:
    """Run the release's scheduler beside its API server."""
    settings = msgspec.structs.replace(server.settings, controllers=True, workload_api=gates)
    stages = packagedata.folder("controlplane") / "kwok" / "stages.yaml"
    arguments = (
        *commands(settings, stages)[_SCHEDULER],
        f"--feature-gates={','.join(('SchedulerAsyncPreemption=false', *more))}",
        # Twenty victims would take half a second by default.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    )
    argv = [str(server.program(_SCHEDULER)), *arguments]
    running = process.spawn(argv, folder=server.folder, log=server.folder / log(_SCHEDULER))
    try:
        yield
    finally:
        process.stop([running], grace=_GRACE_SECONDS)


def _await(server: Server) -> None:
    """Wait until every pending pod is bound or refused, or waits for its volumes."""
    waiting: list[str] = []

    def decided() -> bool:
        pods = _request(server, "GET", _PENDING)["items"]
        open_pods = [pod for pod in pods if not (pod["spec"].get("nodeName") or _message(pod))]
        written = _written(server) if open_pods else {}
        waiting[:] = [pod["metadata"]["namespace"] for pod in open_pods if not _is_written(pod, written)]
        return not waiting

    if not comes(decided, _READY_SECONDS):
        words = (server.folder / log(_SCHEDULER)).read_text(encoding="utf-8")[-2000:]
        raise AssertionError(f"no verdict on {waiting}: {words}")


def _is_written(pod: Object, written: Mapping[str, Mapping[str, str | None]]) -> bool:
    """Return whether a pod waits for a controller that binds its claims."""
    volumes = written.get(pod["metadata"]["namespace"], {})
    return bool(volumes) and "nominatedNodeName" in pod["status"] and None not in volumes.values()


def _answer(server: Server, one: Case) -> Answer:
    """Return the result of a case."""
    path = f"/api/v1/namespaces/{one.namespace}/pods"
    pods = {_name(pod): pod for pod in _request(server, "GET", path)["items"]}
    pending = {name: pod for name, pod in pods.items() if ROLE_LABEL in pod["metadata"].get("labels", {})}
    kind, name = one.preemptor
    if kind == "Pod":
        message = _message(pods[name])
    else:
        group = next(each for each in one.objects if each["kind"] == kind and _name(each) == name)
        stored = _request(server, "GET", f"{_collection(group)}/{name}")
        conditions = stored.get("status", {}).get("conditions", ())
        message = "; ".join(each.get("message", "") for each in conditions)
    bound = {name: pod["spec"]["nodeName"] for name, pod in pending.items() if "nodeName" in pod["spec"]}
    volumes: Mapping[str, str | None] = {}
    if kind == "Pod" and not message and name not in bound:
        # It waits for a controller that binds its claims.
        bound[name] = pods[name]["status"]["nominatedNodeName"]
        volumes = _written(server)[one.namespace]
    return Answer(
        bound=bound,
        volumes={claim: volume for claim, volume in volumes.items() if volume is not None},
        nominated={
            name: pod["status"]["nominatedNodeName"]
            for name, pod in pending.items()
            if pod["status"].get("nominatedNodeName") and name not in bound
        },
        # A bound pod stays while it is being deleted, and a terminating one is no pod's victim for the API.
        victims=sorted(
            name
            for name, pod in pods.items()
            if "deletionTimestamp" in pod["metadata"] and name not in one.terminating
        ),
        message=message,
    )


def _written(server: Server) -> dict[str, dict[str, str | None]]:
    """Return the volume of each claim that is not bound, by namespace and claim.

    It is the one that names the claim by UID, empty if it is to be provisioned, and None without either.
    """
    owners = {
        each["spec"].get("claimRef", {}).get("uid"): _name(each)
        for each in _request(server, "GET", "/api/v1/persistentvolumes")["items"]
    }
    written: dict[str, dict[str, str | None]] = {}
    for each in _request(server, "GET", "/api/v1/persistentvolumeclaims")["items"]:
        metadata = each["metadata"]
        if "volumeName" not in each["spec"]:
            provisioned = SELECTED_NODE in metadata.get("annotations", {})
            volume = "" if provisioned else owners.get(metadata["uid"])
            written.setdefault(metadata["namespace"], {})[metadata["name"]] = volume
    return written


def _message(pod: Object) -> str:
    """Return why a pod was not placed; empty if it was placed, or if nothing is known yet."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition["reason"])
    return ""


def _create_class(server: Server, name: str) -> Object:
    value, policy = CLASSES[name]
    wanted = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
    made = _request(server, "POST", _CLASSES, wanted)
    assert made["value"] == value
    metadata = {"name": name, "uid": name}
    kinds = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kinds, "metadata": metadata, "value": value, "preemptionPolicy": policy}


def _wait_for_classes(server: Server) -> None:
    """Wait until pods may name every class."""
    containers = [{"name": "main", "image": "none"}]

    def known() -> bool:
        probes = (
            {"metadata": {"name": "probe"}, "spec": {"containers": containers, "priorityClassName": name}}
            for name in CLASSES
        )
        dry_run = "/api/v1/namespaces/default/pods?dryRun=All"
        return all(server.request("POST", dry_run, probe)[0] == 201 for probe in probes)

    assert comes(known, _READY_SECONDS)


def _collection(wanted: Object) -> str:
    """Return the path under which objects of this kind and namespace are created."""
    version = wanted["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = wanted["metadata"].get("namespace")
    plural = _PLURALS[wanted["kind"]]
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _delete(server: Server, path: str) -> None:
    _request(server, "DELETE", path)


def _request(server: Server, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    code, answer = server.request(method, path, body, kind)
    assert code in (200, 201), (method, path, answer)
    return answer


def _name(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name
