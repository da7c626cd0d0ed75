"""`podium whatif --add` of what users apply: claims, devices and DaemonSets, as controllers create them."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import Run, calling

NODES = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- apiVersion: v1
  kind: Node
  metadata: {name: n2, labels: {kubernetes.io/hostname: n2}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: api-1, namespace: t, uid: u1}
  spec: {nodeName: n1, priority: 0, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}
  status: {phase: Running, startTime: "2026-08-01T10:00:00Z"}
- apiVersion: v1
  kind: Pod
  metadata: {name: api-2, namespace: t, uid: u2}
  spec: {nodeName: n2, priority: 0, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
  status: {phase: Running, startTime: "2026-08-01T10:00:00Z"}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: fast}
  provisioner: x.example.com
  volumeBindingMode: WaitForFirstConsumer
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: pv1}
  spec: {capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], storageClassName: slow}
  status: {phase: Available}
- apiVersion: scheduling.k8s.io/v1
  kind: PriorityClass
  metadata: {name: logging}
  value: 1000
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: gpu.example.com}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: n2-gpus}
  spec:
    driver: gpu.example.com
    nodeName: n2
    pool: {name: n2, generation: 1, resourceSliceCount: 1}
    devices: [{name: gpu-0}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: other, namespace: t}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
"""
DAEMON_SET = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: logs, namespace: t}
spec:
  selector: {matchLabels: {app: logs}}
  template:
    metadata: {labels: {app: logs}}
    spec:
      priorityClassName: logging
      containers: [{name: c, resources: {requests: {cpu: "1"}}}]
"""
STATEFUL_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: t}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
"""
DEVICES = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: t}
spec:
  replicas: 2
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: "1"}, claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""
TEMPLATE = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: t}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
"""
NOT_FOUND = "ResourceClaimTemplate t/one not found, so the claim gpu of its pods is never created"
# The file, the exit code, the first sentence of the answer, and the notes.
Case = tuple[str, int, str, list[str]]
CASES: dict[str, Case] = {
    # antfarm.world and kubernetes/kubernetes#77990: a DaemonSet of priority 1000 evicts the API.
    "a DaemonSet": (
        DAEMON_SET,
        0,
        "DaemonSet t/logs fits after preemption: 2 pods on nodes n1, n2.",
        [],
    ),
    # longhorn/longhorn, GoogleCloudPlatform/kubernetes-engine-samples: every database.
    "a StatefulSet with claims": (
        STATEFUL_SET,
        0,
        "StatefulSet t/db fits without preemption: 2 pods on node n2.",
        [],
    ),
    # NVIDIA/k8s-dra-driver-gpu, kubernetes-sigs/dra-example-driver: a template beside its pods.
    "a claim for each pod, and one device": (
        DEVICES + TEMPLATE,
        3,
        "Deployment t/train does not fit: only 1 of 2 pods, on node n2.",
        [],
    ),
    "a template that does not exist": (
        DEVICES,
        3,
        "Deployment t/train does not fit.",
        [f"podium: Deployment t/train: {NOT_FOUND}"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_objects_that_controllers_create_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: Case
) -> None:
    manifest, code, sentence, notes = case
    run = _whatif(monkeypatch, tmp_path, manifest)
    assert run.code == code, run.stderr
    assert run.stdout.splitlines()[2] == sentence
    *said, rules = run.stderr.splitlines()
    assert said == notes
    assert rules.startswith("podium: semantics ")


def test_a_daemon_set_evicts_where_there_is_no_room_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan: Any = _whatif(monkeypatch, tmp_path, DAEMON_SET, "-o", "json").json
    assert [unit["name"] for unit in plan["victims"]] == ["api-1"]
    (workload,) = plan["workloads"]
    assert (workload["kind"], workload["pods"], workload["placed"]) == ("DaemonSet", 2, 2)


def test_the_largest_number_of_replicas_counts_their_claims(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is one device, so one replica fits."""
    run = _whatif(monkeypatch, tmp_path, DEVICES + TEMPLATE, "--max", "-o", "json")
    assert (run.code, run.json["replicas"]) == (0, {"withoutPreemption": 1, "withPreemption": 1})


@pytest.mark.parametrize("name", ["storageClassName: fast, ", ""], ids=["a class", "the default"])
def test_a_claim_of_an_unread_class_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    manifest = STATEFUL_SET.replace("storageClassName: fast, ", name)
    run = _whatif(monkeypatch, tmp_path, manifest, nodes=NODES.replace("kind: StorageClass", "kind: Other"))
    assert run.code == 4, run.stderr
    assert "the claim of volume data, which is not bound, and whose StorageClass was not read" in " ".join(
        run.stdout.split()
    )


def _whatif(
    monkeypatch: pytest.MonkeyPatch, folder: Path, manifest: str, *words: str, nodes: str = NODES
) -> Run:
    folder.joinpath("cluster.yaml").write_text(nodes, "utf-8")
    folder.joinpath("new.yaml").write_text(manifest, "utf-8")
    return calling("whatif", monkeypatch, folder)("-f", "cluster.yaml", "--add", "new.yaml", *words)
