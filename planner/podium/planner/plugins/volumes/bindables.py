"""Reads unbound claims and persistent volumes as values, with the fields that binding compares.

Equal claims of a StatefulSet differ only in key and UID, and equal volumes only in name and reach. Defaults
are those of kube-scheduler: no volume mode is Filesystem, no capacity is 0, the annotation of a class
precedes its field.
"""

from typing import NamedTuple

import msgspec

from podium.api.core import RawQuantity
from podium.api.quantity import QuantityError, parse
from podium.api.selectors import Selector, selector_of
from podium.api.storage import (
    BIND_COMPLETED,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
)
from podium.api.volumereach import Alternatives, node_affinity
from podium.cluster.reader import Name
from podium.planner.plugins.volumes.nodeclasses import EVERYWHERE

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
