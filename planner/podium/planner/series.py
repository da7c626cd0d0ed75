"""Plans for several preemptors, each in the cluster that the plans before it leave.

A file often creates more than one pod or group, and plans made side by side cannot be added up: each would
take the same free room and the same victims. So the preemptors are planned in the order in which a
scheduler takes them, the highest priority first. After each plan its victims are gone and its pods run, and
the engine follows. A plan never preempts the pods of a plan before it, because no priority after it is
higher. The sum of all plans is therefore one plan, whose harm is the sum of theirs.

Many equal lone pods, such as the replicas of a Deployment, are planned at once (`Engine.plan_alike`).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.schedulable import SchedulableStatus
from podium.api.times import written
from podium.cluster.reader import Name, Target
from podium.cluster.state import ClusterState, Readable
from podium.groups.trees import group_at, members_below
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import (
    GOOD,
    HarmLevel,
    ObjectNamer,
    Outcome,
    Plan,
    PlanHarm,
    UnitVerdict,
    WorkloadPlan,
    full_name,
)

# From the best to the worst: a sum has the worst outcome of its plans.
OUTCOMES = (
    *GOOD,
    *(Outcome.NOT_JUDGED, Outcome.NOT_ELIGIBLE, Outcome.DOES_NOT_FIT),
)


# From this many equal lone pods on, they are planned at once. Fewer are planned as the scheduler takes them.
_AT_ONCE = 64


class Step(NamedTuple):
    """The plan for a preemptor, or for several equal pods, with their priority and number of waiting pods."""

    targets: Sequence[Target]
    priority: int
    pods: int
    plan: Plan


def plan_series(
    state: ClusterState,
    targets: Mapping[Target, ObjectRef],
    now: datetime,
    engine_of: Callable[[Target], Engine],
    namer: ObjectNamer = full_name,
) -> Iterator[Step]:
    """Yield the plans of preemptors, the highest priority first, equal ones in the order given.

    `targets` gives the object that brings each; a plan is for the preemptors of one object. `state` is
    changed: each plan is carried out in it. The engines must observe it. Raises PodiumError as `Engine.plan`
    does.
    """

    def alike(target: Target) -> Hashable:
        engine = engine_of(target)
        return targets[target], id(engine), engine.kind(target) or target

    ordered = sorted(targets, key=lambda target: -priority_of(state, target))
    for _, run in groupby(ordered, alike):
        yield from _plan_run(state, list(run), now, engine_of, namer)


def _plan_run(
    state: ClusterState,
    run: list[Target],
    now: datetime,
    engine_of: Callable[[Target], Engine],
    namer: ObjectNamer,
) -> Iterator[Step]:
    """Yield the plans for one preemptor, or for equal lone pods."""
    engine, priority = engine_of(run[0]), priority_of(state, run[0])
    at_once = len(run) >= _AT_ONCE
    while run:
        if at_once:
            plan, number = engine.plan_alike(run, now, namer)
        else:
            plan, number = engine.plan(run[0], now, namer), 1
        # A preemption for one pod shows that the others share none.
        at_once = at_once and (number > 1 or not plan.victims)
        if not plan.placements:
            # Nothing changes after it, so the others have the same answer.
            number = len(run)
        planned, run = run[:number], run[number:]
        pods = sum(pod.pending for target in planned for pod in _members(state, target))
        yield Step(planned, priority, pods, plan)
        _carry_out(state, engine, plan, now)


@contextmanager
def undone(state: ClusterState) -> Iterator[None]:
    """Undo all changes of objects in this block at its end; observers are notified of both."""
    changes: list[tuple[Readable | None, Readable | None]] = []

    def note(before: Readable | None, after: Readable | None) -> None:
        changes.append((before, after))

    state.observe(note)
    try:
        yield
    finally:
        state.unobserve(note)
        for before, after in reversed(changes):
            if before is not None:
                state.apply(before)
            elif after is not None:
                state.remove(after)


def priority_of(state: ClusterState, target: Target) -> int:
    """Return the priority of a pod or group."""
    if isinstance(target, GroupKey):
        group = group_at(state, target)
        return (group.priority if group is not None else None) or 0
    pod = state.pods.get(target)
    return (pod.spec.priority if pod is not None else None) or 0


def by_workload(steps: Iterable[Step], sources: Mapping[Target, ObjectRef]) -> list[WorkloadPlan]:
    """Return the sum of the steps for each object that brought preemptors, in the order of the steps."""
    of: dict[ObjectRef, list[Step]] = {}
    for step in steps:
        of.setdefault(sources[step.targets[0]], []).append(step)
    return [_workload(source, own) for source, own in of.items()]


def _workload(source: ObjectRef, steps: Sequence[Step]) -> WorkloadPlan:
    plans = [step.plan for step in steps]
    outcome = _worst(plans)
    return WorkloadPlan(
        kind=source.kind,
        namespace=source.namespace,
        name=source.name,
        priority=steps[0].priority,
        pods=sum(step.pods for step in steps),
        placed=sum(len(plan.placements) for plan in plans),
        outcome=outcome,
        message=next(plan.message for plan in plans if plan.outcome is outcome),
        harm=sum_of_harm(plans),
    )


def _worst(plans: Iterable[Plan]) -> Outcome:
    return max((plan.outcome for plan in plans), key=OUTCOMES.index)


def summed(plans: Sequence[Plan], message: str) -> Plan:
    """Return the sum of plans that were made one after another; there is at least one.

    The reasons by node are those of the first plan with the outcome of the sum.
    """
    worst = _worst(plans)
    minimal = [plan.minimalPriority for plan in plans if plan.minimalPriority is not None]
    return Plan(
        semantics=plans[0].semantics,
        outcome=worst,
        message=message,
        minimalPriority=max(minimal, default=None),
        harm=sum_of_harm(plans),
        placements=tuple(placed for plan in plans for placed in plan.placements),
        victims=tuple(unit for plan in plans for unit in plan.victims),
        spared=_spared(plans),
        nodes=next(plan.nodes for plan in plans if plan.outcome is worst),
        findings=tuple({finding: None for plan in plans for finding in plan.findings}),
    )


def sum_of_harm(plans: Iterable[Plan]) -> PlanHarm | None:
    """Return the harm of plans together, or None if no pod is preempted."""
    harms = [plan.harm for plan in plans if plan.harm is not None]
    if not harms:
        return None
    units, pods = Counter[int](), Counter[int]()
    for harm in harms:
        for level in harm.levels:
            units[level.priority] += level.units
            pods[level.priority] += level.pods
    levels = tuple(
        HarmLevel(priority, units[priority], pods[priority]) for priority in sorted(units, reverse=True)
    )
    violations = sum(harm.violations for harm in harms)
    lost, saved = (
        sum(harm.acceleratorSeconds for harm in harms),
        sum(harm.acceleratorSecondsSaved for harm in harms),
    )
    return PlanHarm(violations, levels, lost, saved)


def _spared(plans: Sequence[Plan]) -> tuple[UnitVerdict, ...]:
    """Return the units that every plan spares, each with the first reason."""

    def key(unit: UnitVerdict) -> tuple[str, str, str]:
        return unit.kind, unit.namespace, unit.name

    evicted = {key(unit) for plan in plans for unit in plan.victims}
    spared = {key(unit): unit for plan in reversed(plans) for unit in reversed(plan.spared)}
    return tuple(unit for identity, unit in reversed(spared.items()) if identity not in evicted)


def _carry_out(state: ClusterState, engine: Engine, plan: Plan, now: datetime) -> None:
    """Remove the victims of a plan, charge their budgets, and bind the preemptor's pods with their claims."""
    victims = [(unit.namespace, pod.name) for unit in plan.victims for pod in unit.pods]
    for budget_name, pods in engine.charges(victims).items():
        budget = state.budgets[budget_name]
        if budget.status is not None:
            allowed = max((budget.status.disruptionsAllowed or 0) - pods, 0)
            left = msgspec.structs.replace(budget.status, disruptionsAllowed=allowed)
            state.apply(msgspec.structs.replace(budget, status=left))
    gone = [state.pods[victim] for victim in victims]
    for pod in gone:
        state.remove(pod)
    for plugin in engine.snapshot.plugins:
        for released in list(plugin.removed(gone, state)):
            state.apply(released)
    placed: dict[Name, str] = {}
    for placement in plan.placements:
        namespace, _, name = placement.pod.partition("/")
        placed[namespace, name] = placement.node
    for changed in engine.bound_with(placed):
        state.apply(changed)
    for key, node in placed.items():
        pod = state.pods[key]
        spec = msgspec.structs.replace(pod.spec, nodeName=node)
        status = pod.status if isinstance(pod.status, SchedulableStatus) else SchedulableStatus()
        status = msgspec.structs.replace(status, phase="Running", startTime=written(now))
        state.apply(msgspec.structs.replace(pod, spec=spec, status=status))


def _members(state: ClusterState, target: Target) -> Iterable[Pod]:
    return members_below(state, target) if isinstance(target, GroupKey) else (state.pods[target],)
