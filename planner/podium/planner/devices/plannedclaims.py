"""The claims of a plan: what is assumed, what is to be written before a bind, and what is held or left over.

A plan names a claim by namespace and name, and by the UID that it had. The functions read what matters of a
claim as it is stored: its devices, its only node, and the pod whose extended resources it is for.
"""

from typing import NamedTuple

from podium.api.devices import EXTENDED_RESOURCE_CLAIM, Allocation, ClaimConsumer, ResourceClaim
from podium.api.schedulable import Schedulable
from podium.api.selectors import NAME_FIELD
from podium.cluster.reader import Name
from podium.planner.devices.extended import ExtendedClaim
from podium.planner.devices.needs import IN_MEMORY, ExtendedNeed

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


class ReservedClaim(NamedTuple):
    """The consumers that are to be written to a claim, with its allocation unless it has one already.

    A claim for extended resources is `created` first. It has no UID in the plan, but an owner.
    """

    claim: Name
    uid: str
    allocation: Allocation | None
    consumers: tuple[ClaimConsumer, ...]
    created: ExtendedClaim | None = None

    @property
    def assumed(self) -> AssumedClaim | None:
        """The allocation that the API server does not have yet, None for none."""
        if self.allocation is None:
            return None
        if self.created is None:
            return AssumedClaim(self.claim, self.uid, self.allocation)
        owner = self.consumers[0]
        key = memory_key(self.claim[0], owner.name, owner.uid)
        return AssumedClaim(key, "", self.allocation, stored=self.claim)

    def concerns(self, claim: ResourceClaim) -> bool:
        """Return whether a claim of this name is the planned one."""
        if self.created is None:
            return (claim.metadata.uid or "") == self.uid
        return owner_of(claim) == (self.consumers[0].name, self.consumers[0].uid)

    def is_written(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has these devices, or any if none are planned, and all the consumers."""
        stored = allocation_of(claim)
        same = stored is not None and (self.allocation is None or same_devices(stored, self.allocation))
        return same and not self.missing(claim)

    def is_reserved(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has these devices, or any of these consumers."""
        stored = allocation_of(claim)
        same = stored is not None and self.allocation is not None and same_devices(stored, self.allocation)
        return same or len(self.missing(claim)) < len(self.consumers)

    def missing(self, claim: ResourceClaim) -> list[ClaimConsumer]:
        """Return those of the consumers that a claim does not have."""
        known = {
            consumer.uid
            for consumer in (claim.status.reservedFor if claim.status is not None else None) or ()
        }
        return [consumer for consumer in self.consumers if consumer.uid not in known]


class HeldClaim(NamedTuple):
    """A claim that a pod holds with so many `devices`; other pods may hold it too if it is `shared`."""

    claim: Name
    devices: int
    shared: bool


class StaleClaim(NamedTuple):
    """A claim for extended resources that an earlier attempt left: it is to be deleted."""

    claim: Name
    uid: str

    def concerns(self, claim: ResourceClaim) -> bool:
        """Return whether a claim of this name is the one to be deleted."""
        return (claim.metadata.uid or "") == self.uid


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
