"""Binds the pods of one decision at the same time, and reports the result of each bind.

All of the pods are already assumed on their nodes, so nothing waits for a bind. A gang is bound as fast as
the API server accepts bindings. A bind that fails does not stop the others. Bound members stay bound (they
are never evicted to undo a decision), and more bound members are better than fewer.
"""

from collections.abc import Callable

from podium.errors import PodiumError
from podium.schedulerplugin.live.together import Job, together
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import Bind, PodRef

Done = Callable[[PodRef, str, PodiumError | None], None]


async def bind_all(writes: Writes, bind: Bind, done: Done) -> None:
    """Bind the pods.

    `done` is called with each pod, its node and the error (None if bound), as soon as they are known.
    """

    def job(pod: PodRef, node: str) -> Job:
        async def work() -> None:
            failed: PodiumError | None = None
            try:
                await writes.bind(pod, node)
            except PodiumError as error:
                failed = error
            done(pod, node, failed)

        return work

    await together([job(pod, node) for pod, node in bind.pods], writes.limit)
