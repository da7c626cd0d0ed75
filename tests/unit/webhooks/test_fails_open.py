"""Admission fails open only when it does not answer: the real server and handlers.

If failurePolicy is Ignore, an API server admits every object whose call fails. So each refusal for size or
load must be a review that denies, and no client may cost another its answer.
"""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.support.rules.scene import Document, group, pod, profile
from tests.support.webhooks.client import Answer, Peer, Served, post, restored_logs, serving
from tests.support.webhooks.isolated import Still
from tests.support.webhooks.reviews import asked

from podium.api.groups import GROUP_LABEL
from podium.rules.policy import Allowance, Policy
from podium.runtime import logs
from podium.runtime.messages import Limits
from podium.runtime.metrics import new_registry
from podium.webhooks.handlers import (
    ADMISSION,
    ADMISSION_BYTES,
    CONVERSION,
    CONVERSION_BYTES,
    PLACES,
    PLACES_OF_NAMESPACE,
    Handlers,
    Room,
)
from podium.webhooks.metrics import WebhookMetrics

MIB = 1 << 20
CHEAP = Policy(allow=(Allowance(namespaces=("default",), pods=("cheap",)),))
UNKNOWN = group({"priorityClassName": "no-such-class", "schedulingPolicy": {"basic": {}}}, native=False)
CONVERT = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "ConversionReview",
    "request": {"uid": "u", "desiredAPIVersion": "scheduling.podium.dev/v1beta1", "objects": []},
}


class ServedWebhook:
    """A server of the webhook, with its counts and its log."""

    def __init__(self, served: Served, metrics: Any, output: io.StringIO) -> None:
        self.served = served
        self._registry = metrics
        self._output = output

    def counted(self, name: str, why: str) -> float:
        value = self._registry.get_sample_value(f"podium_admission_{name}_total", {"why": why})
        assert value is not None
        return float(value)

    @property
    def log(self) -> list[Document]:
        return [json.loads(line) for line in self._output.getvalue().splitlines()]


@contextmanager
def webhook(patience: float = 3_600, **limits: Any) -> Iterator[ServedWebhook]:
    """Serve without TLS, which changes only the cost; a request waits until the test ends."""
    registry, output = new_registry(), io.StringIO()
    with restored_logs():
        log = logs.configure("json", "info", output)
        metrics = WebhookMetrics(registry)
        found = profile(rules="podium", policy=CHEAP)
        handlers = Handlers(Still(), lambda: found, metrics, log, patience=patience)
        with serving(
            handlers.routes(), Limits(linger_seconds=0.05, **limits), tls=False, tally=metrics.count_refusal
        ) as served:
            yield ServedWebhook(served, registry, output)
        handlers.close()


def review(document: Document, old: Document | None = None, **fields: Any) -> bytes:
    """Write a review as Go does: the fields in the order of their type, no spaces, `<` as six bytes."""
    whole = asked(document, old, **fields)
    order = ("uid", "kind", "resource", "subResource", "requestKind", "requestResource", "name", "namespace")
    request = {name: whole["request"][name] for name in order if name in whole["request"]}
    whole["request"] = request | whole["request"]
    head = {"kind": whole["kind"], "apiVersion": whole["apiVersion"]}
    return json.dumps(head | whole, separators=(",", ":")).replace("<", "\\u003c").encode()


def padded(size: int, **spec: Any) -> Document:
    return pod(containers=[{"name": "c", "env": [{"name": "A", "value": "<" * size}]}], **spec)


def sent(peer: Peer, path: str, body: bytes, missing: int = 0) -> Answer:
    return peer.ask(post(path, body, Content_Length=str(len(body) + missing)))


def response(answer: Answer) -> Document:
    assert answer.status == 200, answer.body
    found: Document = json.loads(answer.body)["response"]
    return found


GOLD: dict[str, Any] = {"priorityClassName": "gold"}
MEMBER = review(pod({GROUP_LABEL: "g"}), namespace="prod")


def test_a_padded_pod_is_judged() -> None:
    """1,250,000 `<` are a review of 7.5 MB."""
    with webhook() as server, server.served.peer() as peer:
        for size in (0, 1_250_000, 3 * MIB):
            denied = response(sent(peer, "/validate", review(padded(size, **GOLD))))
            assert not denied["allowed"]
            assert "may not use class gold" in denied["status"]["message"]
        assert response(sent(peer, "/validate", review(padded(1_250_000, priorityClassName="cheap"))))[
            "allowed"
        ]


@pytest.mark.parametrize("size", [0, 650_000, 3 * MIB])
def test_a_label_changed_on_a_padded_pod(size: int) -> None:
    """An update holds the pod twice."""
    old, new = padded(size), padded(size)
    old["metadata"]["labels"], new["metadata"]["labels"] = {GROUP_LABEL: "a"}, {GROUP_LABEL: "other"}
    with webhook() as server, server.served.peer() as peer:
        denied = response(sent(peer, "/validate", review(new, old)))
    assert "may not be changed" in denied["status"]["message"]


def test_the_largest_request_of_a_client_fits_twice() -> None:
    """3 MiB, each byte written as six, in an update; and the budget takes two of these."""
    old = padded(3 * MIB)
    assert len(review(old, old)) <= ADMISSION_BYTES
    assert ADMISSION.held_bytes >= 2 * ADMISSION_BYTES


REFUSED = [
    pytest.param("large body", {}, ADMISSION_BYTES, 413, id="larger than any that can be stored"),
    pytest.param("slow body", {"body_seconds": 0.05}, 10, 408, id="stopped in its body"),
    pytest.param("connections", {"connections": 1}, 0, 429, id="no connection left"),
]


@pytest.mark.parametrize(("why", "limits", "missing", "code"), REFUSED)
@pytest.mark.parametrize("path", ["/mutate", "/gang", "/scheduled-gang", "/validate"])
def test_a_refusal_for_size_or_load_denies(
    why: str, limits: dict[str, Any], missing: int, code: int, path: str
) -> None:
    """It has the uid at the beginning of the review; it is counted and logged with the namespace."""
    with webhook(**limits) as server, server.served.peer() as used:
        assert sent(used, "/validate", MEMBER).status == 200
        with server.served.peer() as peer:
            denied = response(sent(peer, path, review(padded(9_000), namespace="evil"), missing))
        assert (denied["allowed"], denied["uid"]) == (False, asked(pod())["request"]["uid"])
        assert denied["status"]["code"] == code
        assert denied["status"]["message"].startswith("Podium did not judge this request: ")
        assert denied["status"].get("details") == (None if code == 413 else {"retryAfterSeconds": 1})
        assert server.counted("shed" if code == 429 else "errors", why) == 1
        (line,) = server.log
        assert (line["level"], line["event"], line["why"]) == ("warning", "not judged", why)
        assert (line["uid"], line["namespace"]) == (denied["uid"], "evil")


def test_the_largest_of_an_owner_makes_room() -> None:
    """If the byte budget is used up, the tenant with most bytes is denied; the others are reviewed."""
    large = review(padded(3 * MIB), padded(3 * MIB), namespace="evil")
    with webhook() as server, ExitStack() as stack:
        evil = [stack.enter_context(server.served.peer()) for _ in range(3)]
        for peer in evil:
            peer.send(post("/validate", large[:-1], Content_Length=str(len(large))))
        with server.served.peer() as honest:
            assert response(sent(honest, "/validate", MEMBER))["allowed"]
        server.served.until(lambda _: server.counted("shed", "memory") > 0, "one is denied")
        assert server.counted("shed", "memory") == 1
        for peer in evil:
            peer.send(b"}")
        assert sorted(response(peer.answer())["allowed"] for peer in evil) == [False, True, True]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"spec": {"x": [[]] * 200_000}}, id="a spec of lists"),
        pytest.param({"metadata": {"name": "g", "finalizers": ["a"] * 200_000}}, id="finalizers"),
    ],
)
def test_an_object_of_too_many_values_is_denied(part: Document) -> None:
    """The check comes before decoding: such a group cannot be stored, but arrives before schema checks."""
    with webhook() as server, server.served.peer() as peer:
        denied = response(sent(peer, "/mutate", review(group({}, native=False) | part)))
        assert (denied["allowed"], denied["status"]["code"]) == (False, 413)
        assert "more than 100,000 values" in denied["status"]["message"]
        assert server.counted("errors", "large object") == 1


@pytest.mark.parametrize(
    ("path", "part"),
    [
        pytest.param("/mutate", {"spec": {"tolerations": [{}] * 200_000}}, id="tolerations"),
        pytest.param("/gang", {"metadata": {"name": "p", "ownerReferences": [{}] * 200_000}}, id="owners"),
    ],
)
def test_a_pod_of_too_many_values_that_rules_read(path: str, part: Document) -> None:
    with webhook() as server, server.served.peer() as peer:
        assert response(sent(peer, path, review(pod() | part)))["status"]["code"] == 413


def test_a_pod_of_many_values_is_judged() -> None:
    """Rules read none of them."""
    many = pod(tolerations=[{}] * 500_000, **GOLD)
    with webhook() as server, server.served.peer() as peer:
        assert "may not use class" in response(sent(peer, "/validate", review(many)))["status"]["message"]


def test_requests_that_wait_cost_others_nothing() -> None:
    """Of 130 requests of a tenant with an unknown class its share waits, the others are reviewed at once."""
    waiting = post("/mutate", review(UNKNOWN, namespace="evil"))
    with webhook() as server, ExitStack() as stack:
        tenant = [stack.enter_context(server.served.peer()) for _ in range(130)]
        for peer in tenant:
            peer.send(waiting)
        judged = len(tenant) - PLACES_OF_NAMESPACE
        server.served.until(
            lambda served: served.server.load.in_flight == PLACES_OF_NAMESPACE, "the share waits"
        )
        with server.served.peer() as other:
            for _ in range(100):
                assert response(sent(other, "/validate", MEMBER))["allowed"]
            other.send(post("/mutate", review(UNKNOWN, namespace="prod")))
            server.served.until(
                lambda served: served.server.load.in_flight == PLACES_OF_NAMESPACE + 1, "another tenant waits"
            )
        assert sum("podgroups" in str(line) or line["event"] == "denied" for line in server.log) == judged
        assert server.counted("shed", "waiting") == 0


def test_a_waiting_request_holds_no_bytes() -> None:
    body = review(UNKNOWN | {"metadata": {**UNKNOWN["metadata"], "annotations": {"a": "x" * 20_000}}})
    with webhook() as server, server.served.peer() as peer:
        peer.send(post("/mutate", body))
        server.served.until(lambda served: served.server.load.waiting.total() == 1, "it waits")
        assert server.served.server.load.held_bytes.total() == 0


def test_the_waiting_room() -> None:
    """Each namespace has a share, and all have places; a released place can be taken."""
    room = Room(places=5, share=2)
    assert [room.enter("a") for _ in range(3)] == [True, True, False]
    assert [room.enter(each) for each in ("b", "c", "d", "e")] == [True, True, True, False]
    room.leave("a")
    assert room.enter("e")
    assert not room.enter("a")
    assert PLACES_OF_NAMESPACE * 2 <= PLACES == ADMISSION.waiting


def test_conversions_prove_no_connection() -> None:
    """Clients that fill the port with conversions leave room for an API server's first call."""
    with webhook(connections=20) as server, ExitStack() as stack:
        for _ in range(20):
            assert (
                sent(
                    stack.enter_context(server.served.peer()), "/convert", json.dumps(CONVERT).encode()
                ).status
                == 200
            )
        for _ in range(50):
            with server.served.peer() as new:
                assert response(sent(new, "/validate", MEMBER))["allowed"]
        assert CONVERSION.connections < ADMISSION.connections


def test_bodies_of_conversions_leave_admission_its_own() -> None:
    """Four clients that hold all but a byte of the greatest conversion."""
    with webhook() as server, ExitStack() as stack:
        body = b" " * (CONVERSION_BYTES - 1)
        for _ in range(4):
            stack.enter_context(server.served.peer()).send(
                post("/convert", body, Content_Length=str(CONVERSION_BYTES))
            )
        server.served.until(lambda _: server.counted("shed", "memory") == 2, "the largest make room")
        with server.served.peer() as api_server:
            for _ in range(20):
                assert response(sent(api_server, "/validate", MEMBER))["allowed"]
            assert sent(api_server, "/convert", json.dumps(CONVERT).encode()).status == 200


def test_a_client_does_not_decide_how_much_is_logged() -> None:
    with webhook() as server, server.served.peer() as peer:
        for _ in range(200):
            assert sent(peer, "/validate", b"{}").status == 400
        lines = [line for line in server.log if line["event"] == "unreadable"]
        assert len(lines) == 10
        assert server.counted("errors", "review") == 200
