"""The cases of kube-scheduler's own tests of unbound claims, by the names that they have there.

Source: binder_test.go and volume_binding_test.go of the VolumeBinding plugin, pv_helpers_test.go of
k8s.io/component-helpers/storage/volume, 1.37.0. Cases of bound claims and of missing objects are those of
other modules. The tables differ from those of 1.36.3 in no case used here.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from tests.support.volumes.manifests import (
    DRIVER,
    NS,
    Manifest,
    binding,
    capacity,
    claim,
    driver,
    node,
    read_claims,
    storage_class,
    volume,
)

from podium.planner.plugins.volumes.delayed import REASONS
from podium.planner.plugins.volumes.writes import BoundVolume, VolumePlan

NO_VOLUME, NO_SPACE = REASONS.values()

KEY = "nodeKey"
# Classes: without provisioner, with one, and with one for other nodes.
WAIT, WITH_PROVISIONER, TOPO_MISMATCH = "wait", "wait-with-provisioner", "topo-mismatch"
CLASSES = [
    storage_class(WAIT),
    storage_class(WITH_PROVISIONER, DRIVER, [{KEY: ["node1", "reference-value"]}]),
    storage_class(TOPO_MISMATCH, DRIVER, [{KEY: ["reference-value"]}]),
]
NODE = node("node1", nodeKey="node1")


def on(name: str) -> list[Mapping[str, list[str]]]:
    return [{KEY: [name]}]


UNBOUND, UNBOUND_2 = claim("unbound-pvc", "1G", WAIT), claim("unbound-pvc2", "5G", WAIT)
PROVISIONED = claim("provisioned-pvc", "1Gi", WITH_PROVISIONER)
SELECTED = claim("provisioned-pvc", "1Gi", WITH_PROVISIONER, selected="node1")
NODE_1A = volume("pv-node1a", "5G", WAIT, on=on("node1"))
NODE_1B = volume("pv-node1b", "10G", WAIT, on=on("node1"))
NODE_1C = volume("pv-node1c", "5G", WAIT, on=on("node1"))
NODE_2 = volume("pv-node2", "1G", WAIT, on=on("node2"))
NODE_1A_BOUND = volume("pv-node1a", "5G", WAIT, on=on("node1"), claim="unbound-pvc", uid="unbound-pvc")


class Found(NamedTuple):
    """The answer of node1: the reason, or the bound volume of each claim and the claims to provision."""

    reason: str | None = None
    bound: Mapping[str, str] = {}
    provisioned: frozenset[str] = frozenset()


def found(claims: Sequence[Manifest], storage: Sequence[Manifest]) -> Found:
    snapshot, bound = binding([NODE], [*CLASSES, *storage])
    answer = bound.find(read_claims(claims))
    reason = answer.reason(snapshot.row["node1"])
    if reason is not None:
        return Found(reason)
    plan = answer.plan("node1")
    assert {each.node for each in plan.provisioned} <= {"node1"}
    return Found(
        None,
        {each.claim[1]: each.volume for each in plan.bound},
        frozenset(each.claim[1] for each in plan.provisioned),
    )


WITHOUT_PROVISIONING = {
    "no-pvcs": ([], [], Found()),
    "unbound-pvc,pv-same-node": (
        [UNBOUND],
        [NODE_2, NODE_1A, NODE_1B],
        Found(bound={"unbound-pvc": "pv-node1a"}),
    ),
    "unbound-pvc,pv-different-node": ([UNBOUND], [NODE_2], Found(NO_VOLUME)),
    "two-unbound-pvcs": (
        [UNBOUND, UNBOUND_2],
        [NODE_1A, NODE_1B],
        Found(bound={"unbound-pvc": "pv-node1a", "unbound-pvc2": "pv-node1b"}),
    ),
    "two-unbound-pvcs,order-by-size": (
        [UNBOUND_2, UNBOUND],
        [NODE_1A, NODE_1B],
        Found(bound={"unbound-pvc": "pv-node1a", "unbound-pvc2": "pv-node1b"}),
    ),
    "two-unbound-pvcs,partial-match": ([UNBOUND, UNBOUND_2], [NODE_1A], Found(NO_VOLUME)),
    "one-bound,one-unbound,no-match": ([UNBOUND], [NODE_2], Found(NO_VOLUME)),
}
WITH_PROVISIONING = {
    "one-provisioned": ([PROVISIONED], [], Found(provisioned=frozenset({"provisioned-pvc"}))),
    "two-unbound-pvcs,one-matched,one-provisioned": (
        [UNBOUND, PROVISIONED],
        [NODE_1A],
        Found(None, {"unbound-pvc": "pv-node1a"}, frozenset({"provisioned-pvc"})),
    ),
    "one-binding,one-selected-node": ([SELECTED], [], Found(provisioned=frozenset({"provisioned-pvc"}))),
    "invalid-provisioner": ([claim("no-provisioner-pvc", "1Gi", WAIT)], [], Found(NO_VOLUME)),
    "volume-topology-unsatisfied": ([claim("topo-mismatch-pvc", "1Gi", TOPO_MISMATCH)], [], Found(NO_VOLUME)),
}
DRIVERS = {
    "no CSIDriver": [],
    "CSIDriver with capacity tracking": [driver()],
    "CSIDriver without capacity tracking": [driver(publishes=False)],
}


@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize("name", WITHOUT_PROVISIONING)
def test_find_pod_volumes_without_provisioning(name: str, drivers: str) -> None:
    claims, volumes, wanted = WITHOUT_PROVISIONING[name]
    assert found(claims, [*volumes, *DRIVERS[drivers]]) == wanted


@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize("name", WITH_PROVISIONING)
def test_find_pod_volumes_with_provisioning(name: str, drivers: str) -> None:
    """A driver that publishes no capacity object has no space."""
    claims, volumes, wanted = WITH_PROVISIONING[name]
    if wanted.provisioned and drivers == "CSIDriver with capacity tracking":
        wanted = Found(NO_SPACE)
    assert found(claims, [*volumes, *DRIVERS[drivers]]) == wanted


FITS = Found(provisioned=frozenset({"provisioned-pvc"}))
FULL = Found(NO_SPACE)
NET = capacity("net", WITH_PROVISIONER, {}, "1Gi")
CAPACITIES = {
    "network-attached": ([NET], FITS),
    "local-storage": ([capacity("net", WITH_PROVISIONER, {KEY: "node1"}, "1Gi")], FITS),
    "multiple": (
        [
            *(NET, capacity("net2", WITH_PROVISIONER, {KEY: "node2"}, "1Gi")),
            capacity("net1", WITH_PROVISIONER, {KEY: "node1"}, "1Gi"),
        ],
        FITS,
    ),
    "no-storage": ([], FULL),
    "wrong-node": ([capacity("net", WITH_PROVISIONER, {KEY: "node2"}, "1Gi")], FULL),
    "wrong-storage-class": ([capacity("net", WAIT, {KEY: "node1"}, "1Gi")], FULL),
    "insufficient-storage": ([capacity("net", WITH_PROVISIONER, {KEY: "node1"}, "1Mi")], FULL),
    "insufficient-volume-size": ([capacity("net", WITH_PROVISIONER, {KEY: "node1"}, "1Gi", "1Mi")], FULL),
    "zero-storage": ([capacity("net", WITH_PROVISIONER, {KEY: "node1"}, "0Mi")], FULL),
    "zero-volume-size": ([capacity("net", WITH_PROVISIONER, {KEY: "node1"}, None, "0Mi")], FULL),
    "nil-storage": ([capacity("net", WITH_PROVISIONER, {KEY: "node1"})], FULL),
    # Not in the table there: a capacity without a nodeTopology is on no node.
    "nil-topology": ([capacity("net", WITH_PROVISIONER, None, "1Gi")], FULL),
}


@pytest.mark.parametrize("publishes", [True, False])
@pytest.mark.parametrize("name", CAPACITIES)
def test_capacity(name: str, publishes: bool) -> None:
    capacities, wanted = CAPACITIES[name]
    storage = [driver(publishes=publishes), *capacities]
    assert found([PROVISIONED], storage) == (wanted if publishes else FITS)


def test_find_assume_volumes() -> None:
    """After the plan is assumed, the claim finds the same volume again, not the other of its size."""
    snapshot, bound = binding([NODE], [*CLASSES, NODE_2, NODE_1A, NODE_1C])
    plan = bound.find(read_claims([UNBOUND])).plan("node1")
    bound.ledger.assume(plan.claims)
    again = bound.find(read_claims([UNBOUND]))
    assert again.feasible[snapshot.row["node1"]]
    assert again.plan("node1") == plan
    # Nor any other volume once an object has the claim.
    bound.ledger.forget(plan.claims)
    snapshot, bound = binding([NODE], [*CLASSES, NODE_2, NODE_1A_BOUND, NODE_1C])
    assert [each.volume for each in bound.find(read_claims([UNBOUND])).plan("node1").bound] == ["pv-node1a"]


def written(name: str, volume: str, *, by_scheduler: bool = True) -> BoundVolume:
    return BoundVolume((NS, name), name, volume, by_scheduler)


ASSUMED = {
    "one-binding": ([UNBOUND], [NODE_1A], [written("unbound-pvc", "pv-node1a")], []),
    "two-bindings": (
        [UNBOUND, UNBOUND_2],
        [NODE_1A, NODE_1B],
        [written("unbound-pvc", "pv-node1a"), written("unbound-pvc2", "pv-node1b")],
        [],
    ),
    "pv-already-bound": (
        [UNBOUND],
        [NODE_1A_BOUND],
        [written("unbound-pvc", "pv-node1a", by_scheduler=False)],
        [],
    ),
    "one-binding, one-pvc-provisioned": (
        [UNBOUND, PROVISIONED],
        [NODE_1A],
        [written("unbound-pvc", "pv-node1a")],
        ["provisioned-pvc"],
    ),
}


@pytest.mark.parametrize("name", ASSUMED)
def test_assume_pod_volumes(name: str) -> None:
    """And RevertAssumedPodVolumes: after the plan is forgotten, all is as before."""
    claims, volumes, bound_volumes, provisioned = ASSUMED[name]
    _, bound = binding([NODE], [*CLASSES, *volumes])
    plan = bound.find(read_claims(claims)).plan("node1")
    assert list(plan.bound) == bound_volumes
    assert [each.claim[1] for each in plan.provisioned] == provisioned
    assert {each.node for each in plan.provisioned} <= {"node1"}
    bound.ledger.assume(plan.claims)
    assert all(bound.ledger.plan(each.claim) == each for each in plan.claims)
    bound.ledger.forget(plan.claims)
    assert not any(bound.ledger.plan(each.claim) for each in plan.claims)
    assert bound.find(read_claims(claims)).plan("node1") == plan


GOLD: Manifest = {"volumeAttributesClassName": "gold"}
SILVER: Manifest = {"volumeAttributesClassName": "silver"}


def matchable(attributes: Manifest) -> list[Manifest]:
    """Return the volumes of TestFindMatchVolumeWithNode; labels are by the key `key1`."""

    def at(value: str) -> list[Mapping[str, list[str]]]:
        return [{"key1": [value]}]

    return [
        volume("local001", "5G", "", **attributes),
        volume("local002", "9E", "large", **attributes),
        volume("affinity001", "100G", WAIT, on=at("value1"), **attributes),
        volume("affinity002", "150G", WAIT, on=at("value1"), **attributes),
        volume("affinity003", "100G", WAIT, on=at("value1"), claim="claim02", **attributes),
        volume("affinity003b", "200G", WAIT, on=at("value3"), **attributes),
        volume("affinity004", "200G", WAIT, on=at("value4"), phase="", **attributes),
    ]


WITH_NODE: dict[str, tuple[str, str, Manifest, Manifest, str | None]] = {
    "success-match": ("claim01", "value1", {}, {}, "affinity001"),
    "success-prebound": ("claim02", "value1", {}, {}, "affinity003"),
    "fail-accessmode": ("claim01", "value1", {}, {"accessModes": ["ReadWriteMany"]}, None),
    "fail-nodeaffinity": ("claim01", "value2", {}, {}, None),
    "fail-prebound-node-affinity": ("claim02", "value3", {}, {}, None),
    "fail-nonavaliable": ("claim04", "value4", {}, {}, None),
    "success-bad-and-good-node-affinity": ("claim03", "value3", {}, {}, "affinity003b"),
    "success-match-with-vac": ("claim01", "value1", GOLD, GOLD, "affinity001"),
    "fail-vac": ("claim01", "value1", {}, SILVER, None),
    "fail-prebound-vac": ("claim02", "value1", GOLD, SILVER, None),
}


@pytest.mark.parametrize("name", WITH_NODE)
def test_find_match_volume_with_node(name: str) -> None:
    claimed, label, of_volumes, of_claim, wanted = WITH_NODE[name]
    snapshot, bound = binding([node("n", key1=label)], [storage_class(WAIT), *matchable(of_volumes)])
    answer = bound.find(read_claims([claim(claimed, "100G", WAIT, **of_claim)]))
    if wanted is None:
        assert answer.reason(snapshot.row["n"]) == NO_VOLUME
    else:
        assert [each.volume for each in answer.plan("n").bound] == [wanted]


def test_find_match_volume_with_node_excludes_taken_volumes() -> None:
    """The cases success-exclusion and fail-exclusion: volumes that the pod's other claims took."""
    snapshot, bound = binding([node("n", key1="value1")], [storage_class(WAIT), *matchable({})])
    claims = [claim(name, "100G", WAIT) for name in ("claim01", "claim03", "claim05")]
    plan = bound.find(read_claims(claims[:2])).plan("n")
    assert plan == VolumePlan((written("claim01", "affinity001"), written("claim03", "affinity002")))
    assert bound.find(read_claims(claims)).reason(snapshot.row["n"]) == NO_VOLUME
