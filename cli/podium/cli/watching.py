"""Show a live cluster repeatedly, for `podium audit --watch`.

The cluster is read in full each time, with the rights and in the scope of a single reading. Informers would
need the right to watch, which readers of a cluster often lack, and hold whole lists of objects in memory.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from podium.api.claims import AUDIT_READS
from podium.cli.live import ask_live, read_state
from podium.cli.progress import TerminalProgress
from podium.documents.load import Loaded
from podium.documents.scope import Scope
from podium.errors import PodiumError
from podium.runtime.signals import stopping
from podium.stderr import say

if TYPE_CHECKING:
    from podium.cli.kubeoptions import KubeOptions
    from podium.kube.connection import Connection

# The minimum pause between readings in seconds, and the multiple of the duration of a reading.
PAUSE_SECONDS, PAUSE_TIMES = 10.0, 10


def watch_live(kube: "KubeOptions", show: Callable[[Loaded], None]) -> None:
    """Read a live cluster and show it, until SIGINT or SIGTERM.

    Raises PodiumError if the first reading fails. Later failures are reported on stderr.
    """

    async def ask(connection: "Connection", scope: Scope, terminal: TerminalProgress) -> None:
        read = functools.partial(read_state, connection, scope, terminal, reads=AUDIT_READS)
        with stopping() as stop:
            reading = asyncio.ensure_future(repeat(read, show, asyncio.sleep, time.monotonic))
            asked = asyncio.ensure_future(stop.asked.wait())
            try:
                await asyncio.wait((reading, asked), return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    reading.result()
            finally:
                reading.cancel()
                asked.cancel()
                await asyncio.gather(reading, asked, return_exceptions=True)

    ask_live(kube, ask)


async def repeat(
    read: Callable[[], Awaitable[Loaded]],
    show: Callable[[Loaded], None],
    sleep: Callable[[float], Awaitable[None]],
    clock: Callable[[], float],
) -> None:
    """Read and show until cancelled, with a pause that grows with the duration of a reading."""
    shown = False
    while True:
        began = clock()
        try:
            loaded = await read()
        except PodiumError as error:
            if not shown:
                raise
            say(f"podium: {error}; reading again soon")
        else:
            show(loaded)
            shown = True
        await sleep(max(PAUSE_SECONDS, (clock() - began) * PAUSE_TIMES))
