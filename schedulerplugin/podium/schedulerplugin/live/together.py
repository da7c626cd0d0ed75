"""Writes at the same time, never more than may be under way, so that a thousand are not a thousand tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from podium.errors import PodiumError

Job = Callable[[], Awaitable[None]]


async def together(jobs: Sequence[Job], width: int) -> PodiumError | None:
    """Do jobs, up to `width` at a time, in their order; give the first error, behind which no job is begun.

    Those that are under way by then are waited for: what they did is known only at their end.
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
