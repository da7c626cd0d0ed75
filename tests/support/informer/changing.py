"""An API server whose resources change: lists that continue as watches, under a clock that tests set."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.support.connection.fake import Fake, serving, status
from tests.support.informer.history import bookmark, event
from tests.support.waiting import PATIENCE_SECONDS

from podium.api.reads import Kind
from podium.kube.cache import InformerCache
from podium.kube.connection import connect


class Time:
    """A clock that moves only in `move`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock has reached the end."""
        self.waits.append(seconds)
        done = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, done))
        await done

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock and wake the sleepers that are due."""
        self.now += seconds
        for due, done in self._sleepers:
            if due <= self.now and not done.done():
                done.set_result(None)
        self._sleepers = [each for each in self._sleepers if not each[1].done()]


class Resource:
    """A resource with its objects, which it sends to every watch.

    A `refusal`, if set, is the answer to all requests, and `expired` to watches. `version_refusal` is the
    answer to reads of the version only.
    """

    def __init__(self, version: int, *objects: dict[str, Any]) -> None:
        self.version = version
        self.objects = {each["metadata"]["name"]: each for each in objects}
        self.refusal: tuple[int, str] | None = None
        self.version_refusal: tuple[int, str] | None = None
        self.expired = False
        # The lines that were sent, each with its version.
        self._log: list[tuple[int, bytes]] = []
        self._told = asyncio.Condition()
        self._open = True

    def change(self, type_: str, obj: dict[str, Any]) -> bytes:
        """Change an object, and return the event, which is not sent."""
        self.version = int(obj["metadata"]["resourceVersion"])
        self.objects[obj["metadata"]["name"]] = obj
        if type_ == "DELETED":
            del self.objects[obj["metadata"]["name"]]
        return event(type_, obj)

    async def tell(self, type_: str, obj: dict[str, Any]) -> None:
        """Change an object and send the event."""
        await self.send(self.change(type_, obj))

    async def refuse(self, code: int, reason: str) -> None:
        """Refuse all further requests, and end the watches."""
        self.refusal = (code, reason)
        self._open = False
        await self.send(b"")

    async def hold(self) -> None:
        """Send nothing more."""
        await asyncio.Event().wait()

    def allow(self) -> None:
        """Answer requests again."""
        self.refusal = None
        self._open = True

    async def send(self, line: bytes) -> None:
        """Send a line to all watches."""
        async with self._told:
            self._log.append((self.version, line))
            self._told.notify_all()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a watch, or the only page of a list."""
        if self.refusal is not None:
            return status(*self.refusal, "because")
        if "limit" in request.query:
            if self.version_refusal is not None:
                return status(*self.version_refusal, "because")
            items = list(self.objects.values())[: int(request.query["limit"])]
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        known = request.query.get("resourceVersion")
        if known is not None and self.expired:
            return status(410, "Expired", "because")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        logged = len(self._log)
        await response.prepare(request)
        if known is not None:
            logged = sum(version <= int(known) for version, _ in self._log)
        if "sendInitialEvents" in request.query:
            for obj in self.objects.values():
                await response.write(event("ADDED", obj))
            await response.write(bookmark(self.version, ends_list=True))
        # A client that ends a watch may close it during a write.
        with suppress(ConnectionError):
            while self._open:
                async with self._told:
                    await self._told.wait_for(lambda: len(self._log) > logged)  # noqa: B023 - called at once
                for _, line in self._log[logged:]:
                    if line:
                        await response.write(line)
                logged = len(self._log)
        return response


class Scene:
    """A cluster that watches a fake server."""

    def __init__(
        self, fake: Fake, cluster: InformerCache, time: Time, logged: list[tuple[str, dict[str, Any]]]
    ) -> None:
        self.fake = fake
        self.cluster = cluster
        self.state = cluster.state
        self.time = time
        self.logged = logged

    async def until(self, reached: Callable[[], bool], *, step: float = 0.0) -> None:
        """Wait until a condition holds, checked after each turn of the loop; `step` seconds pass in each."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached():
                self.time.advance(step)
                await asyncio.sleep(0.001)

    async def look(self) -> None:
        """Advance the clock until the server has had one more discovery request."""
        before = self.looks
        await self.until(lambda: self.looks > before, step=1.0)

    def serves_native(self) -> bool:
        """Return whether the native field counts."""
        return self.state.native_served

    @property
    def looks(self) -> int:
        """The number of discovery requests."""
        return sum(path == "/apis" for _, path, _ in self.fake.requests)

    def events(self) -> list[str]:
        """Return the log events, each with its resource."""
        return [" ".join([what, fields.get("resource", "")]).strip() for what, fields in self.logged]


@asynccontextmanager
async def following(
    fake: Fake,
    folder: Path,
    kinds: tuple[Kind, ...],
    resources: dict[str, Resource],
    groups: tuple[str, ...] = (),
    *,
    optional: tuple[Kind, ...] = (),
) -> AsyncIterator[Scene]:
    """Watch some kinds of a fake server: resources by path, and groups that will be served later.

    Kinds in `optional` are not waited for while they are denied.
    """
    for path, resource in resources.items():
        fake.answers[path] = resource.answer
    time = Time()
    logged: list[tuple[str, dict[str, Any]]] = []
    async with serving(fake), connect(fake.kubeconfig(folder), None) as connection:
        cluster = InformerCache(
            connection,
            kinds,
            optional=optional,
            groups=groups,
            clock=time.clock,
            sleep=time.sleep,
            random=lambda: 0.0,
            log_event=lambda what, fields: logged.append((what, json.loads(json.dumps(fields)))),
        )
        task = asyncio.create_task(cluster.run())
        try:
            yield Scene(fake, cluster, time, logged)
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task
