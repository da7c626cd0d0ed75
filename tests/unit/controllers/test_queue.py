"""The work queue: one handler call for many changes, one worker a key, each key at its time, no key lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.support.informer.changing import Time

from podium.errors import PodiumError
from podium.runtime.workqueue import Workqueue

WORKERS = 2
FIRST_BACKOFF_SECONDS = 0.2
LAST_BACKOFF_SECONDS = 30.0


class Scene:
    """A queue under a stopped clock, whose handlers end when a test decides."""

    def __init__(self) -> None:
        self.time = Time()
        self.begun: list[str] = []
        self.running: dict[str, asyncio.Future[None]] = {}
        self.waited: list[float] = []
        self.bugs = 0
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.queue = Workqueue[str](
            clock=self.time.clock,
            sleep=self.time.sleep,
            random=lambda: 0.0,
            log_event=lambda what, fields: self.logged.append((what, fields)),
            waited=self.waited.append,
            failed=self._count,
        )

    def _count(self) -> None:
        self.bugs += 1

    async def handle(self, key: str) -> None:
        """Start a handler, and end as a test requires."""
        assert key not in self.running, "two workers on one key"
        self.begun.append(key)
        self.running[key] = asyncio.get_running_loop().create_future()
        try:
            await self.running[key]
        finally:
            del self.running[key]

    async def end(self, key: str, error: BaseException | None = None) -> None:
        """End a handler."""
        if error is None:
            self.running[key].set_result(None)
        else:
            self.running[key].set_exception(error)
        await settled()

    async def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.time.advance(seconds)
        await settled()


async def settled() -> None:
    """Run the loop until all tasks wait for time."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def working(
    scene: Scene, handle: Callable[[str], Awaitable[None]] | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a scene's queue."""
    task = asyncio.create_task(scene.queue.process(handle or scene.handle, WORKERS))
    await settled()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


async def test_many_changes_are_one_look() -> None:
    scene = Scene()
    for _ in range(100):
        scene.queue.add("a")
    assert scene.queue.depth == 1
    async with working(scene):
        await scene.end("a")
        assert scene.begun == ["a"]
        assert scene.queue.depth == 0


async def test_a_change_during_a_reconciliation_is_reconciled_after_it() -> None:
    scene = Scene()
    async with working(scene):
        scene.queue.add("a")
        await settled()
        scene.queue.add("a")
        await settled()
        assert scene.begun == ["a"]
        assert scene.queue.depth == 1
        await scene.end("a")
        assert scene.begun == ["a", "a"]


async def test_the_earliest_time_wins() -> None:
    """An earlier time replaces a later one, and a later one changes nothing."""
    scene = Scene()
    async with working(scene):
        scene.queue.add("a", 10.0)
        scene.queue.add("a", 5.0)
        scene.queue.add("a", 7.0)
        assert scene.queue.depth == 0
        await scene.advance(4.0)
        assert scene.begun == []
        await scene.advance(3.0)
        await scene.end("a")
        await scene.advance(100.0)
        assert scene.begun == ["a"]
    assert scene.waited == [2.0]


async def test_a_key_that_waits_does_not_hold_up_another() -> None:
    scene = Scene()
    async with working(scene):
        scene.queue.add("later", 5.0)
        scene.queue.add("now")
        await settled()
        assert scene.begun == ["now"]


async def test_no_more_handlers_than_workers_and_first_come_first_served() -> None:
    scene = Scene()
    async with working(scene):
        for key in "abcd":
            scene.queue.add(key)
        await settled()
        assert scene.begun == ["a", "b"]
        await scene.end("b")
        assert scene.begun == ["a", "b", "c"]


async def test_a_key_that_is_changed_all_the_time_lets_others_through() -> None:
    scene = Scene()
    async with working(scene):
        for key in "abcd":
            scene.queue.add(key)
        await settled()
        scene.queue.add("a")
        await scene.end("a")
        await scene.end("b")
        assert scene.begun == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("error", "logged", "bugs"),
    [
        (PodiumError("server: no"), "server: no", 0),
        (KeyError("surprise"), "Traceback", 1),
    ],
    ids=["a failure", "a bug"],
)
async def test_a_look_that_fails_is_repeated_later_each_time(
    error: Exception, logged: str, bugs: int
) -> None:
    """Any failure is logged, and the other keys are handled."""
    scene = Scene()
    async with working(scene):
        scene.queue.add("a")
        await settled()
        wait = FIRST_BACKOFF_SECONDS
        for count in range(1, 12):
            await scene.end("a", error)
            assert len(scene.logged) == count
            assert logged in scene.logged[-1][1]["error"]
            assert scene.bugs == bugs * count
            await scene.advance(wait * 0.99)
            assert len(scene.begun) == count
            await scene.advance(wait * 0.02)
            assert len(scene.begun) == count + 1
            wait = min(2 * wait, LAST_BACKOFF_SECONDS)
        scene.queue.add("b")
        await settled()
        assert scene.begun[-1] == "b"


async def test_a_settled_key_waits_briefly_when_it_fails_again() -> None:
    scene = Scene()
    async with working(scene):
        for _ in range(5):
            scene.queue.retry("a")
        scene.queue.forget("a")
        await scene.advance(LAST_BACKOFF_SECONDS)
        await scene.end("a", PodiumError("again"))
        await scene.advance(FIRST_BACKOFF_SECONDS)
        assert scene.begun == ["a", "a"]


async def test_a_server_that_asks_for_time_gets_it() -> None:
    scene = Scene()
    async with working(scene):
        scene.queue.retry("a", at_least=7.0)
        await scene.advance(7.0)
        assert scene.begun == []
        await scene.advance(FIRST_BACKOFF_SECONDS)
        assert scene.begun == ["a"]


async def test_cancelled_it_has_ended_every_handler_and_lost_no_key() -> None:
    """The queue waits for a handler that ends slowly; the next leader handles the remaining keys."""
    scene = Scene()
    ended: list[str] = []

    async def slow(key: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(key)

    for key in "abc":
        scene.queue.add(key)
    async with working(scene, slow):
        pass
    assert sorted(ended) == ["a", "b"]
    async with working(scene):
        await scene.end("c")
        await scene.advance(FIRST_BACKOFF_SECONDS)
        assert set(scene.running) == {"a", "b"}


async def test_a_handler_that_was_cancelled_by_others_loses_no_key() -> None:
    """A library may pass on the cancellation of a shared resource; the worker continues."""
    scene = Scene()
    async with working(scene):
        scene.queue.add("a")
        await settled()
        await scene.end("a", asyncio.CancelledError())
        await scene.advance(FIRST_BACKOFF_SECONDS)
        assert scene.begun == ["a", "a"]


async def test_superseded_entries_take_no_memory() -> None:
    """A group that changes repeatedly and is due in a minute is one entry."""
    scene = Scene()
    async with working(scene):
        for _ in range(1000):
            scene.queue.add("a", 60.0)
            scene.queue.add("a")
            await settled()
            await scene.end("a")
        assert len(scene.queue._heap) < 10


class Model:
    """A plain model of the queue: a list of keys with times."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: dict[str, tuple[float, int]] = {}
        self.failures: dict[str, int] = {}
        self.running: list[str] = []
        self.begun: list[str] = []
        self.waited: list[float] = []
        self._count = 0

    def add(self, key: str, after: float) -> None:
        """Add a key."""
        self._count += 1
        wish = (self.now + after, self._count)
        self.due[key] = min(self.due.get(key, wish), wish, key=lambda each: each[0])
        self.begin()

    def retry(self, key: str, at_least: float) -> None:
        """Add a key after a failure."""
        failures = self.failures.get(key, 0)
        self.failures[key] = failures + 1
        self.add(key, at_least + min(FIRST_BACKOFF_SECONDS * 2**failures, LAST_BACKOFF_SECONDS))

    def begin(self) -> None:
        """Start the due keys on free workers."""
        while len(self.running) < WORKERS:
            ready = [key for key in self.due if key not in self.running and self.due[key][0] <= self.now]
            if not ready:
                return
            first = min(ready, key=lambda key: self.due[key])
            self.waited.append(self.now - self.due.pop(first)[0])
            self.running.append(first)
            self.begun.append(first)


KEYS = st.sampled_from("abcd")
SECONDS = st.sampled_from([0.0, 0.1, 0.2, 1.0, 3.0, 40.0])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, SECONDS),
        st.tuples(st.just("retry"), KEYS, SECONDS),
        st.tuples(st.just("forget"), KEYS, st.none()),
        st.tuples(st.just("advance"), st.none(), SECONDS),
        st.tuples(st.just("end"), st.integers(0, WORKERS - 1), st.sampled_from(["well", "failed", "bug"])),
    ),
    max_size=40,
)


@given(OPERATIONS)
def test_any_history_is_as_the_model_has_it(operations: list[tuple[str, Any, Any]]) -> None:
    """The keys start in the model's order and with its delays; in the end the queue is empty."""

    async def run() -> None:
        scene, model = Scene(), Model()
        async with working(scene):
            for operation in operations:
                await _do(scene, model, operation)
                _compare(scene, model)
            while model.due or model.running:
                await _do(scene, model, ("end", 0, "well"))
                await _do(scene, model, ("advance", None, 40.0))
            _compare(scene, model)

    asyncio.run(run())


async def _do(scene: Scene, model: Model, operation: tuple[str, Any, Any]) -> None:
    match operation:
        case "add", key, seconds:
            scene.queue.add(key, seconds)
            await settled()
            model.add(key, seconds)
        case "retry", key, seconds:
            scene.queue.retry(key, seconds)
            await settled()
            model.retry(key, seconds)
        case "forget", key, _:
            scene.queue.forget(key)
            model.failures.pop(key, None)
        case "advance", _, seconds:
            await scene.advance(seconds)
            model.now += seconds
            model.begin()
        case _, index, how:
            if index >= len(model.running):
                return
            key = model.running[index]
            error = {"well": None, "failed": PodiumError("no"), "bug": ValueError()}[how]
            await scene.end(key, error)
            model.running.remove(key)
            if error is not None:
                model.retry(key, 0.0)
            model.begin()


def _compare(scene: Scene, model: Model) -> None:
    assert scene.begun == model.begun
    assert scene.waited == model.waited
    assert set(scene.running) == set(model.running)
    assert scene.queue.depth == sum(due <= model.now for due, _ in model.due.values())
