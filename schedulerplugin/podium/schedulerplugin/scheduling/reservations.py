"""The nodes that are reserved for pods which wait: given, exchanged and ended, so that everybody hears of it.

A reservation is a promise to one and a wall to all others of no higher priority. So whoever could use the
room is told when one ends, and who loses his to a higher priority is looked at anew.
"""

from collections.abc import Iterable, Mapping

from podium.schedulerplugin.scheduling.changes import Changes
from podium.schedulerplugin.scheduling.effects import PodRef
from podium.schedulerplugin.scheduling.entries import Entries
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.plans import ref_at
from podium.view import Name


class Reservations:
    """Those of one scheduler, kept in its engine's mind; status.nominatedNodeName is written by others."""

    def __init__(self, engine: LiveEngine, changes: Changes, entries: Entries) -> None:
        self._engine = engine
        self._changes = changes
        self._entries = entries

    def give(self, rows: Iterable[int], pods: Iterable[tuple[PodRef, str]]) -> None:
        """Reserve nodes for pods of an entry, and no other for any of its rows."""
        reserved = {pod.key: node for pod, node in pods}
        for row in rows:
            pod = ref_at(self._engine, row)
            node, held = reserved.get(pod.key, ""), self._engine.nomination(row)
            if held != node:
                self._exchange(pod.key, held, node)

    def end(self, rows: Iterable[int]) -> None:
        """Reserve nothing any more for some rows."""
        self.give(rows, ())

    def outrank(self, pods: Iterable[PodRef]) -> None:
        """End those of pods of lower priority, which are to be looked at anew."""
        for pod in tuple(pods):
            row = self._entries.row(pod)
            if row is None:
                continue
            self._exchange(pod.key, self._engine.nomination(row), "")
            self._changes.touched.update(self._entries.keys((row,)))

    def overtaken(self, placed: Mapping[int, int]) -> None:
        """Have those looked at anew of whose nodes others take room (node rows by pod row)."""
        for node in set(placed.values()):
            others = (row for row in self._engine.nominated_on(node) if row not in placed)
            self._changes.touched.update(self._entries.keys(others))

    def _exchange(self, pod: Name, held: str, node: str) -> None:
        """Reserve a node for a pod instead of the one that it held; either may be none."""
        self._changes.mean(pod, held)
        self._engine.nominate(pod, node)
        self._changes.mean(pod, node)
