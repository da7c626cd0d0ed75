"""Plans for pods with delayed claims: nodes with volumes, gangs decided together, no useless victim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import mounts
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import HOST, engine_of, group, node, of, placed, planned, pod, victims
from tests.support.volumes import manifests
from tests.support.volumes.manifests import (
    DRIVER,
    NS,
    capacity,
    claim,
    decoded,
    driver,
    storage_class,
    volume,
)

from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
TAKEN = "node(s) were taken by other members of the group"
LOCAL = storage_class(manifests.LOCAL)
SHARED = storage_class("shared", DRIVER)


def disk(name: str, on: str, size: str = "10Gi") -> manifests.Manifest:
    """Return a local volume of a node."""
    return volume(name, size, on=[{HOST: [on]}])


def members(number: int, claims: Sequence[str] = (), **fields: Any) -> list[Any]:
    """Return a gang of pending pods, each with the claim of its number, or all with these claims."""
    return [
        pod(f"high-{at}", priority=10, group="high", **mounts(*(claims or [f"c{at}"])), **fields)
        for at in range(number)
    ]


def claims_for(number: int, size: str = "10Gi", **fields: Any) -> list[manifests.Manifest]:
    """Return the claims of a gang's members."""
    return [claim(f"c{at}", size, **fields) for at in range(number)]


@dataclass(frozen=True)
class Case:
    """Storage and other objects; the placement of the pod or gang `high`, or the refusals of its nodes."""

    objects: list[Any]
    storage: list[manifests.Manifest]
    placed: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    victims: Sequence[str] = ()
    by: Any = "high"
    semantics: Semantics = Semantics.KEP


LONE = pod("high", priority=10, **mounts("c0"))
CASES = {
    "a lone pod goes where its volume is": Case(
        [node("n1"), node("n2"), LONE], [LOCAL, disk("v", "n2"), *claims_for(1)], {"high": "n2"}
    ),
    "the only volume is too small": Case(
        [node("n1"), LONE], [LOCAL, disk("v", "n1", "9Gi"), *claims_for(1)], refusal=f"1 {NO_VOLUME}"
    ),
    "a victim is evicted on the node with the volume only": Case(
        [node("n1", 1), node("n2", 1), pod("low-1", node="n1"), pod("low-2", node="n2"), LONE],
        [LOCAL, disk("v", "n2"), *claims_for(1)],
        {"high": "n2"},
        victims=["low-2"],
    ),
    "no unit is evicted for a pod whose claim finds no volume": Case(
        [node("n1", 1), pod("low-1", node="n1"), LONE],
        [LOCAL, *claims_for(1)],
        refusal=f"0/1 nodes are available: 1 {NO_VOLUME}.",
    ),
    "members never count on one volume": Case(
        [node("n1"), group("high", 10, 2), *members(2)],
        [LOCAL, disk("v", "n1"), *claims_for(2)],
        refusal=f"1 of 2 members has room; 0/1 nodes are available: 1 {TAKEN} ({NO_VOLUME}).",
        by=of("high"),
    ),
    "each member has a volume of its own": Case(
        [node("n1"), node("n2"), group("high", 10, 2), *members(2)],
        [LOCAL, disk("v1", "n1"), disk("v2", "n2"), *claims_for(2)],
        {"high-0": "n1", "high-1": "n2"},
        by=of("high"),
    ),
    "members never count on the same last space": Case(
        [node("n1"), group("high", 10, 2), *members(2)],
        [SHARED, driver(), capacity("all", "shared", {}, "15Gi"), *claims_for(2, of="shared")],
        refusal=f"1 of 2 members has room; 0/1 nodes are available: 1 {TAKEN} ({NO_SPACE}).",
        by=of("high"),
    ),
    "kube-scheduler's members count on the same space": Case(
        [node("n1"), group("high", 10, 2), *members(2)],
        [SHARED, driver(), capacity("all", "shared", {}, "15Gi"), *claims_for(2, of="shared")],
        {"high-0": "n1", "high-1": "n1"},
        by=of("high"),
        semantics=Semantics.V1_37,
    ),
    "victims of a gang are on the nodes with volumes": Case(
        [
            *(node(f"n{at}", 1) for at in range(4)),
            *(pod(f"low-{at}", node=f"n{at}") for at in range(4)),
            *(group("high", 10, 2), *members(2)),
        ],
        [LOCAL, disk("v1", "n1"), disk("v3", "n3"), *claims_for(2)],
        {"high-0": "n3", "high-1": "n1"},
        victims=["low-1", "low-3"],
        by=of("high"),
    ),
    "no unit is evicted for a gang of which one claim finds no volume": Case(
        [
            *(node(f"n{at}", 1) for at in range(2)),
            *(pod(f"low-{at}", node=f"n{at}") for at in range(2)),
            *(group("high", 10, 2), *members(2)),
        ],
        [LOCAL, disk("v1", "n1"), *claims_for(2)],
        refusal="1 of 2 members has room; 0/2 nodes are available: "
        f"1 {NO_VOLUME}, 1 {TAKEN} (Insufficient cpu). "
        "Claim c1 finds no volume on 2 nodes.",
        by=of("high"),
    ),
    "a gang shares a claim that many nodes may use": Case(
        [node("n1", 1), node("n2", 1), group("high", 10, 2), *members(2, ["c0"])],
        [SHARED, *claims_for(1, of="shared", accessModes=["ReadWriteMany"])],
        {"high-0": "n1", "high-1": "n2"},
        by=of("high"),
    ),
    "a gang that shares a claim of one node stays on that node": Case(
        [node("n1", 1), node("n2", 2), group("high", 10, 2), *members(2, ["c0"])],
        [SHARED, *claims_for(1, of="shared")],
        {"high-0": "n2", "high-1": "n2"},
        by=of("high"),
    ),
    "a claim is provisioned for the node that was selected before": Case(
        [node("n1"), node("n2"), LONE], [SHARED, claim("c0", "1Gi", "shared", selected="n2")], {"high": "n2"}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pod_with_unbound_claims_is_planned_with_its_volumes(name: str) -> None:
    case = CASES[name]
    found = planned(*map(decoded, case.storage), *case.objects, by=case.by, semantics=case.semantics)
    assert (placed(found), victims(found)) == (case.placed, list(case.victims))
    if case.placed:
        fits = Outcome.FITS_AFTER_PREEMPTION if case.victims else Outcome.FITS
        assert found.outcome is fits
    else:
        assert found.outcome is Outcome.DOES_NOT_FIT
        assert case.refusal in found.message


@given(st.data())
def test_a_plan_leaves_no_volume_assumed(data: st.DataObject) -> None:
    """Whatever is tried and undone, the volumes and the space are as before."""
    number = data.draw(st.integers(1, 4))
    disks = [
        disk(f"v{at}", f"n{data.draw(st.integers(0, 3))}", f"{data.draw(st.integers(8, 12))}Gi")
        for at in range(data.draw(st.integers(0, 5)))
    ]
    sizes = [claim(f"c{at}", f"{data.draw(st.integers(8, 12))}Gi") for at in range(number)]
    busy = [pod(f"low-{at}", node=f"n{at}") for at in range(4) if data.draw(st.booleans())]
    gang = [group("high", 10, number), *members(number)]
    engine = engine_of(
        *(node(f"n{at}", 1) for at in range(4)), *map(decoded, [LOCAL, *disks, *sizes]), *busy, *gang
    )
    engine.plan(of("high"), NOW)
    delayed = engine.snapshot.plugin(VolumesPlugin).delayed
    assert [delayed.ledger.plan((NS, f"c{at}")) for at in range(number)] == [None] * number
    free = delayed.volumes.free(manifests.LOCAL)
    assert free.free.tolist() == [True] * len(disks)
