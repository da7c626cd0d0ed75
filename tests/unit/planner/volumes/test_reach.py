"""The nodes from which bound volumes can be reached, by node affinity and by zone labels.

The cases of zones are those of upstream's volume_zone_test.go (TestSingleZone, TestMultiZone).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.filters.builders import NS, claim, mounts, node, pod, volume
from tests.support.filters.picture import snapshot_of

from podium.planner.filters.chain import Chain

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
NO_ZONE = "node(s) had no available volume zone"
NO_MATCH = "node(s) didn't match PersistentVolume's node affinity"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

Labels = Mapping[str, str]
A = "us-west1-a"
SEVERAL = "us-west1-c__us-west1-a"
ZONES: dict[str, tuple[Labels, Labels, bool]] = {
    "node without labels": ({BETA_ZONE: A}, {}, True),
    "beta zone label matched": ({BETA_ZONE: A}, {BETA_ZONE: A, "useless": "none"}, True),
    "beta region label matched": ({BETA_REGION: "r", "useless": "none"}, {BETA_REGION: "r"}, True),
    "beta region label doesn't match": ({BETA_REGION: "r"}, {BETA_REGION: "other"}, False),
    "beta zone label doesn't match": ({BETA_ZONE: A}, {BETA_ZONE: "other"}, False),
    "zone label matched": ({ZONE: A}, {ZONE: A}, True),
    "region label matched": ({REGION: "r"}, {REGION: "r"}, True),
    "region label doesn't match": ({REGION: "r"}, {REGION: "other"}, False),
    "zone label doesn't match": ({ZONE: A}, {ZONE: "other"}, False),
    "pv with zone and region, node with only zone": ({ZONE: A, REGION: A}, {ZONE: A}, False),
    "pv with zone, node with beta zone": ({ZONE: A}, {BETA_ZONE: A}, False),
    "pv with beta label, node with ga label, matched": ({BETA_ZONE: A}, {ZONE: A}, True),
    "pv with beta label, node with ga label, don't match": ({BETA_ZONE: A}, {ZONE: "other"}, False),
    "pv with beta label, node with both, the old one decides": (
        {BETA_ZONE: A},
        {BETA_ZONE: "x", ZONE: A},
        False,
    ),
    "several zones, node without labels": ({BETA_ZONE: SEVERAL}, {}, True),
    "several beta zones matched": ({BETA_ZONE: SEVERAL}, {BETA_ZONE: A}, True),
    "several zones matched": ({ZONE: SEVERAL}, {ZONE: A}, True),
    "several zones don't match": ({ZONE: SEVERAL}, {ZONE: "us-west1-b"}, False),
    "an empty zone among several is no constraint": ({ZONE: "us-west1-c__"}, {ZONE: A}, True),
    "no label of zones": ({"useless": "none"}, {ZONE: A}, True),
}


def reasons(spec: dict[str, Any], *objects: object) -> dict[str, tuple[str, ...]]:
    """Return the reasons against each node."""
    snapshot = snapshot_of(*objects)
    chain, wanted = Chain(snapshot, {}), snapshot.shape_of(pod("p", **spec))
    assert wanted.missing == ()
    found = {name: chain.reasons(wanted, row) for name, row in snapshot.row.items()}
    assert {name for name, why in found.items() if not why} == {
        snapshot.node_name(row) for row in chain.feasible(wanted).nonzero()[0].tolist()
    }
    return found


@pytest.mark.parametrize(("labels", "of_node", "reached"), ZONES.values(), ids=ZONES)
def test_zone_labels(labels: Labels, of_node: Labels, reached: bool) -> None:
    found = reasons(mounts("c"), claim("c", "v"), volume("v", labels=labels), node("n", labels=of_node))
    assert found == {"n": () if reached else (NO_ZONE,)}


def test_the_zone_of_an_ephemeral_volume_is_no_constraint() -> None:
    """kube-scheduler's VolumeZone looks only at claims that the pod names."""
    mine = claim("p-tmp", "v", owner=f"{NS}-p")
    objects = (mine, volume("v", labels={ZONE: A}), node("n", labels={ZONE: "other"}))
    assert reasons(mounts(ephemeral=["tmp"]), *objects) == {"n": ()}


def terms(**labels: str) -> list[dict[str, Any]]:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return [{"matchExpressions": expressions}]


AFFINITY: dict[str, tuple[Sequence[Mapping[str, Any]] | None, bool]] = {
    "none": (None, True),
    "no terms match no node": ([], False),
    "an empty term matches no node": ([{}], False),
    "matched": (terms(disk="ssd"), True),
    "doesn't match": (terms(disk="hdd"), False),
    "one of two terms": ([*terms(disk="hdd"), *terms(disk="ssd")], True),
    "both labels of a term": (terms(disk="ssd", rack="2"), False),
    "the name is not compared": (
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}],
        True,
    ),
}


@pytest.mark.parametrize(("affinity", "reached"), AFFINITY.values(), ids=AFFINITY)
def test_node_affinity(affinity: Sequence[Mapping[str, Any]] | None, reached: bool) -> None:
    found = reasons(
        mounts("c"), claim("c", "v"), volume("v", terms=affinity), node("n", labels={"disk": "ssd"})
    )
    assert found == {"n": () if reached else (NO_MATCH,)}


def test_every_volume_of_a_pod_must_be_reached() -> None:
    objects = [
        claim("a", "v"),
        claim("b", "w"),
        volume("v", terms=terms(disk="ssd")),
        volume("w", terms=terms(rack="1")),
    ]
    nodes = [node("both", labels={"disk": "ssd", "rack": "1"}), node("one", labels={"disk": "ssd"})]
    assert reasons(mounts("a", "b"), *objects, *nodes) == {"both": (), "one": (NO_MATCH,)}


@pytest.mark.parametrize("first", [True, False], ids=["the missing one comes first", "it comes last"])
def test_the_missing_volume_of_an_ephemeral_claim_refuses_each_node(first: bool) -> None:
    """The volumes before it are checked; a claim that the pod names would refuse the pod as a whole."""
    named, ephemeral = mounts("c")["volumes"], mounts(ephemeral=["tmp"])["volumes"]
    spec = {"volumes": [*ephemeral, *named] if first else [*named, *ephemeral]}
    objects = [claim("p-tmp", "gone", owner=f"{NS}-p"), claim("c", "v"), volume("v", terms=terms(disk="ssd"))]
    nodes = [node("near", labels={"disk": "ssd"}), node("far")]
    far = MISSING if first else NO_MATCH
    assert reasons(spec, *objects, *nodes) == {"near": (MISSING,), "far": (far,)}
