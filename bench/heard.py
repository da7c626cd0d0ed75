"""A watch of pods during scheduling: the time of the first event, the pods bound and the pods gone.

It runs on a thread, so that callers can wait for it without an event loop.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Collection, Iterator

import msgspec
from bench.field import PODS
from tests.support.servers import Server

from podium.errors import PodiumError
from podium.kube.connection import connect

_PATIENCE_SECONDS = 60.0


class _Meta(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Line(msgspec.Struct):
    type: str
    object: _Pod


class _List(msgspec.Struct):
    metadata: _Meta


class Heard:
    """The events of pods since its creation; times are perf_counter's.

    `first` is the time of the first event, `bound` that of each wanted pod's bind, `gone` the number of
    deleted pods.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.first = 0.0
        self.bound: dict[str, float] = {}
        self.gone = 0
        self.failure: Exception | None = None
        self._names = frozenset(names)
        self._last = 0.0
        self._news = threading.Condition()
        self._begun = threading.Event()

    def until_bound(self, patience: float) -> None:
        """Wait until all are bound, or until no event comes for `patience` seconds.

        Raises PodiumError if the watch failed.
        """
        self._last = time.perf_counter()
        with self._news:
            while len(self.bound) < len(self._names) and self.failure is None:
                left = self._last + patience - time.perf_counter()
                if left <= 0:
                    break
                self._news.wait(left)
        if self.failure is not None:
            raise PodiumError(f"the watch of pods failed: {self.failure}")

    @classmethod
    @contextlib.contextmanager
    def listening(cls, server: Server, names: Collection[str]) -> Iterator["Heard"]:
        """Start watching."""
        heard = cls(names)
        loop = asyncio.new_event_loop()
        task = loop.create_task(heard._follow(str(server.kubeconfig)))
        thread = threading.Thread(target=heard._run, args=(loop, task))
        thread.start()
        try:
            if not heard._begun.wait(_PATIENCE_SECONDS):
                raise PodiumError("the watch of pods does not begin")
            yield heard
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join()
            loop.close()

    def _run(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - the waiting task receives any error
            self.failure = error
            self._begun.set()
            with self._news:
                self._news.notify_all()

    async def _follow(self, kubeconfig: str) -> None:
        async with connect(kubeconfig, None) as connection:
            body = await connection.get(PODS, limit="1")
            version = msgspec.json.decode(body, type=_List).metadata.resourceVersion
            decoder = msgspec.json.Decoder(_Line)
            # An API server ends the watch of a slow client, which may continue where it was.
            while True:
                query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
                async for line in connection.lines(PODS, silence=3600.0, **query):
                    if line:
                        event = decoder.decode(line)
                        self._note(event)
                        version = event.object.metadata.resourceVersion
                    else:
                        self._begun.set()

    def _note(self, line: _Line) -> None:
        if line.type == "ERROR":
            raise PodiumError("the server has no more of it")
        self._last = time.perf_counter()
        self.first = self.first or self._last
        name = line.object.metadata.name
        if line.type == "DELETED":
            self.gone += 1
        elif line.object.spec.nodeName and name in self._names and name not in self.bound:
            with self._news:
                self.bound[name] = self._last
                self._news.notify_all()
