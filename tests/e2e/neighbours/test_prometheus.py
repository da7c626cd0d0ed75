"""Prometheus beside Podium: it scrapes every replica, and Podium's alerts fire for real outages alone."""

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest
from tests.support.autogroups import ASKING
from tests.support.e2e import prometheus
from tests.support.e2e.cluster import PROCESSES, REPLICAS, Nodes, wait_ready
from tests.support.e2e.gangs import DEVICE, DEVICES, HIGH, LOW, GangSpace
from tests.support.e2e.prometheus import RULES, Prometheus
from tests.support.e2e.work import Work, create_classes
from tests.support.install.scene import NAMESPACE, patch, stored
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import PODIUM_GROUP

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


pytestmark = pytest.mark.e2e

_GROUPS = f"{PODIUM_GROUP}/v1beta1"
_WEBHOOK = f"/api/v1/namespaces/{NAMESPACE}/services/https:podium-webhook:https/proxy/mutate"
_TOO_LARGE = 40 << 20
_API_SERVER = "apiserver_"
_UNANSWERED = {"scheduled-gangs.podium.dev", "groups.podium.dev"}
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Outage(NamedTuple):
    """An alert, the labels of its series, and the cause for which it fires as long as a block runs.

    `ends` is false if the alert is over a rate: it fires until the rate's window has passed.
    """

    alert: str
    cause: Callable[[Nodes, GangSpace], AbstractContextManager[None]]
    labels: tuple[tuple[str, str], ...] = ()
    ends: bool = False


def _no_scheduler(nodes: Nodes, space: GangSpace) -> AbstractContextManager[None]:
    return stopped(nodes.server, "scheduler")


def _no_lease(nodes: Nodes, space: GangSpace) -> AbstractContextManager[None]:
    return without_right(nodes.server, role("controller"), "leases", "update")


@contextlib.contextmanager
def _refused_bindings(nodes: Nodes, space: GangSpace) -> Iterator[None]:
    with without_right(nodes.server, cluster_role("scheduler"), "pods/binding", "create"):
        space.pod("waits", Work(), {"cpu": "1m"})
        yield


@contextlib.contextmanager
def _refused_evictions(nodes: Nodes, space: GangSpace) -> Iterator[None]:
    devices = {DEVICE: str(DEVICES)}
    space.pod("stays", Work(), devices, priorityClassName=LOW)
    until(lambda: [pod["status"].get("phase") for pod in space.listed()] == ["Running"], "the pod runs")
    with without_right(nodes.server, cluster_role("scheduler"), "pods", "delete"):
        space.pod("waits", Work(), devices, priorityClassName=HIGH)
        yield


@contextlib.contextmanager
def _recreated_class(nodes: Nodes, space: GangSpace) -> Iterator[None]:
    name = f"class-of-{space.name}"
    create_classes(nodes, {name: 100})
    space.gang("gang", 1, name)
    try:
        _delete_class(nodes, name)
        create_classes(nodes, {name: 200})
        space.pod("member", Work(), {}, priorityClassName=name, schedulingGroup={"podGroupName": "gang"})
        yield
    finally:
        _delete_class(nodes, name)
        space.delete_pod("member")


def _delete_class(nodes: Nodes, name: str) -> None:
    code, answer = nodes.server.request("DELETE", f"{_CLASSES}/{name}")
    assert code == 200, answer


@contextlib.contextmanager
def _no_review(nodes: Nodes, space: GangSpace) -> Iterator[None]:
    nodes.server.request("POST", _WEBHOOK, {"kind": "no review"})
    yield


@contextlib.contextmanager
def _large_request(nodes: Nodes, space: GangSpace) -> Iterator[None]:
    # The webhook closes the connection when it has read the header.
    with contextlib.closing(nodes.server.access.client()) as client, contextlib.suppress(OSError):
        client.request("POST", _WEBHOOK, {"padding": "a" * _TOO_LARGE})
    yield


_OUTAGES = (
    Outage("PodiumSchedulerHasNoLeader", _no_scheduler, ends=True),
    Outage("PodiumControllerHasNoLeader", _no_lease, ends=True),
    Outage("PodiumSchedulerWritesFail", _refused_bindings, (("what", "bind"),)),
    Outage("PodiumPreemptionsFail", _refused_evictions),
    Outage("PodiumGroupsDivergent", _recreated_class, (("cause", "class-recreated"),), ends=True),
    Outage("PodiumWebhookErrors", _no_review, (("why", "review"),)),
    Outage("PodiumWebhookDeniesForSize", _large_request, (("why", "large body"),)),
)


@pytest.fixture(scope="module")
def watching(neighbourhood: Nodes) -> Prometheus:
    """Return Prometheus, which has scraped every target and evaluated every rule."""
    found = prometheus.run(neighbourhood)
    replicas = {f"podium-{process}": [1.0] * REPLICAS for process in PROCESSES}
    until(lambda: found.values("up") == {"apiserver": [1.0], **replicas}, "all targets are up")
    until(lambda: all(rule["health"] == "ok" for rule in found.rules()), "all rules are evaluated")
    return found


def test_every_alert_is_over_metrics_that_are_scraped(watching: Prometheus) -> None:
    """An API server exposes its counters after the first failure; the test of that outage shows them."""
    assert sorted(rule["name"] for rule in watching.rules()) == sorted(rule["alert"] for rule in RULES)
    exposed = watching.exposed()
    missing = {
        (rule["alert"], name)
        for rule in RULES
        for name in re.findall(r"\b(?:podium|apiserver)_\w+", rule["expr"])
        if not name.startswith(_API_SERVER) and not {name, _family(name)} & exposed
    }
    assert missing == set()


def test_a_healthy_podium_raises_no_alert(watching: Prometheus) -> None:
    assert watching.firing() == []


@pytest.mark.parametrize("outage", _OUTAGES, ids=[each.alert for each in _OUTAGES])
def test_an_outage_raises_the_alert(
    outage: Outage, neighbourhood: Nodes, space: GangSpace, watching: Prometheus
) -> None:
    """The alert has the labels of its cause and readable texts; it ends with the outage."""
    with outage.cause(neighbourhood, space):
        until(lambda: bool(watching.firing(outage.alert)), f"{outage.alert} fires")
        _check(watching, outage.alert, dict(outage.labels))
    wait_ready(neighbourhood)
    if outage.ends:
        until(lambda: not watching.firing(outage.alert), f"{outage.alert} ends")


def test_an_absent_webhook_raises_two_alerts(
    neighbourhood: Nodes, space: GangSpace, watching: Prometheus
) -> None:
    """No replica is scraped. API servers admit pods without review, and refuse Podium's own kinds."""
    pod = {"metadata": {"name": "asks", "labels": ASKING}, "spec": {"containers": [Work().container({})]}}
    group = {"apiVersion": _GROUPS, "kind": "PodGroup", "metadata": {"name": "refused"}, "spec": {}}

    def are_noticed() -> bool:
        assert _code(space, f"/api/v1/namespaces/{space.name}/pods", pod) == 201
        assert _code(space, f"/apis/{_GROUPS}/namespaces/{space.name}/podgroups", group) == 500
        return {each.labels["name"] for each in watching.firing("PodiumWebhookUnanswered")} == _UNANSWERED

    server = neighbourhood.server
    # Without this right it cannot know that it is turned off, so its registration stays.
    blind = without_right(server, role("webhook"), "deployments", "get")
    with blind, stopped(server, "webhook"):
        until(lambda: bool(watching.firing("PodiumWebhookAbsent")), "the absence is noticed")
        _check(watching, "PodiumWebhookAbsent", {})
        until(are_noticed, "the failed calls are noticed")
        _check(watching, "PodiumWebhookUnanswered", {})
    wait_ready(neighbourhood)
    until(lambda: not watching.firing("PodiumWebhookAbsent"), "the absence ends")


def _code(space: GangSpace, path: str, body: dict[str, Any]) -> int:
    """Return the answer to a write that nothing is stored of."""
    code, _ = space.server.request("POST", f"{path}?dryRun=All", body)
    return code


def _check(watching: Prometheus, name: str, labels: dict[str, str]) -> None:
    """Check a firing alert's labels, and its texts, into which Prometheus writes an error in brackets."""
    (rule,) = (each for each in RULES if each["alert"] == name)
    found = watching.firing(name)
    assert any(labels.items() <= each.labels.items() for each in found), found
    for each in found:
        assert rule["labels"].items() <= each.labels.items()
        assert "<" not in "".join(each.annotations.values()), each.annotations


def _family(name: str) -> str:
    return re.sub(r"_(?:total|bucket|count|sum)$", "", name)
