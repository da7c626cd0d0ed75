"""A cluster in memory with claims: the API server takes writes, and controllers bind claims when told to.

`write` carries out the held writes of the scheduler, all or some of them. `control` acts as the volume
controller and as a provisioner. Both leave a cluster as the real ones do, so a new leader can take over in
the middle of each step.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from tests.support.preemption.clusters import NS
from tests.support.scheduling.rig import ClaimWorld
from tests.support.volumes.manifests import HOST, decoded, volume

from podium.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.plugins.volumes.writes import BoundVolume, ClaimPlan, ProvisionedVolume
from podium.schedulerplugin.scheduling.effects import PreBind, ReportPending, UndoPreBind

replace = msgspec.structs.replace


class StorageWorld(ClaimWorld):
    """A World whose claims are bound step by step."""

    def __init__(self, *objects: Any, **settings: Any) -> None:
        # The labels of the nodes that reach a provisioned volume, from the name of the selected node.
        self.reach: Callable[[str], list[dict[str, list[str]]] | None] = lambda node: [{HOST: [node]}]
        super().__init__(*objects, **settings)

    def control(self, *, provision: bool = True) -> None:
        """Bind the claims whose volumes name them, and provision for the selected nodes if told to."""
        for found in list(self.state.volumes.values()):
            owner = found.spec.claimRef if found.spec is not None else None
            if owner is None:
                continue
            claim = self.state.claims.get((owner.namespace or "", owner.name or ""))
            if claim is not None and not claim.bound and owner.uid in ("", claim.metadata.uid):
                self.bind_claim(claim, found)
        for claim in list(self.state.claims.values()):
            if provision and claim.selected_node is not None and not claim.bound:
                self.provision(claim, claim.selected_node)
        self.run()

    def provision(self, claim: PersistentVolumeClaim, node: str) -> None:
        """Create a volume for a claim, and bind them."""
        assert claim.spec is not None
        name = f"pvc-{claim.metadata.uid}"
        assert name not in self.state.volumes, "one volume is enough"
        modes: dict[str, Any] = {"accessModes": claim.spec.accessModes}
        self.apply(decoded(volume(name, "10Gi", claim.storage_class, on=self.reach(node), **modes)))
        self.bind_claim(claim, self.state.volumes[name])

    def bind_claim(self, claim: PersistentVolumeClaim, found: PersistentVolume) -> None:
        """Bind a claim to a volume, as the volume controller does."""
        assert claim.spec is not None
        assert found.spec is not None
        assert found.status is not None
        metadata = claim.metadata
        owner = ClaimReference(metadata.namespace, metadata.name, metadata.uid)
        named = replace(found.spec, claimRef=owner)
        self.apply(replace(found, spec=named, status=replace(found.status, phase="Bound")))
        annotations = {**(metadata.annotations or {}), BIND_COMPLETED: "yes"}
        spec = replace(claim.spec, volumeName=found.metadata.name)
        self.apply(replace(claim, metadata=replace(metadata, annotations=annotations), spec=spec))

    def give_up(self, name: str) -> None:
        """Remove the selected node of a claim, as a provisioner does that cannot provision there."""
        self._annotate(self.state.claims[NS, name], None)
        self.run()

    def claim(self, name: str) -> tuple[str, str]:
        """Return the volume of a claim and its selected node; empty for none."""
        claim = self.state.claims[NS, name]
        return (claim.spec.volumeName if claim.spec is not None else None) or "", claim.selected_node or ""

    def reserved(self) -> dict[str, str]:
        """Return the volumes that name a claim, with the claim's name."""
        volumes = self.state.volumes.items()
        owners = {name: each.spec.claimRef for name, each in volumes if each.spec is not None}
        return {name: owner.name or "" for name, owner in owners.items() if owner is not None}

    def reported(self, name: str, start: str) -> bool:
        """Return whether a message with this start was reported to a waiting pod."""
        reports = [effect for effect in self.effects if isinstance(effect, ReportPending)]
        mine = [report.message for report in reports if name in {pod.name for pod in report.pods}]
        return any(message.startswith(start) for message in mine)

    def assumed(self) -> list[str]:
        """Return the claims that the scheduler counts on without the server."""
        ledger = self.scheduler.engine.snapshot.plugin(VolumesPlugin).delayed.ledger
        return [name for namespace, name in self.state.claims if ledger.plan((namespace, name)) is not None]

    def _carry_out(self, effect: PreBind | UndoPreBind, most: int | None, why: str) -> None:
        for plan in effect.writes[:most]:
            assert isinstance(plan, ClaimPlan), "these claims are for volumes"
            self._write(plan) if isinstance(effect, PreBind) else self._withdraw(plan)
        self._answer(effect, why)

    def _write(self, plan: ClaimPlan) -> None:
        claim = self.state.claims.get(plan.claim)
        if claim is None:
            return
        match plan:
            case BoundVolume():
                found = self.state.volumes[plan.volume]
                assert found.spec is not None
                owner = found.spec.claimRef
                assert owner is None or owner.uid in ("", plan.uid), "no volume is taken from its claim"
                reference = ClaimReference(*plan.claim, plan.uid)
                self.apply(replace(found, spec=replace(found.spec, claimRef=reference)))
            case ProvisionedVolume():
                assert claim.selected_node in (None, plan.node)
                self._annotate(claim, plan.node)

    def _withdraw(self, plan: ClaimPlan) -> None:
        claim = self.state.claims.get(plan.claim)
        if claim is None or claim.bound:
            return
        match plan:
            case BoundVolume():
                found = self.state.volumes[plan.volume]
                assert found.spec is not None
                self.apply(replace(found, spec=replace(found.spec, claimRef=None)))
            case ProvisionedVolume() if claim.selected_node == plan.node:
                self._annotate(claim, None)
            case ProvisionedVolume():
                pass

    def _annotate(self, claim: PersistentVolumeClaim, node: str | None) -> None:
        annotations = dict(claim.metadata.annotations or {})
        annotations.pop(SELECTED_NODE, None)
        if node is not None:
            annotations[SELECTED_NODE] = node
        self.apply(replace(claim, metadata=replace(claim.metadata, annotations=annotations)))
