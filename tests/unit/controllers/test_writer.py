"""The request of each action, and the meaning of each answer for the caller."""

import json
from collections.abc import AsyncIterator, Callable
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, serving, status

from podium.api.findings import ObjectRef
from podium.api.meta import Condition
from podium.controllers.actions import Action, ApplyConditions, ApplyGroup, CreateGroup, SetFinalizers
from podium.controllers.writer import Writer
from podium.errors import PodiumError
from podium.kube.connection import RefusedError, connect
from podium.kube.preconditions import StaleError

REF = ObjectRef("scheduling.podium.dev/v1beta1", "PodGroup", "team", "train")
PATH = "/apis/scheduling.podium.dev/v1beta1/namespaces/team/podgroups/train"
CONDITION = Condition(
    "PodsNotMatchingPriority", "True", "PriorityMismatch", "why", "2026-11-21T10:00:00Z", observedGeneration=3
)
STATUS = ApplyConditions(REF, "uid-1", "41", (CONDITION,))


class Sent(NamedTuple):
    """A request as the server received it."""

    method: str
    path: str
    content_type: str | None
    query: dict[str, str]
    body: Any


class Api:
    """A server with the same answer to every write."""

    def __init__(self) -> None:
        self.fake = Fake()
        self.answer: Callable[[], web.StreamResponse] = lambda: web.json_response(
            {"metadata": {"resourceVersion": "42"}}
        )
        self.sent: list[Sent] = []
        for path in (PATH, f"{PATH}/status", PATH.rpartition("/")[0]):
            self.fake.answers[path] = self._take

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        kind = request.headers.get("Content-Type")
        self.sent.append(Sent(request.method, request.path, kind, dict(request.query), body))
        return self.answer()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Serve."""
    api = Api()
    async with serving(api.fake):
        yield api


async def perform(api: Api, folder: Path, action: Action, remaining: float = inf) -> tuple[Any, list[Any]]:
    """Write once; return the outcome or the error, and the counts."""
    counted: list[Any] = []
    async with connect(api.fake.kubeconfig(folder), None) as connection:
        writer = Writer(connection, lambda: remaining, lambda what, result: counted.append((what, result)))
        try:
            return await writer.perform(action), counted
        except (PodiumError, TimeoutError) as error:
            return error, counted


WRITES: list[tuple[str, Action, Sent]] = [
    (
        "conditions are applied whole, by the moment they were decided from",
        STATUS,
        Sent(
            "PATCH",
            f"{PATH}/status",
            "application/apply-patch+yaml",
            {"fieldManager": "podium-controller", "force": "true"},
            {
                "apiVersion": REF.apiVersion,
                "kind": "PodGroup",
                "metadata": {"namespace": "team", "name": "train", "uid": "uid-1", "resourceVersion": "41"},
                "status": {
                    "conditions": [
                        {
                            "type": "PodsNotMatchingPriority",
                            "status": "True",
                            "reason": "PriorityMismatch",
                            "message": "why",
                            "lastTransitionTime": "2026-11-21T10:00:00Z",
                            "observedGeneration": 3,
                        }
                    ]
                },
            },
        ),
    ),
    (
        "no condition takes away those that are there",
        ApplyConditions(REF, "uid-1", "41", ()),
        Sent(
            "PATCH",
            f"{PATH}/status",
            "application/apply-patch+yaml",
            {"fieldManager": "podium-controller", "force": "true"},
            {
                "apiVersion": REF.apiVersion,
                "kind": "PodGroup",
                "metadata": {"namespace": "team", "name": "train", "uid": "uid-1", "resourceVersion": "41"},
                "status": {"conditions": []},
            },
        ),
    ),
    (
        "finalizers are the whole list",
        SetFinalizers(REF, "uid-1", "41", ("other.io/x", "mine.io/y")),
        Sent(
            "PATCH",
            PATH,
            "application/merge-patch+json",
            {"fieldManager": "podium-controller"},
            {
                "metadata": {
                    "uid": "uid-1",
                    "resourceVersion": "41",
                    "finalizers": ["other.io/x", "mine.io/y"],
                }
            },
        ),
    ),
    (
        "a group is made only if there is none",
        CreateGroup(REF, {"apiVersion": REF.apiVersion, "kind": "PodGroup", "spec": {"x": 1}}),
        Sent(
            "POST",
            PATH.rpartition("/")[0],
            "application/json",
            {"fieldManager": "podium-auto-groups"},
            {"apiVersion": REF.apiVersion, "kind": "PodGroup", "spec": {"x": 1}},
        ),
    ),
    (
        "a group is applied by another manager, whose fields are its spec",
        ApplyGroup(REF, {"apiVersion": REF.apiVersion, "kind": "PodGroup", "spec": {"x": 1}}),
        Sent(
            "PATCH",
            PATH,
            "application/apply-patch+yaml",
            {"fieldManager": "podium-auto-groups", "force": "true"},
            {"apiVersion": REF.apiVersion, "kind": "PodGroup", "spec": {"x": 1}},
        ),
    ),
]


@pytest.mark.parametrize(("action", "want"), [case[1:] for case in WRITES], ids=[case[0] for case in WRITES])
async def test_each_write_is_one_request(api: Api, tmp_path: Path, action: Action, want: Sent) -> None:
    """Each action is one request, and returns the resourceVersion of the answer."""
    outcome, counted = await perform(api, tmp_path, action)
    assert outcome == 42
    assert api.sent == [want]
    assert [result for _, result in counted] == ["written"]


UID = (
    'PodGroup.scheduling.podium.dev "train" is invalid: metadata.uid: Invalid value: "uid-1": '
    "field is immutable"
)
ANSWERS: list[tuple[str, tuple[int, str, str], type[Exception], bool, str]] = [
    ("changed since", (409, "Conflict", "the object has been modified"), StaleError, False, "conflict"),
    ("another of its name", (422, "Invalid", UID), StaleError, True, "gone"),
    ("no more", (404, "NotFound", "not found"), StaleError, True, "gone"),
    ("invalid otherwise", (422, "Invalid", "status.conditions: too long"), RefusedError, False, "failed"),
    ("not allowed", (403, "Forbidden", "no"), RefusedError, False, "failed"),
    ("a server in trouble", (500, "InternalError", "etcd"), RefusedError, False, "failed"),
]


@pytest.mark.parametrize(
    ("answer", "error", "gone", "result"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS]
)
async def test_answers_have_the_documented_meaning(
    api: Api, tmp_path: Path, answer: tuple[int, str, str], error: type[Exception], *, gone: bool, result: str
) -> None:
    """A stale write raises an error; no request is sent twice."""
    api.answer = lambda: status(*answer)
    outcome, counted = await perform(api, tmp_path, STATUS)
    assert type(outcome) is error
    assert getattr(outcome, "gone", False) is gone
    assert counted == [("conditions", result)]
    assert len(api.sent) == 1


async def test_a_busy_server_is_not_waited_for_here(api: Api, tmp_path: Path) -> None:
    """A 429 is returned at once with the server's delay: the lease may end meanwhile."""
    api.answer = lambda: status(429, "TooManyRequests", "later", Retry_After="7")
    outcome, _ = await perform(api, tmp_path, STATUS)
    assert isinstance(outcome, RefusedError)
    assert outcome.retry_after == 7
    assert len(api.sent) == 1


async def test_nothing_is_sent_when_the_lease_is_over(api: Api, tmp_path: Path) -> None:
    """The request is not sent, although the connection is open."""
    counted: list[Any] = []
    left = [inf, 0.0, inf]
    async with connect(api.fake.kubeconfig(tmp_path), None) as connection:
        writer = Writer(connection, lambda: left.pop(0), lambda what, result: counted.append((what, result)))
        await writer.perform(STATUS)
        with pytest.raises(TimeoutError):
            await writer.perform(STATUS)
        await writer.perform(STATUS)
    assert len(api.sent) == 2
    assert [result for _, result in counted] == ["written", "failed", "written"]
