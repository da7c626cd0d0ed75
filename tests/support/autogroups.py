"""Pods and their owners as the API server stores them: Job, JobSet (v0.8) and LeaderWorkerSet (v0.7)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from podium.api.core import Namespace, Pod
from podium.api.podkinds.kind import PodOwner
from podium.api.podkinds.table import OWNER_KINDS

Document = dict[str, Any]

NAMESPACE = "team-a"
ASKING = {"scheduling.podium.dev/gang": "auto"}
TREE = {"scheduling.podium.dev/gang-tree": "auto"}
GROUP_LABEL = "scheduling.podium.dev/pod-group"


def reference(kind: str, name: str, api_version: str = "", **rest: Any) -> Document:
    """Return the reference to a controller."""
    found = api_version or next(version for version, each in OWNER_KINDS if each == kind)
    return {
        "apiVersion": found,
        "kind": kind,
        "name": name,
        "uid": f"uid-of-{name}",
        "controller": True,
        **rest,
    }


def made_by(owner: Document | None, name: str = "p", labels: Mapping[str, str] | None = None) -> Document:
    """Return a pod that asks for a gang, as its controller sends it."""
    metadata: Document = {"name": name, "namespace": NAMESPACE, "labels": {**ASKING, **(labels or {})}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def of_job(name: str = "train", pod: str = "") -> Document:
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    return made_by(reference("Job", name), pod or f"{name}-abcde", labels)


def of_jobset(jobset: str = "train", role: str = "worker", index: int = 0, pod: str = "") -> Document:
    """A pod of a Job of a JobSet, with the labels of both."""
    job = f"{jobset}-{role}-{index}"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": jobset,
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "jobset.sigs.k8s.io/job-index": str(index),
        "batch.kubernetes.io/job-name": job,
    }
    return made_by(reference("Job", job), pod or f"{job}-0-abcde", labels)


def leader(lws: str = "serve", index: int = 0, *, labelled: bool = True) -> Document:
    """The leader of a replica; LeaderWorkerSet's webhook labels it before or after Podium's."""
    labels = {"leaderworkerset.sigs.k8s.io/name": lws, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    if labelled:
        labels["leaderworkerset.sigs.k8s.io/group-index"] = str(index)
    return made_by(reference("StatefulSet", lws), f"{lws}-{index}", labels)


def worker(lws: str = "serve", index: int = 0, place: int = 1) -> Document:
    """Return a worker of a replica; its StatefulSet has the leader's name."""
    labels = {
        "leaderworkerset.sigs.k8s.io/name": lws,
        "leaderworkerset.sigs.k8s.io/group-index": str(index),
    }
    return made_by(reference("StatefulSet", f"{lws}-{index}"), f"{lws}-{index}-{place}", labels)


def with_labels(pod: Document, labels: Mapping[str, str]) -> Document:
    """Return a pod with further labels."""
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


def read_pod(document: Document) -> Pod:
    return msgspec.convert(document, Pod)


def owner(kind: str, name: str, spec: Document | None, **rest: Any) -> PodOwner:
    """Return an owner as a store holds it; `rest` is its metadata and `status`."""
    api_version = next(version for version, each in OWNER_KINDS if each == kind)
    status = rest.pop("status", None)
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}", **rest}
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    return msgspec.convert(document, OWNER_KINDS[api_version, kind].type).neutral()


def namespace(**rest: Any) -> Namespace:
    """Return a namespace that lets its pods ask for a group, unless its `labels` deny it."""
    metadata = {"name": NAMESPACE, "labels": {"scheduling.podium.dev/auto-groups": "true"}, **rest}
    return msgspec.convert({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, Namespace)
