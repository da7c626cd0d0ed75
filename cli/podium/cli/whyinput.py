"""The input of `podium why`: the namespace, events, and the whole cluster only if it adds information.

A tenant may read one namespace, and on a large cluster that much is read in a second. Data that may not be
read is named, never guessed. Names of other namespaces appear only if the reader's own credentials can list
pods there.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from podium.answers.accounts.disruptions import Known, Past
from podium.api.events import EVENT_READS, PAST_READS, Event
from podium.api.inputnotes import InputNotes
from podium.api.reads import Kind, Reads
from podium.api.records import RECORD_READS, PreemptionRecord
from podium.api.schedulable import SCHEDULING_READS
from podium.cli import inputs, kubeoptions, whatifinput
from podium.cli.live import LiveLoader, ask_live
from podium.documents.clusterinfo import CLUSTER_INFO, ClusterInfo
from podium.documents.document import Document
from podium.documents.load import NOT_IN_INPUT, Loaded, collector_paused, load_state
from podium.documents.scope import WHOLE, Scope
from podium.documents.sources import InputFiles, read_documents
from podium.errors import PodiumError

if TYPE_CHECKING:
    from podium.kube.connection import Connection
    from podium.kube.discovery import Discovery
    from podium.kube.listing import Page, ReadProgress

# The reason for a dump that was taken for an audit, without events and records.
_NO_PAST = f"{NOT_IN_INPUT} (podium dump --events)"
_PAST_KINDS = (Kind.EVENT, Kind.PREEMPTION_RECORD)
# The kinds to read in its namespace, whatever else a plan would need.
_NEAR_KINDS = (
    *(Kind.POD, Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.FOREIGN_GROUP, Kind.PRIORITY_CLASS),
    *(Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS),
    *(Kind.RESOURCE_CLAIM, Kind.CLAIM_TEMPLATE, Kind.DEVICE_CLASS),
)
_NEAR: Reads = {key: read for key, read in SCHEDULING_READS.items() if read.kind in _NEAR_KINDS}


class WhyData(NamedTuple):
    """The data that was read: `near` has at least the namespace, `whole` the cluster, or None with `why_not`.

    `unknown` lists the kinds of events and records that could not be read, each with the reason.
    """

    near: Loaded
    past: Past
    unknown: tuple[str, ...]
    known: Known
    whole: Loaded | None = None
    why_not: str = ""


class Asks(NamedTuple):
    """Further data to read, decided from the data so far: other namespaces, and the whole cluster."""

    others: Callable[[WhyData], set[str]]
    whole: Callable[[WhyData], bool]


class _Heap:
    """Collects events and records."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.records: list[PreemptionRecord] = []
        self.listed: set[str] = set()
        self.unread: dict[str, str] = {}

    def collect(self, document: Document) -> bool:
        """Add a document if it is an event or record, and return whether it is. Raises ReadError."""
        if (document.apiVersion, document.kind) == CLUSTER_INFO:
            self.unread = document.read(ClusterInfo).unread
            return False
        read = PAST_READS.get((document.apiVersion, document.kind.removesuffix("List")))
        if read is None:
            return False
        self.listed.add(read.kind)
        if document.kind.endswith("List"):
            return True
        if read.kind is Kind.EVENT:
            self.events.append(document.read(Event))
        else:
            self.records.append(document.read(PreemptionRecord))
        return True

    def past(self) -> Past:
        """Return the collected events and records."""
        return Past(tuple(self.events), tuple(self.records))


class _Live:
    """Collects the pages of a cluster or a namespace, with events and records apart."""

    def __init__(self, discovery: "Discovery", reads: Reads = _NEAR) -> None:
        self.rest = LiveLoader(discovery, reads)
        self.heap = _Heap()

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
        if page.served.read.kind in _PAST_KINDS:
            for document in page.documents:
                self.heap.collect(document)
        else:
            self.rest.add_page(page)


def from_files(files: InputFiles, scope: Scope = WHOLE) -> WhyData:
    """Return the content of files, whose reader may see all their names. Raises PodiumError.

    Of the objects only those in the scope are read, and of events and records all.
    """
    heap = _Heap()

    def rest(documents: Iterable[Document]) -> Iterator[Document]:
        return (document for document in documents if not heap.collect(document))

    notes = InputNotes()
    documents = rest(read_documents(files, notes))
    loaded = load_state(documents, strict=files.strict, reads=SCHEDULING_READS, notes=notes, scope=scope)
    inputs.say_notes(notes)
    loaded = loaded._replace(event_times=[time for event in heap.events for time in event.times])
    unread = {kind: _NO_PAST for kind in _PAST_KINDS if kind not in heap.listed} | heap.unread
    read = WhyData(loaded, heap.past(), _missing(unread, *_PAST_KINDS), _everybody)
    return _with_whole(read, loaded)


def from_cluster(kube: kubeoptions.KubeOptions, asks: Asks) -> WhyData:
    """Return the data of a live cluster, read by get and list only. Raises PodiumError."""

    async def ask(connection: "Connection", scope: Scope, watcher: "ReadProgress") -> WhyData:
        from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

        taken, info = await read_cluster(connection, scope, watcher, _Live, {**_NEAR, **EVENT_READS})
        near = taken.loaded(info, scope)
        records, unread = await past_of(connection, Scope(), watcher, RECORD_READS)
        past = taken.heap.past()._replace(records=records.records)
        unknown = (*_missing(info.unread, Kind.EVENT), *unread)
        read = WhyData(near, past, unknown, {scope.namespace}.__contains__)
        listable = {each for each in sorted(asks.others(read)) if await _may_list(connection, each)}
        read = read._replace(known=(listable | {scope.namespace}).__contains__)
        if not asks.whole(read):
            return read
        return await _whole(connection, watcher, read)

    with collector_paused():
        return ask_live(kube, ask)


async def whole_cluster(connection: "Connection", scope: Scope, watcher: "ReadProgress") -> WhyData:
    """Return a whole cluster, or a namespace, and Podium's records, for queries on many objects.

    Events are read separately (`past_of`), because they outnumber all other objects. Raises PodiumError.
    """
    from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

    with collector_paused():
        begin = functools.partial(_Live, reads=SCHEDULING_READS)
        taken, info = await read_cluster(connection, scope, watcher, begin, SCHEDULING_READS)
        loaded = taken.loaded(info, scope)
        past, unknown = await past_of(connection, Scope(), watcher, RECORD_READS)
    known = {scope.namespace}.__contains__ if scope.namespace else _everybody
    return _with_whole(WhyData(loaded, past, unknown, known), loaded)


async def past_of(
    connection: "Connection", scope: Scope, watcher: "ReadProgress", reads: Reads
) -> tuple[Past, tuple[str, ...]]:
    """Return events or records, and the reasons why some could not be read. Raises PodiumError."""
    from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

    taken, info = await read_cluster(connection, scope, watcher, _Live, reads)
    return taken.heap.past(), _missing(info.unread, *(read.kind for read in reads.values()))


def _missing(unread: Mapping[str, str], *kinds: Kind) -> tuple[str, ...]:
    return tuple(f"{kind}: {unread[kind]}" for kind in kinds if kind in unread)


def _everybody(_namespace: str) -> bool:
    return True


async def _whole(connection: "Connection", watcher: "ReadProgress", read: WhyData) -> WhyData:
    """Read all of the cluster too; if that fails, return the data so far with the reason."""
    from podium.kube.listing import read_cluster  # noqa: PLC0415 - files do without

    begin = functools.partial(LiveLoader, reads=SCHEDULING_READS)
    try:
        taken, info = await read_cluster(connection, Scope(), watcher, begin, SCHEDULING_READS)
    except PodiumError as error:
        return read._replace(why_not=str(error))
    taken.loader.describe(info)
    return _with_whole(read, taken.loader.done())


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


def _with_whole(read: WhyData, loaded: Loaded) -> WhyData:
    """Return the data with the whole cluster, or with the reason why it is not whole.

    A reader of the whole cluster may list the pods of all namespaces, and so see their names.
    """
    try:
        whatifinput.check_whole(loaded)
    except PodiumError as error:
        return read._replace(why_not=str(error))
    return read._replace(whole=loaded, known=_everybody)
