"""The model of the API server: what the comparison with real servers does not reach."""

import base64
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from podium.crds.definitions import crds
from podium.minors.minor import COMPOSITE, WORKLOAD_API
from podium.minors.v1_37 import V1_37
from podium.simulation.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    WebhookCall,
    WebhookFailure,
)
from podium.simulation.apiserver.patching import APPLY_PATCH, MERGE_PATCH
from podium.simulation.apiserver.server import ApiServer
from podium.simulation.apiserver.storage import Watch

MAPS = "/api/v1/namespaces/a/configmaps"
PODS = "/api/v1/namespaces/a/pods"
BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": "n"},
}
Answers = Callable[[WebhookCall], bytes | WebhookFailure]


class Cluster:
    """A server with a namespace, a clock that tests move, and counted UIDs."""

    def __init__(self, **more: Any) -> None:
        self.now = BEGIN
        self.calls: list[WebhookCall] = []
        count = iter(range(10**6))
        self.server = ApiServer(
            V1_37, lambda: self.now, lambda: f"uid-{next(count)}", lambda: f"x{next(count)}", **more
        )
        self.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        answers: Answers | None = None,
        content_type: str = "application/json",
        **query: str,
    ) -> ApiResponse | Watch:
        """Return the answer; `answers` plays the webhooks."""
        sent = b"" if body is None else msgspec.json.encode(body)
        handling: Generator[WebhookCall, Any, ApiResponse | Watch] = self.server.handle(
            ApiRequest(method, path, query, sent, content_type)
        )
        answer = None
        while True:
            try:
                call = handling.send(answer)
            except StopIteration as done:
                returned: ApiResponse | Watch = done.value
                return returned
            self.calls.append(call)
            assert answers is not None, call.webhook
            answer = answers(call)

    def answer(self, *args: Any, **more: Any) -> tuple[int, Any]:
        """Return code and document of an answer."""
        response = self.ask(*args, **more)
        assert isinstance(response, ApiResponse)
        return response.code, msgspec.json.decode(response.body)

    def ok(self, *args: Any, **more: Any) -> Any:
        """Return the document of a success."""
        code, document = self.answer(*args, **more)
        assert code < 300, document
        return document

    def watch(self, path: str, **query: str) -> Watch:
        """Return a watch."""
        watch = self.ask("GET", path, None, None, "", watch="1", **query)
        assert isinstance(watch, Watch)
        return watch

    def webhook(self, kind: str, *names: str, **more: Any) -> None:
        """Register webhooks for ConfigMaps in one configuration."""
        rule = {
            "operations": ["*"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
        webhooks = [
            {
                "name": name,
                "rules": [rule],
                "sideEffects": "None",
                "clientConfig": {"service": {"namespace": "a", "name": "s", "path": f"/{name}"}},
                **more,
            }
            for name in names
        ]
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
        self.ok("POST", path, {"metadata": {"name": names[0]}, "webhooks": webhooks})


def allows(call: WebhookCall, **response: Any) -> bytes:
    """Return a review that allows a write."""
    uid = msgspec.json.decode(call.body)["request"]["uid"]
    return msgspec.json.encode({"response": {"uid": uid, "allowed": True, **response}})


def adds(call: WebhookCall, field: str) -> bytes:
    """Return a review that adds a field to the data."""
    patch = msgspec.json.encode([{"op": "add", "path": f"/data/{field}", "value": call.webhook}])
    return allows(call, patchType="JSONPatch", patch=base64.b64encode(patch).decode())


def lines(watch: Watch) -> list[tuple[str, Any]]:
    """Return type and object of all further lines."""
    events = [msgspec.json.decode(line) for line in watch.take(1000)]
    return [(event["type"], event["object"]) for event in events]


def summary(watch: Watch) -> list[tuple[str, str]]:
    """Return type and name of all further lines."""
    return [(kind, body["metadata"].get("name", "")) for kind, body in lines(watch)]


def test_mutating_webhooks_come_in_the_order_of_names_and_before_validating_ones() -> None:
    cluster = Cluster()
    cluster.webhook("Validating", "a.check.dev")
    cluster.webhook("Mutating", "b.second.dev")
    cluster.webhook("Mutating", "a.first.dev", "z.third.dev")
    stored = cluster.ok(
        "POST",
        MAPS,
        {"metadata": {"name": "m"}, "data": {"k": "v"}},
        lambda call: allows(call) if "check" in call.webhook else adds(call, call.webhook[0]),
    )
    assert [call.webhook for call in cluster.calls] == [
        "a.first.dev",
        "z.third.dev",
        "b.second.dev",
        "a.check.dev",
    ]
    assert stored["data"] == {"k": "v", "a": "a.first.dev", "b": "b.second.dev", "z": "z.third.dev"}
    review = msgspec.json.decode(cluster.calls[-1].body)["request"]
    assert review["object"]["data"] == stored["data"]
    assert (review["operation"], review["namespace"], review["name"]) == ("CREATE", "a", "m")
    assert cluster.calls[-1].service == "a/s:443"


DENIED = 'admission webhook "w.dev" denied the request'
FAILED = (
    'Internal error occurred: failed calling webhook "w.dev": failed to call webhook: '
    'Post "https://s.a.svc:443/w.dev?timeout=10s": context deadline exceeded'
)


@pytest.mark.parametrize(
    ("more", "answer", "expected"),
    [
        ({}, {"allowed": False}, (400, f"{DENIED} without explanation")),
        ({}, {"allowed": False, "status": {"message": "no", "code": 403}}, (403, f"{DENIED}: no")),
        ({}, None, (500, FAILED)),
        ({"failurePolicy": "Ignore"}, None, (201, None)),
        ({"objectSelector": {"matchLabels": {"x": "y"}}}, {"allowed": False}, (201, None)),
        ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, {"allowed": False}, (201, None)),
    ],
)
def test_a_webhook_decides(more: Any, answer: Any, expected: tuple[int, str | None]) -> None:
    cluster = Cluster()
    cluster.webhook("Validating", "w.dev", **more)

    def answers(call: WebhookCall) -> bytes | WebhookFailure:
        return allows(call, **answer) if answer else WebhookFailure("context deadline exceeded")

    code, document = cluster.answer("POST", MAPS, {"metadata": {"name": "m"}}, answers)
    assert (code, document.get("message")) == expected


@pytest.mark.parametrize(("user", "code"), [("admin", 400), ("other", 201)])
def test_a_webhook_of_binds_sees_the_binding_if_its_conditions_hold(user: str, code: int) -> None:
    cluster = Cluster(conditions=lambda _webhook, request: request["userInfo"]["username"] == user)
    cluster.ok("POST", PODS, {**POD, "spec": {**POD["spec"], "nodeName": None}})
    cluster.webhook(
        "Validating",
        "binds.dev",
        matchConditions=[{"name": "account", "expression": "request.userInfo.username == 'admin'"}],
        rules=[
            {
                "operations": ["CREATE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods/binding"],
            }
        ],
    )
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    found, _ = cluster.answer("POST", f"{PODS}/p/binding", binding, lambda call: allows(call, allowed=False))
    assert found == code
    for call in cluster.calls:
        request = msgspec.json.decode(call.body)["request"]
        assert (request["kind"]["kind"], request["subResource"]) == ("Binding", "binding")
        assert request["object"] == binding


def test_warnings_of_webhooks_are_a_header() -> None:
    cluster = Cluster()
    cluster.webhook("Validating", "w.dev")
    response = cluster.ask(
        "POST", MAPS, {"metadata": {"name": "m"}}, lambda call: allows(call, warnings=["one", "two"])
    )
    assert isinstance(response, ApiResponse)
    assert response.headers == {"Warning": '299 - "one", 299 - "two"'}


def test_a_webhook_with_side_effects_gets_no_dry_run() -> None:
    cluster = Cluster()
    cluster.webhook("Validating", "w.dev", sideEffects="Some")
    code, document = cluster.answer("POST", MAPS, {"metadata": {"name": "m"}}, dryRun="All")
    assert (code, document["message"]) == (400, 'admission webhook "w.dev" does not support dry run')


@pytest.mark.parametrize("versioned", [False, True])
def test_a_write_during_a_webhook_is_not_lost(*, versioned: bool) -> None:
    """A patch is made again from the new object, and an update of the old version is a conflict."""
    cluster = Cluster()
    first = cluster.ok("POST", MAPS, {"metadata": {"name": "m"}, "data": {"x": "1"}})
    cluster.webhook("Validating", "w.dev")
    quiet = {"metadata": {"name": "m"}, "data": {"x": "1", "z": "3"}}

    def answers(call: WebhookCall) -> bytes:
        if len(cluster.calls) == 1:
            cluster.ok("PUT", f"{MAPS}/m", quiet, allows)
        return allows(call)

    patch = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}} if versioned else {}
    code, document = cluster.answer("PATCH", f"{MAPS}/m", {**patch, "data": {"y": "2"}}, answers, MERGE_PATCH)
    if versioned:
        assert (code, document["reason"]) == (409, "Conflict")
    else:
        assert document["data"] == {"x": "1", "y": "2", "z": "3"}


def test_a_compacted_watch_is_expired() -> None:
    cluster = Cluster()
    version = cluster.ok("POST", MAPS, {"metadata": {"name": "m"}})["metadata"]["resourceVersion"]
    current, late = cluster.watch(MAPS, resourceVersion=version), cluster.watch(MAPS, resourceVersion=version)
    cluster.ok("POST", MAPS, {"metadata": {"name": "n"}})
    assert summary(current) == [("ADDED", "n")]
    cluster.server.compact()
    assert not current.behind
    for watch in (late, cluster.watch(MAPS, resourceVersion=version)):
        assert watch.behind
        [(kind, status)] = lines(watch)
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    cluster.ok("POST", MAPS, {"metadata": {"name": "o"}})
    assert summary(current) == [("ADDED", "o")]


def test_pages_have_one_version_until_it_is_compacted() -> None:
    cluster = Cluster()
    for name in "cab":
        cluster.ok("POST", MAPS, {"metadata": {"name": name}})
    page = cluster.ok("GET", MAPS, limit="2")
    assert [item["metadata"]["name"] for item in page["items"]] == ["a", "b"]
    assert page["metadata"]["remainingItemCount"] == 1
    cluster.ok("DELETE", f"{MAPS}/c")
    cluster.ok("POST", MAPS, {"metadata": {"name": "d"}})
    token = page["metadata"]["continue"]
    rest = cluster.ok("GET", MAPS, **{"continue": token})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    cluster.server.compact()
    code, status = cluster.answer("GET", MAPS, **{"continue": token})
    assert (code, status["reason"]) == (410, "Expired")


def test_a_streaming_list_ends_with_a_bookmark_and_continues() -> None:
    cluster = Cluster()
    cluster.ok("POST", MAPS, {"metadata": {"name": "m"}})
    watch = cluster.watch(MAPS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    cluster.ok("POST", MAPS, {"metadata": {"name": "n"}})
    first, second = watch.take(1), watch.take(5)
    bookmark = msgspec.json.decode(second[0])
    assert b'"ADDED"' in first[0]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert summary(watch) == [("ADDED", "n")]
    assert msgspec.json.decode(watch.bookmark())["object"]["metadata"]["resourceVersion"] == str(
        cluster.server.store.revision
    )


def test_a_watch_with_a_selector_sees_objects_begin_and_end() -> None:
    cluster = Cluster()
    watch = cluster.watch(MAPS, resourceVersion="1", labelSelector="app=web")
    cluster.ok("POST", MAPS, {"metadata": {"name": "m"}})
    for labels in ({"app": "web"}, {"app": "web", "x": "y"}, None):
        cluster.ok("PATCH", f"{MAPS}/m", {"metadata": {"labels": labels}}, None, MERGE_PATCH)
    cluster.ok("DELETE", f"{MAPS}/m")
    assert [kind for kind, _ in lines(watch)] == ["ADDED", "MODIFIED", "DELETED"]


def test_each_write_is_told_and_no_other_request() -> None:
    cluster = Cluster()
    told: list[str] = []
    cluster.server.changed.append(lambda resource, _change: told.append(resource))
    cluster.ok("POST", MAPS, {"metadata": {"name": "m"}})
    cluster.ok("PATCH", f"{MAPS}/m", {"data": None}, None, MERGE_PATCH)
    cluster.ok("POST", MAPS, {"metadata": {"name": "n"}}, dryRun="All")
    cluster.ok("GET", MAPS)
    cluster.ok("POST", PODS, POD)
    assert told == ["configmaps", "pods"]


def test_a_bound_pod_waits_for_its_kubelet() -> None:
    cluster = Cluster()
    cluster.ok("POST", PODS, POD)
    cluster.now += timedelta(seconds=10)
    marked = cluster.ok("DELETE", f"{PODS}/p")["metadata"]
    assert marked["deletionTimestamp"] == "2026-01-02T03:04:45Z"
    shorter = cluster.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 5})["metadata"]
    assert shorter["deletionTimestamp"] == "2026-01-02T03:04:20Z"
    longer = cluster.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 20})["metadata"]
    assert longer["resourceVersion"] == shorter["resourceVersion"]
    cluster.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert cluster.answer("GET", f"{PODS}/p")[0] == 404


def test_a_namespace_goes_when_its_finalizer_is_removed() -> None:
    cluster = Cluster()
    cluster.ok("DELETE", "/api/v1/namespaces/a")
    code, status = cluster.answer("POST", MAPS, {"metadata": {"name": "m"}})
    assert code == 403
    assert status["message"].endswith("because it is being terminated")
    namespace = cluster.ok("GET", "/api/v1/namespaces/a")
    namespace["spec"] = {}
    cluster.ok("PUT", "/api/v1/namespaces/a/finalize", namespace)
    assert cluster.answer("GET", "/api/v1/namespaces/a")[0] == 404


def test_native_groups_are_served_in_both_versions() -> None:
    cluster = Cluster()
    root = "/apis/scheduling.k8s.io/{}/namespaces/a/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    older, newer = (root.format(version) for version in ("v1alpha3", "v1beta1"))
    made = cluster.ok("POST", older, {"metadata": {"name": "g"}, "spec": spec})
    assert made["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    assert cluster.ok("GET", f"{newer}/g")["apiVersion"] == "scheduling.k8s.io/v1beta1"
    [(_, seen)] = lines(cluster.watch(older, resourceVersion="1"))
    assert seen == made
    assert cluster.ok("GET", newer)["items"][0]["apiVersion"] == "scheduling.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("gates", "kinds"),
    [
        (None, {"PodGroup", "Workload"}),
        (frozenset[str](), set[str]()),
        (frozenset((WORKLOAD_API, COMPOSITE)), {"CompositePodGroup", "PodGroup", "Workload"}),
    ],
)
def test_gates_turn_native_groups_on(gates: frozenset[str] | None, kinds: set[str]) -> None:
    cluster = Cluster(gates=gates)
    groups = {group["name"]: group["versions"] for group in cluster.ok("GET", "/apis")["groups"]}
    served = {
        entry["kind"]
        for version in groups["scheduling.k8s.io"]
        for entry in cluster.ok("GET", f"/apis/{version['groupVersion']}")["resources"]
    }
    assert served - {"PriorityClass"} == kinds


def test_a_definition_serves_its_kind() -> None:
    """Podium's own definitions, whose schemas drop unknown fields."""
    cluster = Cluster()
    path = "/apis/scheduling.podium.dev/v1beta1/namespaces/a/podgroups"
    group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "other": 1}}
    assert cluster.answer("POST", path, group)[0] == 404
    for definition in crds():
        cluster.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert "other" not in cluster.ok("POST", path, group)["spec"]
    listed = cluster.ok("GET", "/apis/scheduling.podium.dev/v1beta1")["resources"]
    assert {"podgroups", "podgroups/status", "workloads"} <= {entry["name"] for entry in listed}
    assert "scheduling.podium.dev" in {entry["name"] for entry in cluster.ok("GET", "/apis")["groups"]}


def test_a_user_without_the_right_gets_a_403() -> None:
    cluster = Cluster(allowed=lambda _user, verb, resource: (verb, resource) != ("create", "pods/binding"))
    cluster.ok("POST", PODS, POD)
    code, status = cluster.answer("POST", f"{PODS}/p/binding", {"target": {"name": "n"}})
    assert code == 403
    assert status["message"] == (
        'pods "p" is forbidden: User "admin" cannot create resource "pods/binding" in API group "" '
        'in the namespace "a"'
    )


def test_equal_requests_give_equal_bytes() -> None:
    def run() -> Sequence[bytes]:
        cluster = Cluster()
        watch = cluster.watch("/api/v1/pods", resourceVersion="1")
        cluster.ok("POST", PODS, {**POD, "metadata": {"generateName": "p-", "labels": {"b": "1", "a": "2"}}})
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "m"},
            "data": {"y": "1", "x": "2"},
        }
        cluster.ok("PATCH", f"{MAPS}/m", document, None, APPLY_PATCH, fieldManager="one")
        response = cluster.ask("GET", MAPS)
        assert isinstance(response, ApiResponse)
        return [*watch.take(10), response.body]

    assert run() == run()
