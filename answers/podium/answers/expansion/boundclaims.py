"""Binds the claims for volumes that a file adds, as the volume controller does before any pod is scheduled.

A claim without a class gets the default class. A claim of a class with WaitForFirstConsumer stays unbound
until its pod has a node, which the plan decides. Another claim is bound at once: to the volume that it names,
to the smallest free volume that suits it, or to a volume that its class provisions. No object says which
nodes reach a volume that does not exist yet, so all nodes of the topologies that the class allows do.

Sources: DefaultStorageClass and the PersistentVolume controller of Kubernetes 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from podium.answers.expansion.additions import Additions
from podium.answers.expansion.makers import uid_of
from podium.api.meta import ObjectMeta
from podium.api.nodeselector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podium.api.reads import Kind
from podium.api.storage import (
    DEFAULT_CLASS,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from podium.planner.volumes.bindables import DelayedClaim, bindable_volume, bound_pair, delayed_claim
from podium.planner.volumes.matching import BindableVolumes
from podium.text import count, some

# In place of a default class that was not read. No class has the name, so a claim of it cannot be judged.
_UNREAD_DEFAULT = "<default>"


class ClaimBinder:
    """Binds the claims among the objects of a file, to volumes of the file and of the cluster."""

    def __init__(self, additions: Additions) -> None:
        state, objects = additions.state, additions.objects
        self._additions = additions
        self._volumes = dict(state.volumes)
        self._classes = dict(state.storage_classes)
        for index, each in enumerate(objects):
            if isinstance(each, PersistentVolume):
                objects[index] = volume = _available(each)
                self._volumes[volume.metadata.name or ""] = volume
            elif isinstance(each, StorageClass):
                self._classes[each.metadata.name or ""] = each
        self._free = BindableVolumes()
        unread = Kind.STORAGE_CLASS in state.unread
        self._default = default_class(self._classes.values()) or (_UNREAD_DEFAULT if unread else "")
        self._provisioned = Counter[str]()
        # The claims of each class that does not exist.
        self._lacking: dict[str, list[str]] = {}

    def bind(self) -> None:
        """Replace the claims by those that a cluster has a moment later, and add their volumes."""
        objects = self._additions.objects
        claims = [at for at, each in enumerate(objects) if isinstance(each, PersistentVolumeClaim)]
        for volume in self._volumes.values() if claims else ():
            if (bindable := bindable_volume(volume)) is not None:
                self._free.put(bindable)
        for at in claims:
            claim = objects[at]
            assert isinstance(claim, PersistentVolumeClaim), "the others were left out"
            objects[at] = self._settled(self._with_class(claim))
        self._additions.notes += self._notes()

    def _notes(self) -> Iterator[str]:
        """Yield the notes on the classes that provision volumes before the plan, or do not exist."""
        for name, number in self._provisioned.items():
            yield (
                f"planned as if StorageClass {name} had provisioned {count(number, 'volume')}, "
                "because it binds claims before their pods are scheduled"
            )
        for name, claims in self._lacking.items():
            why = f"StorageClass {name} not found" if name else "no StorageClass is the default"
            yield f"{why}, so no volume is created for {count(len(claims), 'claim')} ({some(claims)})"

    def _with_class(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a claim with the default class if it states none; an empty name is none by intent."""
        spec = claim.spec or PersistentVolumeClaimSpec()
        if spec.storageClassName is not None or claim.storage_class or not self._default:
            return claim
        return msgspec.structs.replace(
            claim, spec=msgspec.structs.replace(spec, storageClassName=self._default)
        )

    def _settled(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a claim, bound if it does not wait for its first pod and there is or will be a volume."""
        storage_class = self._classes.get(claim.storage_class)
        if claim.bound:
            return claim
        bindable = delayed_claim(claim, {})
        if claim.spec is not None and claim.spec.volumeName:
            volume = self._requested(claim.spec.volumeName, bindable)
        elif storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER:
            return claim
        else:
            volume = self._suitable(bindable) or self._created(claim, storage_class)
        return claim if volume is None else self._bound(claim, volume)

    def _requested(self, name: str, claim: DelayedClaim) -> PersistentVolume | None:
        """Return the volume that a claim names, None if it does not exist, or does not suit the claim."""
        volume = self._volumes.get(name)
        bindable = bindable_volume(volume) if volume is not None else None
        if bindable is None:
            return None
        if bindable.owner is not None:
            return volume if bindable.owner.means(claim) else None
        same_class = bindable.storage_class == claim.storage_class
        return volume if same_class and bindable.holds(claim) and claim.access <= bindable.access else None

    def _suitable(self, claim: DelayedClaim) -> PersistentVolume | None:
        """Return the volume that names a claim, else the smallest free one that suits it."""
        named = self._free.named_for(claim)
        if named is not None:
            return self._volumes[named.name]
        free = self._free.free(claim.storage_class)
        eligible = free.eligible(claim)
        return self._volumes[free.names[int(eligible.argmax())]] if eligible.any() else None

    def _created(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass | None
    ) -> PersistentVolume | None:
        """Return the volume that a class provisions, None without a provisioner."""
        meta, spec = claim.metadata, claim.spec or PersistentVolumeClaimSpec()
        if storage_class is None:
            if spec.storageClassName != "" and Kind.STORAGE_CLASS not in self._additions.state.unread:
                self._lacking.setdefault(claim.storage_class, []).append(f"{meta.namespace}/{meta.name}")
            return None
        provisioner = storage_class.provisioner or ""
        if provisioner == NO_PROVISIONER:
            return None
        self._provisioned[claim.storage_class] += 1
        name = f"pvc-{uid_of('PersistentVolume', meta.namespace or '', meta.name or '')}"
        return PersistentVolume(
            metadata=ObjectMeta(name=name, creationTimestamp=self._additions.now),
            spec=PersistentVolumeSpec(
                capacity=spec.resources.requests if spec.resources is not None else None,
                accessModes=spec.accessModes,
                storageClassName=claim.storage_class,
                volumeMode=spec.volumeMode,
                volumeAttributesClassName=spec.volumeAttributesClassName,
                nodeAffinity=_topologies(storage_class),
                csi=CSISource(provisioner, name),
            ),
        )

    def _bound(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
        """Return a claim bound to a volume, and store the volume bound to it."""
        bound, taken = bound_pair(claim, volume)
        name = taken.metadata.name or ""
        self._volumes[name] = taken
        self._free.assume(name)
        self._additions.objects.append(taken)
        return bound


def default_class(classes: Iterable[StorageClass]) -> str:
    """Return the default class: the newest of those that are marked, and of these the first by name."""
    marked = [
        each
        for each in sorted(classes, key=lambda each: each.metadata.name or "")
        if any((each.metadata.annotations or {}).get(key) == "true" for key in DEFAULT_CLASS)
    ]
    newest = max(marked, key=lambda each: each.metadata.creationTimestamp or "", default=None)
    return (newest.metadata.name or "") if newest is not None else ""


def _available(volume: PersistentVolume) -> PersistentVolume:
    """Return a volume of a file with the phase that its controller gives to a new one."""
    if volume.status is not None and volume.status.phase:
        return volume
    return msgspec.structs.replace(volume, status=PersistentVolumeStatus(phase="Available"))


def _topologies(storage_class: StorageClass) -> VolumeNodeAffinity | None:
    """Return the nodes of the topologies that a class allows, None for all nodes."""
    allowed = storage_class.allowedTopologies or ()
    terms = [
        NodeSelectorTerm(
            [
                NodeSelectorRequirement(each.key, "In", each.values)
                for each in term.matchLabelExpressions or ()
            ]
        )
        for term in allowed
    ]
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else None
