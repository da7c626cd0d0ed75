"""Runs writes at the same time with a bounded width, so that a thousand writes are not a thousand tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from podium.errors import PodiumError

Job = Callable[[], Awaitable[None]]


async def together(jobs: Sequence[Job], width: int) -> PodiumError | None:
    """Run jobs in order, up to `width` at a time; return the first error, after which no job starts.

    Jobs that are running by then are awaited, because their result is known only at their end.
    """
    left = iter(jobs)
    failed: PodiumError | None = None

    async def work() -> None:
        nonlocal failed
        for job in left:
            try:
                await job()
            except PodiumError as error:
                failed = failed or error
            if failed is not None:
                return

    workers = min(len(jobs), width)
    if workers == 1:
        await work()
    elif workers:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(work())
    return failed
