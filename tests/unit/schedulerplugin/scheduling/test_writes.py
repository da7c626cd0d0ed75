"""The request that each write sends, the meaning of its answers, and its end with the lease."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, serving, status

from podium.api.findings import ObjectRef
from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.kube.connection import RefusedError, SilentError, connect
from podium.kube.preconditions import LeaseOverError, StaleError, fenced
from podium.planner.liveplugin import ChangedError, GoneError
from podium.schedulerplugin.live.writes import RESULTS, TakenError, Writes
from podium.schedulerplugin.live.writes import WRITES as KINDS
from podium.schedulerplugin.scheduling.effects import PodRef

POD = PodRef("team", "p", "uid-p")
PATH = "/api/v1/namespaces/team/pods/p"
LIMIT = 3
GROUP = ObjectRef("scheduling.podium.dev/v1beta1", "PodGroup", "team", "train")
GROUP_PATH = "/apis/scheduling.podium.dev/v1beta1/namespaces/team/podgroups/train"
CONDITION = Condition("DisruptionTarget", "True", "PreemptionByScheduler", "why", "2026-11-21T10:00:00Z")
WRITTEN = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "why",
    "lastTransitionTime": "2026-11-21T10:00:00Z",
}

Work = Callable[[Writes], Awaitable[None]]
# The server's answer to one request; None cuts the connection.
Say = Callable[[], web.StreamResponse] | None


class Sent(NamedTuple):
    """A request as the server received it."""

    method: str
    path: str
    content_type: str | None
    query: dict[str, str]
    body: Any


class Api:
    """A server with answers in turn, the last one for ever."""

    def __init__(self) -> None:
        self.fake = Fake()
        self.sent: list[Sent] = []
        self.says: Iterator[Say] = iter(())
        # While it is not set, no request gets an answer.
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        self.most = 0
        # As many requests wait as may be in flight.
        self.full = asyncio.Event()
        for path in (PATH, f"{PATH}/binding", f"{PATH}/status", f"{GROUP_PATH}/status"):
            self.fake.answers[path] = self._take

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        kind = request.headers.get("Content-Type") if body else None
        value = json.loads(body) if body else None
        self.sent.append(Sent(request.method, request.path, kind, dict(request.query), value))
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == LIMIT:
            self.full.set()
        await self.open.wait()
        self.waiting -= 1
        answer = next(self.says, _ok)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return answer()

    @property
    def methods(self) -> str:
        return " ".join(request.method for request in self.sent)


class World(NamedTuple):
    """The server, the writes to it, and their counts and waits."""

    api: Api
    writes: Writes
    counted: list[tuple[str, str]]
    waits: list[float]
    lease: list[float]  # the seconds left, the last repeated

    async def outcome(self, work: Work) -> PodiumError | None:
        """Write; return the error, if there is one."""
        try:
            await work(self.writes)
        except PodiumError as error:
            return error
        return None


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Yield a healthy server, a lease without end, and three writes at a time."""
    api, counted, waits, lease = Api(), list[tuple[str, str]](), list[float](), [inf]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def remaining() -> float:
        return lease.pop(0) if len(lease) > 1 else lease[0]

    def count(what: str, how: str) -> None:
        assert what in KINDS
        assert how in RESULTS
        counted.append((what, how))

    async with serving(api.fake), connect(api.fake.kubeconfig(tmp_path), None, sleep=sleep) as connection:
        writes = Writes(connection, remaining, limit=LIMIT, sleep=sleep, random=lambda: 0.0, counted=count)
        yield World(api, writes, counted, waits, lease)


def _ok() -> web.StreamResponse:
    return web.json_response({"kind": "Status", "status": "Success"}, status=201)


def _says(code: int, reason: str = "", message: str = "", **headers: str) -> Say:
    return lambda: status(code, reason, message, **headers)


def _stored(node: str = "", uid: str = "uid-p", deleted: str | None = None, version: str = "7") -> Say:
    metadata = {"name": "p", "uid": uid, "deletionTimestamp": deleted, "resourceVersion": version}
    return lambda: web.json_response({"metadata": metadata, "spec": {"nodeName": node} if node else {}})


async def _bind(writes: Writes) -> None:
    await writes.bind(POD, "n1")


async def _nominate(writes: Writes) -> None:
    await writes.nominate(POD, "n1", CONDITION)


async def _clear(writes: Writes) -> None:
    await writes.nominate(POD, None, None)


async def _mark(writes: Writes) -> None:
    await writes.mark(POD, CONDITION)


async def _ask(writes: Writes) -> None:
    await writes.mark(POD, CONDITION, requested="2026-11-21T11:00:00Z")


async def _withdraw(writes: Writes) -> None:
    await writes.mark(POD, msgspec.structs.replace(CONDITION, status="False"))


async def _mark_version(writes: Writes) -> None:
    await writes.mark(POD, CONDITION, "7")


async def _delete(writes: Writes) -> None:
    await writes.delete(POD)


async def _try(writes: Writes) -> None:
    await writes.try_delete(POD)


async def _apply(writes: Writes) -> None:
    await writes.apply_group(GROUP, "uid-g", (CONDITION,))


OURS = {"fieldManager": "podium-scheduler", "fieldValidation": "Ignore"}
STRATEGIC = "application/strategic-merge-patch+json"

DELETE_OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-p"}}


def _patch(status: dict[str, Any], **metadata: Any) -> Sent:
    body = {"metadata": {"uid": "uid-p", **metadata}, "status": status}
    return Sent("PATCH", f"{PATH}/status", STRATEGIC, OURS, body)


BINDING = {
    "metadata": {"name": "p", "uid": "uid-p"},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
}
APPLIED = {
    "apiVersion": GROUP.apiVersion,
    "kind": "PodGroup",
    "metadata": {"namespace": "team", "name": "train", "uid": "uid-g"},
    "status": {"conditions": [WRITTEN]},
}
WRITES: list[tuple[str, Work, Sent]] = [
    ("bind", _bind, Sent("POST", f"{PATH}/binding", "application/json", OURS, BINDING)),
    ("nominate", _nominate, _patch({"nominatedNodeName": "n1", "conditions": [WRITTEN]})),
    ("nominate", _clear, _patch({"nominatedNodeName": None})),
    ("mark", _mark, _patch({"conditions": [WRITTEN]})),
    ("mark", _mark_version, _patch({"conditions": [WRITTEN]}, resourceVersion="7")),
    (
        "mark",
        _ask,
        _patch(
            {"conditions": [WRITTEN]},
            annotations={"scheduling.podium.dev/save-requested": "2026-11-21T11:00:00Z"},
        ),
    ),
    (
        "mark",
        _withdraw,
        _patch(
            {"conditions": [{**WRITTEN, "status": "False"}]},
            annotations={"scheduling.podium.dev/save-requested": None},
        ),
    ),
    ("delete", _delete, Sent("DELETE", PATH, "application/json", OURS, DELETE_OPTIONS)),
    (
        "group",
        _apply,
        Sent(
            "PATCH",
            f"{GROUP_PATH}/status",
            "application/apply-patch+yaml",
            {"fieldManager": "podium-scheduler", "force": "true"},
            APPLIED,
        ),
    ),
]


async def test_a_delete_is_tried_without_effect(world: World) -> None:
    """It is no write, so it is not counted; a webhook that takes no dry run says nothing about the pod."""
    unable = _says(400, "BadRequest", 'admission webhook "w" does not support dry run')
    world.api.says = iter([_ok, unable, DENIALS[403]])
    assert [type(await world.outcome(_try)) for _ in range(3)] == [type(None), type(None), RefusedError]
    assert [request.body for request in world.api.sent] == [{**DELETE_OPTIONS, "dryRun": ["All"]}] * 3
    assert world.counted == []


async def test_a_pod_at_the_size_limit_loses_a_condition_before_it_is_deleted(world: World) -> None:
    """A delete adds fields to the pod; the condition is the scheduler's own.

    The version without it is named, because the API server's cache may have the larger one still.
    """
    world.api.says = iter([TOO_LARGE, _stored(version="8")])
    await world.writes.delete(POD)
    status = {"conditions": [{"$patch": "delete", "type": "PodScheduled"}]}
    assert [(request.path, request.body) for request in world.api.sent] == [
        (PATH, DELETE_OPTIONS),
        (f"{PATH}/status", {"metadata": {"uid": "uid-p"}, "status": status}),
        (PATH, {**DELETE_OPTIONS, "preconditions": {"uid": "uid-p", "resourceVersion": "8"}}),
    ]


@pytest.mark.parametrize("case", WRITES, ids=lambda case: f"{case[0]}: {case[1].__name__}")
async def test_each_write_is_one_request(world: World, case: tuple[str, Work, Sent]) -> None:
    """Each write is one request, which names the object by its UID and leaves out empty fields."""
    what, work, want = case
    await work(world.writes)
    assert world.api.sent == [want]
    assert world.counted == [(what, "written")]


UID = 'Pod "p" is invalid: metadata.uid: Invalid value: "uid-p": field is immutable'
LATER = _says(429, "TooManyRequests", "later", Retry_After="3")
TOMORROW = _says(503, "ServiceUnavailable", "later", Retry_After="86400")
CONFLICT = _says(409, "Conflict", "too many others")
ETCD = _says(500, "InternalError", "etcd")
NOT_FOUND = _says(404, "NotFound", "no such pod")
OTHER_UID = _says(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b")
TOO_LARGE = _says(500, "", "etcdserver: request is too large")
TOO_LONG = _says(500, "", "rpc error: trying to send message larger than max (2097153 vs. 2097152)")
NO_WEBHOOK = _says(500, "InternalError", 'Internal error occurred: failed calling webhook "w": no endpoints')
DENIED = 'admission webhook "w" denied the request: no'
DENIALS = {code: _says(code, "", DENIED) for code in (400, 403, 404, 409, 422, 429, 500, 503)}

# The counts of outcomes; any other error counts as failed.
COUNTS: dict[type[Exception] | None, str] = {None: "written", GoneError: "gone", TakenError: "taken"}
# A name, the write, the server's answers in turn, and the error; the methods used, and the waits between.
BOUND = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
ANSWERS: list[tuple[str, Work, list[Say], type[Exception] | None, str, list[float]]] = [
    ("bound", _bind, [_ok], None, "POST", []),
    ("mark what has changed", _mark_version, [CONFLICT], ChangedError, "PATCH", []),
    ("bind no more", _bind, [NOT_FOUND], GoneError, "POST", []),
    ("bind another of its name", _bind, [CONFLICT, _stored(uid="2")], GoneError, "POST GET", []),
    ("bind what goes", _bind, [CONFLICT, _stored(deleted="now")], GoneError, "POST GET", []),
    ("bind what has gone since", _bind, [CONFLICT, NOT_FOUND], GoneError, "POST GET", []),
    ("bind what is taken", _bind, [CONFLICT, _stored("n2")], TakenError, "POST GET", []),
    ("bind what is bound there", _bind, [CONFLICT, _stored("n1")], None, "POST GET", []),
    ("bind: not asked whether a busy server did it", _bind, [LATER, _ok], None, "POST POST", [3]),
    ("bind: lost but done", _bind, [None, _stored("n1")], None, "POST GET", []),
    ("bind: lost and gone", _bind, [None, NOT_FOUND], GoneError, "POST GET", []),
    ("bind: lost, taken", _bind, [None, _stored("n2")], TakenError, "POST GET", []),
    ("bind: lost, not done", _bind, [None, _stored(), _ok], None, "POST GET POST", [0.2]),
    ("bind: in trouble but done", _bind, [ETCD, _stored("n1")], None, "POST GET", []),
    (
        "bind: lost, and the look at it in trouble",
        _bind,
        [None, ETCD, CONFLICT, _stored("n1")],
        None,
        "POST GET POST GET",
        [0.2],
    ),
    (
        "bind: never done",
        _bind,
        [ETCD, _stored()] * 5,
        RefusedError,
        " ".join(["POST GET"] * 5),
        [0.2, 0.4, 0.8, 1.6],
    ),
    ("bind what may not be", _bind, [_says(403, "Forbidden", "no")], RefusedError, "POST", []),
    ("mark no more", _mark, [NOT_FOUND], GoneError, "PATCH", []),
    ("mark another of its name", _mark, [_says(422, "Invalid", UID)], GoneError, "PATCH", []),
    ("mark: invalid", _mark, [_says(422, "Invalid", "status: x")], RefusedError, "PATCH", []),
    ("mark: lost", _mark, [None, _ok], None, "PATCH PATCH", [0.2]),
    ("mark: others write", _mark, [CONFLICT, _ok], None, "PATCH PATCH", [0.2]),
    (
        "mark: others always write",
        _mark,
        [CONFLICT] * 5,
        StaleError,
        " ".join(["PATCH"] * 5),
        [0.2, 0.4, 0.8, 1.6],
    ),
    ("nominate what was bound since", _nominate, [_says(422, "Invalid", BOUND)], GoneError, "PATCH", []),
    ("nominate: in trouble", _nominate, [ETCD, LATER, _ok], None, "PATCH PATCH PATCH", [0.2, 3]),
    ("mark: waits less than Retry-After", _mark, [TOMORROW] * 2, None, "PATCH PATCH PATCH", [30, 30]),
    ("nominate no more", _nominate, [NOT_FOUND], GoneError, "PATCH", []),
    ("delete no more", _delete, [NOT_FOUND], None, "DELETE", []),
    ("delete another of its name", _delete, [OTHER_UID], None, "DELETE", []),
    ("delete: a conflict", _delete, [CONFLICT, _ok], None, "DELETE DELETE", [0.2]),
    ("delete: full", _delete, [TOO_LARGE, _stored(), _ok], None, "DELETE PATCH DELETE", []),
    ("delete: full and gone", _delete, [TOO_LARGE, NOT_FOUND], None, "DELETE PATCH", []),
    (
        "delete: full and written by others",
        _delete,
        [TOO_LARGE, _stored(), CONFLICT, _ok],
        None,
        "DELETE PATCH DELETE DELETE",
        [0.2],
    ),
    (
        "delete: always full",
        _delete,
        [TOO_LARGE, _stored(), TOO_LARGE],
        RefusedError,
        "DELETE PATCH DELETE",
        [],
    ),
    *[
        (f"delete: a webhook denies it with {code}", _delete, [says], RefusedError, "DELETE", [])
        for code, says in DENIALS.items()
    ],
    ("delete: a webhook is away", _delete, [NO_WEBHOOK], RefusedError, "DELETE", []),
    ("mark: too large", _mark, [TOO_LARGE], RefusedError, "PATCH", []),
    ("mark: too large for a client", _mark, [TOO_LONG], RefusedError, "PATCH", []),
    ("mark: too large for a server", _mark, [_says(413)], RefusedError, "PATCH", []),
    ("mark: a webhook says not found", _mark, [DENIALS[404]], RefusedError, "PATCH", []),
    ("bind: too large", _bind, [TOO_LARGE, _stored()], RefusedError, "POST GET", []),
    ("delete: in trouble", _delete, [ETCD, _ok], None, "DELETE DELETE", [0.2]),
    ("delete: not allowed", _delete, [_says(403, "Forbidden", "no")], RefusedError, "DELETE", []),
    ("group no more", _apply, [NOT_FOUND], GoneError, "PATCH", []),
    ("group: lost", _apply, [None, _ok], None, "PATCH PATCH", [0.2]),
]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case[0])
async def test_answers_have_the_documented_meaning(
    world: World, case: tuple[str, Work, list[Say], type[Exception] | None, str, list[float]]
) -> None:
    """A pod that is gone or bound is no failure; an unknown result is read again for a while."""
    _, work, says, error, asked, waits = case
    world.api.says = iter(says)
    outcome = await world.outcome(work)
    assert type(outcome) is (error or type(None)), outcome
    assert [result for _, result in world.counted] == [COUNTS.get(error, "failed")]
    assert world.api.methods == asked
    assert world.waits == waits


async def test_a_taken_pod_says_where_it_is(world: World) -> None:
    world.api.says = iter([CONFLICT, _stored("n2")])
    with pytest.raises(TakenError, match=r"^pod team/p is bound already, to node n2$") as taken:
        await _bind(world.writes)
    assert taken.value.node == "n2"


async def test_a_delete_with_a_lost_answer_is_repeated(world: World) -> None:
    """A second delete is harmless: it names the UID, and the grace period began with the first."""
    world.api.says = iter([None, None, None, NOT_FOUND])
    assert await world.outcome(_delete) is None
    assert set(world.api.methods.split()) == {"DELETE"}


async def test_nothing_is_sent_when_the_lease_is_over(world: World) -> None:
    world.lease[:] = [0.0]
    for _, work, _ in WRITES:
        assert isinstance(await world.outcome(work), LeaseOverError)
    assert world.api.sent == []
    assert {how for _, how in world.counted} == {"failed"}


async def test_nothing_is_asked_again_when_the_lease_is_over(world: World) -> None:
    """The lease may end during a pause for a busy server, or before the result of a write is read."""
    world.lease[:] = [inf, 0.0]
    world.api.says = iter([LATER])
    assert isinstance(await world.outcome(_mark), LeaseOverError)
    world.lease[:] = [inf, 0.0]
    world.api.says = iter([ETCD])
    assert isinstance(await world.outcome(_bind), LeaseOverError)
    assert world.api.methods == "PATCH POST"


async def test_a_request_ends_with_the_lease(world: World) -> None:
    """No step follows from it, whatever its result."""
    world.lease[:] = [0.05, 0.0]
    world.api.open.clear()
    assert isinstance(await world.outcome(_delete), LeaseOverError)
    world.api.open.set()


async def test_a_request_may_outlast_a_lease_that_was_renewed_meanwhile() -> None:
    """The request has no result yet, but the lease is not over."""
    left = iter([0.01, inf])
    with pytest.raises(SilentError):
        await fenced(lambda: next(left), asyncio.get_running_loop().create_future)


async def test_only_so_many_at_a_time(world: World) -> None:
    """Others wait until one has its answer, and callers can see that."""
    world.api.open.clear()
    assert not _is_busy(world.writes)
    work = [asyncio.create_task(_bind(world.writes)) for _ in range(7)]
    await asyncio.wait_for(world.api.full.wait(), 30)
    assert _is_busy(world.writes)
    world.api.open.set()
    await asyncio.gather(*work)
    assert world.api.most == world.writes.limit
    assert len(world.api.sent) == 7
    assert not _is_busy(world.writes)


async def test_evictions_leave_slots_for_binds(world: World) -> None:
    """However many pods are marked and deleted, a bind does not queue behind them."""
    world.api.open.clear()
    evicting = [asyncio.create_task(work(world.writes)) for work in (_mark, _delete) * 20]
    binding = asyncio.create_task(_bind(world.writes))
    await asyncio.wait_for(world.api.full.wait(), 30)
    assert [request.method for request in world.api.sent].count("POST") == 1
    world.api.open.set()
    await asyncio.gather(binding, *evicting)
    assert world.api.most == world.writes.limit


def _is_busy(writes: Writes) -> bool:
    return writes.busy


async def test_writes_that_wait_for_a_busy_server_do_not_block_others(world: World) -> None:
    """A pause takes no slot."""
    free: list[bool] = []
    writes = world.writes

    async def sleep(_seconds: float) -> None:
        free.append(not writes.busy)

    writes._sleep = sleep
    world.api.says = iter([LATER] * 3)
    await asyncio.gather(*(_clear(writes) for _ in range(3)))
    assert free[-1]
