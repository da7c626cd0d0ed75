"""Objects on a real server for tests that read them back, and users with few rights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.servers import Server
from tests.support.waiting import comes
from tools.devcluster.controlplane.client import Client

# The version in which each minor stores a group, and how it writes that all members are evicted together.
NATIVE: dict[str, tuple[str, Any]] = {
    "1.36": ("v1alpha2", "PodGroup"),
    "1.37": ("v1beta1", {"all": {}}),
}
CONTAINER = {
    "name": "main",
    "image": "registry.example/secret-project:1",
    "args": ["--password=hunter2"],
    "env": [{"name": "TOKEN", "value": "hunter2"}],
    "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
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
    """Create a PriorityClass with a name of its own, and wait until pods may name it."""
    body = {"metadata": {"generateName": "test-"}, "value": value}
    name: str = create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", body)["metadata"]["name"]
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [CONTAINER], "priorityClassName": name}}
    dry_run = "/api/v1/namespaces/default/pods?dryRun=All"
    _wait(lambda: server.request("POST", dry_run, pod)[0] == 201)
    return name


def create_group(server: Server, namespace: str, name: str, class_name: str) -> None:
    """Create a gang of two whose members are evicted together."""
    version, mode = NATIVE[server.release.minor]
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": mode,
        "priorityClassName": class_name,
    }
    path = f"/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups"
    create(server, path, {"metadata": {"name": name}, "spec": spec})


def create_pod(server: Server, namespace: str, name: str, class_name: str, **metadata: Any) -> None:
    """Create a member of the group `train`, with private data in it."""
    spec = {
        "containers": [CONTAINER],
        "priorityClassName": class_name,
        "schedulingGroup": {"podGroupName": "train"},
    }
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    create(server, f"/api/v1/namespaces/{namespace}/pods", body)


def kubeconfig_of(
    server: Server, namespace: str, rules: list[dict[str, Any]], folder: Path, *, everywhere: bool = True
) -> Path:
    """Create a user with the rights of `rules` (list pods, at least), and return a kubeconfig.

    The rights hold cluster-wide, or else in the namespace alone.
    """
    account: str = create(
        server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"generateName": "reader-"}}
    )["metadata"]["name"]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    scope, kind = ("cluster", "ClusterRole") if everywhere else (f"namespaces/{namespace}/", "Role")
    role = create(server, f"{rbac}/{scope}roles", {"metadata": {"generateName": "test-"}, "rules": rules})
    binding = {
        "metadata": {"generateName": "test-"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    create(server, f"{rbac}/{scope}rolebindings", binding)
    account_path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}"
    token: str = create(server, f"{account_path}/token", {"spec": {}})["status"]["token"]
    client = Client(server.url, token, server.access.authority)
    _wait(lambda: client.request("GET", f"/api/v1/namespaces/{namespace}/pods?limit=1")[0] == 200)
    client.close()
    cluster = {"server": server.url, "certificate-authority": str(server.access.authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "reader",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "reader", "user": {"token": token}}],
        "contexts": [
            {"name": "reader", "context": {"cluster": "c", "user": "reader", "namespace": namespace}}
        ],
    }
    path = folder / "reader.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def _wait(reached: Callable[[], bool]) -> None:
    """Repeat a request until a server's caches are current."""
    assert comes(reached)
