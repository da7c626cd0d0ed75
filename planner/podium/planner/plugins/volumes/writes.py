"""The writes that bind claims before their pods: a volume names its claim, or a claim the node of its volume.

Undoing the first is safe while the volume is Available: the volume controller binds it by a write of the same
version, and one of the two is refused. A claim that loses its selected node may still get the volume that a
provisioner is creating, and is bound to that.

Source: bindAPIUpdate of the volume binder of kube-scheduler 1.36 and 1.37, which undoes nothing.

The ledger has the volumes and the space that placed pods count on until the API server has their claims.
A gang's members are placed one after another, and nothing is written before all have a node. So each
placement is assumed here, and later members see it: a volume is taken, a segment has less room, a claim has
its volume or its node. kube-scheduler assumes volumes and nodes of claims too, but it does not sum the space.

The key of an entry is the claim, because members may share one. A shared claim keeps the volume or node of
the first member, and the entry ends with the last member. So a plan can be forgotten in any order, and
afterwards everything is as if it had never been assumed.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from podium.api.reads import Kind
from podium.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from podium.cluster.reader import ClusterReader, Name
from podium.planner.liveplugin import (
    CachedObject,
    ChangedError,
    GoneError,
    MergePatch,
    ObjectKey,
    Patch,
    PreBindWrite,
)
from podium.planner.plugins.volumes.bindables import BindableVolumes
from podium.planner.plugins.volumes.provisioning import Provisioning, Segment

_AVAILABLE = "Available"


@dataclass(frozen=True)
class ClaimWrite(PreBindWrite):
    """A write that binds a claim, by its key and UID."""

    NOUN = "claim"

    claim: Name
    uid: str

    @property
    def awaited(self) -> ObjectKey:
        """The claim."""
        return ObjectKey(Kind.CLAIM, *self.claim)

    def cached(self, view: ClusterReader) -> PersistentVolumeClaim | None:
        """Return the claim of this UID."""
        known = view.claims.get(self.claim)
        return known if known is not None and (known.metadata.uid or "") == self.uid else None

    def is_done(self, known: PersistentVolumeClaim | None) -> bool:
        """Return whether a controller has bound the claim."""
        return known is not None and known.bound

    def steps(self, now: datetime) -> Sequence[MergePatch]:  # noqa: ARG002 - it has no time
        """Return the patch of the volume or claim."""
        return (MergePatch(self._stored, self._written),)

    def undo(self) -> Sequence[MergePatch]:
        """Return the patch that undoes it."""
        return (MergePatch(self._stored, self._undone),)

    @property
    @abstractmethod
    def _stored(self) -> CachedObject: ...

    @abstractmethod
    def _written(self, known: Any, _: bytes) -> Patch: ...

    @abstractmethod
    def _undone(self, known: Any, _: bytes) -> Patch: ...


@dataclass(frozen=True)
class BoundVolume(ClaimWrite):
    """A claimRef to write to a volume.

    If `by_scheduler`, no user named the claim in the volume, and pv.kubernetes.io/bound-by-controller is
    written too.
    """

    volume: str
    by_scheduler: bool

    def is_stored(self, view: ClusterReader) -> bool:
        """Return whether the volume names the claim, and not because a user wrote that."""
        volume = view.volumes.get(self.volume)
        owner = volume.spec.claimRef if volume is not None and volume.spec is not None else None
        known = self.cached(view) is not None
        return known and owner is not None and owner.uid == self.uid and self.by_scheduler

    @property
    def _stored(self) -> CachedObject:
        path = f"/api/v1/persistentvolumes/{quote(self.volume, safe='')}"
        return CachedObject(path, lambda view: view.volumes.get(self.volume))

    def _written(self, volume: PersistentVolume, _: bytes) -> Patch:
        namespace, name = self.claim
        owner = volume.spec.claimRef if volume.spec is not None else None
        if owner is not None and owner.uid == self.uid:
            return None
        reserved = owner is not None and (owner.namespace, owner.name, owner.uid or "") == (*self.claim, "")
        free = owner is None and volume.status is not None and volume.status.phase == _AVAILABLE
        if volume.metadata.deletionTimestamp is not None or not (reserved or free):
            raise ChangedError(f"volume {self.volume} is not available any more")
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": self.uid,
        }
        mark = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}} if self.by_scheduler else {}
        return {"spec": {"claimRef": reference}, **mark}

    def _undone(self, volume: PersistentVolume, _: bytes) -> Patch:
        owner = volume.spec.claimRef if volume.spec is not None else None
        available = volume.status is not None and volume.status.phase == _AVAILABLE
        if not self.by_scheduler or not available or owner is None or owner.uid != self.uid:
            return None
        return {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}


@dataclass(frozen=True)
class ProvisionedVolume(ClaimWrite):
    """A selected-node annotation to write to a claim; its bytes are taken from the segment, if any."""

    node: str
    segment: Segment | None
    size: int

    @property
    def avoided(self) -> str:
        """The selected node."""
        return self.node

    @property
    def gave_up(self) -> str:
        """The text for the status of the pod once the provisioner gave up."""
        return f"no volume was provisioned for claim {self.claim[1]} on node {self.node}"

    def is_stored(self, view: ClusterReader) -> bool:
        """Return whether the claim names the node."""
        known = self.cached(view)
        return known is not None and known.selected_node == self.node

    @property
    def _stored(self) -> CachedObject:
        namespace, name = (quote(segment, safe="") for segment in self.claim)
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        return CachedObject(path, lambda view: view.claims.get(self.claim))

    def _written(self, claim: PersistentVolumeClaim, _: bytes) -> Patch:
        if claim.metadata.uid != self.uid or claim.metadata.deletionTimestamp is not None:
            raise GoneError(f"claim {'/'.join(self.claim)} (UID {self.uid}) is gone or terminating")
        if claim.bound or claim.selected_node == self.node:
            return None
        if claim.selected_node is not None:
            raise ChangedError(f"claim {'/'.join(self.claim)} is provisioned for node {claim.selected_node}")
        return {"metadata": {"annotations": {SELECTED_NODE: self.node}}}

    def _undone(self, claim: PersistentVolumeClaim, _: bytes) -> Patch:
        if claim.metadata.uid != self.uid or claim.bound or claim.selected_node != self.node:
            return None
        return {"metadata": {"annotations": {SELECTED_NODE: None}}}


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
