"""Makes manifests of storage: classes, drivers, capacities, volumes and claims."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from tests.support.filters.builders import empty_snapshot

from podium.api.schedulable import SCHEDULING_READS
from podium.api.storage import NO_PROVISIONER, SELECTED_NODE
from podium.planner.plugins.volumes.bindables import DelayedClaim, delayed_claim
from podium.planner.plugins.volumes.delayed import DelayedBinding
from podium.planner.snapshot import Snapshot

Manifest = dict[str, Any]

NS = "team-a"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
LOCAL = "local"
DRIVER = "csi.example.com"


def node(name: str, **labels: str) -> Manifest:
    """Return a node with its host name as a label; `zone` is short for the zone's label."""
    named = {ZONE if key == "zone" else key: value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {HOST: name, **named}}}


def storage_class(
    name: str, provisioner: str = NO_PROVISIONER, topologies: Iterable[Mapping[str, list[str]]] = ()
) -> Manifest:
    """Return a class with WaitForFirstConsumer; each topology is a term by label key."""
    terms = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in each.items()]}
        for each in topologies
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **({"allowedTopologies": terms} if terms else {}),
    }


def driver(name: str = DRIVER, *, publishes: bool | None = True) -> Manifest:
    """Return a CSI driver that publishes its capacity or not."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {} if publishes is None else {"storageCapacity": publishes},
    }


def capacity(
    name: str,
    of: str,
    topology: Mapping[str, str] | None,
    total: str | None = None,
    largest: str | None = None,
) -> Manifest:
    """Return the capacity of a class on the nodes with these labels; None is on no node."""
    made: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": NS},
        "storageClassName": of,
    }
    amounts = {"capacity": total, "maximumVolumeSize": largest}
    if topology is not None:
        made["nodeTopology"] = {"matchLabels": dict(topology)} if topology else {}
    return made | {field: amount for field, amount in amounts.items() if amount is not None}


def volume(
    name: str,
    size: str,
    of: str = LOCAL,
    *,
    on: Iterable[Mapping[str, list[str]]] | None = None,
    phase: str = "Available",
    claim: str = "",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    **spec: Any,
) -> Manifest:
    """Return a volume for nodes that meet a term of `on`, by label key; it may name a claim."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": each[key]} for key in each]}
        for each in on or ()
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if on is not None else {}
    owner = {"namespace": NS, "name": claim, **({"uid": uid} if uid else {})}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "labels": dict(labels or {}),
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            **affinity,
            **({"claimRef": owner} if claim else {}),
            **spec,
        },
        "status": {"phase": phase},
    }


def claim(
    name: str, size: str | None, of: str = LOCAL, *, selected: str | None = None, **spec: Any
) -> Manifest:
    """Return an unbound claim, whose UID is its name; `selected` is its selected node."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": name,
            **({"annotations": {SELECTED_NODE: selected}} if selected is not None else {}),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "resources": {"requests": {"storage": size}} if size is not None else {},
            **spec,
        },
    }


def in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """Return an object, or a volume with its claim, in another namespace."""
    metadata, spec = {**manifest["metadata"]}, {**manifest.get("spec", {})}
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    if "claimRef" in spec:
        spec["claimRef"] = {**spec["claimRef"], "namespace": namespace}
    return {**manifest, "metadata": metadata, **({"spec": spec} if "spec" in manifest else {})}


def decoded(manifest: Manifest) -> Any:
    """Return an object as the scheduler reads it."""
    read = SCHEDULING_READS[manifest["apiVersion"], manifest["kind"]]
    return msgspec.convert(manifest, read.type)


def read_claims(claims: Iterable[Manifest]) -> tuple[DelayedClaim, ...]:
    """Return claims as binding reads them."""
    unreadable: dict[str, None] = {}
    made = tuple(delayed_claim(decoded(each), unreadable) for each in claims)
    assert not unreadable
    return made


def binding(nodes: Iterable[Manifest], storage: Iterable[Manifest]) -> tuple[Snapshot, DelayedBinding]:
    """Return the snapshot of some nodes, and the binding of some storage on them."""
    snapshot = empty_snapshot()
    for each in nodes:
        snapshot.apply(None, decoded(each))
    made = DelayedBinding(snapshot)
    for each in storage:
        made.apply(None, decoded(each))
    return snapshot, made
