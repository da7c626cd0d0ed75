"""Harm: the score by which plans are compared, for a pod on a node and for a group on the cluster.

KEP-5710 asks to minimize the cost of preemptions and leaves most of that cost open. Podium compares in this
order, and less is better:

1. The pods that are evicted beyond what PodDisruptionBudgets allow. Their owners asked for that limit.
2. The highest priority among the victims (the KEP's N). A priority is a promise about order.
3. For each priority from the highest: the work that is lost, then the units, then their pods. Work is counted
   in accelerator-seconds since the start, or since the checkpoint that the workload declares (`CHECKPOINT`).
   Accelerators are scarce, and simulated weeks lose the least work with this order. Units count before pods,
   because a unit restarts as a whole.
4. The start of the victims of the highest priority. A later start is less harm.
5. The pods that the recreated victims would preempt in turn (the KEP's second principle; see `choice`).
"""

from typing import NamedTuple

import numpy as np

from podium.api.podrequests import is_device
from podium.schedulerplugin.arrays import Int64s, Rows
from podium.schedulerplugin.preemption.outcome import HarmLevel, PlanHarm
from podium.schedulerplugin.preemption.units import Units
from podium.schedulerplugin.snapshot import Snapshot

# The most accelerators and seconds that count for one pod. Sums over a cluster then fit 64 bits.
_MOST_DEVICES, _MOST_SECONDS = 2**12, 2**31
# Bits of a weight, for each priority: work above units above pods.
_WORK, _COUNT = 80, 32


class Level(NamedTuple):
    """The victims of one priority; `work` is in accelerator-seconds."""

    priority: int
    work: int
    units: int
    pods: int


class Harm(NamedTuple):
    """The harm of one plan; `levels` come from the highest priority down.

    `earliest` is the negative start (seconds) of the oldest pod among the victims of the highest priority.
    """

    violations: int
    levels: tuple[Level, ...]
    earliest: int

    @property
    def lost_seconds(self) -> int:
        """The accelerator-seconds that are lost."""
        return sum(level.work for level in self.levels)

    @property
    def highest(self) -> int | None:
        """The highest priority among the victims (N), None if there is no victim."""
        return self.levels[0].priority if self.levels else None

    @property
    def pods(self) -> int:
        """The number of pods to evict."""
        return sum(level.pods for level in self.levels)


def plan_harm(harm: Harm) -> PlanHarm:
    """Return the harm of a plan as it is reported."""
    levels = tuple(HarmLevel(level.priority, level.units, level.pods) for level in harm.levels)
    return PlanHarm(harm.violations, levels, harm.lost_seconds)


def harm(units: Units, victims: Rows, violations: int, now: int) -> Harm:
    """Return the harm of evicting units (by lead) at `now` (seconds)."""
    levels = []
    for priority in np.unique(units.priority[victims])[::-1].tolist():
        here = victims[units.priority[victims] == priority]
        lost = int(work_lost(units, here, now).sum())
        levels.append(Level(priority, lost, len(here), int(units.size[here].sum())))
    earliest = 0
    if levels:
        top = units.all_members(victims[units.priority[victims] == levels[0].priority])
        earliest = -int(np.minimum(units.snapshot.start[top], now).min())
    return Harm(violations, tuple(levels), earliest)


def work_lost(units: Units, leads: Rows, now: int, *, with_surplus: bool = False) -> Int64s:
    """Return the accelerator-seconds that the eviction of each unit loses; a core's may be `with_surplus`."""
    rows, sizes = units.evicted_with(leads) if with_surplus else units.members_of(leads)
    work = accelerators(units.snapshot, rows) * np.clip(now - units.work_since[rows], 0, _MOST_SECONDS)
    ends = np.cumsum(sizes)
    sums = np.concatenate(([0], np.cumsum(work)))
    lost: Int64s = sums[ends] - sums[ends - sizes]
    return lost


def accelerators(snapshot: Snapshot, rows: Rows) -> Int64s:
    """Return how many accelerators (of any resource that a node offers) each pod holds."""
    held = np.zeros(len(rows), np.int64)
    for name, at in snapshot.resource.items():
        if is_device(name):
            held += np.minimum(snapshot.requests[at][rows], _MOST_DEVICES)
    return np.minimum(held, _MOST_DEVICES)


def weights(units: Units, leads: Rows, now: int) -> list[int]:
    """Return for each unit an integer; of two sets of units, the smaller sum is the lesser harm.

    It is exact for steps 2 and 3.
    """
    priorities, level = np.unique(units.priority[leads], return_inverse=True)
    shifts = [(_WORK + 2 * _COUNT) * each for each in range(len(priorities))]
    sizes, work = units.size[leads].tolist(), work_lost(units, leads, now).tolist()
    return [
        ((lost << 2 * _COUNT) + (1 << _COUNT) + size) << shifts[each]
        for size, each, lost in zip(sizes, level.tolist(), work, strict=True)
    ]
