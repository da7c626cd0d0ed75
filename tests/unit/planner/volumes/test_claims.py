"""Pods that kube-scheduler refuses for their claims, before it checks any node.

The cases of the tables are those of upstream's volume_binding_test.go, binder_test.go, volume_zone_test.go
and volume_restrictions_test.go, as the default plugins answer them together.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.filters.builders import (
    NS,
    claim,
    empty_snapshot,
    mounts,
    node,
    pod,
    storage_class,
    volume,
    volume_needs,
)
from tests.support.filters.picture import snapshot_of

from podium.api.reads import Kind
from podium.planner.filters.chain import Chain
from podium.planner.plugins.volumes.needs import MOST_DELAYED
from podium.planner.shapes import Shape, shape_of
from podium.planner.snapshot import Snapshot
from podium.schedulerplugin.scheduling.clusterevents import is_restricted

WAIT = storage_class("wait", "WaitForFirstConsumer")
NOW = storage_class("now")
CONFLICT = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": [name]}
                            for name in ("a", "b")
                        ]
                    }
                ]
            }
        }
    }
}
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
LOST = 'persistentvolumeclaim "a" bound to non-existent persistentvolume "v"'
OTHER = f"PVC {NS}/p-tmp was not created for pod {NS}/p (pod is not owner)"
WAITING = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"'
EPHEMERAL = mounts(ephemeral=["tmp"])

Case = tuple[dict[str, Any], Sequence[object], str]
REFUSED: dict[str, Case] = {
    "no claim": (mounts("a"), [], 'persistentvolumeclaim "a" not found'),
    "the second claim is missing": (
        mounts("a", "b"),
        [claim("a", "v"), volume("v")],
        'persistentvolumeclaim "b" not found',
    ),
    "a claim of another namespace": (
        mounts("a"),
        [claim("a", namespace="team-b")],
        'persistentvolumeclaim "a" not found',
    ),
    "an ephemeral claim is missing": (EPHEMERAL, [], WAITING),
    "the claim of another pod": (EPHEMERAL, [claim("p-tmp", "v", owner="other"), volume("v")], OTHER),
    "a claim without owner": (EPHEMERAL, [claim("p-tmp", "v"), volume("v")], OTHER),
    "a lost claim": (mounts("a"), [claim("a", "v", phase="Lost")], LOST),
    "a lost claim that is deleted": (mounts("a"), [claim("a", "v", phase="Lost", terminating=True)], LOST),
    "a claim that is deleted": (
        mounts("a"),
        [claim("a", "v", terminating=True), volume("v")],
        'persistentvolumeclaim "a" is being deleted',
    ),
    "an immediate claim": (mounts("a"), [claim("a", storageClassName="now"), NOW], UNBOUND),
    "no class": (mounts("a"), [claim("a")], UNBOUND),
    "a class that does not exist": (mounts("a"), [claim("a", storageClassName="gone"), WAIT], UNBOUND),
    "a prebound claim": (
        mounts("a"),
        [claim("a", storageClassName="wait", volumeName="v"), WAIT, volume("v")],
        UNBOUND,
    ),
    "one prebound, one delayed": (
        mounts("a", "b"),
        [claim("a", storageClassName="wait"), claim("b", storageClassName="wait", volumeName="v"), WAIT],
        UNBOUND,
    ),
    "one immediate, one bound": (
        mounts("a", "b"),
        [claim("a", storageClassName="now"), claim("b", "v"), NOW, volume("v")],
        UNBOUND,
    ),
    "one immediate, one delayed": (
        mounts("a", "b"),
        [claim("a"), claim("b", storageClassName="wait"), WAIT],
        UNBOUND,
    ),
    "no volume": (mounts("a"), [claim("a", "v")], 'persistentvolume "v" not found'),
    "a missing claim precedes a deleted one": (
        mounts("a", "b"),
        [claim("a", terminating=True)],
        'persistentvolumeclaim "b" not found',
    ),
    "a deleted claim precedes a missing ephemeral one": (
        {"volumes": [*mounts("a")["volumes"], *EPHEMERAL["volumes"]]},
        [claim("a", terminating=True)],
        'persistentvolumeclaim "a" is being deleted',
    ),
    "a conflict of names precedes claims": ({**mounts("a"), **CONFLICT}, [], "pod affinity terms conflict"),
}


def shape(
    spec: dict[str, Any], objects: Sequence[object], unread: Sequence[str] = ()
) -> tuple[Snapshot, Shape]:
    snapshot = snapshot_of(*objects, unread=lambda: unread)
    return snapshot, snapshot.shape_of(pod("p", **spec))


@pytest.mark.parametrize(("spec", "objects", "why"), REFUSED.values(), ids=REFUSED)
def test_a_pod_is_refused_for_its_claims(spec: dict[str, Any], objects: Sequence[object], why: str) -> None:
    """The message counts no nodes, and no preemption helps."""
    snapshot, refused = shape(spec, [*objects, node("m"), node("n", unschedulable=True)])
    chain = Chain(snapshot, {})
    assert refused.missing == ()
    assert chain.refusals(refused).message == f"0/2 nodes are available: {why}."
    assert not chain.feasible(refused).any()
    assert not chain.static(refused).any()
    assert {chain.reasons(refused, row) for row in snapshot.row.values()} == {(why,)}
    assert is_restricted(refused) or why == "pod affinity terms conflict"


ACCEPTED: dict[str, tuple[dict[str, Any], Sequence[object]]] = {
    "no volumes": ({}, []),
    "no claims": ({"volumes": [{"name": "scratch", "emptyDir": {}}]}, []),
    "a bound claim": (mounts("a"), [claim("a", "v", storageClassName="wait"), WAIT, volume("v")]),
    "an ephemeral claim": (EPHEMERAL, [claim("p-tmp", "v", owner=f"{NS}-p"), volume("v")]),
}


@pytest.mark.parametrize(("spec", "objects"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_pod_with_usable_claims_is_not_refused(spec: dict[str, Any], objects: Sequence[object]) -> None:
    snapshot, accepted = shape(spec, [*objects, node("n")])
    assert accepted.missing == ()
    assert Chain(snapshot, {}).feasible(accepted).any()


DELAYED = [claim("a", storageClassName="wait"), WAIT]
UNKNOWN: dict[str, tuple[dict[str, Any], Sequence[object], Kind | None, str]] = {
    "volumes not read": (mounts("a"), DELAYED, Kind.VOLUME, "because no volumes were read"),
    "claims not read": (mounts("a"), [], Kind.CLAIM, "which was not read"),
    "ephemeral claims not read": (mounts(ephemeral=["a"]), [], Kind.CLAIM, "which was not read"),
    "classes not read": (
        mounts("a"),
        [claim("a", storageClassName="wait")],
        Kind.STORAGE_CLASS,
        "which is not bound, and whose StorageClass was not read",
    ),
}


@pytest.mark.parametrize(("spec", "objects", "unread", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_claims_that_are_not_known_are_not_evaluated(
    spec: dict[str, Any], objects: Sequence[object], unread: Kind | None, why: str
) -> None:
    """The words name the volume of the pod, because copies of the pod have other claims."""
    _, unknown = shape(spec, objects, [unread] if unread is not None else [])
    assert (unknown.refused, unknown.missing) == ("", (f"the claim of volume a, {why}",))


@pytest.mark.parametrize("number", [MOST_DELAYED, MOST_DELAYED + 1])
def test_a_pod_has_a_bounded_number_of_delayed_claims(number: int) -> None:
    names = [f"c{at}" for at in range(number)]
    claims = [claim(name, storageClassName="wait") for name in names]
    _, judged = shape(mounts(*names), [*claims, WAIT])
    if number > MOST_DELAYED:
        assert (judged.missing, volume_needs(judged).delayed) == (
            ("more than 64 claims that are bound with the pod",),
            (),
        )
    else:
        assert (judged.missing, len(volume_needs(judged).delayed)) == ((), number)


def test_capacities_that_were_not_read_refuse_nothing() -> None:
    _, judged = shape(mounts("a"), DELAYED, [Kind.CSI_DRIVER, Kind.STORAGE_CAPACITY])
    assert (judged.refused, judged.missing) == ("", ())


def test_volumes_that_were_not_read_refuse_nothing() -> None:
    _, unknown = shape(mounts("a"), [claim("a", "v")], [Kind.VOLUME])
    assert (unknown.refused, unknown.missing) == (
        "",
        ("the persistent volume of volume a, which was not read",),
    )


def test_a_known_refusal_precedes_what_is_not_known() -> None:
    """A claim without a class is immediate, whatever classes there are."""
    _, refused = shape(
        mounts("a", "b"), [claim("a", storageClassName="wait"), claim("b")], [Kind.STORAGE_CLASS]
    )
    assert (refused.refused, refused.missing) == (UNBOUND, ())


def test_the_shape_follows_the_class_of_a_claim() -> None:
    """A class that comes makes an unbound claim a delayed one; its deletion undoes that."""
    snapshot = empty_snapshot()
    for each in (node("n"), claim("a", storageClassName="wait"), pod("p", **mounts("a"))):
        snapshot.apply(None, each)
        snapshot.catch_up()
    row = snapshot.pod_row[NS, "p"]
    assert snapshot.shape_at(row).refused == UNBOUND
    snapshot.apply(None, WAIT)
    snapshot.catch_up()
    assert [each.key for each in volume_needs(snapshot.shape_at(row)).delayed] == [(NS, "a")]
    snapshot.apply(WAIT, None)
    snapshot.catch_up()
    assert snapshot.shape_at(row).refused == UNBOUND


def test_a_pod_may_mount_a_claim_twice() -> None:
    twice = pod("p", **mounts("a", "a"))
    snapshot = snapshot_of(claim("a", "v"), volume("v"), twice)
    snapshot.apply(twice, None)
    assert not snapshot.shapes


def test_without_an_index_every_claim_is_missing() -> None:
    assert (
        shape_of(pod("p", **mounts("a")), empty_snapshot().plugins).refused
        == 'persistentvolumeclaim "a" not found'
    )
