"""Determines where a pod's volumes let it run, from its claims and the volumes they are bound to.

A bound volume can be reached from some nodes only, by its node affinity or by its zone labels. Whether an
unbound claim could be bound on a node depends on storage classes, capacities and the binder itself. So a pod
with one is not evaluated. The same holds for a pod whose disk or claim must not be used twice, or whose own
disk counts towards an attach limit. Attach limits of bound claims are not known here: the kubelet applies
them.

Source: VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits of kube-scheduler 1.37.
"""

from typing import NamedTuple

from podium.api.schedulable import PersistentVolume, PersistentVolumeClaim, Schedulable
from podium.api.selectors import Labels, NodeSelectorTerm, Requirement, node_terms
from podium.view import Name

Alternatives = tuple[NodeSelectorTerm, ...]

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
    """The claims by (namespace, name) and the volumes by name that shapes are made with."""

    def __init__(self) -> None:
        self.claims: dict[Name, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}


class Reach(NamedTuple):
    """For each bound volume, the terms of which a node must meet one: by node affinity, by zone label."""

    volumes: tuple[Alternatives, ...]
    zones: tuple[Alternatives, ...]


def claims_of(pod: Schedulable) -> tuple[str, ...]:
    """Return the names of a pod's claims, in its namespace; the shape follows them and their volumes."""
    return tuple(claim for _, claim, _ in _claims(pod))


def reach(pod: Schedulable, known: Volumes, odd: dict[str, None]) -> Reach:
    """Return where a pod's volumes can be reached from; `odd` collects what cannot be evaluated.

    The words name the pod's volume and not its claim, so that the copies of a pod are alike.
    """
    for each in pod.spec.volumes or ():
        for disk in _DISKS:
            if getattr(each, disk) is not None:
                odd[f"the {disk} volume {each.name}"] = None
    volumes: set[Alternatives] = set()
    zones: set[Alternatives] = set()
    for name, claim, owner in _claims(pod):
        volume = _bound(known, (pod.metadata.namespace or "", claim), name, owner, odd)
        if volume is None:
            continue
        affinity = volume.spec.nodeAffinity if volume.spec is not None else None
        if affinity is not None and affinity.required is not None:
            terms = node_terms(affinity.required.nodeSelectorTerms, odd)
            # kube-scheduler compares a volume with labels alone: expressions on fields match any node.
            volumes.add(tuple(NodeSelectorTerm(term.expressions) for term in terms))
        zones.update(_zone_terms(volume.metadata.labels or {}))
    return Reach(tuple(sorted(volumes)), tuple(sorted(zones)))


def _bound(
    known: Volumes, key: Name, name: str, owner: str | None, odd: dict[str, None]
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
        odd[why] = None
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


def _zone_terms(labels: Labels) -> list[tuple[NodeSelectorTerm, ...]]:
    """Return, for each zone label of a volume, the terms that match its nodes: in its zones, or without zone.

    Source: VolumeZone. Several zones are joined by `__`; an old label is looked for under its new name too.
    """
    nowhere = NodeSelectorTerm(tuple(sorted(Requirement(key, "DoesNotExist") for key in _ZONES)))
    found: list[tuple[NodeSelectorTerm, ...]] = []
    for key, newer in _ZONES.items():
        zones = tuple(sorted({zone.strip() for zone in labels[key].split("__")})) if key in labels else ()
        if not all(zones) or not zones:
            continue
        terms = {nowhere, NodeSelectorTerm((Requirement(key, "In", zones),))}
        if newer != key:
            old, new = Requirement(key, "DoesNotExist"), Requirement(newer, "In", zones)
            terms.add(NodeSelectorTerm(tuple(sorted((old, new)))))
        found.append(tuple(sorted(terms)))
    return found
