"""The claims of a pod, and why kube-scheduler refuses a pod for them before it checks any node.

A claim that is missing, lost, deleted or unbound blocks its pod on every node, and no preemption helps. So
the refusal is part of the shape, in kube-scheduler's words, and the pod is tried again when a claim changes.
Whether an unbound claim blocks its pod depends on its class. A class with WaitForFirstConsumer binds claims
for the node that the pod gets: such a claim is delayed.

Source: PreFilter of VolumeRestrictions, VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37, in
this order.
"""

from collections.abc import Iterator
from typing import NamedTuple

from podium.api.claims import PodClaim, claims_of_pod
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, Volume
from podium.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from podium.planner.plugins.volumes.index import Volumes

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def claims_refusal(pod: Schedulable, known: Volumes) -> str:
    """Return why no node can take a pod because of its claims, in kube-scheduler's words; empty if one can.

    Objects of kinds that were not read refuse nothing.
    """
    return next(_refusals(pod, known), "")


def delayed(claim: PersistentVolumeClaim, known: Volumes) -> bool:
    """Return whether a claim is bound for the node of its first pod, and names no volume yet.

    Without its class, a claim is bound at once.
    """
    class_ = known.classes.get(claim.storage_class)
    named = claim.spec is not None and bool(claim.spec.volumeName)
    return class_ is not None and class_.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER and not named


def _refusals(pod: Schedulable, known: Volumes) -> Iterator[str]:
    namespace = pod.metadata.namespace or ""
    pairs = [(mounted, known.claims.get((namespace, mounted.name))) for mounted in claims_of_pod(pod)]
    if known.lacks(Kind.CLAIM):
        pairs = [pair for pair in pairs if pair[1] is not None]
    # VolumeRestrictions and VolumeZone do not look at ephemeral volumes.
    for mounted, claim in pairs:
        if claim is None and not mounted.ephemeral:
            yield f'persistentvolumeclaim "{mounted.name}" not found'
    for mounted, claim in pairs:
        yield from _unusable(pod, mounted, claim)
    claims = [(mounted, claim) for mounted, claim in pairs if claim is not None]
    if any(not claim.bound and _immediate(claim, known) for _, claim in claims):
        yield UNBOUND
    for mounted, claim in claims:
        volume = claim.spec.volumeName if claim.spec is not None and not mounted.ephemeral else None
        if volume and volume not in known.volumes and not known.lacks(Kind.VOLUME):
            yield f'persistentvolume "{volume}" not found'


def _unusable(pod: Schedulable, mounted: PodClaim, claim: PersistentVolumeClaim | None) -> Iterator[str]:
    """Yield why a claim cannot be used by a pod at all."""
    if claim is None:
        waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        yield f'{waiting} "{mounted.name}"'
        return
    if claim.status is not None and claim.status.phase == "Lost":
        volume = (claim.spec.volumeName if claim.spec is not None else None) or ""
        yield f'persistentvolumeclaim "{mounted.name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletionTimestamp is not None:
        yield f'persistentvolumeclaim "{mounted.name}" is being deleted'
    if mounted.ephemeral and not _created_for(claim, pod.metadata.uid or ""):
        namespace = pod.metadata.namespace
        pair = f"PVC {namespace}/{mounted.name} was not created for pod {namespace}/{pod.metadata.name}"
        yield f"{pair} (pod is not owner)"


def _immediate(claim: PersistentVolumeClaim, known: Volumes) -> bool:
    """Return whether an unbound claim is known to be bound without regard to its pod."""
    if claim.spec is not None and claim.spec.volumeName:
        return True
    known_class = claim.storage_class in known.classes or not claim.storage_class
    return not delayed(claim, known) and (known_class or not known.lacks(Kind.STORAGE_CLASS))


def _created_for(claim: PersistentVolumeClaim, uid: str) -> bool:
    controller = claim.metadata.controller()
    return controller is not None and controller.uid == uid


# The claims and disks of a pod that no second pod may use.
#
# A claim of access mode ReadWriteOncePod has one pod in the whole cluster. An old disk that a pod names
# without a claim has one pod on a node, unless all its pods only read it. Disks of AWS have one pod on a
# node in any case. A pod that uses one of these is a limit on others like a host port, and preemption can
# free it.
#
# Source: VolumeRestrictions of kube-scheduler 1.36 and 1.37.


_ONE_POD = "ReadWriteOncePod"


class Disk(NamedTuple):
    """A disk that a pod names itself; two with a monitor (of a Ceph cluster) in common are in one cluster."""

    kind: str
    name: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()


class UsedClaim(NamedTuple):
    """A claim that may have one pod only."""

    namespace: str
    name: str


def exclusive_claims(pod: Schedulable, known: Volumes) -> tuple[UsedClaim, ...]:
    """Return the claims of a pod that may have one pod only; an ephemeral claim has one anyway."""
    names = {mounted.name for mounted in claims_of_pod(pod) if not mounted.ephemeral}
    used = (UsedClaim(pod.metadata.namespace or "", name) for name in names)
    claims = {claim: known.claims.get(claim) for claim in used}
    return tuple(
        sorted(
            key
            for key, claim in claims.items()
            if claim is not None and claim.spec is not None and _ONE_POD in (claim.spec.accessModes or ())
        )
    )


def disks_of(pod: Schedulable) -> tuple[Disk, ...]:
    """Return the disks of a pod that other pods of its node may be kept from."""
    disks = {disk for volume in pod.spec.volumes or () if (disk := _disk(volume)) is not None}
    return tuple(sorted(disks))


def same_disk(first: Disk, second: Disk) -> bool:
    """Return whether two pods on a node cannot have these disks."""
    if (first.kind, first.name) != (second.kind, second.name) or (first.read_only and second.read_only):
        return False
    return first.kind != "rbd" or not set(first.monitors).isdisjoint(second.monitors)


def _disk(volume: Volume) -> Disk | None:
    """Return the disk of a volume; where the API server fills in the pool of an image, so does this."""
    if volume.gcePersistentDisk is not None:
        gce = volume.gcePersistentDisk
        return Disk("gcePersistentDisk", gce.pdName or "", bool(gce.readOnly))
    if volume.awsElasticBlockStore is not None:
        return Disk("awsElasticBlockStore", volume.awsElasticBlockStore.volumeID or "")
    if volume.iscsi is not None:
        return Disk("iscsi", volume.iscsi.iqn or "", bool(volume.iscsi.readOnly))
    if volume.rbd is not None:
        rbd = volume.rbd
        monitors = tuple(sorted(set(rbd.monitors or ())))
        return Disk("rbd", f"{rbd.pool or 'rbd'}/{rbd.image or ''}", bool(rbd.readOnly), monitors)
    return None
