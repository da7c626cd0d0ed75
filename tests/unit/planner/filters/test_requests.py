"""The requests of a pod and the capacity of a node: cases with kube-scheduler's answers, and an oracle."""

from collections import Counter
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import container, node, pod
from tests.support.steps import steps

from podium.api import podrequests as requests
from podium.api.podrequests import LARGEST, LATEST, MOST_NAMES, UnusableQuantity, allocatable, pod_requests
from podium.api.schedulable import Schedulable, SchedulableNode

GIB = 2**30
DEFAULT_MEMORY = 200 * 2**20


def amounts(made: Schedulable, minor: int = LATEST) -> dict[str, int]:
    """Return the requests of a pod, without the place that every pod takes."""
    taken = pod_requests(made, minor)
    assert taken.unusable == ()
    assert minor != LATEST or requests.amounts(made) == taken.amounts
    found = dict(taken.amounts)
    assert found.pop("pods") == 1
    return found


def sidecar(cpu: str) -> dict[str, Any]:
    return container({"cpu": cpu}, sidecar=True)


def init(cpu: str) -> dict[str, Any]:
    return container({"cpu": cpu})


SPECS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing asked": ({}, {}),
    "milli and units": ({"requests": {"cpu": "1.5", "memory": "1Gi"}}, {"cpu": 1500, "memory": GIB}),
    "a bare number": ({"requests": {"cpu": 2, "memory": 1e9}}, {"cpu": 2000, "memory": 10**9}),
    "rounded up": ({"requests": {"cpu": "100u", "memory": "1500m"}}, {"cpu": 1, "memory": 2}),
    "zero is not asked": ({"requests": {"cpu": "0", "example.com/gpu": "0"}}, {}),
    "extended resources, hugepages, disks": (
        {"requests": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1k"}},
        {"example.com/gpu": 2, "hugepages-2Mi": 4 * 2**20, "ephemeral-storage": 1000},
    ),
    "names that kube-scheduler ignores": (
        {"requests": {"storage": "1Gi", "foo": "1", "requests.example.com/a": "1", "pods": "7"}},
        {},
    ),
    "a prefixed native name counts": (
        {"requests": {"kubernetes.io/batteries": "1"}},
        {"kubernetes.io/batteries": 1},
    ),
    "containers add up": ({"containers": [init("1"), init("2")]}, {"cpu": 3000}),
    "fractions add up before they are rounded": (
        {"containers": [container({"memory": "100m"}), container({"memory": "200m"})]},
        {"memory": 1},
    ),
    "a limit stands for a request that does not exist": (
        {"containers": [container({"cpu": "1"}, {"cpu": "2", "example.com/gpu": "1"})]},
        {"cpu": 1000, "example.com/gpu": 1},
    ),
    "init containers run in turn": ({"initContainers": [init("2"), init("5"), init("1")]}, {"cpu": 5000}),
    "a small init container costs nothing": (
        {"requests": {"cpu": "3"}, "initContainers": [init("2")]},
        {"cpu": 3000},
    ),
    "sidecars run beside containers": (
        {"requests": {"cpu": "3"}, "initContainers": [sidecar("1"), sidecar("2")]},
        {"cpu": 6000},
    ),
    "init containers run beside the sidecars before them": (
        {"requests": {"cpu": "1"}, "initContainers": [sidecar("1"), init("5"), sidecar("2"), init("4")]},
        {"cpu": 7000},
    ),
    "each resource peaks by itself": (
        {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "initContainers": [container({"cpu": "2"}), container({"memory": "2Gi"})],
        },
        {"cpu": 2000, "memory": 2 * GIB},
    ),
    "overhead on top of the peak": (
        {
            "requests": {"cpu": "1"},
            "initContainers": [init("5")],
            "overhead": {"cpu": "250m", "memory": "120Mi"},
        },
        {"cpu": 5250, "memory": 120 * 2**20},
    ),
    "the pod's own request replaces what containers ask for": (
        {"requests": {"cpu": "5", "example.com/gpu": "1"}, "resources": {"requests": {"cpu": "2"}}},
        {"cpu": 2000, "example.com/gpu": 1},
    ),
    "overhead on top of the pod's own request": (
        {"requests": {"cpu": "5"}, "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}},
        {"cpu": 3000},
    ),
    "a pod asks for no device as a whole": (
        {"resources": {"requests": {"example.com/gpu": "2", "ephemeral-storage": "1Gi"}}},
        {},
    ),
    "a limit of the pod is asked for only where no container asks": (
        {"requests": {"cpu": "1"}, "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}},
        {"cpu": 1000, "memory": GIB},
    ),
    "what has no node yet is judged by its spec alone": (
        {
            "requests": {"cpu": "1"},
            "status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]},
        },
        {"cpu": 1000},
    ),
}


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize(("spec", "expected"), SPECS.values(), ids=SPECS)
def test_requests_of_a_spec_equal_kube_schedulers(
    spec: dict[str, Any], expected: dict[str, int], minor: int
) -> None:
    assert amounts(pod("p", **spec), minor) == expected


def resized(name: str = "main", allocated: str | None = None, actual: str | None = None) -> dict[str, Any]:
    """Make a container's status as a kubelet writes it during a resize of cpu."""
    return {
        "name": name,
        "allocatedResources": {"cpu": allocated} if allocated else None,
        "resources": {"requests": {"cpu": actual}} if actual else None,
    }


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
TWO = {"containers": [container({"cpu": "1"}, name="a"), container({"cpu": "4"}, name="b")]}
TWO_RESIZED = {"containerStatuses": [resized("a", "3", "3"), resized("b", "2", "2")]}
# A running pod: spec, status, millis of cpu for 1.37, and for 1.36.
RESIZES: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "no resize": (
        {"requests": {"cpu": "2"}},
        {"containerStatuses": [resized(allocated="2", actual="2")]},
        2000,
        2000,
    ),
    "growing": (
        {"requests": {"cpu": "3"}},
        {"containerStatuses": [resized(allocated="2", actual="1")]},
        3000,
        3000,
    ),
    "shrinking": (
        {"requests": {"cpu": "1"}},
        {"containerStatuses": [resized(allocated="2", actual="3")]},
        3000,
        3000,
    ),
    "a deferred resize keeps its claim": (
        {"requests": {"cpu": "9"}},
        {"containerStatuses": [resized(allocated="2", actual="2")], "conditions": [DEFERRED]},
        9000,
        9000,
    ),
    "an infeasible resize claims nothing": (
        {"requests": {"cpu": "9"}},
        {"containerStatuses": [resized(allocated="2", actual="1")], "conditions": [INFEASIBLE]},
        2000,
        2000,
    ),
    # 1.37 compares sums, 1.36 adds up the maximum of each container.
    "two resizes, opposite ways": (TWO, TWO_RESIZED, 5000, 7000),
    "an allocation alone": (
        {"requests": {"cpu": "1"}},
        {"containerStatuses": [resized(allocated="2")]},
        2000,
        1000,
    ),
    "a sidecar resized": (
        {"requests": {"cpu": "1"}, "initContainers": [container({"cpu": "1"}, name="side", sidecar=True)]},
        {"initContainerStatuses": [resized("side", "3", "3")]},
        4000,
        4000,
    ),
    "an init container never resizes in 1.36": (
        {"initContainers": [container({"cpu": "1"}, name="init")]},
        {"initContainerStatuses": [resized("init", "3", "3")]},
        3000,
        1000,
    ),
    "a pod's own request resized": (
        {"resources": {"requests": {"cpu": "2"}}},
        {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "1"}}},
        3000,
        3000,
    ),
    "a pod's own infeasible request": (
        {"resources": {"requests": {"cpu": "9"}}},
        {
            "allocatedResources": {"cpu": "3"},
            "resources": {"requests": {"cpu": "1"}},
            "conditions": [INFEASIBLE],
        },
        3000,
        3000,
    ),
    "the pod's totals stand for its containers' in 1.37": (
        {"requests": {"cpu": "1"}},
        {
            "containerStatuses": [resized(allocated="5", actual="5")],
            "allocatedResources": {"cpu": "2"},
            "resources": {"requests": {"cpu": "2"}},
        },
        2000,
        5000,
    ),
}


@pytest.mark.parametrize(("spec", "status", "newer", "older"), RESIZES.values(), ids=RESIZES)
def test_a_resize_counts_for_a_pod_with_a_node(
    spec: dict[str, Any], status: dict[str, Any], newer: int, older: int
) -> None:
    running = pod("p", node="n", status=status, **spec)
    assert amounts(running, 37) == {"cpu": newer}
    assert amounts(running, 36) == {"cpu": older}


SCORED: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "a container that asks for nothing": ({}, (100, DEFAULT_MEMORY)),
    "each container by itself": (
        {"containers": [init("1"), container({"memory": "1Gi"})]},
        (1100, DEFAULT_MEMORY + GIB),
    ),
    "zero is asked for": ({"requests": {"cpu": "0", "memory": "0"}}, (0, 0)),
    "a request of the pod": ({"resources": {"requests": {"cpu": "2"}}}, (2000, DEFAULT_MEMORY)),
    "all asked for": ({"requests": {"cpu": "2", "memory": "1Gi"}, "overhead": {"cpu": "1"}}, (3000, GIB)),
    "sidecars too": ({"initContainers": [container(sidecar=True)]}, (200, 2 * DEFAULT_MEMORY)),
}


@pytest.mark.parametrize(("spec", "expected"), SCORED.values(), ids=SCORED)
def test_scores_count_a_default_for_a_missing_request(
    spec: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert pod_requests(pod("p", **spec)).scored == expected


UNUSABLE: dict[str, tuple[dict[str, Any], UnusableQuantity]] = {
    "negative": (
        {"requests": {"memory": "-1", "cpu": "1"}},
        UnusableQuantity("spec.containers[0].resources.requests[memory]", "'-1' is negative"),
    ),
    "no quantity": (
        {"initContainers": [container({"memory": "lots"})], "requests": {"cpu": "1"}},
        UnusableQuantity(
            "spec.initContainers[0].resources.requests[memory]",
            "'lots' is not a quantity: write a number with a suffix, such as 500m or 2Gi",
        ),
    ),
    "more than any machine has": (
        {"requests": {"cpu": "1", "example.com/gpu": str(LARGEST + 1)}},
        UnusableQuantity("spec[example.com/gpu]", f"{LARGEST + 1} is more than any machine has"),
    ),
    "a sum that is": (
        {"containers": [container({"cpu": "1", "memory": str(LARGEST)}), container({"memory": "1"})]},
        UnusableQuantity("spec[memory]", f"{LARGEST + 1} is more than any machine has"),
    ),
}


@pytest.mark.parametrize(("spec", "named"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_request_is_named_and_counts_as_more_than_any_node_has(
    spec: dict[str, Any], named: UnusableQuantity
) -> None:
    taken = pod_requests(pod("p", **spec))
    assert taken.unusable == (named,)
    resource = named.field[named.field.rindex("[") + 1 : -1]
    assert taken.amounts == {"cpu": 1000, "pods": 1, resource: LARGEST}
    assert requests.amounts(pod("p", **spec)) == {"cpu": 1000, "pods": 1}


CLAIMS: dict[str, tuple[list[dict[str, Any]], dict[str, int]]] = {
    "nothing": ([{}], {}),
    "1.36": ([{"resources": {"cpu": "1", "memory": "1Gi"}}], {"cpu": 1000, "memory": GIB}),
    "1.37": (
        [{"mapping": [{"name": "cpu", "quantity": "1"}, {"name": "cpu", "quantity": "500m"}]}],
        {"cpu": 1500},
    ),
    "several claims": ([{"resources": {"cpu": "1"}}, {"resources": {"cpu": "2"}}], {"cpu": 3000}),
}


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_first_resources_count_and_always_those_of_each_pod(beyond: int) -> None:
    names = {f"a.example/{number:05}": "1" for number in range(MOST_NAMES - 3 + beyond)}
    taken = pod_requests(pod("p", {**names, "cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}))
    assert taken.amounts.items() >= {"cpu": 1000, "memory": GIB, "ephemeral-storage": 1, "pods": 1}.items()
    offered, unusable = allocatable(node("n", names))
    assert offered.items() >= {"cpu": 4000, "memory": 16 * GIB, "pods": 110}.items()
    for counted, wrong, path in (
        (taken.amounts.keys() - {"pods"}, taken.unusable, "spec"),
        (offered, unusable, "status.allocatable"),
    ):
        assert len(counted) == MOST_NAMES
        assert wrong == ((UnusableQuantity(path, "has more than 1,000 resources"),) if beyond else ())


def test_resources_that_do_not_count_are_not_read() -> None:
    """A pod may name 20,000, and a node may offer as many."""

    def work(number: int) -> int:
        names = {f"a.example/{at:05}": "1" for at in range(number)}
        asking, offering = pod("p", names), node("n", names)
        return steps(lambda: pod_requests(asking)) + steps(lambda: allocatable(offering))

    assert work(20 * MOST_NAMES) <= 1.1 * work(2 * MOST_NAMES)


@pytest.mark.parametrize(("claims", "more"), CLAIMS.values(), ids=CLAIMS)
def test_allocatable_used_through_claims_is_added(claims: list[dict[str, Any]], more: dict[str, int]) -> None:
    status = {"nodeAllocatableResourceClaimStatuses": claims}
    expected = {
        "cpu": 1000 + more.get("cpu", 0),
        **{name: each for name, each in more.items() if name != "cpu"},
    }
    assert amounts(pod("p", {"cpu": "1"}, node="n", status=status)) == expected
    assert amounts(pod("p", {"cpu": "1"}, status=status)) == {"cpu": 1000}


NODES: dict[str, tuple[SchedulableNode, dict[str, int], list[UnusableQuantity]]] = {
    "what it reports": (
        node(allocatable={"example.com/gpu": "8", "ephemeral-storage": "1Ti", "storage": "1"}),
        {"cpu": 4000, "memory": 16 * GIB, "pods": 110, "example.com/gpu": 8, "ephemeral-storage": 2**40},
        [],
    ),
    "nothing reported": (SchedulableNode(), {}, []),
    "some of it unusable": (
        node(allocatable={"memory": "-1Gi", "pods": "many"}),
        {"cpu": 4000},
        [
            UnusableQuantity("status.allocatable[memory]", "'-1Gi' is negative"),
            UnusableQuantity(
                "status.allocatable[pods]",
                "'many' is not a quantity: write a number with a suffix, such as 500m or 2Gi",
            ),
        ],
    ),
}


@pytest.mark.parametrize(("made", "expected", "named"), NODES.values(), ids=NODES)
def test_a_node_has_what_it_reports(
    made: SchedulableNode, expected: dict[str, int], named: list[UnusableQuantity]
) -> None:
    assert allocatable(made) == (expected, tuple(named))


MILLIS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.integers(0, 5000), max_size=3
)
INITS = st.lists(st.tuples(MILLIS, st.booleans()), max_size=5)


def written(millis: dict[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" for name, amount in millis.items()}


def peaks(containers: list[dict[str, int]], inits: list[tuple[dict[str, int], bool]]) -> dict[str, Fraction]:
    """Simulate a pod's life step by step, and return the maximum of each resource in use at once."""
    most: dict[str, Fraction] = {}
    running: Counter[str] = Counter()

    def note(now: Counter[str]) -> None:
        for name, amount in now.items():
            most[name] = max(most.get(name, Fraction(0)), Fraction(amount, 1000))

    for requested, stays in inits:
        note(running + Counter(requested))
        if stays:
            running.update(requested)
    for requested in containers:
        running.update(requested)
    note(running)
    return most


@given(st.lists(MILLIS, max_size=4), INITS, MILLIS)
def test_a_pod_takes_the_most_it_uses_at_one_moment_of_its_life(
    containers: list[dict[str, int]], inits: list[tuple[dict[str, int], bool]], overhead: dict[str, int]
) -> None:
    made = pod(
        "p",
        containers=[container(written(each)) for each in containers],
        initContainers=[container(written(each), sidecar=stays) for each, stays in inits],
        overhead=written(overhead),
    )
    expected = peaks(containers, inits)
    for name, amount in overhead.items():
        expected[name] = expected.get(name, Fraction(0)) + Fraction(amount, 1000)
    assert amounts(made) == {
        name: ceil(amount * 1000 if name == "cpu" else amount) for name, amount in expected.items() if amount
    }
