"""The claims of a plan: what is assumed, what is to be written before a bind, and what is held or left over.

A plan names a claim by namespace and name, and by the UID that it had. The functions read what matters of a
claim as it is stored: its devices, its only node, and the pod whose extended resources it is for.

The members of a gang have claims of their own with equal requests, and shall have one shape. So a need has
the name of its claim only if other pods may use the claim too. Then its devices are those of the first pod,
and the pod needs a place among the consumers of the claim.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import msgspec

from podium.api.core import Container, Pod
from podium.api.devices import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    IMPLICIT_RESOURCE_PREFIX,
    MAX_ALTERNATIVES,
    AllocatedDevice,
    Allocation,
    ClaimConsumer,
    DeviceClaim,
    DeviceClaimSpec,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
)
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.podclaims import EntryClaim
from podium.api.quantity import QuantityError
from podium.api.schedulable import Schedulable
from podium.api.selectors import NAME_FIELD, NodeRequirement, node_terms
from podium.cluster.reader import Name
from podium.planner.plugins.devices.inventory import nanos
from podium.planner.shapes import PodNeed, Shape
from podium.text import listed

_ENCODER = msgspec.json.Encoder()
# The name of the claim for extended resources before it is written. No claim of a server has it.
IN_MEMORY = "<extended-resources>"


class ConsumerPlace(NamedTuple):
    """A place among the consumers of a claim: of the native group with this UID, or of each pod if empty."""

    claim: Name
    group: str = ""


class ClaimNeed(NamedTuple):
    """One claim of a pod.

    `requests` is its spec.devices in JSON, empty for a claim that is allocated: then `nodes` are the terms
    of which a node has to meet one, None for all nodes, and `points` those of the alternatives it took.
    `claim` is set for a claim without an allocation that pods may share. `place` is set for a claim that pods
    may share, unless the API server has the consumer already.
    """

    requests: bytes = b""
    nodes: tuple[NodeRequirement, ...] | None = ()
    claim: Name | None = None
    points: int = 0
    place: ConsumerPlace | None = None


class CountedRequest(NamedTuple):
    """A request of so many devices of a class."""

    name: str
    class_name: str
    amount: int


class ExtendedNeed(NamedTuple):
    """The requests for an extended resource on a node whose device plugins do not offer it."""

    resource: str
    requests: tuple[CountedRequest, ...]


class DeviceNeeds(PodNeed, frozen=True, cache_hash=True):
    """The needs of a pod in devices, the plugin's part of a shape.

    `refused` says why the pod's claims keep it from every node, empty if they do not. `extended` are the
    resources that a class provides where no device plugin does. `written` says that the status of the pod
    names a claim for them. The API server never removes it, and then no kubelet starts the pod without a
    claim.
    """

    claims: tuple[ClaimNeed, ...] = ()
    extended: tuple[ExtendedNeed, ...] = ()
    written: bool = False

    @property
    def node_constraints(self) -> tuple[tuple[NodeRequirement, ...] | None, ...]:
        """The terms of the allocated claims, of which a node has to meet one each."""
        return tuple(need.nodes for need in self.claims if not need.requests)

    @property
    def restricts(self) -> bool:
        """Return whether devices may restrict the nodes of the pod."""
        return bool(self.refused or self.claims or self.extended)

    @property
    def weight(self) -> int:
        """The number of parts, an estimate of the memory that they take."""
        return len(self.claims) + len(self.extended)


# Returns the needs in a shape.
NeedsOf = Callable[[Shape], DeviceNeeds]


def extended_requests(needs: Iterable[ExtendedNeed]) -> list[DeviceRequest]:
    """Return the requests of the claim for extended resources, by name."""
    return [
        DeviceRequest(
            name=name,
            exactly=ExactRequest(deviceClassName=class_name, allocationMode=EXACT_COUNT, count=amount),
        )
        for name, class_name, amount in sorted(request for need in needs for request in need.requests)
    ]


@lru_cache(2**10)
def extended_claim_need(namespace: str, needs: tuple[ExtendedNeed, ...]) -> ClaimNeed:
    """Return the need for the claim of some extended resources; the name is for messages."""
    claim = DeviceClaim(requests=extended_requests(needs))
    return ClaimNeed(requests=_ENCODER.encode(claim), claim=(namespace, IN_MEMORY))


def need_of(claim: ResourceClaim, entry: EntryClaim, consumers: AbstractSet[str]) -> ClaimNeed | None:
    """Return what a claim needs of nodes and consumers, None if no node is better than another.

    `consumers` are those that the API server has, by UID. A claim that was created for a pod is taken for the
    pod's own until it has other consumers.
    """
    own = entry.created and not entry.shared
    key = claim.metadata.namespace or "", claim.metadata.name or ""
    place = None
    if entry.consumer.uid not in consumers and (consumers or not own):
        place = ConsumerPlace(key, entry.consumer.uid if entry.shared else "")
    allocation = claim.status.allocation if claim.status is not None else None
    if allocation is None:
        requests = _ENCODER.encode(claim.spec.devices)
        return ClaimNeed(requests=requests, claim=None if own else key, place=place)
    points = alternative_points(claim.spec.devices.requests or (), allocation)
    if allocation.nodeSelector is None:
        return ClaimNeed(nodes=None, points=points, place=place) if points or place else None
    nodes = node_terms(allocation.nodeSelector.nodeSelectorTerms, {})
    return ClaimNeed(nodes=nodes, points=points, place=place)


def class_refusal(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> str:
    """Return which class keeps a claim from its devices, empty if all exist or it has its devices."""
    if claim.status is not None and claim.status.allocation is not None:
        return ""
    for request, name in _classes(claim.spec.devices):
        if name not in classes:
            return f"request {request}: device class {name} does not exist"
    return ""


def _classes(claim: DeviceClaim) -> Iterator[tuple[str, str]]:
    """Yield the class of each requirement, with its name in messages."""
    for request in claim.requests or ():
        if request.exactly is not None:
            yield request.name, request.exactly.deviceClassName
        for alternative in request.firstAvailable or ():
            yield f"{request.name}/{alternative.name}", alternative.deviceClassName


# Scores an allocation by the alternatives that it takes: the earlier ones of a request are preferred.
#
# kube-scheduler prefers nodes where claims get their first choices. The points of a node are scaled by the
# most of all nodes to choose from.
#
# Source: Score of the plugin DynamicResources of kube-scheduler 1.36 and 1.37.


# The score of the best node.
BEST_ALTERNATIVES = 100
# The weight of the score in the sum (kube-scheduler's default profile).
ALTERNATIVES_WEIGHT = 2


def alternative_points(requests: Iterable[DeviceRequest], allocation: Allocation) -> int:
    """Return the points of a claim's allocation: for each request more, the earlier its alternative is."""
    taken = {result.request for result in allocation.devices.results or ()}
    return sum(
        MAX_ALTERNATIVES - at
        for request in requests
        for at, alternative in enumerate(request.firstAvailable or ())
        if f"{request.name}/{alternative.name}" in taken
    )


# Extended resources that device classes provide: the claim that a scheduler creates for a pod.
#
# A pod can request a resource such as `example.com/gpu` from a device plugin or from a class with this name.
# On a node whose device plugin offers the resource, the plugin provides it; on others, the class does. Then
# the pod needs a claim with a request for each container. Containers that run at the same time need devices
# of their own. An init container ends before later containers start, so it uses their devices first, and init
# containers share what they need beyond these.
#
# kube-scheduler leaves the name of the claim to the API server. Here it follows from the pod's UID. So a
# create that is sent twice, by one leader or by two, makes one claim.
#
# Source: extendeddynamicresources.go of kube-scheduler and extendedresourcecache.go of
# k8s.io/dynamic-resource-allocation, 1.36 and 1.37.


# The longest name that the API server generates, and the length of its end here.
_LONGEST, _DIGITS = 63, 10

Classes = Mapping[str, DeviceClass]


class RequestMapping(NamedTuple):
    """The request whose devices a container uses for a resource, as in status.extendedResourceClaimStatus."""

    container: str
    resource: str
    request: str


class ExtendedClaim(NamedTuple):
    """The claim for the extended resources of a pod, and the use of its requests by containers."""

    claim: ResourceClaim
    mappings: tuple[RequestMapping, ...]


class _Need(NamedTuple):
    """A request of one container: its name, and the devices that it needs beyond those that it reuses."""

    name: str
    amount: int


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that provides each extended resource: the newest, and of these the first by name."""
    by_resource: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda class_: class_.metadata.name or "")
    for class_ in sorted(by_name, key=lambda class_: class_.metadata.creationTimestamp or "", reverse=True):
        if class_.spec.extendedResourceName is not None:
            by_resource.setdefault(class_.spec.extendedResourceName, class_)
        by_resource[f"{IMPLICIT_RESOURCE_PREFIX}{class_.metadata.name}"] = class_
    return by_resource


def extended_needs(pod: Pod, resources: Iterable[str], classes: Classes) -> tuple[ExtendedNeed, ...]:
    """Return the needs for those of a pod's requested resources that a class provides."""
    extended = []
    for resource in sorted(name for name in resources if name in classes and _extended(name)):
        class_name = classes[resource].metadata.name or ""
        needs, _ = _needs(pod, resource)
        requests = tuple(CountedRequest(need.name, class_name, need.amount) for need in needs)
        if requests:
            extended.append(ExtendedNeed(resource, requests))
    return tuple(extended)


def extended_claim(pod: Pod, needs: Sequence[ExtendedNeed]) -> ExtendedClaim:
    """Return the claim of a pod for these resources."""
    used = (mapping for need in needs for mapping in _needs(pod, need.resource)[1])
    spec = DeviceClaimSpec(devices=DeviceClaim(requests=extended_requests(needs)))
    return ExtendedClaim(ResourceClaim(metadata=_metadata(pod), spec=spec), tuple(used))


def extended_claim_name(pod: Pod) -> str:
    """Return the name of the claim for the extended resources of a pod: always the same for its UID."""
    end = sha256(f"{pod.metadata.uid}/{pod.metadata.name}".encode()).hexdigest()[:_DIGITS]
    return f"{_generated(pod)[: _LONGEST - _DIGITS]}{end}"


def _generated(pod: Pod) -> str:
    return f"{pod.metadata.name}-extended-resources-"


def _metadata(pod: Pod) -> ObjectMeta:
    return ObjectMeta(
        name=extended_claim_name(pod),
        generateName=_generated(pod),
        namespace=pod.metadata.namespace,
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        ownerReferences=[
            OwnerReference("v1", "Pod", pod.metadata.name or "", pod.metadata.uid or "", controller=True)
        ],
    )


def _needs(pod: Pod, resource: str) -> tuple[list[_Need], list[RequestMapping]]:
    """Return the requests for one resource, and the use of each."""
    init = pod.spec.initContainers or []
    containers: list[Container] = [*init, *(pod.spec.containers or ())]
    brief = [at for at, container in enumerate(init) if container.restartPolicy != "Always"]
    lasting: dict[int, _Need] = {}
    mappings: list[RequestMapping] = []
    for at, container in enumerate(containers):
        if at not in brief:
            need, used = _need(at, container, resource, ())
            mappings.extend(used)
            if need is not None:
                lasting[at] = need
    extra: list[_Need] = []
    of_init: list[RequestMapping] = []
    for at in brief:
        later = [need for place, need in lasting.items() if place >= at]
        need, used = _need(at, containers[at], resource, later)
        of_init.extend(used)
        if need is not None:
            extra.append(need)
    if not extra:
        return list(lasting.values()), [*mappings, *of_init]
    # Init containers run one after the other, so the largest of their requests serves all.
    largest = max(extra, key=lambda need: need.amount)
    names = {need.name for need in extra}
    of_init = [use._replace(request=largest.name) if use.request in names else use for use in of_init]
    return [largest, *lasting.values()], [*mappings, *of_init]


def _need(
    at: int, container: Container, resource: str, reusable: Iterable[_Need]
) -> tuple[_Need | None, list[RequestMapping]]:
    """Return a container's own request for a resource beside the reusable ones, and the use of each."""
    resources = container.resources
    # A server fills in a request from a limit.
    requests = {**(resources.limits or {}), **(resources.requests or {})} if resources is not None else {}
    try:
        amount, rest = divmod(nanos(requests.get(resource, 0)), 10**9)
    except QuantityError:
        # The pod is not placed.
        return None, []
    if amount <= 0 or rest:
        return None, []
    used: list[RequestMapping] = []
    have = 0
    for reused in reusable:
        have += reused.amount
        used.append(RequestMapping(container.name or "", resource, reused.name))
        if have >= amount:
            return None, used
    own = _Need(f"container-{at}-request-{sorted(requests).index(resource)}", amount - have)
    return own, [*used, RequestMapping(container.name or "", resource, own.name)]


def _extended(name: str) -> bool:
    """Return whether a class can provide a resource of this name."""
    if name.startswith(IMPLICIT_RESOURCE_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


# Devices that are not of one node.
ANYWHERE = ""


class AssumedClaim(NamedTuple):
    """The allocation that is to be written to a claim: the claim's key and UID.

    A claim for `extended` resources has a key in memory, and `stored` is its key once it is created.
    """

    claim: Name
    uid: str
    allocation: Allocation
    extended: tuple[ExtendedNeed, ...] = ()
    stored: Name | None = None


def memory_key(namespace: str, pod: str, uid: str) -> Name:
    """Return the key of the claim for a pod's extended resources before it is created."""
    return namespace, f"{IN_MEMORY}{pod}/{uid}"


def consumer_of(pod: Schedulable) -> ClaimConsumer:
    """Return a pod as the consumer of a claim."""
    return ClaimConsumer("", "pods", pod.metadata.name or "", pod.metadata.uid or "")


def owner_of(claim: ResourceClaim) -> tuple[str, str] | None:
    """Return name and UID of the pod whose extended resources a claim is for, None for another claim."""
    if (claim.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) != "true":
        return None
    owner = claim.metadata.controller()
    return (owner.name, owner.uid) if owner is not None and owner.kind == "Pod" else None


def claim_key(claim: ResourceClaim) -> Name:
    """Return namespace and name of a claim."""
    return claim.metadata.namespace or "", claim.metadata.name or ""


def is_allocated(claim: object) -> bool:
    """Return whether an object is a claim with an allocation."""
    return isinstance(claim, ResourceClaim) and allocation_of(claim) is not None


def same_devices(first: Allocation, second: Allocation) -> bool:
    """Return whether two allocations have the same devices for the same requests."""
    return _devices(first) == _devices(second)


def _devices(allocation: Allocation) -> list[tuple[str, str, str, str]]:
    results = allocation.devices.results or ()
    return [(result.request, result.driver, result.pool, result.device) for result in results]


def node_of(allocation: Allocation) -> str:
    """Return the only node that can use the devices of an allocation, ANYWHERE if there may be several."""
    selector = allocation.nodeSelector
    terms = (selector.nodeSelectorTerms if selector is not None else None) or ()
    for field in (terms[0].matchFields or ()) if len(terms) == 1 else ():
        if field.key == NAME_FIELD and field.operator == "In" and len(field.values or ()) == 1:
            return (field.values or [ANYWHERE])[0]
    return ANYWHERE


def allocation_of(claim: ResourceClaim) -> Allocation | None:
    """Return the allocation of a claim, None for none."""
    return claim.status.allocation if claim.status is not None else None


# Devices that their drivers prepare before a bind, such as devices that are attached to the node.
#
# An allocated device may name conditions that have to be true before a pod that uses it is bound, and others
# of which each one means that the device cannot be prepared. Its driver reports them in the status of the
# claim.
#
# Source: isClaimReadyForBinding of the plugin DynamicResources of kube-scheduler 1.36 and 1.37.


def failed_device(claim: ResourceClaim) -> str:
    """Return the device of a claim that cannot be prepared, with its conditions; empty if all may be."""
    for device, conditions in _prepared_devices(claim):
        failed = sorted({*(device.bindingFailureConditions or ())} & conditions)
        if failed:
            return f"device {device.driver}/{device.pool}/{device.device} has {listed(failed)}"
    return ""


def is_prepared(claim: ResourceClaim) -> bool:
    """Return whether all conditions are true that the devices of a claim name."""
    return all(
        conditions.issuperset(device.bindingConditions or ())
        for device, conditions in _prepared_devices(claim)
    )


def _prepared_devices(claim: ResourceClaim) -> Iterator[tuple[AllocatedDevice, set[str]]]:
    """Yield the devices that have to be prepared before a bind, each with its conditions that are true."""
    status = claim.status
    allocation = status.allocation if status is not None else None
    reported = (status.devices if status is not None else None) or ()
    for device in (allocation.devices.results if allocation is not None else None) or ():
        if device.bindingConditions:
            own = (device.driver, device.pool, device.device, device.shareID)
            yield (
                device,
                {
                    condition.type
                    for report in reported
                    if (report.driver, report.pool, report.device, report.shareID) == own
                    for condition in report.conditions or ()
                    if condition.status == "True"
                },
            )
