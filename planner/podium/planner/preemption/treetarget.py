"""Determines the pods to be placed for a tree of composite groups, or why none can be.

A tree is one entity: it has the priority of its root, and it is ready if each composite group has
minGroupCount ready children. The children are placed one by one, as each may have a topology of its own.
Those that are hardest to place come first; kube-scheduler places the oldest first. Children that all
must be placed, and need nothing else than room, are placed as one group.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

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
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
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
