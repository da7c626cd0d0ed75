"""A Deployment, its ReplicaSet and pods, with statuses and Events as their controllers and kubelets write.

The messages are those of Kubernetes 1.36 and containerd 2, except for names.
"""

from collections.abc import Mapping
from typing import Any

NAMESPACE = "podium-system"
NAME = "podium-webhook"
SET = f"{NAME}-7c5fdfb9d8"
POD = f"{SET}-x2x7k"
CONTAINER = "webhook"
IMAGE = "registry.example.com/podium:9.9.9"
LABELS = {"app.kubernetes.io/component": "webhook", "app.kubernetes.io/part-of": "podium"}

Document = dict[str, Any]


def owned(kind: str, name: str, owner: str, **metadata: Any) -> Document:
    """Return an object that another one controls; the UID of each is its name."""
    reference = {"kind": kind, "name": owner, "uid": owner, "controller": True}
    own = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": name,
        "labels": LABELS,
        "ownerReferences": [reference],
    }
    return {"metadata": {**own, **metadata}}


def deployment(*conditions: Document, paused: bool = False, **status: Any) -> Document:
    """Return a Deployment of two replicas; `status` has its numbers, which omit those that are 0."""
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": NAME, "generation": 2},
        "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, **({"paused": True} if paused else {})},
        "status": {"observedGeneration": 2, "conditions": [*conditions], **status},
    }


def replica_set(*conditions: Document, name: str = SET, revision: int = 2) -> Document:
    """Return a ReplicaSet of the Deployment."""
    made = owned("Deployment", name, NAME, annotations={"deployment.kubernetes.io/revision": str(revision)})
    return {**made, "status": {"conditions": [*conditions]}}


def pod(status: Document, *, name: str = POD, owner: str = SET, **metadata: Any) -> Document:
    """Return a pod of a ReplicaSet."""
    made = owned("ReplicaSet", name, owner, **metadata)
    return {**made, "spec": {"nodeName": "node-1", "containers": [{"name": CONTAINER}]}, "status": status}


def container(
    state: Document, *, restarts: int = 0, last: Document | None = None, ready: bool = False
) -> Document:
    """Return the status of a pod on a node with one container."""
    kept = {"terminated": last} if last else {}
    one = {"name": CONTAINER, "image": IMAGE, "imageID": "", "restartCount": restarts, "ready": ready}
    running = "running" in state or restarts
    return {
        "phase": "Running" if running else "Pending",
        "conditions": [
            {"type": "PodReadyToStartContainers", "status": "True"},
            {"type": "Initialized", "status": "True"},
            _ready("Ready", ready=ready),
            _ready("ContainersReady", ready=ready),
            {"type": "PodScheduled", "status": "True"},
        ],
        "containerStatuses": [{**one, "state": state, "lastState": kept, "started": ready}],
    }


def _ready(kind: str, *, ready: bool) -> Document:
    if ready:
        return {"type": kind, "status": "True"}
    message = f"containers with unready status: [{CONTAINER}]"
    return {"type": kind, "status": "False", "reason": "ContainersNotReady", "message": message}


def waiting(reason: str, message: str = "", **more: Any) -> Document:
    """Return the status of a pod whose container waits."""
    return container({"waiting": {"reason": reason, **({"message": message} if message else {})}}, **more)


def running(*, ready: bool = False, **more: Any) -> Document:
    """Return the status of a pod whose container runs."""
    return container({"running": {"startedAt": "2026-11-26T09:00:00Z"}}, ready=ready, **more)


def exited(code: int = 1, reason: str = "Error", message: str = "") -> Document:
    """Return the state of a container that ended."""
    state: Document = {"exitCode": code, "reason": reason, "containerID": "containerd://0"}
    return {**state, **({"message": message} if message else {})}


def crashing(restarts: int, last: Document | None = None) -> Document:
    """Return the status of a pod whose container waits for its next start after some crashes."""
    message = f"back-off 10s restarting failed container={CONTAINER} pod={POD}_{NAMESPACE}(0b1c)"
    return waiting("CrashLoopBackOff", message, restarts=restarts, last=last or exited())


def unscheduled(message: str, reason: str = "Unschedulable") -> Document:
    """Return the status of a pod that no node takes."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def event(about: str, reason: str, message: str, time: str = "2026-11-26T09:00:00Z") -> Document:
    """Return a warning about the object of a UID."""
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": time,
        "involvedObject": {"uid": about},
    }


def refused(message: str) -> Document:
    """Return the condition of a ReplicaSet whose pods the API server refuses."""
    return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}


def progressing(reason: str, message: str) -> Document:
    """Return the condition of a Deployment that does not progress."""
    return {"type": "Progressing", "status": "False", "reason": reason, "message": message}


NOT_FOUND = (
    f'rpc error: code = NotFound desc = failed to pull and unpack image "{IMAGE}": failed to resolve image: '
    f"{IMAGE}: not found"
)
REFUSED = {
    "PodSecurity": (
        f'pods "{SET}-" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != '
        f'false (container "{CONTAINER}" must set securityContext.allowPrivilegeEscalation=false)'
    ),
    "a quota": (
        f'pods "{SET}-q8v5z" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: '
        "pods=0"
    ),
    "a quota whose status is not computed yet": (
        f'pods "{SET}-q8v5z" is forbidden: status unknown for quota: podium, resources: pods'
    ),
    "a webhook": 'admission webhook "gate.example.com" denied the request: no',
    "a webhook that does not answer": (
        'Internal error occurred: failed calling webhook "gate.example.com": failed to call webhook: Post '
        '"https://gate.theirs.svc:443/?timeout=10s": no endpoints available for service "gate"'
    ),
}
WAITING: Mapping[str, str] = {
    "ErrImagePull": NOT_FOUND,
    "ImagePullBackOff": f'Back-off pulling image "{IMAGE}": ErrImagePull: {NOT_FOUND}',
    "RegistryUnavailable": f"image pull failed for {IMAGE} because the registry is unavailable: timeout",
    "ImageInspectError": f'Failed to inspect image "{IMAGE}": rpc error: code = Unavailable desc = closed',
    "InvalidImageName": (
        'Failed to apply default image tag "podium:0:1": couldn\'t parse image name "podium:0:1": invalid '
        "reference format"
    ),
    "ErrImageNeverPull": f'Container image "{IMAGE}" is not present with pull policy of Never',
    "CreateContainerConfigError": 'configmap "podium-webhook" not found',
    "CreateContainerError": "failed to generate container: no space left on device",
    "RunContainerError": (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
        "create failed: unable to start container process: error during container init: exec: "
        '"podium": executable file not found in $PATH'
    ),
}
