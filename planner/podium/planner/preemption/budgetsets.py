"""Finds the budgets that count each pod: one set of budgets for each shape, by pod row.

A budget is nearly always made for one app and selects it by one label. So a pod's labels lead to the few
budgets to evaluate. A selector without such a label is evaluated for every pod of its namespace. A tenant can
make thousands of those, so a pod is compared with `MOST_BUDGETS` at most: the first ones by name.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np

from podium.api.core import PodDisruptionBudget
from podium.api.meta import LabelSelector
from podium.api.selectors import Selector, selector_of
from podium.cluster.reader import Name
from podium.planner.arrays import Int32s, Rows, grown
from podium.planner.overlay import NO_SHAPE
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot
from podium.rules.names import label_value, qualified_name

# The API server's eviction refuses a pod with more than one budget.
MOST_BUDGETS = 256
# The keys and values in the expressions of a budget's selector; each takes a microsecond at each change.
MOST_VALUES = 5_000
# The most entries of sets, 8 bytes each, before those that no pod has any more are dropped.
_MOST_ENTRIES = 2**21
_VALUED = ("In", "NotIn")
_BARE = ("Exists", "DoesNotExist")


class TrackedBudget(NamedTuple):
    """The fields that are kept of a budget; the selector is None if it counts no pod."""

    read: PodDisruptionBudget
    selector: Selector | None
    wrong: str | None


class NamespaceBudgets:
    """The budgets of a namespace, by one label that a pod must have; `rest` have no such label."""

    def __init__(self) -> None:
        self.by_label: dict[tuple[str, str], list[tuple[Name, int]]] = {}
        self.rest: list[tuple[Name, int]] = []

    def add(self, selector: Selector, name: Name, budget_id: int) -> None:
        """Register a budget by its selector."""
        label = self._label(selector)
        insort(self.rest if label is None else self.by_label.setdefault(label, []), (name, budget_id))

    def discard(self, selector: Selector, name: Name, budget_id: int) -> None:
        """Remove a budget."""
        label = self._label(selector)
        budgets = self.rest if label is None else self.by_label[label]
        del budgets[bisect_left(budgets, (name, budget_id))]
        if label is not None and not budgets:
            del self.by_label[label]

    def candidates(self, shape: Shape) -> list[int]:
        """Return the first MOST_BUDGETS budgets, by name, that may count pods of a shape."""
        labelled = (self.by_label[label] for label in shape.labels if label in self.by_label)
        return [budget_id for _, budget_id in islice(merge(self.rest, *labelled), MOST_BUDGETS)]

    def _label(self, selector: Selector) -> tuple[str, str] | None:
        for key, operator, values in selector.requirements:
            if operator == "In" and len(values) == 1:
                return key, values[0]
        return None


def parsed(given: LabelSelector | None) -> tuple[Selector | None, str | None]:
    """Return the parsed selector, None if it is wrong or absent, and an error message if it is wrong."""
    written = given.matchExpressions or () if given is not None else ()
    if sum(1 + len(expression.values or ()) for expression in written) > MOST_VALUES:
        return None, f"it has more than {MOST_VALUES:,} keys and values"
    unreadable: dict[str, None] = {}
    selector = selector_of(given, unreadable)
    if selector is None:
        return None, None
    wrong = next(_selector_errors(selector), None)
    return (None, wrong) if wrong is not None else (selector, None)


def _selector_errors(selector: Selector) -> Iterator[str]:
    """Yield the parts from which kube-scheduler could not make a selector."""
    for key, operator, values in selector.requirements:
        if operator not in (*_VALUED, *_BARE):
            yield f"{operator!r} is no operator of a label selector"
        elif (operator in _VALUED) is not bool(values):
            yield f"{operator} of label {key!r} takes {'' if operator in _VALUED else 'no '}values"
        if qualified_name(key):
            yield f"{key!r} is no label key"
        if operator in _VALUED:
            yield from (f"{value!r} is no label value" for value in values if label_value(value))


class BudgetSets:
    """The sets of budgets that count pods, by number; `names` gives namespace and name of a budget by id."""

    def __init__(self, snapshot: Snapshot, *, empty_selector: bool = True) -> None:
        """`empty_selector`: an empty selector counts all pods, and others count pods without labels."""
        self.names: list[Name] = []
        self._empty_selector = empty_selector
        self._snapshot = snapshot
        self._budgets: dict[int, TrackedBudget] = {}
        self._namespaces: dict[str, NamespaceBudgets] = {}
        # Sets of budgets by number. The set of a pod row is valid while the pod has the shape stored beside
        # it.
        self._sets: dict[tuple[int, ...], int] = {(): 0}
        self._set_of: Int32s = np.zeros(0, np.int32)
        self._shape_of: Int32s = np.zeros(0, np.int32)
        self._stale: set[str] = set()
        # The sets one after another, and the start and length of each.
        self._flat: Rows = np.zeros(0, np.intp)
        self._begins: Rows = np.zeros(1, np.intp)
        self._sizes: Rows = np.zeros(1, np.intp)

    def _select(
        self, budget_id: int, namespace: str, budget: PodDisruptionBudget, given: LabelSelector | None
    ) -> None:
        """Register a budget with its namespace, so that the pods it counts find it."""
        selector, wrong = parsed(given)
        if selector is not None:
            selector = selector.counting(empty=self._empty_selector)
        self._budgets[budget_id] = TrackedBudget(budget, selector, wrong)
        if selector is not None:
            self._snapshot.labels.hold((selector,))
            self._namespaces.setdefault(namespace, NamespaceBudgets()).add(
                selector, self.names[budget_id], budget_id
            )
            self._stale.add(namespace)

    def _unselect(self, budget_id: int) -> None:
        selector = self._budgets[budget_id].selector
        if selector is not None:
            self._snapshot.labels.release((selector,))
            namespace = self.names[budget_id][0]
            self._namespaces[namespace].discard(selector, self.names[budget_id], budget_id)
            self._stale.add(namespace)

    def _settle(self, pod_rows: Rows) -> None:
        """Update the sets of these pods: after a new shape, or a change of a budget in the namespace."""
        snapshot = self._snapshot
        snapshot.catch_up()
        size = len(snapshot.shape)
        if len(self._set_of) < size:
            self._set_of = grown(self._set_of, size)
            self._shape_of = grown(self._shape_of, size, NO_SHAPE)
        if self._stale:
            shapes = [
                shape_id for shape_id, shape in snapshot.shapes.items() if shape.namespace in self._stale
            ]
            self._shape_of[np.isin(self._shape_of, shapes)] = NO_SHAPE
            self._stale.clear()
        if len(self._flat) > _MOST_ENTRIES:
            self._sets, self._sizes = {(): 0}, np.zeros(0, np.intp)
            self._shape_of[:] = NO_SHAPE
        shape_ids = snapshot.shape[pod_rows]
        unknown = self._shape_of[pod_rows] != shape_ids
        if unknown.any():
            rows, shape_ids = pod_rows[unknown], shape_ids[unknown]
            distinct, which = np.unique(shape_ids, return_inverse=True)
            sets = [self._set(self._match(snapshot.shapes[shape_id])) for shape_id in distinct.tolist()]
            self._set_of[rows] = np.array(sets, np.int32)[which]
            self._shape_of[rows] = shape_ids
            self._lay_out()

    def _match(self, shape: Shape) -> tuple[int, ...]:
        """Return the budgets that count pods of a shape, by name."""
        namespace = self._namespaces.get(shape.namespace)
        if namespace is None or not (shape.labelled or self._empty_selector):
            return ()
        labels = dict(shape.labels)
        budget_ids = []
        for budget_id in namespace.candidates(shape):
            selector = self._budgets[budget_id].selector
            if selector is not None and selector.matches(labels):
                budget_ids.append(budget_id)
        return tuple(budget_ids)

    def _set(self, budgets: tuple[int, ...]) -> int:
        return self._sets.setdefault(budgets, len(self._sets))

    def _lay_out(self) -> None:
        """Write all sets into the arrays."""
        if len(self._sizes) == len(self._sets):
            return
        self._sizes = np.fromiter(map(len, self._sets), np.intp, len(self._sets))
        self._begins = np.cumsum(self._sizes) - self._sizes
        self._flat = np.array([budget_id for budgets in self._sets for budget_id in budgets], np.intp)


def ranges(begins: Rows, sizes: Rows) -> Rows:
    """Return the numbers from each start on, as many as its size, one range after the other."""
    before = np.cumsum(sizes) - sizes
    numbers: Rows = np.arange(int(sizes.sum())) + np.repeat(begins - before, sizes)
    return numbers
