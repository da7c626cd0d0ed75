"""Preemptions under way, from the moment each is decided until the task that carries it out has ended.

Decided means done, for whoever decides next: nodes are reserved, victims are leaving. Nobody looks at the
preemptor meanwhile, or it would preempt twice; whatever happens to it is kept until the end. What the plan
rested on is asked once more when its announcements are made, and what was not carried out is taken back.
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
    """Those of one scheduler, by the preemptor's entry; each has one at most."""

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
        # How often rules of who may be evicted had changed when it was planned.
        self._rules: dict[Key, int] = {}
        # Of those, which changed meanwhile.
        self._later: set[Key] = set()
        # Of some that have failed, who was to go and may be going.
        self._unsure: dict[Key, tuple[PodRef, ...]] = {}

    def __contains__(self, key: object) -> bool:
        """Say whether an entry preempts now."""
        return key in self._evicts

    def begin(self, evict: Evict, rows: Iterable[int]) -> None:
        """Count one as done that evicts for these pods (rows): nodes reserved, victims leaving."""
        self._reservations.outrank(evict.cleared)
        self._reservations.give(rows, evict.nominations)
        victims = self._entries.rows(evict.victims)
        self._engine.doom(victims)
        self._changes.doomed(victims)
        self._unsure.pop(evict.key, None)
        self._evicts[evict.key] = evict
        self._rules[evict.key] = self._hints.seen.rules

    def unsure(self, key: Key) -> list[int]:
        """Give the pods (rows) that may be going for one that failed, and of which that is not seen yet."""
        terminating = self._engine.snapshot.terminating
        rows = self._entries.rows(self._unsure.get(key, ()))
        return [row for row in rows if not terminating.item(row)]

    def forget(self, key: Key) -> None:
        """Let go of a preemptor that waits no more."""
        self._unsure.pop(key, None)

    def touch(self, key: Key) -> None:
        """Keep in mind that a preemptor changed; it is looked at when its preemption ends."""
        self._later.add(key)

    def waiting(self, key: Key) -> Waiting:
        """Say what could help a preemptor, should its preemption come to nothing."""
        evict = self._evicts[key]
        awaited = frozenset(pod.uid for pod in evict.victims)
        rows = self._entries.preemptors(evict)
        return waiting(self._engine, rows, evict.preemptor.priority, awaited=awaited)

    def objection(self, key: Key, mode: Mode, moment: Moment) -> str:
        """Say why one shall not go on, empty if it shall."""
        evict = self._evicts.get(key)
        if evict is None:
            return "it has ended"
        changed = self._rules[key] != self._hints.seen.rules
        return objection(self._engine, self._entries, evict, mode, moment, rules_changed=changed)

    def end(self, key: Key) -> Evict:
        """End one, of which all victims were told to go unless `take_back` says otherwise."""
        del self._rules[key]
        if key in self._later:
            self._later.discard(key)
            self._changes.touched.add(key)
        return self._evicts.pop(key)

    def take_back(self, evict: Evict, deleted: Iterable[PodRef], *, unsure: bool) -> None:
        """Undo what one stood for: who was not deleted stays, and no node is reserved.

        If that is `unsure`, the next plan had better be the same: with another, more might go than need to.
        """
        gone = frozenset(deleted)
        left = tuple(pod for pod in evict.victims if pod not in gone)
        if unsure:
            self._unsure[evict.key] = left
        spared = self._entries.rows(left)
        self._engine.spare(spared)
        self._changes.spared(spared)
        self._reservations.end(self._entries.preemptors(evict))
