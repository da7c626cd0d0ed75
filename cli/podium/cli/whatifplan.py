"""The report of `podium whatif`: the plan for one preemptor, or the sum of the plans for all of a file.

The plans of a sum are made one after another, each in the cluster that the plans before it leave, and the
report has a line for each workload. The command and the UI share this module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from podium.api.findings import ObjectRef
from podium.api.podrequests import devices
from podium.cli.render.whatif_words import Basis, WhatIf, target_words
from podium.cli.whatifinput import Assumptions, check_group
from podium.cluster.reader import ClusterReader, Target
from podium.cluster.state import ClusterState
from podium.schedulerplugin.engine import Engine
from podium.schedulerplugin.preemption.outcome import ObjectNamer, Plan, WorkloadPlan, full_name
from podium.schedulerplugin.series import by_workload, plan_series, summed
from podium.schedulerplugin.settings import Settings
from podium.text import count


class PlanInput(NamedTuple):
    """The cluster of a plan, its time, the assumptions for each preemptor, and how engines are made."""

    state: ClusterState
    now: datetime
    assumed_of: Callable[[Target], Assumptions]
    engine: Callable[[ClusterState, Settings, int], Engine] = Engine
    namer: ObjectNamer = full_name


def report_of(made: Plan, target: Target, view: ClusterReader, basis: Basis) -> WhatIf:
    """Return a plan with the preemptor's name, its cost, and the basis of the answer."""
    return WhatIf(made, target_words(target), accelerators(made, view), basis)


def report(
    given: PlanInput,
    targets: Sequence[Target],
    sources: Mapping[Target, ObjectRef],
    basis_of: Callable[[Assumptions], Basis],
) -> WhatIf:
    """Return the plan for a preemptor, or the sum of the plans for several, of which `sources` brings each.

    The cluster is not changed. Raises PodiumError as `Engine.plan` does, and for groups that were not read.
    """
    for target in targets:
        check_group(target, given.state, given.assumed_of(target).rules.semantics)
    if len(targets) > 1:
        return _report_of_all(given, {each: sources[each] for each in targets}, basis_of)
    target, assumed = targets[0], given.assumed_of(targets[0])
    engine = given.engine(given.state, assumed.chosen.settings, assumed.rules.minor)
    made = engine.plan(target, given.now, given.namer)
    return report_of(made, target, given.state, basis_of(assumed))


def _report_of_all(
    given: PlanInput, targets: Mapping[Target, ObjectRef], basis_of: Callable[[Assumptions], Basis]
) -> WhatIf:
    after = given.state.copy()
    engines: dict[tuple[Settings, int], Engine] = {}

    def engine_of(target: Target) -> Engine:
        assumed = given.assumed_of(target)
        key = assumed.chosen.settings, assumed.rules.minor
        if key not in engines:
            engines[key] = given.engine(after, *key)
            after.observe(engines[key].apply)
        return engines[key]

    steps = plan_series(after, targets, given.now, engine_of, given.namer)
    workloads = by_workload(steps, targets)
    made = summed([step.plan for step in steps], _message(workloads))
    basis = _joint([basis_of(given.assumed_of(step.target)) for step in steps])
    return WhatIf(made, _names(workloads), accelerators(made, given.state), basis, workloads)


def _joint(bases: Iterable[Basis]) -> Basis:
    """Return the basis of a sum: that of its first plan, with the rules of the others if they differ."""
    first, *others = {each.rules_why: each for each in bases}.values()
    rules = "".join(f"; semantics {each.semantics} for others: {each.rules_why}" for each in others)
    return first._replace(rules_why=first.rules_why + rules)


def accelerators(plan: Plan, view: ClusterReader) -> dict[str, int]:
    """Return the devices of a plan's victims, by resource."""
    return devices(view.pods.get((unit.namespace, pod.name)) for unit in plan.victims for pod in unit.pods)


def _names(workloads: Sequence[WorkloadPlan]) -> str:
    return str(workloads[0]) if len(workloads) == 1 else count(len(workloads), "workload")


def _message(workloads: Sequence[WorkloadPlan]) -> str:
    """Return how many workloads and pods fit, and why the first workload does not."""
    lacking = next((each for each in workloads if not each.fits), None)
    fitting = sum(each.fits for each in workloads)
    parts = [f"{fitting:,} of {count(len(workloads), 'workload')} fit"] if len(workloads) > 1 else []
    if lacking is not None:
        placed = f"{lacking.placed:,} of {count(lacking.pods, 'pod')} of {lacking} fit"
        parts.append(f"{placed}: {lacking.message}")
    return ". ".join(parts) or f"{count(workloads[0].pods, 'pod')} planned one after another"
