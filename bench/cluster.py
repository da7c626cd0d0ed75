"""A generated dump of a large cluster, as `kubectl get ... -A -o json` prints it: one List, indented by four.

Each object is written once as text with holes and then filled in, so a hundred thousand pods take seconds.
"""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

API = "scheduling.k8s.io/v1beta1"
CLASSES = {"research-low": 100, "research": 1_000, "production": 10_000}


class Size(NamedTuple):
    """The size of the cluster; `divergent` is the share of groups with members of another priority."""

    pods: int = 100_000
    groups: int = 10_000
    nodes: int = 5_000
    divergent: float = 0.05


def write(path: Path, size: Size, seed: int = 1) -> None:
    """Write the dump; the same size and seed give the same bytes."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as out:
        out.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        separator = ""
        for text in _items(size, rng):
            out.write(separator)
            out.write(text)
            separator = ",\n"
        out.write(
            '\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'
        )


def _items(size: Size, rng: random.Random) -> Any:
    for name, value in CLASSES.items():
        yield _text(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "globalDefault": False,
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "preemptionPolicy": "PreemptLowerPriority",
                "value": value,
            }
        )
    node, group, pod = _text(node_document()), _text(group_document()), _text(pod_document())
    for index in range(size.nodes):
        yield node.replace("@node@", f"node-{index:05d}")
    names = list(CLASSES)
    chosen = [rng.choice(names) for _ in range(size.groups)]
    off = [rng.random() < size.divergent for _ in range(size.groups)]
    for index, name in enumerate(chosen):
        yield (
            group.replace("@group@", f"gang-{index:05d}")
            .replace("@ns@", f"team-{index % 50:02d}")
            .replace("@class@", name)
            .replace("-31337", str(CLASSES[name]))
        )
    for index in range(size.pods):
        of = index % size.groups
        name = names[(names.index(chosen[of]) + 1) % 3] if off[of] and index >= size.pods // 2 else chosen[of]
        yield (
            pod.replace("@pod@", f"gang-{of:05d}-{index // size.groups}-{index:06x}")
            .replace("@group@", f"gang-{of:05d}")
            .replace("@ns@", f"team-{of % 50:02d}")
            .replace("@node@", f"node-{rng.randrange(size.nodes):05d}")
            .replace("@uid@", f"{rng.getrandbits(128):032x}")
            .replace("@class@", name)
            .replace("-31337", str(CLASSES[name]))
        )


def _text(value: dict[str, Any]) -> str:
    text = json.dumps(value, indent=4, sort_keys=True)
    return "        " + text.replace("\n", "\n        ")


def node_document() -> dict[str, Any]:
    """Return a node with a hole for its name (@node@)."""
    resources = {"cpu": "96", "memory": "1056270428Ki", "nvidia.com/gpu": "8", "pods": "110"}
    status = {"heartbeat": "2026-11-01T00:00:00Z", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {"type": kind, "status": str(kind == "Ready"), "reason": f"Kubelet{kind}", **status} for kind in kinds
    ]
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "@node@", "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "@node@", "labels": labels, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": conditions,
            "nodeInfo": {"kubeletVersion": "v1.37.0", "operatingSystem": "linux"},
        },
    }


def group_document() -> dict[str, Any]:
    """Return a PodGroup with holes (@group@, @ns@, @class@) and -31337 for its priority."""
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "finalizers": ["scheduling.k8s.io/podgroup-protection"],
            "name": "@group@",
            "namespace": "@ns@",
            "uid": "0b0e7a4e-8a4b-4a57-9c57-2f6b3a1d7c11",
        },
        "spec": {
            "disruptionMode": {"all": {}},
            "priority": -31337,
            "priorityClassName": "@class@",
            "schedulingPolicy": {"gang": {"minCount": 8}},
        },
        "status": {
            "conditions": [
                {
                    "lastTransitionTime": "2026-11-01T00:00:05Z",
                    "message": "",
                    "reason": "Scheduled",
                    "status": "True",
                    "type": "PodGroupInitiallyScheduled",
                }
            ]
        },
    }


def pod_document() -> dict[str, Any]:
    """Return a running member with holes, as above, and @pod@, @node@ and @uid@."""
    env: list[dict[str, Any]] = [
        {"name": f"NCCL_OPTION_{index}", "value": f"value-{index}"} for index in range(8)
    ]
    env.append(
        {
            "name": "RANK",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['rank']"}},
        }
    )
    image = "registry.example/research/trainer@sha256:" + "5e" * 32
    times = {"lastProbeTime": None, "lastTransitionTime": "2026-11-01T00:00:10Z"}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    toleration = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    mounts = [{"mountPath": f"/mnt/{name}", "name": name} for name in ("data", "cache", "shm")]
    projected = {"expirationSeconds": 3607, "path": "token"}
    resources = {"cpu": "12", "memory": "120Gi", "nvidia.com/gpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
            "creationTimestamp": "2026-11-01T00:00:01Z",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "generateName": "@group@-",
            "labels": {
                "app.kubernetes.io/name": "trainer",
                "batch.kubernetes.io/job-name": "@group@",
                "job-name": "@group@",
                "team": "@ns@",
            },
            "name": "@pod@",
            "namespace": "@ns@",
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": "@group@",
                    "uid": "@uid@",
                }
            ],
            "resourceVersion": "123456789",
            "uid": "@uid@",
        },
        "spec": {
            "containers": [
                {
                    "command": ["torchrun", "--nnodes=8", "train.py"],
                    "env": env,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "name": "trainer",
                    "resources": {"limits": resources, "requests": resources},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "volumeMounts": mounts,
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": "@node@",
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": -31337,
            "priorityClassName": "@class@",
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "schedulingGroup": {"podGroupName": "@group@"},
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", **toleration} for key in ("not-ready", "unreachable")
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"emptyDir": {}, "name": "cache"},
                {"emptyDir": {"medium": "Memory"}, "name": "shm"},
                {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": projected}]}},
            ],
        },
        "status": {
            "conditions": [{"type": kind, "status": "True", **times} for kind in kinds],
            "containerStatuses": [
                {
                    "containerID": "containerd://@uid@@uid@",
                    "image": image,
                    "imageID": image,
                    "lastState": {},
                    "name": "trainer",
                    "ready": True,
                    "restartCount": 0,
                    "started": True,
                    "state": {"running": {"startedAt": "2026-11-01T00:00:09Z"}},
                }
            ],
            "hostIP": "10.1.2.3",
            "phase": "Running",
            "podIP": "10.4.5.6",
            "podIPs": [{"ip": "10.4.5.6"}],
            "qosClass": "Guaranteed",
            "startTime": "2026-11-01T00:00:02Z",
        },
    }
