"""Small clusters for `podium why`, as documents, and the command on them in this process."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import Podium, calling

TIME = "2026-11-21T08:00:00Z"
LATER = "2026-11-21T08:10:00Z"


@pytest.fixture
def podium(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Podium:
    """Call `podium why` in an empty folder."""
    return calling("why", monkeypatch, tmp_path)


def file(objects: list[dict[str, Any]], name: str = "cluster.json") -> str:
    """Write objects as kubectl prints them."""
    Path(name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    return name


def uid_of(name: str) -> str:
    return f"uid-of-{name}"


def named(api_version: str, kind: str, name: str, namespace: str | None = "a", **rest: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": uid_of(name), "creationTimestamp": TIME}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= rest.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def unbound_claim(name: str, node: str) -> list[dict[str, Any]]:
    """Make a claim whose volume will be on a node, with its class and an unrelated volume."""
    metadata = {"annotations": {"volume.kubernetes.io/selected-node": node}}
    class_fields = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    return [
        named("v1", "PersistentVolumeClaim", name, metadata=metadata, spec={"storageClassName": "fast"}),
        named("storage.k8s.io/v1", "StorageClass", "fast", None, **class_fields),
        named("v1", "PersistentVolume", "other", None, spec={}),
    ]


def pod(
    name: str,
    *conditions: dict[str, Any],
    namespace: str = "a",
    priority: int | None = 0,
    node: str = "",
    group: str = "",
    scheduler: str = "podium-scheduler",
    cpu: str = "1",
    native: bool = False,
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Make a pod, a member of a Podium group unless `native`; `status` is added to its conditions."""
    meta = {**(metadata or {})}
    if group and not native:
        meta["labels"] = {"scheduling.podium.dev/pod-group": group}
    fields: dict[str, Any] = {
        "schedulerName": scheduler,
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        **spec,
    }
    if node:
        fields["nodeName"] = node
    if group and native:
        fields["schedulingGroup"] = {"podGroupName": group}
    phase = "Running" if node else "Pending"
    all_of_it = {"phase": phase, "startTime": TIME if node else None, "conditions": list(conditions)}
    return named("v1", "Pod", name, namespace, metadata=meta, spec=fields, status=all_of_it | (status or {}))


def group(
    name: str,
    *conditions: dict[str, Any],
    namespace: str = "a",
    least: int = 2,
    priority: int = 5,
    native: bool = False,
    whole: bool = True,
    **rest: Any,
) -> dict[str, Any]:
    """Make a gang of minCount `least`."""
    api = "scheduling.k8s.io/v1beta1" if native else "scheduling.podium.dev/v1beta1"
    spec = {
        "schedulingPolicy": {"gang": {"minCount": least}},
        "disruptionMode": {"all": {}} if whole else {"single": {}},
        "priority": priority,
        **rest.pop("spec", {}),
    }
    return named(api, "PodGroup", name, namespace, spec=spec, status={"conditions": list(conditions)}, **rest)


def composite(name: str, *conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Make a native composite group of priority 5, a gang of one group unless told otherwise."""
    fields = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}, "priority": 5, **spec}
    api, status = "scheduling.k8s.io/v1beta1", {"conditions": list(conditions)}
    return named(api, "CompositePodGroup", name, spec=fields, status=status)


def condition(kind: str, status: str, reason: str, message: str = "", time: str = LATER) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def disrupted(reason: str, message: str = "") -> dict[str, Any]:
    return condition("DisruptionTarget", "True", reason, message)


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    return condition("PodScheduled", "False", reason, message)


def node(name: str = "n1", cpu: str = "4", version: str = "v1.37.0") -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
        "nodeInfo": {"kubeletVersion": version},
    }
    return named("v1", "Node", name, None, status=status)


def priority_class(name: str, value: int, **rest: Any) -> dict[str, Any]:
    return named("scheduling.k8s.io/v1", "PriorityClass", name, None, value=value, **rest)


def event(
    about: str, reason: str, message: str, reporter: str, *, kind: str = "Pod", uid: str | None = None
) -> dict[str, Any]:
    """Make a v1 Event about an object of namespace a."""
    involved = {"kind": kind, "namespace": "a", "name": about, "uid": uid_of(about) if uid is None else uid}
    return named(
        "v1",
        "Event",
        f"{about}.{reason}",
        involvedObject=involved,
        reason=reason,
        message=message,
        reportingComponent=reporter,
        firstTimestamp=LATER,
    )


def party(kind: str, namespace: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"kind": kind, "namespace": namespace, "name": name, "uid": uid_of(name), **rest}


def record(*plans: dict[str, Any]) -> dict[str, Any]:
    """Make a PreemptionRecord of Podium's own namespace."""
    api = "scheduling.podium.dev/v1beta1"
    return named(api, "PreemptionRecord", "podium-scheduler-00", "podium-system", sequence=1, plans=plans)


def plan(
    preemptor: dict[str, Any], *units: dict[str, Any], mode: str = "Enforced", **rest: Any
) -> dict[str, Any]:
    """Make a plan of a record."""
    return {
        "time": LATER,
        "mode": mode,
        "result": "Planned" if mode == "Observed" else "Evicted",
        "preemptor": preemptor,
        "domain": "cluster",
        "units": units,
        "unitCount": len(units),
        "podCount": len(units),
        **rest,
    }
