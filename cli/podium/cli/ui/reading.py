"""Cache readings of the cluster for `podium ui`: one is made for a request, and kept for some seconds.

Listing a large cluster takes long, so a reading is kept for ten times its duration; the user can request a
new one. Files are read once, and again on request.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from podium.api.events import EVENT_READS
from podium.api.schedulable import SCHEDULING_READS
from podium.cli import clusterinput
from podium.cli.progress import TerminalProgress
from podium.cli.ui.page_data import PageData
from podium.documents.scope import WHOLE, Scope
from podium.documents.sources import STDIN_NAME, InputFiles
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.kube.connection import Connection

# The minimum time for which a reading of a cluster is kept, and the multiple of its duration.
KEPT, KEPT_TIMES = timedelta(seconds=5), 10

Clock = Callable[[], datetime]


class ClusterSource(Protocol):
    """The input; `live` says whether it changes by itself."""

    live: bool

    async def reach(self) -> None:
        """Raise PodiumError if there is nothing to read."""

    async def read(self, clock: Clock) -> PageData:
        """Return a full reading. Raises PodiumError."""

    async def add_events(self, data: PageData, namespace: str) -> None:
        """Add the events of a namespace to a reading, once. Raises PodiumError."""


class Files:
    """Files, with their events if they contain some."""

    live = False

    def __init__(self, files: InputFiles, scope: Scope = WHOLE) -> None:
        self._files = files
        self._scope = scope
        self._begun = False

    async def reach(self) -> None:
        """Do nothing: reading the files shows whether they are readable."""

    async def read(self, clock: Clock) -> PageData:
        """Return the content of the files; standard input is read only once."""
        if self._begun and STDIN_NAME in self._files.names:
            raise PodiumError("standard input can be read only once. Restart podium ui to read again")
        self._begun = True
        read = clusterinput.from_files(self._files, self._scope)
        return PageData(read._replace(at=clock()))

    async def add_events(self, data: PageData, namespace: str) -> None:
        """Do nothing: their events were read with the rest."""


class LiveSource:
    """A live cluster, or a namespace of it, by get and list only."""

    live = True

    def __init__(self, connection: "Connection", scope: Scope, watcher: TerminalProgress) -> None:
        self._connection = connection
        self._scope = scope
        self._watcher = watcher

    async def reach(self) -> None:
        """Read the list of served APIs."""
        from podium.kube.discovery import discover  # noqa: PLC0415 - files do without
        from podium.kube.listing import check_namespace  # noqa: PLC0415 - as above

        with self._watcher.reading():
            await check_namespace(self._connection, self._scope)
            await discover(self._connection, SCHEDULING_READS)

    async def read(self, clock: Clock) -> PageData:
        """Return the listed objects."""
        with self._watcher.reading():
            read = await clusterinput.whole_cluster(self._connection, self._scope, self._watcher)
        return PageData(read._replace(at=clock()))

    async def add_events(self, data: PageData, namespace: str) -> None:
        """Add the events of a namespace."""
        if namespace not in data.events:
            scope = Scope(namespace)
            with self._watcher.reading():
                past, missing = await clusterinput.past_of(
                    self._connection, scope, self._watcher, EVENT_READS
                )
            data.events[namespace] = past.events, missing


class SourceCache:
    """Keeps the newest reading of a source.

    A reading continues if its requester has gone. Otherwise a browser that reloads its page would restart a
    long reading each time, and never see its end.
    """

    def __init__(self, source: ClusterSource, clock: Clock) -> None:
        self.source = source
        self._clock = clock
        self._data: PageData | None = None
        self._until = clock()
        self._reading: asyncio.Task[PageData] | None = None

    async def check_source(self) -> None:
        """Check that there is something to read, before any request; files are read. Raises PodiumError."""
        await self.source.reach()
        if not self.source.live:
            await self.data()

    async def data(self, *, again: bool = False) -> PageData:
        """Return a recent reading; requests during a reading share it. Raises PodiumError."""
        if self._reading is None:
            good = not self.source.live or self._clock() < self._until
            if self._data is not None and not again and good:
                return self._data
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._ended)
        return await asyncio.shield(self._reading)

    async def _read(self) -> PageData:
        began = self._clock()
        data = await self.source.read(self._clock)
        self._until = data.cluster.at + max((data.cluster.at - began) * KEPT_TIMES, KEPT)
        self._data = data
        return data

    def _ended(self, reading: asyncio.Task[PageData]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # Marks the exception as retrieved; awaiting requests still get it.
