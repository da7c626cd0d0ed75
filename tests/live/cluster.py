"""Objects on a real server for tests that read them back, and users who may do only so much."""

import json
from pathlib import Path
from typing import Any

from tests.fixtures.servers import Server

# The version in which each minor stores a group, and how it writes that members go all together.
NATIVE: dict[str, tuple[str, Any]] = {
    "1.36": ("v1alpha2", "PodGroup"),
    "1.37": ("v1beta1", {"all": {}}),
}
READ_ONLY = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
    {"nonResourceURLs": ["*"], "verbs": ["get"]},
]


def create(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Create one object; a refusal fails the test."""
    code, made = server.request("POST", path, body)
    assert code == 201, made
    assert isinstance(made, dict)
    return made


def create_class(server: Server, value: int) -> str:
    """Make a PriorityClass with a name of its own."""
    body = {"metadata": {"generateName": "test-"}, "value": value}
    name: str = create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", body)["metadata"]["name"]
    return name


def create_group(server: Server, namespace: str, name: str, class_name: str) -> None:
    """Make a gang of two that goes all together."""
    version, mode = NATIVE[server.release.minor]
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": mode,
        "priorityClassName": class_name,
    }
    path = f"/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups"
    create(server, path, {"metadata": {"name": name}, "spec": spec})


def create_pod(server: Server, namespace: str, name: str, class_name: str, **metadata: Any) -> None:
    """Make a member of the group `train`, with things in it that are nobody's business."""
    container = {
        "name": "main",
        "image": "registry.example/secret-project:1",
        "args": ["--password=hunter2"],
        "env": [{"name": "TOKEN", "value": "hunter2"}],
        "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {
        "containers": [container],
        "priorityClassName": class_name,
        "schedulingGroup": {"podGroupName": "train"},
    }
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    create(server, f"/api/v1/namespaces/{namespace}/pods", body)


def kubeconfig_of(server: Server, namespace: str, rules: list[dict[str, Any]], folder: Path) -> Path:
    """Make a user who may do what `rules` say, cluster-wide, and a kubeconfig for that user."""
    account: str = create(
        server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"generateName": "reader-"}}
    )["metadata"]["name"]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = create(server, f"{rbac}/clusterroles", {"metadata": {"generateName": "test-"}, "rules": rules})
    binding = {
        "metadata": {"generateName": "test-"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    create(server, f"{rbac}/clusterrolebindings", binding)
    token = create(server, f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", {"spec": {}})
    cluster = {"server": server.url, "certificate-authority": str(server.access.authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "reader",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "reader", "user": {"token": token["status"]["token"]}}],
        "contexts": [
            {"name": "reader", "context": {"cluster": "c", "user": "reader", "namespace": namespace}}
        ],
    }
    path = folder / "reader.kubeconfig"
    path.write_text(json.dumps(config))
    return path
