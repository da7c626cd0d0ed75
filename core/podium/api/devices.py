"""Reads of devices: slices of the devices that drivers offer, their classes, and the claims for them.

They have the fields that the DynamicResources plugin of kube-scheduler and its allocator read or write, as
the API server stores them (resource.k8s.io/v1, Kubernetes 1.36 and 1.37), and no constraints. The parameters
of an opaque configuration are copied through as JSON values.

Source: k8s.io/api/resource/v1.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from podium.api.core import RawQuantity
from podium.api.meta import Int64, ObjectMeta
from podium.api.selectors import NodeSelector

DEVICE_API = "resource.k8s.io/v1"
# The finalizer of an allocated claim: it keeps the claim until its devices are free.
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
# An annotation of a claim that a scheduler created for the extended resources of a pod.
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
# The prefix of the extended resource that every class has without naming one.
IMPLICIT_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
# The allocation modes of a request; an API server fills in the first.
EXACT_COUNT, ALL = "ExactCount", "All"
# The limits of the API on the results of one claim, on its consumers, and on the alternatives of a request.
MAX_RESULTS, MAX_CONSUMERS, MAX_ALTERNATIVES = 32, 256, 8


class DeviceAttribute(msgspec.Struct, gc=False):
    """A value of a device: exactly one field is set, a list only behind a feature gate."""

    integer: Int64 | None = msgspec.field(name="int", default=None)
    boolean: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    integers: list[Int64] | None = msgspec.field(name="ints", default=None)
    booleans: list[bool] | None = msgspec.field(name="bools", default=None)
    strings: list[str] | None = None
    versions: list[str] | None = None


class CapacityRange(msgspec.Struct, gc=False):
    """The amounts between a minimum and a maximum, in steps from the minimum."""

    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(msgspec.Struct, gc=False):
    """The amounts of a capacity that one request may consume; the default is for requests without one."""

    default: RawQuantity | None = None
    validValues: list[RawQuantity] | None = None
    validRange: CapacityRange | None = None


class DeviceCapacity(msgspec.Struct, gc=False):
    """An amount of a device, such as its memory."""

    value: RawQuantity = "0"
    requestPolicy: CapacityRequestPolicy | None = None


class DeviceCounter(msgspec.Struct, gc=False):
    """An amount that several devices of a pool share."""

    value: RawQuantity = "0"


class CounterSet(msgspec.Struct, gc=False):
    """The shared counters of one physical device, by name."""

    name: str = ""
    counters: dict[str, DeviceCounter] | None = None


class CounterConsumption(msgspec.Struct, gc=False):
    """The amounts that a device takes from one counter set of its pool."""

    counterSet: str = ""
    counters: dict[str, DeviceCounter] | None = None
    # Kubernetes 1.37, behind a gate that is off by default.
    compatibilityGroups: list[str] | None = None


class DeviceTaint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a device; the effect None only informs."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceToleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tolerated taint of devices; it is copied into the results of an allocation."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    tolerationSeconds: Int64 | None = None


class Device(msgspec.Struct, gc=False):
    """A device of a slice; the names of attributes and capacities may lack the driver's domain."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumesCounters: list[CounterConsumption] | None = None
    # Set only in a slice with perDeviceNodeSelection, and then exactly one.
    nodeName: str | None = None
    nodeSelector: NodeSelector | None = None
    allNodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    bindsToNode: bool | None = None
    bindingConditions: list[str] | None = None
    bindingFailureConditions: list[str] | None = None
    allowMultipleAllocations: bool | None = None


class ResourcePool(msgspec.Struct, gc=False):
    """The pool of a slice: only the slices of the highest generation count, and only if all are there."""

    name: str = ""
    generation: Int64 = 0
    resourceSliceCount: Int64 = 0


class ResourceSliceSpec(msgspec.Struct, gc=False):
    """spec of a slice: devices, or counters that devices of the same pool share."""

    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    # Exactly one of these four is set.
    nodeName: str | None = None
    nodeSelector: NodeSelector | None = None
    allNodes: bool | None = None
    perDeviceNodeSelection: bool | None = None
    devices: list[Device] | None = None
    sharedCounters: list[CounterSet] | None = None
    # Kubernetes 1.37: the steps that the kubelet skips, copied into the results.
    skipNodeOperations: list[str] | None = None


class ResourceSlice(msgspec.Struct, gc=False):
    """resource.k8s.io/v1 ResourceSlice."""

    apiVersion: str = DEVICE_API
    kind: str = "ResourceSlice"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


class CELSelector(msgspec.Struct, frozen=True, gc=False):
    """An expression over one device, which is true for a selected device."""

    expression: str = ""


class DeviceSelector(msgspec.Struct, frozen=True, gc=False):
    """A condition on a device."""

    cel: CELSelector | None = None


class OpaqueConfiguration(msgspec.Struct, gc=False):
    """Parameters for one driver; the content is the driver's own."""

    driver: str = ""
    parameters: Any = None


class ClassConfiguration(msgspec.Struct, gc=False, omit_defaults=True):
    """A configuration for all devices that are allocated through a class."""

    opaque: OpaqueConfiguration | None = None


class ClaimConfiguration(msgspec.Struct, gc=False, omit_defaults=True):
    """A configuration for the devices of some requests of a claim, or of all if it names none."""

    requests: list[str] | None = None
    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(msgspec.Struct, gc=False):
    """spec of a class."""

    selectors: list[DeviceSelector] | None = None
    config: list[ClassConfiguration] | None = None
    extendedResourceName: str | None = None


class DeviceClass(msgspec.Struct, gc=False):
    """resource.k8s.io/v1 DeviceClass."""

    apiVersion: str = DEVICE_API
    kind: str = "DeviceClass"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class CapacityRequirements(msgspec.Struct, gc=False):
    """The amounts that a request needs of each device."""

    requests: dict[str, RawQuantity] | None = None


class DeviceRequirement(msgspec.Struct, gc=False):
    """The devices of one class that a request needs: the form of `exactly` and of each alternative."""

    deviceClassName: str = ""
    selectors: list[DeviceSelector] | None = None
    allocationMode: str | None = None
    count: Int64 | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class ExactRequest(DeviceRequirement, gc=False):
    """A requirement without alternatives, which alone may ask for access beside the users of a device."""

    adminAccess: bool | None = None


class SubRequest(DeviceRequirement, gc=False):
    """One alternative of a request, with a name of its own."""

    name: str = ""


class DeviceRequest(msgspec.Struct, gc=False):
    """A request of a claim: one requirement, or the first that can be met of some."""

    name: str = ""
    exactly: ExactRequest | None = None
    firstAvailable: list[SubRequest] | None = None


class DeviceConstraint(msgspec.Struct, gc=False):
    """An attribute that the devices of some requests share, or that differs between all of them.

    Without requests it concerns all. A name `request/subrequest` concerns one alternative only.
    """

    requests: list[str] | None = None
    matchAttribute: str | None = None
    distinctAttribute: str | None = None


class DeviceClaim(msgspec.Struct, gc=False):
    """The devices that a claim needs."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[ClaimConfiguration] | None = None


class DeviceClaimSpec(msgspec.Struct, gc=False):
    """spec of a claim, and of a claim's template."""

    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class ClaimConsumer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod or a group that uses an allocated claim."""

    apiGroup: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDevice(msgspec.Struct, gc=False, omit_defaults=True):
    """One device that was allocated for a request (`request`, or `request/subrequest`)."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    adminAccess: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    bindingConditions: list[str] | None = None
    bindingFailureConditions: list[str] | None = None
    shareID: str | None = None
    consumedCapacity: dict[str, RawQuantity] | None = None
    skipNodeOperations: list[str] | None = None


class AllocatedConfiguration(msgspec.Struct, gc=False, omit_defaults=True):
    """A configuration of an allocation, with its source: FromClass or FromClaim."""

    source: str = ""
    requests: list[str] | None = None
    opaque: OpaqueConfiguration | None = None


class DeviceAllocation(msgspec.Struct, gc=False, omit_defaults=True):
    """The devices of an allocation in the order of the requests, and their configuration."""

    results: list[AllocatedDevice] | None = None
    config: list[AllocatedConfiguration] | None = None


class Allocation(msgspec.Struct, gc=False, omit_defaults=True):
    """An allocation of a claim: devices, and the nodes from which they can be used (None: all)."""

    devices: DeviceAllocation = msgspec.field(default_factory=DeviceAllocation)
    nodeSelector: NodeSelector | None = None
    allocationTimestamp: str | None = None


class DeviceCondition(msgspec.Struct, gc=False):
    """A condition that a driver sets on an allocated device."""

    type: str = ""
    status: str = ""


class DeviceStatus(msgspec.Struct, gc=False):
    """The state of an allocated device, as its driver reports it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    shareID: str | None = None
    conditions: list[DeviceCondition] | None = None


class ResourceClaimStatus(msgspec.Struct, gc=False):
    """status of a claim."""

    allocation: Allocation | None = None
    reservedFor: list[ClaimConsumer] | None = None
    devices: list[DeviceStatus] | None = None


class ResourceClaim(msgspec.Struct, gc=False):
    """resource.k8s.io/v1 ResourceClaim."""

    apiVersion: str = DEVICE_API
    kind: str = "ResourceClaim"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DeviceClaimSpec = msgspec.field(default_factory=DeviceClaimSpec)
    status: ResourceClaimStatus | None = None


class ClaimTemplateSpec(msgspec.Struct, gc=False):
    """spec of a template: the metadata and the spec of the claims that are created from it."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DeviceClaimSpec = msgspec.field(default_factory=DeviceClaimSpec)


class ResourceClaimTemplate(msgspec.Struct, gc=False):
    """resource.k8s.io/v1 ResourceClaimTemplate."""

    apiVersion: str = DEVICE_API
    kind: str = "ResourceClaimTemplate"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ClaimTemplateSpec = msgspec.field(default_factory=ClaimTemplateSpec)


def provided_resources(classes: Iterable[DeviceClass]) -> frozenset[str]:
    """Return the extended resources that classes provide on nodes without a device plugin for them."""
    resources = set[str]()
    for device_class in classes:
        resources.add(f"{IMPLICIT_RESOURCE_PREFIX}{device_class.metadata.name}")
        if device_class.spec.extendedResourceName is not None:
            resources.add(device_class.spec.extendedResourceName)
    return frozenset(resources)
