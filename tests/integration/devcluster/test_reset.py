"""A server for one test is reset and serves the next; a server that may keep a trace ends with its test."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.support.controlplane_faults import switch_gates, without_api_server
from tests.support.servers import Server, exclusive, of_run
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import BUILDABLE
from tools.devcluster.controlplane.state import load

pytestmark = pytest.mark.server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
DEFAULT = "/api/v1/namespaces/default"
WIDGETS = "/apis/example.com/v1/widgets"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def send(server: Server, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
    code, answer = server.request(method, path, body, content_type or "application/json")
    assert code in {200, 201}, answer
    return answer


def try_pod(server: Server) -> tuple[int, Any]:
    """Create a pod that is not stored."""
    return server.request("POST", f"{DEFAULT}/pods?dryRun=All", POD)


def may_list_nodes(server: Server, user: str) -> bool:
    spec = {"user": user, "resourceAttributes": {"verb": "list", "resource": "nodes"}}
    allowed: bool = send(server, "POST", REVIEWS, {"spec": spec})["status"]["allowed"]
    return allowed


def define_widgets(server: Server) -> None:
    names = {"plural": "widgets", "kind": "Widget"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    send(server, "POST", CRDS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    until(lambda: server.request("GET", WIDGETS)[0] == 200, "widgets are served")
    kind = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    send(server, "POST", WIDGETS, kind)


def refuse_pods(server: Server) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    webhook = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = f"{ADMISSION}/validatingwebhookconfigurations"
    send(server, "POST", path, {"metadata": {"name": "a"}, "webhooks": [webhook]})


def let_reader_list(server: Server) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "a"}, "roleRef": role, "subjects": [{"kind": "User", "name": "reader"}]}
    send(server, "POST", f"{RBAC}/clusterrolebindings", binding)


def limit_pods(server: Server) -> None:
    limit = {"type": "Container", "default": {"cpu": "1"}}
    send(server, "POST", f"{DEFAULT}/limitranges", {"metadata": {"name": "a"}, "spec": {"limits": [limit]}})


class Change(NamedTuple):
    """A change that a test makes to a server, and whether the server acts accordingly."""

    make: Callable[[Server], Any]
    acts: Callable[[Server], bool]


CHANGES = {
    "a new kind": Change(define_widgets, lambda server: server.request("GET", WIDGETS)[0] == 200),
    "a webhook": Change(refuse_pods, lambda server: try_pod(server)[0] == 500),
    "a limit": Change(
        limit_pods,
        lambda server: "limits" in try_pod(server)[1]["spec"]["containers"][0]["resources"],
    ),
    "a default priority": Change(
        lambda server: send(
            server, "POST", CLASSES, {"metadata": {"name": "a"}, "value": 7, "globalDefault": True}
        ),
        lambda server: try_pod(server)[1]["spec"]["priority"] == 7,
    ),
    "a right": Change(let_reader_list, lambda server: may_list_nodes(server, "reader")),
    "a right less": Change(
        lambda server: send(server, "DELETE", f"{RBAC}/clusterrolebindings/system:kube-scheduler"),
        lambda server: not may_list_nodes(server, "system:kube-scheduler"),
    ),
    "a changed namespace": Change(
        lambda server: send(
            server, "PATCH", DEFAULT, {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json"
        ),
        lambda server: "a" in send(server, "GET", DEFAULT)["metadata"]["labels"],
    ),
}


def identity(server: Server) -> Any:
    state = load(server.folder)
    assert state is not None
    return state.components["kube-apiserver"].process


@pytest.mark.parametrize("minor", of_run())
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_remains_of_a_change(change: Change, minor: str) -> None:
    with exclusive(BUILDABLE[minor]) as used:
        assert not change.acts(used)
        change.make(used)
        until(lambda: change.acts(used), "the server acts")
        first = identity(used)
    with exclusive(BUILDABLE[minor]) as reset:
        assert identity(reset) == first
        assert not change.acts(reset)


@pytest.mark.parametrize("minor", of_run())
def test_a_restarted_server_is_used_again(minor: str) -> None:
    with exclusive(BUILDABLE[minor]) as used:
        with without_api_server(used):
            pass
        restarted = identity(used)
    with exclusive(BUILDABLE[minor]) as reset:
        assert identity(reset) == restarted


def change_settings(server: Server) -> None:
    switch_gates(server, on=False)


def add_policy(server: Server) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    send(server, "POST", POLICIES, {"metadata": {"name": "a"}, "spec": spec})
    binding = {"metadata": {"name": "a"}, "spec": {"policyName": "a", "validationActions": ["Deny"]}}
    send(server, "POST", f"{ADMISSION}/validatingadmissionpolicybindings", binding)


def add_and_delete_policy(server: Server) -> None:
    add_policy(server)
    until(lambda: try_pod(server)[0] == 422, "the policy is effective")
    send(server, "DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/a")
    send(server, "DELETE", f"{POLICIES}/a")


@pytest.mark.parametrize("minor", of_run())
@pytest.mark.parametrize("act", [change_settings, add_policy, add_and_delete_policy])
def test_a_server_that_may_keep_a_trace_is_not_used_again(act: Callable[[Server], None], minor: str) -> None:
    with exclusive(BUILDABLE[minor]) as used:
        act(used)
        state = load(used.folder)
    assert state is not None
    assert not any(map(state.runs, state.components))
    assert not used.folder.exists()


@pytest.mark.parametrize("minor", of_run())
def test_a_server_with_a_client_is_not_used_again(minor: str) -> None:
    with exclusive(BUILDABLE[minor]) as used:
        client = used.access.client()
        client.request("GET", "/version")
    assert not used.folder.exists()
    client.close()
