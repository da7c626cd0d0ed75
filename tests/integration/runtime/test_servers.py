"""Electors on real API servers: takeovers, and the server's answer to each of their writes."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import kubeconfig_of
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS

from podium.kube.connection import connect
from podium.runtime.host import steady
from podium.runtime.leaderelection import Elector, LostError
from podium.runtime.leaserecord import Terms

pytestmark = pytest.mark.server

_NAME = "podium-controller"
# Long enough for a busy machine.
_TERMS = Terms(lease_seconds=6.0, renew_seconds=4.0, retry_seconds=0.3)
_LONG = Terms(lease_seconds=3600.0, renew_seconds=60.0, retry_seconds=0.3)


class _Replica:
    """A candidate like that of a process; `leads` is set while its work runs."""

    def __init__(self, elector: Elector) -> None:
        self.elector = elector
        self.leads = asyncio.Event()
        self.logged: list[str] = []
        self.task = asyncio.ensure_future(elector.run(self._lead))

    async def _lead(self) -> None:
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()

    async def stop(self) -> None:
        """Stop in order, as at SIGTERM."""
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task

    async def until(self, reached: Callable[[], Awaitable[Any]]) -> None:
        """Wait for an event, or for a failure."""
        waiting = asyncio.ensure_future(reached())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait((waiting, self.task), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self.task.result()


@asynccontextmanager
async def _replica(
    kubeconfig: Path, namespace: str, identity: str, terms: Terms = _TERMS
) -> AsyncIterator[_Replica]:
    async with connect(str(kubeconfig), None) as connection:
        logged: list[str] = []
        elector = Elector(
            connection,
            namespace,
            _NAME,
            identity,
            terms=terms,
            clock=steady,
            now=lambda: datetime.now(UTC),
            sleep=asyncio.sleep,
            random=random.random,
            log_event=lambda event, _fields: logged.append(event),
        )
        replica = _Replica(elector)
        replica.logged = logged
        try:
            yield replica
        finally:
            replica.task.cancel()
            await asyncio.gather(replica.task, return_exceptions=True)


def _path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def _lease(server: Server, namespace: str) -> dict[str, Any]:
    code, lease = server.request("GET", f"{_path(namespace)}/{_NAME}")
    assert code == 200, lease
    assert isinstance(lease, dict)
    return lease


async def test_a_lease_is_made_renewed_and_handed_over(server_without: Server, namespace: str) -> None:
    """The second candidate waits while the first renews, and gets a released lease at once."""
    kubeconfig = server_without.kubeconfig
    async with (
        _replica(kubeconfig, namespace, "first", _LONG) as first,
        _replica(kubeconfig, namespace, "second", _LONG) as second,
    ):
        await first.until(lambda: _any(first, second))
        leader, other = (first, second) if first.leads.is_set() else (second, first)
        before = await asyncio.to_thread(_lease, server_without, namespace)
        assert before["spec"]["holderIdentity"] == leader.elector.leader
        assert before["spec"]["leaseDurationSeconds"] == 3600
        await leader.until(lambda: _renewed(server_without, namespace, before, times=3))
        assert leader.elector.remaining() > 0
        assert other.elector.remaining() == 0
        assert not other.leads.is_set()
        await leader.stop()
        assert leader.logged[-1] == "lease released"
        await other.until(other.leads.wait)
        after = await asyncio.to_thread(_lease, server_without, namespace)
        assert after["spec"]["holderIdentity"] == other.elector.leader
        assert after["spec"]["leaseTransitions"] == 1
        await other.stop()
    released = await asyncio.to_thread(_lease, server_without, namespace)
    assert not released["spec"].get("holderIdentity")
    assert released["spec"]["leaseDurationSeconds"] == 1


async def _any(*replicas: _Replica) -> None:
    waits = [asyncio.ensure_future(each.leads.wait()) for each in replicas]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _renewed(server: Server, namespace: str, before: dict[str, Any], *, times: int) -> None:
    """Wait until the Lease was written this many times since."""
    seen = {before["metadata"]["resourceVersion"]}
    while len(seen) <= times:
        lease = await asyncio.to_thread(_lease, server, namespace)
        seen.add(lease["metadata"]["resourceVersion"])
        await asyncio.sleep(0.05)


async def test_after_a_death_the_lease_is_taken_over_when_it_ends(
    server_without: Server, namespace: str
) -> None:
    """The holder was killed without a release: the second acquires the lease when it expires, not before."""
    kubeconfig = server_without.kubeconfig
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 6, "leaseTransitions": 4}
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"metadata": {"name": _NAME}, "spec": {**dead, "renewTime": stamp, "acquireTime": stamp}}
    code, made = server_without.request("POST", _path(namespace), body)
    assert code == 201, made
    began = steady()
    async with _replica(kubeconfig, namespace, "next") as replica:
        await replica.until(replica.leads.wait)
        assert steady() - began >= 6.0
        assert (replica.elector.leader, replica.elector.transitions) == ("next", 5)
        assert replica.logged == ["another leads", "leading"]


_THEFTS = {
    "taken": (
        ["patch", "lease", _NAME, "--type=merge", '-p={"spec":{"holderIdentity":"thief"}}'],
        "taken by thief",
    ),
    "emptied": (
        ["patch", "lease", _NAME, "--type=merge", '-p={"spec":{"holderIdentity":null}}'],
        "emptied",
    ),
    "deleted": (["delete", "lease", _NAME], "deleted"),
}


@pytest.mark.parametrize(("arguments", "why"), _THEFTS.values(), ids=_THEFTS)
async def test_a_lease_changed_with_kubectl_is_lost_at_the_next_renewal(
    server_137: Server, namespace: str, arguments: list[str], why: str
) -> None:
    """The former holder does not create the Lease again, as a PUT of a Lease could."""
    async with _replica(server_137.kubeconfig, namespace, "first", _LONG) as replica:
        await replica.until(replica.leads.wait)
        await asyncio.to_thread(server_137.kubectl, f"--namespace={namespace}", *arguments)
        with pytest.raises(LostError, match=f": lost: {why};"):
            await replica.until(lambda: asyncio.Event().wait())
        assert not replica.leads.is_set()
    code, left = server_137.request("GET", f"{_path(namespace)}/{_NAME}")
    if why == "deleted":
        assert code == 404, left
    else:
        assert left["spec"].get("holderIdentity", "") == ("thief" if "thief" in why else "")


async def test_a_label_set_with_kubectl_is_kept(server_137: Server, namespace: str) -> None:
    async with _replica(server_137.kubeconfig, namespace, "first", _LONG) as replica:
        await replica.until(replica.leads.wait)
        await asyncio.to_thread(
            server_137.kubectl, f"--namespace={namespace}", "label", "lease", _NAME, "team=x"
        )
        before = await asyncio.to_thread(_lease, server_137, namespace)
        await replica.until(lambda: _renewed(server_137, namespace, before, times=2))
        assert replica.logged == ["leading"]
        after = await asyncio.to_thread(_lease, server_137, namespace)
        assert after["metadata"]["labels"] == {"team": "x"}


async def test_get_create_and_update_are_enough(server_137: Server, namespace: str, tmp_path: Path) -> None:
    """A replica that may not read the Lease logs that; no other verb is needed afterwards."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    ]
    kubeconfig = await asyncio.to_thread(kubeconfig_of, server_137, namespace, rules, tmp_path)
    async with _replica(kubeconfig, namespace, "first", _LONG) as replica:
        await replica.until(replica.leads.wait)
        before = await asyncio.to_thread(_lease, server_137, namespace)
        await replica.until(lambda: _renewed(server_137, namespace, before, times=2))
        await replica.stop()
        assert replica.logged == ["leading", "lease released"]
