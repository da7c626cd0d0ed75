"""Shapes have exactly the labels that selectors distinguish, whichever came first."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from tests.support.filters import builders
from tests.support.filters.builders import empty_snapshot, node, pod
from tests.support.filters.dynamic_cases import anti_affinity
from tests.support.steps import steps

from podium.api.selectors import Requirement, Selector
from podium.planner import interning as labels_module
from podium.planner.filters.chain import Chain
from podium.planner.interning import OTHER, VisibleLabels, selectors_of
from podium.planner.snapshot import Snapshot

INDEX = "batch.kubernetes.io/job-completion-index"
NAMES = [f"p{at}" for at in range(6)]

_keys, _values = st.sampled_from("klm"), st.sampled_from("xyz")
_expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        _keys,
        st.sampled_from(["In", "NotIn"]),
        st.lists(_values, min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        _keys,
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
_selectors = st.builds(lambda some: {"matchExpressions": some}, st.lists(_expressions, max_size=2))
_specs = st.one_of(
    st.just({}),
    st.builds(
        lambda kind, selector, key: {
            "affinity": {
                kind: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": selector, "topologyKey": key}
                    ]
                }
            }
        },
        st.sampled_from(["podAffinity", "podAntiAffinity"]),
        _selectors,
        st.sampled_from(["host", "zone"]),
    ),
    st.builds(
        lambda selector: {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "host",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                }
            ]
        },
        _selectors,
    ),
)
_pods = st.builds(
    lambda name, labels, at, spec: pod(name, labels=labels, node=at, **spec),
    st.sampled_from(NAMES),
    st.dictionaries(_keys, _values),
    st.sampled_from([None, "m", "n"]),
    _specs,
)
_changes = st.lists(st.one_of(_pods, _pods, _pods, st.sampled_from(NAMES)), min_size=2, max_size=12)


def _nodes() -> Snapshot:
    snapshot = empty_snapshot()
    for name, zone in (("m", "x"), ("n", "x")):
        snapshot.add_node(node(name, labels={"host": name, "zone": zone}))
    return snapshot


@pytest.mark.parametrize("unused", [0, 4096], ids=["names are forgotten", "names are kept"])
@profile(max_examples=60)
@given(changes=_changes)
def test_selectors_match_shapes_as_they_match_pods(unused: int, changes: list[Any]) -> None:
    """All filters answer as if every pod had come after all selectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_module, "_UNUSED", unused)
        snapshot = _nodes()
        chain = Chain(snapshot, {})
        for change in changes:
            if isinstance(change, str):
                snapshot.remove_pod((builders.NS, change))
            else:
                snapshot.add_pod(change)
            # Counters are created here, and must follow from now on.
            for row in snapshot.pod_row.values():
                chain.feasible(snapshot.shapes[snapshot.shape.item(row)])
        shapes = {row: snapshot.shapes[snapshot.shape.item(row)] for row in snapshot.pod_row.values()}
        for selector in {each for shape in shapes.values() for each in selectors_of(shape)}:
            for row, shape in shapes.items():
                read = snapshot.pods[row]
                assert read is not None
                assert selector.matches(dict(shape.labels)) == selector.matches(read.metadata.labels or {})
        anew = _nodes()
        anew.catch_up(each for shape in shapes.values() for each in selectors_of(shape))
        for row in shapes:
            read = snapshot.pods[row]
            assert read is not None
            anew.add_pod(read)
        other = Chain(anew, {})
        for name, row in snapshot.pod_row.items():
            theirs = anew.shapes[anew.shape.item(anew.pod_row[name])]
            for at, node_row in snapshot.row.items():
                assert chain.reasons(shapes[row], node_row) == other.reasons(theirs, anew.row[at])
                assert chain.fits(shapes[row], node_row) == (not chain.reasons(shapes[row], node_row))


def test_pods_that_differ_in_an_unselected_label_share_a_shape() -> None:
    snapshot = _nodes()
    for at in range(5):
        snapshot.add_pod(pod(f"p{at}", node="m", labels={INDEX: str(at), "app": "a"}))
    assert [shape.labels for shape in snapshot.shapes.values()] == [()]
    assert len({snapshot.shape.item(row) for row in snapshot.pod_row.values()}) == 1


def test_a_selector_splits_a_shape_by_what_it_names() -> None:
    snapshot = _nodes()
    for at in range(5):
        snapshot.add_pod(pod(f"p{at}", node="m", labels={INDEX: str(at)}))
    snapshot.add_pod(pod("plain", node="m"))
    snapshot.catch_up([Selector((Requirement(INDEX, "In", ("0",)),))])
    shapes = {name: snapshot.shapes[snapshot.shape.item(row)] for (_, name), row in snapshot.pod_row.items()}
    assert shapes["p0"].labels == ((INDEX, "0"),)
    assert {shapes[f"p{at}"].labels for at in range(1, 5)} == {((INDEX, OTHER),)}
    assert shapes["plain"].labels == ()
    assert snapshot.reshaped == 0
    assert len(set(snapshot.shapes.values())) == len(snapshot.shapes) == 3


def test_selectors_of_pods_count_when_shapes_are_read() -> None:
    """To distinguish pods all of them must be read, too much for each event."""
    snapshot = _nodes()
    for at in range(5):
        snapshot.add_pod(pod(f"p{at}", node="m", labels={INDEX: str(at)}))
    selector = {"matchLabels": {INDEX: "1"}}
    snapshot.add_pod(pod("apart", **anti_affinity({"topologyKey": "host", "labelSelector": selector})))
    assert {shape.labels for shape in snapshot.shapes.values()} == {()}
    snapshot.catch_up()
    assert {shape.labels for shape in snapshot.shapes.values()} == {(), ((INDEX, "1"),), ((INDEX, OTHER),)}


def test_pending_pods_that_get_another_shape_are_counted() -> None:
    """A caller that keeps the shapes of pending pods must read them again."""
    snapshot = _nodes()
    snapshot.add_pod(pod("waits", labels={INDEX: "0"}))
    snapshot.catch_up([Selector((Requirement(INDEX, "Exists", ()),))])
    assert snapshot.reshaped == 1


def test_names_that_no_selector_uses_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may name a hundred thousand values; they are dropped with it, once as many others came."""
    monkeypatch.setattr(labels_module, "_UNUSED", 10)
    visible = VisibleLabels()
    kept = [Selector((Requirement("app", "In", ("a",)),))]
    visible.name(kept)
    visible.hold(kept)
    for at in range(100):
        gone = [Selector((Requirement("index", "In", (str(at),)),))]
        visible.name(gone)
        visible.hold(gone)
        visible.release(gone)
        assert visible.visible({"app": "a", "index": str(at)}) == (("app", "a"), ("index", str(at)))
        assert visible._size <= 2 * visible._used_size + 10 + 2
    assert visible.epoch > 0
    assert not visible._unnamed
    assert visible.visible({"app": "a", "index": "0"}) == (("app", "a"), ("index", OTHER))


def test_holding_a_selector_does_not_look_at_the_values() -> None:
    """A selector may have 30,000; they are read before the next decision."""

    def work(values: int) -> int:
        visible = VisibleLabels()
        selectors = [Selector((Requirement("k", "NotIn", tuple(map(str, range(values)))),))]

        def come_and_go() -> None:
            visible.hold(selectors)
            visible.release(selectors)

        return steps(come_and_go)

    assert work(30_000) == work(1)
