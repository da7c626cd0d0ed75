"""The proxy applies its faults: a fault without effect would prove nothing."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.support.proxy import Cut, Delay, Fault, Half, Hold, Proxy, Refuse, Where
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, connect

pytestmark = pytest.mark.server


@pytest.fixture
def proxy(server_137: Server) -> Iterator[Proxy]:
    with Proxy(server_137).running() as running:
        yield running


@pytest.fixture
async def connection(proxy: Proxy, tmp_path: Path) -> AsyncIterator[Connection]:
    async with connect(str(proxy.kubeconfig(tmp_path)), None) as opened:
        yield opened


def _maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _names(server: Server, namespace: str) -> set[str]:
    code, listed = server.request("GET", _maps(namespace))
    assert code == 200, listed
    return {each["metadata"]["name"] for each in listed["items"]}


async def _make(connection: Connection, namespace: str, name: str) -> None:
    await connection.send("POST", _maps(namespace), {"metadata": {"name": name}}, fieldManager="me")


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not reached():  # noqa: ASYNC110 - a thread sends no event
            await asyncio.sleep(0.01)


async def test_without_a_fault_it_is_not_there(
    server_137: Server, namespace: str, proxy: Proxy, connection: Connection
) -> None:
    """Writes, refusals and reads pass, and writes are counted with their field manager."""
    await _make(connection, namespace, "one")
    with pytest.raises(RefusedError, match="409 AlreadyExists"):
        await _make(connection, namespace, "one")
    found = json.loads(await connection.get(_maps(namespace), fieldSelector="metadata.name=one"))
    assert [each["metadata"]["name"] for each in found["items"]] == ["one"]
    assert [(each.method, each.code) for each in proxy.writes(Where(manager="me"))] == [
        ("POST", 201),
        ("POST", 409),
    ]
    assert proxy.writes(Where(manager="other")) == []


@pytest.mark.parametrize(
    "case",
    [
        (Refuse(409, "Conflict"), "409 Conflict", False),
        (Refuse(500, "InternalError", retry_after=7), "500 InternalError", False),
        (Cut(answered=False), "connection lost", False),
        (Cut(answered=True), "connection lost", True),
        (Half(), "connection lost", True),
    ],
    ids=str,
)
async def test_a_fault_strikes_as_often_as_it_is_told(
    case: tuple[Fault, str, bool], namespace: str, proxy: Proxy, connection: Connection
) -> None:
    """The API server gets the request, or not, as the fault requires."""
    fault, error, is_made = case
    where = Where(_maps(namespace), method="POST")
    with proxy.fault(where, fault, times=1) as rule:
        with pytest.raises(PodiumError, match=error):
            await _make(connection, namespace, "struck")
        await _make(connection, namespace, "spared")
    assert rule.hits == 1
    made = [json.loads(each.body)["metadata"]["name"] for each in proxy.writes(where) if each.code == 201]
    assert made == (["struck", "spared"] if is_made else ["spared"])


@pytest.mark.parametrize("fault", [Delay(0.1), Hold()], ids=str)
async def test_a_delayed_request_is_done_even_if_its_client_has_gone(
    fault: Fault, server_137: Server, namespace: str, proxy: Proxy, connection: Connection
) -> None:
    where = Where(_maps(namespace), method="POST")
    with proxy.fault(where, fault) as rule:
        request = asyncio.create_task(_make(connection, namespace, "late"))
        await _until(lambda: rule.hits == 1)
        request.cancel()
        await asyncio.wait({request})
        if isinstance(fault, Hold):
            assert proxy.writes() == []
    await _until(lambda: [each.code for each in proxy.writes(where)] == [201])
    assert "late" in _names(server_137, namespace)


async def test_a_held_and_lost_request_is_never_done(
    server_137: Server, namespace: str, proxy: Proxy, connection: Connection
) -> None:
    """The fault hits the second request with that body, even if its client still waits for the answer."""
    with proxy.fault(Where(body="late"), Hold(lost=True), times=1, skip=1) as held:
        await _make(connection, namespace, "late-1")
        await _make(connection, namespace, "one")
        waiting = asyncio.create_task(_make(connection, namespace, "late-2"))
        await _until(lambda: held.hits == 1)
        await _make(connection, namespace, "late-3")
    with pytest.raises(PodiumError, match="connection lost"):
        await waiting
    assert _names(server_137, namespace) == {"late-1", "one", "late-3"}


async def test_watches_end_as_they_are_told(
    server_137: Server, namespace: str, proxy: Proxy, connection: Connection
) -> None:
    """Watches end with an ERROR event of 410, in the middle of a line, or by a reset, also open ones."""
    where = Where("configmaps", watch=True)
    with proxy.fault(where, Refuse(410, "Expired", in_watch=True), times=1):
        (line,) = [line async for line in _watch(connection, namespace) if line]
        assert json.loads(line)["object"]["code"] == 410

    async with aclosing(_watch(connection, namespace)) as lines:
        assert await anext(lines) == b""
        with proxy.fault(where, Half()) as rule:
            await asyncio.to_thread(
                server_137.request, "POST", _maps(namespace), {"metadata": {"name": "half"}}
            )
            with pytest.raises(PodiumError, match="lost"):
                await anext(lines)
            assert rule.hits == 1

    before = await connection.get(_maps(namespace))
    version = json.loads(before)["metadata"]["resourceVersion"]
    async with aclosing(_watch(connection, namespace, resourceVersion=version)) as lines:
        assert await anext(lines) == b""
        assert proxy.drop(where) == 1
        with pytest.raises(PodiumError, match="lost"):
            assert [line async for line in lines] == []


def _watch(connection: Connection, namespace: str, **query: str) -> AsyncGenerator[bytes, None]:
    return connection.lines(_maps(namespace), silence=PATIENCE_SECONDS, watch="1", **query)
