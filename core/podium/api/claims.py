"""Reads of pods with their claims, for commands that check claims but place no pod.

Claims are for volumes, or for devices (resource claims). Decoding these fields costs little beside the rest
of a pod. Of claims, volumes and devices there is one read, which scheduling uses too.
"""

from typing import NamedTuple

import msgspec

from podium.api.core import EntryStatus, Pod, PodSpec, PodStatus, ResourceClaimEntry
from podium.api.devices import (
    DEVICE_API,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from podium.api.reads import FOREIGN_READS, READS, Kind, Read, Reads, same
from podium.api.storage import PersistentVolume, PersistentVolumeClaim


class ClaimSource(msgspec.Struct, gc=False):
    """A volume that is a claim in the pod's namespace."""

    claimName: str | None = None


class Present(msgspec.Struct, gc=False):
    """A field of which only the presence matters."""


class ClaimVolume(msgspec.Struct, gc=False):
    """A volume of a pod, with its claim if it is one."""

    name: str | None = None
    persistentVolumeClaim: ClaimSource | None = None
    ephemeral: Present | None = None


class ClaimingSpec(PodSpec, gc=False):
    """spec of a pod, with its volumes and its resource claims."""

    volumes: list[ClaimVolume] | None = None
    resourceClaims: list[ResourceClaimEntry] | None = None


class ExtendedResourceRequest(msgspec.Struct, gc=False):
    """The request of a claim that gives a container an extended resource."""

    containerName: str = ""
    resourceName: str = ""
    requestName: str = ""


class ExtendedResourceStatus(msgspec.Struct, gc=False):
    """The claim that a scheduler created for the extended resources of a pod."""

    requestMappings: list[ExtendedResourceRequest] | None = None
    resourceClaimName: str = ""


class ClaimingStatus(PodStatus, gc=False):
    """status of a pod, with the claims that were created for it."""

    resourceClaimStatuses: list[EntryStatus] | None = None
    extendedResourceClaimStatus: ExtendedResourceStatus | None = None


class ClaimingPod(Pod):
    """A pod as a member of a group, with its claims."""

    spec: ClaimingSpec = msgspec.field(default_factory=ClaimingSpec)
    status: ClaimingStatus | None = None


class PodClaim(NamedTuple):
    """A volume of a pod that is a claim, by the names of both; an ephemeral one must belong to the pod."""

    volume: str
    name: str
    ephemeral: bool


def claims_of_pod(pod: Pod) -> list[PodClaim]:
    """Return the claims of a pod in the order of its volumes; none if its read has no volumes."""
    claims: list[PodClaim] = []
    for volume in (pod.spec.volumes if isinstance(pod.spec, ClaimingSpec) else None) or ():
        if volume.persistentVolumeClaim is not None:
            claims.append(
                PodClaim(volume.name or "", volume.persistentVolumeClaim.claimName or "", ephemeral=False)
            )
        elif volume.ephemeral is not None:
            claims.append(PodClaim(volume.name or "", f"{pod.metadata.name}-{volume.name}", ephemeral=True))
    return claims


def claim_names(pod: Pod) -> list[tuple[str, str]]:
    """Return the claims of a pod by (namespace, name), in the order of its volumes."""
    return [(pod.metadata.namespace or "", claim.name) for claim in claims_of_pod(pod)]


CLAIM_READS: Reads = {
    ("v1", "PersistentVolumeClaim"): Read(Kind.CLAIM, PersistentVolumeClaim, "persistentvolumeclaims", same),
    ("v1", "PersistentVolume"): Read(Kind.VOLUME, PersistentVolume, "persistentvolumes", same),
}
DEVICE_READS: Reads = {
    (DEVICE_API, "ResourceClaim"): Read(Kind.RESOURCE_CLAIM, ResourceClaim, "resourceclaims", same),
    (DEVICE_API, "ResourceClaimTemplate"): Read(
        Kind.CLAIM_TEMPLATE, ResourceClaimTemplate, "resourceclaimtemplates", same
    ),
    (DEVICE_API, "DeviceClass"): Read(Kind.DEVICE_CLASS, DeviceClass, "deviceclasses", same),
    (DEVICE_API, "ResourceSlice"): Read(Kind.RESOURCE_SLICE, ResourceSlice, "resourceslices", same),
}
# The reads of an audit: a gang's claims decide where it can run.
AUDIT_READS: Reads = {
    **READS,
    **FOREIGN_READS,
    ("v1", "Pod"): Read(Kind.POD, ClaimingPod, "pods", same),
    **CLAIM_READS,
    **DEVICE_READS,
}
