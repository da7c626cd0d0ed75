"""A cluster and a preemptor as plain values for the oracle: room, demands, units, budgets.

It is read from an engine, with the planner's units and static filters. It does not use the planner's choice
of victims and placement, because the oracle checks these.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import product, starmap
from typing import NamedTuple

import numpy as np
from tests.support.filters.builders import need

from podium.api.membership import GroupKey
from podium.api.times import seconds
from podium.cluster.reader import Name
from podium.planner.arrays import Rows
from podium.planner.engine import Engine
from podium.planner.plugins.nodeports import PortNeed, ports_clash
from podium.planner.plugins.podaffinity.needs import PodAffinityNeed
from podium.planner.plugins.topologyspread import SpreadNeed
from podium.planner.preemption.harm import work_lost
from podium.planner.preemption.outcome import full_name
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.planner.shapes import Shape

HOST = "kubernetes.io/hostname"

# By resource, in the order of its name.
Amounts = tuple[tuple[str, int], ...]


class Demand(NamedTuple):
    """A number of equal pods with these requests, and the nodes that suit them."""

    pods: int
    amounts: Amounts
    nodes: frozenset[int]


class Pod(NamedTuple):
    """A running pod (its row in the snapshot), its node, its room, and the budget that counts it."""

    row: int
    node: int
    amounts: Amounts
    budget: Name | None


class Unit(NamedTuple):
    """Pods that are evicted together; `work` is the work that they lose, in accelerator-seconds.

    If a unit is evicted, each unit whose `core` is its name is evicted too. `keeps_out` has the demands (by
    number) of which no pod runs on some nodes beside it.
    """

    name: str
    priority: int
    pods: tuple[Pod, ...]
    work: int
    core: str = ""
    keeps_out: frozenset[tuple[int, frozenset[int]]] = frozenset()


class Even(NamedTuple):
    """A limit `skew` on the difference of pods of these demands between domains, which are sets of nodes."""

    demands: tuple[int, ...]
    domains: tuple[frozenset[int], ...]
    skew: int


class Apart(NamedTuple):
    """At most one pod of these demands (by number) runs in each domain."""

    demands: tuple[int, ...]
    domains: tuple[frozenset[int], ...]


class Problem(NamedTuple):
    """A preemptor that needs at least `needed` places, and the units of lower priority.

    `free` is by node (row in the snapshot) and resource; `left` are the disruptions that budgets allow.
    """

    free: dict[int, dict[str, int]]
    demands: tuple[Demand, ...]
    needed: int
    units: tuple[Unit, ...]
    left: dict[Name, int]
    constraints: tuple[Even | Apart, ...] = ()


class Lost(NamedTuple):
    """The number of evicted pods and units of one priority."""

    priority: int
    work: int
    pods: int
    units: int


class Harm(NamedTuple):
    """The harm of a plan; less is better. `lost` begins with the highest priority."""

    violations: int
    lost: tuple[Lost, ...]

    @property
    def work(self) -> int:
        """The work that is lost."""
        return sum(each.work for each in self.lost)

    @property
    def pods(self) -> int:
        """The pods that go."""
        return sum(each.pods for each in self.lost)

    @property
    def units(self) -> int:
        """The units that go."""
        return sum(each.units for each in self.lost)


def harm(problem: Problem, rows: Collection[int]) -> Harm:
    """Return the harm of evicting these pods; a unit that loses a pod is lost as a whole."""
    gone = [unit for unit in problem.units if any(pod.row in rows for pod in unit.pods)]
    names = {unit.name for unit in gone}
    gone = [unit for unit in problem.units if unit.name in names or unit.core in names]
    units = Counter(unit.priority for unit in gone)
    pods = Counter(unit.priority for unit in gone for _ in unit.pods)
    charged = Counter(pod.budget for unit in gone for pod in unit.pods if pod.budget is not None)
    work = Counter[int]()
    for unit in gone:
        work[unit.priority] += unit.work
    over = sum(max(number - problem.left[name], 0) for name, number in charged.items())
    return Harm(over, tuple(Lost(at, work[at], pods[at], units[at]) for at in sorted(units, reverse=True)))


def problem_of(engine: Engine, target: Name | GroupKey, now: datetime) -> Problem:
    """Return the problem of a pending pod or group; the engine has the semantics `kep`."""
    found = engine.placement_target(target, full_name)
    assert isinstance(found, PlacementTarget), found
    at = seconds(now)
    units, _ = engine.units(for_group=found.group is not None, now=at)
    open_to = units.preemptable_by(found.priority, at) & (engine.snapshot.node == units.node)
    leads = np.flatnonzero(open_to) if not found.preemption_barred else np.zeros(0, np.intp)
    alike = Counter(engine.snapshot.shape.item(row) for row in found.rows)
    shapes = [engine.snapshot.shapes[each] for each in alike]
    names = sorted({name for shape in shapes for name, _ in shape.requests})
    victims = frozenset(units.all_members(leads).tolist())
    demands = tuple(
        _demand(engine, number, shapes, pods, victims) for number, pods in enumerate(alike.values())
    )
    nodes = frozenset().union(*(demand.nodes for demand in demands))
    budgets = engine.view.budgets
    return Problem(
        free={node: _free(engine, names, node) for node in sorted(nodes)},
        demands=demands,
        needed=found.needed,
        units=tuple(_unit(engine, units, lead, names, at, shapes) for lead in leads.tolist()),
        left={
            name: (budget.status.disruptionsAllowed or 0) if budget.status is not None else 0
            for name, budget in budgets.items()
        },
        constraints=tuple(_constraints(engine, shapes)),
    )


def by_domain(engine: Engine, problem: Problem, key: str) -> list[Problem]:
    """Return the problem for each domain of a topology key."""
    domains = _domains(engine, key, problem.free)
    return [
        problem._replace(demands=tuple(_within(each, nodes) for each in problem.demands)) for nodes in domains
    ]


def _within(demand: Demand, nodes: frozenset[int]) -> Demand:
    return demand._replace(nodes=demand.nodes & nodes)


def _demand(engine: Engine, number: int, shapes: list[Shape], count: int, victims: frozenset[int]) -> Demand:
    snapshot, shape = engine.snapshot, shapes[number]
    offered = all(name in snapshot.resource for name, _ in shape.requests)
    suits = engine.placer.chain.static(shape) & snapshot.alive if offered else snapshot.alive & False
    stay = (row for row in np.flatnonzero(snapshot.node >= 0).tolist() if row not in victims)
    kept = [nodes for row in stay for each, nodes in _kept_out(engine, row, shapes) if each == number]
    return Demand(
        count, tuple(sorted(shape.requests)), frozenset(np.flatnonzero(suits).tolist()).difference(*kept)
    )


def _kept_out(engine: Engine, row: int, shapes: list[Shape]) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield the demands that a running pod keeps out of nodes, or that keep away from it."""
    snapshot = engine.snapshot
    own, node = snapshot.shape_at(row), snapshot.node.item(row)
    for number, shape in enumerate(shapes):
        for holder, other in ((own, shape), (shape, own)):
            for term in need(holder, PodAffinityNeed).apart:
                if term.matches(other.namespace, {}, dict(other.labels)):
                    alive = np.flatnonzero(snapshot.alive).tolist()
                    for domain in _domains(engine, term.topology_key, alive):
                        if node in domain:
                            yield number, domain
        ports = need(own, PortNeed).ports, need(shape, PortNeed).ports
        if any(starmap(ports_clash, product(*ports))):
            yield number, frozenset((node,))


def _free(engine: Engine, names: Iterable[str], node: int) -> dict[str, int]:
    snapshot = engine.snapshot
    at = {name: snapshot.resource[name] for name in names if name in snapshot.resource}
    return {
        name: snapshot.allocatable[each].item(node) - snapshot.used[each].item(node)
        for name, each in at.items()
    }


def _unit(  # noqa: PLR0917 - one place calls it
    engine: Engine, units: Units, lead: int, names: list[str], now: int, shapes: list[Shape]
) -> Unit:
    rows = units.members(lead)
    pods = tuple(_pods(engine, rows, names))
    work = work_lost(units, np.array([lead]), now).item()
    core = units.core.item(lead)
    of = "/".join(units.object_of(core)) if core != NO_UNIT else ""
    kept = frozenset(each for row in rows.tolist() for each in _kept_out(engine, row, shapes))
    return Unit("/".join(units.object_of(lead)), units.priority.item(lead), pods, work, of, kept)


def _pods(engine: Engine, rows: Rows, names: list[str]) -> Iterable[Pod]:
    snapshot = engine.snapshot
    for row, budgets in zip(rows.tolist(), engine.budgets.of_each(rows), strict=True):
        assert len(budgets) <= 1, "a pod that several budgets count is not modelled"
        amounts = tuple(
            (name, snapshot.requests[snapshot.resource[name]].item(row))
            for name in names
            if name in snapshot.resource
        )
        yield Pod(row, snapshot.node.item(row), amounts, next(iter(budgets), None))


def _constraints(engine: Engine, shapes: list[Shape]) -> Iterable[Even | Apart]:
    """Return the constraints between pods of the preemptor."""
    affinity = next(own for own in engine.placer.chain.fixed if own.NAME == "NodeAffinity")
    for shape in dict.fromkeys(shapes):
        # A node that is tainted or too small is a domain too, and stays the emptiest.
        counted = np.flatnonzero(affinity.mask(shape) & engine.snapshot.alive).tolist()
        for constraint in need(shape, SpreadNeed).hard:
            assert constraint.honor_affinity, "only the defaults are modelled"
            assert not constraint.honor_taints, "only the defaults are modelled"
            selector = constraint.selector
            meant = [selector is not None and selector.matches(dict(each.labels)) for each in shapes]
            demands = tuple(at for at, each in enumerate(meant) if each)
            yield Even(demands, _domains(engine, constraint.topology_key, counted), constraint.max_skew)
        for term in need(shape, PodAffinityNeed).apart:
            meant = [term.matches(each.namespace, {}, dict(each.labels)) for each in shapes]
            demands = tuple(at for at, each in enumerate(meant) if each)
            yield Apart(demands, _domains(engine, term.topology_key, counted))


def _domains(engine: Engine, key: str, nodes: Collection[int]) -> tuple[frozenset[int], ...]:
    found: dict[str, set[int]] = {}
    for node in nodes:
        read = engine.snapshot.objects[node]
        assert read is not None
        value = (read.metadata.labels or {}).get(key)
        if value is not None:
            found.setdefault(value, set()).add(node)
    return tuple(frozenset(each) for _, each in sorted(found.items()))
