"""Typed builders for the objects of scheduling tests; constraints are given as in a manifest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from podium.api.core import RawQuantity
from podium.api.podrequests import LATEST
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.api.storage import (
    BIND_COMPLETED,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from podium.planner.framework import ChainContext, NodeFilter
from podium.planner.plugins import PLUGINS
from podium.planner.plugins.devices.plugin import DevicesPlugin
from podium.planner.plugins.volumes.needs import VolumeNeeds
from podium.planner.shapes import PodNeed, Shape
from podium.planner.snapshot import Snapshot

NS = "team-a"
N = TypeVar("N", bound=PodNeed)


def volume_needs(shape: Shape) -> VolumeNeeds:
    """Return what a shape of such a snapshot needs of volumes."""
    return need(shape, VolumeNeeds)


def need(shape: Shape, kind: type[N]) -> N:
    """Return the need of a kind in a shape of such a snapshot."""
    return next(own for own in shape.needs if isinstance(own, kind))


def filters_of(snapshot: Snapshot, kinds: Iterable[type[NodeFilter]]) -> list[NodeFilter]:
    """Return the filters of some kinds as a chain on a snapshot has them."""
    filters = {type(own): own for own in ChainContext({}).filters_of(snapshot.plugins)}
    return [filters[kind] for kind in kinds]


def device_plugin(snapshot: Snapshot) -> DevicesPlugin:
    """Return the plugin for devices of a snapshot."""
    return snapshot.plugin(DevicesPlugin)


def empty_snapshot(minor: int = LATEST, **settings: Any) -> Snapshot:
    """Make a snapshot of an empty cluster, with all plugins."""
    return Snapshot(minor, plugins=PLUGINS, **settings)


Quantities = Mapping[str, RawQuantity]


def pod(
    name: str = "pod",
    requests: Quantities | None = None,
    *,
    namespace: str = NS,
    labels: Mapping[str, str] | None = None,
    node: str | None = None,
    priority: int | None = 0,
    start: str | None = None,
    phase: str | None = None,
    group: str = "",
    uid: str | None = None,
    terminating: bool = False,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Schedulable:
    """Make a pod of one container that asks for `requests`; the keywords left over are fields of its spec.

    `pod("a", {"cpu": "1"}, node="n", tolerations=[{"operator": "Exists"}])`; a pod with a node is running.
    """
    made: dict[str, Any] = {
        "nodeName": node,
        "priority": priority,
        "containers": [container(requests)],
        **spec,
    }
    if group:
        made["schedulingGroup"] = {"podGroupName": group}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"{namespace}-{name}",
        "labels": dict(labels) if labels is not None else None,
        "deletionTimestamp": "2026-01-01T12:00:30Z" if terminating else None,
    }
    running = {"phase": phase or ("Running" if node else "Pending"), "startTime": start, **(status or {})}
    return msgspec.convert({"metadata": metadata, "spec": made, "status": running}, Schedulable)


def container(
    requests: Quantities | None = None,
    limits: Quantities | None = None,
    *,
    name: str = "main",
    sidecar: bool = False,
    ports: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Make a container of a manifest; a sidecar belongs to initContainers."""
    resources = {"requests": requests, "limits": limits}
    return {
        "name": name,
        "resources": {part: dict(amounts) for part, amounts in resources.items() if amounts is not None},
        "restartPolicy": "Always" if sidecar else None,
        "ports": list(ports) if ports is not None else None,
    }


def node(
    name: str = "node",
    allocatable: Quantities | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] | None = None,
    unschedulable: bool | None = None,
    features: Sequence[str] | None = None,
) -> SchedulableNode:
    """Return a node of 4 cpus, 16Gi and 110 pods; `allocatable` has the differences."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "110", **(allocatable or {})}
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": name, "labels": dict(labels) if labels is not None else None},
            "spec": {"taints": list(taints) if taints is not None else None, "unschedulable": unschedulable},
            "status": {"allocatable": room, "declaredFeatures": features},
        },
        SchedulableNode,
    )


def claim(
    name: str,
    volume: str | None = None,
    *,
    namespace: str = NS,
    owner: str = "",
    phase: str | None = None,
    terminating: bool = False,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Make a claim, bound to a volume if one is given, and created for a pod of the UID `owner`."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    annotations = {BIND_COMPLETED: "yes"} if volume is not None else None
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": annotations,
                "ownerReferences": owners if owner else None,
                "deletionTimestamp": "2026-01-01T12:00:30Z" if terminating else None,
            },
            "spec": {"volumeName": volume, **spec},
            "status": {"phase": phase},
        },
        PersistentVolumeClaim,
    )


def volume(
    name: str,
    *,
    terms: Sequence[Mapping[str, Any]] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """Make a volume that nodes of these node selector terms can reach; keywords are fields of its spec."""
    affinity = {"required": {"nodeSelectorTerms": list(terms)}} if terms is not None else None
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": dict(labels) if labels is not None else None},
            "spec": {"nodeAffinity": affinity, **spec},
        },
        PersistentVolume,
    )


def storage_class(name: str, mode: str | None = "Immediate", provisioner: str = "") -> StorageClass:
    """Make a class that binds claims at once, or with another mode for the node of a pod."""
    made = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    return msgspec.convert(made, StorageClass)


def mounts(*claims: str, ephemeral: Sequence[str] = ()) -> dict[str, Any]:
    """Return the volumes of a pod's spec: claims by name, and ephemeral ones by the volume's name."""
    named = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {"volumes": [*named, *({"name": name, "ephemeral": {}} for name in ephemeral)]}


def csi_node(name: str, drivers: Mapping[str, int | None]) -> CSINode:
    """Make the CSINode of a node with these drivers, each with its limit or None."""
    installed = [{"name": driver, "allocatable": {"count": limit}} for driver, limit in drivers.items()]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": installed}}, CSINode)


def csi_driver(name: str, *, required: bool | None = None) -> CSIDriver:
    """Make a driver; pods get no node without it if it is `required`."""
    spec = {"preventPodSchedulingIfMissing": required}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, CSIDriver)


def attachment(volume: str, node: str, driver: str) -> VolumeAttachment:
    """Make the attachment of a volume to a node."""
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return msgspec.convert({"metadata": {"name": f"{volume}-{node}"}, "spec": spec}, VolumeAttachment)
