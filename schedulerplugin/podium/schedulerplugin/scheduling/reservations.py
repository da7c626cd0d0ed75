"""Reserves nodes for waiting pods, changes and ends reservations, and notifies the entries concerned.

A reservation keeps a node for one pod, and out of reach of all others of no higher priority. So every entry
that could use the room is notified when one ends. An entry that loses its node to a higher priority is looked
at again.
"""

from collections.abc import Iterable, Mapping

from podium.schedulerplugin.scheduling.changes import Changes
from podium.schedulerplugin.scheduling.effects import PodRef
from podium.schedulerplugin.scheduling.entries import Entries
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.plans import ref_at
from podium.view import Name


class Reservations:
    """The reservations of one scheduler, kept in its engine; other code writes status.nominatedNodeName."""

    def __init__(self, engine: LiveEngine, changes: Changes, entries: Entries) -> None:
        self._engine = engine
        self._changes = changes
        self._entries = entries

    def give(self, rows: Iterable[int], pods: Iterable[tuple[PodRef, str]]) -> None:
        """Reserve nodes for pods of an entry, and end any other reservation of its rows."""
        reserved = {pod.key: node for pod, node in pods}
        for row in rows:
            pod = ref_at(self._engine, row)
            node, held = reserved.get(pod.key, ""), self._engine.nomination(row)
            if held != node:
                self._exchange(pod.key, held, node)

    def end(self, rows: Iterable[int]) -> None:
        """End the reservations of some rows."""
        self.give(rows, ())

    def outrank(self, pods: Iterable[PodRef]) -> None:
        """End the reservations of pods of lower priority, which are looked at again."""
        for pod in tuple(pods):
            row = self._entries.row(pod)
            if row is None:
                continue
            self._exchange(pod.key, self._engine.nomination(row), "")
            self._changes.touched.update(self._entries.keys((row,)))

    def overtaken(self, placed: Mapping[int, int]) -> None:
        """Look again at the entries whose nodes others are placed on (node rows by pod row)."""
        for node in set(placed.values()):
            others = (row for row in self._engine.nominated_on(node) if row not in placed)
            self._changes.touched.update(self._entries.keys(others))

    def _exchange(self, pod: Name, held: str, node: str) -> None:
        """Replace the node reserved for a pod; either may be empty."""
        self._changes.mean(pod, held)
        self._engine.nominate(pod, node)
        self._changes.mean(pod, node)
