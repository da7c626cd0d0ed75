"""The volumes and the space that placed pods count on until the API server has their claims.

A gang's members are placed one after another, and nothing is written before all have a node. So each
placement is assumed here, and later members see it: a volume is taken, a segment has less room, a claim has
its volume or its node. kube-scheduler assumes volumes and nodes of claims too, but it does not sum the space.

The key of an entry is the claim, because members may share one. A shared claim keeps the volume or node of
the first member, and the entry ends with the last member. So a plan can be forgotten in any order, and
afterwards everything is as if it had never been assumed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from podium.cluster.reader import Name
from podium.planner.plugins.volumes.matching import BindableVolumes
from podium.planner.plugins.volumes.provisioning import Provisioning, Segment
from podium.planner.plugins.volumes.writes import BoundVolume, ProvisionedVolume

ClaimPlan = BoundVolume | ProvisionedVolume


class VolumePlan(NamedTuple):
    """The writes that bind a pod's claims for its node; a claim of several pods is in the plan of each."""

    bound: tuple[BoundVolume, ...] = ()
    provisioned: tuple[ProvisionedVolume, ...] = ()

    @property
    def claims(self) -> Sequence[ClaimPlan]:
        """The writes to the single claims."""
        return (*self.bound, *self.provisioned)


class ClaimLedger:
    """The plans that are assumed, by claim, with the number of pods that count on each."""

    def __init__(self, volumes: BindableVolumes, provisioning: Provisioning) -> None:
        self._volumes = volumes
        self._provisioning = provisioning
        self._plans: dict[Name, ClaimPlan] = {}
        self._claims: dict[str, Name] = {}
        self._pods: dict[Name, int] = {}
        # The number of changes.
        self.revision = 0

    def plan(self, claim: Name) -> ClaimPlan | None:
        """Return the assumed volume or node of a claim."""
        return self._plans.get(claim)

    def assume(self, plan: Sequence[ClaimPlan]) -> None:
        """Count a pod's plan. Raises ValueError, and counts nothing, if it contradicts an assumed one."""
        for claim in plan:
            if self._plans.get(claim.claim, claim) != claim:
                raise ValueError(f"claim {'/'.join(claim.claim)} is assumed with another volume or node")
            if isinstance(claim, BoundVolume) and self._claims.get(claim.volume, claim.claim) != claim.claim:
                raise ValueError(f"volume {claim.volume} is assumed for another claim")
        self.revision += 1
        for claim in plan:
            pods = self._pods[claim.claim] = self._pods.get(claim.claim, 0) + 1
            if pods == 1:
                self._plans[claim.claim] = claim
                self._tally(claim, 1)

    def forget(self, plan: Iterable[ClaimPlan]) -> None:
        """Count a pod's assumed plan no longer."""
        self.revision += 1
        for claim in plan:
            self._pods[claim.claim] -= 1
            if not self._pods[claim.claim]:
                del self._pods[claim.claim], self._plans[claim.claim]
                self._tally(claim, -1)

    def _tally(self, plan: ClaimPlan, sign: int) -> None:
        match plan:
            case BoundVolume() if sign > 0:
                self._claims[plan.volume] = plan.claim
                self._volumes.assume(plan.volume)
            case BoundVolume():
                del self._claims[plan.volume]
                self._volumes.unassume(plan.volume)
            case ProvisionedVolume(segment=Segment() as segment):
                self._provisioning.promise(segment, sign * plan.size)
            case ProvisionedVolume():
                pass
