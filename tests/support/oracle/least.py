"""Finds the least harm with an integer program over the victims and the places of the preemptor.

Equal pods are counted and not named, and so are units that free the same room at the same cost. Harm is
minimized criterion by criterion. After each criterion, its least value becomes a row of the program.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import highspy
import numpy as np
from tests.support.oracle.problem import Amounts, Apart, Even, Harm, Problem, Unit, harm

from podium.cluster.reader import Name
from podium.errors import PodiumError

# All costs are integers, so of two solutions closer than this one is optimal.
_GAP = 0.99
_INFINITE = highspy.kHighsInf


class Program:
    """Variables of at least 0, rows `sum(coefficient * variable) <= most`, and costs to minimize in turn.

    Coefficients and bounds are integers. A row is divided by the common divisor of its coefficients, so that
    bytes stay within the tolerance of floating-point numbers.
    """

    def __init__(self) -> None:
        self._most: list[float] = []
        self._integer: list[bool] = []
        self._rows: list[tuple[Mapping[int, int], int]] = []
        self._solver: highspy.Highs | None = None
        self.values: list[int] = []

    def variable(self, most: int | None = None, *, integer: bool = True) -> int:
        """Add a variable of at least 0 and return its number; `integer` is False if other rows make it so."""
        self._most.append(_INFINITE if most is None else most)
        self._integer.append(integer)
        return len(self._most) - 1

    def row(self, coefficients: Mapping[int, int], most: int) -> None:
        """Add a row: a sum is at most `most`."""
        given = {variable: each for variable, each in coefficients.items() if each}
        common = math.gcd(*given.values()) or 1
        scaled = {variable: each // common for variable, each in given.items()}
        self._rows.append((scaled, most // common))
        if self._solver is not None:
            self._add(*self._rows[-1])

    def minimize(self, costs: Mapping[int, int]) -> int | None:
        """Return the least sum of costs; `values` are then the variables. None if no values meet all rows."""
        solver = self._solver or self._built()
        every = np.arange(len(self._most), dtype=np.int32)
        weights = np.zeros(len(every))
        weights[list(costs)] = list(costs.values())
        solver.changeColsCost(len(every), every, weights)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise PodiumError(f"HiGHS did not solve the program: {status}")
        self.values = [round(each) for each in solver.getSolution().col_value]
        for coefficients, most in self._rows:
            assert sum(each * self.values[at] for at, each in coefficients.items()) <= most, "an inexact row"
        return sum(cost * self.values[at] for at, cost in costs.items())

    def forbid(self, variables: Iterable[int]) -> None:
        """Set variables to 0 from now on."""
        assert self._solver is not None, "the program was solved before"
        for variable in variables:
            self._solver.changeColBounds(variable, 0, 0)

    def _built(self) -> highspy.Highs:
        solver = self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", _GAP)
        upper = np.array(self._most, np.float64)
        solver.addVars(len(upper), np.zeros(len(upper)), upper)
        integers = np.flatnonzero(np.array(self._integer, np.bool_)).astype(np.int32)
        kinds = np.full(len(integers), int(highspy.HighsVarType.kInteger), np.uint8)
        solver.changeColsIntegrality(len(integers), integers, kinds)
        for coefficients, most in self._rows:
            self._add(coefficients, most)
        return solver

    def _add(self, coefficients: Mapping[int, int], most: int) -> None:
        assert self._solver is not None
        at = np.fromiter(coefficients, np.int32, len(coefficients))
        weights = np.fromiter(coefficients.values(), np.float64, len(coefficients))
        self._solver.addRow(-_INFINITE, most, len(at), at, weights)


class Criterion(StrEnum):
    """A part of harm; the caller chooses the order in which parts are compared."""

    VIOLATIONS = "violations"
    # Priority by priority, which decides the highest priority too: work, then pods, then units.
    LEVELS = "levels"
    # The same without work, and the work of all priorities in one sum.
    COUNTS = "counts"
    WORK = "work"


ORDER = (Criterion.VIOLATIONS, Criterion.LEVELS)
# The order of KEP-5710's first principle taken literally: as few pods as possible.
COUNTS_FIRST = (Criterion.VIOLATIONS, Criterion.COUNTS, Criterion.WORK)


class Least(NamedTuple):
    """The least harm, victims that achieve it, and how many pods of each demand run on which nodes."""

    harm: Harm
    units: tuple[Unit, ...]
    placed: dict[tuple[int, int], int]


class _Alike(NamedTuple):
    """The facts by which units are interchangeable; `freed` is by node."""

    priority: int
    freed: tuple[tuple[int, Amounts], ...]
    pods: int
    budgets: tuple[tuple[Name, int], ...]
    work: int
    # Units of which some go only with others are like no others: the name of the core, and whether it is one.
    core: tuple[str, bool]
    # The same holds for a unit that keeps pods out: its name.
    keeper: str = ""


def least(problem: Problem, order: Sequence[Criterion] = ORDER) -> Least | None:
    """Return the least harm with which the preemptor fits, None if it never fits."""
    model = _Model(problem, by_work=not {Criterion.WORK, Criterion.LEVELS}.isdisjoint(order))
    if not model.places or model.program.minimize({}) is None:
        return None
    for criterion in order:
        model.settle(criterion)
    units = tuple(model.chosen())
    rows = {pod.row for unit in units for pod in unit.pods}
    values = model.program.values
    placed = {where: values[at] for where, at in model.places.items() if values[at]}
    return Least(harm(problem, rows), units, placed)


class _Model:
    """The program of one problem: `going` counts victims of a kind, `places` pods of a demand on a node."""

    def __init__(self, problem: Problem, *, by_work: bool) -> None:
        self.problem = problem
        self.program = Program()
        self.kinds: dict[_Alike, list[Unit]] = defaultdict(list)
        cores = {unit.core for unit in problem.units}
        for unit in problem.units:
            core = (unit.name, True) if unit.name in cores else (unit.core, False)
            self.kinds[_alike(unit, problem, core, by_work=by_work)].append(unit)
        self.going = {kind: self.program.variable(len(units)) for kind, units in self.kinds.items()}
        self.places: dict[tuple[int, int], int] = {}
        self.over: list[int] = []
        self._fit()
        self._enough()
        self._charge()
        self._keep_cores()
        self._keep_out()
        for constraint in problem.constraints:
            self._constrain(constraint)

    def settle(self, criterion: Criterion) -> None:
        """Minimize one criterion and keep its least value."""
        match criterion:
            case Criterion.VIOLATIONS:
                self._keep_least(dict.fromkeys(self.over, 1))
            case Criterion.LEVELS | Criterion.COUNTS:
                # One more pod is worse than any number of units.
                pod = len(self.problem.units) + 1
                for kinds in self._levels():
                    if criterion is Criterion.LEVELS:
                        self._keep_least({self.going[kind]: kind.work for kind in kinds if kind.work})
                    self._keep_least({self.going[kind]: pod * kind.pods + 1 for kind in kinds})
            case Criterion.WORK:
                self._keep_least({at: kind.work for kind, at in self.going.items() if kind.work})

    def chosen(self) -> Iterable[Unit]:
        """Return the victims of the solution."""
        for kind, at in self.going.items():
            yield from self.kinds[kind][: self.program.values[at]]

    def _keep_least(self, costs: Mapping[int, int]) -> None:
        if not costs:
            return
        least_of_all = self.program.minimize(costs)
        assert least_of_all is not None, "what was decided before can be met"
        if least_of_all:
            self.program.row(costs, least_of_all)
        else:
            self.program.forbid(costs)

    def _levels(self) -> list[list[_Alike]]:
        """Return the kinds by priority, the highest first."""
        levels: dict[int, list[_Alike]] = defaultdict(list)
        for kind in self.kinds:
            levels[kind.priority].append(kind)
        return [levels[priority] for priority in sorted(levels, reverse=True)]

    def _fit(self) -> None:
        """Add the possible places of pods, and for each node and resource the row that they fit there."""
        freed: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
        for kind, variable in self.going.items():
            for node, amounts in kind.freed:
                for name, amount in amounts:
                    freed[node, name][variable] = amount
        most = {variable: len(self.kinds[kind]) for kind, variable in self.going.items()}
        for node, free in self.problem.free.items():
            room = {
                name: amount + sum(each * most[at] for at, each in freed[node, name].items())
                for name, amount in free.items()
            }
            here: dict[int, Amounts] = {}
            for number, demand in enumerate(self.problem.demands):
                if node not in demand.nodes:
                    continue
                fit = min((room[name] // amount for name, amount in demand.amounts), default=demand.pods)
                if fit > 0:
                    variable = self.program.variable(min(fit, demand.pods))
                    self.places[number, node] = variable
                    here[variable] = demand.amounts
            for name, amount in free.items():
                requested = {at: dict(amounts).get(name, 0) for at, amounts in here.items()}
                self._fit_resource(requested, freed[node, name], amount)

    def _fit_resource(self, requested: Mapping[int, int], freed: Mapping[int, int], free: int) -> None:
        if not any(requested.values()):
            return
        leaving = {at: -each for at, each in freed.items()}
        if free >= 0:
            self.program.row({**requested, **leaving}, free)
            return
        # Nothing has to go from a node in debt unless a pod is placed there.
        used = self.program.variable(1)
        self.program.row({**requested, **leaving, used: -free}, 0)
        for at in requested:
            self.program.row({at: 1, used: -sum(each.pods for each in self.problem.demands)}, 0)

    def _enough(self) -> None:
        """Require as many placed pods as are needed, and no more of a demand than it has."""
        self.program.row(dict.fromkeys(self.places.values(), -1), -self.problem.needed)
        for number, demand in enumerate(self.problem.demands):
            self.program.row({at: 1 for (each, _), at in self.places.items() if each == number}, demand.pods)

    def _charge(self) -> None:
        """Add the number of pods that exceed each budget."""
        for name, left in self.problem.left.items():
            charged = {at: dict(kind.budgets).get(name, 0) for kind, at in self.going.items()}
            over = self.program.variable(integer=False)
            self.over.append(over)
            self.program.row({**charged, over: -1}, left)

    def _keep_cores(self) -> None:
        """Require that a core is evicted only with all of its surplus."""
        cores = {kind.core[0]: at for kind, at in self.going.items() if kind.core[1]}
        for kind, at in self.going.items():
            name, is_core = kind.core
            if name in cores and not is_core:
                self.program.row({cores[name]: len(self.kinds[kind]), at: -1}, 0)

    def _keep_out(self) -> None:
        """Require that units leave the nodes from which they keep out placed pods."""
        for kind, at in self.going.items():
            for number, nodes in self.kinds[kind][0].keeps_out:
                for node in nodes:
                    if (number, node) in self.places:
                        pods = self.problem.demands[number].pods
                        self.program.row({self.places[number, node]: 1, at: -pods}, 0)

    def _constrain(self, constraint: Even | Apart) -> None:
        sums = [
            {
                at: 1
                for (number, node), at in self.places.items()
                if number in constraint.demands and node in domain
            }
            for domain in constraint.domains
        ]
        if isinstance(constraint, Apart):
            for here in sums:
                self.program.row(here, 1)
            return
        fewest = self.program.variable()
        for here in sums:
            self.program.row({fewest: 1, **dict.fromkeys(here, -1)}, 0)
            self.program.row({**here, fewest: -1}, constraint.skew)


def _alike(unit: Unit, problem: Problem, core: tuple[str, bool], *, by_work: bool) -> _Alike:
    freed: dict[int, Counter[str]] = defaultdict(Counter)
    for pod in unit.pods:
        if pod.node in problem.free:
            freed[pod.node].update(dict(pod.amounts))
    budgets = Counter(pod.budget for pod in unit.pods if pod.budget is not None)
    return _Alike(
        unit.priority,
        tuple((node, tuple(sorted(freed[node].items()))) for node in sorted(freed)),
        len(unit.pods),
        tuple(sorted(budgets.items())),
        unit.work if by_work else 0,
        core,
        unit.name if unit.keeps_out else "",
    )
