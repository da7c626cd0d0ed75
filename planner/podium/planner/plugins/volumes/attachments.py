"""The volumes that a CSI driver attaches to the node of a pod.

A node can attach so many volumes of a driver. A volume counts once for all pods of a node, by its driver and
the driver's handle. A claim without a volume counts as a volume of its own, by the provisioner of its class.
An old disk counts for the driver that replaced it, under the handle that csi-translation-lib gives it, on
nodes with a CSINode.

Source: NodeVolumeLimits of kube-scheduler 1.36 and 1.37, k8s.io/csi-translation-lib.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from podium.api.claims import claims_of_pod
from podium.api.schedulable import Schedulable, Volume
from podium.api.storage import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from podium.planner.plugins.volumes.index import Volumes

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
