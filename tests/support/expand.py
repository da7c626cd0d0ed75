"""Files that are added to a cluster, and the cluster they are added to."""

import json
from typing import Any

from podium.answers.expansion.expand import Expansion, expand
from podium.api.schedulable import SCHEDULING_READS, Schedulable
from podium.cluster.state import ClusterState
from podium.documents.load import load_state
from podium.documents.split import split
from podium.rules.admission import Profile

NOW = "2026-11-21T19:00:00Z"
Document = dict[str, Any]

GOLD = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "gold"},
    "value": 1000,
}
ASKING = {"scheduling.podium.dev/gang": "auto"}
LETS = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "t", "labels": {"scheduling.podium.dev/auto-groups": "true"}},
}


def template(labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A pod template of one container that asks for a CPU."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **spec}}


def made(api_version: str, kind: str, name: str, spec: Any, **metadata: Any) -> Document:
    """An object of namespace t."""
    meta = {"name": name, "namespace": "t", **metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


def job(name: str = "train", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A Job of the class gold, with two parallel pods unless `spec` differs."""
    pods = template(labels, priorityClassName="gold")
    return made("batch/v1", "Job", name, {"parallelism": 2, "template": pods, **spec})


def jobset(*roles: Document, **spec: Any) -> Document:
    """A JobSet called js."""
    return made("jobset.x-k8s.io/v1alpha2", "JobSet", "js", {"replicatedJobs": list(roles), **spec})


def role(name: str, replicas: int = 1, labels: dict[str, str] | None = None, **rest: Any) -> Document:
    """A role of a JobSet, with two pods a Job."""
    job_template = {"spec": {"parallelism": 2, "template": template(labels)}}
    return {"name": name, "replicas": replicas, "template": job_template, **rest}


def leader_worker_set(replicas: int = 2, size: int = 3, **spec: Any) -> Document:
    """Return a LeaderWorkerSet called serve whose pods request a group."""
    pair = {"size": size, "workerTemplate": template(ASKING)}
    spec = {"replicas": replicas, "leaderWorkerTemplate": pair, **spec}
    return made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", spec)


def group(name: str = "g", api_version: str = "scheduling.k8s.io/v1beta1", **spec: Any) -> Document:
    """A gang of two with the class gold."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "gold"}
    return made(api_version, "PodGroup", name, {**policy, **spec})


def pod(name: str = "p", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A pod of namespace t."""
    pods = template(labels, **spec)
    return made("v1", "Pod", name, pods["spec"], labels=labels or {})


def member(name: str = "p", of: str = "g", **spec: Any) -> Document:
    """A pod of a native group, with the group's class."""
    return pod(name, schedulingGroup={"podGroupName": of}, **{"priorityClassName": "gold", **spec})


def cluster(*objects: Document, native: bool = True) -> ClusterState:
    """The index of these objects, with the class gold and a namespace that allows auto groups."""
    documents = split(json.dumps(_listed(GOLD, LETS, *objects)).encode(), "cluster.json")
    state = load_state(documents, strict=True, reads=SCHEDULING_READS).state
    state.serve_native(native)
    return state


def add(
    state: ClusterState,
    *objects: Document,
    kubernetes: str = "1.37",
    labels: frozenset[str] | None = None,
    strict: bool = False,
) -> Expansion:
    """Expand a file of these objects."""
    profile = Profile(kubernetes=kubernetes, rules="podium", workload_api=state.native_served)
    documents = split(json.dumps(_listed(*objects)).encode(), "new.json")
    return expand(documents, state, NOW, profile, labels, strict=strict)


def pods(expansion: Expansion) -> dict[str, Schedulable]:
    """The pods of an expansion by name."""
    return {each.metadata.name or "": each for each in expansion.objects if isinstance(each, Schedulable)}


def labels_of(found: Schedulable, *keys: str) -> list[str | None]:
    """Return some labels of a pod."""
    return [(found.metadata.labels or {}).get(key) for key in keys]


def _listed(*objects: Document) -> Document:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
