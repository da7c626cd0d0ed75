"""The writes for a claim of extended resources: by what is known of it, with the versions that they name."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.devices import scene
from tests.support.devices.scene import CLASS, RESOURCE, device_class
from tests.support.preemption.clusters import NS

from podium.api.devices import CLAIM_FINALIZER, Allocation, ResourceClaim
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.liveplugin import ChangedError
from podium.planner.plugins.devices.claims import (
    classes_by_resource,
    consumer_of,
    extended_claim,
    extended_needs,
)
from podium.planner.plugins.devices.writes import ClaimReservation, StaleDeletion
from podium.runtime.host import utc_now
from podium.schedulerplugin.live.prebindwriter import PreBindWriter
from podium.schedulerplugin.live.writes import StoredMetadata, StoredObject
from podium.schedulerplugin.scheduling.effects import PodRef

POD = scene.requesting("p")
NEEDS = extended_needs(POD, [RESOURCE], classes_by_resource([device_class(resource=RESOURCE)]))
MADE = extended_claim(POD, NEEDS)
KEY = NS, MADE.claim.metadata.name or ""
DEVICES, OTHERS = (msgspec.convert(scene.allocation([f"n0/gpu-{at}"]), Allocation) for at in (0, 1))
PLAN = ClaimReservation(KEY, "", DEVICES, (consumer_of(POD),), MADE)
PATH = f"/apis/resource.k8s.io/v1/namespaces/{NS}/resourceclaims"


class RecordedWrites:
    """Writes that record method, path and version; each makes a version of its own."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []
        self.bodies: list[Any] = []

    async def perform(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        """Make a write once."""
        assert what == "claim"
        await attempt()

    async def create(self, path: str, document: Any) -> bytes:
        """Record a claim, and return it as stored."""
        self._record("create", path, "", document)
        stored = {"uid": "new", "resourceVersion": "v1"}
        return msgspec.json.encode({**document, "metadata": {**document["metadata"], **stored}})

    async def merge(self, path: str, document: Any) -> StoredObject:
        """Record a patch, and return the object with the version after it."""
        metadata = document["metadata"]
        self._record("patch", path, f"{metadata['uid']}/{metadata['resourceVersion']}", document)
        return StoredObject(StoredMetadata(resourceVersion=f"v{len(self.sent)}"))

    async def remove(self, path: str, uid: str) -> None:
        """Record a delete."""
        self._record("delete", path, uid, None)

    async def patch_status(self, pod: PodRef, status: Any) -> None:
        """Record the status of a pod."""
        self._record("name", pod.name, pod.uid, status)

    def _record(self, method: str, path: str, version: str, body: Any) -> None:
        self.sent.append((method, path.removeprefix(PATH).replace(KEY[1], "CLAIM"), version))
        self.bodies.append(body)


def known(allocation: Allocation | None = None, *, owner: str = "p", **more: Any) -> ResourceClaim:
    """Return a claim that was created before, with its finalizer."""
    claim = msgspec.convert(msgspec.to_builtins(MADE.claim), ResourceClaim)
    claim.metadata = msgspec.structs.replace(
        claim.metadata, uid="old", resourceVersion="7", finalizers=[CLAIM_FINALIZER], **more
    )
    if owner != "p":
        claim.metadata.ownerReferences = None
    if allocation is not None:
        status = {"allocation": msgspec.to_builtins(allocation), "reservedFor": []}
        claim = msgspec.convert({**msgspec.to_builtins(claim), "status": status}, ResourceClaim)
    return claim


def requests_two() -> ResourceClaim:
    """Return a claim with other requests than those of the plan."""
    claim = known()
    claim.spec = scene.claim("x", count=2, requested=CLASS).spec
    return claim


NAME = "name", "p", scene.uid_of("p")
FREE = [("patch", "/CLAIM", "old/7"), ("delete", "/CLAIM", "old")]


class Case(NamedTuple):
    """The claim as it is known, and the writes; or the error."""

    known: ResourceClaim | None
    sent: list[tuple[str, str, str]] | None = None
    error: type[PodiumError] | None = None


CREATED = [("create", "", ""), ("patch", "/CLAIM/status", "new/v1"), NAME]
CASES = {
    "no claim": Case(None, CREATED),
    "a claim without devices": Case(known(), [("patch", "/CLAIM/status", "old/7"), NAME]),
    "a claim with the same devices": Case(known(DEVICES), [("patch", "/CLAIM/status", "old/7"), NAME]),
    "a claim with other devices": Case(known(OTHERS), [*FREE, *CREATED]),
    "a claim with other requests": Case(requests_two(), [*FREE, *CREATED]),
    "a claim that is being deleted": Case(known(deletionTimestamp="2026-01-01T00:00:00Z"), [*FREE, *CREATED]),
    "a claim of a stranger": Case(known(owner="other"), error=ChangedError),
}


def writer(claim: ResourceClaim | None) -> tuple[PreBindWriter, RecordedWrites]:
    """Return the writes for a cluster with a claim."""
    state = ClusterState(native_served=True)
    if claim is not None:
        state.apply(claim)
    writes = RecordedWrites()
    return PreBindWriter(writes, state, utc_now), writes  # type: ignore[arg-type]  # a part of Writes


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_a_claim_is_created_or_used(case: Case) -> None:
    """The watch still shows a claim that was deleted."""
    made, writes = writer(case.known)
    if case.error is not None:
        with pytest.raises(case.error):
            await made.write(PLAN)
        assert writes.sent == []
        return
    await made.write(PLAN)
    assert writes.sent == case.sent
    assert writes.bodies[-1]["extendedResourceClaimStatus"] == {
        "resourceClaimName": KEY[1],
        "requestMappings": [
            {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-1"}
        ],
    }


DELETES = {
    "the claim of a plan": (PLAN, known(DEVICES), FREE),
    "a claim without a finalizer": (PLAN, known(), FREE),
    "no claim": (PLAN, None, []),
    "a claim of a stranger": (PLAN, known(owner="other"), []),
    "a claim that another scheduler left": (StaleDeletion(KEY, "old"), known(), FREE),
    "a claim that was replaced": (StaleDeletion(KEY, "older"), known(), []),
}


@pytest.mark.parametrize(("plan", "claim", "sent"), DELETES.values(), ids=list(DELETES))
async def test_a_claim_is_deleted(
    plan: ClaimReservation | StaleDeletion, claim: ResourceClaim | None, sent: list[Any]
) -> None:
    made, writes = writer(claim)
    await made.undo(plan)
    assert writes.sent == sent


async def test_a_claim_that_the_watch_does_not_show_yet_is_deleted() -> None:
    """The versions are those of the answers."""
    made, writes = writer(None)
    await made.write(PLAN)
    writes.sent.clear()
    await made.undo(PLAN)
    assert writes.sent == [("patch", "/CLAIM", "new/v2"), ("delete", "/CLAIM", "new")]
    await made.undo(PLAN)
    assert len(writes.sent) == 2
