"""Short builders for clusters with devices: nodes with pools, a class, claims, and pods that use them.

A pod `p` uses the claim `p` unless a test names others. An allocated claim names its devices as `n0/gpu-1`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from tests.support.filters import builders
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import HOST

from podium.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    Allocation,
    ClaimConsumer,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from podium.api.groups import NATIVE_GROUP
from podium.api.schedulable import Schedulable
from podium.planner.engine import Engine
from podium.planner.plugins.devices.usage import DeviceUsage

Body = Mapping[str, Any]
DRIVER, CLASS, REQUEST = "gpu.example.com", "gpu", "gpus"
# The extended resource of device plugins, which a class may provide too.
RESOURCE = "example.com/gpu"
# The pool of devices that all nodes can use.
ANY = "any"


def devices_of(node: str, count: int, *, devices: Sequence[Body] | None = None, **spec: Any) -> ResourceSlice:
    """Make the slice with the devices gpu-0, gpu-1 ... of a node, or of all nodes for ANY."""
    where = {"allNodes": True} if node == ANY else {"nodeName": node}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    made = devices if devices is not None else [{"name": f"gpu-{at}"} for at in range(count)]
    body = {"driver": DRIVER, "pool": pool, "devices": list(made), **where, **spec}
    return msgspec.convert({"metadata": {"name": node}, "spec": body}, ResourceSlice)


def device_class(name: str = CLASS, expression: str = "true", resource: str | None = None) -> DeviceClass:
    """Make a class with one selector, which may provide an extended resource."""
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": resource}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def claim(
    name: str,
    held: Sequence[str] = (),
    users: Iterable[str] | None = None,
    *,
    count: int | None = 1,
    owner: str = "",
    group: str = "",
    requested: str = CLASS,
    terminating: bool = False,
    version: str = "",
    **request: Any,
) -> ResourceClaim:
    """Make a claim for so many devices, allocated if it has `held` some for its `users`.

    The users are the pod of the claim's name by default, or the native group `group`.
    """
    exactly = {"deviceClassName": requested, "allocationMode": "ExactCount", "count": count, **request}
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid_of(owner), "controller": True}]
    consumers = [{"resource": "pods", "name": each, "uid": uid_of(each)} for each in users or ()]
    if users is None:
        consumers = [{"resource": "pods", "name": name, "uid": uid_of(name)}]
    if group:
        consumers = [{"apiGroup": NATIVE_GROUP, "resource": "podgroups", "name": group, "uid": group}]
    status = {"allocation": allocation(held), "reservedFor": consumers} if held else None
    metadata = {
        "name": name,
        "namespace": NS,
        "uid": f"claim-{name}{version}",
        "ownerReferences": owners if owner else None,
        "deletionTimestamp": "2026-01-01T12:00:30Z" if terminating else None,
    }
    spec = {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, ResourceClaim)


def allocation(held: Sequence[str]) -> Body:
    """Return the allocation of these devices, which only their node can use."""
    pairs = [each.split("/") for each in held]
    results = [{"request": REQUEST, "driver": DRIVER, "pool": pool, "device": name} for pool, name in pairs]
    node = pairs[0][0]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": results}, "nodeSelector": None if node == ANY else selector}


def uid_of(pod: str) -> str:
    """Return the UID of a pod."""
    return f"{NS}-{pod}"


def node(name: str, **fields: Any) -> Any:
    """Make a node of 64 cpus."""
    return builders.node(name, {"cpu": 64}, labels={HOST: name}, **fields)


def pod(name: str, priority: int = 0, claims: Sequence[str] | None = None, **fields: Any) -> Schedulable:
    """Make a pod of 1 cpu with claims that it names, by default the one of its own name."""
    names = [name] if claims is None else claims
    entries = [{"name": f"x{at}", "resourceClaimName": each} for at, each in enumerate(names)]
    spec = {"schedulerName": "podium-scheduler", "resourceClaims": entries, **fields}
    return builders.pod(name, {"cpu": 1}, priority=priority, **spec)


def cluster(nodes: int, devices: int, resource: str | None = None) -> list[Any]:
    """Return the nodes n0, n1 ... with so many devices each, and the class."""
    names = [f"n{at}" for at in range(nodes)]
    slices = (devices_of(each, devices) for each in names)
    return [*map(node, names), *slices, device_class(resource=resource)]


def plugged(name: str, amount: int, **fields: Any) -> Any:
    """Make a node whose device plugin offers so much of the extended resource."""
    return builders.node(name, {"cpu": 64, RESOURCE: amount}, labels={HOST: name}, **fields)


def requesting(name: str, amount: int = 1, priority: int = 0, resource: str = RESOURCE, **fields: Any) -> Any:
    """Make a pod of 1 cpu that requests so much of the extended resource."""
    spec = {"schedulerName": "podium-scheduler", **fields}
    return builders.pod(name, {"cpu": 1, resource: amount}, priority=priority, **spec)


def extended(name: str, held: Sequence[str] = (), **fields: Any) -> ResourceClaim:
    """Make the claim for the extended resources of a pod, with these devices."""
    found = claim(name, held, count=max(len(held), 1), owner=name, **fields)
    found.metadata.annotations = {EXTENDED_RESOURCE_CLAIM: "true"}
    found.metadata.name = f"{name}-extended-resources-x"
    return found


def with_devices(name: str, held: Sequence[str], priority: int = 0, **fields: Any) -> list[Any]:
    """Return a running pod that requests the extended resource, and has these devices by its claim."""
    made = extended(name, held)
    mapping = {"containerName": "main", "resourceName": RESOURCE, "requestName": REQUEST}
    named = {"resourceClaimName": made.metadata.name, "requestMappings": [mapping]}
    status = {"extendedResourceClaimStatus": named}
    where = held[0].split("/")[0]
    return [made, requesting(name, len(held), priority, node=where, status=status, **fields)]


def holder(name: str, held: Sequence[str], priority: int = 0, *, on: str = "", **fields: Any) -> list[Any]:
    """Return a running pod with an allocated claim, on the node of its devices by default."""
    where = on or held[0].split("/")[0]
    return [claim(name, held, count=len(held)), pod(name, priority, node=where, **fields)]


def waiting(name: str, count: int = 1, priority: int = 10, **fields: Any) -> list[Any]:
    """Return a pending pod with a claim for so many devices."""
    return [claim(name, count=count), pod(name, priority, **fields)]


def used(usage: DeviceUsage, pools: Iterable[str]) -> list[str]:
    """Return the devices in use of these pools, each as often as claims have it."""
    found = []
    for name in pools:
        state = usage.pool((DRIVER, name))  # type: ignore[arg-type]  # a PoolID is such a pair
        for device, times in (state.devices if state is not None else {}).items():
            found += [f"{name}/{device}"] * times
    return sorted(found)


def held_by(plan: Allocation | None) -> list[str]:
    """Return the devices of an allocation, as pool/device."""
    return [
        f"{each.pool}/{each.device}" for each in (plan.devices.results if plan is not None else None) or ()
    ]


def consumers(found: ResourceClaim) -> list[str]:
    """Return the names of the consumers of a claim."""
    reserved: Sequence[ClaimConsumer] = (found.status.reservedFor if found.status is not None else None) or ()
    return [each.name for each in reserved]


def applied(
    engine: Engine, versions: Mapping[str, Sequence[Any]], changes: Iterable[tuple[str, int]]
) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Apply changes of objects, each to one of its versions or to None; the first one is there already.

    Yield the object before and after each change, and all objects that exist then.
    """
    stored = {name: each[0] for name, each in versions.items()}
    for name, at in changes:
        before, after = stored[name], versions[name][at]
        if before is not None or after is not None:
            engine.apply(before, after)
            stored[name] = after
            yield before, after, [each for each in stored.values() if each is not None]
