"""Asks a real kube-scheduler about generated clusters, and compares its answers with ours.

The API server runs without controllers, so nothing provisions a volume or completes a binding. A pod is
refused with a message, or its volumes and claims are written and it waits. Its status has its node then. Each
case has nodes, volumes and classes of its own, and its pod asks for its nodes by label. So many cases are
asked at once. The scheduler starts when all objects exist, so it never sees half of a case.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from bench.kubescheduler import scheduling
from tests.support.servers import Server
from tests.support.volumes.generated import generated
from tests.support.volumes.manifests import HOST, Manifest, binding, read_claims
from tests.support.waiting import comes

from podium.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE

_CASE = "case"
_POD = "pod"
_VERDICT_SECONDS = 180.0
_MERGE = "application/merge-patch+json"
_PLURALS = {
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses",
    "CSIDriver": "csidrivers",
    "CSIStorageCapacity": "csistoragecapacities",
}
# The refusal of a node that belongs to another case, or that the pod does not ask for.
_ELSEWHERE = "node(s) didn't match Pod's node affinity/selector"


class WrittenVolume(NamedTuple):
    """A volume that names a claim by UID, and whether a user did not name the claim in it."""

    claim: str
    volume: str
    by_scheduler: bool


class Seen(NamedTuple):
    """The node of a pod, the volumes and claims written for it; or the number of nodes by reason."""

    node: str = ""
    bound: frozenset[WrittenVolume] = frozenset()
    provisioned: frozenset[str] = frozenset()
    refusals: frozenset[tuple[str | None, int]] = frozenset()


class AskedCase(NamedTuple):
    """A case with the answers of both, ours for the node that the server's scheduler chose."""

    name: str
    server: Seen
    ours: Seen


class Stored(NamedTuple):
    """The volumes of a server, and the pods and claims by namespace."""

    volumes: list[Manifest]
    pods: Mapping[str, Manifest]
    claims: Mapping[str, list[Manifest]]


def ask(server: Server, seed: int, indices: Sequence[int]) -> list[AskedCase]:
    """Return the answers of the server's scheduler to these cases; the server must have no other user.

    It waits until all answers agree, or for some minutes.
    """
    cases = {
        f"case-{index}": _create(server, f"case-{index}", Random(f"{seed}/{index}")) for index in indices
    }

    def answers() -> list[AskedCase]:
        stored = _stored(server)
        return [_answered(name, objects, stored) for name, objects in cases.items()]

    with scheduling(server):
        comes(lambda: all(each.server == each.ours for each in answers()), _VERDICT_SECONDS)
    return answers()


def _create(server: Server, name: str, dice: Random) -> list[Manifest]:
    """Create a case's objects; return them as the scheduler will read them."""
    _request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    made = generated(dice, f"{name}-", pods=1, ties=False)
    [claims] = made.pods
    # Claims come first, because volumes have their UIDs.
    stored = [_put(server, {**each, "metadata": {**each["metadata"], "namespace": name}}) for each in claims]
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in stored}
    stored += [_put(server, _for_server(each, name, uids)) for each in (*made.nodes, *made.storage)]
    asked: dict[str, str] = {_CASE: name}
    if dice.random() < 0.5:
        asked[HOST] = dice.choice(made.nodes)["metadata"]["name"]
    volumes = [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": each["metadata"]["name"]}}
        for at, each in enumerate(claims)
    ]
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "nodeSelector": asked,
        "tolerations": [{"operator": "Exists"}],
        "volumes": volumes,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _POD}, "spec": spec}
    stored.append(_request(server, "POST", f"/api/v1/namespaces/{name}/pods", pod))
    return stored


def _for_server(manifest: Manifest, name: str, uids: Mapping[str, str]) -> Manifest:
    """Return an object with the fields that a server requires, and with the UIDs that it gave."""
    metadata, spec = {**manifest["metadata"]}, {**manifest.get("spec", {})}
    if manifest["kind"] == "Node":
        metadata["labels"] = {**metadata["labels"], _CASE: name}
        room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        return {**manifest, "metadata": metadata, "status": {"allocatable": room, "capacity": room}}
    if manifest["kind"] == "PersistentVolume":
        spec["csi"] = {"driver": "none.example.com", "volumeHandle": metadata["name"]}
        if "claimRef" in spec:
            owner = {**spec["claimRef"], "namespace": name}
            spec["claimRef"] = (
                {**owner, "uid": uids.get(owner["uid"], owner["uid"])} if "uid" in owner else owner
            )
    if "namespace" in metadata:
        metadata["namespace"] = name
    return {**manifest, "metadata": metadata, **({"spec": spec} if "spec" in manifest else {})}


def _put(server: Server, wanted: Manifest) -> Manifest:
    """Create an object with its status; one that is being deleted stays so by the finalizer of its kind."""
    metadata = {**wanted["metadata"]}
    deleting = metadata.pop("deletionTimestamp", None) is not None
    root = f"/apis/{wanted['apiVersion']}" if "/" in wanted["apiVersion"] else f"/api/{wanted['apiVersion']}"
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    path = f"{root}{within}/{_PLURALS[wanted['kind']]}"
    made = _request(server, "POST", path, {**wanted, "metadata": metadata})
    if wanted["kind"] == "PersistentVolume":
        status = {"status": wanted["status"]}
        made = _request(server, "PATCH", f"{path}/{metadata['name']}/status", status, _MERGE)
    if deleting:
        made = _request(server, "DELETE", f"{path}/{metadata['name']}")
        assert made["metadata"]["deletionTimestamp"]
    return {**made, "apiVersion": wanted["apiVersion"], "kind": wanted["kind"]}


def _stored(server: Server) -> Stored:
    claims: dict[str, list[Manifest]] = {}
    for each in _request(server, "GET", "/api/v1/persistentvolumeclaims")["items"]:
        claims.setdefault(each["metadata"]["namespace"], []).append(each)
    pods = _request(server, "GET", "/api/v1/pods")["items"]
    return Stored(
        _request(server, "GET", "/api/v1/persistentvolumes")["items"],
        {each["metadata"]["namespace"]: each for each in pods},
        claims,
    )


def _answered(name: str, objects: list[Manifest], stored: Stored) -> AskedCase:
    """Return the answer of the scheduler to a case, and ours for its objects as they were before."""
    nodes = [each for each in objects if each["kind"] == "Node"]
    claims = read_claims(each for each in objects if each["kind"] == "PersistentVolumeClaim")
    snapshot, bound = binding(nodes, [each for each in objects if each["kind"] not in ("Node", "Pod")])
    found = bound.find(claims)
    pod = stored.pods[name]
    asked = pod["spec"]["nodeSelector"].items()
    reasons = {
        each["metadata"]["name"]: found.reason(snapshot.row[each["metadata"]["name"]])
        for each in nodes
        if asked <= each["metadata"]["labels"].items()
    }
    before = _written(name, [each for each in objects if each["kind"] == "PersistentVolume"], stored)
    written = _written(name, stored.volumes, stored) - before
    provisioned = frozenset(
        each["metadata"]["name"]
        for each in stored.claims[name]
        if SELECTED_NODE in each["metadata"].get("annotations", {})
    )
    node, message = pod["status"].get("nominatedNodeName", ""), _message(pod)
    seen = (
        Seen(refusals=frozenset(_refusals(message).items())) if message else Seen(node, written, provisioned)
    )
    if None not in reasons.values():
        return AskedCase(name, seen, Seen(refusals=frozenset(Counter(reasons.values()).items())))
    if reasons.get(node, "unknown") is not None:
        # The scheduler chose no node, or one that we refuse.
        return AskedCase(name, seen, Seen("one of " + ", ".join(sorted(reasons))))
    plan = found.plan(node)
    ours = frozenset(WrittenVolume(each.claim[1], each.volume, each.by_scheduler) for each in plan.bound)
    to_provision = frozenset(each.claim[1] for each in plan.provisioned if each.node == node)
    return AskedCase(name, seen, Seen(node, ours - before, to_provision))


def _written(name: str, volumes: Iterable[Manifest], stored: Stored) -> frozenset[WrittenVolume]:
    """Return the volumes that name a claim of a case by UID."""
    uids = {each["metadata"]["uid"]: each["metadata"]["name"] for each in stored.claims[name]}
    return frozenset(
        WrittenVolume(
            uids[owner["uid"]],
            each["metadata"]["name"],
            BOUND_BY_CONTROLLER in each["metadata"].get("annotations", {}),
        )
        for each in volumes
        if (owner := each["spec"].get("claimRef", {})).get("uid") in uids
    )


def _message(pod: Manifest) -> str:
    """Return why a pod was not placed; empty if nothing is known yet."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition["reason"])
    return ""


def _refusals(message: str) -> Counter[str]:
    """Return the nodes of the case by reason: `0/9 nodes are available: 2 node(s) …, 7 node(s) ….`."""
    listed, _, _ = message.partition(". ")
    reasons = listed.rstrip(".").partition(": ")[2].split(", ")
    found = {reason: int(count) for count, _, reason in (each.partition(" ") for each in reasons)}
    return Counter({reason: count for reason, count in found.items() if reason != _ELSEWHERE})


def _request(
    server: Server, method: str, path: str, body: Any = None, content_type: str = "application/json"
) -> Any:
    code, answer = server.request(method, path, body, content_type)
    assert code in (200, 201), f"{method} {path}: {code} {answer}"
    return answer
