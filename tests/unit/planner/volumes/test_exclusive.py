"""Claims of ReadWriteOncePod, and disks that one pod of a node may use.

The cases of the first table are those of upstream's volume_restrictions_test.go. Upstream checks one node;
here the pods run on node m, and n is another one.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.filters import picture
from tests.support.filters.builders import claim, mounts, node, pod, volume
from tests.support.preemption.scene import group, of, planned, victims
from tests.support.preemption.scene import node as machine
from tests.support.preemption.scene import pod as pod_of

from podium.planner.filters.chain import Chain
from podium.planner.plugins.volumes.exclusive import DisksFilter, ExclusiveClaimsFilter
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.snapshot import Snapshot

DISK, IN_USE = DisksFilter.REASON, ExclusiveClaimsFilter.REASON
ONE_POD: dict[str, Any] = {"accessModes": ["ReadWriteOncePod"]}


def disk(kind: str, **fields: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "disk", kind: fields}]}


def gce(name: str, **more: Any) -> dict[str, Any]:
    return disk("gcePersistentDisk", pdName=name, **more)


def rbd(*monitors: str, **more: Any) -> dict[str, Any]:
    return disk("rbd", **{"monitors": monitors, "pool": "foo", "image": "bar", **more})


def iscsi(target: str, **more: Any) -> dict[str, Any]:
    return disk("iscsi", iqn=f"iqn.2016-12.server:storage.{target}", **more)


READ = {"readOnly": True}
BOTH = (IN_USE, IN_USE)
HERE = (DISK, None)
NONE = (None, None)
Case = tuple[dict[str, Any], Sequence[dict[str, Any]], tuple[str | None, str | None]]
CASES: dict[str, Case] = {
    "nothing": ({}, [], NONE),
    "a pod without the disk": ({}, [gce("foo")], NONE),
    "gce, same disk": (gce("foo"), [gce("foo")], HERE),
    "gce, another disk": (gce("bar"), [gce("foo")], NONE),
    "gce, both read": (gce("foo", **READ), [gce("foo", **READ)], NONE),
    "gce, the new pod writes": (gce("foo"), [gce("foo", **READ)], HERE),
    "gce, one of the pods writes": (gce("foo", **READ), [gce("foo", **READ), gce("foo")], HERE),
    "aws, same disk": (
        disk("awsElasticBlockStore", volumeID="foo"),
        [disk("awsElasticBlockStore", volumeID="foo")],
        HERE,
    ),
    "aws, both read": (
        disk("awsElasticBlockStore", volumeID="foo", **READ),
        [disk("awsElasticBlockStore", volumeID="foo", **READ)],
        HERE,
    ),
    "aws, another disk": (
        disk("awsElasticBlockStore", volumeID="bar"),
        [disk("awsElasticBlockStore", volumeID="foo")],
        NONE,
    ),
    "rbd, same image": (rbd("a", "b"), [rbd("a", "b")], HERE),
    "rbd, a monitor in common": (rbd("b", "c"), [rbd("a", "b")], HERE),
    "rbd, another cluster": (rbd("c", "d"), [rbd("a", "b")], NONE),
    "rbd, another pool": (rbd("a", pool="bar"), [rbd("a")], NONE),
    "rbd, another image": (rbd("a", image="foo"), [rbd("a")], NONE),
    "rbd, the pool is rbd by default": (rbd("a", pool=None), [rbd("a", pool="rbd")], HERE),
    "rbd, both read": (rbd("a", **READ), [rbd("a", **READ)], NONE),
    "iscsi, same target": (iscsi("target01"), [iscsi("target01")], HERE),
    "iscsi, another target": (iscsi("target02"), [iscsi("target01")], NONE),
    "iscsi, both read": (iscsi("target01", **READ), [iscsi("target01", **READ)], NONE),
    "disks of two kinds with one name": (gce("foo"), [disk("awsElasticBlockStore", volumeID="foo")], NONE),
    "a claim of many pods": (mounts("many"), [mounts("many")], NONE),
    "no access mode conflict": (mounts("one"), [mounts("many")], NONE),
    "access mode conflict": (mounts("one"), [mounts("one"), mounts("many")], BOTH),
    "two conflicts": (mounts("one", "two"), [mounts("one", "two")], BOTH),
    "one conflict of two claims": (mounts("one", "two"), [mounts("two")], BOTH),
    "a disk is checked first": (
        {"volumes": [*gce("d")["volumes"], *mounts("one")["volumes"]]},
        [gce("d"), mounts("one")],
        (DISK, IN_USE),
    ),
}


def snapshot_of(*objects: object) -> Snapshot:
    claims = [claim(name, name, **ONE_POD) for name in ("one", "two")]
    claims.append(claim("many", "many", accessModes=["ReadWriteMany"]))
    return picture.snapshot_of(*claims, *map(volume, ("one", "two", "many")), node("m"), node("n"), *objects)


@pytest.mark.parametrize(("spec", "there", "why"), CASES.values(), ids=CASES)
def test_claims_and_disks_that_other_pods_use(
    spec: dict[str, Any], there: Sequence[dict[str, Any]], why: tuple[str | None, str | None]
) -> None:
    """Preemption may help on every node."""
    snapshot = snapshot_of(*(pod(f"p{number}", node="m", **each) for number, each in enumerate(there)))
    chain, wanted = Chain(snapshot, {}), snapshot.shape_of(pod("new", **spec))
    rows = [snapshot.row[name] for name in "mn"]
    assert wanted.missing == ()
    assert [chain.reasons(wanted, row) for row in rows] == [() if each is None else (each,) for each in why]
    assert chain.feasible(wanted)[rows].tolist() == [each is None for each in why]
    assert [chain.fits(wanted, row) for row in rows] == [each is None for each in why]
    assert chain.static(wanted)[rows].all()


def test_a_claim_of_another_namespace_is_another_claim() -> None:
    other = claim("one", "w", namespace="team-b", **ONE_POD)
    snapshot = snapshot_of(other, pod("p", node="m", namespace="team-b", **mounts("one")))
    assert Chain(snapshot, {}).feasible(snapshot.shape_of(pod("new", **mounts("one")))).sum() == 2


def test_finished_and_pending_pods_use_no_claim() -> None:
    there = [pod("done", node="m", phase="Succeeded", **mounts("one")), pod("waits", **mounts("one"))]
    snapshot = snapshot_of(*there)
    assert Chain(snapshot, {}).feasible(snapshot.shape_of(pod("new", **mounts("one")))).sum() == 2


# Preemption.

CLAIM = [claim("one", "v", namespace="team-a", **ONE_POD), volume("v")]
USES: dict[str, Any] = mounts("one")


def test_a_victim_frees_a_claim_of_one_pod() -> None:
    """Only the pod that uses it is evicted, and the preemptor takes its node."""
    objects = [
        machine("n1"),
        machine("n2"),
        pod_of("user", node="n1", **USES),
        pod_of("other", node="n1"),
        *CLAIM,
    ]
    plan = planned(*objects, pod_of("high", 1, 5, **USES))
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, ["user"])
    assert [each.node for each in plan.placements] == ["n1"]


def test_a_claim_is_not_freed_by_pods_that_may_not_be_evicted() -> None:
    objects = [machine("n1"), pod_of("user", 1, 9, node="n1", **USES), pod_of("low", node="n1"), *CLAIM]
    plan = planned(*objects, pod_of("high", 1, 5, **USES))
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    assert f"1 {IN_USE}" in plan.message


def test_a_victim_frees_a_disk() -> None:
    objects = [machine("n1"), pod_of("user", node="n1", **gce("d")), pod_of("low", node="n1", **gce("e"))]
    plan = planned(*objects, pod_of("high", 1, 5, **gce("d")))
    assert victims(plan) == ["user"]


@pytest.mark.parametrize("semantics", [Semantics.KEP, Semantics.V1_36, Semantics.V1_37])
def test_a_gang_frees_the_claim_of_a_member(semantics: Semantics) -> None:
    """The claim's user leaves, wherever it runs; pods beside the members stay."""
    members = [pod_of("high-0", 1, 5, group="high", **USES), pod_of("high-1", 1, 5, group="high")]
    there = [pod_of("user", node="n2", **USES), pod_of("low", node="n1")]
    plan = planned(
        *(machine("n1"), machine("n2"), *CLAIM, group("high", 5, 2)), *members, *there,
        by=of("high"), semantics=semantics,
    )  # fmt: skip
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, ["user"])


def test_two_members_with_one_claim_never_fit() -> None:
    members = [pod_of(f"high-{number}", 1, 5, group="high", **USES) for number in range(2)]
    plan = planned(machine("n1"), machine("n2"), *CLAIM, group("high", 5, 2), *members, by=of("high"))
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert IN_USE in plan.message
