"""The elector on the real connection: no busy or silent server delays it beyond its window."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, serving, status
from tests.support.lease.world import NAME, NAMESPACE, PATH
from tests.support.waiting import PATIENCE_SECONDS

from podium.kube.connection import connect
from podium.runtime.host import steady
from podium.runtime.leaderelection import Elector, LostError
from podium.runtime.leaserecord import Terms

_TERMS = Terms(lease_seconds=2.0, renew_seconds=1.0, retry_seconds=0.2)


class _Lease:
    """A server of one Lease; after three writes it is `broken` in some way, and `passed` is set."""

    def __init__(self, broken: str) -> None:
        self.writes = 0
        self.lease: dict[str, Any] | None = None
        self.passed = asyncio.Event()
        self._broken = broken
        self._never = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return status(404, "NotFound", "none") if self.lease is None else web.json_response(self.lease)
        self.writes += 1
        if self.writes > 3:
            self.passed.set()
            if self._broken:
                return await self._break(request)
        lease = json.loads(await request.read())
        lease["metadata"] |= {"uid": "u", "resourceVersion": str(self.writes)}
        self.lease = lease
        return web.json_response(lease, status=201 if request.method == "POST" else 200)

    async def _break(self, request: web.Request) -> web.StreamResponse:
        if self._broken == "busy":
            return status(429, "TooManyRequests", "come back later", Retry_After="30")
        if self._broken == "cut":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        await self._never.wait()
        raise AssertionError


@asynccontextmanager
async def _electing(server: _Lease, folder: Path) -> AsyncIterator[tuple[Elector, list[str]]]:
    fake = Fake()
    fake.answers[PATH] = server.answer
    fake.answers[f"{PATH}/{NAME}"] = server.answer
    logged: list[str] = []
    async with serving(fake), connect(fake.kubeconfig(folder), None) as connection:
        yield (
            Elector(
                connection,
                NAMESPACE,
                NAME,
                "a",
                terms=_TERMS,
                clock=steady,
                now=lambda: datetime.now(UTC),
                sleep=asyncio.sleep,
                random=random.random,
                log_event=lambda event, _fields: logged.append(event),
            ),
            logged,
        )


async def _for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("broken", ["busy", "hung", "cut"])
async def test_no_call_outlives_the_window(tmp_path: Path, broken: str) -> None:
    """With Retry-After of 30 s, without an answer or with a closed connection, the lease is lost in time."""
    async with _electing(_Lease(broken), tmp_path) as (elector, logged):
        ended = asyncio.Event()

        async def lead() -> None:
            try:
                await _for_ever()
            finally:
                ended.set()

        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(LostError, match=r"lease system/controller: lost: not renewed within 1 s: "):
                await elector.run(lead)
        assert ended.is_set()
        assert elector.remaining() == 0
        assert (logged[0], logged[-1]) == ("leading", "lease lost")
        assert "lease not reached" in logged


async def _stopped(elector: Elector, server: _Lease) -> None:
    """Run an elector until the server has reached this point, and stop it; it ends in order."""
    running = asyncio.ensure_future(elector.run(_for_ever))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.passed.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_stop_while_a_call_hangs_is_a_clean_one(tmp_path: Path) -> None:
    """The call is cancelled at once, and the release within its own time."""
    server = _Lease("hung")
    async with _electing(server, tmp_path) as (elector, logged):
        await _stopped(elector, server)
        assert logged[-1] == "lease not released"


async def test_a_quiet_lease_is_kept_and_given_back(tmp_path: Path) -> None:
    server = _Lease("")
    async with _electing(server, tmp_path) as (elector, logged):
        await _stopped(elector, server)
        assert logged == ["leading", "lease released"]
        assert server.lease is not None
        assert server.lease["spec"]["holderIdentity"] == ""
