"""The values that say which pods are to be placed for a pod or a group, or why none can be.

The unit of scheduling is the group (KEP-4671): a request for a member is a request for its group. A group in
a tree of composite groups is scheduled with the whole tree (KEP-6012). `targets` makes these values.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from podium.api.groups import PodGroup
from podium.cluster.reader import Child
from podium.groups.topology import preferred_topology, slice_topology, spread_topology
from podium.planner.arrays import Rows


class PodSlice(NamedTuple):
    """Members that share a domain: the `rows` of those to be placed, and the node rows of those that run."""

    rows: tuple[int, ...]
    nodes: tuple[int, ...]


class PodSlices(NamedTuple):
    """The slices of a group, with the label (`key`) of their domains and the full `size`."""

    key: str
    size: int
    slices: tuple[PodSlice, ...]


class PlacementTarget(NamedTuple):
    """Pending pods by row, in order, of which `needed` must be placed, and `desired` if that is possible.

    `preemption_barred` says why nothing may be evicted for them, empty if it may. `running` members count
    toward minCount already. `pinning_nodes` are the node rows of the members that pin its domain, -1 for an
    unknown node: those that run, and those that an eviction in flight may yet leave. `group` is None
    for a pod in no group. `disputed` is the status of the group's condition PodsNotMatchingPriority if its
    pods contradict it. `peers` are the pods (rows) of each group from which this one keeps away.

    `parts` are the groups below a composite group that are placed one by one, in order. At least
    `needed_parts` of the `counted_parts` must be placed, and `desired_parts` if that is possible. `needed` is
    then the least number of pods. Parts that are `settled` do not count, because enough of their pods run.
    They are the last, except under kube-scheduler's rules, which place the oldest part first.
    """

    rows: tuple[int, ...]
    needed: int
    priority: int
    preemption_barred: str = ""
    group: Child | None = None
    running: int = 0
    disputed: str = ""
    desired: int = 0
    pinning_nodes: tuple[int, ...] = ()
    slices: PodSlices | None = None
    peers: tuple[Rows, ...] = ()
    parts: tuple["PlacementTarget", ...] = ()
    needed_parts: int = 0
    desired_parts: int = 0
    counted_parts: int = 0
    settled: bool = False

    @property
    def spare_parts(self) -> int:
        """The number of parts that need not be placed, beside those of which enough runs."""
        return self.counted_parts - self.needed_parts

    @property
    def whole(self) -> "PlacementTarget":
        """The target in which all desired pods must be placed."""
        parts = tuple(part.whole for part in self.parts)
        return self._replace(needed=self.desired, parts=parts, needed_parts=self.desired_parts).merged

    @property
    def merged(self) -> "PlacementTarget":
        """The target without parts, if all pods of all parts must be placed and need nothing but room."""
        every = self.needed_parts == len(self.parts) and self.needed == len(self.rows)
        if not self.parts or not every or any(part.parts or not part.is_free(self) for part in self.parts):
            return self
        return self._replace(parts=(), needed_parts=0, desired_parts=0, counted_parts=0)

    def is_free(self, above: "PlacementTarget") -> bool:
        """Return whether the group may use any nodes of the domain of the group `above` it."""
        group, parent = self.group, above.group
        if group is None:
            return True
        narrower = parent is None or group.topology != parent.topology
        if (group.topology and narrower) or preferred_topology(group):
            return False
        return not isinstance(group, PodGroup) or not (slice_topology(group)[0] or spread_topology(group)[0])


class PreemptorPods(NamedTuple):
    """Pods to place, in order, of which at least `needed` must be placed.

    `nominated` gives the node rows that are reserved for some of the pods, and are tried first. `slices` are
    those of a group whose members are placed in slices, and `tree` is a target with parts.
    """

    rows: tuple[int, ...]
    needed: int
    priority: int
    group: bool = False
    nominated: Mapping[int, int] = {}
    slices: PodSlices | None = None
    tree: PlacementTarget | None = None


class Blocker(StrEnum):
    """The causes that keep it from being placed at all; each has its own remedy."""

    GROUP_MISSING = "GroupMissing"
    LEAVING = "Leaving"
    GATED = "Gated"
    TOO_FEW = "TooFew"
    NOT_JUDGED = "NotJudged"
    SEVERAL_SCHEDULERS = "SeveralSchedulers"
    BROKEN_TREE = "BrokenTree"
    LARGE_TREE = "LargeTree"
    DIVERGENT = "Divergent"


class Unplaceable(NamedTuple):
    """Why it cannot be placed at all at present; `cause` is None if only the sentence is known.

    `disputed` is that of PlacementTarget.
    """

    why: str
    cause: Blocker | None = None
    disputed: str = ""
