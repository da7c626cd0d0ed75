"""Outages of Podium while a block runs: processes that are stopped, and rights that are taken away."""

import contextlib
from collections.abc import Iterator

from tests.support.install.scene import NAMESPACE, patch, stored
from tests.support.servers import Server

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def cluster_role(process: str) -> str:
    """Return the path of a process's ClusterRole."""
    return f"{_RBAC}/clusterroles/podium-{process}"


def role(process: str) -> str:
    """Return the path of a process's Role in Podium's namespace."""
    return f"{_RBAC}/namespaces/{NAMESPACE}/roles/podium-{process}"


@contextlib.contextmanager
def stopped(server: Server, process: str) -> Iterator[None]:
    """Run no replica of a process while the block runs."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/podium-{process}"
    replicas = stored(server, path)["spec"]["replicas"]
    patch(server, path, {"spec": {"replicas": 0}})
    try:
        yield
    finally:
        patch(server, path, {"spec": {"replicas": replicas}})


@contextlib.contextmanager
def without_right(server: Server, path: str, resource: str, verb: str) -> Iterator[None]:
    """Take a verb on a resource from a Role or ClusterRole while the block runs."""
    rules = stored(server, path)["rules"]
    rest = [
        {
            **rule,
            "verbs": [each for each in rule["verbs"] if resource not in rule["resources"] or each != verb],
        }
        for rule in rules
    ]
    assert rest != rules, f"{path} has no {verb} of {resource}"
    # A rule without verbs is not valid.
    patch(server, path, {"rules": [rule for rule in rest if rule["verbs"]]})
    try:
        yield
    finally:
        patch(server, path, {"rules": rules})
