"""Groups, Workloads and the objects that use them, in either API, and the plan of a migration."""

import json
from typing import Any

from podium.api.groups import GROUP_LABEL
from podium.api.reads import Kind
from podium.documents.load import Loaded, load_state
from podium.documents.split import split
from podium.ops.migrate import Migration, plan_migration

NATIVE, PODIUM = "scheduling.k8s.io/v1beta1", "scheduling.podium.dev/v1beta1"
NAMESPACE = "team-a"

Object = dict[str, Any]


def metadata(kind: str, name: str, **more: Any) -> Object:
    return {"name": name, "namespace": NAMESPACE, "uid": f"{kind}-{name}", "resourceVersion": "7", **more}


def group(name: str = "train", *, version: str = NATIVE, workload: str = "", **more: Any) -> Object:
    """A gang of two that is evicted as a whole; `more` is metadata."""
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}
    if workload:
        spec["workloadRef"] = {"workloadName": workload, "templateName": "worker"}
    meta = metadata("PodGroup", name, **more)
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}


def workload(name: str = "llm", *, version: str = NATIVE, **more: Any) -> Object:
    """A Workload of one template."""
    templates = [{"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}}]
    return {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": metadata("Workload", name, **more),
        "spec": {"podGroupTemplates": templates},
    }


def composite(name: str = "all", *, version: str = PODIUM, parent: str = "", **more: Any) -> Object:
    """A composite group that needs two groups; `more` is metadata."""
    spec: Object = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "disruptionMode": {"single": {}}}
    spec |= {"workloadRef": {"workloadName": "llm", "templateName": "root"}}
    spec |= {"parentCompositePodGroupName": parent} if parent else {}
    meta = metadata("CompositePodGroup", name, **more)
    return {"apiVersion": version, "kind": "CompositePodGroup", "metadata": meta, "spec": spec}


def leaf(name: str = "train", *, parent: str = "all", **more: Any) -> Object:
    """A gang of a tree."""
    made = group(name, **more)
    made["spec"]["parentCompositePodGroupName"] = parent
    return made


def membership(name: str, *, native: bool) -> Object:
    """Return metadata and spec of a pod or template that names a group."""
    container = {"name": "main", "image": "main"}
    spec: Object = {"containers": [container]}
    if native:
        return {"metadata": {}, "spec": {**spec, "schedulingGroup": {"podGroupName": name}}}
    return {"metadata": {"labels": {GROUP_LABEL: name}}, "spec": spec}


def pod(
    name: str = "train-0",
    *,
    of: str = "train",
    native: bool = True,
    owner: Object | None = None,
    phase: str = "Running",
) -> Object:
    """A member of a group, created by `owner`."""
    made = membership(of, native=native)
    made["metadata"] |= {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner] if owner else []}
    return {"apiVersion": "v1", "kind": "Pod", **made, "status": {"phase": phase}}


def job(name: str = "train", *, of: str = "train", native: bool = True) -> Object:
    """Return a Job for the pods of a group."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata("Job", name),
        "spec": {"template": membership(of, native=native)},
    }


def reference(kind: str, name: str, *, version: str = "batch/v1", controller: bool = True) -> Object:
    """An owner reference."""
    identity = {"apiVersion": version, "kind": kind, "name": name, "uid": f"{kind}-{name}"}
    return {**identity, "controller": controller}


def loaded(*objects: Object) -> Loaded:
    """Read objects as from a file."""
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    return load_state(
        split(data, "cluster.json"), strict=True, keep=(Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.WORKLOAD)
    )


def planned(*objects: Object, target: str = PODIUM) -> Migration:
    """Plan to move a cluster of these objects to a version."""
    read = loaded(*objects)
    return plan_migration(read.state, read.documents, target, 37)
