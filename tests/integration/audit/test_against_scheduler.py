"""The groups that the audit reports as blocked stay pending under a real kube-scheduler of that version.

The same groups go to both minors. kube-scheduler first decides about every pod (`kubectl wait`), then the
audit reads the cluster. The blocked groups of the audit must be those without a placed pod.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.audit.claims import ZONE
from tests.support.servers import Server
from tests.support.waiting import until

from podium.answers.audits.run import audit_view
from podium.api.claims import AUDIT_READS
from podium.api.groups import NATIVE_GROUP
from podium.cluster.state import ClusterState
from podium.documents.document import Document
from podium.documents.load import load_state
from podium.documents.split import split

pytestmark = pytest.mark.server

# Their pods wait without a condition, because the scheduler does not start with them.
SILENT = {"missing", "torn"}
# group: (minCount or None, its pods by class, cpu of each pod, minors that do not place it); `elsewhere` is a
# pod for another scheduler
GROUPS: dict[str, tuple[int | None, list[str], str, set[str]]] = {
    "torn": (2, ["high", "elsewhere"], "1", {"1.36", "1.37"}),
    "agree": (2, ["high", "high"], "1", set()),
    "priority": (2, ["high", "low"], "1", {"1.37"}),
    "priority-of-a-basic-group": (None, ["high", "low"], "1", {"1.37"}),
    "policy": (2, ["high", "never"], "1", {"1.37"}),
    "missing": (None, ["high"], "1", {"1.36", "1.37"}),
    "large": (2, ["high", "high"], "5000", {"1.36", "1.37"}),
    "pinned": (2, ["high", "high"], "1", {"1.36", "1.37"}),
    "sharing": (2, ["high", "high"], "1", {"1.37"}),
}
# By the group whose pods all name a claim of that name: its access mode, and the nodes that reach its volume.
CLAIMS = {
    "pinned": ("ReadWriteMany", {"key": ZONE, "operator": "In", "values": ["nowhere"]}),
    "sharing": ("ReadWriteOncePod", {"key": ZONE, "operator": "NotIn", "values": ["nowhere"]}),
}


@pytest.fixture
def classes(cluster: Server) -> Iterator[dict[str, str]]:
    """Yield three new classes by their purpose."""
    made = {}
    for word, value, policy in (("high", 1000, None), ("low", 0, None), ("never", 1000, "Never")):
        body: dict[str, Any] = {"metadata": {"generateName": f"audit-{word}-"}, "value": value}
        if policy:
            body["preemptionPolicy"] = policy
        code, answer = cluster.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        assert code == 201, answer
        made[word] = answer["metadata"]["name"]
    yield made
    for name in made.values():
        cluster.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def test_blocked_groups_are_those_the_scheduler_leaves(
    cluster: Server, namespace: str, classes: dict[str, str]
) -> None:
    minor = cluster.release.minor
    for name in CLAIMS:
        _bound_claim(cluster, namespace, name)
    # Pods first: they wait for their group, so the scheduler sees all of them with the group. Otherwise the
    # first pod of a basic group may be placed, rightly, before one that differs exists.
    for name, (_, members, cpu, _) in GROUPS.items():
        for index, word in enumerate(members):
            _create(cluster, namespace, _pod(f"{name}-{index}", name, classes, word, cpu))
    for name, (min_count, _, _, _) in GROUPS.items():
        if name != "missing":
            _create(cluster, namespace, _group(name, min_count, classes["high"]))
    for name, (_, _, _, refused) in GROUPS.items():
        if name not in SILENT:
            status = "False" if minor in refused else "True"
            cluster.kubectl(
                "wait",
                "pod",
                f"--selector=group={name}",
                f"--namespace={namespace}",
                f"--for=condition=PodScheduled={status}",
                "--timeout=60s",
            )

    state = _read(cluster, namespace)
    placed = {
        key.name
        for key, pods in state.referenced_groups().items()
        if any(p.spec.nodeName for p in pods.values())
    }
    assert placed == {name for name, (_, _, _, refused) in GROUPS.items() if minor not in refused}

    made = audit_view(state, kubernetes=minor, chosen_by="test", namespace=namespace)
    assert made.summary.blocked.groups == len(GROUPS) - len(placed)
    assert made.summary.blocked.pods == sum(
        len(members) for _, members, _, refused in GROUPS.values() if minor in refused
    )
    divergent = {"priority", "priority-of-a-basic-group"}
    assert {group.name for group in made.groups} == divergent
    found = {(each.rule, each.object.name) for each in made.findings if each.severity == "error"}
    assert found == {
        *(("pod-priority-differs", name) for name in divergent),
        ("group-missing", "missing"),
        ("gang-too-large", "large"),
        ("gang-pinned", "pinned"),
        ("gang-shares-exclusive-claim", "sharing"),
        ("scheduler-name-mixed", "torn"),
    }


def _create(cluster: Server, namespace: str, body: dict[str, Any]) -> None:
    version = "v1alpha2" if cluster.release.minor == "1.36" else "v1beta1"
    groups = f"/apis/{NATIVE_GROUP}/{version}/namespaces/{namespace}/podgroups"
    core = f"/api/v1/namespaces/{namespace}"
    paths = {
        "PodGroup": groups,
        "PersistentVolume": "/api/v1/persistentvolumes",
        "PersistentVolumeClaim": f"{core}/persistentvolumeclaims",
    }
    path = paths.get(body["kind"], f"{core}/pods")
    code, answer = cluster.request(
        "POST", path, body | {"apiVersion": f"{NATIVE_GROUP}/{version}"} if path == groups else body
    )
    assert code == 201, answer


def _group(name: str, min_count: int | None, class_name: str) -> dict[str, Any]:
    policy: dict[str, Any] = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return {
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy, "priorityClassName": class_name},
    }


def _pod(name: str, group: str, classes: dict[str, str], word: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"group": group}},
        "spec": {
            "priorityClassName": classes.get(word, classes["high"]),
            "schedulerName": word if word == "elsewhere" else "default-scheduler",
            "schedulingGroup": {"podGroupName": group},
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": group}}]
            if group in CLAIMS
            else [],
        },
    }


def _bound_claim(cluster: Server, namespace: str, name: str) -> None:
    """Create a claim and its volume, and wait until the controller has bound them."""
    mode, expression = CLAIMS[name]
    shared = {"accessModes": [mode], "storageClassName": ""}
    volume = f"{namespace}-{name}"
    _create(
        cluster,
        namespace,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **shared,
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": namespace, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
                "csi": {"driver": "example.com", "volumeHandle": volume},
            },
        },
    )
    spec = {**shared, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    _create(cluster, namespace, claim)
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
    until(
        lambda: cluster.request("GET", path)[1].get("status", {}).get("phase") == "Bound",
        f"the claim {name} is bound",
    )


def _read(cluster: Server, namespace: str) -> ClusterState:
    version = "v1alpha2" if cluster.release.minor == "1.36" else "v1beta1"
    documents: list[Document] = []
    for path in (
        f"/apis/{NATIVE_GROUP}/{version}/namespaces/{namespace}/podgroups",
        f"/api/v1/namespaces/{namespace}/pods",
        f"/api/v1/namespaces/{namespace}/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/api/v1/nodes",
    ):
        code, listed = cluster.request("GET", path)
        assert code == 200, listed
        documents += split(json.dumps(listed).encode(), path)
    return load_state(documents, strict=True, reads=AUDIT_READS).state
