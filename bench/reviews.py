"""The two AdmissionReviews that webhooks are timed with, as an API server sends them.

The first is a pod that a Job controller makes for a gang. Built-in plugins ran already, so it has the default
priority, a token volume and tolerations, and it takes its group's class. The second is the PodGroup, which
gets its class' integer. The fields of API servers (managedFields, userInfo) are half of the bytes.
"""

from typing import Any

import msgspec

from podium.api.groups import GROUP_LABEL, PODIUM_GROUP

NAMESPACE = "team-a"
GROUP = "llama-pretrain-0"
CLASS = "research"
VALUE = 1_000
# The policy that has pods take their group's class.
LEVELS = {"member-priority": "inherit"}

_MADE = "2026-11-01T00:00:00Z"
API = f"{PODIUM_GROUP}/v1beta1"


def priority_class() -> dict[str, Any]:
    """Return the class that group and pod get."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": CLASS},
        "value": VALUE,
    }


def pod_group(name: str = GROUP, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return a PodGroup as a controller makes it, without the API server's additions."""
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {
            "labels": {"app.kubernetes.io/name": "trainer", "app.kubernetes.io/part-of": "llama"},
            "name": name,
            "namespace": namespace,
        },
        "spec": {
            "disruptionMode": {"all": {}},
            "priorityClassName": CLASS,
            "schedulingPolicy": {"gang": {"minCount": 8}},
        },
    }


def applied(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object as `kubectl apply` sends it."""
    text = msgspec.json.encode(document).decode() + "\n"
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": text}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def pod(name: str = f"{GROUP}-3-x7k2p", namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return a pod as a Job controller makes it, without the API server's additions."""
    env: list[dict[str, Any]] = [
        {"name": f"NCCL_OPTION_{index}", "value": f"value-{index}"} for index in range(2)
    ]
    rank = {
        "apiVersion": "v1",
        "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    }
    env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": rank}})
    resources = {"cpu": "12", "memory": "120Gi", "nvidia.com/gpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "generateName": f"{GROUP}-3-",
            "labels": {
                "app.kubernetes.io/name": "trainer",
                "batch.kubernetes.io/job-completion-index": "3",
                "batch.kubernetes.io/job-name": GROUP,
                GROUP_LABEL: GROUP,
            },
            "name": name,
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": GROUP,
                    "uid": "5b0a8f0e-0c5a-4f39-8d4e-3f6b8f1d2a77",
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "command": ["torchrun", "--nnodes=8", "--nproc-per-node=8", "train.py"],
                    "env": env,
                    "image": "registry.example/research/trainer@sha256:" + "5e" * 32,
                    "imagePullPolicy": "IfNotPresent",
                    "name": "trainer",
                    "resources": {"limits": resources, "requests": resources},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "volumeMounts": [{"mountPath": f"/mnt/{name}", "name": name} for name in ("data", "shm")],
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"emptyDir": {"medium": "Memory"}, "name": "shm"},
            ],
        },
    }


def pod_review() -> bytes:
    """Return the AdmissionReview of the pod's creation, 5.2 KB."""
    document = pod()
    spec = document["spec"]
    spec["containers"][0]["volumeMounts"].append(
        {
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "name": "kube-api-access-7xq2l",
            "readOnly": True,
        }
    )
    spec |= {
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "serviceAccount": "default",
        "tolerations": [
            {
                "effect": "NoExecute",
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
    }
    spec["volumes"].append(_token_volume())
    return _review("pods", document, "kube-system:job-controller", "kube-controller-manager")


def group_review() -> bytes:
    """Return the AdmissionReview of the PodGroup's creation, 1.7 KB."""
    return _review("podgroups", pod_group(), "jobset-system:jobset-controller", "jobset")


def _token_volume() -> dict[str, Any]:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"fieldRef": field, "path": "namespace"}]}},
    ]
    return {"name": "kube-api-access-7xq2l", "projected": {"defaultMode": 420, "sources": sources}}


def _review(plural: str, document: dict[str, Any], user: str, manager: str) -> bytes:
    group, _, version = str(document["apiVersion"]).rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    resource = {"group": group, "version": version, "resource": plural}
    meta = document["metadata"]
    owned = {field: _owned(document[field]) for field in ("metadata", "spec")}
    fields = {f"f:{field}": value for field, value in owned.items()}
    meta |= {
        "creationTimestamp": _MADE,
        "managedFields": [
            {
                "apiVersion": document["apiVersion"],
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
                "manager": manager,
                "operation": "Update",
                "time": _MADE,
            }
        ],
        "uid": "0b0e7a4e-8a4b-4a57-9c57-2f6b3a1d7c11",
    }
    namespace = user.partition(":")[0]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": meta["name"],
        "namespace": meta["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": f"system:serviceaccount:{user}", "groups": groups},
        "object": document,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": manager},
    }
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    )


def _owned(value: Any, key: str = "name") -> Any:
    """Return the set of fields as managedFields has it: lists of named items by their name."""
    if isinstance(value, dict):
        return {
            f"f:{name}": _owned(item) for name, item in value.items() if name not in ("name", "namespace")
        }
    if isinstance(value, list) and all(isinstance(item, dict) and key in item for item in value):
        return {f'k:{{"{key}":"{item[key]}"}}': {".": {}, f"f:{key}": {}, **_owned(item)} for item in value}
    return {}
