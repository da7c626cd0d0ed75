"""Reduces slices, classes and claims of devices to what the scheduler reads, with equal parts kept once.

A slice may have 128 devices with 32 attributes each, and a cluster a slice for each node. Devices of one
product differ in few of them: an address, a serial number. So each value is shared, and attributes of a
device as a whole if another device has the same. Claims of one template share their spec. The caches are
those of devices alone: a thousand serial numbers must not push out the parts of pods.

A claim may have 32 configurations with 10 KiB of parameters each, and no quota limits the claims of a tenant.
Parameters are copied into the allocation at its write, and decide nothing. So each is kept as the number of
its configuration, and the write reads it again (`claimwrites`). A claim with devices keeps the names of its
requests. Once its allocation is gone, a watch brings all of it.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

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

# Shares equal parts of objects, so that thousands of copies are kept once.
#
# Each reader has caches of its own: parts of one kind of objects must not push out those of another.

_T = TypeVar("_T")
_Text = TypeVar("_Text", bound=str | None)

# JSON has integers of any size, where MessagePack has 64 bits; both take the same time.
_ENCODER = msgspec.json.Encoder()
# Longer parts (bytes) and texts (characters) are not shared: a cache would hold gigabytes of deleted objects.
LONGEST = 2**14


class Sharing:
    """The caches of one reader, for so many parts and texts."""

    def __init__(self, parts: int, texts: int) -> None:
        # A list for the name of a type and the encoded part: empty, or with the first part of that kind.
        self.first_part = lru_cache(parts)(_new_list)
        self.first_text = lru_cache(texts)(_same_text)

    def part(self, part: _T) -> _T:
        """Return the first of all parts that are equal to this one."""
        if part is None:
            return part
        mark = _ENCODER.encode(part)
        if len(mark) > LONGEST:
            return part
        first = self.first_part(type(part).__name__, mark)
        if not first:
            first.append(part)
        shared: _T = first[0]
        return shared

    def share_text(self, text: _Text) -> _Text:
        """Return the first of all texts that are equal to this one."""
        if text is None or len(text) > LONGEST:
            return text
        first: _Text = self.first_text(text)
        return first

    def fields(self, whole: _T, parts: Iterable[str] = (), texts: Iterable[str] = ()) -> _T:
        """Share the parts and texts of a Struct by the names of its fields, and return it."""
        if whole is not None:
            for part in parts:
                setattr(whole, part, self.part(getattr(whole, part)))
            for text in texts:
                setattr(whole, text, self.share_text(getattr(whole, text)))
        return whole


def _new_list(kind: str, mark: bytes) -> list[Any]:  # noqa: ARG001 - the arguments are the cache key
    return []


def _same_text(text: Any) -> Any:
    return text


# The number of cached parts, values of attributes, attributes of devices (nodes have up to a few hundred
# devices, and equal ones are on the next node), and texts.
_PARTS, _VALUES, _SETS, _TEXTS = 2**12, 2**12, 2**10, 2**14
_CACHE = Sharing(_PARTS, _TEXTS)
_shared, _shared_text, _parted = _CACHE.part, _CACHE.share_text, _CACHE.fields
_CONDITIONS = ("bindingConditions", "bindingFailureConditions")
_OF_DEVICES = ("capacity", "consumesCounters", "nodeSelector", "taints", *_CONDITIONS)
_OF_RESULTS = ("request", "driver", "pool", "device")
_SHARED_OF_RESULTS = ("tolerations", *_CONDITIONS, "consumedCapacity")


def transform_devices(obj: Devices) -> None:
    """Keep of an object what the scheduler reads; the object itself is changed."""
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
