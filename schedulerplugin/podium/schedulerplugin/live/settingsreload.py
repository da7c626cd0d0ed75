"""The current settings: a file is read every second, and what a running process can change is applied.

The file's bytes are compared: a ConfigMap's file is replaced by a symbolic link, so its times mean nothing. A
file that is missing or wrong changes nothing: a typing error during an emergency must not undo the settings
in force.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from podium.errors import PodiumError
from podium.kube.connection import Sleep
from podium.kube.reflector import EventLogger
from podium.planner.settings import LiveSettings, differences

_LOOK_SECONDS = 1.0


class SettingsSource(NamedTuple):
    """The source of settings: `read` returns them or raises PodiumError, `path` is the file to watch."""

    read: Callable[[], LiveSettings]
    path: Path | None = None


class Switch:
    """Keeps the current settings, `now`, first read from the source; `run` follows the file."""

    def __init__(self, source: SettingsSource, *, sleep: Sleep, log_event: EventLogger) -> None:
        """Read the settings. Raises PodiumError if the file is wrong."""
        # Called after a change; does nothing until a scheduler runs.
        self.changed: Callable[[], None] = lambda: None
        self._source = source
        self._sleep = sleep
        self._log_event = log_event
        # Before the settings are read, so that a change in between is seen at the first look.
        self._seen = self._bytes()
        self.now = source.read()

    async def run(self) -> None:
        """Look at the file every second, until cancelled."""
        while True:
            await self._sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Apply changes of the file. A small local file is read without leaving the event loop."""
        content = self._bytes()
        if content == self._seen:
            return
        self._seen = content
        try:
            settings = self._source.read()
        except PodiumError as error:
            self._log_event("configuration not taken", {"error": str(error)})
            return
        before, self.now = self.now, self.now.switched(settings)
        changed, waiting = differences(before, self.now), differences(self.now, settings)
        if changed:
            values = {
                "preemption": str(self.now.mode),
                "evictionsPerMinute": self.now.evictions_a_minute,
                "gangHoldSeconds": self.now.gang_hold_seconds,
            }
            self._log_event("configuration changed", {name: values[name] for name in changed})
            self.changed()
        if waiting:
            names = ", ".join(waiting)
            self._log_event(
                "configuration not taken", {"error": f"{names}: restart the scheduler to change this"}
            )

    def _bytes(self) -> bytes | None:
        """Return the bytes of the file, None if it cannot be read."""
        if self._source.path is None:
            return None
        try:
            return self._source.path.read_bytes()
        except OSError:
            return None
