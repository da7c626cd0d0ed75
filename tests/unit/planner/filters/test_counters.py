"""A bulk move is counted on the next read, with the result of counting at once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters import builders, dynamic_cases
from tests.support.filters.builders import empty_snapshot
from tests.support.filters.dynamic_scene import SAYS, Filters, Scene
from tests.unit.planner.filters.test_dynamic_filters import LABELS, PLACES, PODS, TEMPLATES

from podium.api.meta import LabelSelector
from podium.api.selectors import selector_of
from podium.planner.filters import counter, counters
from podium.planner.plugins.podaffinity.plugin import topology_counter
from podium.planner.shapes import shape_of
from podium.planner.snapshot import Snapshot

A: dict[str, Any] = {"labels": {"app": "a"}}


def crowd() -> tuple[Snapshot, dict[str, int]]:
    """Two nodes, and two pods of an app on the first."""
    snapshot = empty_snapshot()
    for name in "mn":
        snapshot.add_node(builders.node(name, labels={"host": name}))
    for name in "xy":
        snapshot.add_pod(builders.pod(name, node="m", **A))
    return snapshot, {name: row for (_, name), row in snapshot.pod_row.items()}


def test_moves_that_are_undone_reach_no_counter() -> None:
    """No move is pending afterwards, and none was counted."""
    snapshot, rows = crowd()
    filters = Filters(snapshot)
    shape = shape_of(builders.pod(**A, **dynamic_cases.spread("a", "host")), snapshot.plugins)
    assert filters.why(shape, "m") == [SAYS["skew"]]
    (counted,) = filters.spread.counters
    assert isinstance(counted, counters.SelectorCounters)
    with snapshot.trial():
        snapshot.remove_many(np.array([rows["x"], rows["y"]]))
        assert counted._queued
        snapshot.assume_many(np.array([rows["x"]]), np.array([snapshot.row["n"]], np.int32))
    assert not counted._queued
    assert filters.why(shape, "m") == [SAYS["skew"]]


def test_the_move_of_another_pod_undoes_nothing() -> None:
    """Two equal pods are lifted from one node, one by one, before any read."""
    snapshot, rows = crowd()
    filters = Filters(snapshot)
    shape = shape_of(
        builders.pod(**A, **dynamic_cases.anti_affinity(dynamic_cases.term("a", "host"))), snapshot.plugins
    )
    assert filters.why(shape, "m") == [SAYS["anti-affinity"]]
    with snapshot.trial():
        snapshot.remove_many(np.array([rows["x"]]))
        snapshot.remove_many(np.array([rows["y"]]))
        assert filters.why(shape, "m") == []


def test_a_new_question_counts_waiting_moves_once() -> None:
    """A question is answered from the pods' current nodes; pending moves concern earlier questions."""
    snapshot, rows = crowd()
    counted = counters.SelectorCounters(snapshot)
    pods = counters.PodSelection(None, selector_of(LabelSelector(matchLabels={"app": "a"}), {}))
    topology_counter(counted, (pods,), "host")
    snapshot.remove_many(np.array([rows["x"]]))
    _, second = topology_counter(counted, (pods, pods), "host")
    counted.flush()
    second.refresh(snapshot.node_revision)
    assert second.total == 1


def test_a_single_move_counts_before_bulk_moves_that_still_wait() -> None:
    """A pod is placed in bulk and removed singly before any read: the count is zero, not less."""
    snapshot, rows = crowd()
    filters = Filters(snapshot)
    shape = shape_of(builders.pod(**A, **dynamic_cases.spread("a", "host")), snapshot.plugins)
    assert filters.why(shape, "n") == []
    with snapshot.trial():
        both = np.array([rows["x"], rows["y"]])
        snapshot.assume_many(both, np.full(2, snapshot.row["n"], np.int32))
        snapshot.remove(rows["x"])
        assert (filters.why(shape, "m"), filters.why(shape, "n")) == ([], [SAYS["skew"]])
        snapshot.remove(rows["y"])
        assert (filters.why(shape, "m"), filters.why(shape, "n")) == ([], [])


def test_waiting_moves_are_counted_before_unused_counters_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A port that a pod took in bulk stays taken while pods of other kinds change."""
    monkeypatch.setattr(counters, "_MAX_SPARE_ENTRIES", 1)
    snapshot, _ = crowd()
    filters = Filters(snapshot)
    snapshot.add_pod(builders.pod("port", **dynamic_cases.port(80)))
    row = snapshot.pod_row[(builders.NS, "port")]
    snapshot.assume_many(np.array([row]), np.array([snapshot.row["m"]], np.int32))
    for number in range(9):
        snapshot.add_pod(builders.pod("other", labels={"app": str(number)}, node="n"))
    shape = snapshot.shapes[snapshot.shape.item(row)]
    assert filters.why(shape, "m") == [SAYS["ports"]]
    snapshot.remove_many(np.array([row]))
    assert filters.why(shape, "m") == []


def test_waiting_moves_follow_a_node_to_another_domain() -> None:
    """A pod is counted in bulk, then its node gets another zone, then the counter is read."""
    snapshot = empty_snapshot()
    for name, zone in {"m": "1", "n": "2"}.items():
        snapshot.add_node(builders.node(name, labels={"zone": zone}))
    snapshot.add_pod(builders.pod("x", **A))
    filters = Filters(snapshot)
    shape = shape_of(builders.pod(**dynamic_cases.anti_affinity(dynamic_cases.term("a"))), snapshot.plugins)
    assert filters.why(shape, "n") == []
    snapshot.assume_many(np.array([0]), np.array([snapshot.row["m"]], np.int32))
    snapshot.add_node(builders.node("m", labels={"zone": "2"}))
    assert filters.why(shape, "n") == [SAYS["anti-affinity"]]


def test_a_node_may_change_its_domain_twice() -> None:
    """Its pods are counted in the new domain, and no longer in the old one."""
    snapshot = empty_snapshot()
    for name, zone in {"m": "1", "n": "2", "o": "3"}.items():
        snapshot.add_node(builders.node(name, labels={"zone": zone}))
    snapshot.add_pod(builders.pod("x", node="m", **A))
    filters = Filters(snapshot)
    shape = shape_of(builders.pod(**dynamic_cases.anti_affinity(dynamic_cases.term("a"))), snapshot.plugins)
    for zone, refused in (("2", "mn"), ("3", "mo"), ("1", "m")):
        snapshot.add_node(builders.node("m", labels={"zone": zone}))
        assert [each for each in "mno" if filters.why(shape, each)] == list(refused)


def test_the_number_of_domains_may_grow() -> None:
    """A counter that is read after every new domain has room for it, whatever it held before."""
    snapshot = empty_snapshot()
    filters = Filters(snapshot)
    shape = shape_of(
        builders.pod(**dynamic_cases.anti_affinity(dynamic_cases.term("a", "host"))), snapshot.plugins
    )
    for number in range(20):
        snapshot.add_node(builders.node(f"n{number}", labels={"host": str(number)}))
        snapshot.add_pod(builders.pod(f"p{number}", node=f"n{number}", **(A if number % 3 else {})))
        for each in range(number + 1):
            assert filters.why(shape, f"n{each}") == ([SAYS["anti-affinity"]] if each % 3 else [])


STEPS = st.one_of(
    st.tuples(st.just("lift"), st.lists(PODS, min_size=1, max_size=5, unique=True)),
    st.tuples(st.just("assume"), st.lists(PODS, min_size=1, max_size=5, unique=True), PLACES),
    st.tuples(st.just("forget"), st.lists(PODS, min_size=1, max_size=5, unique=True)),
    st.tuples(st.just("single"), PODS, PLACES),
    st.tuples(st.just("node"), PLACES, LABELS),
    st.tuples(st.just("pod"), PODS, st.integers(0, 3), PLACES, st.booleans()),
    st.tuples(st.just("pod gone"), PODS),
    st.tuples(st.just("try"), st.lists(PODS, min_size=1, max_size=5, unique=True), PLACES),
    st.tuples(st.just("ask"), st.integers(0, 3)),
)


def _take(scene: Scene, filters: Filters, step: tuple[Any, ...]) -> None:
    snapshot = scene.snapshot
    row = {name: at for (_, name), at in snapshot.pod_row.items()}

    def chosen(names: list[str]) -> Any:
        return np.array([row[name] for name in names if name in row], np.intp)

    match step:
        case ("lift", names):
            snapshot.remove_many(chosen(names))
        case ("assume", names, place):
            snapshot.assume_many(chosen(names), np.full(len(chosen(names)), snapshot.row[place], np.int32))
        case ("forget", names):
            snapshot.forget_many(chosen(names))
        case ("single", name, place) if name in row:
            snapshot.assume(row[name], snapshot.row[place])
        case ("node", name, labels):
            scene.put_node(name, labels, tainted=False)
        case ("pod", name, which, place, terminating):
            scene.put_pod(name, which, place, terminating=terminating)
        case ("pod gone", name):
            scene.drop_pod(name)
        case ("try", names, place):
            with snapshot.trial():
                snapshot.remove_many(chosen(names))
                snapshot.assume_many(
                    chosen(names)[:2], np.full(len(chosen(names)[:2]), snapshot.row[place], np.int32)
                )
        case ("ask", which):
            for place in scene.nodes:
                filters.why(scene.shapes[which], place)
        case _:
            pass


@given(
    templates=st.lists(TEMPLATES, min_size=4, max_size=4),
    start=st.lists(LABELS, min_size=4, max_size=4),
    pods=st.lists(st.tuples(st.integers(0, 3), PLACES, st.booleans()), min_size=6, max_size=6),
    steps=st.lists(STEPS, max_size=12),
    limits=st.sampled_from([(1, 1, 1), (1024, 2**20, 16), (1024, 4, 2), (1, 2**20, 16)]),
)
def test_answers_equal_a_count_of_all_pods_now(
    *,
    templates: list[dict[str, Any]],
    start: list[dict[str, str]],
    pods: list[tuple[int, str, bool]],
    steps: list[tuple[Any, ...]],
    limits: tuple[int, int, int],
) -> None:
    """Filters that received every move and were read rarely agree with new ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "_MAX_SPARE_ENTRIES", limits[0])
        patch.setattr(counters, "_MAX_QUEUED", limits[1])
        patch.setattr(counter, "_MAX_DEFERRED", limits[2])
        scene = Scene(templates, late=True)
        for name, labels in zip("mnop", start, strict=True):
            scene.put_node(name, labels, tainted=False)
        for number, (which, place, terminating) in enumerate(pods):
            scene.put_pod(f"pod-{number}", which, place, terminating=terminating)
        filters = Filters(scene.snapshot)
        for step in steps:
            _take(scene, filters, step)
        fresh = Filters(scene.snapshot)
        rows = np.array(sorted(scene.snapshot.row.values()), np.intp)
        for shape in scene.shapes:
            for place in scene.nodes:
                assert filters.why(shape, place) == fresh.why(shape, place)
            for kept, new in ((filters.affinity, fresh.affinity), (filters.spread, fresh.spread)):
                assert (kept.scores(shape, rows) == new.scores(shape, rows)).all()
