"""A gang is reported as too large only if no placement exists; requests add up as in the scheduler."""

from collections import Counter
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.audit.builders import container, node, pod

from podium.api.core import Container, Node, Pod, PodStatus, ResourceRequirements
from podium.api.devices import DeviceClass, DeviceClassSpec, provided_resources
from podium.api.meta import ObjectMeta
from podium.audit.capacity import ClusterCapacity

REQUESTS: list[tuple[str, list[Container], list[Container], dict[str, int]]] = [
    ("containers add up", [container({"cpu": "1"}), container({"cpu": "500m"})], [], {"cpu": 1500}),
    (
        "init containers run in turn",
        [container({"cpu": "1"})],
        [container({"cpu": "3"}), container({"cpu": "2"})],
        {"cpu": 3000},
    ),
    (
        "a sidecar runs beside the rest",
        [container({"cpu": "2"})],
        [container({"cpu": "1"}, restart="Always"), container({"cpu": "2500m"})],
        {"cpu": 3500},
    ),
    (
        "a later sidecar does not run beside an earlier init container",
        [container({"cpu": "1"})],
        [container({"cpu": "4"}), container({"cpu": "1"}, restart="Always")],
        {"cpu": 4000},
    ),
    ("a limit is asked for without a request", [container(None, {"cpu": "1"})], [], {"cpu": 1000}),
    ("a request is asked for under a limit", [container({"cpu": "1"}, {"cpu": "9"})], [], {"cpu": 1000}),
]


@pytest.mark.parametrize(
    ("containers", "init", "expected"), [case[1:] for case in REQUESTS], ids=[case[0] for case in REQUESTS]
)
def test_requests(containers: list[Container], init: list[Container], expected: dict[str, int]) -> None:
    assert ClusterCapacity([]).shape(pod("p", containers=containers, init=init)).request == expected


POD_LEVEL: list[tuple[str, ResourceRequirements, dict[str, int]]] = [
    ("a request of the pod stands instead", ResourceRequirements({"cpu": "9"}), {"cpu": 9000, "x.io/gpu": 2}),
    ("a smaller one, too", ResourceRequirements({"cpu": "2"}), {"cpu": 2000, "x.io/gpu": 2}),
    (
        "of what no container asks for",
        ResourceRequirements({"memory": "1", "hugepages-2Mi": "2"}),
        {"cpu": 3000, "x.io/gpu": 2, "memory": 1, "hugepages-2Mi": 2},
    ),
    (
        "a limit is asked for only where no container asks",
        ResourceRequirements(None, {"cpu": "9", "memory": "1"}),
        {"cpu": 3000, "x.io/gpu": 2, "memory": 1},
    ),
    (
        "a request is asked for under a limit",
        ResourceRequirements({"cpu": "4"}, {"cpu": "9"}),
        {"cpu": 4000, "x.io/gpu": 2},
    ),
    (
        "devices are asked for by containers only",
        ResourceRequirements({"x.io/gpu": "8"}),
        {"cpu": 3000, "x.io/gpu": 2},
    ),
    ("nothing", ResourceRequirements(), {"cpu": 3000, "x.io/gpu": 2}),
]


@pytest.mark.parametrize(
    ("whole", "expected"), [case[1:] for case in POD_LEVEL], ids=[case[0] for case in POD_LEVEL]
)
def test_pod_level_requests_count(whole: ResourceRequirements, expected: dict[str, int]) -> None:
    """The rule is kube-scheduler's PodRequests since pod-level resources (beta from 1.34 on)."""
    asking = pod("p", requests={"cpu": "1", "x.io/gpu": "2"}, init=[container({"cpu": "3"})])
    capacity = ClusterCapacity([])
    without = capacity.shape(asking)
    asking.spec = msgspec.structs.replace(asking.spec, resources=whole)
    asked = capacity.shape(asking).request
    assert asked == expected
    assert (capacity.shape(asking) is without) == (asked == without.request)


def test_no_gang_of_less_than_one_is_too_large() -> None:
    """A server stores no such pod, but a file may contain one."""
    capacity = ClusterCapacity([node("n", {"cpu": "1"})])
    members = {capacity.shape(pod("p", requests={"cpu": cpu})): 2 for cpu in ("7", "8")}
    assert capacity.shortfall(members, 1) is not None
    assert capacity.shortfall(members, 0) is None
    assert capacity.shortfall(members, -1) is None


def test_overhead_is_added_at_the_end() -> None:
    heavy = pod("p", requests={"cpu": "1"})
    heavy.spec.overhead = {"cpu": "250m", "memory": "1"}
    assert ClusterCapacity([]).shape(heavy).request == {"cpu": 1250, "memory": 1}


def test_a_resize_counts_once_the_pod_has_a_node() -> None:
    """The audit and plans count the same for a resized pod: the maximum of spec, allocation and cgroup."""
    resized = pod("p", requests={"cpu": "1"})
    resized.status = msgspec.convert(
        {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}, PodStatus
    )
    resized.spec.containers = [Container("main", ResourceRequirements({"cpu": "1"}))]
    resized.spec.nodeName = None
    assert ClusterCapacity([]).shape(resized).request == {"cpu": 1000}
    resized.spec.nodeName = "n"
    assert ClusterCapacity([]).shape(resized).request == {"cpu": 3000}


def test_a_node_with_more_than_any_machine_has_could_have_any_size() -> None:
    huge = ClusterCapacity([node("n", {"cpu": "1", "memory": "8Ei"})])
    assert huge.shortfall({huge.shape(pod("p", requests={"cpu": "2"})): 1}, 1) is None


@pytest.mark.parametrize("offered", [{}, {"example.com/gpu": "0"}, {"example.com/gpu": "1"}], ids=str)
def test_a_class_may_provide_any_amount_where_no_device_plugin_does(offered: dict[str, str]) -> None:
    nodes = [node("n", {"cpu": "8", **offered})]
    alone, classes = ClusterCapacity(nodes), ClusterCapacity(nodes, provided={"example.com/gpu"})
    asking = pod("p", requests={"example.com/gpu": "2"})
    assert alone.shortfall({alone.shape(asking): 2}, 2) is not None
    enough = classes.shortfall({classes.shape(asking): 2}, 2) is None
    assert enough == (offered.get("example.com/gpu") != "1")


def test_a_class_provides_the_resource_that_it_names_and_one_of_its_own_name() -> None:
    named = DeviceClass(metadata=ObjectMeta(name="a"), spec=DeviceClassSpec(extendedResourceName="x.io/a"))
    plain = DeviceClass(metadata=ObjectMeta(name="b"))
    prefix = "deviceclass.resource.kubernetes.io"
    assert provided_resources([named, plain]) == {"x.io/a", f"{prefix}/a", f"{prefix}/b"}


def test_pods_that_ask_for_the_same_have_one_shape() -> None:
    capacity = ClusterCapacity([])
    asks = ["1", "2", "3", "1000m", "4", "5", "6", "1"]
    shapes = [capacity.shape(pod("p", requests={"cpu": each})) for each in asks]
    assert [shapes.index(each) for each in shapes] == [0, 1, 2, 0, 4, 5, 6, 0]


def test_devices_have_a_domain_in_their_name() -> None:
    asking = pod(
        "p",
        requests={
            "cpu": "1",
            "nvidia.com/gpu": "2",
            "rdma/hca": "1",
            "amd.com/gpu": "0",
            "hugepages-2Mi": "4Mi",
        },
    )
    assert ClusterCapacity([]).shape(asking).devices() == {"nvidia.com/gpu": 2}


amounts = st.fixed_dictionaries(
    {"cpu": st.integers(0, 3).map(str), "example.com/gpu": st.integers(0, 3).map(str)}
)
nodes = st.lists(
    st.builds(
        lambda allocatable, pods: node("n", {**allocatable, **({"pods": str(pods)} if pods else {})}),
        amounts,
        st.sampled_from([0, 1, 2]),
    ),
    max_size=3,
)


@settings(max_examples=100)
@given(nodes, st.lists(amounts, min_size=1, max_size=4), st.integers(1, 4))
def test_a_gang_that_can_be_placed_is_never_too_large(
    room: list[Node], asked: list[dict[str, str]], min_count: int
) -> None:
    """The oracle tries every assignment of members to nodes (or to none)."""
    members = [pod(f"p-{index}", requests=dict(each)) for index, each in enumerate(asked)]
    capacity = ClusterCapacity(room)
    if not room:
        assert capacity.shortfall(Counter(map(capacity.shape, members)), min_count) is None
        return
    short = capacity.shortfall(Counter(map(capacity.shape, members)), min_count)
    if min_count <= len(members) and _placeable(room, members, min_count):
        assert short is None
    if len({tuple(sorted(each.items())) for each in asked}) == 1 and min_count <= len(members):
        assert (short is None) == _placeable(room, members, min_count)


def _placeable(room: list[Node], members: list[Pod], min_count: int) -> bool:
    for places in product(range(-1, len(room)), repeat=len(members)):
        if sum(place >= 0 for place in places) >= min_count and _fits(room, members, places):
            return True
    return False


def _fits(room: list[Node], members: list[Pod], places: tuple[int, ...]) -> bool:
    for index, each in enumerate(room):
        here = [member for member, place in zip(members, places, strict=True) if place == index]
        assert each.status is not None
        allocatable = each.status.allocatable or {}
        if len(here) > int(allocatable.get("pods", 99)):
            return False
        for name in ("cpu", "example.com/gpu"):
            asked = 0
            for member in here:
                only = (member.spec.containers or [])[0]
                assert only.resources is not None
                asked += int((only.resources.requests or {})[name])
            if asked > int(allocatable[name]):
                return False
    return True
