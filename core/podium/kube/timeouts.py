"""Time limits of work that also hold during cleanup, in a task that is being cancelled."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """Return the result of the work, or raise TimeoutError if it has none after `seconds`; None is no limit.

    The work has always ended when this returns or raises. If the caller is cancelled, so is the work, and
    this raises CancelledError even if the work returned or failed at that moment.

    The work has a task of its own, because the caller's may be cancelled already. In such a task
    `asyncio.timeout` of Python 3.11.2 raises CancelledError instead of TimeoutError, so the handler of the
    timeout does not run. That holds for timeouts inside the work too, such as aiohttp's. `asyncio.wait_for`
    loses a cancellation at the moment at which the work ends (Python 3.11).
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        late = task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if late and task.cancelled():
        raise TimeoutError
    return task.result()
