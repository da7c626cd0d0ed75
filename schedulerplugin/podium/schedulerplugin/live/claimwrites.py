"""Writes the volumes, nodes and devices of claims, and withdraws them: what precedes the bind of a pod.

Each write is decided on the object as it is known, and names its version. So it changes nothing if another
scheduler, a user or the volume controller was first. A write that finds its result there already is not sent:
a leader may write what the one before it wrote.

Withdrawing a volume from its claim is safe while the volume is Available: the volume controller binds it by a
write of the same version, and one of the two is refused. A claim that loses its selected node may still get
the volume that a provisioner is creating, and is bound to that.

A claim for devices gets its finalizer first, then its devices and their consumers in one write of its status.
The parameters of its configurations are copied into the allocation. The answer to the first write has them,
because the cache does not (`devicetransforms`).
A withdrawal removes the consumers, and the devices if no other consumer is left. An allocation has a
timestamp. kube-scheduler adds a missing one for a further pod of the claim, and the API server refuses that.

A claim for extended resources is created with its finalizer, gets its devices, and is named in the status of
its pod. A withdrawal deletes it. A claim of this name that an earlier attempt left is used if it has the same
requests and no other devices, else it is deleted first.

Source: bindAPIUpdate of the volume binder, and bindClaim and deleteClaim of the plugin DynamicResources, of
kube-scheduler 1.36 and 1.37, which withdraws no volume.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from podium.api.devices import (
    CLAIM_FINALIZER,
    DEVICE_API,
    MAX_CONSUMERS,
    AllocatedConfiguration,
    Allocation,
    ClaimConfiguration,
    DeviceClaimSpec,
    ResourceClaim,
)
from podium.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from podium.cluster.reader import ClusterReader, Name
from podium.kube.reading import decode
from podium.planner.plugins.devices.claims import (
    ExtendedClaim,
    ReservedClaim,
    StaleClaim,
    is_allocated,
    same_devices,
)
from podium.planner.plugins.volumes.ledger import BoundVolume, ProvisionedVolume
from podium.runtime.manager import utc_now
from podium.schedulerplugin.live.devicetransforms import named_requests
from podium.schedulerplugin.live.writes import ChangedError, GoneError, StoredObject, Writes
from podium.schedulerplugin.scheduling.claimplans import ClaimPlan
from podium.schedulerplugin.scheduling.effects import PodRef

_Stored = TypeVar("_Stored", PersistentVolume, PersistentVolumeClaim, ResourceClaim)
# A merge patch without its preconditions; None if nothing has to be written.
_Patch = dict[str, Any] | None
_AVAILABLE = "Available"
STATUS = "/status"
# The most claims that were created and may be unknown still.
_CREATED = 2**12


class _CreatedClaim(NamedTuple):
    """A created claim, and the UID of the claim that was deleted for it."""

    claim: ResourceClaim
    instead_of: str | None


class ClaimWrites:
    """The writes to claims and volumes; each method raises as those of Writes, and ChangedError."""

    def __init__(self, writes: Writes, view: ClusterReader, now: Callable[[], datetime] = utc_now) -> None:
        self._writes = writes
        self._view = view
        self._now = now
        # Created claims as they were stored last; the view may not have them yet.
        self._created: dict[Name, _CreatedClaim] = {}

    async def write(self, plan: ClaimPlan) -> None:
        """Let a volume name its claim, or a claim its node.

        Raises GoneError if the claim is gone, and ChangedError if another has the volume or chose the node.
        """
        match plan:
            case BoundVolume():
                await self._change_volume(plan.volume, lambda stored: _reserve(stored, plan))
            case ProvisionedVolume():
                await self._change_claim(plan.claim, lambda stored: _select(stored, plan))
            case ReservedClaim():
                if plan.created is not None:
                    await self._create_claim(plan, plan.created)
                stored = await self._change_devices(plan.claim, lambda known: _protect(known, plan))
                version = stored.metadata.resourceVersion if stored is not None else None
                config = _configurations(stored)
                await self._change_devices(
                    plan.claim, lambda known: _allocate(known, plan, self._now(), config), STATUS, version
                )
                if plan.created is not None:
                    await self._name(plan, plan.created)
            case StaleClaim():
                await self._delete_claim(plan)

    async def withdraw(self, plan: ClaimPlan) -> None:
        """Undo `write`, unless the claim is bound or another has it by now."""
        match plan:
            case BoundVolume():
                await self._change_volume(plan.volume, lambda stored: _free(stored, plan))
            case ProvisionedVolume():
                await self._change_claim(plan.claim, lambda stored: _unselect(stored, plan))
            case ReservedClaim() if plan.created is None:
                await self._change_devices(plan.claim, lambda stored: _deallocate(stored, plan), STATUS)
            case ReservedClaim() | StaleClaim():
                await self._delete_claim(plan)

    async def _create_claim(self, plan: ReservedClaim, made: ExtendedClaim) -> None:
        """Create a claim for extended resources, unless a usable one is left from an earlier attempt."""
        path, document = _claims_path(plan.claim[0]), _document(made)

        async def attempt() -> None:
            known = self._stored_claim(plan.claim)
            if known is not None and not plan.concerns(known):
                raise ChangedError(f"resource claim {'/'.join(plan.claim)} belongs to another object")
            if known is not None and _is_usable(known, plan, made):
                return
            if known is not None:
                await self._delete_known(known)
            stored: ResourceClaim = decode(await self._writes.create(path, document), ResourceClaim)
            self._remember(stored, instead_of=known)

        await self._writes.perform("claim", attempt)

    async def _name(self, plan: ReservedClaim, made: ExtendedClaim) -> None:
        """Name a claim for extended resources in the status of its pod."""
        owner, namespace = plan.consumers[0], plan.claim[0]
        mappings = [
            {
                "containerName": mapping.container,
                "resourceName": mapping.resource,
                "requestName": mapping.request,
            }
            for mapping in made.mappings
        ]
        status = {"resourceClaimName": plan.claim[1], "requestMappings": mappings}
        await self._writes.name_claim(PodRef(namespace, owner.name, owner.uid), status)

    async def _delete_claim(self, plan: ReservedClaim | StaleClaim) -> None:
        """Delete a claim for extended resources, if it is known."""

        async def attempt() -> None:
            known = self._stored_claim(plan.claim)
            if known is not None and plan.concerns(known):
                await self._delete_known(known)

        try:
            await self._writes.perform("claim", attempt)
        finally:
            self._created.pop(plan.claim, None)

    async def _delete_known(self, claim: ResourceClaim) -> None:
        path = _claim_path((claim.metadata.namespace or "", claim.metadata.name or ""))
        finalizers = claim.metadata.finalizers or []
        if CLAIM_FINALIZER in finalizers:
            left = [finalizer for finalizer in finalizers if finalizer != CLAIM_FINALIZER]
            version = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resourceVersion}
            await self._writes.merge(path, {"metadata": {"finalizers": left or None, **version}})
        await self._writes.remove(path, claim.metadata.uid or "")

    def _stored_claim(self, claim: Name) -> ResourceClaim | None:
        """Return a claim as it is known, or as it was created if the watch does not show that yet."""
        known, created = self._view.resource_claims.get(claim), self._created.get(claim)
        if created is not None and (known is None or known.metadata.uid == created.instead_of):
            return created.claim
        return known

    def _remember(self, claim: ResourceClaim, *, instead_of: ResourceClaim | None) -> None:
        key = claim.metadata.namespace or "", claim.metadata.name or ""
        self._created.pop(key, None)
        if len(self._created) == _CREATED:
            del self._created[next(iter(self._created))]
        replaced = instead_of.metadata.uid if instead_of is not None else None
        self._created[key] = _CreatedClaim(claim, replaced)

    async def _change_volume(self, name: str, change: Callable[[PersistentVolume], _Patch]) -> None:
        path = f"/api/v1/persistentvolumes/{quote(name, safe='')}"
        await self._change(path, lambda: self._view.volumes.get(name), change)

    async def _change_claim(self, claim: Name, change: Callable[[PersistentVolumeClaim], _Patch]) -> None:
        namespace, name = (quote(segment, safe="") for segment in claim)
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        await self._change(path, lambda: self._view.claims.get(claim), change)

    async def _change_devices(
        self,
        claim: Name,
        change: Callable[[ResourceClaim], _Patch],
        subresource: str = "",
        version: str | None = None,
    ) -> StoredObject | None:
        path = f"{_claim_path(claim)}{subresource}"
        written = await self._change(path, lambda: self._stored_claim(claim), change, version)
        created = self._created.get(claim)
        if created is not None and written is not None:
            created.claim.metadata.resourceVersion = written.metadata.resourceVersion
        return written

    async def _change(
        self,
        path: str,
        known: Callable[[], _Stored | None],
        change: Callable[[_Stored], _Patch],
        version: str | None = None,
    ) -> StoredObject | None:
        """Patch an object as it is known; return it as it is then, None if nothing was to be written.

        After a conflict it is known as it is stored a moment later. `version` is that of the object after an
        earlier write of ours, which the watch may not have brought yet.
        """
        written: StoredObject | None = None

        async def attempt() -> None:
            nonlocal version, written
            before = known()
            if before is None:
                raise GoneError(f"{path} is gone")
            patch = change(before)
            if patch is not None:
                base, version = version or before.metadata.resourceVersion, None
                patch.setdefault("metadata", {}).update(uid=before.metadata.uid, resourceVersion=base)
                written = await self._writes.merge(path, patch)

        await self._writes.perform("claim", attempt)
        return written


def _claims_path(namespace: str) -> str:
    return f"/apis/{DEVICE_API}/namespaces/{quote(namespace, safe='')}/resourceclaims"


def _claim_path(claim: Name) -> str:
    return f"{_claims_path(claim[0])}/{quote(claim[1], safe='')}"


def _document(made: ExtendedClaim) -> _Patch:
    """Return the claim to be created; the server drops its status."""
    metadata = msgspec.structs.replace(made.claim.metadata, finalizers=[CLAIM_FINALIZER])
    fields = msgspec.to_builtins(msgspec.structs.replace(made.claim, metadata=metadata, status=None))
    document: dict[str, Any] = {"apiVersion": DEVICE_API, "kind": "ResourceClaim", **fields}
    return document


def _is_usable(claim: ResourceClaim, plan: ReservedClaim, made: ExtendedClaim) -> bool:
    """Return whether a claim of an earlier attempt has the planned requests, and no other devices."""
    stored = claim.status.allocation if claim.status is not None else None
    same = stored is None or (plan.allocation is not None and same_devices(stored, plan.allocation))
    specs = claim.spec, made.claim.spec
    if stored is not None:
        # The cache has no more of a claim with devices.
        specs = named_requests(claim.spec), named_requests(made.claim.spec)
    return same and claim.metadata.deletionTimestamp is None and specs[0] == specs[1]


def _reserve(volume: PersistentVolume, plan: BoundVolume) -> _Patch:
    namespace, name = plan.claim
    owner = volume.spec.claimRef if volume.spec is not None else None
    if owner is not None and owner.uid == plan.uid:
        return None
    reserved = owner is not None and (owner.namespace, owner.name, owner.uid or "") == (namespace, name, "")
    free = owner is None and volume.status is not None and volume.status.phase == _AVAILABLE
    if volume.metadata.deletionTimestamp is not None or not (reserved or free):
        raise ChangedError(f"volume {plan.volume} is not available any more")
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    patch: dict[str, Any] = {"spec": {"claimRef": {**reference, "uid": plan.uid}}}
    if plan.by_scheduler:
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return patch


def _free(volume: PersistentVolume, plan: BoundVolume) -> _Patch:
    owner = volume.spec.claimRef if volume.spec is not None else None
    available = volume.status is not None and volume.status.phase == _AVAILABLE
    if not plan.by_scheduler or not available or owner is None or owner.uid != plan.uid:
        return None
    return {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}


def _select(claim: PersistentVolumeClaim, plan: ProvisionedVolume) -> _Patch:
    if claim.metadata.uid != plan.uid or claim.metadata.deletionTimestamp is not None:
        raise GoneError(f"claim {'/'.join(plan.claim)} (UID {plan.uid}) is gone or terminating")
    if claim.bound or claim.selected_node == plan.node:
        return None
    if claim.selected_node is not None:
        raise ChangedError(f"claim {'/'.join(plan.claim)} is provisioned for node {claim.selected_node}")
    return {"metadata": {"annotations": {SELECTED_NODE: plan.node}}}


def _unselect(claim: PersistentVolumeClaim, plan: ProvisionedVolume) -> _Patch:
    if claim.metadata.uid != plan.uid or claim.bound or claim.selected_node != plan.node:
        return None
    return {"metadata": {"annotations": {SELECTED_NODE: None}}}


def _protect(claim: ResourceClaim, plan: ReservedClaim) -> _Patch:
    """Return the patch that adds the finalizer to a claim that is to be allocated.

    It changes nothing if the finalizer is there, and only its answer is needed.
    """
    _check_claim(claim, plan)
    finalizers = claim.metadata.finalizers or []
    if plan.allocation is None or is_allocated(claim):
        return None
    if CLAIM_FINALIZER in finalizers:
        left_out = (
            _left_out(configuration) is not None for configuration in plan.allocation.devices.config or ()
        )
        return {} if any(left_out) else None
    return {"metadata": {"finalizers": [*finalizers, CLAIM_FINALIZER]}}


def _configurations(stored: StoredObject | None) -> Sequence[ClaimConfiguration]:
    """Return the configurations of a claim as it is stored."""
    if stored is None:
        return ()
    spec: DeviceClaimSpec = decode(stored.spec, DeviceClaimSpec)
    return spec.devices.config or ()


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


def _allocate(
    claim: ResourceClaim, plan: ReservedClaim, now: datetime, config: Sequence[ClaimConfiguration] = ()
) -> _Patch:
    """Return the patch that adds the devices, allocated now, and the consumers to a claim.

    `config` are the configurations of the claim as it is stored.
    """
    _check_claim(claim, plan)
    status: dict[str, Any] = {}
    if plan.allocation is not None and not is_allocated(claim):
        time = f"{now:%Y-%m-%dT%H:%M:%SZ}"
        status["allocation"] = {**_with_parameters(plan.allocation, config), "allocationTimestamp": time}
    missing = plan.missing(claim)
    if missing:
        known = (claim.status.reservedFor if claim.status is not None else None) or []
        if len(known) + len(missing) > MAX_CONSUMERS:
            # Others were added since the decision.
            raise ChangedError(f"resource claim {'/'.join(plan.claim)} has too many consumers")
        status["reservedFor"] = msgspec.to_builtins([*known, *missing])
    return {"status": status} if status else None


def _deallocate(claim: ResourceClaim, plan: ReservedClaim) -> _Patch:
    """Return the patch that removes the consumers from a claim, and the plan's devices without a consumer."""
    if claim.metadata.uid != plan.uid or claim.status is None:
        return None
    ours = {consumer.uid for consumer in plan.consumers}
    known = claim.status.reservedFor or []
    left = [consumer for consumer in known if consumer.uid not in ours]
    stored = claim.status.allocation
    planned = plan.allocation is not None and stored is not None and same_devices(stored, plan.allocation)
    if planned and not left:
        return {"status": {"allocation": None, "devices": None, "reservedFor": None}}
    return {"status": {"reservedFor": msgspec.to_builtins(left) or None}} if len(left) < len(known) else None


def _check_claim(claim: ResourceClaim, plan: ReservedClaim) -> None:
    name = "/".join(plan.claim)
    if not plan.concerns(claim) or claim.metadata.deletionTimestamp is not None:
        raise GoneError(f"resource claim {name} (UID {plan.uid}) is gone or terminating")
    if plan.allocation is None and not is_allocated(claim):
        raise ChangedError(f"resource claim {name} was deallocated")
    stored = claim.status.allocation if claim.status is not None else None
    if plan.allocation is not None and stored is not None and not same_devices(stored, plan.allocation):
        raise ChangedError(f"resource claim {name} was allocated with other devices")
