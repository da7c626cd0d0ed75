"""Load documents into the index: what was read, what was ignored, and which kinds allow no conclusions.

Files and live lists use the same loader, so an audit of a dump equals the audit of its cluster. Absence
proves nothing unless the kind was listed: every kind that was not listed is in `State.unread` with the
reason.
"""

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from podium.api.events import EVENT_READS, PAST_READS, Event
from podium.api.findings import ObjectError, ObjectRef, group_of
from podium.api.inputnotes import DuplicateInput, InputNotes
from podium.api.podkinds.table import CLUSTER_SCOPED_OWNERS
from podium.api.reads import MANIFEST_READS, READS, Kind, Reads
from podium.api.records import RECORD_READS, PreemptionRecord
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.state import ClusterState
from podium.documents import textfile
from podium.documents.clusterinfo import CLUSTER_INFO, CONFIG_MAP, ClusterInfo, SchedulerFile, of_config_map
from podium.documents.document import Document, Lines, Origin, ReadError
from podium.documents.scope import WHOLE, Scope, ScopeFilter
from podium.history.trust import Trust

NOT_IN_INPUT = "not in the input"
NOT_SERVED = "not served by this cluster"

NOT_FOR_SCHEDULING = "the dump lacks the scheduling fields. Dump the cluster again with this version"
NOT_FOR_VOLUMES = "the dump lacks the storage fields. Dump the cluster again with this version"
NOT_FOR_DEVICES = "the dump lacks devices and their claims. Dump the cluster again with this version"

CLUSTER_SCOPED = frozenset(
    (
        *(Kind.NODE, Kind.PRIORITY_CLASS, Kind.NAMESPACE, Kind.VOLUME),
        *(Kind.STORAGE_CLASS, Kind.CSI_NODE, Kind.CSI_DRIVER, Kind.ATTACHMENT),
        *(Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE),
    )
)
# The kinds that only pods with claims or disks need.
STORAGE_KINDS = (
    *(Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS),
    *(Kind.CSI_NODE, Kind.CSI_DRIVER, Kind.STORAGE_CAPACITY, Kind.ATTACHMENT),
)
# The kinds that only pods with resource claims, or with extended resources of devices, need.
DEVICE_KINDS = (Kind.RESOURCE_CLAIM, Kind.CLAIM_TEMPLATE, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)
# Kinds that only some commands read.
_OTHERS = {**SCHEDULING_READS, **PAST_READS}
_READ_KINDS = {(group_of(api_version), kind): read.kind for (api_version, kind), read in READS.items()}

Identity = tuple[str, str, str, str]  # group, kind, namespace, name: whatever the version


def identity_of(ref: ObjectRef) -> Identity:
    """Return the identity of an object, which all its versions share."""
    return ref.group, ref.kind, ref.namespace, ref.name


def note_duplicate(
    ref: ObjectRef, before: Origin, document: Document, notes: InputNotes, *, strict: bool
) -> None:
    """Note that a document replaces an earlier one of its object. Raises ReadError if `strict`."""
    if strict:
        raise document.error(f"{ref} is in the input twice, first in {before}. Remove one")
    notes.duplicates.append(DuplicateInput(str(ref), str(before), str(document.origin)))


class Origins:
    """The place of each object in the input; lines are looked up in the file on demand."""

    def __init__(self) -> None:
        self._origins: dict[Identity, Origin] = {}
        self._lines: dict[str, Lines | None] = {}

    def get(self, ref: ObjectRef) -> Origin | None:
        """Return the origin of an object, or None if it is not in the input."""
        return self._origins.get(identity_of(ref))

    def line(self, ref: ObjectRef, field: str = "") -> int | None:
        """Return the 1-based line of an object's field; None if its file cannot be read again, as stdin."""
        origin = self.get(ref)
        if origin is None:
            return None
        if origin.file not in self._lines:
            self._lines[origin.file] = _lines(origin.file)
        lines = self._lines[origin.file]
        return None if lines is None else lines.line(origin.document, origin.path(field))

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Convert an ObjectError from the context into a ReadError with the value's file and line."""
        try:
            yield
        except ObjectError as error:
            origin = self.get(error.object)
            if origin is None:
                raise
            line = self.line(error.object, error.field)
            raise ReadError(origin, error.problem, field=error.field, line=line) from None

    def record(self, identity: Identity, origin: Origin) -> Origin | None:
        """Store the origin of an object, and return the origin of an earlier one with the same identity."""
        known = self._origins.get(identity)
        self._origins[identity] = origin
        return known


class Loaded(NamedTuple):
    """The cluster as it was read.

    `skipped` counts objects of kinds that Podium does not read, by `apiVersion kind`. `listed` are the kinds
    with objects, or an empty List, in the input. `server` is the API server's version, or empty. `labels` are
    the keys of pods' and namespaces' labels in the input, None for all. `documents` are the whole objects of
    the kinds to keep; a dump has none, because it holds only the fields that Podium reads. `scheduler` is the
    file of Podium's scheduler, None if it was not looked for. `notes` are the files that were skipped, and
    the objects that were replaced. `event_times` are the times of events, as written.
    """

    state: ClusterState
    skipped: dict[str, int]
    origins: Origins
    listed: set[Kind]
    scope: Scope
    server: str
    labels: frozenset[str] | None
    documents: Mapping[ObjectRef, Document]
    scheduler: SchedulerFile | None
    notes: InputNotes
    event_times: Sequence[str] = ()


class Loader:
    """Indexes documents one by one with `reads`; kinds that only other commands read are ignored.

    Of an object that comes twice, the last counts, as for `kubectl apply`. With `strict` such an object is
    refused, and a kind that Podium does not read too. Namespaced objects out of the `scope` are left out, as
    in a live cluster. Documents of the kinds in `keep` (groups, Workloads,
    owners) are kept as well. `notes` receives the objects that were replaced or do not decode.
    """

    def __init__(
        self,
        *,
        native_served: bool,
        strict: bool = False,
        reads: Reads = READS,
        keep: Collection[Kind] = (),
        notes: InputNotes | None = None,
        scope: Scope = WHOLE,
    ) -> None:
        self._strict = strict
        self._scope = scope
        self._filter = ScopeFilter(scope)
        self._notes = InputNotes() if notes is None else notes
        self._keep = keep
        self._documents: dict[ObjectRef, Document] = {}
        self._reads = reads
        self._state = ClusterState(native_served=native_served)
        self._origins = Origins()
        self._skipped: dict[str, int] = {}
        self._listed: set[Kind] = set()
        self._info: ClusterInfo | None = None
        self._scheduler: SchedulerFile | None = None
        self._partly: dict[str, str] = {}
        self._unnamed = 0
        self._event_times: list[str] = []
        self._records: list[PreemptionRecord] = []

    def add(self, document: Document) -> None:
        """Index one object. Raises ReadError if it does not decode or has no name, or is a refused duplicate.

        An object of a folder that does not decode is noted, unless the reading is strict.
        """
        try:
            self._add(document)
        except ReadError as error:
            if self._strict or not document.found:
                raise
            self._notes.skipped.append(error.skipped())

    def _add(self, document: Document) -> None:
        read = self._reads.get((document.apiVersion, document.kind))
        if read is None:
            self._pass_over(document)
            return
        value: Any = document.read(read.type)
        metadata = value.metadata
        if not metadata.name:
            metadata.name = self._name(document, metadata.generateName)
        if read.kind in CLUSTER_SCOPED or document.kind in CLUSTER_SCOPED_OWNERS:
            metadata.namespace = None
        elif not metadata.namespace:
            metadata.namespace = "default"
        if metadata.namespace and not self._filter.keeps(metadata):
            self._listed.add(read.kind)
            return
        identity = (group_of(document.apiVersion), document.kind, metadata.namespace or "", metadata.name)
        before = self._origins.record(identity, document.origin)
        if before is not None:
            ref = ObjectRef(document.apiVersion, document.kind, *identity[2:])
            note_duplicate(ref, before, document, self._notes, strict=self._strict)
            for ref in [held for held in self._documents if identity_of(held) == identity]:
                del self._documents[ref]
        self._listed.add(read.kind)
        neutral = read.neutral(value)
        if read.kind in self._keep:
            self._documents[neutral.ref] = document
        self._state.apply(neutral)

    def mark_listed(self, kind: Kind) -> None:
        """Record that all objects of a kind were listed, however many there are."""
        self._listed.add(kind)

    def describe(self, info: ClusterInfo) -> None:
        """Set the data on the cluster beside its objects."""
        self._info = info

    def done(self) -> Loaded:
        """Return the index; kinds that were not listed, or only in part, are in its `unread`.

        Raises PodiumUsageError if the scope has no object of the input.
        """
        self._filter.check()
        info = self._info or ClusterInfo(scheduling=True, storage=True, devices=True)
        kinds = dict.fromkeys(str(read.kind) for read in self._reads.values())
        # Few files have composite groups, and their absence from files limits no rule.
        absent = kinds.keys() - self._listed - {Kind.COMPOSITE_GROUP}
        unread = {kind: NOT_IN_INPUT for kind in kinds if kind in absent} | self._partly
        lacking = _lacking(info, self._listed)
        if not SCHEDULING_READS.items() <= self._reads.items():
            # Only placement needs the other fields of pods and nodes.
            claimed = (*STORAGE_KINDS, *DEVICE_KINDS)
            lacking = {kind: why for kind, why in lacking.items() if kind in claimed and kind in kinds}
        unread |= lacking
        unread |= {kind: why for kind, why in info.unread.items() if kind in kinds}
        self._state.unread = unread
        self._state.note_untrusted(Trust(self._records).untrusted)
        selectors = ",".join(filter(None, (info.selector, self._scope.selector)))
        scope = Scope(self._scope.namespace or info.namespace, selectors)
        labels = None if info.labels is None else frozenset(info.labels)
        return Loaded(
            self._state,
            self._skipped,
            self._origins,
            self._listed,
            scope,
            info.server,
            labels,
            self._documents,
            self._scheduler or info.scheduler,
            self._notes,
            self._event_times,
        )

    def _pass_over(self, document: Document) -> None:
        """Record an empty List, the ClusterInfo of a dump or a scheduler's file; count unknown kinds."""
        api_version, kind = document.apiVersion, document.kind
        if (api_version, kind) == CLUSTER_INFO:
            self.describe(document.read(ClusterInfo))
            self._keep = ()
            return
        if kind == "List":
            return
        if (api_version, kind) == CONFIG_MAP and (file := of_config_map(document.value())) is not None:
            self._scheduler = file
            return
        read = self._reads.get((api_version, kind.removesuffix("List")))
        if read is not None:
            self.mark_listed(read.kind)
            return
        if (api_version, kind) in EVENT_READS:
            # No plan reads an event, so one that does not decode is no error.
            with suppress(ReadError):
                self._event_times.extend(document.read(Event).times)
        if (api_version, kind) in RECORD_READS:
            with suppress(ReadError):
                self._records.append(document.read(PreemptionRecord))
        if (api_version, kind.removesuffix("List")) in _OTHERS:
            return
        if self._strict:
            raise document.error(f"Podium does not read {api_version} {kind} (--strict)")
        name = f"{api_version} {kind}"
        self._skipped[name] = self._skipped.get(name, 0) + 1
        known = _READ_KINDS.get((group_of(api_version), kind))
        if known is not None:
            self._partly[known] = f"some are of {name}, a version that Podium does not read"

    def _name(self, document: Document, generate_name: str | None) -> str:
        """Return a name for an object without one; no real name contains `*`."""
        if not generate_name:
            raise document.error("is missing. Give the object a name", "metadata.name")
        self._unnamed += 1
        return f"{generate_name}*{self._unnamed}"


def _lacking(info: ClusterInfo, listed: Collection[Kind]) -> dict[str, str]:
    """Return the kinds of which a dump of an older version lacks objects or fields, with the reason."""
    lacking: dict[str, str] = {}
    if not info.scheduling:
        lacking |= dict.fromkeys((Kind.POD, Kind.NODE), NOT_FOR_SCHEDULING)
    if not info.storage:
        dumped = (Kind.CLAIM, Kind.VOLUME)
        lacking |= {kind: NOT_FOR_VOLUMES for kind in STORAGE_KINDS if kind in dumped or kind not in listed}
    if not info.devices:
        lacking |= {kind: NOT_FOR_DEVICES for kind in DEVICE_KINDS if kind not in listed}
    return lacking


def load_state(
    documents: Iterable[Document],
    *,
    strict: bool,
    reads: Reads = READS,
    keep: Collection[Kind] = (),
    notes: InputNotes | None = None,
    scope: Scope = WHOLE,
) -> Loaded:
    """Read every document in the scope into one index; `notes` are those of their reader. Raises ReadError.

    With owners among `reads`, owners are read that a live cluster does not list.
    """
    if any(read.kind is Kind.OWNER for read in reads.values()):
        reads = {**MANIFEST_READS, **reads}
    # A stored pod with the native field proves that its server stores the field.
    loader = Loader(native_served=True, strict=strict, reads=reads, keep=keep, notes=notes, scope=scope)
    with collector_paused():
        for document in documents:
            loader.add(document)
    return loader.done()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would scan a growing index repeatedly; it holds no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _lines(file: str) -> Lines | None:
    path = Path(file)
    try:
        # A pipe was read once and would now block or be empty.
        return Lines(textfile.expand(path.read_bytes())) if path.is_file() else None
    except (OSError, textfile.TextError):
        return None
