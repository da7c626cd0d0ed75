"""An API server that answers one resource by a script, and an informer that never waits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web
from tests.support.connection.fake import Fake, serving, status
from tests.support.waiting import PATIENCE_SECONDS

from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.kube.connection import connect
from podium.kube.discovery import Served
from podium.kube.informer import Informer, InformerHooks, at_once
from podium.kube.reflector import Reflector

API_VERSION = "scheduling.k8s.io/v1"
CLASSES = Served(API_VERSION, "PriorityClass", READS[API_VERSION, "PriorityClass"], "priorityclasses", False)
PATH = CLASSES.path("")


class Stream(NamedTuple):
    """A watch's answer: the events, and then `end` it, `cut` the connection, or `hold` it open."""

    sent: tuple[bytes, ...]
    then: str = "end"


class Page(NamedTuple):
    """A page of a list."""

    names: tuple[str, ...]
    version: int
    next_page: str = ""


class Refusal(NamedTuple):
    """Any other answer."""

    code: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()


Answer = Stream | Page | Refusal


def priority_class(name: str, version: int, value: Any = 1) -> dict[str, Any]:
    """A PriorityClass as it is stored."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": API_VERSION, "kind": "PriorityClass", "metadata": metadata, "value": value}


class Script:
    """Answers in turn; after the last one every request is held.

    `asked` lists the requests.
    """

    def __init__(self, *answers: Answer) -> None:
        self._rest = iter(answers)
        self.asked: list[str] = []
        self.served = asyncio.Event()
        self._count = len(answers)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the next answer."""
        self.asked.append(_question(dict(request.query)))
        answer = next(self._rest, Stream((), "hold"))
        if len(self.asked) >= self._count:
            self.served.set()
        if isinstance(answer, Refusal):
            headers = {name.replace("-", "_"): value for name, value in answer.headers}
            return status(answer.code, answer.reason, "because", **headers)
        if isinstance(answer, Page):
            return _page(answer)
        return await _stream(request, answer)


async def _stream(request: web.Request, answer: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for sent in answer.sent:
        await response.write(sent)
    if answer.then == "hold":
        await asyncio.Event().wait()
    if answer.then == "cut":
        assert request.transport is not None
        request.transport.close()
    return response


def _page(answer: Page) -> web.Response:
    items = [
        {key: value for key, value in priority_class(name, 5).items() if key not in ("apiVersion", "kind")}
        for name in answer.names
    ]
    metadata: dict[str, Any] = {"resourceVersion": str(answer.version)}
    if answer.next_page:
        metadata["continue"] = answer.next_page
    body = {"kind": "PriorityClassList", "apiVersion": API_VERSION, "metadata": metadata, "items": items}
    return web.Response(body=json.dumps(body), content_type="application/json")


def _question(query: dict[str, str]) -> str:
    """Return the kind of a request in a word or two; the parameters of each kind are fixed."""
    if "limit" in query:
        assert query.pop("limit") == "500"
        assert not set(query) - {"continue"}
        return f"page {query['continue']}" if query else "page"
    assert query.pop("watch") == "1"
    assert query.pop("allowWatchBookmarks") == "true"
    assert query.pop("timeoutSeconds") == "300"
    if "resourceVersion" in query:
        return f"watch {query.pop('resourceVersion')}"
    assert query == {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    return "stream"


class Scene:
    """An informer that reads a script; `waits` are the seconds it would have waited, `said` its log."""

    def __init__(self, step: float) -> None:
        self.state = ClusterState(native_served=False)
        self.waits: list[float] = []
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.informer: Informer
        self._step = step
        self._now = 0.0
        self._noticed = asyncio.Event()

    @property
    def classes(self) -> dict[str, str | None]:
        """Return resourceVersions by name, as readers see them."""
        return {name: found.metadata.resourceVersion for name, found in self.state.classes.items()}

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait for a condition, checked after each notification of the informer."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached():
                self._noticed.clear()
                await self._noticed.wait()

    async def sleep(self, seconds: float) -> None:
        """Return at once."""
        self.waits.append(seconds)
        await asyncio.sleep(0)

    def world(self) -> InformerHooks:
        """Return the clock, log and callbacks of the informer."""
        return InformerHooks(
            clock=self._clock,
            sleep=self.sleep,
            random=lambda: 0.0,
            log_event=lambda what, fields: self.logged.append((what, fields)),
            noticed=self._noticed.set,
            turned=self._noticed.set,
            idle=at_once,
        )

    def _clock(self) -> float:
        self._now += self._step
        return self._now


@asynccontextmanager
async def informing(script: Script, folder: Path, *, step: float = 0.0) -> AsyncIterator[Scene]:
    """Run an informer against a script; `step` is the seconds that pass at each read of its clock."""
    fake = Fake()
    fake.answers[PATH] = script.answer
    async with serving(fake), connect(fake.kubeconfig(folder), None) as connection:
        scene = Scene(step)
        world = scene.world()
        follower = Reflector(CLASSES, scene.state, world.log_event)
        scene.informer = Informer(connection, CLASSES, follower, world)
        task = asyncio.create_task(scene.informer.run())
        try:
            yield scene
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task
