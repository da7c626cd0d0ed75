"""Read the objects of a file or folder that is added to a cluster, with another number of replicas if asked.

Each object has a name and is unique, and the number of pods is limited. As in all input of a command, the
last of two equal objects counts, and an object of a folder that does not decode is skipped.

A TrainJob is read as the JobSet that kubeflow/trainer creates for it with a runtime of the file. Runtimes
create nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import msgspec

from podium import jsontext
from podium.answers.expansion.createdpods import MOST_PODS, size_of
from podium.api.fieldpath import at, parse_path
from podium.api.findings import ObjectError, ObjectRef, group_of
from podium.api.inputnotes import InputNotes
from podium.api.meta import ObjectMeta
from podium.api.podkinds.created import generated, uid_of
from podium.api.podkinds.jobset import JOBSET_KEY
from podium.api.podkinds.kind import PodCreator
from podium.api.podkinds.table import OWNER_KINDS
from podium.api.podkinds.trainer import (
    TRAINJOB_KEY,
    RuntimeIdentity,
    is_runtime,
    jobset_of,
    runtime_identity,
    runtime_of,
)
from podium.api.reads import MANIFEST_READS, Kind, Read
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.clusterinfo import CLUSTER_INFO
from podium.documents.document import Document, ReadError, in_json_words
from podium.documents.load import CLUSTER_SCOPED, Identity, identity_of, note_duplicate
from podium.errors import QuestionError

T = TypeVar("T")
# The API groups of Kubernetes itself, without the suffix `.k8s.io`; all of their kinds with pods are read.
_BUILT_IN = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "policy", "networking", "rbac.authorization", "storage"),
        *("scheduling", "node", "coordination", "discovery", "events", "admissionregistration"),
        *("apiextensions", "apiregistration", "authentication", "authorization", "certificates"),
        *("flowcontrol.apiserver", "resource", "gateway.networking", "snapshot.storage", "metrics"),
    )
)
_READS = {**MANIFEST_READS, **SCHEDULING_READS}
_READ_KINDS = frozenset((group_of(api_version), kind) for api_version, kind in _READS)


class _Unread(Enum):
    """The reasons for which a kind of a file is not read."""

    UNNEEDED = "no plan depends on it"
    VERSION = "plans know other versions"
    CUSTOM = "it may create pods"


class Added(NamedTuple):
    """An object of the file: its read, and the whole object with a name, namespace, uid and age."""

    document: Document
    read: Read
    value: dict[str, Any]

    @property
    def ref(self) -> ObjectRef:
        """Return its identity."""
        meta = self.value["metadata"]
        return ObjectRef(
            self.document.apiVersion, self.document.kind, meta.get("namespace", ""), meta["name"]
        )

    def typed(self) -> Any:
        """Return the object decoded by its read."""
        return msgspec.convert(self.value, self.read.type)

    def owner(self) -> PodCreator:
        """Return an owner of pods as a whole object."""
        row = OWNER_KINDS[self.document.apiVersion, self.document.kind]
        owner: PodCreator = msgspec.convert(self.value, row.type)
        return owner

    def placed(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function with this object; an ObjectError becomes a ReadError of this document."""
        try:
            return function(*arguments, **named)
        except ObjectError as error:
            raise self.document.error(error.problem, error.field) from None


def converted(document: Document, value: object, form: type[T], path: str) -> T:
    """Return a part of a document at a path in the form of a type. Raises ReadError."""
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `$.")
        field = f"{path}.{field.removesuffix('`')}".strip(".")
        raise document.error(in_json_words(problem), field) from None


def read_added(
    documents: Iterable[Document], now: str, *, strict: bool = False
) -> tuple[list[Added], list[str]]:
    """Return the objects that plans depend on, and notes on the objects that were ignored. Raises ReadError.

    An object without a name gets the name that a server would generate. An object without an age gets the age
    of `now`. `strict` refuses duplicates, and objects of a folder that do not decode.
    """
    by_identity: dict[Identity, Added] = {}
    others: Counter[tuple[str, str]] = Counter()
    notes = InputNotes()
    for document in with_jobsets(documents):
        read = _READS.get((document.apiVersion, document.kind))
        if read is None:
            if (document.apiVersion, document.kind) != CLUSTER_INFO and not document.kind.endswith("List"):
                others[document.apiVersion, document.kind] += 1
            continue
        try:
            added = _with_name(document, read, now, len(by_identity))
        except ReadError as error:
            if strict or not document.found:
                raise
            notes.skipped.append(error.skipped())
            continue
        before = by_identity.pop(identity_of(added.ref), None)
        if before is not None:
            note_duplicate(added.ref, before.document.origin, document, notes, strict=strict)
        by_identity[identity_of(added.ref)] = added
    _check_size(by_identity.values())
    return list(by_identity.values()), [*notes.lines(), *_skipped_notes(others)]


def _skipped_notes(others: Counter[tuple[str, str]]) -> Iterator[str]:
    """Yield the notes on kinds that were not read: those of Kubernetes itself create no pods."""
    for why, note in (
        (_Unread.UNNEEDED, "skipped, no plan depends on them"),
        (_Unread.VERSION, "not read, because plans know other versions of them"),
        (_Unread.CUSTOM, "not read; the plan lacks pods that they create and groups that they form"),
    ):
        kinds = [(key, number) for key, number in sorted(others.items()) if _why_unread(*key) is why]
        if kinds:
            yield f"{note}: {', '.join(f'{number:,} {kind[0]} {kind[1]}' for kind, number in kinds)}"


def _why_unread(api_version: str, kind: str) -> _Unread:
    """Return why a kind is not read; a plan may depend on those of other projects, and on groups of pods."""
    group = group_of(api_version)
    if group.removesuffix(".k8s.io") not in _BUILT_IN or kind == "CompositePodGroup":
        return _Unread.CUSTOM
    return _Unread.VERSION if (group, kind) in _READ_KINDS else _Unread.UNNEEDED


def _with_name(document: Document, read: Read, now: str, index: int) -> Added:
    typed: Any = document.read(read.type)
    meta: ObjectMeta = typed.metadata
    namespace = "" if read.kind in CLUSTER_SCOPED else meta.namespace or "default"
    if not meta.name and not meta.generateName:
        raise document.error("is missing. Give the object a name", "metadata.name")
    name = meta.name or generated(meta.generateName or "", namespace, index)
    value = document.value()
    # An object that was taken from a server is added as a new object.
    sent = {
        key: field for key, field in value["metadata"].items() if key not in ("resourceVersion", "namespace")
    }
    sent |= {"name": name, "uid": meta.uid or uid_of(document.kind, namespace, name)}
    sent |= {"creationTimestamp": meta.creationTimestamp or now}
    sent |= {"namespace": namespace} if namespace else {}
    return Added(document, read, {**value, "metadata": sent})


def _check_size(added: Iterable[Added]) -> None:
    """Raise an error if the file would create too many pods, before any pod is created."""
    total = 0
    for obj in added:
        total += _size(obj)
        if total > MOST_PODS:
            problem = f"{obj.ref} brings the file to {total:,} pods. The maximum is {MOST_PODS:,}"
            raise obj.document.error(problem)


def _size(added: Added) -> int:
    """Return the number of pods of an object; 0 for one that cannot be planned, which is reported later."""
    if added.read.kind is not Kind.OWNER:
        return int(added.read.kind is Kind.POD)
    try:
        return size_of(added.owner())
    except ObjectError:
        return 0


_POD = ("v1", "Pod")
_HINT = "Give a file with one Deployment, StatefulSet, LeaderWorkerSet, Job, JobSet with one role, or pod"


def scaled(documents: Sequence[Document], replicas: int) -> list[Document]:
    """Return documents in which the one workload has so many replicas; a pod becomes so many pods.

    For a Job that is its parallelism. Raises QuestionError if there is no such workload, or several.
    """
    workloads = [document for document in documents if _api_kind(document) == _POD or _replicas(document)]
    if len(workloads) != 1:
        number = "no" if not workloads else str(len(workloads))
        raise QuestionError("replicas", f"has {number} workloads with a number of replicas. {_HINT}")
    (workload,) = workloads
    others = [document for document in documents if document is not workload]
    if workload.kind == "Pod":
        return [*others, *(_copy(workload, index) for index in range(replicas))]
    return [*others, _with_replicas(workload, replicas)]


def _api_kind(document: Document) -> tuple[str, str]:
    return document.apiVersion, document.kind


def _replicas(document: Document) -> str:
    """Return the field with the number of replicas, empty if the kind has none."""
    row = OWNER_KINDS.get(_api_kind(document))
    return row.replicas if row is not None else ""


def _copy(pod: Document, index: int) -> Document:
    value = pod.value()
    meta = {key: field for key, field in (value.get("metadata") or {}).items() if key != "uid"}
    name = meta.get("name") or meta.get("generateName", "pod").rstrip("-")
    return msgspec.structs.replace(pod, body={**value, "metadata": {**meta, "name": f"{name}-{index}"}})


def _with_replicas(workload: Document, replicas: int) -> Document:
    value: dict[str, Any] = jsontext.parse(msgspec.json.encode(workload.value()), Any)
    *parents, field = parse_path(_replicas(workload))
    spec = value.setdefault("spec", {})
    if workload.kind == "JobSet" and len(spec.get("replicatedJobs") or ()) != 1:
        problem = "has not exactly one role, so its number of replicas is ambiguous. Change the file"
        raise workload.error(problem, "spec.replicatedJobs")
    at(value, tuple(parents))[field] = replicas
    if workload.kind == "Job" and spec.get("completions") is not None:
        # Completions limit the pods that run at once.
        spec["completions"] = max(spec["completions"], replicas)
    return msgspec.structs.replace(workload, body=value, inherits=False)


def with_jobsets(documents: Iterable[Document]) -> list[Document]:
    """Return documents without runtimes, and with a JobSet in place of each TrainJob of one of them."""
    runtimes: dict[RuntimeIdentity, dict[str, Any]] = {}
    others: list[Document] = []
    for document in documents:
        if is_runtime(*_api_kind(document)):
            value = document.value()
            runtimes[runtime_identity(document.kind, value)] = value
        else:
            others.append(document)
    return [_trained(document, runtimes) for document in others]


def _trained(document: Document, runtimes: Mapping[RuntimeIdentity, dict[str, Any]]) -> Document:
    """Return the JobSet of a TrainJob of one of the runtimes, and any other document as it is."""
    runtime = runtimes.get(runtime_of(document.value())) if _api_kind(document) == TRAINJOB_KEY else None
    if runtime is None:
        return document
    api_version, kind = JOBSET_KEY
    jobset = jobset_of(document.value(), runtime)
    return msgspec.structs.replace(document, apiVersion=api_version, kind=kind, body=jobset, inherits=False)
