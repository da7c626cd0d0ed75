"""The claims of a pod as its shape has them: the nodes of allocated ones, and the requests of the others.

The members of a gang have claims of their own with equal requests, and shall have one shape. So a need has
the name of its claim only if other pods may use the claim too. Then its devices are those of the first pod,
and the pod needs a place among the consumers of the claim.

Source: PreFilter of the plugin DynamicResources of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

import msgspec

from podium.api.devices import (
    EXACT_COUNT,
    MAX_ALTERNATIVES,
    Allocation,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
)
from podium.api.podclaims import EntryClaim
from podium.api.selectors import NodeRequirement, node_terms
from podium.cluster.reader import Name
from podium.planner.shapes import PodNeed, Shape

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
