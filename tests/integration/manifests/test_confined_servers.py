"""The writes that the policies refuse to a stolen token of the scheduler or the reconciler, on real servers.

Each account has its rights of the install. A case is one write by that account; the named policy refuses it,
and the same write without the foreign part is accepted. tests/integration/manifests/test_audit.py runs all
writes of the real processes under these policies without a refusal.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
import yaml
from tests.support.connection.cluster import CONTAINER
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.recorder import Answer, send
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.core import POD_SCHEDULED
from podium.api.devices import CLAIM_FINALIZER, DEVICE_API, EXTENDED_RESOURCE_CLAIM
from podium.api.groups import (
    COMPOSITE_INITIALLY_SCHEDULED,
    FINALIZER,
    GROUP_LABEL,
    GROUP_SCHEDULED,
    INITIALLY_SCHEDULED,
)
from podium.api.podkinds.table import GANG_FORMS
from podium.api.saving import CHECKPOINT, SAVE_REQUESTED
from podium.api.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from podium.controllers import conditions as controller
from podium.groups.autogroups import GROUP_LABELS
from podium.planner.preemption.inflight import DISRUPTION_TARGET
from podium.schedulerplugin.scheduling.messages import STRADDLES

pytestmark = pytest.mark.server

Document = dict[str, Any]

_USER = "system:serviceaccount:podium-system:podium-"
_REGISTERED = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Deployment")
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"
_JSON = "application/json-patch+json"
_GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/default/podgroups"
_COMPOSITES = "/apis/scheduling.podium.dev/v1beta1/namespaces/default/compositepodgroups"
_NODES = {
    "with-zone": {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"},
    "plain": {},
}
_TIME = "2026-11-22T00:00:00Z"


class Scene(NamedTuple):
    """A server with the manifests of the scheduler's mode, and two nodes."""

    server: Server

    def write(
        self, account: str, method: str, path: str, body: Any, content_type: str = _STRATEGIC
    ) -> Answer:
        """Send a write as an account of the install."""
        kind = "application/json" if method in ("POST", "PUT") else content_type
        return send(self.server, method, path, body, content_type=kind, user=_USER + account)

    def make(self, path: str, body: Document) -> Document:
        """Create an object as the administrator."""
        code, made = self.server.request("POST", path, body)
        assert code == 201, made
        assert isinstance(made, dict)
        return made

    def pod(
        self, scheduler: str = "podium-scheduler", namespace: str = "default", **metadata: Any
    ) -> Document:
        """Make a pending pod with a claim, an address, and conditions of the kubelet and a readiness gate."""
        claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        spec = {"schedulerName": scheduler, "containers": [CONTAINER], "resourceClaims": claims}
        made = self.make(_pods(namespace), {"metadata": {"generateName": "p-", **metadata}, "spec": spec})
        status = {
            "podIP": "10.1.1.1",
            "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "x.example/gate", "status": "False"},
            ],
        }
        path = f"{_pods(namespace)}/{made['metadata']['name']}/status"
        code, made = self.server.request("PATCH", path, {"status": status}, _STRATEGIC)
        assert code == 200, made
        assert isinstance(made, dict)
        return made

    def group(self, **metadata: Any) -> Document:
        """Make a group of Podium's with a foreign finalizer, labels and an annotation."""
        metadata = {
            "generateName": "g-",
            "labels": {"team": "a"},
            "annotations": {"a": "b"},
            "finalizers": ["example.com/hold"],
            **metadata,
        }
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        return self.make(_GROUPS, {**_GROUP, "metadata": metadata, "spec": spec})

    def composite(self) -> Document:
        """Make a composite group of Podium's."""
        document = {
            **_GROUP,
            "kind": "CompositePodGroup",
            "metadata": {"generateName": "c-"},
            "spec": {
                "schedulingPolicy": {"basic": {}},
                "workloadRef": {"workloadName": "w", "templateName": "t"},
            },
        }
        return self.make(f"{_GROUPS.removesuffix('podgroups')}compositepodgroups", document)


_GROUP = {"apiVersion": "scheduling.podium.dev/v1beta1", "kind": "PodGroup"}


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture(scope="module", params=in_turn(__name__))
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Yield a server with the objects of the install, except those that need a running webhook."""
    with exclusive(RELEASES[request.param]) as server:
        documents = [each for each in rendered("scheduler") if each["kind"] not in _REGISTERED]
        for each in documents:
            if each["kind"] == "CustomResourceDefinition":
                each["spec"].pop("conversion", None)
        server.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(documents))
        made = Scene(server)
        for name, labels in _NODES.items():
            made.make("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        until(lambda: server.request("GET", _GROUPS)[0] == 200, "groups are served")
        pod, group, claim = made.pod("default-scheduler"), made.group(), _storage(made, CLAIMS)
        probes: dict[str, Callable[[], Answer]] = {
            "scheduler-binds": lambda: _bind(made, pod, namespace="kube-system"),
            "scheduler-status": lambda: _status(made, pod, {"podIP": "10.0.0.1"}),
            "scheduler-claims": lambda: made.write(
                "scheduler", "PATCH", claim, {"metadata": {"labels": {"x": "y"}}}, _MERGE
            ),
            "scheduler-extended-claims": lambda: _create_claim(made, {}),
            "scheduler-devices": lambda: _change_claim(made, {"metadata": {"labels": {"x": "y"}}}),
            "controller-status": lambda: _group_status(made, "controller", group, {}, GROUP_SCHEDULED),
            "controller-creates": lambda: made.write(
                "controller", "POST", f"{_GROUPS}?dryRun=All", _new_group([])
            ),
            "controller-updates": lambda: _patch_group(made, group, {"labels": {"x": "y"}}),
        }
        for account in ("scheduler", "controller"):
            probes[f"{account}-leases"] = partial(_create_lease, made, account, "other")
        for name, probe in probes.items():
            until(partial(_acts, f"podium-{name}", probe), f"{name} acts")
        yield made


def _acts(policy: str, probe: Callable[[], Answer]) -> bool:
    return _refused(probe(), policy)


def _refused(answer: Answer, policy: str) -> bool:
    message = answer.body.get("message", "")
    return answer.code == 403 and f"ValidatingAdmissionPolicy '{policy}'" in message


def _bind(
    scene: Scene,
    pod: Document,
    node: str = "plain",
    *,
    namespace: str = "default",
    kind: str = "Node",
    **metadata: Any,
) -> Answer:
    name = pod["metadata"]["name"]
    body = {
        "metadata": {"name": name, "uid": pod["metadata"]["uid"], **metadata},
        "target": {"apiVersion": "v1", "kind": kind, "name": node},
    }
    return scene.write("scheduler", "POST", f"{_pods(namespace)}/{name}/binding", body)


def _status(
    scene: Scene, pod: Document, status: Document, namespace: str = "default", **metadata: Any
) -> Answer:
    path = f"{_pods(namespace)}/{pod['metadata']['name']}/status"
    body = {"metadata": {"uid": pod["metadata"]["uid"], **metadata}, "status": status}
    return scene.write("scheduler", "PATCH", path, body)


def _condition(kind: str, status: str = "True") -> Document:
    return {"type": kind, "status": status, "reason": "Test", "message": "m", "lastTransitionTime": _TIME}


def _group_status(scene: Scene, account: str, group: Document, more: Document, *kinds: str) -> Answer:
    path = _status_path(group)
    status = {"conditions": [_condition(kind) for kind in kinds], **more}
    return scene.write(account, "PATCH", path, {"status": status}, _MERGE)


def _status_path(group: Document) -> str:
    plural = f"{group['kind'].lower()}s"
    return f"{_GROUPS.removesuffix('podgroups')}{plural}/{group['metadata']['name']}/status"


def _patch_group(scene: Scene, group: Document, metadata: Document, **more: Any) -> Answer:
    path = f"{_GROUPS}/{group['metadata']['name']}"
    return scene.write("controller", "PATCH", path, {"metadata": metadata, **more}, _MERGE)


def _owner(api_version: str = "batch/v1", kind: str = "Job", **more: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "11", "controller": True, **more}


def _new_group(owners: list[Document], **metadata: Any) -> Document:
    metadata = {"generateName": "made-", "labels": dict(GROUP_LABELS), "ownerReferences": owners, **metadata}
    return {**_GROUP, "metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}


@pytest.mark.parametrize("node", _NODES)
def test_the_scheduler_binds(scene: Scene, node: str) -> None:
    """Delete a pod by its UID; the API server's own topology labels are no labels of the scheduler."""
    answer = _bind(scene, scene.pod(), node)
    assert answer.code == 201, answer


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "kube-node-lease", "podium-system"])
def test_it_binds_nothing_of_the_system(scene: Scene, namespace: str) -> None:
    """The pod requests it and does not get it."""
    answer = _bind(scene, scene.pod(), namespace=namespace)
    assert _refused(answer, "podium-scheduler-binds"), answer


BINDINGS: dict[str, Document] = {
    "an annotation": {"annotations": {"a": "b"}},
    "a label": {"labels": {"app": "b"}},
    "no UID": {"uid": ""},
}


@pytest.mark.parametrize("metadata", BINDINGS.values(), ids=BINDINGS)
def test_a_binding_writes_no_metadata_of_the_pod(scene: Scene, metadata: Document) -> None:
    answer = _bind(scene, scene.pod(), **metadata)
    assert _refused(answer, "podium-scheduler-binds"), answer


def test_the_older_way_to_bind_is_no_way_round(scene: Scene) -> None:
    """`bindings` of a namespace is another resource, for which the account has no right."""
    pod = scene.pod()
    target = {"apiVersion": "v1", "kind": "Node", "name": "plain"}
    body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
    assert scene.write("scheduler", "POST", "/api/v1/namespaces/default/bindings", body).code == 403


WRITTEN: dict[str, Document] = {
    "why it waits": {"conditions": [_condition(POD_SCHEDULED, "False")]},
    "that it goes": {"conditions": [_condition(DISRUPTION_TARGET)]},
    "a node and why": {"nominatedNodeName": "plain", "conditions": [_condition(POD_SCHEDULED, "False")]},
    "no node any more": {"nominatedNodeName": None},
    "both": {"conditions": [_condition(DISRUPTION_TARGET), _condition(POD_SCHEDULED)]},
}


@pytest.mark.parametrize("status", WRITTEN.values(), ids=WRITTEN)
def test_the_scheduler_writes_its_conditions_and_a_node(scene: Scene, status: Document) -> None:
    """The policy covers new conditions and its own; 3,000 annotations do not exceed the cost budget."""
    many = {f"example.com/{number}": "x" * 50 for number in range(3000)}
    labels = {f"l{number}": "v" for number in range(100)}
    pod = scene.pod(annotations=many, labels=labels, finalizers=["example.com/hold"])
    for _ in range(2):
        answer = _status(scene, pod, status)
        assert answer.code == 200, answer


def test_the_scheduler_asks_a_victim_to_save_its_work_and_takes_that_back(scene: Scene) -> None:
    """One annotation goes with the mark; thousands of others stay."""
    many = {f"example.com/{number}": "x" * 50 for number in range(3000)}
    pod = scene.pod(annotations=many)
    for time, status in ((_TIME, "True"), (None, "False")):
        marked = {"conditions": [_condition(DISRUPTION_TARGET, status)]}
        answer = _status(scene, pod, marked, annotations={SAVE_REQUESTED: time})
        assert answer.code == 200, answer
        stored = scene.server.request("GET", f"{_pods('default')}/{pod['metadata']['name']}")[1]
        assert stored["metadata"]["annotations"] == ({**many, SAVE_REQUESTED: time} if time else many)


STATUS: dict[str, Document] = {
    "podIP": {"podIP": "10.9.9.9"},
    "podIPs": {"podIPs": [{"ip": "10.9.9.9"}]},
    "podIP taken away": {"podIP": None, "podIPs": [{"$patch": "replace"}]},
    "hostIP": {"hostIP": "10.9.9.9"},
    "phase": {"phase": "Failed"},
    "reason": {"reason": "Evicted"},
    "message": {"message": "x"},
    "startTime": {"startTime": _TIME},
    "Ready": {"conditions": [_condition("Ready")]},
    "ContainersReady": {"conditions": [_condition("ContainersReady")]},
    "Initialized": {"conditions": [_condition("Initialized")]},
    "a readiness gate": {"conditions": [_condition("x.example/gate")]},
    "a condition taken away": {"conditions": [{"type": "x.example/gate", "$patch": "delete"}]},
    "all conditions replaced": {"conditions": [{"$patch": "replace"}, _condition(POD_SCHEDULED)]},
    "Ready beside its own": {"conditions": [_condition(POD_SCHEDULED, "False"), _condition("Ready")]},
    "containerStatuses": {
        "containerStatuses": [
            {"name": CONTAINER["name"], "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        ]
    },
    "resourceClaimStatuses": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "of-another"}]},
    "observedGeneration": {"observedGeneration": 99},
    "resize": {"resize": "Infeasible"},
}


# The first is derived from podIP.
_IGNORED = {"podIPs"}


@pytest.mark.parametrize("status", STATUS.values(), ids=STATUS)
def test_it_writes_nothing_else_of_a_status(scene: Scene, status: Document) -> None:
    """Such a write could take a Service's traffic, end pods, or bind others' claims.

    Fields that the API server ignores are not stored either.
    """
    pod = scene.pod()
    answer = _status(scene, pod, status)
    path = f"{_pods('default')}/{pod['metadata']['name']}"
    assert scene.server.request("GET", path)[1]["status"] == pod["status"]
    assert _refused(answer, "podium-scheduler-status") or (answer.code == 200 and status.keys() <= _IGNORED)


METADATA: dict[str, Document] = {
    "labels": {"labels": {"app": "other"}},
    "a label taken away": {"labels": {"there": None}},
    "annotations": {"annotations": {"a": "b"}},
    "an annotation changed": {"annotations": {"kept": "2"}},
    "an annotation taken away": {"annotations": {"kept": None}},
    "a request to save, and another annotation": {"annotations": {SAVE_REQUESTED: _TIME, "a": "b"}},
    "a checkpoint": {"annotations": {CHECKPOINT: _TIME}},
    "a finalizer": {"finalizers": ["example.com/more"]},
    "no finalizer": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]},
}


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA)
def test_it_writes_no_metadata_of_a_pod(scene: Scene, metadata: Document) -> None:
    """A write to pods/status cannot change labels, annotations and finalizers."""
    pod = scene.pod(labels={"there": "1"}, annotations={"kept": "1"}, finalizers=["example.com/hold"])
    answer = _status(scene, pod, {}, **metadata)
    assert _refused(answer, "podium-scheduler-status"), answer


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
@pytest.mark.parametrize("status", WRITTEN.values(), ids=WRITTEN)
def test_it_writes_nothing_of_another_schedulers_pods(scene: Scene, status: Document, namespace: str) -> None:
    """A false DisruptionTarget would make a Job's pod failure policy ignore a failure."""
    pod = scene.pod("default-scheduler", namespace)
    answer = _status(scene, pod, status, namespace)
    assert _refused(answer, "podium-scheduler-status"), answer


VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM_REF = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "u"}
# Each write that binding makes, and its withdrawal.
BINDING: dict[str, tuple[str, Document]] = {
    "reserve a volume": (
        VOLUMES,
        {"spec": {"claimRef": CLAIM_REF}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}},
    ),
    "free a volume": (
        VOLUMES,
        {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}},
    ),
    "select a node": (CLAIMS, {"metadata": {"annotations": {SELECTED_NODE: "plain"}}}),
    "select no node": (CLAIMS, {"metadata": {"annotations": {SELECTED_NODE: None}}}),
}
NOT_BINDING: dict[str, tuple[str, Document]] = {
    "the size of a volume": (VOLUMES, {"spec": {"capacity": {"storage": "9Gi"}}}),
    "the reclaim policy": (VOLUMES, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    "the class of a volume": (VOLUMES, {"spec": {"storageClassName": "other"}}),
    "a label of a volume": (VOLUMES, {"metadata": {"labels": {"zone": "b"}}}),
    "a finalizer of a volume": (VOLUMES, {"metadata": {"finalizers": []}}),
    "an annotation of a volume": (VOLUMES, {"metadata": {"annotations": {"a": "c"}}}),
    "the volume of a claim": (CLAIMS, {"spec": {"volumeName": "v"}}),
    "an annotation of a claim": (CLAIMS, {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}}),
    "no annotation of a claim": (CLAIMS, {"metadata": {"annotations": {"a": None}}}),
    "an owner of a claim": (
        CLAIMS,
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
    ),
}


def _storage(scene: Scene, path: str, *, phase: str = "Available") -> str:
    """Create a volume in that phase, or a claim, with labels and annotations; return its path."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    spec = (
        {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/disk"}}
        if path == VOLUMES
        else {**common, "resources": {"requests": {"storage": "1Gi"}}}
    )
    metadata = {"generateName": "s-", "labels": {"zone": "a"}, "annotations": {"a": "b"}}
    made = f"{path}/{scene.make(path, {'metadata': metadata, 'spec': spec})['metadata']['name']}"
    if path == VOLUMES:
        code, answer = scene.server.request("PATCH", f"{made}/status", {"status": {"phase": phase}}, _MERGE)
        assert code == 200, answer
    return made


@pytest.mark.parametrize(("path", "patch"), BINDING.values(), ids=BINDING)
def test_the_scheduler_binds_claims_and_withdraws_that(scene: Scene, path: str, patch: Document) -> None:
    answer = scene.write("scheduler", "PATCH", _storage(scene, path), patch, _MERGE)
    assert answer.code == 200, answer


@pytest.mark.parametrize(("path", "patch"), NOT_BINDING.values(), ids=NOT_BINDING)
def test_it_writes_nothing_else_of_a_claim_or_a_volume(scene: Scene, path: str, patch: Document) -> None:
    answer = scene.write("scheduler", "PATCH", _storage(scene, path), patch, _MERGE)
    assert _refused(answer, "podium-scheduler-claims"), answer


@pytest.mark.parametrize("phase", ["Bound", "Released", "Pending"])
def test_it_takes_no_volume_from_its_claim(scene: Scene, phase: str) -> None:
    _, patch = BINDING["reserve a volume"]
    answer = scene.write("scheduler", "PATCH", _storage(scene, VOLUMES, phase=phase), patch, _MERGE)
    assert _refused(answer, "podium-scheduler-claims"), answer


DEVICE_CLAIMS = f"/apis/{DEVICE_API}/namespaces/default/resourceclaims"
POD_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "11", "controller": True}
# The metadata of a claim for extended resources.
EXTENDED = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}, "ownerReferences": [POD_OWNER]}
NOT_EXTENDED: dict[str, Document] = {
    "a claim of a user": {},
    "no owner": {"annotations": EXTENDED["annotations"]},
    "no annotation": {"ownerReferences": EXTENDED["ownerReferences"]},
    "another value": {**EXTENDED, "annotations": {EXTENDED_RESOURCE_CLAIM: "false"}},
    "an owner that is no pod": {**EXTENDED, "ownerReferences": [{**POD_OWNER, "kind": "Node"}]},
    "an owner that is no controller": {**EXTENDED, "ownerReferences": [{**POD_OWNER, "controller": False}]},
}


def _claim(metadata: Document) -> Document:
    return {"metadata": {"generateName": "c-", **metadata}, "spec": {"devices": {}}}


def _create_claim(scene: Scene, metadata: Document) -> Answer:
    return scene.write("scheduler", "POST", f"{DEVICE_CLAIMS}?dryRun=All", _claim(metadata))


def _delete_claim(scene: Scene, metadata: Document) -> Answer:
    made = scene.make(DEVICE_CLAIMS, _claim(metadata))
    return scene.write("scheduler", "DELETE", f"{DEVICE_CLAIMS}/{made['metadata']['name']}", None)


def test_the_scheduler_creates_and_deletes_claims_for_extended_resources(scene: Scene) -> None:
    assert _create_claim(scene, EXTENDED).code == 201
    assert _delete_claim(scene, EXTENDED).code == 200


@pytest.mark.parametrize("metadata", NOT_EXTENDED.values(), ids=NOT_EXTENDED)
def test_it_creates_and_deletes_no_other_claims(scene: Scene, metadata: Document) -> None:
    """A token that is stolen could take devices from all pods."""
    for answer in (_create_claim(scene, metadata), _delete_claim(scene, metadata)):
        assert _refused(answer, "podium-scheduler-extended-claims"), answer


_RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
_CONSUMER = {"resource": "pods", "name": "p", "uid": "11"}
_ALLOCATED = {"allocation": {"devices": {"results": [_RESULT]}}, "reservedFor": [_CONSUMER]}
_FINALIZERS = {"finalizers": [CLAIM_FINALIZER]}


class ClaimChange(NamedTuple):
    """A patch of a claim with this metadata and status, of its status unless it has metadata."""

    patch: Document
    metadata: Document | None = None
    status: Document | None = None


ALLOCATING = {
    "add the finalizer": ClaimChange({"metadata": _FINALIZERS}),
    "allocate": ClaimChange({"status": _ALLOCATED}, _FINALIZERS),
    "reserve for another pod": ClaimChange(
        {"status": {"reservedFor": [_CONSUMER, {**_CONSUMER, "name": "q", "uid": "12"}]}},
        _FINALIZERS,
        _ALLOCATED,
    ),
    "withdraw": ClaimChange(
        {"status": {"allocation": None, "devices": None, "reservedFor": None}}, _FINALIZERS, _ALLOCATED
    ),
    "remove the finalizer of a claim for extended resources": ClaimChange(
        {"metadata": {"finalizers": None}}, {**EXTENDED, **_FINALIZERS}
    ),
}
NOT_ALLOCATING = {
    "a label": ClaimChange({"metadata": {"labels": {"x": "y"}}}),
    "another finalizer": ClaimChange({"metadata": {"finalizers": ["example.com/hold"]}}),
    "no finalizer of a user's claim": ClaimChange({"metadata": {"finalizers": None}}, _FINALIZERS),
    "no finalizer of another owner": ClaimChange(
        {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, {"finalizers": ["example.com/hold"]}
    ),
    "a consumer that is no pod": ClaimChange(
        {"status": {**_ALLOCATED, "reservedFor": [{**_CONSUMER, "resource": "nodes"}]}}, _FINALIZERS
    ),
}


REFUSED_BY_THE_SERVER = {
    "no devices while a pod uses them": ClaimChange(
        {"status": {"allocation": None, "devices": None}}, _FINALIZERS, _ALLOCATED
    ),
    "other devices": ClaimChange(
        {"status": {"allocation": {"devices": {"results": [{**_RESULT, "device": "gpu-1"}]}}}},
        _FINALIZERS,
        _ALLOCATED,
    ),
    "the status of a device": ClaimChange(
        {"status": {"devices": [{"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}]}},
        _FINALIZERS,
        _ALLOCATED,
    ),
}


def _change_claim(
    scene: Scene, patch: Document, metadata: Document | None = None, status: Document | None = None
) -> Answer:
    """Send a patch as the scheduler to a claim with this metadata and status."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    made = scene.make(DEVICE_CLAIMS, {"metadata": {"generateName": "d-", **(metadata or {})}, "spec": spec})
    path = f"{DEVICE_CLAIMS}/{made['metadata']['name']}"
    if status:
        code, answer = scene.server.request("PATCH", f"{path}/status", {"status": status}, _MERGE)
        assert code == 200, answer
    return scene.write("scheduler", "PATCH", path if "metadata" in patch else f"{path}/status", patch, _MERGE)


@pytest.mark.parametrize("change", ALLOCATING.values(), ids=ALLOCATING)
def test_the_scheduler_allocates_claims_and_withdraws_that(scene: Scene, change: ClaimChange) -> None:
    answer = _change_claim(scene, *change)
    assert answer.code == 200, answer


@pytest.mark.parametrize("change", NOT_ALLOCATING.values(), ids=NOT_ALLOCATING)
def test_it_changes_nothing_else_of_a_claim_for_devices(scene: Scene, change: ClaimChange) -> None:
    answer = _change_claim(scene, *change)
    assert _refused(answer, "podium-scheduler-devices"), answer


@pytest.mark.parametrize("change", REFUSED_BY_THE_SERVER.values(), ids=REFUSED_BY_THE_SERVER)
def test_the_server_itself_protects_devices_in_use(scene: Scene, change: ClaimChange) -> None:
    answer = _change_claim(scene, *change)
    assert answer.code == 422, answer


def test_it_names_the_claim_for_extended_resources(scene: Scene) -> None:
    resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    container = {**CONTAINER, "resources": resources}
    spec = {"schedulerName": "podium-scheduler", "containers": [container]}
    pod = scene.make(_pods("default"), {"metadata": {"generateName": "x-"}, "spec": spec})
    mapping = {"containerName": CONTAINER["name"], "resourceName": "example.com/gpu", "requestName": "r"}
    for name in ("first", "second"):
        named = {"resourceClaimName": name, "requestMappings": [mapping]}
        answer = _status(scene, pod, {"extendedResourceClaimStatus": named})
        assert answer.code == 200, answer
        assert answer.body["status"]["extendedResourceClaimStatus"] == named


_OWN = {
    "scheduler": (
        *(GROUP_SCHEDULED, INITIALLY_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED),
        *(DISRUPTION_TARGET, STRADDLES),
    ),
    "controller": controller.OURS,
}


@pytest.mark.parametrize(
    ("account", "kind"),
    [*((account, "PodGroup") for account in _OWN), ("scheduler", "CompositePodGroup")],
)
def test_conditions_of_groups(scene: Scene, account: str, kind: str) -> None:
    """Each account may write its own conditions, but never write or remove another's."""
    (other,) = _OWN.keys() - {account}
    policy = f"podium-{account}-status"
    group = scene.group() if kind == "PodGroup" else scene.composite()
    foreign = "example.com/foreign"
    path = _status_path(group)
    conditions = [_condition(foreign)]
    code, made = scene.server.request("PATCH", path, {"status": {"conditions": conditions}}, _MERGE)
    assert code == 200, made
    for own in _OWN[account]:
        answer = _group_status(scene, account, group, {}, foreign, own)
        assert answer.code == 200, answer
    for kinds in ((), *((foreign, own) for own in (*_OWN[other], "Ready") if own not in _OWN[account])):
        answer = _group_status(scene, account, group, {}, *kinds)
        assert _refused(answer, policy), (kinds, answer)


@pytest.mark.parametrize("finalizers", [["example.com/hold", FINALIZER], ["example.com/hold"]], ids=str)
def test_the_reconciler_puts_its_finalizer_on_and_takes_it_away(scene: Scene, finalizers: list[str]) -> None:
    group = scene.group()
    for wanted in (["example.com/hold", FINALIZER], finalizers):
        answer = _patch_group(scene, group, {"finalizers": wanted})
        assert answer.code == 200, answer


GROUP_METADATA: dict[str, Document] = {
    "an owner": {"ownerReferences": [_owner()]},
    "an owner of its kinds that is no controller": {"ownerReferences": [_owner(controller=False)]},
    "another's finalizer": {"finalizers": ["example.com/hold", "example.com/more"]},
    "a finalizer taken away": {"finalizers": [FINALIZER]},
    "no finalizers": {"finalizers": None},
    "a label": {"labels": {"x": "y"}},
    "a label taken away": {"labels": {"team": None}},
    "a label of its own with another value": {"labels": {"scheduling.podium.dev/gang": "x"}},
    "an annotation": {"annotations": {"example.com/x": "gold"}},
    "an annotation taken away": {"annotations": None},
}


@pytest.mark.parametrize("metadata", GROUP_METADATA.values(), ids=GROUP_METADATA)
def test_it_writes_no_other_metadata_of_a_group(scene: Scene, metadata: Document) -> None:
    """An owner of its choice would make the garbage collector delete any group."""
    answer = _patch_group(scene, scene.group(), metadata)
    assert _refused(answer, "podium-controller-updates"), answer


def test_it_changes_the_owner_of_no_group(scene: Scene) -> None:
    """The account may set the count of a group that it created, but not change its owner."""
    group = scene.make(_GROUPS, _new_group([_owner()]))
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    for owners in ([_owner(uid="22")], [], [_owner(), _owner(name="p", uid="22", controller=False)]):
        answer = _patch_group(scene, group, {"ownerReferences": owners or None})
        assert _refused(answer, "podium-controller-updates"), answer
    assert _patch_group(scene, group, {}, spec=spec).code == 200
    answer = _patch_group(scene, scene.group(), {}, spec=spec)
    assert _refused(answer, "podium-controller-updates"), answer


@pytest.mark.parametrize(("api_version", "kind"), sorted(GANG_FORMS))
def test_it_makes_groups_for_gangs(scene: Scene, api_version: str, kind: str) -> None:
    """The topology that the owner prefers is the one annotation of Podium's that it may write."""
    preferred = {"scheduling.podium.dev/preferred-topology": "rack"}
    body = _new_group([_owner(api_version, kind)], annotations=preferred)
    answer = scene.write("controller", "POST", _GROUPS, body)
    assert answer.code == 201, answer


_COMPOSITE: Document = {
    "schedulingPolicy": {"basic": {}},
    "workloadRef": {"workloadName": "w", "templateName": "t"},
}


def test_it_makes_the_composite_groups_of_owners_only_and_changes_none(scene: Scene) -> None:
    """It has no right to patch them, because their policies are immutable."""
    body = {**_new_group([_owner()]), "kind": "CompositePodGroup", "spec": _COMPOSITE}
    answer = scene.write("controller", "POST", _COMPOSITES, body)
    assert answer.code == 201, answer
    path = f"{_COMPOSITES}/{answer.body['metadata']['name']}"
    assert scene.write("controller", "PATCH", path, {"metadata": {"labels": {"x": "y"}}}, _MERGE).code == 403
    body = {**_new_group([]), "kind": "CompositePodGroup", "spec": _COMPOSITE}
    answer = scene.write("controller", "POST", _COMPOSITES, body)
    assert _refused(answer, "podium-controller-creates"), answer


NEW: dict[str, Document] = {
    "without a scheduler": _new_group([]),
    "two owners'": _new_group([_owner(), _owner(name="p", uid="22", controller=False)]),
    "a Pod's": _new_group([_owner("v1", "Pod")]),
    "a Job's of another group": _new_group([_owner("example.com/v1", "Job")]),
    "no controller": _new_group([_owner(controller=False)]),
    "one that holds its owner": _new_group([_owner(blockOwnerDeletion=True)]),
    "with a finalizer": _new_group([_owner()], finalizers=["example.com/hold"]),
    "without its label": _new_group([_owner()], labels={}),
    "with a priority of its choice": _new_group(
        [_owner()], annotations={"scheduling.podium.dev/preemption-priority-class": "gold"}
    ),
}


@pytest.mark.parametrize("body", NEW.values(), ids=NEW)
def test_it_makes_no_other_groups(scene: Scene, body: Document) -> None:
    answer = scene.write("controller", "POST", _GROUPS, copy.deepcopy(body))
    assert _refused(answer, "podium-controller-creates"), answer


def test_others_are_free(scene: Scene) -> None:
    """The policies do not affect writes of the kubelet and the administrator."""
    pod, group = scene.pod("default-scheduler"), scene.group()
    path = f"{_pods('default')}/{pod['metadata']['name']}/status"
    assert scene.server.request("PATCH", path, {"status": {"podIP": "10.9.9.9"}}, _STRATEGIC)[0] == 200
    path = f"{_GROUPS}/{group['metadata']['name']}"
    owners = {"metadata": {"ownerReferences": [_owner()]}}
    assert scene.server.request("PATCH", path, owners, _MERGE)[0] == 200


def _create_lease(scene: Scene, account: str, name: str) -> Answer:
    path = "/apis/coordination.k8s.io/v1/namespaces/podium-system/leases?dryRun=All"
    return scene.write(account, "POST", path, {"metadata": {"name": name}})


@pytest.mark.parametrize("account", ["scheduler", "controller"])
def test_an_account_creates_its_own_lease_only(scene: Scene, account: str) -> None:
    """With the Lease of the other process, a stolen token would stop that process."""
    assert _create_lease(scene, account, f"podium-{account}").code == 201
    for name in ("podium-scheduler", "podium-controller", "podium", f"podium-{account}-2", "x"):
        if name != f"podium-{account}":
            assert _refused(_create_lease(scene, account, name), f"podium-{account}-leases"), name


@pytest.mark.parametrize("way", ["pods/{}/binding", "bindings"])
def test_no_binding_sets_the_label_of_a_group(scene: Scene, way: str) -> None:
    """The API server copies the labels of a Binding to the pod."""
    name = scene.pod("default-scheduler")["metadata"]["name"]
    path = f"/api/v1/namespaces/default/{way.format(name)}"
    body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": "plain"}}
    labelled = {**body, "metadata": {"name": name, "labels": {GROUP_LABEL: "other"}}}
    code, answer = scene.server.request("POST", path, labelled)
    assert code == 403
    assert isinstance(answer, dict)
    assert "'group-label-immutable-of-bindings.pods.podium.dev'" in answer["message"]
    assert scene.server.request("POST", path, body)[0] == 201


def test_a_leaving_pod_keeps_the_label_of_its_group(scene: Scene) -> None:
    made = scene.pod("default-scheduler", finalizers=["example.com/hold"], labels={GROUP_LABEL: "g"})
    path = f"{_pods('default')}/{made['metadata']['name']}"
    assert scene.server.request("DELETE", f"{path}?gracePeriodSeconds=0")[0] == 200
    for labels in ({GROUP_LABEL: "other"}, {GROUP_LABEL: None}):
        assert scene.server.request("PATCH", path, {"metadata": {"labels": labels}}, _MERGE)[0] == 403
    assert scene.server.request("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)[0] == 200
