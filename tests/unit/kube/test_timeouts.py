"""Work within a time limit ends with its result, its error or a TimeoutError, also during cleanup."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from podium.kube.timeouts import within


class WorkError(Exception):
    """The error of the work."""


async def _for_ever() -> str:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def _fails() -> str:
    raise WorkError


async def _cancels_itself() -> str:
    raise asyncio.CancelledError


async def _fails_when_cancelled() -> str:
    try:
        return await _for_ever()
    finally:
        raise WorkError


async def _returns_when_cancelled() -> str:
    try:
        return await _for_ever()
    except asyncio.CancelledError:
        return "late"


async def _limits_itself() -> str:
    """As aiohttp does while it connects."""
    try:
        async with asyncio.timeout(0):
            return await _for_ever()
    except TimeoutError:
        raise WorkError from None


async def _is_in_a_group() -> str:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(asyncio.sleep(0, "result"))
    return task.result()


_new_timeout = asyncio.timeout


@asynccontextmanager
async def _old_timeout(seconds: float) -> AsyncIterator[None]:
    """A timeout as in Python 3.11.2, which takes a cancellation before its beginning for a later one."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        async with _new_timeout(seconds):
            yield
    except TimeoutError:
        if before:
            raise asyncio.CancelledError from None
        raise


@pytest.fixture(autouse=True, params=[_new_timeout, _old_timeout])
def _python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.timeout", request.param)


async def _told(work: Awaitable[str]) -> str:
    """Return the result or the name of the error."""
    try:
        return await work
    except (WorkError, TimeoutError, asyncio.CancelledError) as error:
        return type(error).__name__


async def _in_cleanup(work: Coroutine[Any, Any, str]) -> str:
    """Return what a task is told of work that it does after its cancellation."""
    told = []

    async def ends() -> None:
        try:
            await _for_ever()
        finally:
            told.append(await _told(work))

    result = await _cancelled(ends())
    with pytest.raises(asyncio.CancelledError):
        result()
    return told[0]


async def _cancelled(work: Coroutine[Any, Any, Any], times: int = 1) -> Callable[[], Any]:
    """Cancel some work some times, wait for its end, and return its result as a function."""
    task = asyncio.ensure_future(work)
    for _ in range(times):
        # The work and the task inside it begin, or receive the cancellation before.
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait((task,))
    return task.result


@pytest.mark.parametrize("caller", [_told, _in_cleanup])
@pytest.mark.parametrize(
    ("work", "seconds", "told"),
    [
        (lambda: asyncio.sleep(0, "result"), 60.0, "result"),
        (_fails, 60.0, "WorkError"),
        (_for_ever, 0.01, "TimeoutError"),
        (_cancels_itself, 60.0, "CancelledError"),
        (_fails_when_cancelled, 0.01, "WorkError"),
        (_returns_when_cancelled, 0.01, "late"),
        (_limits_itself, 60.0, "WorkError"),
        (_is_in_a_group, 60.0, "result"),
        (lambda: within(0, _for_ever()), 60.0, "TimeoutError"),
        (lambda: asyncio.get_running_loop().create_future(), 0.01, "TimeoutError"),
    ],
)
async def test_a_caller_is_told_the_same_in_its_cleanup(
    caller: Callable[[Awaitable[str]], Awaitable[str]],
    work: Callable[[], Awaitable[str]],
    seconds: float,
    told: str,
) -> None:
    assert await caller(within(seconds, work())) == told


async def test_without_a_limit_the_work_takes_its_time() -> None:
    assert await within(None, asyncio.sleep(0.01, "result")) == "result"


async def test_a_limit_in_the_past_ends_the_work() -> None:
    with pytest.raises(TimeoutError):
        await within(-1.0, _for_ever())


@pytest.mark.parametrize("work", [_for_ever, _returns_when_cancelled, _fails_when_cancelled])
async def test_a_cancelled_caller_cancels_the_work(work: Callable[[], Coroutine[Any, Any, str]]) -> None:
    result = await _cancelled(within(None, work()))
    with pytest.raises(asyncio.CancelledError):
        result()


@pytest.mark.parametrize("work", [_fails, lambda: asyncio.sleep(0, "result")])
async def test_no_cancellation_is_lost_at_the_moment_at_which_the_work_ends(
    work: Callable[[], Coroutine[Any, Any, str]],
) -> None:
    """Whatever the number of turns of the event loop that passed before."""

    async def caller() -> str:
        return await within(None, work())

    cancelled = []
    for turns in range(20):
        task = asyncio.ensure_future(caller())
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled.append(task.cancel())
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() == cancelled[-1]
    assert set(cancelled) == {True, False}


async def test_a_second_cancellation_reaches_the_cleanup_of_the_work() -> None:
    """No task is left behind, and none keeps the process."""
    ended = []

    async def work() -> None:
        try:
            await _for_ever()
        finally:
            try:
                await _for_ever()
            finally:
                ended.append(True)

    result = await _cancelled(within(0.0, work()), times=2)
    with pytest.raises(asyncio.CancelledError):
        result()
    assert ended == [True]


async def test_a_timeout_in_cleanup_was_a_cancellation_in_python_3_11_2() -> None:
    """The reason for `within`."""
    if asyncio.timeout != _new_timeout:
        assert await _in_cleanup(_limits_itself()) == "CancelledError"
