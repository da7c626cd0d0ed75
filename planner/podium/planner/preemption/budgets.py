"""Finds the victims that would violate a PodDisruptionBudget, for a hundred thousand pods at once.

A plan charges every potential victim to its budgets, the most important first, so that the least important
exceed them (filterPodsWithPDBViolation of kube-scheduler). This is asked for all nodes and units of a
cluster. So the budgets that count a pod are computed once for each shape, and charging is arithmetic on
arrays. As upstream: a budget without a selector, or with one that does not parse, counts no pod. A budget
with an empty selector counts all pods of its namespace, as the eviction API does. kube-scheduler up to 1.37
counts none there, and no pod without labels. A pod that the eviction API is working on (status.disruptedPods)
is not charged again. A budget without a status allows nothing.

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
from podium.api.findings import ObjectRef
from podium.api.meta import LabelSelector
from podium.api.selectors import Selector, selector_of
from podium.cluster.reader import Name
from podium.planner.arrays import Bools, Int32s, Int64s, Rows, grown
from podium.planner.deadline import NEVER, Deadline
from podium.planner.overlay import NO_SHAPE
from podium.planner.preemption.inflight import PendingDisruptions
from podium.planner.preemption.units import Units
from podium.planner.semantics import Charge
from podium.planner.shapes import Shape
from podium.planner.snapshot import Problem, Snapshot
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


class _Charges(NamedTuple):
    """The charges of potential victims: the position of the victim among those given, and a budget id."""

    positions: Rows
    budgets: Rows


class BudgetIndex(BudgetSets):
    """The budgets of a cluster by id, and which of them count which pods of a snapshot.

    `names` gives namespace and name by id; ids of deleted budgets are reused. The answers follow the snapshot
    automatically, and budgets through `apply`. `disruptions` counts disruptions that no status shows yet.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        disruptions: PendingDisruptions | None = None,
        *,
        empty_selector: bool = True,
    ) -> None:
        super().__init__(snapshot, empty_selector=empty_selector)
        self._pending = disruptions or PendingDisruptions()
        self._pending_at = 0
        self._ids: dict[Name, int] = {}
        self._free: list[int] = []
        # The disruptions that the statuses allow, and how many of them are left.
        self._granted: Int64s = np.zeros(0, np.int64)
        self._left: Int64s = np.zeros(0, np.int64)
        self._problems: dict[int, list[Problem]] = {}
        # Budgets with pods that are not charged, by id.
        self._disrupted: dict[int, tuple[Name, ...]] = {}

    def apply(self, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None) -> None:
        """Apply one change of a budget."""
        budget = before if after is None else after
        assert budget is not None
        name = budget.metadata.namespace or "", budget.metadata.name or ""
        if after is None:
            self._remove(name)
            return
        if before is not None:
            self._pending.budget_written(name)
        self._set_budget(name, after)

    @property
    def _allowed(self) -> Int64s:
        """The number of disruptions left in each budget, by id."""
        if self._pending_at != self._pending.revision:
            self._pending_at = self._pending.revision
            for budget_id in self._budgets:
                self._count(budget_id)
        return self._left

    def problems(self) -> list[Problem]:
        """Return the problems of the budgets, by object."""
        return sorted(problem for problems in self._problems.values() for problem in problems)

    def charges(self, pod_rows: Rows) -> dict[Name, int]:
        """Return how many of these pods would be charged to each budget, by name."""
        budgets, counts = np.unique(self._charges(pod_rows).budgets, return_counts=True)
        names = (self.names[budget_id] for budget_id in budgets.tolist())
        return dict(sorted(zip(names, counts.tolist(), strict=True)))

    def of_each(self, pod_rows: Rows) -> list[list[Name]]:
        """Return the budgets that each of these pods would be charged to."""
        charges = self._charges(pod_rows)
        names: list[list[Name]] = [[] for _ in pod_rows]
        for position, budget_id in zip(charges.positions.tolist(), charges.budgets.tolist(), strict=True):
            names[position].append(self.names[budget_id])
        return names

    def charged(self, pod_rows: Rows) -> Bools:
        """Return for each pod whether any budget counts it."""
        self._settle(pod_rows)
        counted: Bools = self._sizes[self._set_of[pod_rows]] > 0
        return counted

    def violations(
        self,
        pod_rows: Rows,
        units: Int64s,
        charge: Charge = Charge.EVERY,
        deadline: Deadline = NEVER,
    ) -> Int64s:
        """Return for each unit how many of its pods take a budget below what its status allows.

        `pod_rows` are the pods of all potential victims, the most important unit first. `units` is the unit's
        number of each pod, ascending from 0 without a gap.
        """
        number = int(units[-1]) + 1 if len(units) else 0
        if not self._budgets:
            return np.zeros(number, np.int64)
        charges = self._scarce(self._charges(pod_rows))
        # If each pod has at most one budget, POD_STOPS has nothing to stop.
        single = bool((np.diff(charges.positions) > 0).all())
        if charge is Charge.EVERY or (charge is Charge.POD_STOPS and single):
            over = self._over(charges)
        else:
            over = np.array(self._over_with_stops(charges, units, charge, deadline), np.intp)
        violating = np.zeros(len(pod_rows), np.bool_)
        violating[over] = True
        return np.bincount(units[violating], minlength=number)

    def may_violate(self, pod_rows: Rows, nodes: Int32s) -> Rows:
        """Return the node rows, ascending, whose potential victims alone exceed one of their budgets.

        `nodes` is the node row of each pod.
        """
        positions, budgets = self._scarce(self._charges(pod_rows))
        height = len(self.names)
        pairs, counts = np.unique(nodes[positions].astype(np.int64) * height + budgets, return_counts=True)
        over = counts > self._allowed[pairs % max(height, 1)]
        rows: Rows = np.unique(pairs[over] // max(height, 1)).astype(np.intp)
        return rows

    def violating_on_nodes(self, leads: Rows, nodes: Int32s, units: Units) -> Bools:
        """Return for each entry whether its unit would violate a budget if only its node were emptied.

        An entry is a unit (by its lead) on a node where it has a pod. The entries of one node come the most
        important first, and charge all pods that are evicted with them, wherever those run.
        """
        entries, budgets, counts = self._charges_of_units(leads, units, with_surplus=True)
        scarce = np.bincount(budgets, counts, len(self.names)) > self._allowed[: len(self.names)]
        kept = scarce[budgets]
        entries, budgets, counts = entries[kept], budgets[kept], counts[kept]
        order = np.argsort(entries, kind="stable")
        order = order[_by_digits(budgets[order], len(self.names))]
        order = order[_by_digits(nodes[entries[order]], len(self._snapshot.alive))]
        entries, budgets, counts = entries[order], budgets[order], counts[order]
        here = nodes[entries]
        first = np.ones(len(order), np.bool_)
        first[1:] = (here[1:] != here[:-1]) | (budgets[1:] != budgets[:-1])
        # The charges up to and including each entry, on its node and to its budget.
        charged = np.cumsum(counts)
        begins = np.flatnonzero(first)
        charged -= np.repeat(charged[begins] - counts[begins], np.diff(np.append(begins, len(order))))
        violating = np.zeros(len(leads), np.bool_)
        violating[entries[charged > self._allowed[budgets]]] = True
        return violating

    def violating_alone(self, leads: Rows, units: Units) -> Bools:
        """Return for each unit whether it violates a budget even if no other unit is evicted."""
        entries, budgets, counts = self._charges_of_units(leads, units, with_surplus=True)
        violating = np.zeros(len(leads), np.bool_)
        violating[entries[counts > self._allowed[budgets]]] = True
        return violating

    def scarce(self, leads: Rows, units: Units) -> tuple[list[list[tuple[int, int]]], list[int]]:
        """Return the charges of each unit (budget, pods), and how many disruptions each budget has left.

        Only budgets that do not allow all of the units count; they are numbered from 0.
        """
        charges: list[list[tuple[int, int]]] = [[] for _ in leads]
        if not self._budgets:
            return charges, []
        owners, budgets, counts = self._charges_of_units(leads, units)
        scarce = np.flatnonzero(
            np.bincount(budgets, counts, len(self.names)) > self._allowed[: len(self.names)]
        )
        number = np.full(len(self.names), -1)
        number[scarce] = np.arange(len(scarce))
        for owner, budget, pods in zip(
            owners.tolist(), number[budgets].tolist(), counts.tolist(), strict=True
        ):
            if budget >= 0:
                charges[owner].append((budget, pods))
        return charges, self._allowed[scarce].tolist()

    def holding(self, leads: Rows, victims: Rows, units: Units) -> Rows:
        """Return those of the units whose eviction beside the victims' would violate a budget."""
        if not self._budgets:
            return leads[:0]
        taken = np.bincount(self._charges(units.all_members(victims)).budgets, minlength=len(self.names))
        owners, budgets, counts = self._charges_of_units(leads, units)
        over = counts + taken[budgets] > self._allowed[budgets]
        holding: Rows = leads[np.unique(owners[over])]
        return holding

    def _charges_of_units(
        self, leads: Rows, units: Units, *, with_surplus: bool = False
    ) -> tuple[Rows, Rows, Int64s]:
        """Return the charges of units: a unit's position, a budget, and how many of its pods that counts."""
        several = units.size[leads] > 1
        if with_surplus:
            several |= units.surplus_count[leads] > 0
        alone = np.flatnonzero(~several)
        own = self._charges(leads[alone])
        ones = np.ones(len(own.positions), np.int64)
        if not several.any():
            return alone[own.positions], own.budgets, ones
        # A unit occurs on each of its nodes, and its pods are read once.
        among = np.flatnonzero(several)
        distinct, which = np.unique(leads[among], return_inverse=True)
        rows, numbers = units.evicted_with(distinct) if with_surplus else units.members_of(distinct)
        charges = self._charges(rows)
        owner = np.repeat(np.arange(len(distinct)), numbers)[charges.positions]
        height = len(self.names)
        pairs, counts = np.unique(owner * height + charges.budgets, return_counts=True)
        sizes = np.bincount(pairs // max(height, 1), minlength=len(distinct))
        at = ranges((np.cumsum(sizes) - sizes)[which], sizes[which])
        return (
            np.concatenate([alone[own.positions], np.repeat(among, sizes[which])]),
            np.concatenate([own.budgets, pairs[at] % max(height, 1)]),
            np.concatenate([ones, counts[at]]),
        )

    def _set_budget(self, name: Name, budget: PodDisruptionBudget) -> None:
        budget_id = self._ids.get(name)
        selector = budget.spec.selector if budget.spec is not None else None
        if budget_id is None:
            budget_id = self._free.pop() if self._free else len(self.names)
            if budget_id == len(self.names):
                self.names.append(name)
            self.names[budget_id] = name
            self._ids[name] = budget_id
            if budget_id >= len(self._allowed):
                self._granted = grown(self._granted, 2 * budget_id + 1)
                self._left = grown(self._left, 2 * budget_id + 1)
            self._select(budget_id, name[0], budget, selector)
        else:
            known = self._budgets[budget_id].read.spec
            if (known.selector if known is not None else None) != selector:
                self._unselect(budget_id)
                self._select(budget_id, name[0], budget, selector)
            self._budgets[budget_id] = self._budgets[budget_id]._replace(read=budget)
        status = budget.status
        self._granted[budget_id] = max(status.disruptionsAllowed or 0, 0) if status is not None else 0
        self._count(budget_id)
        self._problems.pop(budget_id, None)
        problems = list(_problems(name, self._budgets[budget_id]))
        if problems:
            self._problems[budget_id] = problems
        self._disrupted.pop(budget_id, None)
        if status is not None and status.disruptedPods:
            self._disrupted[budget_id] = tuple((name[0], pod) for pod in status.disruptedPods)

    def _count(self, budget_id: int) -> None:
        pending = self._pending.count(self.names[budget_id])
        self._left[budget_id] = max(self._granted.item(budget_id) - pending, 0)

    def _remove(self, name: Name) -> None:
        budget_id = self._ids.pop(name, None)
        if budget_id is None:
            return
        self._unselect(budget_id)
        self._disrupted.pop(budget_id, None)
        self._problems.pop(budget_id, None)
        del self._budgets[budget_id]
        self._free.append(budget_id)

    def _charges(self, pod_rows: Rows) -> _Charges:
        """Return the charges of pods, in the order of the pods, then of the budgets' names."""
        self._settle(pod_rows)
        sets = self._set_of[pod_rows]
        sizes = self._sizes[sets]
        positions = np.repeat(np.arange(len(pod_rows)), sizes)
        budgets = self._flat[ranges(self._begins[sets], sizes)]
        if self._disrupted:
            height = len(self.names)
            find = self._snapshot.pod_row.get
            pairs = ((find(pod), budget_id) for budget_id, pods in self._disrupted.items() for pod in pods)
            excused = [row * height + budget_id for row, budget_id in pairs if row is not None]
            charged = ~np.isin(pod_rows[positions] * height + budgets, excused)
            positions, budgets = positions[charged], budgets[charged]
        return _Charges(positions, budgets)

    def _scarce(self, charges: _Charges) -> _Charges:
        """Return the charges without the budgets that allow all of them: those are never exceeded."""
        counts = np.bincount(charges.budgets, minlength=len(self.names))
        scarce = (counts > self._allowed[: len(counts)])[charges.budgets]
        return _Charges(charges.positions[scarce], charges.budgets[scarce])

    def _over(self, charges: _Charges) -> Rows:
        """Return the positions that exceed a budget: those after as many as it allows."""
        by_budget = _by_digits(charges.budgets, len(self.names))
        budgets = charges.budgets[by_budget]
        counts = np.bincount(budgets, minlength=len(self.names))
        turn = np.arange(len(budgets)) - (np.cumsum(counts) - counts)[budgets]
        return charges.positions[by_budget[turn >= self._allowed[budgets]]]

    def _over_with_stops(
        self, charges: _Charges, units: Int64s, charge: Charge, deadline: Deadline
    ) -> list[int]:
        left = self._allowed.tolist()
        over: list[int] = []
        stopped = -1
        stops = units[charges.positions] if charge is Charge.UNIT_STOPS else charges.positions
        charged = zip(charges.positions.tolist(), charges.budgets.tolist(), stops.tolist(), strict=True)
        for position, budget_id, until in charged:
            deadline.enforce()
            if until == stopped:
                continue
            left[budget_id] -= 1
            if left[budget_id] < 0:
                over.append(position)
                stopped = until
        return over


def _by_digits(numbers: Rows | Int32s, limit: int) -> Rows:
    """Return the stable order of numbers below a limit; a narrow type takes a fraction of the time."""
    return np.argsort(numbers.astype(np.min_scalar_type(limit)), kind="stable")


def _problems(name: Name, budget: TrackedBudget) -> Iterator[Problem]:
    ref = ObjectRef("policy/v1", "PodDisruptionBudget", *name)
    if budget.wrong is not None:
        yield Problem(ref, "spec.selector", f"{budget.wrong}, so the budget counts no pod")
    allowed = budget.read.status.disruptionsAllowed if budget.read.status is not None else None
    if allowed is not None and allowed < 0:
        yield Problem(ref, "status.disruptionsAllowed", f"{allowed} is less than 0 and read as 0")
