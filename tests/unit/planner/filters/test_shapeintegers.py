"""Integers by shape: an array by id, with memory for the existing shapes only."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podium.planner.filters import counter
from podium.planner.filters.counter import ShapeIntegers


def test_memory_is_proportional_to_the_existing_shapes() -> None:
    """A million shapes are added and removed, and one stays."""
    shapes = {0: None}
    found = ShapeIntegers(shapes)
    found.set(0, 2)
    for shape_id in range(1, 1_000_000, 97):
        shapes[shape_id] = None
        found.set(shape_id, 1)
        del shapes[shape_id]
        assert found.stored <= 8 * counter._DENSE
    assert found.get(np.array([0], np.int32)).tolist() == [2]


class AnyShapes(RuleBasedStateMachine):
    """Shapes are added and removed, and get integers."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(counter, "_DENSE", 2)
        self.met = 0
        self.expected: dict[int, int] = {}
        self.found = ShapeIntegers(self.expected)

    def teardown(self) -> None:
        self.patch.undo()

    @rule(skipped=st.integers(0, 9))
    def meet(self, skipped: int) -> None:
        self.met += skipped
        self.expected[self.met] = 0
        self.met += 1

    @rule(data=st.data(), value=st.integers(0, 2))
    @precondition(lambda self: self.expected)
    def put(self, data: st.DataObject, value: int) -> None:
        shape_id = data.draw(st.sampled_from(sorted(self.expected)))
        self.expected[shape_id] = value
        self.found.set(shape_id, value)

    @rule(data=st.data())
    @precondition(lambda self: self.expected)
    def drop(self, data: st.DataObject) -> None:
        del self.expected[data.draw(st.sampled_from(sorted(self.expected)))]

    @rule()
    def clear(self) -> None:
        self.expected.update(dict.fromkeys(self.expected, 0))
        self.found.clear()

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        if self.expected:
            ids = data.draw(st.lists(st.sampled_from(sorted(self.expected))))
            assert self.found.get(np.array(ids, np.int32)).tolist() == [self.expected[each] for each in ids]

    @invariant()
    def all_are_right(self) -> None:
        ids = list(self.expected)
        if self.met % 3 == 0:
            assert self.found.get(np.array(ids, np.int32)).tolist() == list(self.expected.values())


TestAnyShapes = AnyShapes.TestCase
TestAnyShapes.settings = settings(max_examples=100, stateful_step_count=40)
