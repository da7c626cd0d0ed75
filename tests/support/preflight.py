"""A cluster of 1.36 as kubectl prints it, and the plan of its upgrade."""

import json
from typing import Any

from podium.api.reads import Kind
from podium.documents.load import load_state
from podium.documents.split import split
from podium.ops.preflight import PreflightPlan, preflight

OLD_VERSION, NEW_VERSION = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"
NAMESPACE = "team-a"

Object = dict[str, Any]


def group(name: str = "train", *, version: str = OLD_VERSION, **spec: Any) -> Object:
    """A gang of one as stored; by default of priority 0."""
    mode: Any = "PodGroup" if version == OLD_VERSION else {"all": {}}
    return {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "disruptionMode": mode,
            "priority": 0,
            **spec,
        },
        "status": {"conditions": []},
    }


def workload(*classes: str, name: str = "train", version: str = OLD_VERSION) -> Object:
    """A Workload with a template a class."""
    templates = [
        {
            "name": f"t{index}",
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "priorityClassName": class_name,
        }
        for index, class_name in enumerate(classes)
    ]
    return {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "spec": {"podGroupTemplates": templates},
    }


def pod(name: str = "train-0", *, of: str = "train", priority: int = 0, job: str = "") -> Object:
    """A pod of a group, created by a Job if one is named; it has a device."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner] if job else []},
        "spec": {
            "priority": priority,
            "schedulingGroup": {"podGroupName": of},
            "containers": [{"name": "main", "resources": {"requests": {"example.com/gpu": "8"}}}],
        },
    }


def composite(name: str, *, version: str = "scheduling.k8s.io/v1alpha3", **spec: Any) -> Object:
    """A CompositePodGroup as stored, of mode single."""
    made = group(name, version=version, disruptionMode={"single": {}}, **spec)
    return {**made, "kind": "CompositePodGroup"}


def budget(selector: Object, name: str = "keep") -> Object:
    """A budget as stored."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    spec = {"selector": selector, "maxUnavailable": 1}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def spread(name: str, selector: Object | None) -> Object:
    """A pod in no group with a required spread constraint."""
    constraint: Object = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    if selector is not None:
        constraint["labelSelector"] = selector
    made = pod(name)
    made["spec"] = {"topologySpreadConstraints": [constraint], "containers": made["spec"]["containers"]}
    return made


def node(name: str, labels: dict[str, str]) -> Object:
    """A node with room for any pod."""
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    allocatable = {"cpu": "64", "pods": "110", "example.com/gpu": "64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def planned(
    *objects: Object, current: str = "1.36", target: str = "1.37", folder: str | None = "out"
) -> PreflightPlan:
    """Plan the upgrade of a cluster of these objects, read as from a file."""
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    loaded = load_state(split(data, "cluster.json"), strict=True, keep=(Kind.POD_GROUP, Kind.WORKLOAD))
    return preflight(
        loaded.state,
        loaded.documents,
        current=current,
        current_by="as told",
        target=target,
        folder=folder,
    )
