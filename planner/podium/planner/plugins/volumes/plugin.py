"""The plugin for volumes: it follows storage objects, and says what a pod needs of them.

The events of the objects change which nodes can attach a volume, and the needs of the pods that use it.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from podium.api.claims import claim_names
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, Volume
from podium.api.storage import (
    BETA_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    ClaimReference,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
)
from podium.cluster.reader import ClusterReader
from podium.cluster.state import Readable, Storage
from podium.planner.framework import ChainContext, Effect, NodeFilter, Plugin
from podium.planner.liveplugin import FollowedKind, ObjectKey, PreBindWrite, Wakeup
from podium.planner.plugins.volumes.attachlimits import (
    AttachedVolumes,
    AttachLimitsFilter,
    InstalledDriversFilter,
)
from podium.planner.plugins.volumes.bindables import bound_pair
from podium.planner.plugins.volumes.delayed import DelayedBinding
from podium.planner.plugins.volumes.exclusive import DisksFilter, ExclusiveClaimsFilter, used_counters
from podium.planner.plugins.volumes.index import Attached, Volumes, attached_volume
from podium.planner.plugins.volumes.needs import UNBOUND, NeedsOf, VolumeNeeds, needs_of
from podium.planner.plugins.volumes.volumebinding import VolumeBindingFilter, VolumeZoneFilter
from podium.planner.plugins.volumes.writes import ClaimPlan, VolumePlan
from podium.planner.shapes import Shape, ShapeContext, need_at
from podium.planner.sharing import Sharing, read_annotations
from podium.planner.snapshot import Snapshot

# Each pod may have a claim, a volume and an attachment. So equal parts are kept once, and these are the
# number of cached parts, and of texts such as node names.
_CACHE = Sharing(2**12, 2**14)
_shared, _shared_text, _parted = _CACHE.part, _CACHE.share_text, _CACHE.fields
_CLASS_NAMES = ("storageClassName", "volumeMode", "volumeAttributesClassName")
# The annotations of each kind of storage that are read, and whether its labels are.
_OF_STORAGE: dict[type[Storage], tuple[tuple[str, ...], bool]] = {
    PersistentVolumeClaim: ((BIND_COMPLETED, SELECTED_NODE, BOUND_BY_CONTROLLER, BETA_CLASS), False),
    PersistentVolume: ((BOUND_BY_CONTROLLER, BETA_CLASS), True),
    CSINode: ((MIGRATED_PLUGINS,), False),
    **dict.fromkeys((StorageClass, CSIDriver, CSIStorageCapacity, VolumeAttachment), ((), False)),
}


def _reduce(obj: object) -> bool:
    """Keep the identity of a storage object and what is read of it, and share what many objects have."""
    if not isinstance(obj, Storage):
        return False
    names, labels = _OF_STORAGE[type(obj)]
    kept = obj.metadata.identity()
    kept.namespace = _shared_text(kept.namespace)
    kept.annotations = _shared(read_annotations(obj.metadata, names))
    kept.labels = _shared(obj.metadata.labels) if labels else None
    match obj:
        case PersistentVolumeClaim():
            # An ephemeral claim must belong to its pod.
            kept.ownerReferences = obj.metadata.ownerReferences
            obj.spec = _parted(obj.spec, ("accessModes", "selector", "resources"), _CLASS_NAMES)
            obj.status = _shared(obj.status)
        case PersistentVolume():
            obj.spec = _parted(obj.spec, ("capacity", "accessModes", "nodeAffinity"), _CLASS_NAMES)
            obj.status = _shared(obj.status)
            if obj.spec is not None:
                obj.spec.csi = _parted(obj.spec.csi, (), ("driver",))
                obj.spec.claimRef = _parted(obj.spec.claimRef, (), ("namespace",))
        case CSINode():
            obj.spec = _shared(obj.spec)
        case CSIStorageCapacity():
            obj.storageClassName = _shared_text(obj.storageClassName)
        case VolumeAttachment():
            obj.spec = _parted(obj.spec, (), ("attacher", "nodeName"))
        case _:
            pass
    obj.metadata = kept
    return True


class VolumesPlugin(Plugin):
    """Volumes of one snapshot: `known` are the objects, `delayed` those that decide about unbound claims."""

    JUDGES = "volume claims"
    KINDS = (
        FollowedKind(Kind.CLAIM, optional=False, written=True),
        FollowedKind(Kind.VOLUME, optional=False, written=True),
        FollowedKind(Kind.STORAGE_CLASS),
        FollowedKind(Kind.CSI_NODE),
        FollowedKind(Kind.CSI_DRIVER),
        FollowedKind(Kind.STORAGE_CAPACITY),
        FollowedKind(Kind.ATTACHMENT),
    )
    # The controller may have named the volume in the claim, and not completed the binding.
    PASSING = frozenset((UNBOUND,))
    transform = staticmethod(_reduce)

    def __init__(self, at: int, snapshot: Snapshot) -> None:
        self.known = Volumes(snapshot.unread)
        self.delayed = DelayedBinding(snapshot)
        self.needs: NeedsOf = need_at(at)
        self._snapshot = snapshot
        self._delayed_shapes: set[int] = set()
        # None before the chain asks for filters.
        self.attach_limits: AttachLimitsFilter | None = None
        self.binding: VolumeBindingFilter | None = None

    def pre_filter(self, pod: Schedulable, context: ShapeContext) -> VolumeNeeds:
        """Return what a pod needs of volumes."""
        return needs_of(pod, self.known, context.minor, context.missing)

    def filters(self, context: ChainContext) -> tuple[NodeFilter, ...]:
        """Return VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone."""
        snapshot, known, needs = self._snapshot, self.known, self.needs
        taken = used_counters(snapshot, lambda shape: needs(shape).used_alone)
        self.attach_limits = AttachLimitsFilter(
            AttachedVolumes(snapshot, known, needs, freed_by_pods=context.own_rules)
        )
        self.binding = VolumeBindingFilter(
            snapshot, self.delayed, needs, self._delayed_shapes, sums=context.own_rules
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

    def events(self, before: object, after: object) -> Wakeup | None:
        """Return what a change of a storage object may help."""
        match before if after is None else after:
            case PersistentVolumeClaim() | PersistentVolume():
                keys = (_claim_of(version) for version in (before, after))
                claims = tuple(dict.fromkeys(key for key in keys if key is not None))
                return Wakeup(
                    restricted=True, gated=True, objects=claims, gave_up=_lost_its_node(before, after)
                )
            case StorageClass():
                return Wakeup(restricted=True, gated=True)
            case CSIStorageCapacity():
                return Wakeup(restricted=True)
            case CSINode() as csi_node:
                row = self._snapshot.row.get(csi_node.metadata.name or "")
                return Wakeup(nodes=() if row is None else (row,))
            case CSIDriver():
                return Wakeup(restricted=True, nodes=self._snapshot.row.values())
            case VolumeAttachment():
                was, now = (_attached(version) for version in (before, after))
                row = self._snapshot.row.get(was.node) if was is not None and was != now else None
                return Wakeup(attaching=() if row is None else (row,))
            case _:
                return None

    def used_alone(self, pod: Schedulable) -> Collection[Hashable]:
        """Return the claims of a pod."""
        return claim_names(pod)

    def volume_plan(self, pod_row: int) -> VolumePlan | None:
        """Return what is written for the claims of an assumed pod; None if it has none, or they find none."""
        return self.binding.plan(pod_row) if self.binding is not None else None

    def pre_bind(self, pod_row: int) -> Sequence[PreBindWrite] | None:
        """Return what binds the claims of an assumed pod; None if they find no volumes."""
        if not self.binds(pod_row):
            return ()
        plan = self.volume_plan(pod_row)
        return None if plan is None else plan.claims

    def reserve(self, write: PreBindWrite) -> None:
        """Keep the volume or the space of a write from other pods."""
        assert isinstance(write, ClaimPlan), "it is a write of this plugin"
        self.delayed.ledger.assume((write,))

    def unreserve(self, write: PreBindWrite) -> None:
        """Keep it no more."""
        assert isinstance(write, ClaimPlan), "as above"
        self.delayed.ledger.forget((write,))

    def withdrawn(
        self,
        write: PreBindWrite,
        known: PersistentVolumeClaim | None,
        pods: AbstractSet[int],  # noqa: ARG002 - a claim serves them all
        *,
        shared: bool,
    ) -> PreBindWrite | None:
        """Return a write whose claim is not bound, and which no other decision waits for."""
        return None if shared or known is None or known.bound else write

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


def _attached(obj: object) -> Attached | None:
    return attached_volume(obj) if isinstance(obj, VolumeAttachment) else None


def _claim_of(obj: object) -> ObjectKey | None:
    """Return the claim that an object is, or that a volume names; None for none."""
    match obj:
        case PersistentVolumeClaim(metadata=metadata):
            return ObjectKey(Kind.CLAIM, metadata.namespace or "", metadata.name or "")
        case PersistentVolume(spec=PersistentVolumeSpec(claimRef=ClaimReference() as owner)):
            return ObjectKey(Kind.CLAIM, owner.namespace or "", owner.name or "")
        case _:
            return None


def _lost_its_node(before: object, after: object) -> bool:
    """Return whether a claim was unbound when its provisioner gave up on the selected node."""
    return (
        isinstance(before, PersistentVolumeClaim)
        and isinstance(after, PersistentVolumeClaim)
        and before.selected_node is not None
        and after.selected_node is None
        and not after.bound
    )
