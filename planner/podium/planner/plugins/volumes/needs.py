"""The needs of a pod in volumes: the nodes that reach them, claims that get one with a node, and limits.

A bound volume can be reached from some nodes only, by its node affinity or by its zone labels. On which nodes
a delayed claim can get one depends on other claims too, so `delayed` decides that whenever it is asked.

Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from podium.api.claims import claims_of_pod
from podium.api.membership import membership
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.api.storage import PersistentVolumeClaim
from podium.api.volumereach import Alternatives, node_affinity, zone_terms
from podium.planner.plugins.volumes.attachments import (
    Attachment,
    RequiredDriver,
    attachments_of,
    required_drivers,
)
from podium.planner.plugins.volumes.bindables import DelayedClaim, delayed_claim
from podium.planner.plugins.volumes.claims import claims_refusal, delayed
from podium.planner.plugins.volumes.exclusive import (
    Disk,
    Used,
    UsedClaim,
    disks_of,
    exclusive_claims,
    same_disk,
)
from podium.planner.plugins.volumes.index import Volumes
from podium.planner.shapes import PodNeed, Shape

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

    def excludes(self, other: PodNeed, *, on_node: bool) -> bool:
        """Return whether two pods cannot have their claims anywhere, or their disks on one node."""
        if not isinstance(other, VolumeNeeds):
            return False
        shared = not set(self.exclusive_claims).isdisjoint(other.exclusive_claims)
        return shared or (
            on_node and any(same_disk(disk, held) for disk in self.disks for held in other.disks)
        )


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
