"""The writes to claims that precede the binds of a decision, for volumes and for devices alike.

A claim for a volume is done when a controller has bound it. A claim for devices is done when the API server
has its allocation and its consumers, and the conditions that its devices name are true. A claim that an
earlier attempt left for extended resources is done when it is gone. The step machine of
`claimbinds` asks the same of both: is it done, what keeps it from being done, and is a withdrawn write still
to be seen.
"""

from collections.abc import Iterable
from typing import NamedTuple

from podium.api.devices import ResourceClaim
from podium.api.reads import Kind
from podium.api.storage import PersistentVolumeClaim
from podium.planner.plugins.devices.claims import AssumedClaim, ReservedClaim, StaleClaim, is_prepared
from podium.planner.plugins.devices.plugin import DevicesPlugin
from podium.planner.plugins.volumes.ledger import BoundVolume, ProvisionedVolume, VolumePlan
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.snapshot import Snapshot

ClaimPlan = BoundVolume | ProvisionedVolume | ReservedClaim | StaleClaim
# Claims with devices that no node can use for their pods.
Stranded = tuple[ReservedClaim | StaleClaim, ...]


class ClaimKey(NamedTuple):
    """A claim for a volume or for devices, by namespace and name."""

    kind: Kind
    namespace: str
    name: str


class PodClaimsPlan(NamedTuple):
    """The writes to the claims of the pods of a decision; a claim of several pods is there once."""

    volumes: VolumePlan
    devices: tuple[ReservedClaim, ...]
    stale: tuple[StaleClaim, ...] = ()

    @property
    def claims(self) -> tuple[ClaimPlan, ...]:
        """The writes to the single claims."""
        return (*self.volumes.claims, *self.devices, *self.stale)

    @property
    def assumed(self) -> tuple[AssumedClaim, ...]:
        """The allocations that the API server does not have yet."""
        return tuple(claim for plan in self.devices if (claim := plan.assumed) is not None)


def plan_of(volumes: Iterable[VolumePlan], devices: Iterable[ReservedClaim | StaleClaim]) -> PodClaimsPlan:
    """Return the plan for pods with these plans of their own."""
    single = {volume.claim: volume for plan in volumes for volume in plan.claims}.values()
    bound = tuple(volume for volume in single if isinstance(volume, BoundVolume))
    provisioned = tuple(volume for volume in single if isinstance(volume, ProvisionedVolume))
    merged: dict[ClaimKey, ReservedClaim] = {}
    stale = list[StaleClaim]()
    for claim in devices:
        if isinstance(claim, StaleClaim):
            stale.append(claim)
            continue
        before = merged.get(key_of(claim))
        consumers = dict.fromkeys((*(before.consumers if before is not None else ()), *claim.consumers))
        merged[key_of(claim)] = claim._replace(consumers=tuple(consumers))
    return PodClaimsPlan(VolumePlan(bound, provisioned), tuple(merged.values()), tuple(stale))


def key_of(plan: ClaimPlan) -> ClaimKey:
    """Return the claim of a write."""
    kind = Kind.RESOURCE_CLAIM if isinstance(plan, ReservedClaim | StaleClaim) else Kind.CLAIM
    return ClaimKey(kind, *plan.claim)


def claim_of(snapshot: Snapshot, plan: ClaimPlan) -> PersistentVolumeClaim | ResourceClaim | None:
    """Return the claim of a write as it is known, None if it is gone or another claim has its name."""
    if isinstance(plan, ReservedClaim | StaleClaim):
        claim = snapshot.plugin(DevicesPlugin).known.claims.get(plan.claim)
        return claim if claim is not None and plan.concerns(claim) else None
    known = snapshot.plugin(VolumesPlugin).known.claims.get(plan.claim)
    return known if known is not None and (known.metadata.uid or "") == plan.uid else None


def may_lack_claim(plan: ClaimPlan) -> bool:
    """Return whether a decision needs no claim of this name yet, or none any more."""
    return isinstance(plan, StaleClaim) or (isinstance(plan, ReservedClaim) and plan.created is not None)


def is_done(claim: PersistentVolumeClaim | ResourceClaim | None, plan: ClaimPlan) -> bool:
    """Return whether nothing has to be awaited for a claim any more; None for no claim."""
    if isinstance(plan, StaleClaim):
        # A finalizer of a stranger may keep it.
        return claim is None or claim.metadata.deletionTimestamp is not None
    if isinstance(claim, PersistentVolumeClaim):
        return claim.bound
    if not isinstance(plan, ReservedClaim) or claim is None:
        return False
    return plan.is_written(claim) and is_prepared(claim)


def is_seen(snapshot: Snapshot, plan: ClaimPlan) -> bool:
    """Return whether a write that is to be withdrawn is still known."""
    claim = claim_of(snapshot, plan)
    if claim is None:
        return False
    match plan:
        case ReservedClaim():
            assert isinstance(claim, ResourceClaim), "it is a claim for devices"
            return plan.created is not None or plan.is_reserved(claim)
        case StaleClaim():
            return True
        case ProvisionedVolume():
            return snapshot.plugin(VolumesPlugin).known.claims[plan.claim].selected_node == plan.node
        case BoundVolume():
            volume = snapshot.plugin(VolumesPlugin).known.volumes.get(plan.volume)
            owner = volume.spec.claimRef if volume is not None and volume.spec is not None else None
            # A user's reservation stays.
            return owner is not None and owner.uid == plan.uid and plan.by_scheduler
