"""Finds the preemptions that an earlier process had begun when it died: remaining victims and preemptors.

The record is the condition DisruptionTarget, of a group that is evicted as a whole or of a pod. It is written
before the first delete, so a process that takes over finds the rest of each preemption. The record is only a
hint. A tenant that may write the status of a pod or of a group can write one, and the cluster has changed
since. So the record only says which plan to look at first, and that plan has to pass every check of a new
one. A plan that does not pass is withdrawn, and planning starts from nothing.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from podium.api.membership import GroupKey
from podium.api.meta import Condition
from podium.schedulerplugin.preemption.intents import DISRUPTION_TARGET, is_preempted, preempts
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.units import NO_UNIT
from podium.schedulerplugin.scheduling.effects import Spare
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.plans import ref_at

_UID = re.compile(r"\(UID ([^()\s]+)\)$")


class Begun(NamedTuple):
    """The pods that were to be evicted for one preemptor, by its UID, and were not deleted.

    `rows` are the pods, of which `marked` have the condition themselves; `groups` are those that have it.
    """

    preemptor: str
    rows: tuple[int, ...]
    marked: tuple[int, ...]
    groups: tuple[GroupKey, ...]

    def withdrawn(self, engine: LiveEngine) -> Spare:
        """Return the effect that withdraws the marks."""
        return Spare(tuple(ref_at(engine, row) for row in self.marked), self.groups)


def begun(engine: LiveEngine, scheduler: str, now: int) -> Iterator[Begun]:
    """Yield what a scheduler of that name had begun, by preemptor; pods that are being deleted are left out.

    Only conditions in that scheduler's own form count, which names the preemptor at its end. `now` is in
    seconds since 1970.
    """
    marked: dict[str, list[int]] = {}
    snapshot = engine.snapshot
    for _, row in sorted(snapshot.pod_row.items()):
        pod = snapshot.pods[row]
        if snapshot.terminating.item(row) or snapshot.node.item(row) < 0 or not is_preempted(pod):
            continue
        condition = pod.status.condition(DISRUPTION_TARGET) if pod is not None and pod.status else None
        uid = _preemptor(condition, scheduler)
        if uid:
            marked.setdefault(uid, []).append(row)
    groups: dict[str, list[GroupKey]] = {}
    members: dict[str, list[int]] = {}
    for key, uid in _marked_groups(engine, scheduler):
        rows = _unit(engine, key, now)
        if rows:
            groups.setdefault(uid, []).append(key)
            members.setdefault(uid, []).extend(rows)
    for uid in sorted(marked.keys() | groups.keys()):
        own = marked.get(uid, [])
        rows = sorted({*own, *members.get(uid, ())})
        yield Begun(uid, tuple(rows), tuple(own), tuple(groups.get(uid, ())))


def _marked_groups(engine: LiveEngine, scheduler: str) -> Iterator[tuple[GroupKey, str]]:
    """Yield the marked groups, each with the preemptor's UID.

    The rules of kube-scheduler's releases mark each pod, and a group's condition there may be from long ago.
    """
    if engine.settings.semantics is not Semantics.KEP:
        return
    for key, group in sorted(engine.view.groups.items()):
        condition = next((each for each in group.conditions if preempts(each)), None)
        uid = _preemptor(condition, scheduler)
        if uid:
            yield key, uid


def _unit(engine: LiveEngine, key: GroupKey, now: int) -> list[int]:
    """Return the pods of a group that exist and are evicted together; empty if they are not."""
    units, _ = engine.units(for_group=True, now=now)
    rows = engine.snapshot.pod_row
    found = [row for name in engine.view.members(key) if (row := rows.get((key.namespace, name))) is not None]
    leads = {units.lead.item(row) for row in found} - {NO_UNIT}
    whole = (lead for lead in leads if units.object_of(lead)[0] == "PodGroup")
    return [row for lead in whole for row in units.members(lead).tolist()]


def _preemptor(condition: Condition | None, scheduler: str) -> str:
    """Return the UID of the preemptor that a condition names; empty for a condition of another form."""
    message = (condition.message if condition is not None else None) or ""
    uid = _UID.search(message)
    return uid[1] if uid is not None and message.startswith(f"{scheduler}: ") else ""
