"""The Secret store on real API servers: created, shared, contended, deleted, and foreign data kept."""

import asyncio
import base64
from datetime import UTC, datetime

import msgspec
import pytest
from tests.support.servers import Server

from podium.errors import PodiumError
from podium.kube.connection import connect
from podium.webhooks import certificates, rotation
from podium.webhooks.rotation import USUAL, Replica, RotationStep, Stored
from podium.webhooks.stores import SecretStore

pytestmark = pytest.mark.server

_NOW = datetime(2026, 11, 21, tzinfo=UTC)
_NAME = "podium-webhook"


def _stored(replica: str = "a") -> Stored:
    me = Replica(replica, ("127.0.0.1", 9443), ("127.0.0.1",))
    return rotation.advance(None, RotationStep.CREATE, me, _NOW, periods=USUAL, new_key=certificates.new_key)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets/{_NAME}"


async def test_a_secret_is_replaced_by_the_replica_that_read_it_last(server: Server, namespace: str) -> None:
    """Two replicas on two connections keep the data that others put on the Secret."""
    kubeconfig = str(server.kubeconfig)
    async with connect(kubeconfig, None) as first, connect(kubeconfig, None) as second:
        one, two = SecretStore(first, namespace, _NAME), SecretStore(second, namespace, _NAME)
        assert await one.read() == (None, "", "")
        before, after = _stored("1"), _stored("2")
        assert await one.write(before, "")
        assert not await two.write(after, ""), "it is there by now"
        found = await two.read()
        assert found.stored == before
        code, _ = server.request(
            "PATCH", _path(namespace), {"metadata": {"labels": {"team": "a"}}}, "application/merge-patch+json"
        )
        assert code == 200
        assert not await two.write(after, found.version), "it was changed since"
        assert await two.write(after, (await two.read()).version)
        assert (await one.read()).stored == after
    _, secret = server.request("GET", _path(namespace))
    assert secret["type"] == "Opaque"
    assert secret["metadata"]["labels"]["team"] == "a"
    assert secret["metadata"]["labels"]["app.kubernetes.io/component"] == "webhook"
    assert set(secret["data"]) == {"state.json", "ca.crt", "tls.crt", "tls.key"}
    assert base64.b64decode(secret["data"]["ca.crt"]) == after.bundle


async def test_of_writers_racing_one_wins_each_edition(server: Server, namespace: str) -> None:
    """Four replicas append ten reports each: no write is lost, including the creation of the Secret."""

    async def writer(number: int) -> None:
        async with connect(str(server.kubeconfig), None) as connection:
            store, won = SecretStore(connection, namespace, _NAME), 0
            while won < 10:
                found = await store.read()
                if found.stored is None:
                    await store.write(_stored(), found.version)
                    continue
                report = msgspec.structs.replace(found.stored.reports[0], replica=f"{number}-{won}")
                reports = (*found.stored.reports, report)
                won += await store.write(
                    msgspec.structs.replace(found.stored, reports=reports), found.version
                )

    await asyncio.gather(*(writer(number) for number in range(4)))
    async with connect(str(server.kubeconfig), None) as connection:
        stored = (await SecretStore(connection, namespace, _NAME).read()).stored
    assert stored is not None
    assert len({report.replica for report in stored.reports}) == 41


async def test_an_empty_secret_made_beforehand_is_filled(server: Server, namespace: str) -> None:
    """The webhook needs no right to create Secrets."""
    secret = {"metadata": {"name": _NAME, "annotations": {"made-by": "the installer"}}}
    assert server.request("POST", _path(namespace).removesuffix(f"/{_NAME}"), secret)[0] == 201
    async with connect(str(server.kubeconfig), None) as connection:
        store, stored = SecretStore(connection, namespace, _NAME), _stored()
        found = await store.read()
        assert found.stored is None
        assert await store.write(stored, found.version)
        assert (await store.read()).stored == stored
    assert server.request("GET", _path(namespace))[1]["metadata"]["annotations"] == {
        "made-by": "the installer"
    }


async def test_a_secret_deleted_in_between_is_no_error(server: Server, namespace: str) -> None:
    async with connect(str(server.kubeconfig), None) as connection:
        store = SecretStore(connection, namespace, _NAME)
        assert await store.write(_stored(), "")
        found = await store.read()
        assert server.request("DELETE", _path(namespace))[0] == 200
        assert not await store.write(_stored(), found.version)
        assert await store.read() == (None, "", "")


@pytest.mark.parametrize(("state", "want"), [(b"{", "truncated"), (b"[]", "Expected `object`")])
async def test_a_damaged_secret_is_replaced(server: Server, namespace: str, state: bytes, want: str) -> None:
    secret = {"metadata": {"name": _NAME}, "data": {"state.json": base64.b64encode(state).decode()}}
    assert server.request("POST", _path(namespace).removesuffix(f"/{_NAME}"), secret)[0] == 201
    async with connect(str(server.kubeconfig), None) as connection:
        store = SecretStore(connection, namespace, _NAME)
        found = await store.read()
        assert found.stored is None
        assert want in found.damage
        assert f"Secret {namespace}/{_NAME}" in found.damage
        replacement = _stored()
        assert await store.write(replacement, found.version)
        assert (await store.read()).stored == replacement


async def test_a_foreign_secret_is_reported_and_left(server: Server, namespace: str) -> None:
    want = "contains data that is not Podium's"
    secret = {"metadata": {"name": _NAME}, "data": {"tls.crt": "", "tls.key": ""}}
    code, made = server.request("POST", _path(namespace).removesuffix(f"/{_NAME}"), secret)
    assert code == 201
    async with connect(str(server.kubeconfig), None) as connection:
        with pytest.raises(PodiumError, match=want) as raised:
            await SecretStore(connection, namespace, _NAME).read()
    assert f"Secret {namespace}/{_NAME}" in str(raised.value)
    assert server.request("GET", _path(namespace))[1]["data"] == made["data"]


async def test_a_namespace_that_is_missing_is_told(server: Server) -> None:
    async with connect(str(server.kubeconfig), None) as connection:
        store = SecretStore(connection, "no-such-namespace", _NAME)
        assert await store.read() == (None, "", "")
        with pytest.raises(PodiumError, match='namespaces "no-such-namespace" not found'):
            await store.write(_stored(), "")
