"""Binds of the scheduler's account: which are refused, and that a failed read of the pod admits none."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog

from podium.errors import PodiumError
from podium.runtime.logs import LINES_A_MINUTE, Seldom
from podium.runtime.messages import HTTPRequest, HTTPResponse, text_response
from podium.webhooks.bindings import PATH, READS, BindingRequest, Bindings, decode, refusal_of
from podium.webhooks.envelope import ReviewError

_REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "r",
        "kind": {"group": "", "version": "v1", "kind": "Binding"},
        "operation": "CREATE",
        "namespace": "team-a",
        "name": "p",
        "object": {"metadata": {"name": "p", "uid": "1"}, "target": {"name": "node"}},
    },
}
_BIND = BindingRequest("r", "team-a", "p", "1")
_DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000


def _pod(uid: str = "1", scheduler: str = "podium-scheduler") -> bytes:
    text = json.dumps({"metadata": {"uid": uid, "managedFields": []}, "spec": {"schedulerName": scheduler}})
    return text.replace("[]", f"[{_DEEP}]").encode()


def _bindings(get: Callable[[str], Awaitable[bytes]]) -> Bindings:
    def unreadable(error: ReviewError) -> HTTPResponse:
        return text_response(400, f"{error}")

    return Bindings(get, structlog.get_logger(), Seldom(LINES_A_MINUTE, 60.0, lambda: 0.0), unreadable)


async def _answer(
    get: Callable[[str], Awaitable[bytes]], review: Any = _REVIEW, seconds: float = 5
) -> HTTPResponse:
    handler = _bindings(get).routes()[PATH].handler
    ask = HTTPRequest(PATH, json.dumps(review).encode(), asyncio.get_running_loop().time() + seconds, 0.0)
    reply = handler(ask)
    return reply if isinstance(reply, HTTPResponse) else await reply


def test_a_bind_is_read_from_a_review() -> None:
    assert decode(json.dumps(_REVIEW).encode()) == _BIND


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"apiVersion":"admission.k8s.io/v1"}',
        json.dumps({**_REVIEW, "apiVersion": "v1"}).encode(),
        b"\xff",
    ],
)
def test_any_other_body_is_an_error(body: bytes) -> None:
    with pytest.raises(ReviewError, match="not an AdmissionReview"):
        decode(body)


@pytest.mark.parametrize(
    ("uid", "scheduler", "refused"),
    [
        ("1", "podium-scheduler", None),
        ("1", "default-scheduler", "spec.schedulerName is default-scheduler"),
        ("2", "podium-scheduler", "the Binding names the UID 1, and the pod has 2"),
        ("", "podium-scheduler", "the Binding names the UID 1"),
    ],
)
def test_only_pods_of_the_scheduler_with_the_uid_of_the_binding(
    uid: str, scheduler: str, refused: str | None
) -> None:
    found = refusal_of(_BIND, uid, scheduler)
    assert found is refused is None or (refused is not None and refused in str(found))


async def test_the_pod_decides() -> None:
    """A pod may be nested deeper than the interpreter decodes."""
    paths = []

    async def get(path: str) -> bytes:
        paths.append(path)
        return _pod()

    async def foreign(_: str) -> bytes:
        return _pod(scheduler="default-scheduler")

    allowed, refused = await _answer(get), await _answer(foreign)
    assert paths == ["/api/v1/namespaces/team-a/pods/p"]
    assert json.loads(allowed.body)["response"] == {"uid": "r", "allowed": True}
    response = json.loads(refused.body)["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("r", False, 403)
    assert "pod team-a/p: spec.schedulerName is default-scheduler" in response["status"]["message"]


async def _fails(_: str) -> bytes:
    raise PodiumError("the API server does not answer")


async def _hangs(_: str) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


async def _garbles(_: str) -> bytes:
    return b'{"spec": 3}'


@pytest.mark.parametrize("get", [_fails, _hangs, _garbles])
async def test_an_unread_pod_is_not_bound(get: Callable[[str], Awaitable[bytes]]) -> None:
    """The API server treats the status as a failed call, and failurePolicy is Fail."""
    reply = await _answer(get, seconds=0.01)
    assert (reply.status, b"pod team-a/p: " in reply.body) == (500, True)


async def test_a_body_that_is_no_review_is_not_admitted() -> None:
    assert (await _answer(_fails, {"apiVersion": "v1"})).status == 400


async def test_a_client_does_not_control_the_number_of_log_lines() -> None:
    """A tenant with the account's token may send refused binds without end."""

    async def foreign(_: str) -> bytes:
        return _pod(scheduler="default-scheduler")

    bindings = _bindings(foreign)
    handler = bindings.routes()[PATH].handler
    with structlog.testing.capture_logs() as lines:
        for _ in range(3 * LINES_A_MINUTE):
            deadline = asyncio.get_running_loop().time() + 5
            reply = handler(HTTPRequest(PATH, json.dumps(_REVIEW).encode(), deadline, 0.0))
            assert not isinstance(reply, HTTPResponse)
            await reply
    assert [each["event"] for each in lines] == ["bind refused"] * LINES_A_MINUTE


async def test_few_pods_are_read_at_the_same_time() -> None:
    """The memory limit of the webhook depends on it."""
    reading, most, full, release = 0, 0, asyncio.Event(), asyncio.Event()

    async def get(_: str) -> bytes:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        if reading == READS:
            full.set()
        await release.wait()
        reading -= 1
        return _pod()

    handler = _bindings(get).routes()[PATH].handler
    deadline = asyncio.get_running_loop().time() + 5
    replies = [
        handler(HTTPRequest(PATH, json.dumps(_REVIEW).encode(), deadline, 0.0)) for _ in range(3 * READS)
    ]
    tasks = [asyncio.ensure_future(each) for each in replies if not isinstance(each, HTTPResponse)]
    await full.wait()
    release.set()
    answers = await asyncio.gather(*tasks)
    assert (most, {each.status for each in answers}, len(answers)) == (READS, {200}, 3 * READS)
