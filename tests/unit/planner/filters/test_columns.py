"""Labels and taints of nodes as integers by row."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podium.api.schedulable import Taint
from podium.planner.arrays import ABSENT_VALUE, Columns

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
    """Rows without the label differ from every value, also from the empty one."""
    made = columns({ZONE: "a"}, None, {ZONE: ""}, {"other": "a"}, {ZONE: "a"})
    assert made.column(ZONE).tolist() == [0, ABSENT_VALUE, 1, ABSENT_VALUE, 0]
    assert made.values(ZONE).of == {"a": 0, "": 1}


def test_a_key_that_no_node_has_is_absent_everywhere() -> None:
    made = columns({ZONE: "a"}, {ZONE: "b"})
    assert made.column("rack").tolist() == [ABSENT_VALUE, ABSENT_VALUE]
    assert made.values("rack").of == {}


def test_a_column_that_was_asked_for_follows_its_nodes() -> None:
    """Values change, are added, and are removed with the node; an unused value's id is free again."""
    made = columns({ZONE: "a"}, {ZONE: "b"})
    made.column(ZONE)
    made.put(0, {ZONE: "c"}, None)
    made.put(1, None, None)
    made.grow(3)
    made.put(2, {ZONE: "a"}, None)
    assert made.column(ZONE).tolist() == [2, ABSENT_VALUE, 1]
    assert made.values(ZONE).of == {"c": 2, "a": 1}


def test_nodes_with_the_same_taints_share_a_set_and_none_is_the_first() -> None:
    made = columns(None, None, None)
    made.put(0, None, [GPU, SPOT])
    made.put(2, None, [GPU, SPOT])
    assert made.taints.rows.tolist() == [1, 0, 1]
    assert made.taints.ids.of == {(): 0, (GPU, SPOT): 1}
    assert made.taints.of[:3] == [(GPU, SPOT), (), (GPU, SPOT)]


def test_put_says_whether_anything_is_new() -> None:
    """Equal labels and taints are no change, so masks survive the reports of a kubelet."""
    made = columns(None)
    assert made.put(0, {ZONE: "a"}, [GPU])
    assert not made.put(0, {ZONE: "a"}, [GPU])
    assert made.put(0, {ZONE: "a"}, [SPOT])
    assert made.put(0, {}, [SPOT])
    assert not made.put(0, None, [SPOT])


_LABELS = st.dictionaries(st.sampled_from([ZONE, "rack", "disk"]), st.sampled_from("abc"), max_size=3)


@given(puts=st.lists(st.tuples(st.integers(0, 4), _LABELS)), early=st.sets(st.sampled_from([ZONE, "rack"])))
def test_columns_equal_the_labels(puts: list[tuple[int, dict[str, str]]], early: set[str]) -> None:
    """Whenever a column is built, its ids name the current label of each row."""
    made = columns(*[None] * 5)
    for key in early:
        made.column(key)
    labels: list[dict[str, str]] = [{} for _ in range(5)]
    for row, each in puts:
        labels[row] = each
        made.put(row, each, None)
    for key in (ZONE, "rack", "disk"):
        named = {value_id: value for value, value_id in made.values(key).of.items()}
        assert [named.get(value_id) for value_id in made.column(key).tolist()] == [
            each.get(key) for each in labels
        ]


# Remains of nodes and pods.


def test_a_key_that_no_node_has_costs_no_column() -> None:
    """Pods may name any number of keys; all absent ones share one column."""
    made = columns({ZONE: "a"}, None)
    nowhere = made.column("key-0")
    assert all(made.column(f"key-{number}") is nowhere for number in range(12_000))
    assert made._columns == {}
    assert not nowhere.flags.writeable
    assert (made.has(ZONE), made.has("key-0")) == (True, False)


def test_a_column_goes_with_the_last_node_that_has_its_key() -> None:
    made = columns({ZONE: "a"}, {ZONE: "a"})
    made.column(ZONE)
    made.put(0, None, None)
    assert made.has(ZONE)
    made.put(1, {"rack": "r"}, None)
    assert not made.has(ZONE)
    assert made._columns == {}
    assert made.column(ZONE).tolist() == [ABSENT_VALUE, ABSENT_VALUE]


def test_values_that_follow_each_other_share_an_id() -> None:
    """Nodes are replaced continuously, each with a host name of its own."""
    made = columns({"host": "n-0"}, {"host": "stays"})
    for number in range(1, 1000):
        assert made.column("host").tolist()[1] == 1
        made.put(0, {"host": f"n-{number}"}, None)
    assert made.values("host").size <= 3
    assert set(made.values("host").of) == {"n-999", "stays"}


def test_taints_that_follow_each_other_share_an_id() -> None:
    """An autoscaler's taints have the time as their value."""
    made = columns(None, None)
    for number in range(1000):
        made.put(0, None, [Taint(key="ToBeDeleted", value=str(number), effect="NoSchedule")])
        made.put(0, None, None)
    assert made.taints.ids.size == 2
    assert made.taints.ids.of == {(): 0}


class AnyPuts(RuleBasedStateMachine):
    """Labels and taints change on rows that grow: ids are those of the existing values only."""

    def __init__(self) -> None:
        super().__init__()
        self.made = columns()
        self.expected: list[tuple[dict[str, str], list[Taint]]] = []

    @rule(more=st.integers(1, 3))
    def grow(self, more: int) -> None:
        self.expected += [({}, []) for _ in range(more)]
        self.made.grow(len(self.expected))

    @rule(data=st.data(), labels=_LABELS, taints=st.lists(st.sampled_from([GPU, SPOT]), max_size=2))
    @precondition(lambda self: self.expected)
    def put(self, data: st.DataObject, labels: dict[str, str], taints: list[Taint]) -> None:
        row = data.draw(st.integers(0, len(self.expected) - 1))
        changes = self.expected[row] != (labels, taints)
        self.expected[row] = (labels, taints)
        assert self.made.put(row, labels, taints) is changes

    @rule(key=st.sampled_from([ZONE, "rack"]))
    def ask(self, key: str) -> None:
        self.made.column(key)

    @invariant()
    def ids_are_those_of_the_values_there_are(self) -> None:
        made = self.made
        for key in (ZONE, "rack"):
            column = made._columns.get(key)
            values = [labels.get(key) for labels, _ in self.expected]
            assert made.has(key) is any(value is not None for value in values)
            if column is not None:
                assert column.ids.of.keys() == {value for value in values if value is not None}
                assert [ABSENT_VALUE if each is None else column.ids.of[each] for each in values] == (
                    column.rows.tolist()
                )
                assert column.ids.size <= len(self.expected) + 1
        sets = made.taints.ids
        assert sets.of.keys() == {tuple(taints) for _, taints in self.expected}
        assert [sets.of[tuple(taints)] for _, taints in self.expected] == made.taints.rows.tolist()
        assert len(set(sets.of.values())) == len(sets.of)
        assert sets.size <= len(self.expected) + 1


TestAnyPuts = AnyPuts.TestCase
TestAnyPuts.settings = settings(max_examples=60, stateful_step_count=30)
