"""The three handlers: their answers, counts and log events, and their waits."""

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

import msgspec
import pytest
from structlog.typing import FilteringBoundLogger
from tests.support.rules.scene import GOLD, Document, classes, group, pod, priority_class, profile
from tests.support.webhooks.client import restored_logs
from tests.support.webhooks.reviews import asked

from podium.api.core import PriorityClass
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.rules.context import Profile
from podium.rules.policy import Policy, RuleLevel
from podium.runtime import logs
from podium.runtime.messages import HTTPRequest, HTTPResponse
from podium.runtime.metrics import new_registry
from podium.webhooks.handlers import PATIENCE_SECONDS, Handlers
from podium.webhooks.metrics import WebhookMetrics

LATE = {"priorityClassName": "late", "schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    with restored_logs():
        yield


class Watched(ClusterState):
    """A state that counts the reads of its classes, and can be made to fail."""

    looks = 0
    broken = False

    @property
    def classes(self) -> Mapping[str, PriorityClass]:
        self.looks += 1
        if self.broken:
            raise LookupError("no such thing")
        return self._classes

    @classes.setter
    def classes(self, classes: Mapping[str, PriorityClass]) -> None:
        self._classes = classes


class Live:
    """A cluster that tests change."""

    def __init__(self, state: Watched) -> None:
        self.state = state
        self.synced = True
        self._moved = asyncio.Event()

    async def changed(self, revision: int) -> None:
        while self.state.revision == revision:
            self._moved.clear()
            await self._moved.wait()

    def apply(self, document: Document) -> None:
        read = READS[document["apiVersion"], document["kind"]]
        self.state.apply(read.neutral(msgspec.convert(document, read.type)))
        self._moved.set()


class HandlersInMemory:
    """Handlers with their dependencies, and their results."""

    def __init__(
        self, *, level: str = "info", by: Profile | None = None, patience: float = PATIENCE_SECONDS
    ) -> None:
        self.live = Live(Watched(native_served=True))
        for document in classes():
            self.live.apply(document)
        self.registry = new_registry()
        self.logged = io.StringIO()
        log: FilteringBoundLogger = logs.configure("json", level, self.logged)
        found = by or profile(rules="podium")
        self.handlers = Handlers(
            self.live, lambda: found, WebhookMetrics(self.registry), log, patience=patience
        )
        self.routes = self.handlers.routes()

    def start(
        self, path: str, body: bytes, seconds: float = 3.0, **headers: str
    ) -> HTTPResponse | Awaitable[HTTPResponse]:
        deadline = asyncio.get_running_loop().time() + seconds
        request = HTTPRequest(path, body, deadline, time.perf_counter(), headers=headers)
        return self.routes[path].handler(request)

    def ask(self, path: str, document: Document, old: Document | None = None) -> dict[str, Any]:
        """Return the response to a review that is answered at once."""
        return response(self.start(path, json.dumps(asked(document, old)).encode()))

    async def ask_late(
        self, document: Document, seconds: float = 3.0, path: str = "/mutate"
    ) -> dict[str, Any]:
        """Return the response to a review that has to wait."""
        reply = self.start(path, review_of(document), seconds)
        assert not isinstance(reply, HTTPResponse)
        return response(await reply)

    def counted(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the values of a counter by its labels."""
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"{name}_total" and sample.value
        }

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.logged.getvalue().splitlines()]


def response(reply: HTTPResponse | Awaitable[HTTPResponse]) -> dict[str, Any]:
    assert isinstance(reply, HTTPResponse)
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = json.loads(reply.body)["response"]
    return answer


REFUSED = {"schedulingPolicy": {"gang": {"minCount": -1}}, "priorityClassName": GOLD, "priority": 1000}


def podium_group(spec: Document) -> Document:
    return group(spec, native=False)


def review_of(document: Document, old: Document | None = None) -> bytes:
    return json.dumps(asked(document, old)).encode()


GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


async def test_an_answer_is_counted_and_logged() -> None:
    """The count has the deciding rule; the log has refusals at info, with the UID and no object's value."""
    webhook = HandlersInMemory()
    refused = webhook.ask("/validate", podium_group(REFUSED))
    assert not refused["allowed"]
    (labels,) = webhook.counted("podium_admission_requests")
    assert labels[:4] == ("validate", "PodGroup", "CREATE", "denied")
    assert labels[4] in refused["auditAnnotations"]["rules"]
    (line,) = webhook.log
    assert list(line)[:3] == ["time", "level", "event"]
    assert (line["level"], line["event"], line["uid"]) == ("info", "denied", refused["uid"])
    assert line["rules"] == [labels[4]]
    assert GOLD not in webhook.logged.getvalue()


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("traceparent", "logged"),
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", TRACE, id="valid"),
        pytest.param(f"00-{TRACE}-{SPAN}-00", TRACE, id="not sampled"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01", TRACE, id="later version"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01-more", TRACE, id="later version with more fields"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01more", None, id="later version with a longer field"),
        pytest.param(f"00-{TRACE}-{SPAN}-01-more", None, id="more fields"),
        pytest.param(f"00-{TRACE}-{SPAN}-01\n", None, id="line feed"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", None, id="version ff"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", None, id="capitals"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", None, id="trace of zeros"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", None, id="span of zeros"),
        pytest.param(f"00-{TRACE}0-{SPAN}-01", None, id="long"),
        pytest.param(f"00-{TRACE}-{SPAN}", None, id="short"),
        pytest.param("", None, id="empty"),
    ],
)
async def test_a_decision_is_logged_with_the_id_of_its_trace(traceparent: str, logged: str | None) -> None:
    """An invalid header is ignored, as W3C Trace Context requires."""
    webhook = HandlersInMemory()
    body = review_of(podium_group(REFUSED))
    assert not response(webhook.start("/validate", body, traceparent=traceparent))["allowed"]
    (line,) = webhook.log
    assert line.get("trace_id") == logged


async def test_a_review_that_waited_is_logged_with_the_id_of_its_trace() -> None:
    webhook = HandlersInMemory(patience=0.05)
    reply = webhook.start("/mutate", review_of(podium_group(LATE)), traceparent=f"00-{TRACE}-{SPAN}-01")
    assert not isinstance(reply, HTTPResponse)
    assert not response(await reply)["allowed"]
    assert [line["trace_id"] for line in webhook.log] == [TRACE]


async def test_allowed_requests_are_logged_at_debug() -> None:
    quiet, loud = HandlersInMemory(), HandlersInMemory(level="debug")
    for webhook in (quiet, loud):
        assert webhook.ask("/mutate", podium_group({**GANG, "priorityClassName": GOLD}))["patch"]
        assert webhook.ask("/validate", pod())["allowed"]
        assert webhook.counted("podium_admission_requests") == {
            ("mutate", "PodGroup", "CREATE", "patched", ""): 1,
            ("validate", "Pod", "CREATE", "allowed", ""): 1,
        }
    assert quiet.log == []
    assert [line["event"] for line in loud.log] == ["patched", "allowed"]


async def test_a_breach_that_is_let_through() -> None:
    webhook = HandlersInMemory(
        by=profile(rules="podium", policy=Policy(levels={"group-unlike-template": RuleLevel.WARN}))
    )
    webhook.live.apply(podium_group({**GANG, "priority": 5}))
    member = pod({"scheduling.podium.dev/pod-group": "g"}, priority=7)
    assert webhook.ask("/validate", member)["warnings"]
    ((labels, _),) = webhook.counted("podium_admission_requests").items()
    assert labels[3] == "warned"
    assert labels[4]
    assert [line["event"] for line in webhook.log] == ["warned"]


async def test_a_stranger_makes_no_series() -> None:
    webhook = HandlersInMemory()
    odd = asked({"apiVersion": "evil/v1", "kind": "X1", "metadata": {}}, operation="X2")
    assert response(webhook.start("/validate", json.dumps(odd).encode()))["allowed"]
    assert list(webhook.counted("podium_admission_requests")) == [
        ("validate", "other", "other", "allowed", "")
    ]


async def test_a_class_that_comes_while_its_group_is_judged() -> None:
    """Other changes do not end the wait; the answer comes with the class, before the timeout."""
    webhook = HandlersInMemory(patience=3_600)
    waiting = asyncio.create_task(webhook.ask_late(podium_group(LATE), seconds=7_200))
    await asyncio.sleep(0)
    webhook.live.apply(priority_class("other", value=1))
    await asyncio.sleep(0)
    assert not waiting.done()
    webhook.live.apply(priority_class("late", value=7))
    assert (await waiting)["allowed"]
    assert webhook.counted("podium_admission_requests") == {
        ("mutate", "PodGroup", "CREATE", "patched", ""): 1
    }


async def test_a_class_that_another_replica_knows_better() -> None:
    """That replica stamped the group by the current class, which arrives here a moment later."""
    webhook = HandlersInMemory(patience=3_600)
    stamped = {**GANG, "priorityClassName": GOLD, "priority": 5, "preemptionPolicy": "PreemptLowerPriority"}
    waiting = asyncio.create_task(webhook.ask_late(podium_group(stamped), 7_200, "/validate"))
    await asyncio.sleep(0)
    webhook.live.apply(priority_class(GOLD, value=5))
    assert (await waiting)["allowed"]


async def test_a_change_before_the_waiting_began_is_seen() -> None:
    """The class came after the verdict and before the first read: nothing else will change."""
    webhook = HandlersInMemory(patience=3_600)
    reply = webhook.start("/mutate", review_of(podium_group(LATE)), seconds=7_200)
    webhook.live.apply(priority_class("late", value=7))
    assert not isinstance(reply, HTTPResponse)
    assert response(await reply)["allowed"]


@pytest.mark.parametrize(
    ("seconds", "patience"),
    [pytest.param(3_600.0, 0.05, id="patience"), pytest.param(0.1, 3_600.0, id="half of its time")],
)
async def test_a_missing_class_is_refused_after_the_wait(seconds: float, patience: float) -> None:
    refused = await HandlersInMemory(patience=patience).ask_late(podium_group(LATE), seconds)
    assert refused["status"]["message"].endswith("no PriorityClass with name late was found")


async def test_a_busy_cluster_is_not_looked_at_for_every_change() -> None:
    """Pauses grow: fifteen reads at most in the time of the test, for any number of changes."""
    webhook = HandlersInMemory(patience=0.2)
    waiting = asyncio.create_task(webhook.ask_late(podium_group(LATE)))
    await asyncio.sleep(0)
    looks_of_one = webhook.live.state.looks
    changes = 0
    while not waiting.done():
        webhook.live.apply(priority_class(f"other-{changes % 9}", value=changes))
        changes += 1
        await asyncio.sleep(0)
    # A change is a read too: the index reads its classes to set one.
    assert (webhook.live.state.looks - changes) / looks_of_one < 15 < changes


UNREADABLE = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"{", id="broken"),
    pytest.param(b"\xff\xfe{}", id="not UTF-8"),
    pytest.param(b'{"a":"\xed\xa0\x80"}', id="a surrogate"),
    pytest.param(b"[" * 100_000, id="deep"),
    pytest.param(b'{"a":' * 3_000 + b"1" + b"}" * 3_000, id="deep and closed"),
    pytest.param(b"{}", id="empty"),
    pytest.param(b"null", id="null"),
    pytest.param(b'{"apiVersion":"v1","kind":"Pod"}', id="a pod"),
    pytest.param(b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', id="v1beta1"),
    pytest.param(json.dumps({**asked(pod()), "kind": "K" * 10_000}).encode(), id="long kind"),
]


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/convert"])
@pytest.mark.parametrize("body", UNREADABLE)
async def test_an_invalid_review_is_400(path: str, body: bytes) -> None:
    """A short line gives the reason, to the client and in the log."""
    webhook = HandlersInMemory()
    reply = webhook.start(path, body)
    assert isinstance(reply, HTTPResponse)
    assert reply.status == 400
    assert 0 < len(reply.body) <= 1_000
    assert webhook.counted("podium_admission_errors") == {("review",): 1}
    assert [line["event"] for line in webhook.log] == ["unreadable"]


def test_only_conversion_is_open_without_a_client_certificate() -> None:
    """API servers show theirs to admission webhooks only."""
    assert [path for path, route in HandlersInMemory().routes.items() if route.anonymous] == ["/convert"]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "while waiting"])
async def test_a_bug_is_500_and_never_a_denial(later: bool) -> None:
    webhook = HandlersInMemory(patience=0.05)
    reply = webhook.start("/mutate", review_of(podium_group(LATE))) if later else None
    webhook.live.state.broken = True
    reply = reply or webhook.start("/mutate", review_of(podium_group(LATE)))
    if not isinstance(reply, HTTPResponse):
        reply = await reply
    assert (reply.status, b"no such thing" in reply.body) == (500, False)
    assert webhook.counted("podium_admission_errors") == {("exception",): 1}
    assert webhook.counted("podium_admission_requests") == {}
    (line,) = webhook.log
    assert (line["level"], line["uid"]) == ("error", asked(pod())["request"]["uid"])
    assert "LookupError: no such thing" in line["exception"]


async def test_nothing_is_judged_before_the_first_lists() -> None:
    """The API server must repeat the request; a conversion needs no cluster."""
    webhook = HandlersInMemory()
    webhook.live.synced = False
    reply = webhook.start("/validate", review_of(pod()))
    assert isinstance(reply, HTTPResponse)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert webhook.counted("podium_admission_errors") == {("not synced",): 1}
    assert response(webhook.start("/convert", conversion(1)))["result"] == {"status": "Success"}


def conversion(count: int) -> bytes:
    objects = [podium_group(GANG) for _ in range(count)]
    request = {"uid": "u", "desiredAPIVersion": "scheduling.podium.dev/v1alpha2", "objects": objects}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(review).encode()


async def test_a_large_conversion_leaves_the_loop_to_others() -> None:
    """The work is in a thread: others are answered meanwhile."""
    webhook = HandlersInMemory()
    pending = webhook.start("/convert", conversion(3_000))
    assert not isinstance(pending, HTTPResponse)
    converting = asyncio.ensure_future(pending)
    await asyncio.sleep(0)
    assert webhook.ask("/validate", pod())["allowed"]
    assert not converting.done()
    assert len(response(await converting)["convertedObjects"]) == 3_000
    assert webhook.counted("podium_conversion_requests") == {(): 1}
    webhook.handlers.close()


async def test_a_large_conversion_that_cannot_be_read() -> None:
    webhook = HandlersInMemory()
    pending = webhook.start("/convert", conversion(3_000)[:-1])
    assert not isinstance(pending, HTTPResponse)
    assert (await pending).status == 400
    webhook.handlers.close()
