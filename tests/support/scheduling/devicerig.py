"""A cluster in memory with claims for devices: the API server takes writes when a test lets it.

`write` carries out the held writes of the scheduler, all or some of them, as the live writes do: the devices
and the consumers of a claim in one write, refused if another scheduler was first. `control` acts as
kube-controller-manager: it releases the claims whose consumers are gone.
"""

from collections import Counter
from typing import Any

import msgspec
from tests.support.devices.scene import held_by, uid_of
from tests.support.filters.builders import device_plugin
from tests.support.preemption.clusters import NS
from tests.support.scheduling.rig import ClaimWorld

from podium.api.claims import ExtendedResourceRequest, ExtendedResourceStatus
from podium.api.devices import ResourceClaim, ResourceClaimStatus
from podium.api.schedulable import Schedulable
from podium.planner.liveplugin import ChangedError, GoneError
from podium.planner.plugins.devices.claims import ExtendedClaim, memory_key, owner_of
from podium.planner.plugins.devices.writes import ClaimReservation, StaleDeletion
from podium.schedulerplugin.scheduling.effects import PreBind, UndoPreBind


class DeviceWorld(ClaimWorld):
    """A World whose claims get devices step by step."""

    _created = 0

    def control(self) -> None:
        """Release the claims whose consumers are gone."""
        uids = {pod.metadata.uid for pod in self.state.pods.values()}
        uids |= {group.metadata.uid for group in self.state.groups.values()}
        for claim in list(self.state.resource_claims.values()):
            status = claim.status
            if status is not None and status.reservedFor:
                left = [consumer for consumer in status.reservedFor if consumer.uid in uids]
                if len(left) < len(status.reservedFor):
                    devices = status.allocation if left else None
                    self._store(claim, {"allocation": devices, "reservedFor": left or None})
        self.run()

    def claim(self, name: str) -> ResourceClaim:
        """Return a claim as it is stored."""
        return self.state.resource_claims[NS, name]

    def held_devices(self) -> dict[str, list[str]]:
        """Return the devices of each allocated claim, as node/device."""
        claims = self.state.resource_claims.items()
        devices = {
            name: held_by(claim.status.allocation) for (_, name), claim in claims if claim.status is not None
        }
        return {name: held for name, held in devices.items() if held}

    def users(self, name: str) -> list[str]:
        """Return the consumers of a claim."""
        status = self.claim(name).status
        return [consumer.name for consumer in (status.reservedFor if status is not None else None) or ()]

    def assumed(self) -> list[str]:
        """Return the claims that the scheduler counts on without the server.

        A claim in memory has the name of its pod.
        """
        devices, pods = device_plugin(self.scheduler.engine.snapshot).known, self.state.pods
        known = [name for namespace, name in devices.claims if devices.assumed((namespace, name)) is not None]
        made = [name for _, name in pods if devices.assumed(memory_key(NS, name, uid_of(name))) is not None]
        return [*known, *made]

    def check(self) -> None:
        """Compare all claims: no two have one device, and each pod that runs uses its claims."""
        devices = Counter(device for held in self.held_devices().values() for device in held)
        assert all(times == 1 for times in devices.values()), devices
        index = device_plugin(self.scheduler.engine.snapshot).known
        for name in self.bound():
            row = self.scheduler.engine.snapshot.pod_row[NS, name]
            if index.uses(row):
                assert index.reservations(row, ()) == [], f"{name} runs without its devices"
                self._check_extended(name)

    def _check_extended(self, name: str) -> None:
        """Compare the claim for the extended resources of a running pod with its status."""
        snapshot = self.scheduler.engine.snapshot
        pod = snapshot.pod_at(snapshot.pod_row[NS, name])
        made = [
            claim for claim in self.state.resource_claims.values() if owner_of(claim) == (name, uid_of(name))
        ]
        status = pod.status.extendedResourceClaimStatus if pod.status is not None else None
        named = [] if status is None else [status.resourceClaimName]
        assert [claim.metadata.name for claim in made] == named, f"{name} has other claims than it names"
        assert all(self.users(claim) == [name] for claim in named), f"{name} runs without its devices"

    def at_rest(self) -> bool:
        """Return whether no decision is in flight, and the scheduler counts on no claim."""
        return not (len(self.scheduler.holds.prebinds) or self.assumed())

    def _carry_out(self, effect: PreBind | UndoPreBind, most: int | None, why: str) -> None:
        for plan in effect.writes[:most]:
            assert isinstance(plan, ClaimReservation | StaleDeletion), "these claims are for devices"
            try:
                self._write(plan, withdraw=isinstance(effect, UndoPreBind))
            except (ChangedError, GoneError) as error:
                why = why or str(error)
        self._answer(effect, why)

    def _write(self, plan: ClaimReservation | StaleDeletion, *, withdraw: bool) -> None:
        claim = self.state.resource_claims.get(plan.claim)
        if isinstance(plan, StaleDeletion) or (withdraw and plan.created is not None):
            if claim is not None and plan.concerns(claim):
                self.state.remove(claim)
            return
        if plan.created is not None:
            self._create(plan, plan.created, claim)
            self.allocate_extended(plan)
            self.name_extended(plan, plan.created)
            return
        if claim is None:
            return
        now = self.moment.now
        patch = plan._deallocate(claim, b"") if withdraw else plan._allocate(now, claim, b"{}")
        if patch is not None:
            self._store(claim, patch["status"])

    def _create(self, plan: ClaimReservation, made: ExtendedClaim, known: ResourceClaim | None) -> None:
        """Create a claim for extended resources, as the first of three writes."""
        if known is not None:
            if plan._is_usable(made, known):
                return
            self.state.remove(known)
        self._created += 1
        metadata = msgspec.structs.replace(made.claim.metadata, uid=f"created-{self._created}")
        self.apply(msgspec.structs.replace(made.claim, metadata=metadata))

    def allocate_extended(self, plan: ClaimReservation) -> None:
        """Give a created claim its devices and its consumer."""
        claim = self.state.resource_claims[plan.claim]
        patch = plan._allocate(self.moment.now, claim, b"{}")
        if patch is not None:
            self._store(claim, patch["status"])

    def name_extended(self, plan: ClaimReservation, made: ExtendedClaim) -> None:
        """Name a created claim in the status of its pod."""
        pod = self.state.pods.get((plan.claim[0], plan.consumers[0].name))
        if not isinstance(pod, Schedulable) or pod.status is None:
            raise GoneError("the pod is gone")
        mappings = [ExtendedResourceRequest(*mapping) for mapping in made.mappings]
        named = ExtendedResourceStatus(mappings, plan.claim[1])
        status = msgspec.structs.replace(pod.status, extendedResourceClaimStatus=named)
        self.apply(msgspec.structs.replace(pod, status=status))

    def _store(self, claim: ResourceClaim, patch: dict[str, Any]) -> None:
        before = msgspec.to_builtins(claim.status) if claim.status is not None else {}
        status = msgspec.convert(msgspec.to_builtins(before | patch), ResourceClaimStatus)
        self.apply(msgspec.structs.replace(claim, status=status))


def world(*objects: Any, **settings: Any) -> DeviceWorld:
    """Return a scheduler whose writes to claims are held."""
    made = DeviceWorld(**settings)
    made.hold_writes = True
    made.run(*objects)
    return made


def end(made: DeviceWorld, *, check: bool = True) -> None:
    """Let all writes succeed from now on; then the world comes to rest, and pods run with their devices."""
    made.hold_writes = made.hold_releases = made.hold_binds = False
    made.failing = ""
    for _ in range(4):
        made.write()
        made.release()
        made.control()
        made.later(120)
    if check:
        made.check()
    assert made.at_rest()
