"""The nodes from which the volumes of a pod can be reached.

A bound volume can be reached from some nodes only, by its node affinity or by its zone labels. Whether an
unbound claim could be bound on a node depends on storage classes, capacities and the binder itself. So a pod
with one is not evaluated. The same holds for a pod whose disk or claim must not be used twice, or whose own
disk counts towards an attach limit. Attach limits of bound claims are not known here: the kubelet applies
them.

Source: VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits of kube-scheduler 1.37.
"""

from typing import NamedTuple, TypeVar

from podium.api.schedulable import Schedulable
from podium.api.selectors import Labels, NodeRequirement, Requirement, node_terms
from podium.api.storage import PersistentVolume, PersistentVolumeClaim
from podium.cluster.reader import Name

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
Alternatives = tuple[NodeRequirement, ...]

# Zone labels of volumes, each with the label that replaced it on nodes.
_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
# Volumes that are disks: used once, or counted by attach limits.
_DISKS = (
    *("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"),
    *("azureDisk", "cinder", "vsphereVolume", "portworxVolume"),
)


class Volumes:
    """The claims by (namespace, name), the volumes by name, and the rows of the pods that use each claim."""

    def __init__(self) -> None:
        self.claims: dict[Name, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self._users: dict[Name, set[int]] = {}
        self._claims_of_volume: dict[str, set[Name]] = {}

    def add_user(self, row: int, pod: Schedulable) -> None:
        """Record the claims of a pod."""
        for claim in claims_of(pod):
            self._users.setdefault((pod.metadata.namespace or "", claim), set()).add(row)

    def remove_user(self, row: int, pod: Schedulable) -> None:
        """Remove the claims of a pod."""
        for claim in claims_of(pod):
            discard(self._users, (pod.metadata.namespace or "", claim), row)

    def apply_claim(self, claim: PersistentVolumeClaim, *, gone: bool) -> list[int]:
        """Apply a change of a claim; return the rows of the pods that use it."""
        key = claim.metadata.namespace or "", claim.metadata.name or ""
        before = self.claims.pop(key, None)
        if before is not None and before.spec is not None:
            discard(self._claims_of_volume, before.spec.volumeName or "", key)
        if not gone:
            self.claims[key] = claim
            if claim.spec is not None:
                self._claims_of_volume.setdefault(claim.spec.volumeName or "", set()).add(key)
        return list(self._users.get(key, ()))

    def apply_volume(self, volume: PersistentVolume, *, gone: bool) -> list[int]:
        """Apply a change of a volume; return the rows of the pods whose claims are bound to it."""
        name = volume.metadata.name or ""
        self.volumes.pop(name, None)
        if not gone:
            self.volumes[name] = volume
        claims = self._claims_of_volume.get(name, ())
        return list(dict.fromkeys(row for key in claims for row in self._users.get(key, ())))


class Reach(NamedTuple):
    """For each bound volume, the terms of which a node must meet one: by node affinity, by zone label."""

    volumes: tuple[Alternatives, ...]
    zones: tuple[Alternatives, ...]


def claims_of(pod: Schedulable) -> tuple[str, ...]:
    """Return the names of a pod's claims, in its namespace; the shape follows them and their volumes."""
    return tuple(claim for _, claim, _ in _claims(pod))


def reach(pod: Schedulable, known: Volumes, unreadable: dict[str, None]) -> Reach:
    """Return where a pod's volumes can be reached from; `unreadable` collects what cannot be evaluated.

    The words name the pod's volume and not its claim, so that the copies of a pod are alike.
    """
    for each in pod.spec.volumes or ():
        for disk in _DISKS:
            if getattr(each, disk) is not None:
                unreadable[f"the {disk} volume {each.name}"] = None
    volumes: set[Alternatives] = set()
    zones: set[Alternatives] = set()
    for name, claim, owner in _claims(pod):
        volume = _bound(known, (pod.metadata.namespace or "", claim), name, owner, unreadable)
        if volume is None:
            continue
        affinity = volume.spec.nodeAffinity if volume.spec is not None else None
        if affinity is not None and affinity.required is not None:
            terms = node_terms(affinity.required.nodeSelectorTerms, unreadable)
            # kube-scheduler compares a volume with labels alone: expressions on fields match any node.
            volumes.add(tuple(NodeRequirement(term.expressions) for term in terms))
        zones.update(_zone_terms(volume.metadata.labels or {}))
    return Reach(tuple(sorted(volumes)), tuple(sorted(zones)))


def _bound(
    known: Volumes, key: Name, name: str, owner: str | None, unreadable: dict[str, None]
) -> PersistentVolume | None:
    """Return the volume that a claim is bound to, None if there is a problem with either.

    `owner` is the UID of the pod that the claim must have been created for.
    """
    claim = known.claims.get(key)
    volume = None
    if claim is None:
        why = f"the claim of volume {name}, which was not found"
    elif owner is not None and not _created_for(claim, owner):
        why = f"the claim of volume {name}, which was not created for this pod"
    elif claim.metadata.deletionTimestamp is not None:
        why = f"the claim of volume {name}, which is being deleted"
    elif not claim.bound or claim.spec is None:
        why = f"the unbound claim of volume {name}"
    elif "ReadWriteOncePod" in (claim.spec.accessModes or ()):
        why = f"the ReadWriteOncePod claim of volume {name}"
    else:
        volume = known.volumes.get(claim.spec.volumeName or "")
        why = f"the persistent volume of volume {name}, which was not found"
    if volume is None:
        unreadable[why] = None
    return volume


def _created_for(claim: PersistentVolumeClaim, uid: str) -> bool:
    controller = claim.metadata.controller()
    return controller is not None and controller.uid == uid


def _claims(pod: Schedulable) -> list[tuple[str, str, str | None]]:
    """Return (volume, claim, owner) for the volumes that are claims; an ephemeral one is the pod's own."""
    found: list[tuple[str, str, str | None]] = []
    for volume in pod.spec.volumes or ():
        if volume.persistentVolumeClaim is not None:
            found.append((volume.name or "", volume.persistentVolumeClaim.claimName or "", None))
        elif volume.ephemeral is not None:
            claim = f"{pod.metadata.name}-{volume.name}"
            found.append((volume.name or "", claim, pod.metadata.uid or ""))
    return found


def _zone_terms(labels: Labels) -> list[tuple[NodeRequirement, ...]]:
    """Return, for each zone label of a volume, the terms that match its nodes: in its zones, or without zone.

    Source: VolumeZone. Several zones are joined by `__`; an old label is looked for under its new name too.
    """
    nowhere = NodeRequirement(tuple(sorted(Requirement(key, "DoesNotExist") for key in _ZONES)))
    found: list[tuple[NodeRequirement, ...]] = []
    for key, newer in _ZONES.items():
        zones = tuple(sorted({zone.strip() for zone in labels[key].split("__")})) if key in labels else ()
        if not all(zones) or not zones:
            continue
        terms = {nowhere, NodeRequirement((Requirement(key, "In", zones),))}
        if newer != key:
            old, new = Requirement(key, "DoesNotExist"), Requirement(newer, "In", zones)
            terms.add(NodeRequirement(tuple(sorted((old, new)))))
        found.append(tuple(sorted(terms)))
    return found


def discard(index: dict[_Key, set[_Item]], key: _Key, item: _Item) -> None:
    """Remove an item from a set of an index, and the set if it is empty then."""
    items = index[key]
    items.discard(item)
    if not items:
        del index[key]
