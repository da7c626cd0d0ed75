"""The map of a cluster: the styles of cells, the level of detail, and the bounds of its size."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.render.cluster import GPU, large, node, pod, state

from podium.api.core import Node, Pod, PriorityClass
from podium.api.meta import ObjectMeta
from podium.cli.render.pictures import clustermap
from podium.cli.render.pictures.clustermap import ClusterMap, NodeUse, cluster_map, panels
from podium.cli.render.pictures.drawing import WIDTH, Box, Parts, Spot, Style
from podium.cli.render.pictures.sections import map_section
from podium.cluster.state import ClusterState

# The size limit of the whole section, for any cluster.
BYTES = 200_000
HIGH = PriorityClass(metadata=ObjectMeta(name="high"), value=1000)
A, B = Style.BAND_1, Style.BAND_2


def drawn(view: ClusterState) -> ClusterMap:
    made = cluster_map(view)
    assert made is not None
    return made


def only(view: ClusterState) -> NodeUse:
    (use,) = drawn(view).nodes
    return use


CASES: dict[str, tuple[list[Node | Pod], Parts]] = {
    "an idle node is free": ([node("n")], ((Style.FREE, 8),)),
    "a cordoned node is not free": ([node("n", cordoned=True)], ((Style.CORDONED, 8),)),
    "the highest priority comes first": (
        [node("n"), pod("low", "n", 0, gpu=2), pod("high", "n", 1000, gpu=4)],
        ((A, 4), (B, 2), (Style.FREE, 2)),
    ),
    "a terminating pod has no priority": (
        [node("n"), pod("a", "n", 0, gpu=2), pod("b", "n", 1000, gpu=4, leaves=True)],
        ((A, 2), (Style.TERMINATING, 4), (Style.FREE, 2)),
    ),
    "requests above the capacity are cut": (
        [node("n"), pod("a", "n", 5, gpu=6), pod("b", "n", 1, gpu=6)],
        ((A, 6), (B, 2)),
    ),
    "pods of other nodes and without accelerators do not count": (
        [node("n"), pod("a", "gone", 5, gpu=6), pod("b", "n", 1, cpu=4), pod("c", "", 1, gpu=8)],
        ((Style.FREE, 8),),
    ),
    "cpu counts if no node has accelerators": (
        [node("n", 0), pod("a", "n", 1, cpu=24)],
        ((A, 24_000), (Style.FREE, 72_000)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cells_of_a_node(name: str) -> None:
    objects, parts = CASES[name]
    assert only(state(objects)).parts == parts


@pytest.mark.parametrize(
    ("gpus", "words"), [(8, "1 node, 6 of 8 free (nvidia.com/gpu)."), (0, "1 node, 94.5 of 96 cpu free.")]
)
def test_the_map_says_what_is_free(gpus: int, words: str) -> None:
    assert words in map_section(cluster_map(state([node("n", gpus), pod("a", "n", 1, gpu=2, cpu="1500m")])))


def test_without_nodes_there_is_no_map() -> None:
    assert cluster_map(state([pod("a", "n", 1, gpu=1)])) is None
    assert map_section(None) == ""


def test_each_node_shows_the_accelerator_that_pods_hold_most() -> None:
    """A node without accelerators is counted, not drawn."""
    both = node("both")
    assert both.status is not None
    assert both.status.allocatable is not None
    both.status.allocatable["example.com/nic"] = "64"
    made = drawn(
        state([both, node("tpu", 4, gpu="google.com/tpu"), node("cpu", 0), pod("a", "both", 1, gpu=1)])
    )
    assert {each.name: each.resource for each in made.nodes} == {"both": GPU, "tpu": "google.com/tpu"}
    assert made.unshown == 1
    assert "1 node without accelerators not shown" in map_section(made)


def test_few_priorities_have_a_band_each_with_the_class() -> None:
    made = drawn(state([HIGH, node("n"), pod("a", "n", 1000, gpu=1), pod("b", "n", 5, gpu=1)]))
    assert [str(band) for band in made.bands] == ["1000 (high)", "5"]


def test_many_priorities_are_put_together_where_least_is_held() -> None:
    pods = [pod(f"p{each}", "n", each, gpu=each) for each in (1, 2, 3, 10, 20, 30, 40)]
    made = drawn(state([node("n", 200), *pods]))
    assert [str(band) for band in made.bands] == ["40", "30", "20", "10", "1 to 3"]
    assert made.total[Style.BAND_5] == 6


LEVELS = {
    "few nodes are rows with names": (large(20), 3, "node-0", 20),
    "hundreds are blocks": (large(100), 3, None, 100),
    "hundreds in racks have a panel a rack": (large(100, racks=5), 5, None, 100),
    "thousands are rows of racks": (large(2000, racks=40), 3, "rack-0", 40),
    "thousands without racks are rows of equal nodes": (large(2000), 3, "other states", 48),
}


@pytest.mark.parametrize("name", LEVELS)
def test_the_detail_depends_on_the_number_of_nodes(name: str) -> None:
    view, number, label, spots = LEVELS[name]
    made = panels(drawn(view))
    assert len(made) == number
    labels = [each.words for panel in made for each in panel.drawing.labels]
    assert label in labels if label else not labels
    assert sum(len(panel.drawing.spots) for panel in made) == spots


DOMAINS = {
    "rack": ({"topology.kubernetes.io/rack": 4}, "topology.kubernetes.io/rack"),
    "the smallest domains": (
        {"topology.kubernetes.io/zone": 2, "cloud.provider.com/topology-block": 8},
        "cloud.provider.com/topology-block",
    ),
    "one domain says nothing": ({"topology.kubernetes.io/zone": 1}, ""),
    "a domain a node says nothing": ({"example.com/rack": 40}, ""),
    "another label is no domain": ({"kubernetes.io/hostname": 8, "example.com/blockade": 8}, ""),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_the_label_of_the_domains(name: str) -> None:
    numbers, label = DOMAINS[name]
    nodes = [
        node(f"n{at}", labels={key: f"v{at % number}" for key, number in numbers.items()}) for at in range(40)
    ]
    assert drawn(state(nodes)).label == label


def test_names_are_in_the_order_of_their_numbers() -> None:
    made = drawn(state([node("n10"), node("n9"), node("n1-b"), node("n1-a"), node("")]))
    assert [each.name for each in made.nodes] == ["", "n1-a", "n1-b", "n9", "n10"]


@pytest.mark.parametrize("gpus", [1, 8, 16, 100])
@pytest.mark.parametrize(
    ("nodes", "racks"), [(24, 0), (256, 0), (256, 20), (257, 0), (5000, 0), (5000, 47), (5000, 500)]
)
def test_the_picture_of_any_cluster_is_small(nodes: int, racks: int, gpus: int) -> None:
    """The limit holds even if each name is long and grows by escaping."""
    evil = '"' * 200
    section = map_section(cluster_map(large(nodes, gpus=gpus, racks=racks, name=lambda name: evil + name)))
    assert len(section.encode()) < BYTES
    rows = len(re.findall('class="spot"', section))
    assert rows <= (nodes if nodes <= clustermap.BLOCKS else clustermap.ROWS)


@settings(max_examples=30)
@given(
    nodes=st.integers(1, 60),
    gpus=st.integers(0, 20),
    racks=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_nothing_is_lost_or_outside(nodes: int, gpus: int, racks: int, seed: int) -> None:
    """Amounts add up to the allocatable, and shapes are within their drawing without overlap."""
    made = drawn(large(nodes, gpus=gpus, racks=racks, seed=seed))
    assert made.total.total() == nodes * (gpus or 96_000)
    for panel in panels(made):
        corners = Counter((box.x, box.y) for box in panel.drawing.boxes)
        assert max(corners.values()) == 1
        shapes: list[Box | Spot] = [*panel.drawing.boxes, *panel.drawing.spots]
        for box in shapes:
            assert 0 <= box.x <= box.x + box.width <= WIDTH
            assert 0 <= box.y <= box.y + box.height <= panel.drawing.height
