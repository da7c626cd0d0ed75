"""The reads that explain a rollout, from a server that answers as it should, refuses, or has no log."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, page, serving, status
from tests.support.rollout.objects import (
    CONTAINER,
    LABELS,
    NAMESPACE,
    POD,
    Document,
    crashing,
    deployment,
    pod,
    replica_set,
    running,
)

from podium.kube.connection import connect
from podium.ops import rolling
from podium.ops.rolling import evidence, log_lines, read_rollout
from podium.ops.rollout import ContainerLog

_LOG = f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}/log"
_CURRENT = ContainerLog(POD, CONTAINER)
_TITLE = f"log of pod {POD}, container {CONTAINER}"
_KINDS = {
    f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets": "ReplicaSet",
    f"/api/v1/namespaces/{NAMESPACE}/pods": "Pod",
    f"/api/v1/namespaces/{NAMESPACE}/events": "Event",
}


def _answers(response: Callable[[], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        del request
        return response()

    return answer


def _cluster(*pods: Document) -> Fake:
    fake = Fake()
    items: dict[str, list[Document]] = {"ReplicaSet": [replica_set()], "Pod": list(pods), "Event": []}
    fake.answers = {path: _answers(partial(page, kind, items[kind])) for path, kind in _KINDS.items()}
    return fake


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("", [f"{_TITLE}: empty"]),
        ("one\ntwo\n", [f"{_TITLE}, last lines:", "  one", "  two"]),
        (
            "\n".join(map(str, range(30))),
            [f"{_TITLE}, last lines:", *(f"  {each}" for each in range(20, 30))],
        ),
        ("x" * 900, [f"{_TITLE}, last lines:", f"  {'x' * 497}…"]),
    ],
)
async def test_the_last_lines_of_a_log(tmp_path: Path, body: str, want: list[str]) -> None:
    fake = Fake()
    fake.answers[_LOG] = _answers(lambda: web.Response(text=body))
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        assert await log_lines(connection, NAMESPACE, _CURRENT) == want
    ((_, _, query),) = fake.requests
    assert query == {"container": CONTAINER, "tailLines": "10", "limitBytes": "32000"}


async def test_the_log_before_a_restart(tmp_path: Path) -> None:
    """The running container has another log than the one that crashed."""
    fake = Fake()
    fake.answers[_LOG] = _answers(lambda: web.Response(text="bad\n"))
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        found = await log_lines(connection, NAMESPACE, _CURRENT._replace(previous=True))
    assert found == [f"{_TITLE}, before its restart, last lines:", "  bad"]
    assert fake.requests[0][2]["previous"] == "true"


async def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    """The reason is the API server's: a missing right, or a kubelet that has no such container."""
    fake = Fake()
    message = f'container "{CONTAINER}" in pod "{POD}" is waiting to start: trying and failing to pull image'
    fake.answers[_LOG] = _answers(lambda: status(400, "BadRequest", message))
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        assert await log_lines(connection, NAMESPACE, _CURRENT) == [f"{_TITLE}: not read: {message}"]


async def test_a_kubelet_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "_LOG_SECONDS", 0.1)

    async def never(request: web.Request) -> web.Response:
        del request
        await asyncio.Event().wait()
        return web.Response()

    fake = Fake()
    fake.answers[_LOG] = never
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        found = await log_lines(connection, NAMESPACE, _CURRENT)
    assert found == [f"{_TITLE}: not read: no answer within 0 s"]


async def test_a_cause_comes_with_its_log(tmp_path: Path) -> None:
    fake = _cluster(pod(crashing(2)))
    fake.answers[_LOG] = _answers(lambda: web.Response(text="no certificate\n"))
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        report = await read_rollout(connection, deployment(updatedReplicas=1))
        lines = await evidence(connection, report)
    assert lines == [str(report.state.causes[0]), f"{_TITLE}, last lines:", "  no certificate"]
    selectors = [query.get("labelSelector") for _, _, query in fake.requests[:2]]
    assert selectors == [",".join(f"{name}={value}" for name, value in LABELS.items())] * 2
    assert fake.requests[2][2]["fieldSelector"] == "type=Warning"


async def test_without_a_cause_the_logs_of_running_pods_are_shown(tmp_path: Path) -> None:
    """For a condition that the process itself brings about, such as the caBundle."""
    fake = _cluster(pod(running(ready=True)))
    fake.answers[_LOG] = _answers(lambda: web.Response(text="certificates not kept\n"))
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        complete = deployment(updatedReplicas=2, replicas=2, availableReplicas=2)
        lines = await evidence(connection, await read_rollout(connection, complete))
    assert lines == [f"{_TITLE}, last lines:", "  certificates not kept"]


async def test_unread_lists_are_listed(tmp_path: Path) -> None:
    """The rollout is followed without it."""
    fake = _cluster(pod(crashing(2)))
    for path in list(fake.answers)[1:]:
        fake.answers[path] = _answers(lambda: status(403, "Forbidden", "you may not"))
    async with serving(fake), connect(fake.kubeconfig(tmp_path), None) as connection:
        report = await read_rollout(connection, deployment(updatedReplicas=1))
        lines = await evidence(connection, report)
    assert report.state.lacks == "has 1 of 2 new pods"
    assert [line.partition(": ")[0] for line in lines] == ["pods not read", "events not read"]
    assert all("you may not" in line for line in lines)
