"""Finds the units that can be given back beside a placed preemptor, for tens of thousands of units at once.

Units are tried in order, and each one that stays reduces the room for the next. Most units have no pod on a
node of the preemptor, and concern it in no other way: they stay without a check. For the others the answer is
a subtraction (`room`), and where neighbours decide, mostly a comparison (`neighbours`).
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int32s, Int64s, Rows
from podium.schedulerplugin.deadline import Deadline
from podium.schedulerplugin.preemption.neighbours import Neighbours
from podium.schedulerplugin.preemption.room import Room, Taken
from podium.schedulerplugin.preemption.units import Units
from podium.schedulerplugin.snapshot import Snapshot


class _Unit(NamedTuple):
    """A unit to check: its number, its room on the preemptor's nodes, and its pods that count."""

    number: int
    takes: list[Taken]
    rows: Rows
    nodes: Int32s


def stays(
    units: Units, leads: Rows, placed: Mapping[int, int], neighbours: Neighbours | None, deadline: Deadline
) -> Bools:
    """Return for each unit whether it can be given back where it ran, after those before it.

    `placed` gives the node rows of the preemptor's pods, which are assumed there. Without `neighbours`
    nothing but room decides. No pod is moved.
    """
    snapshot = units.snapshot
    rows = units.all_members(leads)
    nodes, owners = units.at[rows], np.repeat(np.arange(len(leads)), units.size[leads])
    stay = np.ones(len(leads), np.bool_)
    counted = np.zeros(len(rows), np.bool_)
    if neighbours is not None:
        stay[owners[neighbours.repelled(rows, nodes)]] = False
        counted = neighbours.counted(rows, nodes) & stay[owners]
    near = _near(snapshot, placed, nodes) & stay[owners]
    room = Room(snapshot, placed)
    with snapshot.trial():
        if counted.any():
            snapshot.lift_many(np.fromiter(placed, np.intp, len(placed)))
        for unit in _to_ask(snapshot, room, rows, nodes, owners, near, counted):
            deadline.check()
            if not room.take(unit.takes):
                stay[unit.number] = False
            elif len(unit.rows) and neighbours is not None and not neighbours.takes(unit.rows, unit.nodes):
                room.leave(unit.takes)
                stay[unit.number] = False
    return stay


def _near(snapshot: Snapshot, placed: Mapping[int, int], nodes: Int32s) -> Bools:
    """Return which of these nodes hold a pod of the preemptor."""
    beside = np.zeros(len(snapshot.alive), np.bool_)
    beside[list(placed.values())] = True
    near: Bools = beside[nodes]
    return near


def _to_ask(  # noqa: PLR0917 - arrays by pod
    snapshot: Snapshot, room: Room, rows: Rows, nodes: Int32s, owners: Int64s, near: Bools, counted: Bools
) -> Iterator[_Unit]:
    """Yield the units with a pod that is `near` or `counted`, in order."""
    asked = np.flatnonzero(near | counted)
    amounts = (snapshot.requests[at][rows[asked]].tolist() for at in room.resources)
    takes = zip(nodes[asked].tolist(), zip(*amounts, strict=True), strict=True)
    pods = zip(owners[asked].tolist(), near[asked].tolist(), takes, strict=True)
    start = 0
    for number, unit in groupby(pods, key=itemgetter(0)):
        members = list(unit)
        at = asked[start : start + len(members)]
        start += len(members)
        at = at[counted[at]]
        yield _Unit(number, [taken for _, here, taken in members if here], rows[at], nodes[at])
