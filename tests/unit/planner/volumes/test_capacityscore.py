"""StorageCapacityScoring: the cases of kube-scheduler's scorer_test.go and volume_binding_test.go."""

import numpy as np
import pytest
from tests.support.volumes.manifests import (
    DRIVER,
    HOST,
    ZONE,
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

from podium.planner.plugins.volumes.delayed import MOST_FREE, CapacityShape, StorageDemand, capacity_scores

CUSTOM: CapacityShape = ((50, 0), (80, 30), (100, 50))

# The requested bytes of each class, of 100 bytes, and the score.
SHAPED = [
    *((MOST_FREE, (0,), 100), (MOST_FREE, (30,), 70), (MOST_FREE, (50,), 50), (MOST_FREE, (100,), 0)),
    *((MOST_FREE, (0, 0), 100), (MOST_FREE, (0, 30), 85), (MOST_FREE, (30, 30), 70)),
    *((MOST_FREE, (30, 60), 55), (MOST_FREE, (50, 50), 50), (MOST_FREE, (50, 100), 25)),
    (MOST_FREE, (100, 100), 0),
    *((CUSTOM, (0, 0), 0), (CUSTOM, (0, 30), 0), (CUSTOM, (30, 30), 0), (CUSTOM, (30, 60), 5)),
    *((CUSTOM, (50, 100), 25), (CUSTOM, (90, 90), 40), (CUSTOM, (100, 100), 50)),
    # Not in the table there: more than there is counts as full, and no class as 0.
    *((MOST_FREE, (101,), 0), (MOST_FREE, (), 0)),
]


@pytest.mark.parametrize(("shape", "requested", "score"), SHAPED)
def test_shapes(shape: CapacityShape, requested: tuple[int, ...], score: int) -> None:
    demands = []
    for each in requested:
        demands.append(StorageDemand(1))
        demands[-1].bind(np.ones(1, np.bool_), each, np.full(1, 100))
    assert capacity_scores(demands, shape, 1).tolist() == [score]


WAIT, HDD, TRACKED = "wait-sc", "wait-hdd-sc", "wait-sc-with-storage-capacity"
STORAGE = [storage_class(WAIT, ""), storage_class(HDD, ""), storage_class(TRACKED, DRIVER), driver()]


def zonal(name: str) -> Manifest:
    return node(f"{name[:6]}-{name}", zone=name[:6], **{"topology.kubernetes.io/region": "r" + name[4:6]})


def local(name: str, host: str, size: str, of: str = WAIT) -> Manifest:
    return volume(name, size, of, on=[{HOST: [host]}])


def in_zone(name: str, zone: str, size: str) -> Manifest:
    return volume(name, size, WAIT, on=[{"topology.kubernetes.io/region": ["r" + zone[4:]], ZONE: [zone]}])


def segment(host: str, size: str) -> Manifest:
    return capacity(host, TRACKED, {HOST: host}, size)


ABC = ("node-a", "node-b", "node-c")
LOCAL = [
    *(local("pv-a-0", "node-a", "200Gi"), local("pv-a-1", "node-a", "200Gi")),
    *(local("pv-b-0", "node-b", "100Gi"), local("pv-b-1", "node-b", "100Gi")),
]
LOCAL_HDD = [
    *(local("pv-a-2", "node-a", "200Gi", HDD), local("pv-a-3", "node-a", "200Gi", HDD)),
    *(local("pv-b-2", "node-b", "100Gi", HDD), local("pv-b-3", "node-b", "100Gi", HDD)),
]
ZONAL = [
    *(in_zone("pv-a-0", "zone-a", "200Gi"), in_zone("pv-a-1", "zone-a", "200Gi")),
    *(in_zone("pv-b-0", "zone-b", "100Gi"), in_zone("pv-b-1", "zone-b", "100Gi")),
]
ZONES = tuple(zonal(f"zone-{letter}-{number}") for letter in "abc" for number in (1, 2))
STATIC = [local(f"pv-static-{host}", host, "100Gi") for host in ABC]
ONE, DYNAMIC = claim("pvc-a", "50Gi", WAIT), claim("pvc-dynamic", "10Gi", TRACKED)
TWICE = [claim("pvc-dynamic-0", "50Gi", TRACKED), claim("pvc-dynamic-1", "50Gi", TRACKED)]
WIDE = [segment("node-a", "100Gi"), segment("node-b", "50Gi"), segment("node-c", "10Gi")]
NARROW = [segment("node-a", "100Gi"), segment("node-b", "20Gi"), segment("node-c", "10Gi")]
HOSTS = tuple(node(name) for name in ABC)
LEAST_FREE: CapacityShape = ((0, 0), (100, 100))

# The nodes, the claims, the storage, the shape, and the score of each node that passes.
SCORED = {
    "local volumes with close capacity are preferred": (HOSTS, [ONE], LOCAL, MOST_FREE, (75, 50)),
    "local volumes with close capacity are preferred (multiple pvcs)": (
        HOSTS,
        [claim("pvc-0", "50Gi", WAIT), claim("pvc-1", "100Gi", HDD)],
        [*LOCAL, *LOCAL_HDD],
        MOST_FREE,
        (63, 25),
    ),
    "zonal volumes with close capacity are preferred": (ZONES, [ONE], ZONAL, MOST_FREE, (75, 75, 50, 50)),
    "zonal volumes with close capacity are preferred (custom shape)": (
        ZONES,
        [ONE],
        ZONAL,
        ((0, 0), (50, 30), (100, 50)),
        (15, 15, 30, 30),
    ),
    "storage capacity score": (HOSTS, [DYNAMIC], WIDE, MOST_FREE, (90, 80, 0)),
    "storage capacity score with static binds": (
        HOSTS,
        [DYNAMIC, claim("pvc-static", "50Gi", WAIT)],
        [*STATIC, *WIDE],
        MOST_FREE,
        (50, 50, 50),
    ),
    "dynamic provisioning with multiple PVCs of the same StorageClass": (
        HOSTS[:1],
        TWICE,
        [segment("node-a", "100Gi")],
        MOST_FREE,
        (0,),
    ),
    "prefer node with least allocatable": (HOSTS, [DYNAMIC], NARROW, LEAST_FREE, (10, 50, 100)),
    "prefer node with maximum allocatable": (HOSTS, [DYNAMIC], NARROW, MOST_FREE, (90, 50, 0)),
}


@pytest.mark.parametrize("name", SCORED)
def test_scores_of_nodes(name: str) -> None:
    nodes, claims, storage, shape, wanted = SCORED[name]
    snapshot, bound = binding(nodes, [*STORAGE, *storage])
    found = bound.find(read_claims(claims))
    rows = [snapshot.row[each["metadata"]["name"]] for each in nodes]
    assert [bool(found.feasible[row]) for row in rows] == [True] * len(wanted) + [False] * (
        len(rows) - len(wanted)
    )
    assert tuple(found.scores(shape)[rows].tolist())[: len(wanted)] == wanted
