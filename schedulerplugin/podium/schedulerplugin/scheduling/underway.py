"""Tracks preemptions in flight, from the decision until the task that carries them out has ended.

Later decisions count a preemption as done: its nodes are reserved, and its victims are terminating. The
preemptor is not tried meanwhile, because it would preempt twice; changes of it are kept until the end. The
premises of the plan are checked once more when its announcements are written. What was not carried out is
taken back.
"""

from collections.abc import Iterable

from podium.schedulerplugin.scheduling.changes import Changes
from podium.schedulerplugin.scheduling.effects import Evict, Key, Moment, PodRef
from podium.schedulerplugin.scheduling.entries import Entries
from podium.schedulerplugin.scheduling.hints import Hints, Waiting
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.objections import objection
from podium.schedulerplugin.scheduling.plans import waiting
from podium.schedulerplugin.scheduling.reservations import Reservations
from podium.schedulerplugin.scheduling.settings import Mode


class UnderWay:
    """The preemptions in flight of one scheduler, by the preemptor's entry; each entry has at most one."""

    def __init__(
        self,
        engine: LiveEngine,
        entries: Entries,
        *,
        changes: Changes,
        hints: Hints,
        reservations: Reservations,
    ) -> None:
        self._engine = engine
        self._entries = entries
        self._changes = changes
        self._hints = hints
        self._reservations = reservations
        self._evicts: dict[Key, Evict] = {}
        # The number of rule changes (hints' counter) when the preemption was planned.
        self._rules: dict[Key, int] = {}
        # The preemptors among them that changed meanwhile.
        self._later: set[Key] = set()
        # For some failed preemptions, the victims that may be terminating.
        self._unsure: dict[Key, tuple[PodRef, ...]] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether an entry has a preemption in flight."""
        return key in self._evicts

    def begin(self, evict: Evict, rows: Iterable[int]) -> None:
        """Count a preemption for these pods (rows) as done: nodes reserved, victims terminating."""
        self._reservations.outrank(evict.cleared)
        self._reservations.give(rows, evict.nominations)
        victims = self._entries.rows(evict.victims)
        self._engine.doom(victims)
        self._changes.doomed(victims)
        self._unsure.pop(evict.key, None)
        self._evicts[evict.key] = evict
        self._rules[evict.key] = self._hints.seen.rules

    def unsure(self, key: Key) -> list[int]:
        """Return the pods (rows) that may be terminating for a failed preemption and are not seen to be."""
        terminating = self._engine.snapshot.terminating
        rows = self._entries.rows(self._unsure.get(key, ()))
        return [row for row in rows if not terminating.item(row)]

    def forget(self, key: Key) -> None:
        """Forget a preemptor that waits no more."""
        self._unsure.pop(key, None)

    def touch(self, key: Key) -> None:
        """Remember that a preemptor changed; it is looked at when its preemption ends."""
        self._later.add(key)

    def waiting(self, key: Key) -> Waiting:
        """Return the changes that could help a preemptor if its preemption fails."""
        evict = self._evicts[key]
        awaited = frozenset(pod.uid for pod in evict.victims)
        rows = self._entries.preemptors(evict)
        return waiting(self._engine, rows, evict.preemptor.priority, awaited=awaited)

    def objection(self, key: Key, mode: Mode, moment: Moment) -> str:
        """Return why a preemption must not go on, empty if it may."""
        evict = self._evicts.get(key)
        if evict is None:
            return "it has ended"
        changed = self._rules[key] != self._hints.seen.rules
        return objection(self._engine, self._entries, evict, mode, moment, rules_changed=changed)

    def end(self, key: Key) -> Evict:
        """End a preemption; all victims count as deleted unless `take_back` is called."""
        del self._rules[key]
        if key in self._later:
            self._later.discard(key)
            self._changes.touched.add(key)
        return self._evicts.pop(key)

    def take_back(self, evict: Evict, deleted: Iterable[PodRef], *, unsure: bool) -> None:
        """Undo a failed preemption: victims that were not deleted stay, and no node is reserved.

        If `unsure`, some of them may be terminating. The next plan should be the same, because another plan
        might evict more pods than necessary.
        """
        gone = frozenset(deleted)
        left = tuple(pod for pod in evict.victims if pod not in gone)
        if unsure:
            self._unsure[evict.key] = left
        spared = self._entries.rows(left)
        self._engine.spare(spared)
        self._changes.spared(spared)
        self._reservations.end(self._entries.preemptors(evict))
