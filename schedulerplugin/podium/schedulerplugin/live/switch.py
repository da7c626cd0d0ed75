"""The settings as they are now: a file is looked at every second, and what can change at once does.

Its bytes are compared, for a ConfigMap's file is swapped by a link and its times say nothing. A file that is
gone or wrong changes nothing: a slip while somebody ends an emergency must not undo what was in force.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from podium.errors import PodiumError
from podium.kube.connection import Sleep
from podium.kube.watching import Say
from podium.schedulerplugin.scheduling.settings import LiveSettings, differences

_LOOK_SECONDS = 1.0


class Source(NamedTuple):
    """Where settings come from: `read` gives them or raises PodiumError; they change with the file."""

    read: Callable[[], LiveSettings]
    path: Path | None = None


class Switch:
    """Keeps `now`, which begins with what the source says; `run` follows the file."""

    def __init__(self, source: Source, *, sleep: Sleep, say: Say) -> None:
        """Raises PodiumError when the file is wrong from the beginning."""
        # What is to be called after a change; nothing until somebody schedules.
        self.changed: Callable[[], None] = lambda: None
        self._source = source
        self._sleep = sleep
        self._say = say
        # Before the settings are read: what comes in between is seen at the first look.
        self._seen = self._bytes()
        self.now = source.read()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Take what has changed. A small local file is read without leaving the loop."""
        found = self._bytes()
        if found == self._seen:
            return
        self._seen = found
        try:
            wanted = self._source.read()
        except PodiumError as error:
            self._say("configuration not taken", {"error": str(error)})
            return
        before, self.now = self.now, self.now.switched(wanted)
        changed, waiting = differences(before, self.now), differences(self.now, wanted)
        if changed:
            values = {
                "preemption": str(self.now.mode),
                "shadow": self.now.shadow,
                "evictionsPerMinute": self.now.evictions_a_minute,
                "gangHoldSeconds": self.now.gang_hold_seconds,
            }
            self._say("configuration changed", {name: values[name] for name in changed})
            self.changed()
        if waiting:
            names = ", ".join(waiting)
            self._say("configuration not taken", {"error": f"{names}: restart the scheduler to change this"})

    def _bytes(self) -> bytes | None:
        """Give what the file holds, None where it cannot be read."""
        if self._source.path is None:
            return None
        try:
            return self._source.path.read_bytes()
        except OSError:
            return None
