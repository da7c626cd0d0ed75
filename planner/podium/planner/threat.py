"""Finds the priority and size that would evict a running pod or group, and what protects it.

The answer uses the engine's own units, order of importance and budgets, so it agrees with the plan that would
preempt the unit. The releases of kube-scheduler reprieve units in a fixed order: units that violate a budget
first, then by importance. So one amount on a node decides: the free room and the room of the units that are
reprieved later. `kep` chooses the least harm, so two amounts count. The unit is certainly spared up to the
free room and the room of units of lower priority. It is certainly preempted above the free room and the room
of all other units. Between the two the sizes of the units decide.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
import numpy as np

from podium.api.membership import GroupKey
from podium.api.priority import NEVER, SYSTEM_CLASSES
from podium.api.times import LAST_SECOND, seconds
from podium.cluster.reader import ClusterReader, Name, name_of
from podium.errors import PodiumError
from podium.groups.trees import members_below
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import UnitPod, full_name
from podium.planner.preemption.protection import scheduled_at, unknown_grant
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.preemption.units import Units
from podium.planner.semantics import Semantics
from podium.planner.settings import Budgets

# No integer is above it, so a unit with this priority is never preempted.
_HIGHEST = 2**31 - 1

Amounts = dict[str, int]  # milli for cpu, units for all else


class ExemptPod(msgspec.Struct, frozen=True):
    """A pod that is exempt from preemptors below `minimum`, until seconds since 1970, or forever (None).

    `scheduled` is false for one that is exempt because it does not count as scheduled.
    """

    pod: str
    minimum: int
    until: int | None
    scheduled: bool


class BudgetCharge(msgspec.Struct, frozen=True):
    """A budget that counts `charged` pods of the unit, and its `allowed` disruptions now."""

    name: str
    allowed: int
    charged: int

    @property
    def violated(self) -> bool:
        """Whether evicting the unit alone would violate it."""
        return self.charged > self.allowed


class NodeRoom(msgspec.Struct, frozen=True):
    """A node of the unit, and the requests with which a lone pod of the minimal priority preempts the unit.

    A pod that requests no more than `spared` does not preempt the unit. A pod that requests more than
    `without` of a resource, and no more of any than `without` and `frees` together, does. The two are equal
    except under `kep`. Both are below zero if pods hold more than the node has.
    """

    node: str
    spared: Amounts
    without: Amounts
    frees: Amounts


class Threat(msgspec.Struct, frozen=True, kw_only=True):
    """The preemptors that would evict a unit, at one moment.

    `minimal` is the smallest priority of a preemptor that may evict it now. `later` is the smallest when all
    tolerations have run out. Both are None if nothing ever may, and `protection` says why. `doubt` says why
    the toleration of the unit's class is unknown, else it is empty. `classes` are those of the cluster at or
    above `minimal` whose pods may preempt.
    """

    semantics: Semantics
    kind: str
    namespace: str
    name: str
    priority: int
    pods: tuple[UnitPod, ...]
    one_by_one: int
    protection: str
    doubt: str
    minimal: int | None
    later: int | None
    tolerations: tuple[ExemptPod, ...]
    budgets: tuple[BudgetCharge, ...]
    rooms: tuple[NodeRoom, ...]
    classes: tuple[tuple[str, int], ...]


class _ThreatenedUnit(NamedTuple):
    """The unit in question, by its lead.

    `one_by_one` is the number of units that its group is cut into, 0 if it is evicted as a whole.
    """

    lead: int
    one_by_one: int


def threat(engine: Engine, victim: Name | GroupKey, now: datetime) -> Threat:
    """Return the preemptors that would evict a running pod or group.

    For a group whose members are evicted one by one, the answer is about its least important member. Raises
    PodiumError for a target that does not run.
    """
    second = seconds(now)
    units, _ = engine.units(for_group=isinstance(victim, GroupKey), now=second)
    subject = _victim(engine, units, victim, second)
    lead = subject.lead
    budgets = tuple(_budgets(engine, units.members(lead)))
    priority = units.priority.item(lead)
    protection = units.why_protected(lead, full_name) or _protection(engine, priority, budgets)
    exempt = tuple(_exempt_pods(units, lead, second)) if not protection else ()
    later = None if protection else priority + 1
    minimal = later if later is None else max([later, *(toleration.minimum for toleration in exempt)])
    kind, namespace, name = units.object_of(lead)
    name_of_class = units.class_name(lead)
    rows = units.members(lead)
    return Threat(
        semantics=engine.settings.semantics,
        kind=kind,
        namespace=namespace,
        name=name,
        priority=priority,
        pods=tuple(sorted((_pod(units, row) for row in rows.tolist()), key=lambda pod: pod.name)),
        one_by_one=subject.one_by_one,
        protection=protection,
        doubt=unknown_grant(engine.view.classes.get(name_of_class), name_of_class) if exempt else "",
        minimal=minimal,
        later=later,
        tolerations=exempt,
        budgets=budgets,
        rooms=tuple(_rooms(engine, units, lead, minimal, second)) if minimal is not None else (),
        classes=tuple(_classes(engine.view, minimal)) if minimal is not None else (),
    )


def _victim(engine: Engine, units: Units, victim: Name | GroupKey, now: int) -> _ThreatenedUnit:
    snapshot = engine.snapshot
    if isinstance(victim, GroupKey):
        words = f"{'composite' if victim.composite else 'pod'} group {victim.namespace}/{victim.name}"
        names: Iterable[Name] = map(name_of, members_below(engine.view, victim))
    else:
        words = f"pod {'/'.join(victim)}"
        names = (victim,)
    rows = [snapshot.pod_row[name] for name in names if name in snapshot.pod_row]
    leads = {units.lead.item(row) for row in rows} - {NO_UNIT}
    above: set[int] = set()
    if isinstance(victim, GroupKey):
        # The core is evicted last. A member that is a unit apart from its group is not considered.
        above = {lead for lead in leads if units.core.item(lead) != NO_UNIT}
        leads = above or {lead for lead in leads if not units.single_member.item(lead)}
    if not leads:
        leaving = any(units.leaving.item(row) for row in rows)
        why = "is leaving already" if leaving else "runs on no node that is known"
        raise PodiumError(f"{words} {why}, so nothing can preempt it")
    ordered = units.ordered(np.array(sorted(leads), np.intp), now)
    return _ThreatenedUnit(int(ordered[-1]), len(leads) if len(leads) > 1 or above else 0)


def _protection(engine: Engine, priority: int, budgets: Iterable[BudgetCharge]) -> str:
    """Return why no preemptor may evict an unprotected unit; empty if one may."""
    if priority >= _HIGHEST:
        return "no priority is higher than its own"
    violated = [budget.name for budget in budgets if budget.violated]
    if violated and engine.settings.budgets is Budgets.STRICT:
        return f"its loss would violate PodDisruptionBudget {violated[0]}, and budgets are strict"
    return ""


def _exempt_pods(units: Units, lead: int, now: int) -> Iterator[ExemptPod]:
    """Yield the pods of a unit that is exempt."""
    minimum, until = units.exempt_below.item(lead), units.exempt_until.item(lead)
    if not units.rules.tolerations or minimum <= units.priority.item(lead) + 1 or now >= until:
        return
    ends = None if until > LAST_SECOND else until
    for row in units.members(lead).tolist():
        pod = units.snapshot.pod_at(row)
        scheduled = ends is not None or scheduled_at(pod) is not None
        yield ExemptPod(pod.metadata.name or "", minimum, ends, scheduled)


def _budgets(engine: Engine, rows: Rows) -> Iterator[BudgetCharge]:
    for name, number in engine.budgets.charges(rows).items():
        status = engine.view.budgets[name].status
        allowed = max(status.disruptionsAllowed or 0, 0) if status is not None else 0
        yield BudgetCharge(name[1], allowed, number)


def _rooms(engine: Engine, units: Units, lead: int, minimal: int, now: int) -> Iterator[NodeRoom]:
    """Yield the nodes of a unit, by name."""
    snapshot = units.snapshot
    own = units.members(lead)
    potential = _potential(units, lead, minimal, now)
    rows = units.all_members(potential)
    owners = np.repeat(potential, units.size[potential])
    for node in sorted(set(units.node[own].tolist()), key=snapshot.node_name):
        ordered = units.ordered(np.unique(owners[units.node[rows] == node]), now)
        # An amount that a plugin provides is not the node's.
        given = _sum(units, own[units.node[own] == node])
        frees = {name: amount for name, amount in given.items() if not snapshot.is_backed(name, node)}
        certain, possible = _units_preempted_first(engine, units, lead, ordered)
        spared, without = (_available(units, node, frees, leads) for leads in (certain, possible))
        yield NodeRoom(snapshot.node_name(node), spared, without, frees)


def _available(units: Units, node: int, names: Iterable[str], leads: Rows) -> Amounts:
    """Return the free room of a node with the room of these units there."""
    snapshot = units.snapshot
    rows = units.all_members(leads)
    given = _sum(units, rows[units.node[rows] == node])
    at = {name: snapshot.resource[name] for name in names}
    return {
        name: snapshot.allocatable[row].item(node) - snapshot.used[row].item(node) + given.get(name, 0)
        for name, row in at.items()
    }


def _potential(units: Units, lead: int, minimal: int, now: int) -> Rows:
    """Return the units that a preemptor of the minimal priority may evict, including this one."""
    may = units.preemptable_by(minimal, now)
    may[lead] = True
    return np.flatnonzero(may)


def _units_preempted_first(engine: Engine, units: Units, lead: int, ordered: Rows) -> tuple[Rows, Rows]:
    """Return the units of a node that are certainly preempted before this one, and those that may be."""
    if engine.settings.semantics.rules.least_harm:
        # The core of a surplus unit frees nothing for a preemptor that does not evict the surplus.
        others = ordered[(ordered != lead) & (ordered != units.core.item(lead))]
        violates = any(budget.violated for budget in _budgets(engine, units.members(lead)))
        first = (units.priority[others] < units.priority.item(lead)) | (units.core[others] == lead)
        cheaper = others if violates else others[first]
        return cheaper[~_violating(engine, units, cheaper)], others
    violating = _violating(engine, units, ordered)
    given_back = np.concatenate((ordered[violating], ordered[~violating]))
    later = given_back[int(np.flatnonzero(given_back == lead)[0]) + 1 :]
    return later, later


def _violating(engine: Engine, units: Units, ordered: Rows) -> Bools:
    """Return which of these units, the most important first, violate a budget if all of them are evicted."""
    numbers = np.repeat(np.arange(len(ordered)), units.size[ordered])
    charged = engine.settings.semantics.rules.pod_charge
    return engine.budgets.violations(units.all_members(ordered), numbers, charged) > 0


def _sum(units: Units, rows: Rows) -> Amounts:
    snapshot = units.snapshot
    sums: dict[str, Int64s] = {name: snapshot.requests[at][rows] for name, at in snapshot.resource.items()}
    return {name: sum(amounts.tolist()) for name, amounts in sorted(sums.items()) if amounts.any()}


def _pod(units: Units, row: int) -> UnitPod:
    pod = units.snapshot.pod_at(row)
    return UnitPod(pod.metadata.name or "", units.snapshot.node_name(units.node.item(row)))


def _classes(view: ClusterReader, minimal: int) -> Iterator[tuple[str, int]]:
    """Yield the classes, lowest first, whose pods may evict the unit."""
    values = dict(SYSTEM_CLASSES)
    for name, priority_class in view.classes.items():
        values.pop(name, None)
        if priority_class.preemptionPolicy != NEVER:
            values[name] = priority_class.value or 0
    at_least = ((name, value) for name, value in values.items() if value >= minimal)
    yield from sorted(at_least, key=lambda pair: (pair[1], pair[0]))
