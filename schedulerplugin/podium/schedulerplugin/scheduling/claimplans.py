"""The writes to claims that precede the binds of a decision, for volumes and for devices alike.

A claim for a volume is done when a controller has bound it. A claim for devices is done when the API server
has its allocation and its consumers, and the conditions that its devices name are true. The step machine of
`claimbinds` asks the same of both: is it done, what keeps it from being done, and is a withdrawn write still
to be seen.
"""

from collections.abc import Iterable
from typing import NamedTuple

from podium.api.devices import ResourceClaim
from podium.api.reads import Kind
from podium.api.storage import PersistentVolumeClaim
from podium.schedulerplugin.devices.index import AssumedClaim, ReservedClaim
from podium.schedulerplugin.devices.prepared import is_prepared
from podium.schedulerplugin.snapshot import Snapshot
from podium.schedulerplugin.volumes.ledger import BoundVolume, ProvisionedVolume, VolumePlan

ClaimPlan = BoundVolume | ProvisionedVolume | ReservedClaim


class ClaimKey(NamedTuple):
    """A claim for a volume or for devices, by namespace and name."""

    kind: Kind
    namespace: str
    name: str


class PodClaimsPlan(NamedTuple):
    """The writes to the claims of the pods of a decision; a claim of several pods is there once."""

    volumes: VolumePlan
    devices: tuple[ReservedClaim, ...]

    @property
    def claims(self) -> tuple[ClaimPlan, ...]:
        """The writes to the single claims."""
        return (*self.volumes.claims, *self.devices)

    @property
    def assumed(self) -> tuple[AssumedClaim, ...]:
        """The allocations that the API server does not have yet."""
        return tuple(
            AssumedClaim(each.claim, each.uid, each.allocation)
            for each in self.devices
            if each.allocation is not None
        )


def plan_of(volumes: Iterable[VolumePlan], devices: Iterable[ReservedClaim]) -> PodClaimsPlan:
    """Return the plan for pods with these plans of their own."""
    single = {each.claim: each for plan in volumes for each in plan.claims}.values()
    bound = tuple(each for each in single if isinstance(each, BoundVolume))
    provisioned = tuple(each for each in single if isinstance(each, ProvisionedVolume))
    merged: dict[ClaimKey, ReservedClaim] = {}
    for each in devices:
        before = merged.get(key_of(each))
        consumers = dict.fromkeys((*(before.consumers if before is not None else ()), *each.consumers))
        merged[key_of(each)] = each._replace(consumers=tuple(consumers))
    return PodClaimsPlan(VolumePlan(bound, provisioned), tuple(merged.values()))


def key_of(plan: ClaimPlan) -> ClaimKey:
    """Return the claim of a write."""
    kind = Kind.RESOURCE_CLAIM if isinstance(plan, ReservedClaim) else Kind.CLAIM
    return ClaimKey(kind, *plan.claim)


def claim_of(snapshot: Snapshot, plan: ClaimPlan) -> PersistentVolumeClaim | ResourceClaim | None:
    """Return the claim of a write as it is known, None if it is gone or another claim has its name."""
    known: PersistentVolumeClaim | ResourceClaim | None
    if isinstance(plan, ReservedClaim):
        known = snapshot.devices.claims.get(plan.claim)
    else:
        known = snapshot.volumes.claims.get(plan.claim)
    return known if known is not None and (known.metadata.uid or "") == plan.uid else None


def is_done(claim: PersistentVolumeClaim | ResourceClaim, plan: ClaimPlan) -> bool:
    """Return whether nothing has to be awaited for a claim any more."""
    if isinstance(claim, PersistentVolumeClaim):
        return claim.bound
    return isinstance(plan, ReservedClaim) and plan.is_written(claim) and is_prepared(claim)


def is_seen(snapshot: Snapshot, plan: ClaimPlan) -> bool:
    """Return whether a write that is to be withdrawn is still known; its claim exists."""
    match plan:
        case ReservedClaim():
            return plan.is_reserved(snapshot.devices.claims[plan.claim])
        case ProvisionedVolume():
            return snapshot.volumes.claims[plan.claim].selected_node == plan.node
        case BoundVolume():
            volume = snapshot.volumes.volumes.get(plan.volume)
            owner = volume.spec.claimRef if volume is not None and volume.spec is not None else None
            # A user's reservation stays.
            return owner is not None and owner.uid == plan.uid and plan.by_scheduler
