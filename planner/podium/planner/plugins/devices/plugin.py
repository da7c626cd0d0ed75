"""The plugin for devices: it follows claims, classes and slices, and says what a pod needs of them.

A class may provide an extended resource on the nodes that do not offer it themselves. So a change of a class
changes what nodes offer, and the shapes of the pods that request the resource.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from podium.api.claims import ExtendedResourceRequest, ExtendedResourceStatus
from podium.api.core import Pod
from podium.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from podium.api.groups import PodGroup
from podium.api.podclaims import consumer_uids
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.cluster.reader import ClusterReader, Name
from podium.cluster.state import Readable
from podium.planner.arrays import Rows
from podium.planner.framework import ChainContext, Effect, HeldClaim, NodeFilter, Plugin
from podium.planner.liveplugin import FollowedKind, ObjectKey, PreBindWrite, Wakeup
from podium.planner.plugins.devices.claims import IN_MEMORY, DeviceNeeds, NeedsOf, claim_key, is_allocated
from podium.planner.plugins.devices.filter import DevicesFilter
from podium.planner.plugins.devices.index import DeviceIndex, made_for
from podium.planner.plugins.devices.transforms import transform_devices
from podium.planner.plugins.devices.writes import ClaimReservation
from podium.planner.shapes import Shape, ShapeContext, need_at
from podium.planner.snapshot import Snapshot

_NO_NEEDS = DeviceNeeds()


class DevicesPlugin(Plugin):
    """Devices of one snapshot: `known` has the claims, and `filter` finds devices for them."""

    JUDGES = "resource claims"
    KINDS = (
        FollowedKind(Kind.RESOURCE_CLAIM, written=True),
        FollowedKind(Kind.DEVICE_CLASS),
        FollowedKind(Kind.RESOURCE_SLICE),
    )
    transform = staticmethod(transform_devices)

    filter: DevicesFilter

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.known = DeviceIndex(snapshot.unread)
        self.needs: NeedsOf = need_at(at)
        self._snapshot = snapshot
        # The shapes for whose extended resources a claim may be created.
        self._extended_shapes: set[int] = set()

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> DeviceNeeds:
        """Return what a pod needs of devices."""
        known = self.known
        if not (pod.spec.resourceClaims or known.resources or made_for(pod)):
            return _NO_NEEDS
        if known.holds(pod) or (pod.spec.resourceClaims and not known.is_known):
            # The devices of a running pod are of its node.
            context.missing[self.JUDGES] = None
        refused, claims = known.needs(pod)
        extended, written = known.extended(pod, context.requested)
        return DeviceNeeds(refused, claims, extended, written)

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return DynamicResources."""
        self.filter = DevicesFilter(self._snapshot, self.known, self.needs, freed_by_pods=context.own_rules)
        return (self.filter,)

    def fingerprint(self, pod: Schedulable) -> object:
        """Return the version of the classes and the claim of the status; None if a pod has claims."""
        spec, status = pod.spec, pod.status
        if spec.resourceClaims and not spec.nodeName:
            return None
        named = status is not None and status.extendedResourceClaimStatus is not None
        return self.known.class_revision, bool(spec.resourceClaims), named, named and bool(spec.nodeName)

    def objects(self, view: ClusterReader) -> Iterator[object]:
        """Yield the classes, slices and claims."""
        for index in (view.device_classes, view.resource_slices, view.resource_claims):
            yield from index.values()

    def apply(self, before: object, after: object) -> Effect | None:
        """Follow one change of a claim, class or slice, or of a group, whose members may have claims."""
        gone = after is None
        match before if gone else after:
            case ResourceClaim() as claim:
                self.known.apply_claim(claim, gone=gone)
            case ResourceSlice() as resource_slice:
                self.known.apply_slice(resource_slice, gone=gone)
            case DeviceClass() as device_class:
                self._apply_class(device_class, gone=gone)
            case PodGroup() as group:
                self.known.apply_group(group, gone=gone)
            case _:
                return None
        return Effect.ANY

    def link(self, row: int, pod: Schedulable) -> None:
        """Register a pod for its claims."""
        extended = self._snapshot.shape.item(row) in self._extended_shapes
        if extended or pod.spec.resourceClaims or made_for(pod):
            self.known.add_user(row, pod, extended=extended)

    def unlink(self, row: int, pod: Schedulable) -> None:  # noqa: ARG002 - the index has the pod
        """Forget a pod."""
        self.known.remove_user(row)

    def changed_users(self) -> set[int]:
        """Return the pods (rows) whose claims changed since the last call."""
        return self.known.changed_users()

    def shape_came(self, shape_id: int, shape: Shape) -> None:
        """Let nodes offer the resources of a shape that classes provide."""
        extended = self.needs(shape).extended
        if extended:
            self._extended_shapes.add(shape_id)
            self._snapshot.back(need.resource for need in extended)

    def shape_went(self, shape_id: int) -> None:
        """Forget a shape."""
        self._extended_shapes.discard(shape_id)

    def held(self, row: int) -> list[HeldClaim]:
        """Return the claims whose devices a pod holds."""
        return self.known.held(row)

    def binds(self, pod_row: int) -> bool:
        """Return whether a pod has claims."""
        return self.known.uses(pod_row)

    def bound(self, pod_rows: Iterable[int], view: ClusterReader) -> Iterator[Readable]:
        """Yield the claims with their devices and consumers, and the pods for which claims are created."""
        claims: dict[Name, ResourceClaim] = {}
        pods: list[Schedulable] = []
        for row in pod_rows:
            for reserved in self.filter.reservations(row) or ():
                if not isinstance(reserved, ClaimReservation):
                    continue
                key, created = reserved.claim, reserved.created
                if created is not None:
                    claims[key] = created.claim
                    pods.append(_with_claim_status(self._snapshot.pod_at(row), reserved))
                claims[key] = reserved.written_to(claims.get(key) or view.resource_claims[key])
        yield from claims.values()
        yield from pods

    def removed(self, pods: Collection[Pod], view: ClusterReader) -> Iterator[Readable]:
        """Yield the claims of which pods were consumers; those without any other lose their devices."""
        gone = {pod.metadata.uid or "" for pod in pods}
        for claim in view.resource_claims.values():
            if consumer_uids(claim) & gone:
                assert claim.status is not None, "it has consumers"
                left = [consumer for consumer in claim.status.reservedFor or () if consumer.uid not in gone]
                allocation = claim.status.allocation if left else None
                status = msgspec.structs.replace(claim.status, reservedFor=left, allocation=allocation)
                yield msgspec.structs.replace(claim, status=status)

    def explain(self, pod_row: int) -> Mapping[str, object]:
        """Return the devices of the claims that are allocated with an assumed pod."""
        claims = [
            {
                "name": IN_MEMORY if assumed.extended else assumed.claim[1],
                "results": assumed.allocation.devices.results or (),
            }
            for assumed in self.filter.plan(pod_row) or ()
        ]
        return {"claims": claims} if claims else {}

    def events(self, before: object, after: object) -> Wakeup | None:
        """Return what a change of a slice, class or claim may help."""
        match before if after is None else after:
            case ResourceClaim() as claim:
                key = ObjectKey(Kind.RESOURCE_CLAIM, *claim_key(claim))
                freed = is_allocated(before) and not is_allocated(after)
                used = (key,) if self.known.users(claim_key(claim)) else ()
                return Wakeup(restricted=freed, objects=(key,), used=used)
            case DeviceClass() as device_class:
                # A class may provide a resource that no node offers.
                key = ObjectKey(Kind.DEVICE_CLASS, "", device_class.metadata.name or "")
                return Wakeup(restricted=True, used=(key,))
            case ResourceSlice():
                return Wakeup(restricted=True)
            case _:
                return None

    def users(self, key: ObjectKey) -> Iterable[int]:
        """Return the pods of a claim, and for a class those whose resources any class may provide."""
        if key.kind == Kind.DEVICE_CLASS:
            rows: list[int] = self.extended_pods().tolist()
            return rows
        return self.known.users(key[1:]) if key.kind == Kind.RESOURCE_CLAIM else ()

    def pre_bind(self, pod_row: int) -> Sequence[PreBindWrite] | None:
        """Return what is written to the claims of a pod; None if they find no devices."""
        return self.filter.reservations(pod_row) if self.known.uses(pod_row) else ()

    def reserve(self, write: PreBindWrite) -> None:
        """Keep the devices of a write from other pods."""
        if isinstance(write, ClaimReservation) and write.assumed is not None:
            self.known.assume((write.assumed,))

    def unreserve(self, write: PreBindWrite) -> None:
        """Keep them no more."""
        if isinstance(write, ClaimReservation) and write.assumed is not None:
            self.known.forget((write.assumed,))

    def withdrawn(
        self,
        write: PreBindWrite,
        known: Any,
        pods: AbstractSet[int],
        *,
        shared: bool,  # noqa: ARG002 - the index knows
    ) -> PreBindWrite | None:
        """Return the part of a write that no other pod on a node needs."""
        if not isinstance(write, ClaimReservation):
            return write
        if known is None and write.created is None:
            return None
        return self.known.unneeded(write, pods)

    def stranded(self, pod_rows: Collection[int]) -> Sequence[PreBindWrite]:
        """Return the claims with devices that only these pods use, none of which has a node."""
        return self.known.stranded(pod_rows)

    def extended_pods(self) -> Rows:
        """Return the pods (rows) that request a resource which a class provides."""
        return self._snapshot.pods_of(self._extended_shapes)

    def _providers(self) -> dict[str, str | None]:
        """Return the name of the class that provides each extended resource."""
        return {resource: provider.metadata.name for resource, provider in self.known.resources.items()}

    def _apply_class(self, device_class: DeviceClass, *, gone: bool) -> None:
        """Follow a class, which may provide other extended resources than before."""
        snapshot, before = self._snapshot, self._providers()
        self.known.apply_class(device_class, gone=gone)
        after = self._providers()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        snapshot.back_only(after.keys())
        shapes = snapshot.shapes.items()
        ids = [id_ for id_, shape in shapes if any(name in changed for name, _ in shape.requests)]
        snapshot.reshape(snapshot.pods_of(ids).tolist())


def _with_claim_status(pod: Schedulable, reserved: ClaimReservation) -> Schedulable:
    """Return a pod whose status names the claim that is created for its extended resources."""
    created = reserved.created
    assert created is not None, "the caller checked it"
    requests = [ExtendedResourceRequest(*mapping) for mapping in created.mappings]
    status = pod.status if isinstance(pod.status, SchedulableStatus) else SchedulableStatus()
    named = ExtendedResourceStatus(requests, created.claim.metadata.name or "")
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(status, extendedResourceClaimStatus=named)
    )
