"""The needs of a pod in volumes: the nodes that reach them, claims that get one with a node, and limits.

A bound volume can be reached from some nodes only, by its node affinity or by its zone labels. On which nodes
a delayed claim can get one depends on other claims too, so `delayed` decides that whenever it is asked.

Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.

A claim that is missing, lost, deleted or unbound blocks its pod on every node, and no preemption helps. So
the refusal is part of the shape, in kube-scheduler's words, and the pod is tried again when a claim changes.
Whether an unbound claim blocks its pod depends on its class. A class with WaitForFirstConsumer binds claims
for the node that the pod gets: such a claim is delayed.

A node can attach so many volumes of a driver. A volume counts once for all pods of a node, by its driver and
the driver's handle. A claim without a volume counts as a volume of its own, by the provisioner of its class.
An old disk counts for the driver that replaced it, under the handle that csi-translation-lib gives it, on
nodes with a CSINode.

Source: NodeVolumeLimits, and PreFilter of VolumeRestrictions, VolumeBinding and VolumeZone of kube-scheduler
1.36 and 1.37; k8s.io/csi-translation-lib.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from podium.api.claims import PodClaim, claims_of_pod
from podium.api.membership import membership
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, Volume
from podium.api.storage import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    Alternatives,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    node_affinity,
    zone_terms,
)
from podium.planner.plugins.volumes.bindables import DelayedClaim, delayed_claim
from podium.planner.plugins.volumes.exclusive import (
    Disk,
    Used,
    UsedClaim,
    disks_of,
    exclusive_claims,
)
from podium.planner.plugins.volumes.index import Volumes
from podium.planner.shapes import PodNeed, Shape

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


_GCE, _AWS, _AZURE, _CINDER, _PORTWORX = (
    *("pd.csi.storage.gke.io", "ebs.csi.aws.com", "disk.csi.azure.com", "cinder.csi.openstack.org"),
    "pxd.portworx.com",
)
# The drivers by the provisioners that they replaced.
_REPLACED = {
    "kubernetes.io/gce-pd": _GCE,
    "kubernetes.io/aws-ebs": _AWS,
    "kubernetes.io/azure-disk": _AZURE,
    "kubernetes.io/cinder": _CINDER,
    "kubernetes.io/portworx-volume": _PORTWORX,
}
# Provisioners that no driver replaced for kube-scheduler, or that provision nothing.
_UNCOUNTED = ("", NO_PROVISIONER, "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_LOOKS_FOR_DRIVERS = 37
_AWS_URL = re.compile(r"aws://[^/]*/+(vol-[^/]*)/*")


class Attachment(NamedTuple):
    """A volume of a driver by its handle; `replaced` if an old disk or provisioner names it."""

    driver: str
    handle: str
    replaced: bool = False


class RequiredDriver(NamedTuple):
    """A driver whose CSIDriver may require it on the node; `replaced` if only old disks name it."""

    name: str
    replaced: bool


def attachments_of(pod: Schedulable, known: Volumes) -> tuple[Attachment, ...]:
    """Return the volumes that are attached for a pod; claims that do not exist count as none."""
    attachments = {disk for volume in pod.spec.volumes or () if (disk := _disk(volume)) is not None}
    for mounted in claims_of_pod(pod):
        claim = known.claims.get((pod.metadata.namespace or "", mounted.name))
        attachment = _of_claim(claim, known) if claim is not None else None
        if attachment is not None:
            attachments.add(attachment)
    return tuple(sorted(attachments))


def required_drivers(attachments: Iterable[Attachment], minor: int) -> tuple[RequiredDriver, ...]:
    """Return the drivers of a pod that kube-scheduler of a minor looks for on the node; 1.36 looks for none.

    VolumeLimitScaling is off by default in 1.36, and on in 1.37.
    """
    replaced: dict[str, bool] = {}
    for attachment in attachments if minor >= _LOOKS_FOR_DRIVERS else ():
        replaced[attachment.driver] = replaced.get(attachment.driver, True) and attachment.replaced
    return tuple(sorted(RequiredDriver(*pair) for pair in replaced.items()))


def attachment_of(volume: PersistentVolume) -> Attachment | None:
    """Return the attachment of a volume; None for one that no driver attaches."""
    spec = volume.spec or PersistentVolumeSpec()
    if spec.csi is not None:
        driver, handle = spec.csi.driver or "", spec.csi.volumeHandle or ""
        return Attachment(driver, handle) if driver and handle else None
    zones = next(filter(None, ((volume.metadata.labels or {}).get(key) for key in _ZONES)), "")
    return _disk(spec, zones)


def _of_claim(claim: PersistentVolumeClaim, known: Volumes) -> Attachment | None:
    volume = known.volumes.get((claim.spec.volumeName if claim.spec is not None else None) or "")
    if volume is not None:
        return attachment_of(volume)
    storage_class = known.classes.get(claim.storage_class)
    provisioner = (storage_class.provisioner if storage_class is not None else None) or ""
    if provisioner in _UNCOUNTED:
        return None
    # No driver gives out such a handle.
    handle = f"\0{claim.metadata.namespace}/{claim.metadata.name}"
    replaced = _REPLACED.get(provisioner)
    return Attachment(replaced or provisioner, handle, replaced is not None)


def _disk(source: Volume | PersistentVolumeSpec, zones: str = "") -> Attachment | None:
    """Return the attachment of an old disk; `zones` are those of a volume's label."""
    identity: tuple[str, str] | None = None
    if source.gcePersistentDisk is not None:
        identity = _GCE, _gce_handle(source.gcePersistentDisk.pdName or "", zones)
    elif source.awsElasticBlockStore is not None:
        identity = _AWS, _aws_handle(source.awsElasticBlockStore.volumeID or "")
    elif source.azureDisk is not None:
        # The API server fills in Shared, which has no driver.
        managed = (source.azureDisk.kind or "").lower() == "managed"
        identity = _AZURE, (source.azureDisk.diskURI or "") if managed else ""
    elif source.cinder is not None:
        identity = _CINDER, source.cinder.volumeID or ""
    elif source.portworxVolume is not None:
        identity = _PORTWORX, source.portworxVolume.volumeID or ""
    return Attachment(*identity, replaced=True) if identity is not None and identity[1] else None


def _gce_handle(name: str, zones: str) -> str:
    """Return the handle of a disk in its zone, or in the region of several (`us-west1-a__us-west1-b`)."""
    parts = zones.split("__")
    place = f"regions/{parts[0].rpartition('-')[0]}" if len(parts) > 1 else f"zones/{zones or 'UNSPECIFIED'}"
    return f"projects/UNSPECIFIED/{place}/disks/{name}"


def _aws_handle(volume: str) -> str:
    """Return the ID of a volume, which may be in a URL after its zone; empty if the URL is not readable."""
    if not volume.startswith("aws://"):
        return volume
    match = _AWS_URL.fullmatch(volume)
    return match.group(1) if match is not None else ""


# A pod with more delayed claims is not evaluated: each claim is compared with those before it, on all nodes.
# That takes half a second for so many claims on 5,000 nodes, and a tenant could name thousands.
MOST_DELAYED = 64


class Reach(NamedTuple):
    """For each bound volume, the terms of which a node must meet one: by node affinity, by zone label.

    `missing` says that a volume does not exist, so no node has all of them. `delayed` are the claims that are
    bound when the pod gets a node.
    """

    volumes: tuple[Alternatives, ...] = ()
    zones: tuple[Alternatives, ...] = ()
    missing: bool = False
    delayed: tuple[DelayedClaim, ...] = ()


class VolumeNeeds(PodNeed, frozen=True, cache_hash=True):
    """The needs of a pod in volumes, the plugin's part of a shape.

    `refused` says why the pod's claims keep it from every node, empty if they do not. `in_group` says that
    the pod has delayed claims and is a member of a group. No other pod may use the `exclusive_claims` and, on
    the same node, the `disks`. The `attachments` count towards limits of nodes. A node must have those of the
    `required_drivers` whose CSIDriver says so.
    """

    reach: Reach = Reach()
    in_group: bool = False
    exclusive_claims: tuple[UsedClaim, ...] = ()
    disks: tuple[Disk, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    required_drivers: tuple[RequiredDriver, ...] = ()

    @property
    def delayed(self) -> tuple[DelayedClaim, ...]:
        """The claims that are bound when the pod gets a node."""
        return self.reach.delayed

    @property
    def node_constraints(self) -> tuple[object, ...]:
        """The part that decides which nodes suit the pod, apart from other pods."""
        reach = self.reach
        return (
            bool(self.refused),
            self.required_drivers,
            reach.volumes,
            reach.zones,
            reach.missing,
            bool(reach.delayed),
        )

    @property
    def alike(self) -> "VolumeNeeds":
        """The needs without the names of claims and handles of volumes, which differ between copies."""
        claims = tuple(claim._replace(key=("", ""), uid="") for claim in self.delayed)
        reached = self.reach._replace(delayed=claims)
        return msgspec.structs.replace(self, reach=reached, attachments=())

    @property
    def restricts(self) -> bool:
        """Return whether claims restrict the nodes of the pod."""
        reach = self.reach
        return bool(
            self.refused
            or reach.volumes
            or reach.zones
            or reach.missing
            or reach.delayed
            or self.exclusive_claims
        )

    @property
    def weight(self) -> int:
        """The number of parts, an estimate of the memory that they take."""
        used = (self.exclusive_claims, self.disks, self.attachments, self.required_drivers)
        return sum(len(part) for part in (*self.reach, *used) if isinstance(part, tuple))

    @property
    def attaches(self) -> bool:
        """Return whether volumes of the pod count towards limits of nodes."""
        return bool(self.attachments)

    @property
    def used_alone(self) -> tuple[Used, ...]:
        """The disks and claims that the pod would use alone."""
        return (*self.disks, *self.exclusive_claims)


# Returns the needs in a shape.
NeedsOf = Callable[[Shape], VolumeNeeds]


def needs_of(pod: Schedulable, known: Volumes, minor: int, unreadable: dict[str, None]) -> VolumeNeeds:
    """Return what a pod needs of volumes; `unreadable` collects what cannot be evaluated."""
    refused, attachments = claims_refusal(pod, known), attachments_of(pod, known)
    reached = Reach() if refused else reach(pod, known, unreadable)
    return VolumeNeeds(
        refused=refused,
        reach=reached,
        in_group=bool(reached.delayed) and _in_group(pod),
        exclusive_claims=exclusive_claims(pod, known),
        disks=disks_of(pod),
        attachments=attachments,
        required_drivers=required_drivers(attachments, minor),
    )


def _in_group(pod: Schedulable) -> bool:
    return any(membership(pod, native_served=native) is not None for native in (True, False))


def reach(pod: Schedulable, known: Volumes, unreadable: dict[str, None]) -> Reach:
    """Return where a pod's volumes can be reached from; `unreadable` collects what cannot be evaluated.

    The words name the pod's volume and not its claim, so that the copies of a pod are alike. The pod must not
    be refused for its claims (see `claims_refusal`).
    """
    volumes: set[Alternatives] = set()
    zones: set[Alternatives] = set()
    missing = False
    unbound: dict[DelayedClaim, None] = {}
    for mounted in claims_of_pod(pod):
        claim = known.claims.get((pod.metadata.namespace or "", mounted.name))
        if claim is not None and delayed(claim, known):
            # Drivers and capacities that were not read refuse nothing, but volumes may be there.
            if known.lacks(Kind.VOLUME):
                unreadable[f"the claim of volume {mounted.volume}, because no volumes were read"] = None
            unbound[delayed_claim(claim, unreadable)] = None
            if len(unbound) == MOST_DELAYED + 1:
                unreadable[f"more than {MOST_DELAYED} claims that are bound with the pod"] = None
            continue
        if claim is None or not claim.bound or claim.spec is None:
            why = _not_bound(claim)
            unreadable[f"the claim of volume {mounted.volume}, {why}"] = None
            continue
        volume = known.volumes.get(claim.spec.volumeName or "")
        if volume is None and known.lacks(Kind.VOLUME):
            unreadable[f"the persistent volume of volume {mounted.volume}, which was not read"] = None
            continue
        # kube-scheduler checks the volumes in the order of the pod, up to one that does not exist.
        missing |= volume is None
        if volume is not None and not missing:
            terms = node_affinity(volume, unreadable)
            if terms is not None:
                volumes.add(terms)
        # VolumeZone does not look at ephemeral volumes.
        if volume is not None and not mounted.ephemeral:
            zones.update(zone_terms(volume.metadata.labels or {}))
    kept = tuple(unbound) if len(unbound) <= MOST_DELAYED else ()
    return Reach(tuple(sorted(volumes)), tuple(sorted(zones)), missing, kept)


def _not_bound(claim: PersistentVolumeClaim | None) -> str:
    """Return what is unknown about a claim that refuses its pod on no node, and is not bound."""
    if claim is None:
        return "which was not read"
    return "which is not bound, and whose StorageClass was not read"
