"""Runs cases on a real kube-scheduler and reads its answers.

Of the controllers, only that of volumes runs, with a provisioner. Nothing counts budgets, evicts pods from
nodes without a kubelet, or removes pods. So a bound pod that is being deleted stays forever.

A batch of cases is created, and the volume controller binds the claims that need no scheduler. The cases are
recorded as it leaves them. Only then the scheduler starts, so it never sees half of a case.
SchedulerAsyncPreemption is off, so it preempts before it reports. When every preemptor has its verdict, its
victims are known. For a pod with unbound claims that fits, the controller and the provisioner bind these, and
then the scheduler binds the pod. Afterwards the scheduler stops and the cluster is cleared.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.support.preemption.differential.generator import CLASSES, PREEMPTOR, ROLE_LABEL, Case, Object, case
from tests.support.preemption.differential.recording import Answer, Header, Recorded, Recording, compact
from tests.support.servers import Server
from tests.support.volumes.controllers import Provisioner, volume_controller
from tests.support.volumes.settled import unsettled
from tests.support.waiting import comes

from podium.api.storage import BIND_COMPLETED
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
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_PENDING = f"/api/v1/pods?labelSelector={ROLE_LABEL}%3D{PREEMPTOR}"
_PLURALS = {
    "Pod": "pods",
    "Node": "nodes",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodGroup": "podgroups",
    "CompositePodGroup": "compositepodgroups",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "VolumeAttachment": "volumeattachments",
    "CSIStorageCapacity": "csistoragecapacities",
}
# The namespaces of a preemptor and its victim in the log. An eviction is logged before the verdict.
_PREEMPTED = re.compile(r'preempted victim Pod" .*?\bpreemptor="([^/"]+)/.*? victim="([^/"]+)/')
_GROUPS = ("PodGroup", "CompositePodGroup")
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
    with volume_controller(server), Provisioner(server).running() as provisioner:
        for first in range(0, len(indices), size):
            batch = [make(seed, index, release.minor) for index in indices[first : first + size]]
            cases += _isolated(server, provisioner, batch, gates=gates, more=more)
            print(f"{release.version}: {len(cases)} of {len(indices)}", file=sys.stderr, flush=True)  # noqa: T201 - minutes
    header = Header(minor=release.minor, version=release.version, seed=seed, gates=gates, classes=classes)
    return Recording(header=header, cases=cases)


def _isolated(
    server: Server, provisioner: Provisioner, batch: Sequence[Case], *, gates: bool, more: Sequence[str]
) -> list[Recorded]:
    """Return the answers of a batch in which no case has evicted pods of another one.

    kube-scheduler evicts all pods of lower priority for some trees (`explained`). Such a case is run again
    alone, and the others without it.
    """
    log_file = server.folder / log(_SCHEDULER)
    logged = log_file.stat().st_size if log_file.exists() else 0
    found = _answered(server, provisioner, batch, gates=gates, more=more)
    reach = _preemptors_elsewhere(log_file.read_bytes()[logged:].decode())
    wide = [each for each in batch if each.namespace in reach]
    if not wide or len(batch) == 1:
        return found
    for each in batch:
        _delete_groups(server, each)
    rest = [each for each in batch if each not in wide]
    parts = [*([rest] if rest else []), *([each] for each in wide)]
    again = [one for part in parts for one in _isolated(server, provisioner, part, gates=gates, more=more)]
    names = [each.namespace for each in batch]
    return sorted(again, key=lambda one: names.index(one.namespace))


def _delete_groups(server: Server, one: Case) -> None:
    """Delete the groups of a case; their finalizers are those of a controller that does not run."""
    for group in one.objects:
        if group["kind"] in _GROUPS:
            path = f"{_collection(group)}/{_name(group)}"
            _request(server, "PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            _delete(server, path)


def _preemptors_elsewhere(logged: str) -> set[str]:
    """Return the namespaces whose preemptors evict pods of others, by the scheduler's log."""
    return {preemptor for preemptor, victim in _PREEMPTED.findall(logged) if preemptor != victim}


def _answered(
    server: Server, provisioner: Provisioner, batch: Sequence[Case], *, gates: bool, more: Sequence[str]
) -> list[Recorded]:
    """Create a batch on the server, run the scheduler, and clear the cluster."""
    provisioner.only = ()
    made = [_put(server, each) for each in batch]
    storage = _settled(server)
    before = [
        _compact({uid: each | storage.get(uid, {}) for uid, each in objects.items()}) for objects in made
    ]
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with _scheduler(server, gates=gates, more=more):
        _await(server, provisioner)
        answers = [_answer(server, each, objects) for each, objects in zip(batch, before, strict=True)]
    for each in batch:
        _delete(server, f"/api/v1/namespaces/{each.namespace}/pods?gracePeriodSeconds=0")
        _delete(server, f"/apis/policy/v1/namespaces/{each.namespace}/poddisruptionbudgets")
    _delete(server, "/api/v1/nodes")
    return [
        Recorded(namespace=each.namespace, preemptor=each.preemptor, now=now, objects=objects, answer=answer)
        for each, objects, answer in zip(batch, before, answers, strict=True)
    ]


def _settled(server: Server) -> dict[str, Object]:
    """Wait until the volume controller has nothing left to do; return claims and volumes by UID."""
    claims: list[Object] = []
    volumes: list[Object] = []
    left: list[str] = []

    def is_settled() -> bool:
        claims[:], volumes[:] = _items(server, _CLAIMS), _items(server, _VOLUMES)
        left[:] = unsettled(claims, volumes)
        return not left

    assert comes(is_settled, _READY_SECONDS), f"not settled: {left}"
    return {each["metadata"]["uid"]: each for each in (*claims, *volumes)}


def _put(server: Server, one: Case) -> dict[str, Object]:
    """Create a case's objects; return them by UID."""
    made_before, _ = server.request("GET", f"/api/v1/namespaces/{one.namespace}")
    if made_before != 200:
        _request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": one.namespace}})
    stored = {}
    uids: dict[str, str] = {}
    for each in one.objects:
        wanted = _owned(each, uids)
        where = _collection(wanted)
        name = wanted["metadata"]["name"]
        made = _request(server, "POST", where, wanted)
        if "status" in wanted and wanted["kind"] != "Node":
            made = _request(server, "PATCH", f"{where}/{name}/status", {"status": wanted["status"]}, MERGE)
        if wanted["kind"] in _DELETED and name in one.terminating:
            made = _request(server, "DELETE", f"{where}/{name}")
        uids[name] = made["metadata"]["uid"]
        stored[uids[name]] = made
    return stored


def _compact(stored: Mapping[str, Object]) -> list[Object]:
    """Return a case's objects, by UID, as a recording has them; a volume has the name of its claim as UID."""
    names = {uid: _name(each) for uid, each in stored.items()}
    return [compact(_claimed(each, names), each["apiVersion"], each["kind"]) for each in stored.values()]


def _claimed(wanted: Object, uids: Mapping[str, str]) -> Object:
    """Return a volume with another UID of its claim, if that is listed."""
    owner = wanted.get("spec", {}).get("claimRef", {})
    if owner.get("uid") not in uids:
        return wanted
    owner = {"namespace": owner["namespace"], "name": owner["name"], "uid": uids[owner["uid"]]}
    return {**wanted, "spec": {**wanted["spec"], "claimRef": owner}}


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
        "--v=2",  # logs evictions
    )
    argv = [str(server.program(_SCHEDULER)), *arguments]
    running = process.spawn(argv, folder=server.folder, log=server.folder / log(_SCHEDULER))
    try:
        yield
    finally:
        process.stop([running], grace=_GRACE_SECONDS)


def _await(server: Server, provisioner: Provisioner) -> None:
    """Wait until every pending pod is bound or refused; let the claims of those that fit be provisioned."""
    waiting: list[Object] = []

    def decided() -> bool:
        pods = _items(server, _PENDING)
        waiting[:] = [pod for pod in pods if not (pod["spec"].get("nodeName") or _message(pod))]
        provisioner.only = [
            (pod["metadata"]["namespace"], each["persistentVolumeClaim"]["claimName"])
            for pod in waiting
            if "nominatedNodeName" in pod["status"]
            for each in pod["spec"].get("volumes", ())
            if "persistentVolumeClaim" in each
        ]
        return not waiting

    if not comes(decided, _READY_SECONDS):
        words = (server.folder / log(_SCHEDULER)).read_text(encoding="utf-8")[-2000:]
        raise AssertionError(f"no verdict on {[pod['metadata']['namespace'] for pod in waiting]}: {words}")


def _answer(server: Server, one: Case, before: Sequence[Object]) -> Answer:
    """Return the result of a case; `before` are its objects when the scheduler started."""
    path = f"/api/v1/namespaces/{one.namespace}/pods"
    pods = {_name(pod): pod for pod in _items(server, path)}
    pending = {name: pod for name, pod in pods.items() if ROLE_LABEL in pod["metadata"].get("labels", {})}
    kind, name = one.preemptor
    message = _message(pods[name]) if kind == "Pod" else "; ".join(dict.fromkeys(_conditions(server, one)))
    bound = {name: pod["spec"]["nodeName"] for name, pod in pending.items() if "nodeName" in pod["spec"]}
    return Answer(
        bound=bound,
        volumes=_volumes(server, one.namespace, before) if bound else {},
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


def _conditions(server: Server, one: Case) -> Iterator[str]:
    """Yield the messages of the conditions of the preempting group, or of the groups of its tree."""
    for group in one.objects:
        is_leaf = group["kind"] == "PodGroup" and ROLE_LABEL in group["metadata"].get("labels", {})
        if is_leaf or (group["kind"], _name(group)) == one.preemptor:
            stored = _request(server, "GET", f"{_collection(group)}/{_name(group)}")
            yield from (each.get("message", "") for each in stored.get("status", {}).get("conditions", ()))


def _volumes(server: Server, namespace: str, before: Sequence[Object]) -> dict[str, str]:
    """Return the volumes of the claims that were not bound, by claim; empty for a provisioned one."""
    known = {_name(each) for each in before if each["kind"] == "PersistentVolume"}
    bound = {_name(each) for each in before if BIND_COMPLETED in each["metadata"].get("annotations", {})}
    claims = _items(server, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    final = {_name(each): each["spec"]["volumeName"] for each in claims if _name(each) not in bound}
    return {claim: volume if volume in known else "" for claim, volume in final.items()}


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


def _items(server: Server, path: str) -> list[Object]:
    found: list[Object] = _request(server, "GET", path)["items"]
    return found


def _delete(server: Server, path: str) -> None:
    _request(server, "DELETE", path)


def _request(server: Server, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    code, answer = server.request(method, path, body, kind)
    assert code in (200, 201), (method, path, answer)
    return answer


def _name(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name
