"""The claims and disks of a pod that no second pod may use.

A claim of access mode ReadWriteOncePod has one pod in the whole cluster. An old disk that a pod names without
a claim has one pod on a node, unless all its pods only read it. Disks of AWS have one pod on a node in any
case. A pod that uses one of these is a limit on others like a host port, and preemption can free it.

Source: VolumeRestrictions of kube-scheduler 1.36 and 1.37.
"""

from typing import NamedTuple

from podium.api.claims import claims_of_pod
from podium.api.schedulable import Schedulable, Volume
from podium.planner.volumes.index import Volumes

_ONE_POD = "ReadWriteOncePod"


class Disk(NamedTuple):
    """A disk that a pod names itself; two with a monitor (of a Ceph cluster) in common are in one cluster."""

    kind: str
    name: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()


def exclusive_claims(pod: Schedulable, known: Volumes) -> tuple[str, ...]:
    """Return the names of a pod's claims that may have one pod only; an ephemeral claim has one anyway."""
    names = {each.name for each in claims_of_pod(pod) if not each.ephemeral}
    claims = {name: known.claims.get((pod.metadata.namespace or "", name)) for name in names}
    return tuple(
        sorted(
            name
            for name, claim in claims.items()
            if claim is not None and claim.spec is not None and _ONE_POD in (claim.spec.accessModes or ())
        )
    )


def disks_of(pod: Schedulable) -> tuple[Disk, ...]:
    """Return the disks of a pod that other pods of its node may be kept from."""
    found = {disk for each in pod.spec.volumes or () if (disk := _disk(each)) is not None}
    return tuple(sorted(found))


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
