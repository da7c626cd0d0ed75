"""A fake of the scheduler's writes: it records their start and end, and the test sets their results."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from podium.api.meta import Condition
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import PodRef


class Write(NamedTuple):
    """A write: its kind and the pod's name; `value` is a node, or a condition's status."""

    what: str
    pod: str
    value: str = ""


class Recorded(Writes):
    """Completes each write after a turn of the loop; `ends` has the error that a write raises."""

    def __init__(self, ends: Mapping[Write, Exception] | None = None, limit: int = 64) -> None:
        self.limit = limit
        self.begun: list[Write] = []
        self.done: list[Write] = []
        # Starts and ends of writes, and further notes of a test, in their order.
        self.story: list[object] = []
        self.most = 0
        self.watch: Callable[[], None] = lambda: None
        self._ends = ends or {}
        self._open = 0

    async def bind(self, pod: PodRef, node: str) -> None:
        await self._take(Write("bind", pod.name, node))

    async def nominate(self, pod: PodRef, node: str | None, condition: Condition | None) -> None:  # noqa: ARG002 - the signature of Writes
        await self._take(Write("nominate", pod.name, node or ""))

    async def mark(
        self, pod: PodRef, condition: Condition, version: str | None = None, *, requested: str = ""
    ) -> None:
        assert version is None
        await self._take(Write("ask" if requested else "mark", pod.name, condition.status or ""))

    async def try_delete(self, pod: PodRef) -> None:
        await self._take(Write("try", pod.name))

    async def delete(self, pod: PodRef) -> None:
        await self._take(Write("delete", pod.name))

    def at(self, number: int, do: Callable[[], object]) -> None:
        """Call a function in the middle of a write, the first being 1."""

        def watch() -> None:
            if len(self.begun) == number:
                do()

        self.watch = watch

    async def _take(self, write: Write) -> None:
        self.begun.append(write)
        self.story.append(("begun", write))
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            self.watch()
            await asyncio.sleep(0)
        finally:
            self._open -= 1
        if write in self._ends:
            raise self._ends[write]
        self.done.append(write)
        self.story.append(("done", write))


def pod(name: str) -> PodRef:
    return PodRef("team", name, f"uid-{name}")
