"""The patches for a volume or a claim as it is known: needed, not needed, or refused."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.devices import scene
from tests.support.filters.builders import device_plugin
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import engine_of
from tests.support.volumes import manifests
from tests.support.volumes.manifests import decoded

from podium.api.devices import CLAIM_FINALIZER, MAX_CONSUMERS, Allocation, ClaimConsumer, ResourceClaim
from podium.api.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.liveplugin import ChangedError, GoneError
from podium.planner.plugins.devices.transforms import transform_devices
from podium.planner.plugins.devices.writes import ClaimReservation
from podium.planner.plugins.volumes.writes import BoundVolume, ClaimPlan, ProvisionedVolume
from podium.runtime.host import utc_now
from podium.schedulerplugin.live.prebindwriter import PreBindWriter
from podium.schedulerplugin.live.writes import StoredMetadata, StoredObject

CLAIM = (NS, "c")
BOUND = BoundVolume(CLAIM, "c", "v", by_scheduler=True)
RESERVED = BoundVolume(CLAIM, "c", "v", by_scheduler=False)
SELECTED = ProvisionedVolume(CLAIM, "c", "n1", None, 0)
VERSION = {"uid": "u", "resourceVersion": "7"}
OWNER = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NS, "name": "c", "uid": "c"}


class RecordedWrites:
    """Writes that record patches by path."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        # The spec of the stored object.
        self.spec: dict[str, Any] = {}

    async def perform(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        """Make a write once."""
        assert what == "claim"
        await attempt()

    async def merge(self, path: str, document: Any) -> StoredObject:
        """Record a patch; each makes a version of its own."""
        self.sent.append((path, document))
        version = StoredMetadata(resourceVersion=f"written-{len(self.sent)}")
        return StoredObject(version, msgspec.Raw(msgspec.json.encode(self.spec)))


class Case(NamedTuple):
    """A volume or claim as it is known, the plan, and the patch without its version; or the error."""

    known: dict[str, Any] | None
    plan: ClaimPlan
    patch: dict[str, Any] | None = None
    error: type[PodiumError] | None = None
    withdraws: bool = False


def volume(**fields: Any) -> dict[str, Any]:
    """Return a volume with an identity."""
    made = manifests.volume("v", "1Gi", **fields)
    made["metadata"] |= VERSION
    return made


def claim(uid: str = "c", *, bound: bool = False, leaving: bool = False, **fields: Any) -> dict[str, Any]:
    """Return a claim with an identity."""
    made = manifests.claim("c", "1Gi", **fields)
    made["metadata"] |= {"uid": uid, "resourceVersion": "7"}
    if bound:
        made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), BIND_COMPLETED: "yes"}
        made["spec"]["volumeName"] = "v"
    if leaving:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


RESERVE = {"spec": {"claimRef": OWNER}}
RESERVE_MARKED = {**RESERVE, "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}}
FREE = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
SELECT = {"metadata": {"annotations": {SELECTED_NODE: "n1"}}}
UNSELECT = {"metadata": {"annotations": {SELECTED_NODE: None}}}
CASES = {
    "a free volume": Case(volume(), BOUND, RESERVE_MARKED),
    "a volume that a user reserved": Case(volume(claim="c"), RESERVED, RESERVE),
    "a volume that names the claim already": Case(volume(claim="c", uid="c"), BOUND),
    "a volume of another claim": Case(volume(claim="d", uid="d"), BOUND, error=ChangedError),
    "a volume of an earlier claim of that name": Case(volume(claim="c", uid="b"), BOUND, error=ChangedError),
    "a released volume": Case(volume(phase="Released"), BOUND, error=ChangedError),
    "a volume that is being deleted": Case(volume(deleting=True), BOUND, error=ChangedError),
    "a volume that is gone": Case(None, BOUND, error=GoneError),
    "an unbound claim": Case(claim(), SELECTED, SELECT),
    "a claim with the node already": Case(claim(selected="n1"), SELECTED),
    "a claim with another node": Case(claim(selected="n2"), SELECTED, error=ChangedError),
    "a claim that is bound": Case(claim(bound=True), SELECTED),
    "another claim of that name": Case(claim("d"), SELECTED, error=GoneError),
    "a claim that is being deleted": Case(claim(leaving=True), SELECTED, error=GoneError),
    "a claim that is gone": Case(None, SELECTED, error=GoneError),
    "free a volume": Case(volume(claim="c", uid="c"), BOUND, FREE, withdraws=True),
    "leave a user's reservation": Case(volume(claim="c", uid="c"), RESERVED, withdraws=True),
    "leave a volume that is bound": Case(volume(claim="c", uid="c", phase="Bound"), BOUND, withdraws=True),
    "leave the volume of another claim": Case(volume(claim="d", uid="d"), BOUND, withdraws=True),
    "leave a free volume": Case(volume(), BOUND, withdraws=True),
    "remove the selected node": Case(claim(selected="n1"), SELECTED, UNSELECT, withdraws=True),
    "leave another selected node": Case(claim(selected="n2"), SELECTED, withdraws=True),
    "leave a claim without a node": Case(claim(), SELECTED, withdraws=True),
    "leave a claim that was bound meanwhile": Case(
        claim(selected="n1", bound=True), SELECTED, withdraws=True
    ),
    "leave another claim of that name": Case(claim("d", selected="n1"), SELECTED, withdraws=True),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_write_follows_the_object_as_it_is_known(name: str) -> None:
    case, state, recorded = CASES[name], ClusterState(native_served=True), RecordedWrites()
    if case.known is not None:
        state.apply(decoded(case.known))
    writes = PreBindWriter(recorded, state, utc_now)  # type: ignore[arg-type]  # these methods are all it uses
    work = writes.undo if case.withdraws else writes.write
    if case.error is not None:
        with pytest.raises(case.error):
            await work(case.plan)
    else:
        await work(case.plan)
    if case.patch is None:
        assert recorded.sent == []
        return
    ((path, document),) = recorded.sent
    volumes = isinstance(case.plan, BoundVolume)
    kind = "persistentvolumes/v" if volumes else f"namespaces/{NS}/persistentvolumeclaims/c"
    assert path == f"/api/v1/{kind}"
    version = VERSION if volumes else {**VERSION, "uid": "c"}
    assert document == {**case.patch, "metadata": {**case.patch.get("metadata", {}), **version}}


@pytest.mark.parametrize(("others", "written"), [(255, True), (256, False)])
async def test_no_write_adds_a_consumer_too_many(others: int, *, written: bool) -> None:
    """Another scheduler added some since the decision; the API server would refuse the write."""
    state, recorded = ClusterState(native_served=True), RecordedWrites()
    known = scene.claim("c", ["n0/gpu-0"], [f"u{at}" for at in range(others)])
    state.apply(known)
    plan = ClaimReservation((NS, "c"), known.metadata.uid or "", None, (ClaimConsumer("", "pods", "p", "p"),))
    write = PreBindWriter(recorded, state, utc_now).write(plan)  # type: ignore[arg-type]  # these methods are all it uses
    if written:
        await write
        assert len(recorded.sent[0][1]["status"]["reservedFor"]) == MAX_CONSUMERS
        return
    with pytest.raises(ChangedError):
        await write
    assert recorded.sent == []


@pytest.mark.parametrize("finalizers", [[], [CLAIM_FINALIZER]], ids=["with", "after"])
async def test_the_parameters_of_a_claim_are_copied_into_its_allocation(finalizers: list[str]) -> None:
    """The cache leaves them out; the answer to the write of the finalizer has them."""
    state, recorded = ClusterState(native_served=True), RecordedWrites()
    opaque = [{"driver": scene.DRIVER, "parameters": {"share": at}} for at in range(3)]
    config = [{"requests": [], "opaque": each} for each in opaque]
    stored = msgspec.to_builtins(scene.claim("c"))
    stored["spec"]["devices"]["config"], stored["metadata"]["finalizers"] = config, finalizers
    recorded.spec = stored["spec"]
    known = msgspec.convert(stored, ResourceClaim)
    transform_devices(known)
    state.apply(known)
    engine = engine_of(scene.cluster(1, 1), known, scene.pod("c"))
    devices, row = device_plugin(engine.snapshot), engine.snapshot.pod_row[NS, "c"]
    engine.snapshot.assume(row, engine.snapshot.row["n0"])
    plans = devices.pre_bind(row)
    assert plans
    await PreBindWriter(recorded, state, lambda: NOW).write(plans[0])  # type: ignore[arg-type]  # as above
    (_, first), (_, last) = recorded.sent
    assert ("finalizers" in first["metadata"]) is not bool(finalizers)
    written = last["status"]["allocation"]["devices"]["config"]
    assert [(each["source"], each["opaque"]) for each in written] == [("FromClaim", each) for each in opaque]


async def test_the_devices_are_written_to_the_version_with_the_finalizer() -> None:
    """A watch brings the finalizer later, and a write to the version before it would be refused."""
    state, recorded = ClusterState(native_served=True), RecordedWrites()
    known = scene.claim("c")
    known.metadata.resourceVersion = "7"
    state.apply(known)
    devices = msgspec.convert(scene.allocation(["n0/gpu-0"]), Allocation)
    consumer = ClaimConsumer(resource="pods", name="p", uid="p")
    plan = ClaimReservation((NS, "c"), known.metadata.uid or "", devices, (consumer,))
    writes = PreBindWriter(recorded, state, lambda: NOW)  # type: ignore[arg-type]  # these methods are all it uses
    await writes.write(plan)
    versions = [document["metadata"]["resourceVersion"] for _, document in recorded.sent]
    assert versions == ["7", "written-1"]
    # Without a time, kube-scheduler cannot let a further pod use the claim.
    written = recorded.sent[1][1]["status"]["allocation"]
    assert written == msgspec.to_builtins(devices) | {"allocationTimestamp": "2026-01-01T12:00:00Z"}
