"""Checks a preemption in flight again, after its announcements and before its first delete.

Between a plan and the first delete there are writes, which take milliseconds or, on a server in trouble,
minutes. Any premise of the plan may have changed by then: the mode, the preemptor, its nodes, and the rules
that protect the victims. A preemptor may be recreated pods of the same names by now, or a group of lower
priority.
"""

import numpy as np

from podium.api.membership import GroupKey
from podium.api.times import seconds
from podium.errors import PodiumError
from podium.schedulerplugin.preemption.target import Refused, Wanted
from podium.schedulerplugin.preemption.units import NO_UNIT
from podium.schedulerplugin.scheduling.effects import Evict, Moment
from podium.schedulerplugin.scheduling.entries import Entries
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.settings import Mode


def objection(
    engine: LiveEngine, entries: Entries, evict: Evict, mode: Mode, moment: Moment, *, rules_changed: bool
) -> str:
    """Return why no victim may be deleted, empty if all may be; the text contains no name of a victim.

    `rules_changed` says that the rules that protect victims may have changed since the plan.
    """
    if mode is not Mode.ENFORCE:
        return f"the mode of preemption is {mode} now"
    try:
        found = engine.wanted(evict.key)
    except PodiumError as error:
        return str(error)
    if isinstance(found, Refused):
        return found.why
    if found.barred:
        return found.barred
    if found.priority < evict.preemptor.priority:
        return "its priority is lower now"
    if rules_changed and not _may_go(engine, entries, evict, moment):
        return "not all who were to go may be evicted any more"
    return _unplaced(engine, entries, evict, found)


def _unplaced(engine: LiveEngine, entries: Entries, evict: Evict, found: Wanted) -> str:
    """Return why the preemptor cannot use the room; empty if it can."""
    snapshot, here = engine.snapshot, 0
    wanted = set(found.rows)
    for pod, name in evict.nominations:
        row, node = entries.row(pod), snapshot.row.get(name)
        if row is None or row not in wanted:
            continue
        here += 1
        if node is None or engine.nomination(row) != name:
            return f"node {name} is not reserved for it any more"
        if not engine.suits(snapshot.shapes[snapshot.shape.item(row)], node):
            return f"node {name} does not suit it any more"
    return "" if here >= found.needed else "those for whom it was begun are gone"


def _may_go(engine: LiveEngine, entries: Entries, evict: Evict, moment: Moment) -> bool:
    """Return whether the rules still allow the eviction of the remaining victims."""
    now, going = seconds(moment.now), engine.snapshot.terminating
    rows = [row for row in entries.rows(evict.victims) if not going.item(row)]
    # A pod marked for deletion is in no unit, so the marks are lifted during the check.
    engine.spare(rows)
    units, _ = engine.units(for_group=isinstance(evict.key, GroupKey), now=now)
    leads = np.unique(units.lead[rows])
    leads = leads[leads != NO_UNIT]
    lawful = units.open_to(evict.preemptor.priority, now)[leads].all() and not engine.forbids(units, leads)
    engine.doom(rows)
    return bool(lawful)
