"""Tracks binds: their effect on the engine while they are in flight, and the retry after a failure.

A pod is assumed on its node from the decision on. If the API server rejects the bind, the node is reserved
for the pod instead. The pod is then tried first, because its group may be waiting for this pod alone. An
entry whose binds fail repeatedly is tried less and less often.
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
    """The binds of one scheduler."""

    def __init__(
        self, engine: LiveEngine, entries: Entries, *, changes: Changes, reservations: Reservations
    ) -> None:
        self._engine = engine
        self._entries = entries
        self._changes = changes
        self._reservations = reservations
        # How many binds of an entry failed in a row, and the entries to be retried.
        self._failures: dict[Key, int] = {}
        self._retried: set[Key] = set()

    def begin(self, key: Key, placed: Mapping[int, int]) -> Bind:
        """Assume pods (rows) of an entry on nodes (rows), and return the bind to be carried out."""
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
        """Record that a pod of an entry was bound."""
        self._failures.pop(key, None)

    def failed(self, key: Key, pod: PodRef, node: str, *, settled: bool) -> None:
        """Record that a bind failed; `settled` means that no retry is needed (the pod is gone or bound).

        The pod was assumed on its node until now. From now on the node is reserved for it, and it is tried
        first.
        """
        row, snapshot = self._entries.row(pod), self._engine.snapshot
        if row is not None:
            self._changes.returned(pod.key, node)
        if row is None or snapshot.node.item(row) not in (PENDING, snapshot.row.get(node)):
            # Its node was deleted meanwhile, and the pod is assumed on another.
            return
        self._engine.forget(row)
        if settled:
            # The watch will deliver the pod's new state. A retry before that would fail again.
            self._failures.pop(key, None)
            self._reservations.end((row,))
            self._changes.mean(pod.key, "")
            return
        self._changes.touched.add(key)
        self._engine.nominate(pod.key, node)
        self._failures[key] = self._failures.get(key, 0) + 1
        self._retried.add(key)

    def again(self, key: Key) -> int:
        """Return how many binds of an entry to be retried failed in a row; 0 for any other entry."""
        if key not in self._retried:
            return 0
        self._retried.discard(key)
        # Another of its pods may have been bound since, which resets the count.
        return self._failures.get(key, 1)

    def forget(self, key: Key) -> None:
        """Forget an entry with no waiting pod. Its failures are kept as long as it has pods."""
        self._retried.discard(key)
        if not any(True for _ in self._entries.pods(key)):
            self._failures.pop(key, None)
