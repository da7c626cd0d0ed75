"""Read a live cluster for a command: by get and list only, over one connection, with progress on stderr.

The client is imported only when needed, so that `--help` and files stay fast.
"""

import functools
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from podium.api.groups import NATIVE_GROUP
from podium.api.reads import READS, Kind, Reads
from podium.api.records import RECORD_READS
from podium.cli.progress import TerminalProgress
from podium.documents.clusterinfo import ClusterInfo
from podium.documents.load import NOT_SERVED, Loaded, Loader, collector_paused
from podium.documents.scope import Scope
from podium.errors import PodiumError
from podium.stderr import say

if TYPE_CHECKING:
    from podium.cli.kubeoptions import KubeOptions
    from podium.kube.connection import Connection
    from podium.kube.discovery import Discovery
    from podium.kube.listing import Collector, Page

C = TypeVar("C", bound="Collector")
T = TypeVar("T")

# The minimum pause between readings in seconds, and the multiple of the duration of a reading.
PAUSE_SECONDS, PAUSE_TIMES = 10.0, 10


def load_live(kube: "KubeOptions", reads: Reads = READS, keep: Collection[Kind] = ()) -> Loaded:
    """Return a live cluster, read by get and list only; context and server go to stderr.

    Raises PodiumError.
    """
    return ask_live(kube, functools.partial(read_state, reads=reads, keep=keep))


async def read_state(
    connection: "Connection",
    scope: Scope,
    watcher: TerminalProgress,
    *,
    reads: Reads = READS,
    keep: Collection[Kind] = (),
) -> Loaded:
    """Return the scope of a cluster over an open connection. Raises PodiumError."""
    with collector_paused():
        begin = functools.partial(LiveLoader, reads=reads, keep=keep)
        # A plan and an audit know from the records which workloads declare in vain to save their work.
        listed = {**reads, **RECORD_READS}
        live, info = await _read(connection, scope, watcher, begin=begin, reads=listed)
    check_read(info, reads)
    live.loader.describe(info)
    return live.loader.done()


def read_live(
    kube: "KubeOptions", begin: "Callable[[Discovery], C]", reads: Reads = READS
) -> "tuple[C, ClusterInfo]":
    """Read a live cluster into the collector that `begin` makes. Raises PodiumError."""
    return ask_live(kube, functools.partial(_read, begin=begin, reads=reads))


async def _read(
    connection: "Connection",
    scope: Scope,
    watcher: TerminalProgress,
    *,
    begin: "Callable[[Discovery], C]",
    reads: Reads,
) -> "tuple[C, ClusterInfo]":
    from podium.kube.listing import check_namespace, read_cluster  # noqa: PLC0415 - as in `ask_live`

    with watcher.reading():
        await check_namespace(connection, scope)
        return await read_cluster(connection, scope, watcher, begin, reads)


def check_read(info: ClusterInfo, reads: Reads) -> None:
    """Raise PodiumError if no kind could be read.

    A report on a part of a cluster says what is missing; a report on nothing would look like a good result.
    """
    kinds = {read.kind for read in reads.values()}
    if kinds <= info.unread.keys():
        refused = [why for kind, why in info.unread.items() if kind in kinds and why != NOT_SERVED]
        # The reason for a kind of several resources contains as many sentences.
        reason = min(refused, key=lambda why: (len(why), why))
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        raise PodiumError(
            f"access denied to all resources: {reason}{more}. The needed permissions are in docs/dump.md"
        )


def ask_live(
    kube: "KubeOptions", read: "Callable[[Connection, Scope, TerminalProgress], Coroutine[Any, Any, T]]"
) -> T:
    """Return the result of `read` for a live cluster, over one connection, for the scope of the flags.

    Context and server go to stderr. Raises PodiumError.
    """
    import asyncio  # noqa: PLC0415 - a third of the import time of this module, and files do not need it

    from podium.kube.connection import connect  # noqa: PLC0415 - the client takes 0.6 s to import

    async def asked() -> T:
        terminal = TerminalProgress()
        async with connect(kube.kubeconfig, kube.context, kube.requests) as connection:
            namespace = "" if kube.all_namespaces else kube.namespace or connection.namespace
            where = f"namespace {namespace}" if namespace else "all namespaces"
            terminal.message(f"context {connection.context}, server {connection.server}, {where}")
            try:
                return await read(connection, Scope(namespace, kube.selector or ""), terminal)
            finally:
                terminal.clear()

    return asyncio.run(asked())


def watch_live(kube: "KubeOptions", reads: Reads, show: Callable[[Loaded], None]) -> None:
    """Read a live cluster and show it, until SIGINT or SIGTERM.

    Each reading is in full, with the rights and in the scope of a single one. Informers would need the right
    to watch, which readers of a cluster often lack, and hold whole lists of objects in memory.

    Raises PodiumError if the first reading fails. Later failures are reported on stderr.
    """
    import asyncio  # noqa: PLC0415 - as in `ask_live`

    from podium.runtime.signals import stopping  # noqa: PLC0415 - as in `ask_live`

    async def ask(connection: "Connection", scope: Scope, terminal: TerminalProgress) -> None:
        read = functools.partial(read_state, connection, scope, terminal, reads=reads)
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


class LiveLoader:
    """Adds pages to the index."""

    def __init__(self, discovery: "Discovery", reads: Reads, keep: Collection[Kind] = ()) -> None:
        native_served = discovery.serves(NATIVE_GROUP, "PodGroup")
        self.loader = Loader(native_served=native_served, reads=reads, keep=keep)

    def add_page(self, page: "Page") -> None:
        """Add the objects of a page. Raises ReadError."""
        self.loader.mark_listed(page.served.read.kind)
        for document in page.documents:
            self.loader.add(document)
