"""The arrays of units by pod row, and the questions that only these arrays answer.

The row of one of its pods, the `lead`, identifies a unit. So every attribute is an array by pod row, and a
choice among a hundred thousand units is a few operations on arrays.
"""

import numpy as np

from podium.planner.arrays import Bools, Int32s, Int64s, Rows, grown
from podium.planner.snapshot import Snapshot

# A pod that is in no unit: it runs nowhere, or is leaving.
NO_UNIT = -1
# The members of so few units are concatenated one by one, not looked up in an array of all members.
_FEW = 64


class UnitArrays:
    """The attributes of units, as arrays by pod row. `Units` computes them.

    The entry of a lead describes its unit:

    - `lead`: the row that identifies the unit of a pod; NO_UNIT for a pod in no unit.
    - `node`: the node row on which a pod of a unit runs.
    - `priority`: the priority that a preemptor must exceed.
    - `rank`: 1 for a group, 0 for a pod.
    - `size`: the number of running members.
    - `start`: the earliest start in seconds. NO_START (not started) counts as now.
    - `work_since`: the second since which work would be lost.
    - `saves_within`, `interval`, `restart`: the seconds in which a pod saves its work, between two of its
      checkpoints (0 for none), and until it works again (see `podium.api.saving`).
    - `gone_by`: the second by which a pod is gone by its known end; 0 for none.
    - `held`: the number of accelerators in the claims of a pod, without those that pods may share.
    - `shares_claims`: whether a pod holds claims that pods may share.
    - `uid_order`: a number that orders units by UID.
    - `protected`: whether the unit may never be evicted.
    - `in_unknown_tree`: whether it is protected because a composite group above its group is unknown.
    - `refused`: whether it is protected because the API server refuses its eviction.
    - `single_member`: whether the unit is a single member of a group that is otherwise evicted as a whole.
    - `exempt_below`, `exempt_until`: preemptors below that priority must wait until that second.
    - `surplus_count`: the number of surplus units of a core.
    - `core`: the lead of the core of a surplus unit; else NO_UNIT.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.lead: Int32s = np.zeros(0, np.int32)
        self.node: Int32s = np.zeros(0, np.int32)
        self.priority: Int64s = np.zeros(0, np.int64)
        self.rank: Int32s = np.zeros(0, np.int32)
        self.size: Int32s = np.zeros(0, np.int32)
        self.start: Int64s = np.zeros(0, np.int64)
        self.work_since: Int64s = np.zeros(0, np.int64)
        self.saves_within: Int32s = np.zeros(0, np.int32)
        self.interval: Int32s = np.zeros(0, np.int32)
        self.restart: Int32s = np.zeros(0, np.int32)
        self.gone_by: Int64s = np.zeros(0, np.int64)
        self.held: Int32s = np.zeros(0, np.int32)
        self.shares_claims: Bools = np.zeros(0, np.bool_)
        self.uid_order: Int64s = np.zeros(0, np.int64)
        self.protected: Bools = np.zeros(0, np.bool_)
        self.in_unknown_tree: Bools = np.zeros(0, np.bool_)
        self.refused: Bools = np.zeros(0, np.bool_)
        self.single_member: Bools = np.zeros(0, np.bool_)
        self.exempt_below: Int64s = np.zeros(0, np.int64)
        self.exempt_until: Int64s = np.zeros(0, np.int64)
        self.leaving: Bools = np.zeros(0, np.bool_)
        self.free_until: Int64s = np.zeros(0, np.int64)
        self.surplus_count: Int32s = np.zeros(0, np.int32)
        self.core: Int32s = np.zeros(0, np.int32)
        self._class_of: Int32s = np.zeros(0, np.int32)
        self._members: dict[int, Rows] = {}
        # By the lead of a core, its surplus.
        self._surplus: dict[int, Rows] = {}
        self._flat: tuple[Rows, Rows] | None = None

    def members(self, lead: int) -> Rows:
        """Return the rows of the pods of a unit, by name."""
        rows = self._members.get(lead)
        return np.array((lead,), np.intp) if rows is None else rows

    def with_surplus(self, leads: Rows) -> Rows:
        """Return the units and the surplus of the cores among them, in no particular order."""
        cores = leads[self.surplus_count[leads] > 0]
        if not len(cores):
            return leads
        return np.union1d(leads, np.concatenate([self._surplus[core] for core in cores.tolist()]))

    def without_held_cores(self, leads: Rows) -> Rows:
        """Return the units without the cores that have surplus outside these units."""
        among = np.zeros(len(self.lead), np.bool_)
        among[leads] = True
        self.hold_cores(among)
        return leads[among[leads]]

    def hold_cores(self, may: Bools) -> None:
        """Unmark, by row, cores of which some surplus is not marked."""
        if self._surplus:
            may[self.core[(self.core != NO_UNIT) & ~may]] = False

    def members_of(self, leads: Rows) -> tuple[Rows, Int64s]:
        """Return the rows of the pods of each of these units, and how many those are."""
        return self.all_members(leads), self.size[leads].astype(np.int64)

    def evicted_with(self, leads: Rows) -> tuple[Rows, Int64s]:
        """Return the rows of all pods that are evicted with each of these units, and their number."""
        sizes = self.size[leads].astype(np.int64) + self.surplus_count[leads]
        rows, owners = self.all_members(leads), np.repeat(np.arange(len(leads)), self.size[leads])
        cores = np.flatnonzero(self.surplus_count[leads])
        if not len(cores):
            return rows, sizes
        more = [self._surplus[core] for core in leads[cores].tolist()]
        owners = np.concatenate([owners, np.repeat(cores, self.surplus_count[leads[cores]])])
        return np.concatenate([rows, *more])[np.argsort(owners, kind="stable")], sizes

    def all_members(self, leads: Rows) -> Rows:
        """Return the rows of the pods of many units, unit by unit."""
        sizes = self.size[leads]
        several = sizes > 1
        if not several.any():
            return leads
        if len(leads) <= _FEW:
            return np.concatenate([self.members(lead) for lead in leads.tolist()])
        rows = np.repeat(leads, sizes)
        flat, first = self._flat_members()
        wide = leads[several]
        begins = np.repeat(first[wide], self.size[wide])
        within = np.arange(len(begins)) - np.repeat(
            np.cumsum(self.size[wide]) - self.size[wide], self.size[wide]
        )
        rows[np.repeat(several, sizes)] = flat[begins + within]
        return rows

    def on_node(self, node: int) -> Rows:
        """Return the leads of the units with a pod on a node (its row), ascending."""
        leads = self.lead[self.snapshot.pods_on(node)]
        return np.unique(leads[leads != NO_UNIT]).astype(np.intp)

    @property
    def is_lead(self) -> Bools:
        """Whether each row is the lead of a unit."""
        is_lead: Bools = self.lead == np.arange(len(self.lead), dtype=np.int32)
        return is_lead

    def preemptable_by(self, priority: int, now: int) -> Bools:
        """Return for each row whether it leads a unit that a preemptor of that priority may evict."""
        return self.is_lead & (self.priority < priority) & ~self.protected & ~self.exempt(priority, now)

    def in_unknown_trees(self, priority: int) -> Rows:
        """Return the leads of the units of unknown trees that a preemptor of that priority outranks."""
        return np.flatnonzero(self.is_lead & self.in_unknown_tree & (self.priority < priority))

    def refused_below(self, priority: int) -> Rows:
        """Return the pods of lower priority whose eviction the API server refuses."""
        return np.flatnonzero(self.refused & (self.priority < priority))

    def freeing(self, now: int) -> Bools:
        """Return for each row whether its pod is leaving and its room still counts as free."""
        going: Bools = self.leaving & (now < self.free_until)
        return going

    def exempt(self, priority: int, now: int) -> Bools:
        """Return for each lead whether its unit is still exempt from a preemptor of that priority."""
        exempt: Bools = (priority < self.exempt_below) & (now < self.exempt_until)
        return exempt

    def _flat_members(self) -> tuple[Rows, Rows]:
        """Return the members of all units of several pods in one array, and the first position by lead."""
        if self._flat is None:
            leads = np.fromiter(self._members, np.intp, len(self._members))
            first = np.zeros(len(self.lead), np.intp)
            first[leads] = np.cumsum(self.size[leads]) - self.size[leads]
            self._flat = (np.concatenate(list(self._members.values())), first)
        return self._flat

    def _grow(self) -> None:
        size = len(self.snapshot.node)
        if len(self.lead) == size:
            return
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                fill = NO_UNIT if name in {"lead", "node", "core"} else 0
                setattr(self, name, grown(array, size, fill))
