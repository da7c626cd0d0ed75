"""The writes to claims for devices before their pods are bound: devices, consumers, claims that are created.

A claim gets its finalizer first, then its devices and their consumers in one write of its status. The
parameters of its configurations are copied into the allocation. The answer to the first write has them,
because the cache does not (`transforms`). To undo that removes the consumers, and the devices if no other
consumer is left. An allocation has a timestamp. kube-scheduler adds a missing one for a further pod of the
claim, and the API server refuses that.

A claim for extended resources is created with its finalizer, gets its devices, and is named in the status of
its pod. To undo that deletes it. A claim of this name that an earlier attempt left is used if it has the same
requests and no other devices, else it is deleted first.

Source: bindClaim and deleteClaim of the plugin DynamicResources of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from podium import jsontext
from podium.api.devices import (
    CLAIM_FINALIZER,
    DEVICE_API,
    MAX_CONSUMERS,
    AllocatedConfiguration,
    Allocation,
    ClaimConfiguration,
    ClaimConsumer,
    DeviceClaimSpec,
    ResourceClaim,
    ResourceClaimStatus,
)
from podium.api.reads import Kind
from podium.cluster.reader import ClusterReader, Name
from podium.planner.liveplugin import (
    CachedObject,
    ChangedError,
    Creation,
    Deletion,
    GoneError,
    MergePatch,
    ObjectKey,
    Patch,
    PodStatusPatch,
    PreBindWrite,
    Step,
)
from podium.planner.plugins.devices.claims import (
    AssumedClaim,
    ExtendedClaim,
    allocation_of,
    failed_device,
    is_allocated,
    is_prepared,
    memory_key,
    owner_of,
    same_devices,
)
from podium.planner.plugins.devices.transforms import named_requests

_SPEC = jsontext.Decoder(DeviceClaimSpec)


@dataclass(frozen=True)
class ClaimReservation(PreBindWrite):
    """The consumers that are to be written to a claim, with its allocation unless it has one already.

    A claim for extended resources is `created` first. It has no UID in the plan, but an owner. The write is
    done once the devices are prepared.
    """

    NOUN = "claim"

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

    def written_to(self, claim: ResourceClaim) -> ResourceClaim:
        """Return a claim with these devices and consumers."""
        status = claim.status or ResourceClaimStatus()
        consumers = [*(status.reservedFor or ()), *self.missing(claim)]
        allocation = self.allocation or status.allocation
        status = msgspec.structs.replace(status, allocation=allocation, reservedFor=consumers)
        return msgspec.structs.replace(claim, status=status)

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

    @property
    def awaited(self) -> ObjectKey:
        """The claim."""
        return ObjectKey(Kind.RESOURCE_CLAIM, *self.claim)

    def cached(self, view: ClusterReader) -> ResourceClaim | None:
        """Return the planned claim."""
        claim = view.resource_claims.get(self.claim)
        return claim if claim is not None and self.concerns(claim) else None

    def is_done(self, known: ResourceClaim | None) -> bool:
        """Return whether the claim has its devices, which are prepared, and its consumers."""
        return known is not None and self.is_written(known) and is_prepared(known)

    def obstacle(self, known: ResourceClaim | None, *, seen: bool) -> str:
        """Return that the claim is gone, or the device that cannot be prepared."""
        if known is None:
            return super().obstacle(known, seen=seen) if seen or self.created is None else ""
        failed = failed_device(known)
        return f"claim {self.claim[1]}: {failed}" if failed else ""

    def is_stored(self, view: ClusterReader) -> bool:
        """Return whether the claim has its devices, or a consumer, or was created."""
        known = self.cached(view)
        return known is not None and (self.created is not None or self.is_reserved(known))

    def merged(self, other: "ClaimReservation") -> "ClaimReservation":
        """Return one write for the consumers of both."""
        consumers = dict.fromkeys((*self.consumers, *other.consumers))
        return replace(other, consumers=tuple(consumers))

    def steps(self, now: datetime) -> Sequence[Step]:
        """Return the creation, the finalizer, the devices with the consumers, and the name in the status."""
        stored = _stored(self.claim)
        patches = (
            MergePatch(stored, self._protect),
            MergePatch(stored, partial(self._allocate, now), "/status"),
        )
        if self.created is None:
            return patches
        made = self.created
        usable = partial(self._is_usable, made)
        creation = Creation(_deletion(self), _document(made), ResourceClaim, usable)
        return (creation, *patches, self._name(made))

    def undo(self) -> Sequence[Step]:
        """Return the patch of the status, or the deletion of a claim that was created."""
        if self.created is not None:
            return (_deletion(self),)
        return (MergePatch(_stored(self.claim), self._deallocate, "/status"),)

    def _is_usable(self, made: ExtendedClaim, claim: ResourceClaim) -> bool:
        """Return whether a claim of an earlier attempt has the planned requests, and no other devices."""
        if not self.concerns(claim):
            raise ChangedError(f"resource claim {'/'.join(self.claim)} belongs to another object")
        stored = allocation_of(claim)
        same = stored is None or (self.allocation is not None and same_devices(stored, self.allocation))
        specs = claim.spec, made.claim.spec
        if stored is not None:
            # The cache has no more of a claim with devices.
            specs = named_requests(claim.spec), named_requests(made.claim.spec)
        return same and claim.metadata.deletionTimestamp is None and specs[0] == specs[1]

    def _name(self, made: ExtendedClaim) -> PodStatusPatch:
        """Return the patch that names a claim for extended resources in the status of its pod."""
        owner = self.consumers[0]
        mappings = [
            {
                "containerName": mapping.container,
                "resourceName": mapping.resource,
                "requestName": mapping.request,
            }
            for mapping in made.mappings
        ]
        named = {"resourceClaimName": self.claim[1], "requestMappings": mappings}
        status = {"extendedResourceClaimStatus": named}
        return PodStatusPatch(self.claim[0], owner.name, owner.uid, status)

    def _protect(self, claim: ResourceClaim, _: bytes) -> Patch:
        """Return the patch that adds the finalizer to a claim that is to be allocated.

        It changes nothing if the finalizer is there, and only its answer is needed.
        """
        self._check(claim)
        finalizers = claim.metadata.finalizers or []
        if self.allocation is None or is_allocated(claim):
            return None
        if CLAIM_FINALIZER in finalizers:
            configurations = self.allocation.devices.config or ()
            left_out = (_left_out(configuration) is not None for configuration in configurations)
            return {} if any(left_out) else None
        return {"metadata": {"finalizers": [*finalizers, CLAIM_FINALIZER]}}

    def _allocate(self, now: datetime, claim: ResourceClaim, spec: bytes) -> Patch:
        """Return the patch that adds the devices, allocated now, and the consumers to a claim."""
        self._check(claim)
        status: dict[str, Any] = {}
        if self.allocation is not None and not is_allocated(claim):
            written = _with_parameters(self.allocation, _SPEC.decode(spec).devices.config or ())
            status["allocation"] = {**written, "allocationTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}"}
        missing = self.missing(claim)
        if missing:
            known = (claim.status.reservedFor if claim.status is not None else None) or []
            if len(known) + len(missing) > MAX_CONSUMERS:
                # Others were added since the decision.
                raise ChangedError(f"resource claim {'/'.join(self.claim)} has too many consumers")
            status["reservedFor"] = msgspec.to_builtins([*known, *missing])
        return {"status": status} if status else None

    def _deallocate(self, claim: ResourceClaim, _: bytes) -> Patch:
        """Return the patch that removes the consumers, and the planned devices without a consumer."""
        if claim.metadata.uid != self.uid or claim.status is None:
            return None
        ours = {consumer.uid for consumer in self.consumers}
        known = claim.status.reservedFor or []
        left = [consumer for consumer in known if consumer.uid not in ours]
        stored = claim.status.allocation
        planned = self.allocation is not None and stored is not None and same_devices(stored, self.allocation)
        if planned and not left:
            return {"status": {"allocation": None, "devices": None, "reservedFor": None}}
        reserved = {"reservedFor": msgspec.to_builtins(left) or None}
        return {"status": reserved} if len(left) < len(known) else None

    def _check(self, claim: ResourceClaim) -> None:
        name = "/".join(self.claim)
        if not self.concerns(claim) or claim.metadata.deletionTimestamp is not None:
            raise GoneError(f"resource claim {name} (UID {self.uid}) is gone or terminating")
        if self.allocation is None and not is_allocated(claim):
            raise ChangedError(f"resource claim {name} was deallocated")
        stored = allocation_of(claim)
        if self.allocation is not None and stored is not None and not same_devices(stored, self.allocation):
            raise ChangedError(f"resource claim {name} was allocated with other devices")


@dataclass(frozen=True)
class StaleDeletion(PreBindWrite):
    """A deletion of a claim for extended resources that an earlier attempt left."""

    NOUN = "claim"

    claim: Name
    uid: str

    def concerns(self, claim: ResourceClaim) -> bool:
        """Return whether a claim of this name is the one to be deleted."""
        return (claim.metadata.uid or "") == self.uid

    @property
    def awaited(self) -> ObjectKey:
        """The claim."""
        return ObjectKey(Kind.RESOURCE_CLAIM, *self.claim)

    def cached(self, view: ClusterReader) -> ResourceClaim | None:
        """Return the claim that is to be deleted."""
        claim = view.resource_claims.get(self.claim)
        return claim if claim is not None and self.concerns(claim) else None

    def is_done(self, known: ResourceClaim | None) -> bool:
        """Return whether the claim is gone or terminating: a finalizer of a stranger may keep it."""
        return known is None or known.metadata.deletionTimestamp is not None

    def obstacle(self, known: ResourceClaim | None, *, seen: bool) -> str:  # noqa: ARG002 - nothing stops it
        """Return that nothing stops it."""
        return ""

    def is_stored(self, view: ClusterReader) -> bool:
        """Return whether the claim is known."""
        return self.cached(view) is not None

    def steps(self, now: datetime) -> Sequence[Step]:  # noqa: ARG002 - it has no time
        """Return the deletion."""
        return (_deletion(self),)

    def undo(self) -> Sequence[Step]:
        """Return the deletion too: no other attempt needs the claim."""
        return (_deletion(self),)


def _stored(claim: Name) -> CachedObject:
    namespace, name = (quote(segment, safe="") for segment in claim)
    path = f"/apis/{DEVICE_API}/namespaces/{namespace}/resourceclaims/{name}"
    return CachedObject(path, lambda view: view.resource_claims.get(claim))


def _deletion(write: ClaimReservation | StaleDeletion) -> Deletion:
    return Deletion(_stored(write.claim), write.concerns, CLAIM_FINALIZER)


def _document(made: ExtendedClaim) -> dict[str, Any]:
    """Return the claim to be created; the server drops its status."""
    metadata = msgspec.structs.replace(made.claim.metadata, finalizers=[CLAIM_FINALIZER])
    fields = msgspec.to_builtins(msgspec.structs.replace(made.claim, metadata=metadata, status=None))
    document: dict[str, Any] = {"apiVersion": DEVICE_API, "kind": "ResourceClaim", **fields}
    return document


def _left_out(configuration: AllocatedConfiguration) -> int | None:
    """Return the number of the configuration whose parameters are to be read, None if they are here.

    The API takes no number for them.
    """
    parameters = configuration.opaque.parameters if configuration.opaque is not None else None
    return parameters if isinstance(parameters, int) else None


def _with_parameters(allocation: Allocation, config: Sequence[ClaimConfiguration]) -> dict[str, Any]:
    """Return an allocation as it is written, with the parameters of the claim's configurations."""
    document: dict[str, Any] = msgspec.to_builtins(allocation)
    for at, configuration in enumerate(allocation.devices.config or ()):
        number = _left_out(configuration)
        if number is not None:
            source = config[number].opaque if config else None
            if source is None:
                raise ChangedError("the configurations of the claim are not known")
            document["devices"]["config"][at]["opaque"]["parameters"] = source.parameters
    return document
