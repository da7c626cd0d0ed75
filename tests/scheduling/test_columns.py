"""Labels and taints of nodes as integers by row."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from podium.api.schedulable import Taint
from podium.schedulerplugin.columns import ABSENT_VALUE, Columns

ZONE = "topology.kubernetes.io/zone"
GPU = Taint(key="gpu", value="yes", effect="NoSchedule")
SPOT = Taint(key="spot", effect="NoExecute")


def columns(*labels: Mapping[str, str] | None) -> Columns:
    made = Columns()
    made.grow(len(labels))
    for row, each in enumerate(labels):
        made.put(row, each, None)
    return made


def test_equal_values_have_equal_ids_and_absence_its_own() -> None:
    """Rows without the label are apart from every value, the empty one too."""
    made = columns({ZONE: "a"}, None, {ZONE: ""}, {"other": "a"}, {ZONE: "a"})
    assert made.column(ZONE).tolist() == [0, ABSENT_VALUE, 1, ABSENT_VALUE, 0]
    assert made.values(ZONE) == {"a": 0, "": 1}


def test_a_key_nobody_has_is_absent_everywhere() -> None:
    made = columns({ZONE: "a"}, {ZONE: "b"})
    assert made.column("rack").tolist() == [ABSENT_VALUE, ABSENT_VALUE]
    assert made.values("rack") == {}


def test_a_column_that_was_asked_for_follows_its_nodes() -> None:
    """Values change, come, and go with the node; an id keeps its meaning."""
    made = columns({ZONE: "a"}, {ZONE: "b"})
    made.column(ZONE)
    made.put(0, {ZONE: "c"}, None)
    made.put(1, None, None)
    made.grow(3)
    made.put(2, {ZONE: "a"}, None)
    assert made.column(ZONE).tolist() == [2, ABSENT_VALUE, 0]
    assert made.values(ZONE) == {"a": 0, "b": 1, "c": 2}


def test_nodes_with_the_same_taints_share_a_set_and_none_is_the_first() -> None:
    made = columns(None, None, None)
    made.put(0, None, [GPU, SPOT])
    made.put(2, None, [GPU, SPOT])
    assert made.taints.tolist() == [1, 0, 1]
    assert made.taint_sets == [(), (GPU, SPOT)]


def test_put_says_whether_anything_is_new() -> None:
    """The same labels and taints again are no change, so masks outlive the reports of a kubelet."""
    made = columns(None)
    assert made.put(0, {ZONE: "a"}, [GPU])
    assert not made.put(0, {ZONE: "a"}, [GPU])
    assert made.put(0, {ZONE: "a"}, [SPOT])
    assert made.put(0, {}, [SPOT])
    assert not made.put(0, None, [SPOT])


_LABELS = st.dictionaries(st.sampled_from([ZONE, "rack", "disk"]), st.sampled_from("abc"), max_size=3)


@given(puts=st.lists(st.tuples(st.integers(0, 4), _LABELS)), early=st.sets(st.sampled_from([ZONE, "rack"])))
def test_columns_say_what_the_labels_say(puts: list[tuple[int, dict[str, str]]], early: set[str]) -> None:
    """Whenever a column is made, its ids name the labels that each row has now."""
    made = columns(*[None] * 5)
    for key in early:
        made.column(key)
    labels: list[dict[str, str]] = [{} for _ in range(5)]
    for row, each in puts:
        labels[row] = each
        made.put(row, each, None)
    for key in (ZONE, "rack", "disk"):
        named = {value_id: value for value, value_id in made.values(key).items()}
        assert [named.get(value_id) for value_id in made.column(key).tolist()] == [
            each.get(key) for each in labels
        ]
