"""Finds the least harm with an integer program over the victims and the places of the preemptor.

Equal pods are counted and not named, and so are units that free the same room at the same cost. Harm is
minimized criterion by criterion. After each criterion, its least value becomes a row of the program.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from tests.support.oracle.problem import Amounts, Apart, Even, Harm, Problem, Unit, harm
from tests.support.oracle.program import Program

from podium.cluster.reader import Name


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
    )
