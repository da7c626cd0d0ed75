"""Gives the workload of a file another number of replicas, for a plan with more or fewer of them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from podium import jsontext
from podium.api.fieldpath import at, parse_path
from podium.documents.document import Document
from podium.errors import QuestionError

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
