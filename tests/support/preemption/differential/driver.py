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
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from tests.support.preemption.differential.access import (
    MERGE,
    collection_of,
    delete_at,
    items_at,
    name_of,
    request_at,
)
from tests.support.preemption.differential.generator import CLASSES, PREEMPTOR, ROLE_LABEL, Case, Object, case
from tests.support.preemption.differential.recording import Answer, Header, Recorded, Recording, compact
from tests.support.servers import TOPOLOGY, Server
from tests.support.volumes.controllers import Provisioner, volume_controller
from tests.support.volumes.settled import unsettled
from tests.support.waiting import comes
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.components import commands, kubeconfig, log

from podium.api.storage import BIND_COMPLETED


def delete_devices(server: Server, batch: Sequence[Case]) -> None:
    """Delete the slices, classes and claims of a batch; the finalizers are those of controllers."""
    made = [each for one in batch for each in one.objects]
    for path in {collection_of(each) for each in made if each["kind"] in ("ResourceSlice", "DeviceClass")}:
        delete_at(server, path)
    for path in {collection_of(each) for each in made if each["kind"] == "ResourceClaim"}:
        delete_at(server, path)
        for each in items_at(server, path):
            request_at(server, "PATCH", f"{path}/{name_of(each)}", {"metadata": {"finalizers": None}}, MERGE)


def reserved(wanted: Object, uids: Mapping[str, str]) -> Object:
    """Return a claim for devices with the UIDs that the server gave its consumers, if they exist."""
    if wanted["kind"] != "ResourceClaim" or "status" not in wanted:
        return wanted
    status = wanted["status"]
    consumers = [{**each, "uid": uids.get(each["uid"], each["uid"])} for each in status["reservedFor"]]
    return {**wanted, "status": {**status, "reservedFor": consumers}}


def devices_of_claims(server: Server, namespace: str, before: Sequence[Object]) -> dict[str, list[str]]:
    """Return the devices of the claims that had none, by claim, in the form of Answer."""
    open_claims = {
        name_of(each)
        for each in before
        if each["kind"] == "ResourceClaim" and "allocation" not in each["status"]
    }
    if not open_claims:
        return {}
    claims = items_at(server, f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
    return {
        name_of(each): [
            f"{one['request']} {one['driver']} {one['pool']} {one['device']}"
            for one in each["status"]["allocation"]["devices"]["results"]
        ]
        for each in claims
        if name_of(each) in open_claims and "allocation" in each.get("status", {})
    }


# A group preemptor examines every pod: 1.36 places its members again for each of them. A lone pod examines
# only the nodes of its case.
_BATCH, _LONE_BATCH = 8, 60
_READY_SECONDS = 120.0
_GRACE_SECONDS = 10.0
# Until a scheduler has looked again at a pod whose claim it had not read.
_LATE_SECONDS = 5.0
# Of the log in a failure.
_MOST_WORDS = 4_000
_SCHEDULER = "kube-scheduler"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_RESOURCE_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
_PENDING = f"/api/v1/pods?labelSelector={ROLE_LABEL}%3D{PREEMPTOR}"
# The namespaces of a preemptor and its victim in the log. An eviction is logged before the verdict.
_PREEMPTED = re.compile(r'preempted victim Pod" .*?\bpreemptor="([^/"]+)/.*? victim="([^/"]+)/')
# The log of a pod that its claims keep out of the queue, and of a scheduler that has read all objects.
_NOT_ENQUEUED = re.compile(
    r'"Status after running PreEnqueue plugin" pod="([^/"]+)/.*? status=("(?:[^"\\]|\\.)*")'
)
_HANDLERS_SYNCED = '"Handlers synced"'
_GROUPS = ("PodGroup", "CompositePodGroup")
Maker = Callable[[int, int, str], Case]
# The first minor that stops its search for topology domains early, and then takes them in a random order.
_PLACEMENTS_MINOR = 38
# A finalizer of the API server keeps these until they are no longer used.
_DELETED = ("Pod", "PersistentVolumeClaim", "PersistentVolume", "ResourceClaim")
# A namespace in which claims may ask for access beside the users of a device.
_LABELS = {"resource.kubernetes.io/admin-access": "true"}


class Options(NamedTuple):
    """The settings of a scheduler.

    Without its `gates` it does not know groups. `more` are further feature gates, such as "Gate=true".
    `placements` is percentageOfPlacementsToScore: all domains by default, so that their scores decide.
    `alone` runs each case without others, so that a case needs no node selector.
    """

    gates: bool = True
    more: Sequence[str] = ()
    placements: int = 100
    alone: bool = False


GATED = Options()


def record(
    server: Server, seed: int, indices: Sequence[int], options: Options = GATED, make: Maker = case
) -> Recording:
    """Record the answers of a server's scheduler to these cases; the server must have no other user.

    `make` makes the cases.
    """
    release = server.release
    classes = [_create_class(server, name) for name in CLASSES]
    _wait_for_classes(server)
    cases: list[Recorded] = []
    size = 1 if options.alone else _BATCH if options.gates else _LONE_BATCH
    with volume_controller(server), Provisioner(server).running() as provisioner:
        for first in range(0, len(indices), size):
            batch = [make(seed, index, release.minor) for index in indices[first : first + size]]
            cases += _isolated(server, provisioner, batch, options)
            print(f"{release.version}: {len(cases)} of {len(indices)}", file=sys.stderr, flush=True)  # noqa: T201 - minutes
    header = Header(
        minor=release.minor, version=release.version, seed=seed, gates=options.gates, classes=classes
    )
    return Recording(header=header, cases=cases)


def _isolated(
    server: Server, provisioner: Provisioner, batch: Sequence[Case], options: Options
) -> list[Recorded]:
    """Return the answers of a batch in which no case has evicted pods of another one.

    kube-scheduler evicts all pods of lower priority for some trees (`explained`). Such a case is run again
    alone, and the others without it.
    """
    log_file = server.folder / log(_SCHEDULER)
    logged = log_file.stat().st_size if log_file.exists() else 0
    found = _answered(server, provisioner, batch, options)
    reach = _preemptors_elsewhere(log_file.read_bytes()[logged:].decode())
    wide = [each for each in batch if each.namespace in reach]
    if not wide or len(batch) == 1:
        return found
    for each in batch:
        _delete_groups(server, each)
    rest = [each for each in batch if each not in wide]
    parts = [*([rest] if rest else []), *([each] for each in wide)]
    again = [one for part in parts for one in _isolated(server, provisioner, part, options)]
    names = [each.namespace for each in batch]
    return sorted(again, key=lambda one: names.index(one.namespace))


def _delete_groups(server: Server, one: Case) -> None:
    """Delete the groups of a case; their finalizers are those of a controller that does not run."""
    for group in one.objects:
        if group["kind"] in _GROUPS:
            path = f"{collection_of(group)}/{name_of(group)}"
            request_at(server, "PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            delete_at(server, path)


def _preemptors_elsewhere(logged: str) -> set[str]:
    """Return the namespaces whose preemptors evict pods of others, by the scheduler's log."""
    return {preemptor for preemptor, victim in _PREEMPTED.findall(logged) if preemptor != victim}


def _answered(
    server: Server, provisioner: Provisioner, batch: Sequence[Case], options: Options
) -> list[Recorded]:
    """Create a batch on the server, run the scheduler, and clear the cluster."""
    provisioner.only = ()
    made = [_put(server, each) for each in batch]
    storage = _settled(server)
    before = [
        _compact({uid: each | storage.get(uid, {}) for uid, each in objects.items()}) for objects in made
    ]
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    answers: list[Answer] = []
    while not answers:
        with _scheduler(server, options) as logged:
            gated = _await(server, provisioner, logged)
            if gated is not None:
                answers = [
                    _answer(server, each, objects, gated.get(each.namespace, ""))
                    for each, objects in zip(batch, before, strict=True)
                ]
    for each in batch:
        delete_at(server, f"/api/v1/namespaces/{each.namespace}/pods?gracePeriodSeconds=0")
        delete_at(server, f"/apis/policy/v1/namespaces/{each.namespace}/poddisruptionbudgets")
    delete_at(server, "/api/v1/nodes")
    delete_devices(server, batch)
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
        claims[:], volumes[:] = items_at(server, _CLAIMS), items_at(server, _VOLUMES)
        left[:] = unsettled(claims, volumes)
        return not left

    assert comes(is_settled, _READY_SECONDS), f"not settled: {left}"
    return {each["metadata"]["uid"]: each for each in (*claims, *volumes)}


def _put(server: Server, one: Case) -> dict[str, Object]:
    """Create a case's objects; return them by UID."""
    made_before, _ = server.request("GET", f"/api/v1/namespaces/{one.namespace}")
    if made_before != 200:
        request_at(
            server, "POST", "/api/v1/namespaces", {"metadata": {"name": one.namespace, "labels": _LABELS}}
        )
    stored = {}
    uids: dict[str, str] = {}
    for each in one.objects:
        wanted = _owned(each, uids)
        where = collection_of(wanted)
        name = wanted["metadata"]["name"]
        made = request_at(server, "POST", where, wanted)
        if "status" in wanted and wanted["kind"] != "Node":
            made = request_at(server, "PATCH", f"{where}/{name}/status", {"status": wanted["status"]}, MERGE)
        if wanted["kind"] in _DELETED and name in one.terminating:
            made = request_at(server, "DELETE", f"{where}/{name}")
        uids[name] = made["metadata"]["uid"]
        stored[uids[name]] = made
    return stored


def _compact(stored: Mapping[str, Object]) -> list[Object]:
    """Return a case's objects, by UID, as a recording has them; a volume has the name of its claim as UID."""
    names = {uid: name_of(each) for uid, each in stored.items()}
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
    wanted = reserved(_claimed(wanted, uids), uids)
    owners = wanted["metadata"].get("ownerReferences")
    if owners is None:
        return wanted
    owners = [{**each, "uid": uids[each["uid"]]} for each in owners]
    return {**wanted, "metadata": {**wanted["metadata"], "ownerReferences": owners}}


@contextlib.contextmanager
def _scheduler(server: Server, options: Options) -> Iterator[int]:
    """Run the release's scheduler beside its API server; yield the size of its log before."""
    settings = msgspec.structs.replace(server.settings, controllers=True, workload_api=options.gates)
    configuration = server.folder / "kube-scheduler.json"
    configuration.write_bytes(msgspec.json.encode(_configuration(server, options)))
    arguments = (
        *commands(settings)[_SCHEDULER],
        f"--config={configuration}",
        f"--feature-gates={','.join(('SchedulerAsyncPreemption=false', *options.more))}",
        "--v=2",  # logs evictions
        "--vmodule=server=3,scheduling_queue=4",  # logs pods that are not enqueued
    )
    argv, log_file = [str(server.program(_SCHEDULER)), *arguments], server.folder / log(_SCHEDULER)
    logged = log_file.stat().st_size if log_file.exists() else 0
    running = process.spawn(argv, folder=server.folder, log=log_file)
    try:
        yield logged
    finally:
        process.stop([running], grace=_GRACE_SECONDS)


def _configuration(server: Server, options: Options) -> Object:
    """Return the scheduler's configuration file, in place of the flags that it makes ineffective.

    1.38 refuses the limit of domains without the gate of topology constraints.
    """
    limited = int(server.release.minor[2:]) >= _PLACEMENTS_MINOR and TOPOLOGY in options.more
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # Twenty victims would take half a second by default.
        "clientConnection": {"kubeconfig": kubeconfig(_SCHEDULER), "qps": 1000, "burst": 2000},
        **({"percentageOfPlacementsToScore": options.placements} if limited else {}),
    }


def _await(server: Server, provisioner: Provisioner, logged: int) -> dict[str, str] | None:
    """Wait until every pending pod is bound or refused; let the claims of those that fit be provisioned.

    Return why pods were not enqueued, by namespace. Only the log says so, from the position `logged` on. The
    result is None if the scheduler must be started again: it read a pod before one of its claims, and does
    not look at it again while another claim of the pod does not exist.
    """
    waiting: list[Object] = []
    gated: dict[str, str] = {}
    early: set[str] = set()
    claims = {
        f'could not find ResourceClaim "{each["metadata"]["namespace"]}/{name_of(each)}"'
        for each in items_at(server, _RESOURCE_CLAIMS)
    }

    def decided() -> bool:
        pods = items_at(server, _PENDING)
        if any("resourceClaims" in pod["spec"] for pod in pods):
            found = _gated(server, logged)
            early.update(name for name, status in found.items() if status in claims)
            gated.update({name: status for name, status in found.items() if status not in claims})
        waiting[:] = [
            pod
            for pod in pods
            if not (pod["spec"].get("nodeName") or _message(pod) or pod["metadata"]["namespace"] in gated)
        ]
        provisioner.only = [
            (pod["metadata"]["namespace"], each["persistentVolumeClaim"]["claimName"])
            for pod in waiting
            if "nominatedNodeName" in pod["status"]
            for each in pod["spec"].get("volumes", ())
            if "persistentVolumeClaim" in each
        ]
        return not waiting

    def decided_or_early() -> bool:
        return decided() or early.issuperset(pod["metadata"]["namespace"] for pod in waiting)

    if comes(decided_or_early, _READY_SECONDS):
        return gated if comes(decided, _LATE_SECONDS) else None
    names = [pod["metadata"]["namespace"] for pod in waiting]
    lines = (server.folder / log(_SCHEDULER)).read_text(encoding="utf-8").splitlines()
    words = [line for line in lines if any(f"{name}/" in line for name in names)]
    raise AssertionError("\n".join([f"no verdict on {names}:", *words])[:_MOST_WORDS])


def _gated(server: Server, logged: int) -> dict[str, str]:
    """Return why pods are not enqueued, by namespace; none before the scheduler has read all objects."""
    words = (server.folder / log(_SCHEDULER)).read_bytes()[logged:].decode()
    if _HANDLERS_SYNCED not in words:
        return {}
    return {namespace: json.loads(status) for namespace, status in _NOT_ENQUEUED.findall(words)}


def _answer(server: Server, one: Case, before: Sequence[Object], gated: str) -> Answer:
    """Return the result of a case; `before` are its objects when the scheduler started.

    `gated` is why its pod was not enqueued, empty if it was.
    """
    path = f"/api/v1/namespaces/{one.namespace}/pods"
    pods = {name_of(pod): pod for pod in items_at(server, path)}
    pending = {name: pod for name, pod in pods.items() if ROLE_LABEL in pod["metadata"].get("labels", {})}
    kind, name = one.preemptor
    message = (
        _message(pods[name]) or gated if kind == "Pod" else "; ".join(dict.fromkeys(_conditions(server, one)))
    )
    bound = {name: pod["spec"]["nodeName"] for name, pod in pending.items() if "nodeName" in pod["spec"]}
    return Answer(
        bound=bound,
        volumes=_volumes(server, one.namespace, before) if bound else {},
        devices=devices_of_claims(server, one.namespace, before) if bound else {},
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
        if is_leaf or (group["kind"], name_of(group)) == one.preemptor:
            stored = request_at(server, "GET", f"{collection_of(group)}/{name_of(group)}")
            yield from (each.get("message", "") for each in stored.get("status", {}).get("conditions", ()))


def _volumes(server: Server, namespace: str, before: Sequence[Object]) -> dict[str, str]:
    """Return the volumes of the claims that were not bound, by claim; empty for a provisioned one."""
    known = {name_of(each) for each in before if each["kind"] == "PersistentVolume"}
    bound = {name_of(each) for each in before if BIND_COMPLETED in each["metadata"].get("annotations", {})}
    claims = items_at(server, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    final = {name_of(each): each["spec"]["volumeName"] for each in claims if name_of(each) not in bound}
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
    made = request_at(server, "POST", _CLASSES, wanted)
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
