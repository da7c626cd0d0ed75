"""Plans: the victims of a pending pod or group, the preemptors of a running one, moves that free a domain.

The plans for several preemptors are made one after another, each in the cluster that the plans before it
leave, and the report has a line for each workload.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

import msgspec

from podium.answers.assumptions import (
    Assumptions,
    Choices,
    PlanTime,
    assume,
    assume_moves,
    by_scheduler,
    moment,
    server_minor,
    set_by_argument,
)
from podium.answers.expansion.added import scaled
from podium.answers.expansion.createdclaims import MOST_CLAIMS
from podium.answers.expansion.createdpods import MOST_PODS
from podium.answers.expansion.expand import Expansion, expand
from podium.answers.schedulersettings import OverridingSettings
from podium.answers.targets import (
    check_group,
    find_target,
    find_victim,
    namespace_of,
    pending_targets,
    pending_words,
    target_words,
)
from podium.answers.whatifreport import MOST_DOMAINS, Basis, Most, WhatIf
from podium.api.core import Pod
from podium.api.devices import ResourceClaim
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.storage import PersistentVolumeClaim
from podium.cluster.reader import ClusterReader, Name, Target, held_devices
from podium.cluster.state import ClusterState
from podium.documents.document import Document
from podium.documents.load import collector_paused
from podium.documents.reading import ClusterReading, check_whole
from podium.documents.scope import Scope
from podium.errors import QuestionError
from podium.groups.trees import group_at
from podium.planner.engine import Engine, MakeEngine
from podium.planner.preemption.defragment import Defragmentation
from podium.planner.preemption.outcome import (
    GOOD,
    ObjectNamer,
    Outcome,
    Plan,
    TenantNames,
    WorkloadPlan,
    full_name,
)
from podium.planner.semantics import Semantics
from podium.planner.series import OUTCOMES, by_workload, plan_series, summed, undone
from podium.planner.settings import Settings
from podium.planner.threat import Threat, threat
from podium.rules.admission import Profile
from podium.text import count, some

Note = Callable[[str], object]


def _ignored(_line: str) -> None:
    """Drop a note."""


class Addition(NamedTuple):
    """Objects to add to the cluster before a question: the documents of a file.

    `replicas` changes the number of replicas of its workload, and `maximum` asks for the largest that fits.
    With `strict` an object that cannot be planned is an error.
    """

    documents: Sequence[Document] = ()
    replicas: int | None = None
    maximum: bool = False
    strict: bool = False


def whatif(
    cluster: ClusterReading,
    target: Name | None = None,
    kind: str = "",
    *,
    pending: Scope | None = None,
    added: Addition | None = None,
    now: datetime | str | None = None,
    semantics: Semantics | None = None,
    settings: OverridingSettings | None = None,
    set_by: Callable[[str], str] = set_by_argument,
    tenant: str | None = None,
    domains: int = MOST_DOMAINS,
    note: Note = _ignored,
    engine: MakeEngine = Engine,
) -> WhatIf:
    """Return the plan for pending pods and groups: their nodes, the pods that they preempt, and the reasons.

    `target` is the (namespace, name) of a pod or group, and `kind` is `pod` or `group`; without it a group
    comes before a pod of the name. An empty namespace means the only one with such an object. Without a
    target the plan is for all objects that wait in the scope `pending`, or for all that are `added`. The
    `cluster` is not changed.

    `now` is the time of the plan (a datetime, or RFC 3339 text), `semantics` its rules and `settings` its
    settings. Without them the plan is for the newest time in the input, with the rules and settings of the
    target's scheduler. docs/preemption-reference.md has the source of each rule. `set_by` words how a field
    was set. Names outside the namespace `tenant` are hidden. Of a group with a topology constraint `domains`
    topology domains are compared. `note` receives sentences on what the plan assumes, and `engine` makes an
    engine.

    Raises QuestionError for a field of the question (`target`, `pod`, `group`, `pending`, `added`,
    `replicas`, `now`), and PodiumError if the target does not exist or the cluster is not whole.
    """
    planning = _planning(cluster, Choices(now, semantics, settings, set_by), engine)
    with collector_paused(), cluster.near.origins.placed():
        sources: Mapping[Target, ObjectRef] = {}
        unplanned: Mapping[ObjectRef, str] = {}
        if pending is not None:
            sources = _waiting(cluster, pending, note)
        most = None
        if added is not None:
            planning, expansion, most = _with_added(planning, added, note)
            if not expansion.targets and target is None:
                raise QuestionError("added", "none is or creates a pending pod or group. Add a workload")
            sources, unplanned = expansion.targets, expansion.unplanned if target is None else {}
        state = planning.state
        if target is not None:
            targets = [find_target(state, target, kind, tenant)]
        else:
            targets = [
                preemptor for preemptor in sources if tenant is None or namespace_of(preemptor) == tenant
            ]
        if not targets:
            raise QuestionError("target", pending_words(state, tenant))
        report = _report(planning, targets, sources, unplanned, tenant=tenant, domains=domains)
    return report._replace(most=most)


def threats(
    cluster: ClusterReading,
    victim: Name,
    kind: str = "",
    choices: Choices = Choices(),  # noqa: B008 - a value
    *,
    added: Addition | None = None,
    note: Note = _ignored,
    engine: MakeEngine = Engine,
) -> tuple[Threat, Basis]:
    """Return what would preempt a running pod or group, and the basis; the parameters are those of `whatif`.

    Raises QuestionError for the fields `victim`, `kind` (a pod and a group have the name) and `now`, and
    PodiumError.
    """
    planning = _planning(cluster, choices, engine)
    with collector_paused(), cluster.near.origins.placed():
        if added is not None:
            planning, _, _ = _with_added(planning, added, note)
        target = find_victim(planning.state, victim, kind)
        assumed = planning.assumed_of(target)
        return threat(planning.engine(assumed), target, planning.at.at), assumed.basis(cluster.source)


def moves(
    cluster: ClusterReading,
    label: str,
    choices: Choices = Choices(),  # noqa: B008 - a value
    *,
    domains: int = MOST_DOMAINS,
    engine: MakeEngine = Engine,
) -> tuple[Defragmentation, Basis]:
    """Return the moves of running pods that free a topology domain of a node label, and the basis.

    At most `domains` domains are listed. Raises PodiumError, and QuestionError for the field `now`.
    """
    planning = _planning(cluster, choices, engine)
    with collector_paused(), cluster.near.origins.placed():
        assumed = assume_moves(cluster, planning.at, choices)
        made = planning.engine(assumed).defragment(label, planning.at.at, domains)
    return made, assumed.basis(cluster.source)


class _Planning(NamedTuple):
    """The cluster of plans, their time, the assumptions for each preemptor, and how engines are made."""

    cluster: ClusterReading
    at: PlanTime
    choices: Choices
    make: MakeEngine
    assumed_of: Callable[[Target], Assumptions]

    @property
    def state(self) -> ClusterState:
        """Return the state of the cluster."""
        return self.cluster.near.state

    def copied(self) -> "_Planning":
        """Return the same with a copy of the cluster."""
        near = self.cluster.near._replace(state=self.state.copy())
        return _planned_in(self.cluster._replace(near=near), self.at, self.choices, self.make)

    def engine(self, assumed: Assumptions, state: ClusterState | None = None) -> Engine:
        """Return an engine for the cluster, or for a later state of it."""
        return self.make(state or self.state, assumed.chosen.settings, assumed.rules.minor)


def _planning(cluster: ClusterReading, choices: Choices, make: MakeEngine) -> _Planning:
    """Return what plans of a question need. Raises PodiumError for a part of a cluster."""
    check_whole(cluster.near)
    return _planned_in(cluster, moment(cluster, choices), choices, make)


def _planned_in(cluster: ClusterReading, at: PlanTime, choices: Choices, make: MakeEngine) -> _Planning:
    assumed_of = by_scheduler(cluster.near.state, lambda target: assume(cluster, target, at, choices))
    return _Planning(cluster, at, choices, make, assumed_of)


def _with_added(planning: _Planning, added: Addition, note: Note) -> tuple[_Planning, Expansion, Most | None]:
    """Return the same in a copy of the cluster with the added objects, these, and how many replicas fit.

    Raises PodiumError.
    """
    most = _most(planning, added) if added.maximum else None
    replicas = added.replicas if most is None else max(1, most.with_preemption)
    documents = added.documents if replicas is None else scaled(added.documents, replicas)
    expansion = _expanded(planning, documents, strict=added.strict)
    for line in expansion.notes:
        note(line)
    planning = planning.copied()
    expansion.apply(planning.state)
    return planning, expansion, most


def _expanded(planning: _Planning, documents: Sequence[Document], *, strict: bool = False) -> Expansion:
    """Return what documents would add to the cluster, after its own admission. Raises PodiumError."""
    loaded = planning.cluster.near
    minor, _ = server_minor(loaded)
    profile = Profile(kubernetes=f"1.{minor}", rules="podium", workload_api=loaded.state.native_served)
    return expand(documents, loaded.state, planning.at.text, profile, loaded.labels, strict=strict)


def _waiting(cluster: ClusterReading, scope: Scope, note: Note) -> dict[Target, ObjectRef]:
    """Return the pending preemptors in a scope, without the groups that do not exist, which are noted.

    Raises QuestionError if there are none.
    """
    state = cluster.near.state
    targets = pending_targets(state, scope)
    absent = [
        target for target in targets if isinstance(target, GroupKey) and group_at(state, target) is None
    ]
    if absent:
        names = some("/".join(target.qualified) for target in absent)
        note(f"left out, because these groups are not in the input: {names}")
    if len(absent) == len(targets):
        partial = f" ({scope.partial})" if scope.partial else ""
        raise QuestionError("pending", f"no pod or group is pending{partial}")
    return {target: source for target, source in targets.items() if target not in absent}


def _most(planning: _Planning, added: Addition) -> Most:
    """Return how many replicas of the workload of an addition fit. Raises PodiumError.

    Fewer replicas than a number that fits are taken to fit too.
    """
    planning = planning.copied()
    state, engine_of = planning.state, _engines(planning, planning.state)

    def expansion(replicas: int) -> Expansion:
        return _expanded(planning, scaled(added.documents, replicas))

    def outcomes(replicas: int) -> Iterator[Outcome]:
        """Yield the outcome of each preemptor up to the first that does not fit."""
        with undone(state):
            expanded = expansion(replicas)
            expanded.apply(state)
            for step in plan_series(state, expanded.targets, planning.at.at, engine_of):
                yield from (step.plan.outcome for _ in step.targets)
                if step.plan.outcome not in GOOD:
                    return

    single = expansion(1)
    pods = sum(isinstance(created, Pod) for created in single.objects)
    claims = sum(isinstance(created, PersistentVolumeClaim | ResourceClaim) for created in single.objects)
    limit = min(MOST_PODS // max(pods, 1), MOST_CLAIMS // max(claims, 1))
    each_has = len(single.targets)
    if limit > 1 and 2 * each_has == len(expansion(2).targets):
        # More replicas only add preemptors, so one series of plans has the answers for all numbers.
        series = list(outcomes(limit))
        free = len(list(takewhile(lambda outcome: outcome is Outcome.FITS, series)))
        return Most(free // each_has, sum(outcome in GOOD for outcome in series) // each_has)
    worst = functools.cache(lambda replicas: max(outcomes(replicas), key=OUTCOMES.index))
    free = _largest(lambda replicas: worst(replicas) is Outcome.FITS, 0, limit)
    return Most(free, _largest(lambda replicas: worst(replicas) in GOOD, free, limit))


def report_of(made: Plan, target: Target, view: ClusterReader, assumed: Assumptions, source: str) -> WhatIf:
    """Return a plan with the preemptor's name, its cost, and the basis of the answer."""
    basis = assumed.basis(source)
    held = accelerators(made, view)
    return WhatIf(made, target_words(target), held, basis, rules=(assumed.rules,), drawn=(made, view))


def _report(
    planning: _Planning,
    targets: Sequence[Target],
    sources: Mapping[Target, ObjectRef],
    unplanned: Mapping[ObjectRef, str],
    *,
    tenant: str | None,
    domains: int,
) -> WhatIf:
    """Return the plan for a preemptor, or the sum of the plans for several, of which `sources` brings each.

    The sum also has the objects that cannot be planned, each with the reason (`unplanned`). Raises
    PodiumError as `Engine.plan` does, and for groups that were not read.
    """
    state, source = planning.state, planning.cluster.source
    names = TenantNames(state, tenant) if tenant is not None else None
    namer = names.name if names is not None else full_name
    for target in targets:
        check_group(target, state, planning.assumed_of(target).rules.semantics)
    if len(targets) > 1 or unplanned:
        of = {preemptor: sources[preemptor] for preemptor in targets}
        rows = [_not_judged(*entry) for entry in unplanned.items()]
        report = _report_of_all(planning, of, namer, rows)
    else:
        target, assumed = targets[0], planning.assumed_of(targets[0])
        made = planning.engine(assumed).plan(target, planning.at.at, namer, domains)
        report = report_of(made, target, state, assumed, source)
    return report if names is None else report._replace(plan=names.redact_plan(report.plan))


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


def _engines(planning: _Planning, state: ClusterState) -> Callable[[Target], Engine]:
    """Return the function that gives the engine for a preemptor; engines follow the state."""
    engines: dict[tuple[Settings, int], Engine] = {}

    def engine_of(target: Target) -> Engine:
        assumed = planning.assumed_of(target)
        key = assumed.chosen.settings, assumed.rules.minor
        if key not in engines:
            engines[key] = planning.engine(assumed, state)
            state.observe(engines[key].apply)
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
    planning: _Planning,
    targets: Mapping[Target, ObjectRef],
    namer: ObjectNamer,
    unplanned: Sequence[WorkloadPlan],
) -> WhatIf:
    state = planning.state
    after = state.copy()
    steps = list(plan_series(after, targets, planning.at.at, _engines(planning, after), namer))
    workloads = [*by_workload(steps, targets), *unplanned]
    shared = any(len(step.targets) > 1 and step.plan.victims for step in steps)
    made = summed([step.plan for step in steps], _message(workloads, shared=shared))
    worst = max((workload.outcome for workload in workloads), key=OUTCOMES.index)
    made = msgspec.structs.replace(made, outcome=worst)
    source, assumed_of = planning.cluster.source, planning.assumed_of
    basis = _joint([assumed_of(step.targets[0]).basis(source) for step in steps])
    rules = tuple(dict.fromkeys(assumed_of(target).rules for target in targets))
    held = accelerators(made, state)
    return WhatIf(made, _names(workloads), held, basis, workloads, rules=rules, drawn=(made, state))


def _joint(bases: Iterable[Basis]) -> Basis:
    """Return the basis of a sum: that of its first plan, with the rules and caveats of the others."""
    listed = list(bases)
    first, *rest = {basis.rules_why: basis for basis in listed}.values()
    foreign = " ".join(dict.fromkeys(basis.approximation for basis in listed if basis.approximation))
    rules = "".join(f"; semantics {basis.semantics} for others: {basis.rules_why}" for basis in rest)
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
    lacking = next((workload for workload in workloads if not workload.fits), None)
    fitting = sum(workload.fits for workload in workloads)
    parts = [f"{fitting:,} of {count(len(workloads), 'workload')} fit"] if len(workloads) > 1 else []
    if lacking is not None:
        placed = f"{lacking.placed:,} of {count(lacking.pods, 'pod')} of {lacking} fit"
        parts.append(f"{placed if lacking.pods else lacking}: {lacking.message}")
    if shared:
        parts.append(
            "equal pods planned at once; the scheduler takes them one by one and may evict other pods"
        )
    return ". ".join(parts) or f"{count(workloads[0].pods, 'pod')} planned one after another"
