"""The cluster that `podium why` and `podium ui` read.

`podium why` reads the namespace and its events, and the whole cluster only if it adds information. A
tenant may read one namespace, and on a large cluster that much is read in a second. Data that may not be read
is named, never guessed. Names of other namespaces appear only if the reader's own credentials can list pods
there.
"""

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from podium.api.events import EVENT_READS
from podium.api.inputnotes import InputNotes
from podium.api.reads import Kind, Reads
from podium.api.records import RECORD_READS
from podium.api.schedulable import SCHEDULING_READS
from podium.cli import inputs, kubeoptions, progress
from podium.cli.live import LiveLoader, ask_live
from podium.documents.clusterinfo import ClusterInfo
from podium.documents.load import Loaded, collector_paused
from podium.documents.reading import (
    PAST_KINDS,
    ClusterReading,
    Known,
    Past,
    PastCollector,
    every_namespace,
    read_files,
    reasons,
    source_words,
)
from podium.documents.scope import WHOLE, Scope
from podium.documents.sources import InputFiles
from podium.errors import PodiumError
from podium.history.trust import Trust

if TYPE_CHECKING:
    from podium.kube.connection import Connection
    from podium.kube.discovery import Discovery
    from podium.kube.listing import Page, ReadProgress

# The kinds to read in its namespace, whatever else a plan would need.
_NEAR_KINDS = (
    *(Kind.POD, Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.FOREIGN_GROUP, Kind.PRIORITY_CLASS),
    *(Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS),
    *(Kind.RESOURCE_CLAIM, Kind.CLAIM_TEMPLATE, Kind.DEVICE_CLASS),
)
_NEAR: Reads = {key: read for key, read in SCHEDULING_READS.items() if read.kind in _NEAR_KINDS}


class FurtherData(NamedTuple):
    """Further data to read, decided from the data so far: other namespaces, and the whole cluster."""

    namespaces: Callable[[ClusterReading], set[str]]
    whole: Callable[[ClusterReading], bool]


class _Live:
    """Collects the pages of a cluster or a namespace, with events and records apart."""

    def __init__(self, discovery: "Discovery", reads: Reads = _NEAR) -> None:
        self.rest = LiveLoader(discovery, reads)
        self.heap = PastCollector()

    def loaded(self, info: ClusterInfo, scope: Scope) -> Loaded:
        """Return the objects beside events and records. Raises PodiumError if the pods may not be read."""
        self.rest.loader.describe(info)
        loaded = self.rest.loader.done()
        if (refused := loaded.state.unread.get(Kind.POD)) is not None:
            where = f"namespace {scope.namespace}" if scope.namespace else "all namespaces"
            raise PodiumError(f"pods of {where} cannot be read: {refused}")
        return loaded

    def add_page(self, page: "Page") -> None:
        """Add a page. Raises ReadError."""
        if page.served.read.kind in PAST_KINDS:
            for document in page.documents:
                self.heap.collect(document)
        else:
            self.rest.add_page(page)


def from_files(files: InputFiles, scope: Scope = WHOLE) -> ClusterReading:
    """Return the content of files; stderr names what is skipped. Raises PodiumError."""
    notes = InputNotes()
    with progress.working("reading objects") as work:
        cluster = read_files(files, notes, scope, functools.partial(inputs.tracked, work, files.names))
    inputs.say_notes(notes)
    return cluster


def from_cluster(kube: kubeoptions.KubeOptions, further: FurtherData) -> ClusterReading:
    """Return the data of a live cluster, read by get and list only. Raises PodiumError."""

    async def ask(
        connection: "Connection", scope: Scope, watcher: progress.TerminalProgress
    ) -> ClusterReading:
        from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

        with watcher.reading():
            taken, info = await read_cluster(connection, scope, watcher, _Live, {**_NEAR, **EVENT_READS})
            near = taken.loaded(info, scope)
            records, unread = await past_of(connection, Scope(), watcher, RECORD_READS)
        past = Past(taken.heap.past().events, records.records)
        unknown = (*reasons(info.unread, Kind.EVENT), *unread)
        read = _reading(near, past, unknown, {scope.namespace}.__contains__)
        listable = {
            namespace
            for namespace in sorted(further.namespaces(read))
            if await _may_list(connection, namespace)
        }
        read = read._replace(known=(listable | {scope.namespace}).__contains__)
        if not further.whole(read):
            return read
        return await _whole(connection, watcher, read)

    with collector_paused():
        return ask_live(kube, ask)


async def whole_cluster(connection: "Connection", scope: Scope, watcher: "ReadProgress") -> ClusterReading:
    """Return a whole cluster, or a namespace, and Podium's records, for queries on many objects.

    Events are read separately (`past_of`), because they outnumber all other objects. Raises PodiumError.
    """
    from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

    with collector_paused():
        begin = functools.partial(_Live, reads=SCHEDULING_READS)
        taken, info = await read_cluster(connection, scope, watcher, begin, SCHEDULING_READS)
        loaded = taken.loaded(info, scope)
        past, unknown = await past_of(connection, Scope(), watcher, RECORD_READS)
    known = {scope.namespace}.__contains__ if scope.namespace else every_namespace
    return _reading(loaded, past, unknown, known).with_whole(loaded)


async def past_of(
    connection: "Connection", scope: Scope, watcher: "ReadProgress", reads: Reads
) -> tuple[Past, tuple[str, ...]]:
    """Return events or records, and the reasons why some could not be read. Raises PodiumError."""
    from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

    taken, info = await read_cluster(connection, scope, watcher, _Live, reads)
    return taken.heap.past(), reasons(info.unread, *(read.kind for read in reads.values()))


def _reading(loaded: Loaded, past: Past, unknown: tuple[str, ...], known: Known) -> ClusterReading:
    loaded.state.note_untrusted(Trust(past.records).untrusted)
    where = source_words(InputFiles(), loaded)
    return ClusterReading(loaded, where, datetime.now(UTC), True, past, unknown, known)


async def _whole(connection: "Connection", watcher: "ReadProgress", read: ClusterReading) -> ClusterReading:
    """Read all of the cluster too; if that fails, return the data so far with the reason."""
    from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

    begin = functools.partial(LiveLoader, reads=SCHEDULING_READS)
    try:
        taken, info = await read_cluster(connection, Scope(), watcher, begin, SCHEDULING_READS)
    except PodiumError as error:
        return read._replace(why_not=str(error))
    taken.loader.describe(info)
    loaded = taken.loader.done()
    loaded.state.note_untrusted(read.near.state.untrusted)
    return read.with_whole(loaded)


async def _may_list(connection: "Connection", namespace: str) -> bool:
    """Return whether the reader may list the pods of a namespace, and so may see its names."""
    from podium.kube.connection import RefusedError  # noqa: PLC0415 - files do without

    try:
        await connection.get(f"/api/v1/namespaces/{namespace}/pods", limit="1")
    except RefusedError as error:
        if error.code not in (403, 404):
            raise
        return False
    return True
