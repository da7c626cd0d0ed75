"""Binds: what one stands for as long as it is under way, and how one that failed is made up for.

A pod to be bound stands on its node from the decision on. When the API server does not take it, the node is
reserved for the pod instead, and the pod is tried first: its group may be waiting for this one alone. One
that fails again and again is tried less and less often.
"""

from collections.abc import Mapping

from podium.schedulerplugin.overlay import PENDING
from podium.schedulerplugin.scheduling.changes import Changes
from podium.schedulerplugin.scheduling.effects import Bind, Key, PodRef
from podium.schedulerplugin.scheduling.entries import Entries
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.plans import ref_at
from podium.schedulerplugin.scheduling.reservations import Reservations


class Binds:
    """Those of one scheduler."""

    def __init__(
        self, engine: LiveEngine, entries: Entries, *, changes: Changes, reservations: Reservations
    ) -> None:
        self._engine = engine
        self._entries = entries
        self._changes = changes
        self._reservations = reservations
        # How often in a row binds of an entry failed, and which are to be tried again.
        self._failures: dict[Key, int] = {}
        self._retried: set[Key] = set()

    def begin(self, key: Key, placed: Mapping[int, int]) -> Bind:
        """Count pods (rows) of an entry on their nodes (rows); give what is to be done for it."""
        engine = self._engine
        names = engine.snapshot.names
        pods = tuple((ref_at(engine, row), names[node] or "") for row, node in placed.items())
        self._reservations.overtaken(placed)
        for row, node in placed.items():
            engine.assume(row, node)
        for ref, name in pods:
            self._changes.sent(ref.key, name)
        return Bind(key, pods)

    def done(self, key: Key) -> None:
        """Note that a pod of an entry was bound."""
        self._failures.pop(key, None)

    def failed(self, key: Key, pod: PodRef, node: str, *, settled: bool) -> None:
        """Note that a bind failed: `settled` if there is nothing to repeat, for the pod is gone or bound.

        It stood on its node until now; from now on the node is reserved for it, and it is tried first.
        """
        row, snapshot = self._entries.row(pod), self._engine.snapshot
        if row is not None:
            self._changes.returned(pod.key, node)
        if row is None or snapshot.node.item(row) not in (PENDING, snapshot.row.get(node)):
            # Its node went meanwhile, and it is on the way to another.
            return
        self._engine.forget(row)
        if settled:
            # What became of it is on its way here; to try again before would be to fail again.
            self._failures.pop(key, None)
            self._reservations.end((row,))
            self._changes.mean(pod.key, "")
            return
        self._changes.touched.add(key)
        self._engine.nominate(pod.key, node)
        self._failures[key] = self._failures.get(key, 0) + 1
        self._retried.add(key)

    def again(self, key: Key) -> int:
        """Give how often binds of an entry failed that is to be tried again for that; 0 for another."""
        if key not in self._retried:
            return 0
        self._retried.discard(key)
        # Another of its pods may have been bound since.
        return self._failures.get(key, 1)

    def forget(self, key: Key) -> None:
        """Let go of an entry of which nothing waits; how often it failed counts as long as it has pods."""
        self._retried.discard(key)
        if not any(True for _ in self._entries.pods(key)):
            self._failures.pop(key, None)
