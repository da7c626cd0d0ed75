"""The worker: the event loop runs while its thread computes, and nothing changes what the thread reads."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.support.waiting import PATIENCE_SECONDS

from podium.runtime.host import THIS_MACHINE
from podium.runtime.worker import STUCK_SECONDS, Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(THIS_MACHINE.executor(), THIS_MACHINE.clock) as made:
        yield made


class Held:
    """Work that starts, and ends when the test releases it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self._error = error

    def __call__(self) -> str:
        self.begun.set()
        assert self.let_go.wait(PATIENCE_SECONDS)
        if self._error is not None:
            raise self._error
        return threading.current_thread().name


async def begun(work: Held) -> None:
    """Wait, without blocking the event loop, until work has started."""
    assert await asyncio.to_thread(work.begun.wait, PATIENCE_SECONDS)


async def test_the_event_loop_goes_on_while_the_thread_works(worker: Worker) -> None:
    """The result comes from another thread, and coroutines run meanwhile."""
    work = Held()
    running = asyncio.create_task(worker.run(work))
    await begun(work)
    assert worker.busy
    work.let_go.set()
    assert (await running) != threading.current_thread().name
    assert not worker.busy


async def test_a_change_waits_for_the_work(worker: Worker) -> None:
    """The caller of run continues first: it may use the result before anything changes."""
    order: list[str] = []
    work = Held()

    async def run() -> None:
        await worker.run(work)
        order.append("result")

    async def change(name: str) -> None:
        await worker.idle()
        order.append(name)

    running = asyncio.create_task(run())
    await begun(work)
    changes = [asyncio.create_task(change(name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    assert order == []
    work.let_go.set()
    await asyncio.gather(running, *changes)
    assert order == ["result", "first", "second"]


async def test_work_is_done_one_after_the_other(worker: Worker) -> None:
    """A second piece of work begins when the first has ended."""
    first, second = Held(), Held()
    running = asyncio.create_task(worker.run(first))
    await begun(first)
    waiting = asyncio.create_task(worker.run(second))
    await asyncio.sleep(0)
    assert not second.begun.is_set()
    first.let_go.set()
    await running
    await begun(second)
    second.let_go.set()
    await waiting


async def test_an_error_is_the_callers(worker: Worker) -> None:
    """The worker is free afterwards."""
    work = Held(ValueError("no"))
    work.let_go.set()
    with pytest.raises(ValueError, match="no"):
        await worker.run(work)
    assert not worker.busy


@pytest.mark.parametrize("error", [None, ValueError("late")], ids=["a result", "an error"])
async def test_a_cancelled_caller_leaves_no_thread_behind(worker: Worker, error: Exception | None) -> None:
    """The state belongs to the thread until its work has ended, however often the caller is cancelled."""
    work = Held(error)
    running = asyncio.create_task(worker.run(work))
    await begun(work)
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0)
        assert worker.busy
    work.let_go.set()
    with suppress(asyncio.CancelledError):
        await running
    assert running.cancelled()
    assert not worker.busy


async def test_values_of_the_worker_thread_are_read_between_its_jobs(worker: Worker) -> None:
    """A scrape of the metrics meanwhile returns the last values."""
    values = [1, 2, 3]
    reading = worker.between(lambda: values.pop(0))
    assert reading() == 2
    work = Held()
    running = asyncio.create_task(worker.run(work))
    await begun(work)
    assert reading() == 2
    work.let_go.set()
    await running
    assert reading() == 3


async def test_work_that_does_not_end_is_reported() -> None:
    """Only a restart of the process ends it."""
    seconds = 0.0
    with Worker(THIS_MACHINE.executor(), lambda: seconds) as worker:
        work = Held()
        running = asyncio.create_task(worker.run(work))
        await begun(work)
        seconds = STUCK_SECONDS
        assert worker.stuck() == ""
        seconds += 1
        assert worker.stuck() == "the worker's thread has been busy for 301 s"
        work.let_go.set()
        await running
        assert worker.stuck() == ""
