"""Placing: named cases, and batches against pods placed one by one by the plain oracles."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters import builders, dynamic_cases, picture
from tests.support.filters.builders import node, pod
from tests.support.filters.dynamic_scene import NAMESPACES
from tests.support.filters.mixed import SCENES, MixedCluster
from tests.support.filters.picture import snapshot_of

from podium.planner import placement
from podium.planner.arrays import Bools
from podium.planner.framework import ChainContext
from podium.planner.placement import Placer
from podium.planner.scores import UPSTREAM, Scores, Strategy, Weights
from podium.planner.settings import WEIGHTS
from podium.planner.snapshot import Snapshot

A: dict[str, Any] = {"labels": {"app": "a"}}


def rows_of(snapshot: Snapshot, names: Sequence[str]) -> list[int]:
    return [snapshot.pod_row[(builders.NS, name)] for name in names]


def placed(*objects: object, pods: str, enough: int | None = None, **settings: Any) -> dict[str, str]:
    """Place pods, named by a letter each, in this order; return their nodes by name."""
    snapshot = snapshot_of(*objects)
    with snapshot.trial():
        got = Placer(snapshot, NAMESPACES, **settings).place_many(rows_of(snapshot, [*pods]), enough=enough)
        for pod_row, node_row in got.items():
            assert snapshot.node.item(pod_row) == node_row
    return {picture.pod_name(snapshot, row): snapshot.names[at] or "" for row, at in got.items()}


def best(placer: Placer, name: str, within: Bools | None = None) -> str | None:
    """Return the node that a pod is placed on (one of those `within`), None if no node takes it."""
    snapshot = placer.snapshot
    with snapshot.trial():
        found = placer.place_many(rows_of(snapshot, [name]), within)
    return next((snapshot.names[row] for row in found.values()), None)


def pods(names: str, requests: builders.Quantities | None = None, **spec: Any) -> list[object]:
    return [pod(name, requests, **spec) for name in names]


def test_of_equal_nodes_the_smallest_name_is_taken() -> None:
    """Equal pods are spread: a node that has one scores lower."""
    nodes = [node("n"), node("o"), node("m")]
    assert placed(*nodes, *pods("abcd", {"cpu": "1", "memory": "4Gi"}), pods="abcd") == {
        "a": "m",
        "b": "n",
        "c": "o",
        "d": "m",
    }


def test_most_allocated_fills_one_node_after_the_other() -> None:
    """Pods are placed until no more fit."""
    nodes = [node("m"), node("n")]
    got = placed(
        *nodes, *pods("abcde", {"cpu": "1", "memory": "4Gi"}), pods="abcde", strategy=Strategy.MOST_ALLOCATED
    )
    assert got == {"a": "m", "b": "m", "c": "m", "d": "m", "e": "n"}


GPU = "example.com/gpu"


@pytest.mark.parametrize("strategy", Strategy)
def test_a_whole_node_is_not_broken_up_while_a_used_one_has_room(strategy: Strategy) -> None:
    """The order is the same however full of cpu and memory one node is, and however empty the other."""
    nodes = [node(name, {"cpu": "96", "memory": "768Gi", GPU: "8"}) for name in ("used", "whole")]
    there = pod("there", {"cpu": "80", "memory": "600Gi", GPU: "7"}, node="used")
    wanted = pods("ab", {"cpu": "1", "memory": "1Gi", GPU: "1"})
    got = placed(*nodes, there, *wanted, pods="ab", strategy=strategy, weights=WEIGHTS)
    assert got == {"a": "used", "b": "whole"}


def test_the_strategy_still_decides_for_pods_without_accelerators() -> None:
    nodes = [node(name, {GPU: "8"}) for name in "mn"]
    there = pod("there", {"cpu": "1", GPU: "7"}, node="n")
    web = pods("a", {"cpu": "1"})
    assert placed(*nodes, there, *web, pods="a", weights=WEIGHTS) == {"a": "m"}
    most = Strategy.MOST_ALLOCATED
    assert placed(*nodes, there, *web, pods="a", weights=WEIGHTS, strategy=most) == {"a": "n"}


def test_a_pod_that_does_not_fit_is_skipped() -> None:
    """A big pod that does not fit leaves the room to the small ones behind it."""
    assert placed(node("m"), *pods("a", {"cpu": "9"}), *pods("b", {"cpu": "4"}), pods="ab") == {"b": "m"}


def test_each_placement_counts_for_the_next() -> None:
    """Ports, anti-affinity, spread and affinity count the pods of the same batch."""
    nodes = [node(name, labels={"host": name}) for name in "mn"]
    ports = pods("abc", **dynamic_cases.port(80))
    assert placed(*nodes, *ports, pods="abc") == {"a": "m", "b": "n"}
    apart = pods("abc", **A, **dynamic_cases.anti_affinity(dynamic_cases.term("a", "host")))
    assert placed(*nodes, *apart, pods="abc") == {"a": "m", "b": "n"}
    even, large = pods("abc", {"cpu": "1"}, **A, **dynamic_cases.spread("a", "host")), {"cpu": "100"}
    sized = [node("m", large, labels={"host": "m"}), nodes[1]]
    assert placed(*sized, *even, pods="abc") == {"a": "m", "b": "n", "c": "m"}
    near = pods("bc", **A, **dynamic_cases.affinity(dynamic_cases.term("a", "host")))
    assert placed(*nodes, *near, pods="bc") == {"b": "m", "c": "m"}


def test_anti_affinity_of_a_placed_pod_counts_for_the_next() -> None:
    """The second pod has no term of its own; that of the first keeps it away."""
    nodes = [node(name, labels={"host": name}) for name in "mn"]
    guard = pod("g", {"cpu": "1"}, **dynamic_cases.anti_affinity(dynamic_cases.term("a", "host")))
    assert placed(*nodes, guard, pod("a", **A), pod("b", **A), pods="gab") == {"g": "m", "a": "n", "b": "n"}


def test_pods_that_differ_in_matching_anti_affinity_are_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own constraints are equal, but a running pod's term excludes one of them."""
    monkeypatch.setattr(placement, "_RUN", 1)
    guard = pod("g", node="m", **dynamic_cases.anti_affinity(dynamic_cases.term("a", "host")))
    nodes = [node(name, labels={"host": name}) for name in "mn"]
    ask = {"cpu": "1", "memory": "4Gi"}
    objects = [*nodes, guard, pod("h", node="n"), *pods("xy", ask), pod("a", ask, **A)]
    assert placed(*objects, pods="xya") == {"x": "m", "y": "n", "a": "n"}


def test_preferences_are_scaled_among_the_remaining_nodes() -> None:
    """The node with few unwanted taints is best until it is full; then the others are scored."""
    unwanted = [{"key": key, "effect": "PreferNoSchedule"} for key in "xyz"]
    nodes = [
        node("clean", {"pods": "1"}),
        node("m", taints=unwanted[:2]),
        node("n", taints=unwanted[:1]),
        node("o", {"cpu": "100", "memory": "1000Gi"}, taints=unwanted),
    ]
    got = placed(*nodes, *pods("abc", {"cpu": "1", "memory": "4Gi"}), pods="abc")
    assert got == {"a": "clean", "b": "n", "c": "n"}


def test_a_preferred_node_is_worth_more_than_an_empty_one() -> None:
    """The preference of the pod itself holds over the batch until the node is full."""
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    nodes = [
        node("m"),
        node("n", {"pods": "3"}, labels={"disk": "ssd"}),
        pod("there", {"cpu": "1"}, node="n"),
    ]
    got = placed(*nodes, *pods("abc", {"cpu": "1"}, affinity={"nodeAffinity": wish}), pods="abc")
    assert got == {"a": "n", "b": "n", "c": "m"}


def test_preferred_pod_affinity() -> None:
    """Soft affinity of the pod, and of a running pod, counts."""
    term = {"weight": 100, "podAffinityTerm": dynamic_cases.term("a", "host")}
    wish: dict[str, Any] = {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    }
    nodes = [node(name, labels={"host": name}) for name in "mn"]
    assert placed(*nodes, pod("there", {"cpu": "1"}, node="n", **A), *pods("b", **wish), pods="b") == {
        "b": "n"
    }
    assert placed(*nodes, pod("there", {"cpu": "1"}, node="n", **wish), *pods("b", **A), pods="b") == {
        "b": "n"
    }


@pytest.mark.parametrize("labels", [{}, {"rack": "1"}], ids=["no node has the key", "a full node has it"])
def test_preferences_by_a_label_that_free_nodes_lack_change_nothing(labels: dict[str, str]) -> None:
    """The smallest name wins, as without preferences."""
    term = {"weight": 100, "podAffinityTerm": dynamic_cases.term("a", "rack")}
    near = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    soft = dynamic_cases.spread("a", "rack", whenUnsatisfiable="ScheduleAnyway")
    nodes = [node("o"), node("n"), node("full", {"cpu": "1"}, labels=labels)]
    there = pod("there", {"cpu": "1"}, node="full", **A)
    for wish in ({"affinity": near}, soft, {"affinity": near, **soft}):
        assert placed(*nodes, there, *pods("b", {"cpu": "1"}, **wish, **A), pods="b") == {"b": "n"}


def test_enough_ends_the_batch() -> None:
    """The pods behind are not placed, nor any once the needed number cannot be reached."""
    nodes = [node("m", {"cpu": "3"})]
    assert placed(*nodes, *pods("abc", {"cpu": "1"}), pods="abc", enough=2) == {"a": "m", "b": "m"}
    assert placed(*nodes, *pods("abc", {"cpu": "1"}), pods="abc", enough=0) == {}
    assert placed(*nodes, *pods("abc", {"cpu": "1"}), pods="abc", enough=4) == {}
    mixed = [*pods("ab", {"cpu": "9"}), *pods("cd", {"cpu": "1"})]
    assert placed(*nodes, *mixed, pods="abcd", enough=3) == {}
    assert placed(*nodes, *mixed, pods="cabd", enough=2) == {"c": "m", "d": "m"}


def test_a_pod_with_an_unsupported_demand_is_skipped() -> None:
    """Three are needed and two are supported: none is tried."""
    unknown = pod("x", {"cpu": "1"}, tolerations=[{"key": "a", "operator": "Lt", "value": "1"}])
    objects = [node("m"), unknown, *pods("ab", {"cpu": "1"})]
    assert placed(*objects, pods="xab") == {"a": "m", "b": "m"}
    assert placed(*objects, pods="xab", enough=3) == {}


def test_one_pod_within_some_nodes() -> None:
    """The best of them is returned, or none."""
    snapshot = snapshot_of(node("m"), node("n"), pod("there", {"cpu": "1"}, node="n"), pod("a", {"cpu": "2"}))
    placer, only = Placer(snapshot, NAMESPACES), np.zeros(len(snapshot.alive), np.bool_)
    assert best(placer, "a") == "m"
    assert best(placer, "a", only) is None
    only[snapshot.row["n"]] = True
    assert best(placer, "a", only) == "n"


def test_no_nodes() -> None:
    """Nothing is placed, and nothing breaks."""
    assert placed(*pods("a"), pods="a") == {}


def test_a_changed_node_is_evaluated_again() -> None:
    """Between two calls a node shrinks, and another gets a name before all others."""
    snapshot = snapshot_of(node("m"), node("n"), pod("a", {"cpu": "2"}))
    placer = Placer(snapshot, NAMESPACES)
    assert best(placer, "a") == "m"
    snapshot.add_node(node("m", {"cpu": "1"}))
    assert best(placer, "a") == "n"
    snapshot.add_node(node("f"))
    assert best(placer, "a") == "f"


def test_a_changed_namespace_is_read_again() -> None:
    """After `forget`, the terms of pods that select by namespace are evaluated again."""
    term = dynamic_cases.term("a", "host", namespaceSelector={"matchLabels": {"env": "prod"}})
    wish = {"weight": 100, "podAffinityTerm": term}
    near: dict[str, Any] = {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    }
    nodes = [node(name, labels={"host": name}) for name in "mn"]
    apart = pod("c", **dynamic_cases.anti_affinity(term))
    snapshot = snapshot_of(*nodes, pod("there", {"cpu": "1"}, node="n", **A), pod("b", **near), apart)
    namespaces = dict(NAMESPACES)
    placer, only = Placer(snapshot, namespaces), np.zeros(len(snapshot.alive), np.bool_)
    only[snapshot.row["n"]] = True
    assert best(placer, "b") == "n"
    assert best(placer, "c", only) is None
    del namespaces["team-a"]
    placer.chain.reload_namespaces()
    assert best(placer, "b") == "m"
    assert best(placer, "c", only) == "n"


def _one_by_one(
    mixed: MixedCluster, names: Sequence[str], strategy: Strategy, within: frozenset[str]
) -> dict[str, str]:
    """Place pods one at a time where the oracles allow it, by uncached scores."""
    snapshot, got = mixed.snapshot, dict[str, str]()
    for name in names:
        rows = [snapshot.row[each] for each in sorted(within & set(mixed.nodes)) if mixed.allows(name, each)]
        if not rows:
            continue
        choice, shape = np.array(rows, np.intp), mixed.shape(name)
        total = Scores(snapshot, strategy).allocation(shape, choice)
        for node_filter in ChainContext(NAMESPACES).filters_of(snapshot.plugins):
            total += node_filter.scores(shape, choice)
        best = rows[total.tolist().index(max(total.tolist()))]
        snapshot.assume(mixed.row[name], best)
        got[name] = snapshot.names[best] or ""
    return got


def _batch(
    mixed: MixedCluster,
    names: Sequence[str],
    strategy: Strategy,
    within: frozenset[str],
    enough: int | None = None,
) -> dict[str, str]:
    snapshot = mixed.snapshot
    mask = np.array([name in within for name in snapshot.names])
    rows = {mixed.row[name]: name for name in names}
    got = Placer(snapshot, NAMESPACES, strategy).place_many(list(rows), mask, enough)
    return {rows[pod_row]: snapshot.names[node_row] or "" for pod_row, node_row in got.items()}


@pytest.mark.parametrize("run", [1, 64])
def test_a_node_that_gets_better_again_waits_for_its_turn(run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each pod more n scores 142, 142, 139, 140: its third pod comes first, after those of m."""
    monkeypatch.setattr(placement, "_RUN", run)
    nodes = [node("m", {"cpu": "4", "memory": "20Gi"}), node("n", {"cpu": "20", "memory": "8Gi"})]
    held = [
        pod("x", {"cpu": "1", "memory": "8Gi"}, node="m"),
        pod("y", {"cpu": "5", "memory": "3Gi"}, node="n"),
    ]
    small = pods("abcd", {"cpu": "100m", "memory": "100Mi"})
    assert placed(*nodes, *held, *small, pods="abcd") == {"a": "n", "b": "n", "c": "m", "d": "m"}


ROOMS = st.fixed_dictionaries(
    {
        GPU: st.sampled_from(["0", "0", "1", "4"]),
        "cpu": st.integers(1, 9).map(str),
        "memory": st.integers(1, 9).map(lambda size: f"{size}Gi"),
        "pods": st.integers(1, 9).map(str),
    }
)

KINDS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "1", "2"]),
        "memory": st.sampled_from(["100Mi", "1Gi", "3Gi"]),
        GPU: st.sampled_from(["1", "2"]),
    },
)
ALL_WEIGHTS = st.sampled_from([UPSTREAM, WEIGHTS, Weights(2, 1, 1), Weights(0, 0, 9)])


@given(
    rooms=st.lists(ROOMS, min_size=1, max_size=8),
    held=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 3)), max_size=6),
    kinds=st.tuples(KINDS, KINDS),
    runs=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 20)), min_size=1, max_size=4),
    many=st.sampled_from([1, 32]),
    strategy=st.sampled_from(Strategy),
    weights=ALL_WEIGHTS,
)
def test_runs_of_equal_pods_are_placed_at_once_as_one_by_one(
    *,
    rooms: list[dict[str, str]],
    held: list[tuple[int, int, int]],
    kinds: tuple[dict[str, str], dict[str, str]],
    runs: list[tuple[int, int]],
    many: int,
    strategy: Strategy,
    weights: Weights,
) -> None:
    """Each pod gets its own best node, also if a node improves with a pod, and then worsens."""
    wants = [kinds[which] for which, length in runs for _ in range(length)]
    snapshot = snapshot_of(
        *(node(f"n{at}", room) for at, room in enumerate(rooms)),
        *(
            pod(f"held-{at}", {"cpu": str(cores), "memory": f"{size}Gi", GPU: str(size)}, node=f"n{where}")
            for at, (where, cores, size) in enumerate(held)
        ),
        *(pod(f"p{at}", requests, labels={"index": str(at)}) for at, requests in enumerate(wants)),
    )
    placer, rows = (
        Placer(snapshot, NAMESPACES, strategy, weights=weights),
        rows_of(snapshot, [f"p{at}" for at in range(len(wants))]),
    )
    with pytest.MonkeyPatch.context() as patch, snapshot.trial() as trial:
        patch.setattr(placement, "_MANY", many)
        patch.setattr(placement, "_RUN", 10**9)
        want = placer.place_many(rows)
        trial.undo()
        patch.setattr(placement, "_RUN", 1)
        assert placer.place_many(rows) == want
        assert {row: snapshot.node.item(row) for row in want} == want


@given(
    scene=SCENES,
    within=st.frozensets(st.sampled_from("mnop"), min_size=2),
    strategy=st.sampled_from(Strategy),
    many=st.sampled_from([1, 32]),
    run=st.sampled_from([1, 64]),
    kept=st.sampled_from([0, 2**23]),
    shuffle=st.randoms(use_true_random=False),
)
def test_a_batch_is_placed_as_its_pods_one_by_one(
    *,
    scene: Mapping[str, Any],
    within: frozenset[str],
    strategy: Strategy,
    many: int,
    run: int,
    kept: int,
    shuffle: random.Random,
) -> None:
    """The result is the same in any order of pods and of reads, with any cache, and leaves no trace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "_MANY", many)
        patch.setattr(placement, "_RUN", run)
        patch.setattr(placement, "_KEPT", kept)
        mixed, other = MixedCluster(**scene), MixedCluster(**scene, backwards=True)
        names = [name for name in mixed.pods if mixed.place(name) is None]
        shuffle.shuffle(names)
        before = picture.nodes(mixed.snapshot, ()), picture.pods(mixed.snapshot)
        with mixed.snapshot.trial() as trial:
            want = _one_by_one(mixed, names, strategy, within)
            trial.undo()
            assert _batch(mixed, names, strategy, within) == want
            for enough in range(len(names) + 1):
                trial.undo()
                got = _batch(mixed, names, strategy, within, enough)
                assert got.items() <= want.items()
                assert len(got) == enough if enough <= len(want) else len(got) < enough
        assert (picture.nodes(mixed.snapshot, ()), picture.pods(mixed.snapshot)) == before
        with other.snapshot.trial():
            assert _batch(other, names, strategy, within) == want


def test_many_pods_that_request_what_no_node_offers_are_placed_nowhere() -> None:
    """There are as many as are placed at once."""
    names = [f"p{at}" for at in range(100)]
    snapshot = snapshot_of(node("n"), *(pod(name, {GPU: "1"}) for name in names))
    with snapshot.trial():
        assert Placer(snapshot, NAMESPACES).place_many(rows_of(snapshot, names)) == {}


# --- ties -------------------------------------------------------------------------------------------------

EQUAL = [node(f"n{at}") for at in range(8)]


def chosen(names: Sequence[str], **settings: Any) -> dict[str, str]:
    """Place each of these pods alone on equal nodes."""
    found = {}
    for name in names:
        snapshot = snapshot_of(*EQUAL, pod(name, {"cpu": "1"}))
        with snapshot.trial():
            placer = Placer(snapshot, NAMESPACES, by_hash=True, **settings)
            (row,) = placer.place_many(rows_of(snapshot, [name])).values()
        found[name] = snapshot.names[row] or ""
    return found


def test_each_pod_has_its_own_order_of_equal_nodes() -> None:
    """The order is the same in every process and on every machine, so these are literals."""
    names = [f"train-{at}" for at in range(6)]
    assert list(chosen(names).values()) == ["n7", "n5", "n4", "n0", "n6", "n1"]
    many = chosen([f"p{at}" for at in range(400)])
    counts = [list(many.values()).count(f"n{at}") for at in range(8)]
    assert sum(counts) == 400
    assert min(counts) > 25


def test_a_recreated_pod_takes_another_node_soon() -> None:
    """A Job's next pod has a name and a UID of its own."""
    assert len(set(chosen([f"retry-{at}" for at in range(8)]).values())) > 1


def test_scores_come_before_the_order() -> None:
    """A pod has a choice only among nodes of equal score."""
    snapshot = snapshot_of(*EQUAL, node("roomy", {"cpu": "64", "memory": "256Gi"}), pod("a", {"cpu": "1"}))
    with snapshot.trial():
        placer = Placer(snapshot, NAMESPACES, by_hash=True)
        assert list(placer.place_many(rows_of(snapshot, "a")).values()) == [snapshot.row["roomy"]]


@given(names=st.lists(st.text("abcdef", min_size=1, max_size=6), min_size=1, max_size=6, unique=True))
def test_the_order_does_not_depend_on_the_order_of_nodes(names: list[str]) -> None:
    """The node that was read first does not matter."""
    found = []
    for nodes in (EQUAL, EQUAL[::-1]):
        snapshot = snapshot_of(*nodes, *(pod(name, {"cpu": "1"}) for name in names))
        with snapshot.trial():
            got = Placer(snapshot, NAMESPACES, by_hash=True).place_many(rows_of(snapshot, names))
        found.append({row: snapshot.names[node_row] for row, node_row in got.items()})
    assert found[0] == found[1]


def test_a_run_that_is_placed_at_once_takes_as_many_of_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods share the order of the first, so only the assignment to equal nodes may differ."""
    names = [f"p{at}" for at in range(20)]
    counts = []
    for run in (1, 64):
        monkeypatch.setattr(placement, "_RUN", run)
        snapshot = snapshot_of(*EQUAL, *(pod(name, {"cpu": "1", "memory": "4Gi"}) for name in names))
        with snapshot.trial():
            got = Placer(snapshot, NAMESPACES, by_hash=True).place_many(rows_of(snapshot, names))
        counts.append(sorted(list(got.values()).count(row) for row in snapshot.row.values()))
    assert counts == [[2] * 4 + [3] * 4] * 2
