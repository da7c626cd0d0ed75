"""Scores: figures by hand, and a plain oracle of kube-scheduler's arithmetic over small random clusters."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import Quantities, filters_of, node, pod
from tests.support.filters.picture import snapshot_of

from podium.api.schedulable import Schedulable, SchedulableNode
from podium.planner.arrays import Rows
from podium.planner.plugins.nodeaffinity import NodeAffinityFilter
from podium.planner.plugins.tainttoleration import TaintTolerationFilter
from podium.planner.scores import UPSTREAM, Scores, Strategy, Weights
from podium.planner.shapes import Shape, shape_of
from podium.planner.snapshot import Snapshot

MI = 2**20
LEAST, MOST = Strategy


PREFERENCES = ("taints", "affinity", "preferences")


def scored(
    kind: str, wanted: Schedulable, *objects: object, strategy: Strategy = LEAST, weights: Weights = UPSTREAM
) -> dict[str, int]:
    """Return one kind of score by node name, with all nodes in the choice."""
    snapshot = snapshot_of(*objects, wanted)
    shape = shape_of(wanted, snapshot.plugins)
    rows = np.flatnonzero(snapshot.alive)
    if kind in PREFERENCES:
        points = preference(kind, snapshot, shape, rows)
    else:
        points = getattr(Scores(snapshot, strategy, weights), kind)(shape, rows).tolist()
    return {str(snapshot.names[row]): value for row, value in zip(rows.tolist(), points, strict=True)}


def preference(kind: str, snapshot: Snapshot, shape: Shape, rows: Rows) -> list[int]:
    """Return the score of nodes by taints or affinity, without its weight, or the weighted sum of both."""
    filters = zip(filters_of(snapshot, [TaintTolerationFilter, NodeAffinityFilter]), (3, 2), strict=True)
    taints, affinity = ((own.scores(shape, rows), weight) for own, weight in filters)
    if kind == "preferences":
        return list((taints[0] + affinity[0]).tolist())
    points, weight = taints if kind == "taints" else affinity
    return list((points // weight).tolist())


def packed(wanted: Schedulable, *objects: object, weights: Weights = UPSTREAM) -> dict[str, int]:
    """Return the part of the allocation score that the weights of accelerators add, by node name."""
    without = scored("allocation", wanted, *objects)
    return {
        name: value - without[name]
        for name, value in scored("allocation", wanted, *objects, weights=weights).items()
    }


def one_by_one(wanted: Schedulable, *objects: object, strategy: Strategy) -> dict[str, int]:
    """The allocation scores by node name, each computed alone."""
    snapshot = snapshot_of(*objects)
    shape, scores = shape_of(wanted, snapshot.plugins), Scores(snapshot, strategy)
    worth = scores.allocation_at(shape)
    return {name: worth(row) for name, row in snapshot.row.items()}


def room(cpu: str, memory: str) -> Quantities:
    return {"cpu": cpu, "memory": memory}


def preferred(*wishes: tuple[int, str, str]) -> dict[str, Any]:
    """Affinity that prefers nodes by (weight, label, value)."""
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        }
        for weight, key, value in wishes
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def soft(key: str) -> dict[str, str]:
    return {"key": key, "effect": "PreferNoSchedule"}


def test_least_allocated_is_the_mean_part_that_stays_free() -> None:
    """3 of 4 cpus and 1 of 4Gi used leave 25% and 75%; the used amounts count with the new ones."""
    there = pod("there", room("1", "512Mi"), node="n")
    assert scored("allocated", pod("p", room("2", "512Mi")), node("n", room("4", "4Gi")), there) == {"n": 50}


def test_most_allocated_is_the_mean_part_that_gets_used() -> None:
    """The same room with the resources swapped; each is rounded down separately."""
    wanted = pod("p", room("1", "1Gi"))
    assert scored("allocated", wanted, node("n", room("3", "3Gi")), strategy=MOST) == {"n": 33}
    assert scored("allocated", wanted, node("n", room("3", "3Gi"))) == {"n": 66}


GPU, NIC = "example.com/gpu", "example.com/nic"
PACKED = Weights(accelerators=4)


def test_resources_weigh_in_the_mean() -> None:
    """25 of cpu and 75 of memory stay free."""
    there = pod("there", room("1", "512Mi"), node="n")
    wanted, size = pod("p", room("2", "512Mi")), node("n", room("4", "4Gi"))
    assert scored("allocated", wanted, size, there, weights=Weights(3, 1)) == {"n": 37}
    assert scored("allocated", wanted, size, there, weights=Weights(0, 1)) == {"n": 75}
    assert scored("allocated", wanted, size, there, weights=Weights(0, 0)) == {"n": 0}


def test_accelerators_are_packed_and_whole_nodes_left_whole() -> None:
    """A node gets half of 100 if some are in use, and half by the share in use afterwards; weighted."""
    nodes = [node(name, {GPU: size}) for name, size in (("whole", "8"), ("used", "8"), ("small", "4"))]
    there = pod("there", {GPU: "3"}, node="used")
    wanted = pod("p", {GPU: "1"})
    assert packed(wanted, *nodes, there, weights=PACKED) == {"whole": 24, "used": 300, "small": 48}
    assert packed(pod("p", {"cpu": "1"}), *nodes, there, weights=PACKED) == dict.fromkeys(
        ("whole", "used", "small"), 0
    )


def test_one_accelerator_can_have_a_weight_of_its_own() -> None:
    """The mean is of the resources that the pod requests and that have a weight."""
    both = node("n", {GPU: "2", NIC: "4"})
    wanted = pod("p", {GPU: "1", NIC: "1"})
    assert packed(wanted, both, weights=PACKED) == {"n": (25 * 4 + 12 * 4) // 2}
    assert packed(wanted, both, weights=PACKED._replace(named=((NIC, 1),))) == {"n": 56}
    assert packed(wanted, both, weights=PACKED._replace(named=((NIC, 0),))) == {"n": 100}


def test_a_container_without_requests_counts_with_defaults() -> None:
    """100m and 200Mi count for the incoming pod and for running ones."""
    nodes = (node("empty", room("1", "2000Mi")), node("one", room("1", "2000Mi")))
    assert scored("allocated", pod("p"), *nodes, pod("there", node="one")) == {"empty": 90, "one": 80}


def test_a_resource_that_a_node_lacks_is_left_out() -> None:
    """Only resources of the node are scored; a node with neither scores 0."""
    nodes = (node("n", room("4", "0")), node("none", room("0", "0")))
    assert scored("allocated", pod("p", {"cpu": "1"}), *nodes) == {"n": 75, "none": 0}


def test_a_node_too_full_for_the_defaults_scores_least() -> None:
    """More than the capacity scores like nothing free."""
    wanted = pod("p")
    assert scored("allocated", wanted, node("n", room("50m", "100Mi"))) == {"n": 0}
    assert scored("allocated", wanted, node("n", room("50m", "100Mi")), strategy=MOST) == {"n": 100}


def test_balance_is_scored_by_the_change_that_the_pod_makes() -> None:
    """The score is 75 if nothing changes, more if the pod balances the node, less otherwise."""
    lopsided = pod("there", {"cpu": "2"}, node="lopsided")
    nodes = (node("even", room("4", "4Gi")), node("lopsided", room("4", "4Gi")), lopsided)
    assert scored("balanced", pod("p", room("1", "1Gi")), *nodes) == {"even": 75, "lopsided": 75}
    assert scored("balanced", pod("p", {"memory": "2Gi"}), *nodes) == {"even": 62, "lopsided": 87}


def test_a_pod_without_requests_has_no_balance_score() -> None:
    """kube-scheduler skips it, so that such pods do not all go to one node."""
    assert scored("balanced", pod("p"), node("n"), node("m")) == {"n": 0, "m": 0}


def test_fewer_untolerated_soft_taints_are_better() -> None:
    """The score is relative to the maximum of taints; other effects and tolerated ones do not count."""
    nodes = (
        node("free", taints=[{"key": "x", "effect": "NoSchedule"}]),
        node("one", taints=[soft("a")]),
        node("three", taints=[soft("a"), soft("b"), soft("c")]),
        node("tolerated", taints=[soft("d")]),
    )
    wanted = pod("p", tolerations=[{"key": "d", "operator": "Exists"}])
    assert scored("taints", wanted, *nodes) == {"free": 100, "one": 67, "three": 0, "tolerated": 100}


def test_a_toleration_of_another_effect_does_not_cover_a_soft_taint() -> None:
    """Tolerating NoSchedule does not tolerate PreferNoSchedule."""
    wanted = pod("p", tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}])
    assert scored("taints", wanted, node("n", taints=[soft("a")]), node("m")) == {"n": 0, "m": 100}


def test_preferred_terms_add_up() -> None:
    """The score is relative to the largest sum, rounded down."""
    nodes = (node("both", labels={"a": "1", "b": "1"}), node("b", labels={"b": "1"}), node("none"))
    wanted = pod("p", affinity=preferred((10, "a", "1"), (5, "b", "1")))
    assert scored("affinity", wanted, *nodes) == {"both": 100, "b": 33, "none": 0}


def test_the_sum_is_weighted_as_in_the_default_profile() -> None:
    """Taints 3, affinity 2, allocation and balance 1 each."""
    wanted = pod("p", room("1", "1Gi"), affinity=preferred((1, "a", "1")))
    nodes = (node("n", room("4", "4Gi"), labels={"a": "1"}), node("m", room("2", "2Gi"), taints=[soft("t")]))
    assert scored("allocation", wanted, *nodes) == {"n": 75 + 75, "m": 50 + 75}
    assert scored("preferences", wanted, *nodes) == {"n": 300 + 200, "m": 0}


def test_the_choice_decides_the_scale() -> None:
    """A node that did not pass the filters does not count as the best or worst."""
    snapshot = snapshot_of(node("n", labels={"a": "1"}), node("m", labels={"a": "1", "b": "1"}))
    shape = shape_of(pod("p", affinity=preferred((1, "a", "1"), (3, "b", "1"))), snapshot.plugins)
    n, m = snapshot.row["n"], snapshot.row["m"]
    assert preference("affinity", snapshot, shape, np.array([n])) == [100]
    assert preference("affinity", snapshot, shape, np.array([n, m])) == [25, 100]
    nothing = np.array([], np.intp)
    assert Scores(snapshot).allocation(shape, nothing).tolist() == []
    assert preference("preferences", snapshot, shape, nothing) == []


def test_scores_follow_the_nodes() -> None:
    """A cached score is dropped when a node changes."""
    snapshot = snapshot_of(node("n"), node("m"))
    shape, rows = shape_of(pod("p"), snapshot.plugins), np.array([0, 1])
    (taints,) = filters_of(snapshot, [TaintTolerationFilter])
    assert (taints.scores(shape, rows) // 3).tolist() == [100, 100]
    snapshot.add_node(node("m", taints=[soft("t")]))
    assert (taints.scores(shape, rows) // 3).tolist() == [100, 0]


# The oracle: kube-scheduler's arithmetic in plain numbers, one node at a time.


def allocated(capacity: list[int], held: list[int], extra: list[int], strategy: Strategy) -> int:
    points = []
    for have, used, more in zip(capacity, held, extra, strict=True):
        if have:
            taken = min(used + more, have)
            points.append((have - taken if strategy is LEAST else taken) * 100 // have)
    return sum(points) // len(points) if points else 0


def balanced(capacity: list[int], held: list[int], extra: list[int]) -> int:
    if not any(extra):
        return 0

    def evenness(used: list[int]) -> int:
        parts = [min(have / room, 1.0) for have, room in zip(used, capacity, strict=True) if room]
        deviation = abs((parts[0] - parts[1]) / 2) if len(parts) == 2 else 0.0
        return int((1 - deviation) * 100)

    after = evenness([used + more for used, more in zip(held, extra, strict=True)])
    return 50 + (50 + after - evenness(held)) // 2


amounts = st.tuples(st.sampled_from((0, 1, 70, 333, 2000)), st.sampled_from((0, 1, 199 * MI, 2**40)))
capacities = st.tuples(
    st.sampled_from((0, 1, 100, 3000, 64000)), st.sampled_from((0, 1, 300 * MI, 7 * 2**30 + 1, 2**52))
)


def quantities(pair: tuple[int, int]) -> dict[str, str]:
    return {"cpu": f"{pair[0]}m", "memory": str(pair[1])}


@given(
    nodes=st.lists(capacities, min_size=1, max_size=3),
    placed=st.lists(st.tuples(st.integers(0, 2), amounts), max_size=5),
    wanted=amounts,
    strategy=st.sampled_from(Strategy),
)
def test_allocation_is_kube_schedulers_arithmetic(
    nodes: list[tuple[int, int]],
    placed: list[tuple[int, tuple[int, int]]],
    wanted: tuple[int, int],
    strategy: Strategy,
) -> None:
    """Scores are exact for any room and use, also over capacity; a request of 0 is a request."""
    there = [(at, pair) for at, pair in placed if at < len(nodes)]
    objects: list[SchedulableNode | Schedulable] = [
        node(f"n{at}", quantities(pair)) for at, pair in enumerate(nodes)
    ]
    objects += [pod(f"p{each}", quantities(pair), node=f"n{at}") for each, (at, pair) in enumerate(there)]
    wanted_pod = pod("p", quantities(wanted))
    by_room = scored("allocated", wanted_pod, *objects, strategy=strategy)
    by_balance = scored("balanced", wanted_pod, *objects)
    assert one_by_one(wanted_pod, *objects, strategy=strategy) == {
        name: by_room[name] + by_balance[name] for name in by_room
    }
    for at, pair in enumerate(nodes):
        held = [sum(each[kind] for where, each in there if where == at) for kind in (0, 1)]
        assert by_room[f"n{at}"] == allocated(list(pair), held, list(wanted), strategy)
        assert by_balance[f"n{at}"] == balanced(list(pair), held, list(wanted))


@pytest.mark.parametrize("strategy", Strategy)
def test_keeping_scores_by_row_changes_nothing(strategy: Strategy) -> None:
    """Allocation depends on the row alone: scoring changed rows equals scoring all."""
    snapshot = snapshot_of(*(node(f"n{at}", room("4", "8Gi")) for at in range(3)))
    snapshot.apply(None, pod("p", room("1", "1Gi")))
    shape, scores = shape_of(pod("p", room("1", "1Gi")), snapshot.plugins), Scores(snapshot, strategy)
    rows = np.arange(3)
    kept = scores.allocation(shape, rows)
    snapshot.assume(snapshot.pod_row["team-a", "p"], 1)
    kept[1] = scores.allocation_at(shape)(1)
    assert kept.tolist() == scores.allocation(shape, rows).tolist()
    assert len(set(kept.tolist())) == 2
