"""The plugin for volumes: it follows storage objects, and says what a pod needs of them.

The events of the objects change which nodes can attach a volume, and the needs of the pods that use it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from podium.api.claims import claim_names
from podium.api.schedulable import Schedulable, Volume
from podium.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from podium.cluster.reader import ClusterReader
from podium.cluster.state import Readable
from podium.planner.framework import Effect, NodeFilter, Plugin
from podium.planner.plugins.volumes.attachlimits import (
    AttachedVolumes,
    AttachLimitsFilter,
    InstalledDriversFilter,
)
from podium.planner.plugins.volumes.bindables import bound_pair
from podium.planner.plugins.volumes.delayed import DelayedBinding
from podium.planner.plugins.volumes.exclusive import DisksFilter, ExclusiveClaimsFilter, used_counters
from podium.planner.plugins.volumes.index import Volumes
from podium.planner.plugins.volumes.ledger import VolumePlan
from podium.planner.plugins.volumes.needs import NeedsOf, VolumeNeeds, needs_of
from podium.planner.plugins.volumes.volumebinding import VolumeBindingFilter, VolumeZoneFilter
from podium.planner.shapes import Shape, need_at
from podium.planner.snapshot import Snapshot


class VolumesPlugin(Plugin):
    """Volumes of one snapshot: `known` are the objects, `delayed` those that decide about unbound claims."""

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.known = Volumes(snapshot.unread)
        self.delayed = DelayedBinding(snapshot)
        self.needs: NeedsOf = need_at(at)
        self._snapshot = snapshot
        self._delayed_shapes: set[int] = set()
        # None before the chain asks for filters.
        self.attach_limits: AttachLimitsFilter | None = None
        self.binding: VolumeBindingFilter | None = None

    def pre_filter(
        self,
        pod: Schedulable,
        requested: Collection[str],  # noqa: ARG002 - volumes are no resource
        minor: int,
        missing: dict[str, None],
    ) -> VolumeNeeds:
        """Return what a pod needs of volumes."""
        return needs_of(pod, self.known, minor, missing)

    def filters(self, *, own_rules: bool) -> tuple[NodeFilter, ...]:
        """Return VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone."""
        snapshot, known, needs = self._snapshot, self.known, self.needs
        taken = used_counters(snapshot, lambda shape: needs(shape).used_alone)
        self.attach_limits = AttachLimitsFilter(
            AttachedVolumes(snapshot, known, needs, freed_by_pods=own_rules)
        )
        self.binding = VolumeBindingFilter(
            snapshot, self.delayed, needs, self._delayed_shapes, sums=own_rules
        )
        return (
            DisksFilter(taken, lambda shape: needs(shape).disks),
            ExclusiveClaimsFilter(taken, lambda shape: needs(shape).exclusive_claims),
            InstalledDriversFilter(snapshot, known, needs),
            self.attach_limits,
            self.binding,
            VolumeZoneFilter(snapshot, needs),
        )

    def fingerprint(self, pod: Schedulable) -> object:
        """Return the old disks of a pod; None if it has claims, whose objects decide."""
        disks: list[Volume] = []
        for volume in pod.spec.volumes or ():
            if volume.persistentVolumeClaim is not None or volume.ephemeral is not None:
                return None
            # Most others are the token of a service account, with a generated name.
            if volume != Volume(name=volume.name):
                disks.append(volume)
        return disks

    def objects(self, view: ClusterReader) -> Iterator[object]:
        """Yield the storage objects, classes and drivers first."""
        drivers = (view.storage_classes, view.csi_drivers, view.csi_nodes)
        for index in (*drivers, view.storage_capacities, view.attachments, view.volumes, view.claims):
            yield from index.values()

    def apply(self, before: object, after: object) -> Effect | None:
        """Follow one change of a storage object."""
        gone = after is None
        match before if gone else after:
            case PersistentVolumeClaim() as claim:
                self.known.apply_claim(claim, gone=gone)
            case PersistentVolume() as volume:
                self.delayed.apply(before, after)
                self.known.apply_volume(volume, gone=gone)
            case StorageClass() as storage_class:
                self.delayed.apply(before, after)
                self.known.apply_class(storage_class, gone=gone)
            case CSINode() as csi_node:
                if self.known.apply_node(csi_node, gone=gone):
                    self._snapshot.report_nodes()
            case CSIStorageCapacity():
                self.delayed.apply(before, after)
            case CSIDriver() as driver:
                self.delayed.apply(before, after)
                self.known.apply_driver(driver, gone=gone)
                self._snapshot.report_nodes()
            case VolumeAttachment() as attachment:
                return self._apply_attachment(attachment, before, gone=gone)
            case _:
                return None
        return Effect.ANY

    def volume_plan(self, pod_row: int) -> VolumePlan | None:
        """Return what is written for the claims of an assumed pod; None if it has none, or they find none."""
        return self.binding.plan(pod_row) if self.binding is not None else None

    def binds(self, pod_row: int) -> bool:
        """Return whether claims of a pod get volumes with a node."""
        return self._snapshot.shape.item(pod_row) in self._delayed_shapes

    def bound(self, pod_rows: Iterable[int], view: ClusterReader) -> Iterator[Readable]:
        """Yield the claims and volumes that are bound with assumed pods."""
        for plan in map(self.volume_plan, pod_rows):
            for bound in plan.bound if plan is not None else ():
                yield from bound_pair(view.claims[bound.claim], view.volumes[bound.volume])

    def explain(self, pod_row: int) -> Mapping[str, object]:
        """Return the claims that are bound with an assumed pod."""
        plan = self.volume_plan(pod_row)
        if plan is None:
            return {}
        volumes = [(volume.claim[1], volume.volume) for volume in plan.bound]
        volumes += [(volume.claim[1], "") for volume in plan.provisioned]
        return {"volumes": [{"claim": claim, "volume": volume} for claim, volume in sorted(volumes)]}

    def _apply_attachment(self, attachment: VolumeAttachment, before: object, *, gone: bool) -> Effect:
        """Follow an attachment; there are as many as binds, and most limit no pod."""
        effect, limits = Effect.NOTHING, self.attach_limits
        if limits is None or limits.limited(before) or limits.limited(attachment):
            # A slot that is taken makes no room.
            effect = Effect.LESS_ROOM if before is None else Effect.ANY
        self.known.apply_attachment(attachment, gone=gone)
        return effect

    def link(self, row: int, pod: Schedulable) -> None:
        """Register a pod for its claims."""
        claims = claim_names(pod)
        if claims:
            self._report_node(row)
            self.known.add_user(row, claims)

    def unlink(self, row: int, pod: Schedulable) -> None:
        """Forget a pod."""
        claims = claim_names(pod)
        if claims:
            self._report_node(row)
            self.known.remove_user(row, claims)

    def changed_users(self) -> set[int]:
        """Return the pods (rows) with a claim or volume that changed since the last call."""
        return self.known.changed_users()

    def shape_came(self, shape_id: int, shape: Shape) -> None:
        """Register a shape with delayed claims."""
        if self.needs(shape).delayed:
            self._delayed_shapes.add(shape_id)

    def shape_went(self, shape_id: int) -> None:
        """Forget a shape."""
        self._delayed_shapes.discard(shape_id)

    def differences(self, view: ClusterReader, pod: Schedulable) -> Iterator[str]:
        """Yield the claims of a pod that are stored in another version."""
        for key in claim_names(pod):
            claim = view.claims.get(key)
            volume = (claim.spec.volumeName if claim is not None and claim.spec is not None else None) or ""
            stored = self.known.claims.get(key)
            if stored != claim or self.known.volumes.get(volume) != view.volumes.get(volume):
                yield f"another version of claim {key[1]} or its volume"

    def _report_node(self, row: int) -> None:
        """Report the node of a pod with claims, because attachments there may be the pod's."""
        home = self._snapshot.home.item(row)
        if home >= 0:
            self.known.report_node(self._snapshot.node_name(home))
