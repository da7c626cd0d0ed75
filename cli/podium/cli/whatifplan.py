"""The report of `podium whatif`: the plan for one preemptor, or the sum of the plans for all of a file.

The plans of a sum are made one after another, each in the cluster that the plans before it leave, and the
report has a line for each workload. The command and the UI share this module.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

import msgspec

from podium.answers.expansion.expand import Expansion
from podium.api.findings import ObjectRef
from podium.cli.render.pictures.planpicture import plan_picture
from podium.cli.render.whatif_words import GOOD, MOST_DOMAINS, Basis, Most, WhatIf, target_words
from podium.cli.whatifinput import Assumptions, check_group
from podium.cluster.helddevices import held_devices
from podium.cluster.reader import ClusterReader, Target
from podium.cluster.state import ClusterState
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import ObjectNamer, Outcome, Plan, WorkloadPlan, full_name
from podium.planner.series import OUTCOMES, by_workload, plan_series, summed, undone
from podium.planner.settings import Settings
from podium.text import count


class PlanInput(NamedTuple):
    """The cluster of a plan, its time, the assumptions for each preemptor, and how engines are made.

    `domains` is the number of topology domains to compare if there is one plan.
    """

    state: ClusterState
    now: datetime
    assumed_of: Callable[[Target], Assumptions]
    engine: Callable[[ClusterState, Settings, int], Engine] = Engine
    namer: ObjectNamer = full_name
    domains: int = MOST_DOMAINS


def report_of(made: Plan, target: Target, view: ClusterReader, basis: Basis) -> WhatIf:
    """Return a plan with the preemptor's name, its cost, and the basis of the answer."""
    return WhatIf(
        made, target_words(target), accelerators(made, view), basis, picture=plan_picture(made, view)
    )


def report(
    given: PlanInput,
    targets: Sequence[Target],
    sources: Mapping[Target, ObjectRef],
    basis_of: Callable[[Assumptions], Basis],
    unplanned: Mapping[ObjectRef, str] | None = None,
) -> WhatIf:
    """Return the plan for a preemptor, or the sum of the plans for several, of which `sources` brings each.

    The sum also has the objects that cannot be planned, each with the reason (`unplanned`). The cluster is
    not changed. Raises PodiumError as `Engine.plan` does, and for groups that were not read.
    """
    for target in targets:
        check_group(target, given.state, given.assumed_of(target).rules.semantics)
    if len(targets) > 1 or unplanned:
        of = {each: sources[each] for each in targets}
        return _report_of_all(given, of, basis_of, [_not_judged(*each) for each in (unplanned or {}).items()])
    target, assumed = targets[0], given.assumed_of(targets[0])
    engine = given.engine(given.state, assumed.chosen.settings, assumed.rules.minor)
    made = engine.plan(target, given.now, given.namer, given.domains)
    return report_of(made, target, given.state, basis_of(assumed))


def most(given: PlanInput, expand: Callable[[int], Expansion], limit: int) -> Most:
    """Return how many replicas fit, at most `limit`; `expand` returns what a number of them adds.

    Fewer replicas than a number that fits are taken to fit too. The cluster is as before at the end.
    """
    engine_of = _engines(given)

    def outcomes(replicas: int) -> Iterator[Outcome]:
        """Yield the outcome of each preemptor up to the first that does not fit."""
        with undone(given.state):
            expansion = expand(replicas)
            expansion.apply(given.state)
            for step in plan_series(given.state, expansion.targets, given.now, engine_of):
                yield from (step.plan.outcome for _ in step.targets)
                if step.plan.outcome not in GOOD:
                    return

    each_has = len(expand(1).targets)
    if limit > 1 and 2 * each_has == len(expand(2).targets):
        # More replicas only add preemptors, so one series of plans has the answers for all numbers.
        found = list(outcomes(limit))
        free = len(list(takewhile(lambda outcome: outcome is Outcome.FITS, found)))
        return Most(free // each_has, sum(outcome in GOOD for outcome in found) // each_has)
    worst = functools.cache(lambda replicas: max(outcomes(replicas), key=OUTCOMES.index))
    free = _largest(lambda replicas: worst(replicas) is Outcome.FITS, 0, limit)
    return Most(free, _largest(lambda replicas: worst(replicas) in GOOD, free, limit))


def _largest(fits: Callable[[int], bool], known: int, limit: int) -> int:
    """Return the largest number up to a limit that fits; `known` fits. Numbers double, then are halved."""
    step = 1
    while known < limit and fits(min(known + step, limit)):
        known = min(known + step, limit)
        step *= 2
    while step > 1:
        step //= 2
        if known + step <= limit and fits(known + step):
            known += step
    return known


def _engines(given: PlanInput) -> Callable[[Target], Engine]:
    """Return the function that gives the engine for a preemptor; engines follow the state of the input."""
    engines: dict[tuple[Settings, int], Engine] = {}

    def engine_of(target: Target) -> Engine:
        assumed = given.assumed_of(target)
        key = assumed.chosen.settings, assumed.rules.minor
        if key not in engines:
            engines[key] = given.engine(given.state, *key)
            given.state.observe(engines[key].apply)
        return engines[key]

    return engine_of


def _not_judged(source: ObjectRef, message: str) -> WorkloadPlan:
    """Return the row of an object without a plan."""
    return WorkloadPlan(
        kind=source.kind,
        namespace=source.namespace,
        name=source.name,
        priority=0,
        pods=0,
        placed=0,
        outcome=Outcome.NOT_JUDGED,
        message=message,
        harm=None,
    )


def _report_of_all(
    given: PlanInput,
    targets: Mapping[Target, ObjectRef],
    basis_of: Callable[[Assumptions], Basis],
    unplanned: Sequence[WorkloadPlan],
) -> WhatIf:
    after = given._replace(state=given.state.copy())
    steps = list(plan_series(after.state, targets, given.now, _engines(after), given.namer))
    workloads = [*by_workload(steps, targets), *unplanned]
    shared = any(len(step.targets) > 1 and step.plan.victims for step in steps)
    made = summed([step.plan for step in steps], _message(workloads, shared=shared))
    worst = max((each.outcome for each in workloads), key=OUTCOMES.index)
    made = msgspec.structs.replace(made, outcome=worst)
    basis = _joint([basis_of(given.assumed_of(step.targets[0])) for step in steps])
    picture = plan_picture(made, given.state)
    return WhatIf(made, _names(workloads), accelerators(made, given.state), basis, workloads, picture=picture)


def _joint(bases: Iterable[Basis]) -> Basis:
    """Return the basis of a sum: that of its first plan, with the rules and caveats of the others."""
    listed = list(bases)
    first, *others = {each.rules_why: each for each in listed}.values()
    foreign = " ".join(dict.fromkeys(each.approximation for each in listed if each.approximation))
    rules = "".join(f"; semantics {each.semantics} for others: {each.rules_why}" for each in others)
    return first._replace(rules_why=first.rules_why + rules, approximation=foreign)


def accelerators(plan: Plan, view: ClusterReader) -> dict[str, int]:
    """Return the devices of a plan's victims, by resource or driver."""
    victims = [view.pods.get((unit.namespace, pod.name)) for unit in plan.victims for pod in unit.pods]
    return held_devices(victims, view)


def _names(workloads: Sequence[WorkloadPlan]) -> str:
    return str(workloads[0]) if len(workloads) == 1 else count(len(workloads), "workload")


def _message(workloads: Sequence[WorkloadPlan], *, shared: bool) -> str:
    """Return how many workloads and pods fit, and why the first workload does not.

    `shared` is whether several pods share a plan with victims.
    """
    lacking = next((each for each in workloads if not each.fits), None)
    fitting = sum(each.fits for each in workloads)
    parts = [f"{fitting:,} of {count(len(workloads), 'workload')} fit"] if len(workloads) > 1 else []
    if lacking is not None:
        placed = f"{lacking.placed:,} of {count(lacking.pods, 'pod')} of {lacking} fit"
        parts.append(f"{placed if lacking.pods else lacking}: {lacking.message}")
    if shared:
        parts.append(
            "equal pods planned at once; the scheduler takes them one by one and may evict other pods"
        )
    return ". ".join(parts) or f"{count(workloads[0].pods, 'pod')} planned one after another"
