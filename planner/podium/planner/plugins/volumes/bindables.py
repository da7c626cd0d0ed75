"""Reads unbound claims and persistent volumes as values, with the fields that binding compares.

Equal claims of a StatefulSet differ only in key and UID, and equal volumes only in name and reach. Defaults
are those of kube-scheduler: no volume mode is Filesystem, no capacity is 0, the annotation of a class
precedes its field.

For an unbound claim the smallest free volume of the class that suits is chosen.
A volume is free if it is Available, not being deleted, names no claim, and is not assumed for one. It suits a
claim by class, size, volume mode, access modes, VolumeAttributesClass and the claim's selector. A volume that
names a claim serves this claim alone, whatever its phase, access modes and labels are.

Free volumes of a class are kept in order of size and then name, as arrays. kube-scheduler takes volumes of
one size in the random order of a Go map; here the name decides. A volume that is taken, freed, removed or
made again as it was changes one entry of the arrays. If another volume becomes free, the arrays of its class
are made again.

Source: FindMatchingVolume of k8s.io/component-helpers/storage/volume, 1.36 and 1.37, where
VolumeAttributesClass is locked on.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from podium.api.core import RawQuantity
from podium.api.quantity import QuantityError, parse
from podium.api.selectors import Selector, selector_of
from podium.api.storage import (
    BIND_COMPLETED,
    Alternatives,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    node_affinity,
)
from podium.cluster.reader import Name
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.indexes import discard
from podium.planner.plugins.volumes.nodeclasses import EVERYWHERE, ReachableItems

_STORAGE = "storage"
_FILESYSTEM = "Filesystem"
_AVAILABLE = "Available"
# The access modes of which a volume has all that a claim asks for, and by which several nodes may use it.
_SHARED = frozenset(("ReadWriteMany", "ReadOnlyMany"))


class DelayedClaim(NamedTuple):
    """An unbound claim of a class with WaitForFirstConsumer, as binding reads it.

    `size` is in nano-bytes, None without a request. `selected_node` is the node that its volume is or will be
    provisioned for.
    """

    key: Name
    uid: str = ""
    storage_class: str = ""
    size: int | None = None
    mode: str = _FILESYSTEM
    access: frozenset[str] = frozenset()
    attributes_class: str = ""
    selector: Selector | None = None
    selected_node: str | None = None

    @property
    def shareable(self) -> bool:
        """Return whether pods of several nodes may use the claim at a time."""
        return not _SHARED.isdisjoint(self.access)


class ClaimOwner(NamedTuple):
    """The claim that a volume names; the UID is empty until a controller or the scheduler completes it."""

    key: Name
    uid: str = ""

    def means(self, claim: DelayedClaim) -> bool:
        """Return whether it is this claim, and not an earlier one of its name."""
        return self.key == claim.key and self.uid in ("", claim.uid)


class BindableVolume(NamedTuple):
    """A persistent volume, as binding reads it; `size` is in nano-bytes."""

    name: str
    storage_class: str = ""
    size: int = 0
    mode: str = _FILESYSTEM
    access: frozenset[str] = frozenset()
    attributes_class: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    reach: Alternatives = EVERYWHERE
    available: bool = True
    deleting: bool = False
    owner: ClaimOwner | None = None

    @property
    def lasting(self) -> "BindableVolume":
        """The volume without the fields that change when it is taken or freed."""
        return self._replace(available=True, deleting=False, owner=None)

    def holds(self, claim: DelayedClaim) -> bool:
        """Return whether the volume is large enough for a claim and of its kind, whichever claim it names."""
        return (
            self.size >= (claim.size or 0)
            and self.mode == claim.mode
            and self.attributes_class == claim.attributes_class
            and not self.deleting
        )


def delayed_claim(claim: PersistentVolumeClaim, unreadable: dict[str, None]) -> DelayedClaim:
    """Return a claim as binding reads it; `unreadable` collects what cannot be evaluated."""
    spec, metadata = claim.spec, claim.metadata
    requests = (spec.resources.requests if spec is not None and spec.resources is not None else None) or {}
    size = nanos(requests[_STORAGE]) if _STORAGE in requests else None
    if size is None and _STORAGE in requests:
        unreadable[f"the requested size {requests[_STORAGE]}"] = None
    return DelayedClaim(
        key=(metadata.namespace or "", metadata.name or ""),
        uid=metadata.uid or "",
        storage_class=claim.storage_class,
        size=size,
        mode=(spec.volumeMode if spec is not None else None) or _FILESYSTEM,
        access=frozenset((spec.accessModes if spec is not None else None) or ()),
        attributes_class=(spec.volumeAttributesClassName if spec is not None else None) or "",
        selector=selector_of(spec.selector if spec is not None else None, unreadable),
        selected_node=claim.selected_node,
    )


def bindable_volume(volume: PersistentVolume) -> BindableVolume | None:
    """Return a volume as binding reads it, None if its capacity is unreadable."""
    spec, metadata = volume.spec, volume.metadata
    if spec is None:
        return None
    size = nanos((spec.capacity or {}).get(_STORAGE, 0))
    if size is None:
        return None
    return BindableVolume(
        name=metadata.name or "",
        storage_class=volume.storage_class,
        size=size,
        mode=spec.volumeMode or _FILESYSTEM,
        access=frozenset(spec.accessModes or ()),
        attributes_class=spec.volumeAttributesClassName or "",
        labels=tuple(sorted((metadata.labels or {}).items())),
        reach=_reachable_from(volume),
        available=volume.status is not None and volume.status.phase == _AVAILABLE,
        deleting=metadata.deletionTimestamp is not None,
        owner=_claim_owner(spec.claimRef),
    )


def bound_pair(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    """Return a claim and a volume that are bound to each other."""
    meta, name = claim.metadata, volume.metadata.name or ""
    return (
        msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(
                meta, annotations={**(meta.annotations or {}), BIND_COMPLETED: "yes"}
            ),
            spec=msgspec.structs.replace(claim.spec or PersistentVolumeClaimSpec(), volumeName=name),
            status=PersistentVolumeClaimStatus(phase="Bound"),
        ),
        msgspec.structs.replace(
            volume,
            spec=msgspec.structs.replace(
                volume.spec or PersistentVolumeSpec(),
                claimRef=ClaimReference(meta.namespace, meta.name, meta.uid),
            ),
            status=PersistentVolumeStatus(phase="Bound"),
        ),
    )


def nanos(quantity: RawQuantity) -> int | None:
    """Return a quantity in nano-units, None if it is unreadable."""
    try:
        return parse(quantity)
    except QuantityError:
        return None


def _reachable_from(volume: PersistentVolume) -> Alternatives:
    """Return the terms of the nodes that reach a volume."""
    # A term with an operator that no server stores matches nothing.
    terms = node_affinity(volume, {})
    return EVERYWHERE if terms is None else tuple(sorted(set(terms)))


def _claim_owner(reference: ClaimReference | None) -> ClaimOwner | None:
    if reference is None:
        return None
    return ClaimOwner((reference.namespace or "", reference.name or ""), reference.uid or "")


def whole_bytes(size: int) -> int:
    """Return a size in nano-bytes as bytes, rounded up."""
    return -(-size // 10**9)


_Item = TypeVar("_Item", bound=Hashable)

# The most selectors of claims whose answers are kept for the volumes of a class.
_SELECTORS = 64


class FreeVolumes:
    """The free volumes of one class, in order of size and name; `free` is False for one taken since."""

    def __init__(self, volumes: Sequence[BindableVolume]) -> None:
        ordered = sorted(volumes, key=lambda volume: (volume.size, volume.name))
        self.names = [volume.name for volume in ordered]
        self._volumes = [volume.lasting for volume in ordered]
        self._position = {name: at for at, name in enumerate(self.names)}
        self.items = ReachableItems([volume.reach for volume in ordered])
        self.free: Bools = np.ones(len(ordered), np.bool_)
        self.sizes = volume_sizes(ordered)
        self._nanos = [volume.size for volume in ordered]
        self._kinds, self._kind = _numbered(
            (volume.mode, volume.access, volume.attributes_class) for volume in ordered
        )
        self._labels, self._label = _numbered(volume.labels for volume in ordered)
        self._selected: dict[Selector, Bools] = {}

    def update(self, name: str, free: BindableVolume | None) -> bool:
        """Set the volume that is free under a name, if any; return False if it is not in the order."""
        at = self._position.get(name)
        if at is None:
            return free is None
        self.free[at] = free is not None and free.lasting == self._volumes[at]
        return free is None or bool(self.free[at])

    def eligible(self, claim: DelayedClaim) -> Bools:
        """Return by position which volumes are free and suit a claim, wherever they can be reached."""
        suits = [
            mode == claim.mode and claim.access <= access and attributes_class == claim.attributes_class
            for mode, access, attributes_class in self._kinds
        ]
        eligible = self.free & np.array(suits, np.bool_)[self._kind]
        eligible[: bisect_left(self._nanos, claim.size or 0)] = False
        return eligible if claim.selector is None else eligible & self._matching(claim.selector)

    def _matching(self, selector: Selector) -> Bools:
        selected = self._selected.get(selector)
        if selected is None:
            if len(self._selected) == _SELECTORS:
                del self._selected[next(iter(self._selected))]
            by_labels = np.array([selector.matches(dict(labels)) for labels in self._labels], np.bool_)
            selected = self._selected[selector] = by_labels[self._label]
        return selected


class BindableVolumes:
    """All volumes by name, the free ones by class, and those that name a claim by the claim.

    A volume can be assumed for a claim before an object says so. It is not free then, whatever changes
    arrive.
    """

    def __init__(self) -> None:
        self._volumes: dict[str, BindableVolume] = {}
        self._names_of_class: dict[str, set[str]] = {}
        self._named_for: dict[Name, set[str]] = {}
        self._assumed: set[str] = set()
        self._tables: dict[str, FreeVolumes] = {}

    def volume(self, name: str) -> BindableVolume | None:
        """Return a volume by name."""
        return self._volumes.get(name)

    def free(self, storage_class: str) -> FreeVolumes:
        """Return the free volumes of a class; valid until a volume changes."""
        table = self._tables.get(storage_class)
        if table is None:
            names = self._names_of_class.get(storage_class, ())
            volumes = [self._volumes[name] for name in names if self._is_free(name)]
            table = self._tables[storage_class] = FreeVolumes(volumes)
        return table

    def named_for(self, claim: DelayedClaim) -> BindableVolume | None:
        """Return the volume that names a claim and suits it, and is assumed for none; the first by name."""
        for name in sorted(self._named_for.get(claim.key, ())):
            volume = self._volumes[name]
            named = volume.owner is not None and volume.owner.means(claim)
            suits = volume.storage_class == claim.storage_class and volume.holds(claim)
            if named and suits and name not in self._assumed:
                return volume
        return None

    def put(self, volume: BindableVolume) -> None:
        """Add a volume, or replace the one of its name."""
        before = self._volumes.get(volume.name)
        if before is not None and before.owner is not None:
            discard(self._named_for, before.owner.key, volume.name)
        self._volumes[volume.name] = volume
        if volume.owner is not None:
            self._named_for.setdefault(volume.owner.key, set()).add(volume.name)
        if before is None or before.lasting != volume.lasting:
            if before is not None:
                self._unlist(before)
            self._names_of_class.setdefault(volume.storage_class, set()).add(volume.name)
        self._refresh(volume.name)

    def drop(self, name: str) -> None:
        """Remove a volume; a claim that it is assumed for keeps it, in case it comes back."""
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        if volume.owner is not None:
            discard(self._named_for, volume.owner.key, name)
        self._unlist(volume)

    def assume(self, name: str) -> None:
        """Take a volume out of the free ones until it is unassumed."""
        self._assumed.add(name)
        self._refresh(name)

    def unassume(self, name: str) -> None:
        """Count an assumed volume as its object says."""
        self._assumed.discard(name)
        self._refresh(name)

    def _is_free(self, name: str) -> bool:
        volume = self._volumes[name]
        return volume.available and not volume.deleting and volume.owner is None and name not in self._assumed

    def _unlist(self, volume: BindableVolume) -> None:
        """Remove a volume from those of its class."""
        discard(self._names_of_class, volume.storage_class, volume.name)
        table = self._tables.get(volume.storage_class)
        if table is not None:
            table.update(volume.name, None)

    def _refresh(self, name: str) -> None:
        """Set whether a volume is free among those of its class."""
        volume = self._volumes.get(name)
        table = self._tables.get(volume.storage_class) if volume is not None else None
        if volume is None or table is None:
            return
        if not table.update(name, volume if self._is_free(name) else None):
            del self._tables[volume.storage_class]


def volume_sizes(volumes: Sequence[BindableVolume]) -> Int64s:
    """Return the sizes of volumes in bytes, and a zero for the position of none."""
    return np.array([*(whole_bytes(volume.size) for volume in volumes), 0], np.int64)


def _numbered(values: Iterable[_Item]) -> tuple[list[_Item], Rows]:
    """Return the distinct values, and the number of each value among them."""
    ids: dict[_Item, int] = {}
    numbers = [ids.setdefault(value, len(ids)) for value in values]
    return list(ids), np.array(numbers, np.intp)
