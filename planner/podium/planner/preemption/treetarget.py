"""Determines the pods to be placed for a tree of composite groups, or why none can be.

A tree is one entity: it has the priority of its root, and it is ready if each composite group has
minGroupCount ready children. The children are placed one by one, as each may have a topology of its own.
Those that are hardest to place come first; kube-scheduler places the oldest first. Children that all
must be placed, and need nothing else than room, are placed as one group.

Under `kep` a tree has one plan, with the least harm for all its parts.
Each part that finds no free room takes the domain that is cheapest to clear for it (`DomainChooser`), beside
the parts before it. The domains of parts depend on each other: two parts may share the room of one victim. So
other combinations of domains are tried as long as they may do less harm. At last the victims return that are
needed by no part. The number of plans is bounded.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from podium.api.core import Pod
from podium.api.groups import CompositeGroup, PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.priority import effective_policy
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Child, ClusterReader
from podium.errors import PodiumError
from podium.groups.trees import (
    MAX_DEPTH,
    MAX_GROUPS,
    is_too_large,
    leaves,
    lineage,
    tree,
    unlike_groups,
)
from podium.planner.arrays import Bools, Rows
from podium.planner.preemption.choice import DomainChooser
from podium.planner.preemption.domain import DomainPlan, DomainPlanner
from podium.planner.preemption.dryrun import DryRun
from podium.planner.preemption.groupplacement import PartSearch, Placements
from podium.planner.preemption.grouptarget import (
    POLICY_NEVER,
    Members,
    asks_for_all,
    barred_by_eviction,
    forbids_preemption,
    group_target,
    members_of,
    refused_by_kube_scheduler,
    several_schedulers,
)
from podium.planner.preemption.harm import weights
from podium.planner.preemption.leastharm import LeastHarmPlan
from podium.planner.preemption.target import Blocker, PlacementTarget, PreemptorPods, Unplaceable
from podium.planner.preemption.topology import Domain
from podium.planner.settings import Settings
from podium.planner.snapshot import Snapshot
from podium.text import count, listed, natural, some


class _TreePart(NamedTuple):
    """A group of a tree: what is to be placed for it, or why nothing can be; both None if all of it runs.

    `settled` says that enough of it runs. `running` is the number of all pods that run, and `pinning_nodes`
    are the node rows of the pods that pin its domain.
    """

    target: PlacementTarget | None
    unready: Unplaceable | None
    settled: bool
    running: int
    pinning_nodes: tuple[int, ...]


def tree_target(
    view: ClusterReader,
    snapshot: Snapshot,
    key: GroupKey,
    settings: Settings,
    leaving: Callable[[Schedulable], bool] | None,
) -> PlacementTarget | Unplaceable:
    """Return the pods to be placed for the tree of a root; pods that are `leaving` do not run."""
    root, name = view.composites.get(key), "/".join(key.qualified)
    if root is None:
        return Unplaceable(
            f"waiting for the composite group {name}, which does not exist", Blocker.GROUP_MISSING
        )
    if is_too_large(view, key):
        return Unplaceable(f"its tree has more than {MAX_GROUPS} groups", Blocker.LARGE_TREE)
    members = {key_of(leaf): members_of(view, snapshot, key_of(leaf), leaving) for leaf in leaves(view, key)}
    every = [pod for leaf in members.values() for pod in leaf.unfinished]
    if every and not any(leaf.waiting for leaf in members.values()):
        runs = count(sum(len(leaf.runs) for leaf in members.values()), "pod")
        raise PodiumError(f"composite group {name}: no pod of its groups is pending; {runs} run")
    waiting = [pod for leaf in members.values() for pod in leaf.waiting]
    disagrees = _disagreement(view, root, every, waiting, settings)
    if disagrees is not None:
        return disagrees
    tree = _Tree(view, snapshot, settings, members, root).part(root, 1)
    if tree.target is None:
        return tree.unready or Unplaceable("no pod of its groups can be placed", Blocker.TOO_FEW)
    if forbids_preemption(root, waiting, view.classes):
        return tree.target._replace(preemption_barred=POLICY_NEVER)
    return tree.target


class _Tree:
    """Determines the parts of one tree."""

    def __init__(
        self,
        view: ClusterReader,
        snapshot: Snapshot,
        settings: Settings,
        members: dict[GroupKey, Members],
        root: CompositeGroup,
    ) -> None:
        self._view = view
        self._snapshot = snapshot
        self._settings = settings
        self._members = members
        self._root = root
        self._priority = root.priority or 0

    def part(self, group: Child, level: int) -> _TreePart:
        """Return a group of the tree, which is on a level from 1 on."""
        return self._leaf(group) if isinstance(group, PodGroup) else self._composite(group, level)

    def _leaf(self, group: PodGroup) -> _TreePart:
        snapshot, members = self._snapshot, self._members[key_of(group)]
        running, nodes = len(members.runs), members.nodes(snapshot)
        settled = running >= group.least
        if not members.waiting:
            unready = None if settled else Unplaceable(_lacking(group, running), Blocker.TOO_FEW)
            return _TreePart(None, unready, settled, running, nodes)
        target = group_target(self._view, snapshot, self._as_judged(group), members, self._settings)
        if isinstance(target, Unplaceable):
            return _TreePart(None, target, settled, running, nodes)
        target = target._replace(group=group, priority=self._priority)
        return _TreePart(target, None, settled, running, nodes)

    def _as_judged(self, group: PodGroup) -> PodGroup:
        """Return a leaf as it is compared with its pods; kube-scheduler compares them with the root."""
        if not self._settings.semantics.rules.agreement:
            return group
        return msgspec.structs.replace(
            group,
            priority=self._priority,
            priority_class_name=self._root.priority_class_name,
            preemption_policy=self._root.preemption_policy,
        )

    def _composite(self, group: CompositeGroup, level: int) -> _TreePart:
        rules = self._settings.semantics.rules
        children = self._view.children.get(key_of(group), {}) if level < MAX_DEPTH else {}
        parts = {child.ref.name: self.part(child, level + 1) for _, child in sorted(children.items())}
        running = sum(part.running for part in parts.values())
        nodes = tuple(node for part in parts.values() for node in part.pinning_nodes)
        need = group.least
        settled = sum(part.settled for part in parts.values())
        able = [part.target._replace(settled=part.settled) for part in parts.values() if part.target]
        counted = self._in_order(group, [child for child in able if not child.settled])
        more = self._in_order(group, [child for child in able if child.settled])
        every = (*counted, *more)
        if not rules.tries_orders:
            every = tuple(sorted(able, key=_age))
        enough = settled >= need
        if settled + len(counted) < need:
            unready = _too_few(parts, settled + len(counted), need)
            return _TreePart(None, unready, settled=False, running=running, pinning_nodes=nodes)
        if not able:
            first = next((part.unready for part in parts.values()), None)
            return _TreePart(None, first, enough, running, nodes)
        for_all = asks_for_all(group)
        barred = _barred([*counted, *more])
        if not barred and not for_all and enough and rules.needed_only:
            already = f"{count(settled, 'child group')} run and minGroupCount is {need}"
            barred = f"{already}, so no pod is evicted for one more"
        barred = barred or barred_by_eviction(group, len(nodes) - running)
        needed = max(need - settled, 0)
        desired = len(counted) if for_all else needed
        target = PlacementTarget(
            rows=tuple(row for child in every for row in child.rows),
            needed=_least(counted, needed),
            priority=self._priority,
            preemption_barred=barred,
            group=group,
            running=running,
            disputed=next((child.disputed for child in every if child.disputed), ""),
            desired=_least([child.whole for child in counted], desired),
            pinning_nodes=nodes,
            parts=every,
            needed_parts=needed,
            desired_parts=desired,
            counted_parts=len(counted),
        )
        return _TreePart(target.merged, None, enough, running, nodes)

    def _in_order(self, group: CompositeGroup, targets: Iterable[PlacementTarget]) -> list[PlacementTarget]:
        """Return targets in the order in which they are placed: those that are hardest to place first."""
        above = PlacementTarget((), 0, 0, group=group)
        return sorted(
            targets,
            key=lambda target: (
                not target.pinning_nodes,
                target.is_free(above),
                -max(self._share((row,)) for row in self._of_each_shape(target.rows)),
                -self._share(target.rows[: target.needed]),
                natural(target.group.ref.name if target.group is not None else ""),
            ),
        )

    def _of_each_shape(self, rows: Sequence[int]) -> Iterable[int]:
        """Return one pod of each shape."""
        return {self._snapshot.shape.item(row): row for row in rows}.values()

    def _share(self, rows: Sequence[int]) -> float:
        """Return the largest part of any resource of the cluster that pods request."""
        asked = dict[str, int]()
        for shape, pods in Counter(map(self._snapshot.shape.item, rows)).items():
            for name, amount in self._snapshot.shapes[shape].requests:
                asked[name] = asked.get(name, 0) + amount * pods
        offered = self._offered
        return max((amount / max(offered.get(name, 0), 1) for name, amount in asked.items()), default=0.0)

    @cached_property
    def _offered(self) -> dict[str, int]:
        """The allocatable amount of each resource in the cluster."""
        snapshot = self._snapshot
        return {name: int(snapshot.allocatable[at].sum()) for name, at in snapshot.resource.items()}


def _age(part: PlacementTarget) -> tuple[str, str]:
    """Return the order in which kube-scheduler places children: by creation, then by name."""
    assert part.group is not None, "a part is a group"
    metadata = part.group.metadata
    return metadata.creationTimestamp or "", metadata.name or ""


def _least(parts: Iterable[PlacementTarget], number: int) -> int:
    """Return the least number of pods of so many parts; at least one pod has to be placed."""
    return max(sum(sorted(part.needed for part in parts)[:number]), 1)


def _barred(parts: Iterable[PlacementTarget]) -> str:
    """Return why no pod may be evicted for one of the parts, empty if any may be."""
    return next((part.preemption_barred for part in parts if part.preemption_barred), "")


def _disagreement(
    view: ClusterReader,
    root: CompositeGroup,
    pods: Sequence[Pod],
    waiting: Sequence[Pod],
    settings: Settings,
) -> Unplaceable | None:
    """Return in what a tree differs that must agree before it is scheduled; None if it agrees.

    Source: validatePodGroup in kube-scheduler 1.37, which compares the preemption policies of queued pods,
    and validatePodGroupHierarchy in 1.38, which compares those of all pods.
    """
    rules = settings.semantics.rules
    several = several_schedulers(pods)
    if several is not None or not rules.agreement:
        return several
    if rules.tree_agreement:
        unlike = _unlike_tree(view, root, waiting)
        if unlike:
            return refused_by_kube_scheduler(unlike, settings)
        waiting = pods
    priorities = {
        str(pod.spec.priority or 0) for pod in pods if (pod.spec.priority or 0) != (root.priority or 0)
    }
    policies = {effective_policy(pod.spec.preemptionPolicy) for pod in waiting}
    holders = "pods of the tree"
    if root.preemption_policy is not None:
        policies.add(root.preemption_policy)
        holders = f"the root and {holders}"
    if priorities:
        reason = f"the root has priority {root.priority or 0} and pods of the tree {some(priorities)}"
    elif len(policies) > 1:
        reason = f"{holders} have preemptionPolicy {listed(sorted(policies))}"
    else:
        return None
    return refused_by_kube_scheduler(reason, settings)


def _unlike_tree(view: ClusterReader, root: CompositeGroup, waiting: Sequence[Pod]) -> str:
    """Return why kube-scheduler 1.38 places no tree with the groups below a root; empty if it does."""
    for group in tree(view, key_of(root)):
        if isinstance(group, CompositeGroup) and len(lineage(view, group).above) == MAX_DEPTH - 1:
            return f"its composite groups nest in more than {MAX_DEPTH} levels, at {group.ref.name}"
        if (group.priority or 0) != (root.priority or 0):
            return f"{group.ref.name} has priority {group.priority or 0} and the root {root.priority or 0}"
    policy = effective_policy(waiting[0].spec.preemptionPolicy) if waiting else None
    unlike = next(unlike_groups(view, root, policy), None)
    return f"{unlike.group.ref.name} does not suit it: {unlike.words}" if unlike is not None else ""


def _lacking(group: PodGroup, running: int) -> str:
    least = group.least
    return f"waiting for minCount pods: 0 pods can be placed and {running} run, minCount is {least}"


def _too_few(parts: dict[str, _TreePart], ready: int, need: int) -> Unplaceable:
    """Return that too few children are ready, with the reason of the first one that is not."""
    counts = f"{ready} of {len(parts)} are ready, minGroupCount is {need}"
    text = f"waiting for minGroupCount child groups: {counts}"
    first = next(((name, part.unready) for name, part in parts.items() if part.unready is not None), None)
    if first is None:
        return Unplaceable(text, Blocker.TOO_FEW)
    name, unready = first
    return Unplaceable(f"{text}; {name}: {unready.why}", unready.cause or Blocker.TOO_FEW)


# The most domains of a part that are tried in combinations.
_DOMAINS = 4
# The most plans of parts, and the pods that they may look at before no further combination is tried.
_PLANS, _PODS = 256, 500_000
# The most pods of a tree that are placed again, all times together, to do without a victim.
_PODS_PLACED_AGAIN = 2_000


class TreePlanner(DomainPlanner):
    """Plans for a tree; see DomainPlanner."""

    def _least(self, domain: Domain, ordered: Rows, *, only_room: bool, effort: int) -> LeastHarmPlan | None:
        tree = self.dry_run.preemptor.tree
        assert tree is not None, "the preemptor is a tree"
        plan = _PartPlans(self, ordered, effort).least(tree)
        return plan or super()._least(domain, ordered, only_room=only_room, effort=effort)


class _PartPlanner(DomainPlanner):
    """Plans for a part; `known` are the plans for equal parts, by all that decides in a domain.

    A tree has many equal parts, and each changes one domain only. So the plans of all others stay.
    """

    known: dict[Hashable, tuple[tuple[int, ...], DomainPlan | None]]

    def plan(
        self, domain: Domain, leads: Rows, *, only_room: bool = False, effort: int | None = None
    ) -> DomainPlan | None:
        """Return the plan in a domain, as DomainPlanner does."""
        preemptor, snapshot = self.dry_run.preemptor, self.dry_run.snapshot
        if not self.dry_run.plain or preemptor.slices is not None:
            return super().plan(domain, leads, only_room=only_room, effort=effort)
        with self.dry_run.within(domain):
            nodes = self.dry_run.placer.chain.nodes
        asked = dict.fromkeys(name for shape in self.dry_run.shapes for name, _ in shape.requests)
        at = (snapshot.resource[name] for name in asked if name in snapshot.resource)
        used = (snapshot.used[index][nodes].tobytes() for index in at)
        kind = (preemptor.needed, tuple(snapshot.shape.item(row) for row in preemptor.rows), effort)
        key = (*kind, nodes.tobytes(), leads.tobytes(), *used)
        if key not in self.known:
            self.known[key] = preemptor.rows, super().plan(domain, leads, effort=effort)
        rows, plan = self.known[key]
        if plan is None or rows == preemptor.rows:
            return plan
        mine = dict(zip(rows, preemptor.rows, strict=True))
        return plan._replace(placed={mine[row]: node for row, node in plan.placed.items()})


class _PartPlans(PartSearch):
    """A search for the domains of the parts of a tree, and for the victims there, among `ordered` units."""

    def __init__(self, planner: TreePlanner, ordered: Rows, effort: int) -> None:
        super().__init__(planner.dry_run.placer, planner.settings.semantics, planner.dry_run.deadline)
        self._planner = planner
        self._units = planner.units
        self._ordered = ordered
        self._effort = effort
        self._weights = weights(planner.units, ordered, planner.now)
        self._position = {lead: at for at, lead in enumerate(ordered.tolist())}
        pods = int(self._units.size[ordered].sum()) + len(self.snapshot.alive)
        self.left = self._most = min(_PLANS, _PODS // max(pods, 1))
        # The victims of the parts that are placed at the moment.
        self._gone: list[Rows] = []
        self._best: tuple[int, LeastHarmPlan] | None = None
        self._known: dict[Hashable, tuple[tuple[int, ...], DomainPlan | None]] = {}

    def least(self, tree: PlacementTarget) -> LeastHarmPlan | None:
        """Return the plan of least harm among those that were tried, None without any."""
        for order in (tree, _backwards(tree)):
            with self.snapshot.trial(), closing(self.children(order, None)) as options:
                for placed in options:
                    self._note(placed)
                    if self.left <= 0:
                        break
            if self.left <= 0 or (self._best is not None and len(self._best[1].victims) < 2):
                break
            self.left = self._most // 2
        return None if self._best is None else self._without_each(tree, self._best[1])

    def _without_each(self, tree: PlacementTarget, plan: LeastHarmPlan) -> LeastHarmPlan:
        """Return a plan without the victims that another placement of the whole tree does not need.

        The most harmful one is tried first.
        """
        heaviest = sorted(plan.victims.tolist(), key=lambda lead: -self._weight_of([lead]))
        for lead in heaviest[: _PODS_PLACED_AGAIN // len(tree.rows)]:
            fewer = self._units.with_surplus(plan.victims[plan.victims != lead])
            if lead in fewer:
                continue
            with self.snapshot.trial():
                self._planner.dry_run.remove(fewer)
                placed = PartSearch(self.placer, self.semantics, self.deadline).place_needed(tree)
            if placed:
                plan = LeastHarmPlan(placed, self._ordered[np.isin(self._ordered, fewer)])
        return plan

    def _note(self, placed: dict[int, int]) -> None:
        """Keep the present placement and its victims if they do less harm than all before."""
        dry_run, units = self._planner.dry_run, self._units
        gone = self._ordered[np.isin(self._ordered, self._victims())]
        with self.snapshot.trial():
            stays = dry_run.reprieve(gone, placed)
        victims = units.with_surplus(gone[~np.isin(gone, stays)])
        victims = self._ordered[np.isin(self._ordered, victims)]
        weight = self._weight_of(victims.tolist())
        if self._best is None or weight < self._best[0]:
            self._best = weight, LeastHarmPlan(placed, victims)

    def _victims(self) -> Rows:
        return np.concatenate([*self._gone, self._ordered[:0]])

    def options(self, part: PlacementTarget, within: Bools | None, *, extra: bool) -> Placements:
        """Yield the placements of a part, those on free room first."""
        if not part.parts:
            free = False
            with closing(super().options(part, within, extra=extra)) as options:
                for placed in options:
                    free = True
                    yield placed
            if not extra and (self.left > 0 or not free):
                yield from self._cleared(part, within)
            return
        yielded = False
        for nodes in self._clearable(part, within):
            with closing(self.children(part, nodes)) as options:
                for placed in options:
                    yielded = True
                    yield placed
            if yielded and self.left <= 0:
                return

    def _cleared(self, part: PlacementTarget, within: Bools | None) -> Placements:
        """Yield the placements of a group of pods once units have left, the least harm first."""
        for plan in self._plans(part, within)[:_DOMAINS]:
            victims = plan.victims
            weight = self._weight_of([*self._victims().tolist(), *victims.tolist()])
            if self._best is not None and weight >= self._best[0]:
                return
            with self.snapshot.trial():
                self._planner.dry_run.remove(victims)
                for row, node in plan.placed.items():
                    self.snapshot.assume(row, node)
                self._gone.append(victims)
                try:
                    yield plan.placed
                finally:
                    self._gone.pop()
            if self.left <= 0:
                return

    def _plans(self, part: PlacementTarget, within: Bools | None) -> list[DomainPlan]:
        self.left -= 1
        with self.placer.chain.within(within):
            return DomainChooser(self._planner_of(part), self.search(part)).ranked()

    def _clearable(self, part: PlacementTarget, within: Bools | None) -> list[Bools | None]:
        """Return the nodes of the domains of a part that may be cleared for it, the cheapest first."""
        with self.placer.chain.within(within):
            bounds = DomainChooser(self._planner_of(part), self.search(part)).bounds()
        return [within if bound.domain.nodes is None else bound.domain.nodes for bound in bounds]

    def _weight_of(self, leads: Iterable[int]) -> int:
        """Return the weight of units."""
        return self._weights.total(self._position[lead] for lead in leads)

    def _planner_of(self, part: PlacementTarget) -> DomainPlanner:
        """Return the planner for a part, whose victims are among those of the tree."""
        preemptor = PreemptorPods(
            *(part.rows, part.needed, part.priority),
            group=True,
            slices=part.slices,
            tree=part if part.parts else None,
        )
        planner, dry_run = self._planner, self._planner.dry_run
        mine = DryRun(self.placer, self._units, preemptor, self.semantics, self.deadline)
        part_planner = _PartPlanner(mine, planner.budgets, planner.settings, planner.now, self._effort)
        part_planner.known = self._known
        allowed = np.zeros_like(part_planner.potential)
        allowed[self._ordered] = True
        part_planner.potential &= allowed
        assert dry_run.preemptor.priority >= part.priority, "a part has the priority of the tree"
        return part_planner


def _backwards(tree: PlacementTarget) -> PlacementTarget:
    """Return a tree whose counted parts are placed in the other order."""
    parts = tuple(map(_backwards, tree.parts))
    return tree._replace(parts=(*reversed(parts[: tree.counted_parts]), *parts[tree.counted_parts :]))
