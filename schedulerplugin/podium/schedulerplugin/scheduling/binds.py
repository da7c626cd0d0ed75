"""Tracks the nodes on which pods count before they are bound: reservations, and binds in flight.

A reservation keeps a node for one pod, and out of reach of all others of no higher priority. So every entry
that could use the room is notified when one ends. An entry that loses its node to a higher priority is looked
at again.

A pod is assumed on its node from the decision on. If the API server rejects the bind, the node is reserved
for the pod instead. The pod is then tried first, because its group may be waiting for this pod alone. An
entry whose binds fail repeatedly is tried less and less often.
"""

from collections.abc import Iterable, Mapping

from podium.cluster.reader import Name
from podium.planner.overlay import PENDING
from podium.schedulerplugin.scheduling.decisioneffects import placements, ref_at
from podium.schedulerplugin.scheduling.effects import Bind, Key, PodRef
from podium.schedulerplugin.scheduling.entry import Entry, EntryEvent, EntryPhase
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.eventhandlers import Changes
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.queue import Queue


class Reservations:
    """The reservations of one scheduler, kept in its engine; other code writes status.nominatedNodeName."""

    def __init__(self, engine: LiveEngine, changes: Changes, entry_pods: EntryPods) -> None:
        self._engine = engine
        self._changes = changes
        self._entry_pods = entry_pods

    def give(self, rows: Iterable[int], pods: Iterable[tuple[PodRef, str]]) -> None:
        """Reserve nodes for pods of an entry, and end any other reservation of its rows."""
        reserved = {pod.key: node for pod, node in pods}
        for row in rows:
            pod = ref_at(self._engine, row)
            node, held = reserved.get(pod.key, ""), self._engine.nomination(row)
            if held != node:
                self._exchange(pod.key, held, node)

    def cancel(self, rows: Iterable[int]) -> None:
        """End the reservations of some rows."""
        self.give(rows, ())

    def outrank(self, pods: Iterable[PodRef]) -> None:
        """End the reservations of pods of lower priority, which are looked at again."""
        for pod in tuple(pods):
            row = self._entry_pods.row(pod)
            if row is None:
                continue
            self._exchange(pod.key, self._engine.nomination(row), "")
            self._changes.touched.update(self._entry_pods.keys((row,)))

    def overtaken(self, placed: Mapping[int, int]) -> None:
        """Look again at the entries whose nodes others are placed on (node rows by pod row)."""
        for node in set(placed.values()):
            rows = (row for row in self._engine.nominated_on(node) if row not in placed)
            self._changes.touched.update(self._entry_pods.keys(rows))

    def _exchange(self, pod: Name, held: str, node: str) -> None:
        """Replace the node reserved for a pod; either may be empty."""
        self._changes.count_on(pod, held)
        self._engine.nominate(pod, node)
        self._changes.count_on(pod, node)


class Binds:
    """The binds of one scheduler."""

    def __init__(
        self,
        engine: LiveEngine,
        entry_pods: EntryPods,
        *,
        changes: Changes,
        reservations: Reservations,
        queue: Queue,
    ) -> None:
        self._engine = engine
        self._entry_pods = entry_pods
        self._changes = changes
        self._reservations = reservations
        self._records = queue.entries

    def assume(self, key: Key, placed: Mapping[int, int]) -> Bind:
        """Assume pods (rows) of an entry on nodes (rows), and return the bind to be carried out."""
        engine = self._engine
        pods = placements(engine, placed)
        self._reservations.overtaken(placed)
        for row, node in placed.items():
            engine.assume(row, node)
        for ref, name in pods:
            self._changes.bind_sent(ref.key, name)
        self._records[key].binding += len(pods)
        return Bind(key, pods)

    def done(self, key: Key) -> None:
        """Record that a pod of an entry was bound."""
        entry = self._records[key]
        entry.binding -= 1
        entry.bind_failures = 0
        entry.eviction_failures = None
        self._answered(entry)

    def failed(self, key: Key, pod: PodRef, node: str, *, settled: bool) -> None:
        """Record that a bind failed; `settled` means that no retry is needed (the pod is gone or bound).

        The pod was assumed on its node until now. From now on the node is reserved for it, and it is tried
        first.
        """
        entry = self._records[key]
        entry.binding -= 1
        if not self._forget_pod(pod, node):
            # The pod is gone, or its node was deleted meanwhile and the pod is assumed on another.
            pass
        elif settled:
            # The watch will deliver the pod's new state. A retry before that would fail again.
            entry.bind_failures = 0
            self._reservations.cancel(self._entry_pods.rows((pod,)))
            self._changes.count_on(pod.key, "")
        else:
            self._engine.nominate(pod.key, node)
            self._retry(entry)
        self._answered(entry)

    def undone(self, bind: Bind) -> None:
        """Record that pods are not bound after all, and that nothing keeps them on their nodes."""
        entry = self._records[bind.key]
        entry.binding -= len(bind.pods)
        for pod, node in bind.pods:
            if self._forget_pod(pod, node):
                self._reservations.cancel(self._entry_pods.rows((pod,)))
                self._changes.count_on(pod.key, "")
        self._retry(entry)
        self._answered(entry)

    def retries(self, key: Key) -> int:
        """Return how many binds of an entry failed in a row, 0 if none failed since the last call."""
        entry = self._records[key]
        retry, entry.retry = entry.retry, False
        # Another of its pods may have been bound since, which resets the count.
        return max(1, entry.bind_failures) if retry else 0

    def _retry(self, entry: Entry) -> None:
        """Let an entry be tried again, less often with each failure in a row."""
        self._changes.touched.add(entry.key)
        entry.bind_failures += 1
        entry.retry = True
        if entry.phase is EntryPhase.BINDING:
            self._records.move(entry, EntryEvent.FAIL)

    def _answered(self, entry: Entry) -> None:
        """Delete the record of an entry without waiting pods after its last bind."""
        if not entry.binding and entry.phase is EntryPhase.BINDING:
            self._records.move(entry, EntryEvent.DROP)

    def _forget_pod(self, pod: PodRef, node: str) -> bool:
        """Count a pod on its node no more; return False if it did not count there any longer."""
        row, snapshot = self._entry_pods.row(pod), self._engine.snapshot
        if row is None:
            return False
        self._changes.bind_failed(pod.key, node)
        if snapshot.node.item(row) not in (PENDING, snapshot.row.get(node)):
            return False
        self._engine.forget_pod(row)
        return True
