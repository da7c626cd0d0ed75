"""Read the objects of a file or folder that is added to a cluster, with another number of replicas if asked.

Each object has a name and is unique, and the number of pods is limited. As in all input of a command, the
last of two equal objects counts, and an object of a folder that does not decode is skipped.

A TrainJob is read as the JobSet that kubeflow/trainer creates for it. A TrainJob has no pod template. Its
runtime (TrainingRuntime or ClusterTrainingRuntime) is a JobSet, in which it sets the number of nodes, the
resources of each node, and patches of the pods. Runtimes create nothing. Steps that load data or a model are
left out: one pod each, which ends before the training begins.

Source: pkg/runtime of kubeflow/trainer (the jobset and mpi plugins).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import msgspec

from podium import jsontext
from podium.answers.expansion.makers import MOST_PODS, generated, size_of, uid_of
from podium.api.fieldpath import at, parse_path
from podium.api.findings import ObjectError, ObjectRef, group_of
from podium.api.foreign import MANIFEST_OWNERS
from podium.api.inputnotes import InputNotes
from podium.api.meta import ObjectMeta
from podium.api.podcreators import PodCreator
from podium.api.reads import MANIFEST_READS, Kind, Read
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.clusterinfo import CLUSTER_INFO
from podium.documents.document import Document, ReadError, in_json_words
from podium.documents.load import CLUSTER_SCOPED, Identity, identity_of, note_duplicate
from podium.errors import QuestionError
from podium.groups.inferred import TRAINJOB_STEP

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
        kind = MANIFEST_OWNERS[self.document.apiVersion, self.document.kind]
        owner: PodCreator = msgspec.convert(self.value, kind.type)
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
    found: dict[Identity, Added] = {}
    others: Counter[tuple[str, str]] = Counter()
    notes = InputNotes()
    for document in with_jobsets(documents):
        read = _READS.get((document.apiVersion, document.kind))
        if read is None:
            if (document.apiVersion, document.kind) != CLUSTER_INFO and not document.kind.endswith("List"):
                others[document.apiVersion, document.kind] += 1
            continue
        try:
            added = _with_name(document, read, now, len(found))
        except ReadError as error:
            if strict or not document.found:
                raise
            notes.skipped.append(error.skipped())
            continue
        before = found.pop(identity_of(added.ref), None)
        if before is not None:
            note_duplicate(added.ref, before.document.origin, document, notes, strict=strict)
        found[identity_of(added.ref)] = added
    _check_size(found.values())
    return list(found.values()), [*notes.lines(), *_skipped_notes(others)]


def _skipped_notes(others: Counter[tuple[str, str]]) -> Iterator[str]:
    """Yield the notes on kinds that were not read: those of Kubernetes itself create no pods."""
    for why, note in (
        (_Unread.UNNEEDED, "skipped, no plan depends on them"),
        (_Unread.VERSION, "not read, because plans know other versions of them"),
        (_Unread.CUSTOM, "not read; the plan lacks pods that they create and groups that they form"),
    ):
        kinds = [(key, number) for key, number in sorted(others.items()) if _why_unread(*key) is why]
        if kinds:
            yield f"{note}: {', '.join(f'{number:,} {each[0]} {each[1]}' for each, number in kinds)}"


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
        key: each for key, each in value["metadata"].items() if key not in ("resourceVersion", "namespace")
    }
    sent |= {"name": name, "uid": meta.uid or uid_of(document.kind, namespace, name)}
    sent |= {"creationTimestamp": meta.creationTimestamp or now}
    sent |= {"namespace": namespace} if namespace else {}
    return Added(document, read, {**value, "metadata": sent})


def _check_size(added: Iterable[Added]) -> None:
    """Raise an error if the file would create too many pods, before any pod is created."""
    total = 0
    for each in added:
        total += _size(each)
        if total > MOST_PODS:
            problem = f"{each.ref} brings the file to {total:,} pods. The maximum is {MOST_PODS:,}"
            raise each.document.error(problem)


def _size(added: Added) -> int:
    """Return the number of pods of an object; 0 for one that cannot be planned, which is reported later."""
    if added.read.kind is not Kind.OWNER:
        return int(added.read.kind is Kind.POD)
    try:
        return size_of(added.owner())
    except ObjectError:
        return 0


# The field with the number of replicas, by kind. Of a JobSet with several roles it would be ambiguous.
_FIELDS = {
    ("apps/v1", "Deployment"): "spec.replicas",
    ("apps/v1", "ReplicaSet"): "spec.replicas",
    ("apps/v1", "StatefulSet"): "spec.replicas",
    ("v1", "ReplicationController"): "spec.replicas",
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): "spec.replicas",
    ("batch/v1", "Job"): "spec.parallelism",
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "spec.replicatedJobs[0].replicas",
}
_POD = ("v1", "Pod")
_HINT = "Give a file with one Deployment, StatefulSet, LeaderWorkerSet, Job, JobSet with one role, or pod"


def scaled(documents: Sequence[Document], replicas: int) -> list[Document]:
    """Return documents in which the one workload has so many replicas; a pod becomes so many pods.

    For a Job that is its parallelism. Raises QuestionError if there is no such workload, or several.
    """
    found = [each for each in documents if (each.apiVersion, each.kind) in {*_FIELDS, _POD}]
    if len(found) != 1:
        number = "no" if not found else str(len(found))
        raise QuestionError("replicas", f"has {number} workloads with a number of replicas. {_HINT}")
    (workload,) = found
    others = [each for each in documents if each is not workload]
    if workload.kind == "Pod":
        return [*others, *(_copy(workload, index) for index in range(replicas))]
    return [*others, _with_replicas(workload, replicas)]


def _copy(pod: Document, index: int) -> Document:
    value = pod.value()
    meta = {key: each for key, each in (value.get("metadata") or {}).items() if key != "uid"}
    name = meta.get("name") or meta.get("generateName", "pod").rstrip("-")
    return msgspec.structs.replace(pod, body={**value, "metadata": {**meta, "name": f"{name}-{index}"}})


def _with_replicas(workload: Document, replicas: int) -> Document:
    value: dict[str, Any] = jsontext.parse(msgspec.json.encode(workload.value()), Any)
    *parents, field = parse_path(_FIELDS[workload.apiVersion, workload.kind])
    spec = value.setdefault("spec", {})
    if workload.kind == "JobSet" and len(spec.get("replicatedJobs") or ()) != 1:
        problem = "has not exactly one role, so its number of replicas is ambiguous. Change the file"
        raise workload.error(problem, "spec.replicatedJobs")
    at(value, tuple(parents))[field] = replicas
    if workload.kind == "Job" and spec.get("completions") is not None:
        # Completions limit the pods that run at once.
        spec["completions"] = max(spec["completions"], replicas)
    return msgspec.structs.replace(workload, body=value, inherits=False)


_TRAINER = "trainer.kubeflow.org/v1alpha1"
_JOBSET = "jobset.x-k8s.io/v1alpha2"
_CLUSTER, _NAMESPACED = "ClusterTrainingRuntime", "TrainingRuntime"
# The name of a role, and of the container in it, that spec.trainer changes.
_NODE = "node"
# Patches of containers change no request.
_CONTAINERS = ("containers", "initContainers")

_Value = dict[str, Any]


def with_jobsets(documents: Iterable[Document]) -> list[Document]:
    """Return documents without runtimes, and with a JobSet in place of each TrainJob of one of them."""
    listed = list(documents)
    runtimes = {
        _identity(each.kind, _map(each.value(), "metadata")): each.value()
        for each in listed
        if _is(each, _CLUSTER, _NAMESPACED)
    }
    found = []
    for document in listed:
        if _is(document, _CLUSTER, _NAMESPACED):
            continue
        runtime = runtimes.get(_runtime_of(document.value())) if _is(document, "TrainJob") else None
        found.append(document if runtime is None else _jobset(document, runtime))
    return found


def _is(document: Document, *kinds: str) -> bool:
    return document.apiVersion == _TRAINER and document.kind in kinds


def _identity(kind: str, metadata: Mapping[str, Any]) -> tuple[str, str, str]:
    namespace = "" if kind == _CLUSTER else metadata.get("namespace") or "default"
    return kind, str(namespace), str(metadata.get("name") or "")


def _runtime_of(trainjob: _Value) -> tuple[str, str, str]:
    ref = _map(trainjob, "spec", "runtimeRef")
    named = {**_map(trainjob, "metadata"), "name": ref.get("name")}
    return _identity(str(ref.get("kind") or _CLUSTER), named)


def _jobset(document: Document, runtime: _Value) -> Document:
    """Return the JobSet of a TrainJob, which has its name and labels."""
    trainjob = document.value()
    spec = {**_map(runtime, "spec", "template", "spec")}
    roles = _maps(spec.get("replicatedJobs"))
    first = [each.get("name") for each in roles if _step(each).endswith("-initializer")]
    rest = [each for each in roles if each.get("name") not in first]
    spec["replicatedJobs"] = [_role(_after(each, first), trainjob, runtime) for each in rest]
    if (suspend := _map(trainjob, "spec").get("suspend")) is not None:
        spec["suspend"] = suspend
    meta = _map(trainjob, "metadata")
    value = {"apiVersion": _JOBSET, "kind": "JobSet", "metadata": meta, "spec": spec}
    return msgspec.structs.replace(document, apiVersion=_JOBSET, kind="JobSet", body=value, inherits=False)


def _step(role: _Value) -> str:
    return str(_map(role, "template", "metadata", "labels").get(TRAINJOB_STEP, ""))


def _after(role: _Value, ended: list[Any]) -> _Value:
    """Return a role that no longer waits for roles that have ended."""
    waits = [each for each in _maps(role.get("dependsOn")) if each.get("name") not in ended]
    return {**role, "dependsOn": waits}


def _role(role: _Value, trainjob: _Value, runtime: _Value) -> _Value:
    """Return a role of the runtime with the numbers, resources and patches of a TrainJob."""
    job = _map(role, "template")
    spec, pods = {**_map(job, "spec")}, {**_map(job, "spec", "template")}
    pod_spec = {**_map(pods, "spec")}
    trains = _step(role) == "trainer"
    if trains or role.get("name") == _NODE:
        trainer = _map(trainjob, "spec", "trainer")
        number = _nodes(role, trainer, runtime, trains=trains)
        spec |= {"parallelism": number, "completions": number}
        if resources := trainer.get("resourcesPerNode"):
            pod_spec["containers"] = [
                {**each, "resources": resources} if each.get("name") == _NODE else each
                for each in _maps(pod_spec.get("containers"))
            ]
    if "volcano" in _map(runtime, "spec", "podGroupPolicy"):
        pod_spec.setdefault("schedulerName", "volcano")
    for patch in _patches(role.get("name"), trainjob):
        pod_spec |= {key: each for key, each in _map(patch, "spec").items() if key not in _CONTAINERS}
    spec["template"] = {**pods, "spec": pod_spec}
    return {**role, "template": {**job, "spec": spec}}


def _nodes(role: _Value, trainer: _Value, runtime: _Value, *, trains: bool) -> Any:
    """Return the number of pods of a role that trains. With MPI the launcher is one pod beside the nodes."""
    policy = _map(runtime, "spec", "mlPolicy")
    number = trainer.get("numNodes") or policy.get("numNodes") or 1
    if "mpi" not in policy:
        return number if trains else 1
    if role.get("name") != _NODE:
        return 1
    launcher = _map(policy, "mpi").get("runLauncherAsNode") is True
    return max(number - 1, 1) if launcher and isinstance(number, int) else number


def _patches(role: Any, trainjob: _Value) -> list[_Value]:
    """Return the patches of the pod template of a role, in the present and the former field."""
    spec = _map(trainjob, "spec")
    found = []
    for patch in _maps(spec.get("runtimePatches")):
        roles = _maps(_map(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs"))
        found += [_map(each, "template", "spec", "template") for each in roles if each.get("name") == role]
    for patch in _maps(spec.get("podTemplateOverrides")):
        if any(each.get("name") == role for each in _maps(patch.get("targetJobs"))):
            found.append(patch)
    return found


def _maps(value: Any) -> list[_Value]:
    """Return the mappings in a list; empty for other types."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _map(value: Any, *path: str) -> _Value:
    """Return the mapping at a path; empty if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
