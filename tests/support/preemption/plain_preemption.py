"""Workload-aware preemption on small clusters and plain lists; no plan of the engine may be worse.

It is written from KEP-5710's "Preemption algorithm" and the rules that Podium adds, step by step. It scans
linearly for the minimal priority and keeps no value from one step to the next, so it can be checked by
reading. It shares no code with the engine. Here feasibility is decided on one node at a time: by resources,
host ports, anti-affinity by host name, and a taint.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from tests.support.preemption.plain_cluster import Cluster, Node, Pod, Standing, fits, place, still_fits

FITS = "Fits"
FITS_AFTER_PREEMPTION = "FitsAfterPreemption"
DOES_NOT_FIT = "DoesNotFit"
NOT_ELIGIBLE = "NotEligible"


@dataclass(frozen=True)
class Unit:
    """A unit of preemption: a pod, or the running pods of a group that is disrupted as a whole."""

    name: str
    priority: int
    pods: tuple[Pod, ...]
    grouped: bool
    uid: str


@dataclass(frozen=True)
class Victim:
    """A unit that is evicted, and whether that violates a budget."""

    unit: str
    violates: bool


@dataclass(frozen=True)
class Plan:
    """A plan: the nodes of the preemptor's pods, the victims, and N."""

    outcome: str
    placed: Mapping[str, str] = field(default_factory=dict)
    victims: frozenset[Victim] = frozenset()
    minimal: int | None = None
    cost: tuple[int, ...] = ()


# --- possible victims -------------------------------------------------------------------------------------


def running(cluster: Cluster) -> dict[str, str]:
    return {pod.name: pod.node for pod in cluster.pods if pod.node is not None}


def promised(cluster: Cluster, preemptor: "Preemptor") -> dict[str, str]:
    """Return the nominated pods of equal or higher priority, whose room is not free for this preemptor."""
    return {
        pod.name: pod.nominated
        for pod in cluster.pods
        if pod.node is None
        and pod.nominated is not None
        and pod not in preemptor.pods
        and priority_of(cluster, pod) >= preemptor.priority
    }


def staying(cluster: Cluster) -> dict[str, str]:
    """Return the pods that run once the leaving pods have left; stuck pods stay."""
    return {name: at for name, at in running(cluster).items() if not leaves(cluster.pod(name))}


def leaves(pod: Pod) -> bool:
    return pod.leaving and not pod.stuck


def priority_of(cluster: Cluster, pod: Pod) -> int:
    """Return a pod's priority: that of its group, if it is in one."""
    group = cluster.group(pod.group)
    return pod.priority if group is None else group.priority


def units(cluster: Cluster) -> Iterator[Unit]:
    """Return the units of the pods that run and stay; a group's unit has no members that are kept."""
    members: dict[str, list[Pod]] = {}
    for name in staying(cluster):
        pod = cluster.pod(name)
        if pod.leaving:
            continue
        group = cluster.group(pod.group)
        if group is not None and group.whole and not pod.kept:
            members.setdefault(group.name, []).append(pod)
        else:
            yield Unit(pod.name, priority_of(cluster, pod), (pod,), grouped=False, uid=pod.uid)
    for name, pods in members.items():
        group = cluster.group(name)
        assert group is not None
        yield Unit(name, group.priority, tuple(pods), grouped=True, uid=group.uid)


def eligible(cluster: Cluster, unit: Unit, priority: int) -> bool:
    """Return whether a preemptor of that priority may evict a unit: every member must be evictable."""
    kept = any(pod.namespace == "kube-system" or pod.kept for pod in unit.pods)
    return unit.priority < priority and not kept and not exempt(cluster, unit, priority)


def exempt(cluster: Cluster, unit: Unit, priority: int) -> bool:
    group = cluster.group(unit.pods[0].group)
    patience = unit.pods[0].patience if group is None else group.patience
    if patience is None or priority >= patience.minimum:
        return False
    if patience.seconds < 0:
        return True
    times = [pod.scheduled for pod in unit.pods if pod.scheduled is not None]
    if group is not None and unit.grouped:
        if any(time < group.made for time in times):
            # The group was created again under running pods.
            return False
        times += [group.first] if group.first is not None else []
    return not times or min(times) + patience.seconds > cluster.now


def by_importance(cluster: Cluster, found: Iterable[Unit]) -> list[Unit]:
    """Return the units in order, the most important first."""
    return sorted(
        found,
        key=lambda unit: (
            -unit.priority,
            not unit.grouped,
            -len(unit.pods),
            min(started(cluster, pod) for pod in unit.pods),
            unit.uid,
        ),
    )


def started(cluster: Cluster, pod: Pod) -> int:
    return cluster.now if pod.start is None else pod.start


def violations(cluster: Cluster, ordered: Sequence[Unit]) -> dict[str, int]:
    """Return how many pods of each unit violate a budget when all potential victims are charged."""
    left = {budget.name: budget.allowed for budget in cluster.budgets}
    found = dict.fromkeys((unit.name for unit in ordered), 0)
    for unit in ordered:
        for pod in unit.pods:
            mine = [
                each.name
                for each in cluster.budgets
                if (each.namespace, each.app) == (pod.namespace, pod.app)
            ]
            for name in mine:
                left[name] -= 1
            found[unit.name] += any(left[name] < 0 for name in mine)
    return found


def harm(cluster: Cluster, victims: Iterable[Unit]) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Return the pods evicted beyond budgets, then work, pods and units by priority from the highest."""
    ordered = by_importance(cluster, victims)
    levels = [
        (
            priority,
            sum(_work(cluster, unit) for unit in here),
            sum(len(unit.pods) for unit in here),
            len(here),
        )
        for priority, each in groupby(ordered, key=lambda unit: unit.priority)
        for here in [list(each)]
    ]
    return sum(violations(cluster, ordered).values()), levels


def _work(cluster: Cluster, unit: Unit) -> int:
    """Return the accelerator-seconds of a unit; a pod without a start has none."""
    return sum(
        (cluster.now - pod.start) * amount
        for pod in unit.pods
        for name, amount in pod.requests.items()
        if "/" in name and pod.start is not None
    )


# --- the algorithm ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preemptor:
    """Pods to place in order, of which `needed` must be placed; on one node only, if it is given."""

    pods: tuple[Pod, ...]
    needed: int
    priority: int
    never: bool


def preemptor_of(cluster: Cluster, name: str) -> Preemptor:
    """Return the preemptor for the name of a group or a pod."""
    group = cluster.group(name)
    if group is None:
        pod = cluster.pod(name)
        return Preemptor((pod,), 1, pod.priority, pod.never)
    members = [pod for pod in cluster.pods if pod.group == name]
    waiting = [pod for pod in members if pod.node is None]
    there = sum(pod.node is not None and not pod.leaving for pod in members)
    waiting.sort(key=lambda pod: (-pod.priority, pod.created, pod.name))
    # No unit is evicted for members beyond minCount.
    never = group.never or any(pod.never for pod in waiting) or there >= group.least
    return Preemptor(tuple(waiting), max(1, group.least - there), group.priority, never)


def plans(cluster: Cluster, name: str, *, strict: bool = False) -> list[Plan]:
    """Return the plans for a pod or a group: several if a pod has several nodes of equal cost.

    `strict` forbids victims that violate a budget.
    """
    preemptor = preemptor_of(cluster, name)
    others = promised(cluster, preemptor)
    now, later = {**running(cluster), **others}, {**staying(cluster), **others}
    for outcome, placed in (
        (FITS, place(cluster, now, preemptor.pods)),
        (FITS, as_nominated(cluster, now, preemptor.pods)),
        (FITS_AFTER_PREEMPTION, as_nominated(cluster, later, preemptor.pods)),
        (FITS_AFTER_PREEMPTION, place(cluster, later, preemptor.pods)),
    ):
        if len(placed) >= preemptor.needed:
            return [Plan(outcome, placed)]
    if preemptor.never:
        return [Plan(NOT_ELIGIBLE)]
    found = []
    for domain in domains(cluster, name):
        plan = plan_in(cluster, preemptor, domain)
        if plan is not None and strict and any(victim.violates for victim in plan.victims):
            plan = plan_in(cluster, preemptor, domain, safe_only=True)
        if plan is not None:
            found.append(plan)
    cheapest = min((plan.cost for plan in found), default=())
    return [plan for plan in found if plan.cost == cheapest] or [Plan(DOES_NOT_FIT)]


def as_nominated(cluster: Cluster, standing: Standing, pods: Sequence[Pod]) -> dict[str, str]:
    """Place pods on their nominated nodes if they fit there, and then the others."""
    placed: dict[str, str] = {}
    for pod in pods:
        here = {**standing, **placed}
        if pod.nominated is not None and fits(cluster, here, pod, cluster.node(pod.nominated)):
            placed[pod.name] = pod.nominated
    rest = [pod for pod in pods if pod.name not in placed]
    return placed | place(cluster, {**standing, **placed}, rest)


def domains(cluster: Cluster, name: str) -> list[tuple[Node, ...]]:
    """Return the sets of nodes to try: for a pod each node, for a group all of them at once."""
    return [cluster.nodes] if cluster.group(name) is not None else [(node,) for node in cluster.nodes]


def plan_in(
    cluster: Cluster, preemptor: Preemptor, domain: Sequence[Node], *, safe_only: bool = False
) -> Plan | None:
    """Plan in one domain, step by step; None if it is infeasible or has no potential victim.

    With `safe_only`, units that would violate a budget are no potential victims.
    """
    within = replace(cluster, nodes=tuple(domain))
    names = {node.name for node in domain}
    may = [unit for unit in units(cluster) if eligible(cluster, unit, preemptor.priority)]
    ordered = by_importance(cluster, (unit for unit in may if any(pod.node in names for pod in unit.pods)))
    violating = violations(cluster, ordered)
    potential = [unit for unit in ordered if not (safe_only and violating[unit.name])]
    others = {**staying(cluster), **promised(cluster, preemptor)}

    def without(taken: Iterable[Unit]) -> dict[str, str]:
        gone = {pod.name for unit in taken for pod in unit.pods}
        return {name: at for name, at in others.items() if name not in gone}

    def attempt(taken: Iterable[Unit]) -> dict[str, str] | None:
        placed = place(within, without(taken), preemptor.pods, preemptor.needed)
        return placed if len(placed) == preemptor.needed else None

    def reprieve(taken: list[Unit], candidates: Iterable[Unit], placed: Standing) -> list[Unit]:
        for unit in candidates:
            left = [each for each in taken if each is not unit]
            if still_fits(cluster, without(left), placed):
                taken = left
        return taken

    placed = attempt(potential) if potential else None
    if placed is None:
        return None
    # Units whose loss violates a budget are reprieved where the preemptor's placement without any unit allows
    # it. If the preemptor then finds no placement of its own, budgets are ignored.
    spared = reprieve(potential, [unit for unit in potential if violating[unit.name]], placed)
    if attempt(spared) is not None:
        potential = spared
    minimal = next(
        level
        for level in sorted({unit.priority for unit in potential})
        if attempt([unit for unit in potential if unit.priority <= level]) is not None
    )
    potential = [unit for unit in potential if unit.priority <= minimal]
    placed = attempt(potential)
    assert placed is not None
    victims = reprieve(potential, potential, placed)
    rest = [pod for pod in preemptor.pods if pod.name not in placed]
    placed |= place(within, {**without(victims), **placed}, rest)
    if not victims:
        # After an eviction, pods of several kinds may fit in another order.
        waits = any(
            leaves(cluster.pod(name)) and at in placed.values() for name, at in running(cluster).items()
        )
        return Plan(FITS_AFTER_PREEMPTION if waits else FITS, placed)
    taken = frozenset(Victim(unit.name, violating[unit.name] > 0) for unit in victims)
    return Plan(FITS_AFTER_PREEMPTION, placed, taken, minimal, cost(cluster, victims, violating))


def cost(cluster: Cluster, victims: Sequence[Unit], violating: Mapping[str, int]) -> tuple[int, ...]:
    """Return the values of kube-scheduler's five steps as a tuple; the least is the best."""
    levels = [(unit.priority, pod) for unit in victims for pod in unit.pods]
    levels.sort(key=lambda level: -level[0])
    highest, top = next(groupby(levels, key=lambda level: level[0]))
    earliest = min(started(cluster, pod) for _, pod in top)
    return (
        sum(violating[unit.name] for unit in victims),
        highest,
        sum(priority + 2**31 for priority, _ in levels),
        len(levels),
        -earliest,
    )
