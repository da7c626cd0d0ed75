"""Plans for several preemptors, each in the cluster that the plans before it leave.

A file often creates more than one pod or group, and plans made side by side cannot be added up: each would
take the same free room and the same victims. So the preemptors are planned in the order in which a
scheduler takes them, the highest priority first. After each plan its victims are gone and its pods run, and
the engine follows. A plan never preempts the pods of a plan before it, because no priority after it is
higher. The sum of all plans is therefore one plan, whose harm is the sum of theirs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.schedulable import SchedulableStatus
from podium.api.times import written
from podium.cluster.reader import Target
from podium.cluster.state import ClusterState, Readable
from podium.schedulerplugin.engine import Engine
from podium.schedulerplugin.preemption.outcome import (
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
OUTCOMES = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION, Outcome.NOT_ELIGIBLE, Outcome.DOES_NOT_FIT)


class Step(NamedTuple):
    """A preemptor, its priority, its number of waiting pods, and its plan."""

    target: Target
    priority: int
    pods: int
    plan: Plan


def plan_series(
    state: ClusterState,
    targets: Iterable[Target],
    now: datetime,
    engine_of: Callable[[Target], Engine],
    namer: ObjectNamer = full_name,
) -> Iterator[Step]:
    """Yield the plans of preemptors, the highest priority first, equal ones in the order given.

    `state` is changed: each plan is carried out in it. The engines must observe it. Raises PodiumError as
    `Engine.plan` does.
    """
    for target in sorted(targets, key=lambda target: -priority_of(state, target)):
        yield _step(state, target, now, engine_of(target), namer)


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
        group = state.groups.get(target)
        return (group.priority if group is not None else None) or 0
    pod = state.pods.get(target)
    return (pod.spec.priority if pod is not None else None) or 0


def by_workload(steps: Iterable[Step], sources: Mapping[Target, ObjectRef]) -> list[WorkloadPlan]:
    """Return the sum of the steps for each object that brought preemptors, in the order of the steps."""
    of: dict[ObjectRef, list[Step]] = {}
    for step in steps:
        of.setdefault(sources[step.target], []).append(step)
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
    levels = tuple(HarmLevel(each, units[each], pods[each]) for each in sorted(units, reverse=True))
    violations = sum(harm.violations for harm in harms)
    return PlanHarm(violations, levels, sum(harm.acceleratorSeconds for harm in harms))


def _spared(plans: Sequence[Plan]) -> tuple[UnitVerdict, ...]:
    """Return the units that every plan spares, each with the first reason."""

    def key(unit: UnitVerdict) -> tuple[str, str, str]:
        return unit.kind, unit.namespace, unit.name

    evicted = {key(unit) for plan in plans for unit in plan.victims}
    spared = {key(unit): unit for plan in reversed(plans) for unit in reversed(plan.spared)}
    return tuple(unit for each, unit in reversed(spared.items()) if each not in evicted)


def _step(state: ClusterState, target: Target, now: datetime, engine: Engine, namer: ObjectNamer) -> Step:
    """Return the plan of one preemptor, which is carried out."""
    pods = sum(pod.pending for pod in _members(state, target))
    step = Step(target, priority_of(state, target), pods, engine.plan(target, now, namer))
    for unit in step.plan.victims:
        for victim in unit.pods:
            state.remove(state.pods[unit.namespace, victim.name])
    status = SchedulableStatus(phase="Running", startTime=written(now))
    for placed in step.plan.placements:
        namespace, _, name = placed.pod.partition("/")
        pod = state.pods[namespace, name]
        spec = msgspec.structs.replace(pod.spec, nodeName=placed.node)
        state.apply(msgspec.structs.replace(pod, spec=spec, status=status))
    return step


def _members(state: ClusterState, target: Target) -> Iterable[Pod]:
    return state.members(target).values() if isinstance(target, GroupKey) else (state.pods[target],)
