"""The rules by which running pods form units, with their groups and roots, and the priority of a group.

They differ between Podium, the releases of kube-scheduler, and pods and groups as preemptors.
"""

from collections.abc import Mapping
from typing import NamedTuple

from podium.api.core import PriorityClass
from podium.api.groups import PODIUM_GROUP, DisruptionMode, PodGroup
from podium.api.priority import resolve
from podium.cluster.reader import Child, ClusterReader
from podium.groups.trees import lineage, whole_group
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

# An annotation on a Podium group names the class at whose priority it may be preempted.
PREEMPTION_CLASS = f"{PODIUM_GROUP}/preemption-priority-class"


class UnitRule(NamedTuple):
    """The rule by which running pods are grouped into units, and by which units are protected.

    `grouped`: a group of mode PodGroup is one unit. `member_priority`: members of the other groups count with
    the group's priority. `member_rank`: they rank as groups do. `protects`: tolerations, namespaces and
    schedulers protect pods, and leaving pods count as gone (the rules of the spec and of Podium).
    """

    grouped: bool
    member_priority: bool
    member_rank: bool
    protects: bool


def unit_rule(semantics: Semantics, *, for_group: bool) -> UnitRule:
    """Return the rule for the victims of a pod, or of a group.

    1.36 knows groups only if the preemptor is one, and uses the pods' own priorities in mode Pod.
    """
    if semantics is Semantics.KEP:
        return UnitRule(grouped=True, member_priority=True, member_rank=False, protects=True)
    if semantics is Semantics.V1_37:
        return UnitRule(grouped=True, member_priority=True, member_rank=True, protects=False)
    knows_groups = semantics is Semantics.V1_36 and for_group
    return UnitRule(grouped=knows_groups, member_priority=False, member_rank=knows_groups, protects=False)


def preemption_priority_of(group: Child, settings: Settings, classes: Mapping[str, PriorityClass]) -> int:
    """Return the priority that a preemptor of a group must exceed, if the rule protects units.

    The priorities of its pods are ignored under every divergence policy (KEP-5710).
    """
    priority = group.priority or 0
    if settings.preemption_priority and not group.native:
        named = (group.metadata.annotations or {}).get(PREEMPTION_CLASS)
        found = resolve(classes, named) if named else None
        priority = max(priority, found.value) if found is not None else priority
    return priority


def root_of(view: ClusterReader, group: Child, semantics: Semantics) -> Child:
    """Return the root of a group's tree, or the group itself if it is in none."""
    return lineage(view, group).root if group.composite and semantics.knows_trees else group


def whole_of(view: ClusterReader, group: PodGroup, semantics: Semantics) -> Child | None:
    """Return the group that is evicted as a whole with a group, None if each pod is a unit."""
    if group.composite and semantics.knows_trees:
        return whole_group(view, group)
    return group if group.disruption_mode is DisruptionMode.POD_GROUP else None
