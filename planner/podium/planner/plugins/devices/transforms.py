"""Reduces slices, classes and claims of devices to what the scheduler reads, with equal parts kept once.

A slice may have 128 devices with 32 attributes each, and a cluster a slice for each node. Devices of one
product differ in few of them: an address, a serial number. So each value is shared, and attributes of a
device as a whole if another device has the same. Claims of one template share their spec. The caches are
those of devices alone: a thousand serial numbers must not push out the parts of pods.

A claim may have 32 configurations with 10 KiB of parameters each, and no quota limits the claims of a tenant.
Parameters are copied into the allocation at its write, and decide nothing. So each is kept as the number of
its configuration, and the write reads it again. A claim with devices keeps the names of its
requests. Once its allocation is gone, a watch brings all of it.
"""

from functools import lru_cache
from typing import Any

import msgspec

from podium.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    Allocation,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClaimSpec,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
    SubRequest,
)
from podium.api.meta import ObjectMeta
from podium.cluster.state import Devices
from podium.planner.sharing import Sharing

# The number of cached parts, values of attributes, attributes of devices (nodes have up to a few hundred
# devices, and equal ones are on the next node), and texts.
_PARTS, _VALUES, _SETS, _TEXTS = 2**12, 2**12, 2**10, 2**14
_CACHE = Sharing(_PARTS, _TEXTS)
_shared, _shared_text, _parted = _CACHE.part, _CACHE.share_text, _CACHE.fields
_CONDITIONS = ("bindingConditions", "bindingFailureConditions")
_OF_DEVICES = ("capacity", "consumesCounters", "nodeSelector", "taints", *_CONDITIONS)
_OF_RESULTS = ("request", "driver", "pool", "device")
_SHARED_OF_RESULTS = ("tolerations", *_CONDITIONS, "consumedCapacity")


def transform_devices(obj: object) -> bool:
    """Keep of a slice, class or claim what the scheduler reads; return whether an object is one."""
    if not isinstance(obj, Devices):
        return False
    kept = obj.metadata.identity()
    kept.namespace = _shared_text(kept.namespace)
    match obj:
        case ResourceSlice():
            _slice(obj)
        case DeviceClass():
            # The newest of the classes with one extended resource counts.
            kept.creationTimestamp = obj.metadata.creationTimestamp
        case ResourceClaim():
            _claim(obj, kept)
        case _:
            pass
    obj.metadata = kept
    return True


def _claim(claim: ResourceClaim, kept: ObjectMeta) -> None:
    # A claim that was created for a pod or group must belong to it.
    owner = claim.metadata.controller()
    kept.ownerReferences = [owner] if owner is not None else None
    kept.finalizers = _shared(claim.metadata.finalizers)
    flag = (claim.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM)
    kept.annotations = _shared({EXTENDED_RESOURCE_CLAIM: flag[:8]}) if flag is not None else None
    if claim.status is not None and claim.status.allocation is not None:
        claim.spec = named_requests(claim.spec)
        _allocation(claim.status.allocation)
    for at, configuration in enumerate(claim.spec.devices.config or ()):
        if configuration.opaque is not None:
            configuration.opaque.parameters = at
    claim.spec = _shared(claim.spec)
    if claim.status is None:
        return
    for device in claim.status.devices or ():
        _parted(device, texts=("driver", "pool", "device"))
        device.conditions = _shared(device.conditions)


def named_requests(spec: DeviceClaimSpec) -> DeviceClaimSpec:
    """Return what is read of a claim that has its devices: the names of its requests and alternatives."""
    requests = [
        DeviceRequest(
            name=request.name,
            firstAvailable=[SubRequest(name=alternative.name) for alternative in request.firstAvailable or ()]
            or None,
        )
        for request in spec.devices.requests or ()
    ]
    return msgspec.structs.replace(spec, devices=DeviceClaim(requests=requests))


def _allocation(allocation: Allocation) -> None:
    allocation.nodeSelector = _shared(allocation.nodeSelector)
    allocation.devices.config = None
    for result in allocation.devices.results or ():
        _parted(result, _SHARED_OF_RESULTS, _OF_RESULTS)


def _slice(stored: ResourceSlice) -> None:
    spec = stored.spec
    _parted(spec, ("nodeSelector", "sharedCounters"), ("driver", "nodeName"))
    _parted(spec.pool, texts=("name",))
    for device in spec.devices or ():
        _device(device)


def _device(device: Device) -> None:
    _parted(device, _OF_DEVICES, ("name", "nodeName"))
    if device.attributes:
        device.attributes = _attributes(device.attributes)


def _attributes(attributes: dict[str, DeviceAttribute]) -> dict[str, DeviceAttribute]:
    """Share the attributes of a device, or return those of a device before that has the same."""
    shared = {_shared_text(name): _attribute(attribute) for name, attribute in attributes.items()}
    first = _first_attributes(hash(tuple(map(id, shared.values()))))
    if not first:
        first.append(shared)
    earlier: dict[str, DeviceAttribute] = first[0]
    return earlier if earlier == shared else shared


def _attribute(value: DeviceAttribute) -> DeviceAttribute:
    """Return the first of all values that are equal to this one; lists are not shared."""
    if value.integers or value.booleans or value.strings or value.versions:
        return value
    return _first_value(value.integer, value.boolean, value.string, value.version)


@lru_cache(_SETS)
def _first_attributes(mark: int) -> list[Any]:  # noqa: ARG001 - as above
    return []


@lru_cache(_VALUES)
def _first_value(
    integer: int | None, boolean: bool | None, string: str | None, version: str | None
) -> DeviceAttribute:
    return DeviceAttribute(integer=integer, boolean=boolean, string=string, version=version)
