"""A cluster as it was read, with its source and its past: the input of every question to `podium.answers`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from datetime import UTC, datetime
from typing import NamedTuple

from podium.api.events import PAST_READS, Event
from podium.api.inputnotes import InputNotes
from podium.api.reads import Kind
from podium.api.records import PreemptionRecord
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.clusterinfo import CLUSTER_INFO, ClusterInfo
from podium.documents.document import Document
from podium.documents.load import NOT_IN_INPUT, Loaded, load_state
from podium.documents.scope import WHOLE, Scope
from podium.documents.sources import STDIN_NAME, InputFiles, read_documents
from podium.errors import PodiumError, PodiumUsageError
from podium.history.trust import Trust
from podium.text import some

# Whether the names of a namespace may be shown.
Known = Callable[[str], bool]

PAST_KINDS = (Kind.EVENT, Kind.PREEMPTION_RECORD)
# The reason for a dump that was taken for an audit, without events and records.
_NO_PAST = f"{NOT_IN_INPUT} (podium dump --events)"


class Past(NamedTuple):
    """Recorded history: the events of the namespace, and all preemption records of Podium."""

    events: tuple[Event, ...] = ()
    records: tuple[PreemptionRecord, ...] = ()


def every_namespace(_namespace: str) -> bool:
    """Return True: the reader may see the names of all namespaces."""
    return True


class ClusterReading(NamedTuple):
    """The content that was read of a cluster: its files, or a live cluster, at the time `at` (UTC).

    `near` has at least the namespace of a question about one object. `source` names the input in words.
    `past` are events and records, and `unknown` the kinds of them that could not be read, each with the
    reason. `known` says for which namespaces names may be shown. `whole` is the whole cluster, or None for
    the reason `why_not`.
    """

    near: Loaded
    source: str
    at: datetime
    live: bool = False
    past: Past = Past()
    unknown: tuple[str, ...] = ()
    known: Known = every_namespace
    whole: Loaded | None = None
    why_not: str = ""

    def with_whole(self, loaded: Loaded) -> "ClusterReading":
        """Return the reading with the whole cluster, or with the reason why it is not whole.

        A reader of the whole cluster may list the pods of all namespaces, and so see their names.
        """
        try:
            check_whole(loaded)
        except PodiumError as error:
            return self._replace(why_not=str(error))
        return self._replace(whole=loaded, known=every_namespace)


class PastCollector:
    """Collects events and records."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._records: list[PreemptionRecord] = []
        self._listed: set[str] = set()
        self._unread: dict[str, str] = {}

    def collect(self, document: Document) -> bool:
        """Add a document if it is an event or record, and return whether it is. Raises ReadError."""
        if (document.apiVersion, document.kind) == CLUSTER_INFO:
            self._unread = document.read(ClusterInfo).unread
            return False
        read = PAST_READS.get((document.apiVersion, document.kind.removesuffix("List")))
        if read is None:
            return False
        self._listed.add(read.kind)
        if document.kind.endswith("List"):
            return True
        if read.kind is Kind.EVENT:
            self.events.append(document.read(Event))
        else:
            self._records.append(document.read(PreemptionRecord))
        return True

    def past(self) -> Past:
        """Return the collected events and records."""
        return Past(tuple(self.events), tuple(self._records))

    def unread(self) -> tuple[str, ...]:
        """Return the kinds that the input lacks, each with the reason."""
        lacking = {kind: _NO_PAST for kind in PAST_KINDS if kind not in self._listed}
        return reasons(lacking | self._unread, *PAST_KINDS)


def reasons(unread: Mapping[str, str], *kinds: Kind) -> tuple[str, ...]:
    """Return those of some kinds that were not read, each with the reason."""
    return tuple(f"{kind}: {unread[kind]}" for kind in kinds if kind in unread)


def read(*paths: str) -> ClusterReading:
    """Return the cluster of a dump or of manifests: the `paths` of files, folders and globs, or `-`.

    Files are JSON or YAML, which may be compressed with gzip. Objects of other kinds are counted and skipped.
    docs/limits.md has the sizes. Raises PodiumError with the file and the line.
    """
    return read_files(InputFiles(paths), InputNotes())


def read_objects(*paths: str) -> list[Document]:
    """Return the objects of `paths`, as for `read`, to add or to admit. Raises PodiumError."""
    return list(read_documents(InputFiles(paths)))


def read_files(
    files: InputFiles,
    notes: InputNotes,
    scope: Scope = WHOLE,
    track: Callable[[Iterator[Document]], Iterator[Document]] = iter,
) -> ClusterReading:
    """Return the content of files, whose reader may see all their names. Raises PodiumError.

    Of the objects only those in the scope are read, and of events and records all. `notes` receives the files
    that are skipped. `track` yields the objects again, for a display of the progress.
    """
    collector = PastCollector()

    def rest(documents: Iterable[Document]) -> Iterator[Document]:
        return (document for document in documents if not collector.collect(document))

    documents = rest(track(read_documents(files, notes)))
    loaded = load_state(documents, strict=files.strict, reads=SCHEDULING_READS, notes=notes, scope=scope)
    loaded.state.note_untrusted(Trust(collector.past().records).untrusted)
    loaded = loaded._replace(event_times=[time for event in collector.events for time in event.times])
    reading = ClusterReading(
        loaded,
        source_words(files, loaded),
        datetime.now(UTC),
        past=collector.past(),
        unknown=collector.unread(),
    )
    return reading.with_whole(loaded)


def source_words(files: InputFiles, loaded: Loaded) -> str:
    """Return the source and the scope of the input in words."""
    words = {STDIN_NAME: "standard input", ".": "the current folder", "..": "the parent folder"}
    names = [words.get(name, name) for name in files.names]
    where = some(names) if names else f"the live cluster ({loaded.server})"
    return f"{where}, {loaded.scope.partial}" if loaded.scope.partial else where


def check_whole(loaded: Loaded) -> None:
    """Raise PodiumError if a plan for the input would be wrong, as for a part of the cluster."""
    if loaded.scope.partial:
        partial = loaded.scope.partial
        raise PodiumError(f"the input holds {partial}; a plan needs all pods of the cluster (podium dump -A)")
    unread = loaded.state.unread
    for kind in (Kind.NODE, Kind.POD):
        why = unread.get(kind)
        if why is not None and why != NOT_IN_INPUT:
            raise PodiumError(f"a plan needs every {kind}: {why}")
    if Kind.NODE in unread or not loaded.state.nodes:
        raise PodiumUsageError("the input has no nodes. Add them with -f")


def objects_read(loaded: Loaded) -> dict[str, int]:
    """Return the number of objects that were read, by kind."""
    state = loaded.state
    read: dict[Kind, Sized] = {
        Kind.POD: state.pods,
        Kind.NODE: state.nodes,
        Kind.PRIORITY_CLASS: state.classes,
        Kind.BUDGET: state.budgets,
        Kind.POD_GROUP: state.groups,
        Kind.WORKLOAD: state.workloads,
        Kind.COMPOSITE_GROUP: state.composites,
        Kind.FOREIGN_GROUP: state.foreign_groups,
        Kind.KUEUE_WORKLOAD: state.kueue_workloads,
        Kind.CLAIM: state.claims,
        Kind.VOLUME: state.volumes,
        Kind.RESOURCE_CLAIM: state.resource_claims,
        Kind.CLAIM_TEMPLATE: state.claim_templates,
        Kind.DEVICE_CLASS: state.device_classes,
        Kind.RESOURCE_SLICE: state.resource_slices,
    }
    counts = Counter({str(kind): len(objects) for kind, objects in read.items() if objects})
    counts.update(ref.kind for ref in state.owners)
    return dict(counts)
