"""Binding: the pods of one decision go to their nodes at the same time, and each tells how that went.

All of them are assumed where they go, so nothing waits for anything: a gang is bound as fast as the server
takes bindings. One that fails stops none of the others, for members that are bound stay (a bound member is
never evicted to undo a decision), and more of them is better than fewer.
"""

from collections.abc import Callable

from podium.errors import PodiumError
from podium.schedulerplugin.live.together import Job, together
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import Bind, PodRef

Done = Callable[[PodRef, str, PodiumError | None], None]


async def bind_all(writes: Writes, bind: Bind, done: Done) -> None:
    """Bind the pods; `done` hears of each as soon as it is known: the pod, its node, and what went wrong."""

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
