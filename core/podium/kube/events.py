"""An event recorder that neither delays the write that it reports nor floods the API server.

When a whole cluster changes at once, events must not compete with the writes that they describe. So notes
enter a bounded queue, and one task sends them at a steady rate. An object that changes often gets a few
events and then few per minute. Notes beyond the queue are dropped and counted. The name of an Event derives
from its note, so a repeated note, after a lost answer or by the next leader, is one Event.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final, NamedTuple

from podium.api.events import EventDraft
from podium.api.times import micro_time
from podium.errors import PodiumError
from podium.kube.backoff import Backoff, Rate
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.reflector import EventLogger
from podium.text import cut

SENT: Final = "sent"
LIMITED: Final = "limited"
FULL: Final = "full"
REFUSED: Final = "refused"
# Every possible result of a note.
RESULTS: Final = (SENT, LIMITED, FULL, REFUSED)

# An object with more events than this flaps; its condition has the current state.
_OBJECT_BURST, _OBJECT_SECONDS = 5, 60.0
# The number of objects with a stored rate.
_OBJECTS = 4096
# The delay before each event while other requests need the server more.
_BUSY_SECONDS = 0.5
# About half a minute, enough for a restart of the API server.
_ATTEMPTS = 8

# Maximum lengths in bytes (validation of events.k8s.io/v1).
_NOTE = 1024
_INSTANCE = 128
_NAME = 253
# Part of the NamespaceLifecycle plugin's message for a terminating namespace; the code is 403.
_TERMINATING = "because it is being terminated"


class Pace(NamedTuple):
    """The rate of all events together: `burst` at once, then one in `seconds`, with a queue of `room` notes.

    Many other clients of the API server send events too. With these defaults the last note of a full queue is
    sent after about three minutes. A reader would not connect a later one with its cause.
    """

    burst: int = 25
    seconds: float = 0.2
    room: int = 1000


STEADY: Final = Pace()


class _PreparedEvent(NamedTuple):
    """An Event ready to send: its URL path and body."""

    path: str
    body: dict[str, Any]


class EventRecorder:
    """Sends notes as Events of one controller; `instance` names this process."""

    def __init__(
        self,
        connection: Connection,
        controller: str,
        instance: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        random: Callable[[], float],
        log_event: EventLogger,
        counted: Callable[[str], None],
        pace: Pace = STEADY,
        least: Collection[str] = (),
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`clock` is monotonic, `now` returns wall time in UTC, `random` a number from 0 up to 1.

        While `busy` returns True, at most two events a second are sent, because the API server has more
        urgent work.

        Notes with a reason in `least` may use half of the queue, so they are dropped first. `counted`
        receives the result of each note: sent, limited (its object has too many events), full (the queue is
        full) or refused (by the API server, or the server was unreachable for too long).
        """
        self._connection = connection
        self._controller = controller
        self._instance = cut(instance, _INSTANCE)
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._random = random
        self._log_event = log_event
        self._counted = counted
        self._pace = pace
        self._least = least
        self._busy = busy
        self._queue = asyncio.Queue[_PreparedEvent]()
        self._objects: dict[str, Rate] = {}
        self._logged_codes: set[int] = set()

    def emit(self, note: EventDraft) -> None:
        """Queue a note. Never waits; drops the note if its object or the queue is over its limit."""
        rate, now = self._rate(note.uid), self._clock()
        if rate.wait(now) > 0:
            self._counted(LIMITED)
            return
        room = self._pace.room // 2 if note.reason in self._least else self._pace.room
        if self._queue.qsize() >= room:
            self._counted(FULL)
            return
        self._queue.put_nowait(self._prepare(note))
        rate.record(now)

    async def run(self) -> None:
        """Send the queued notes until cancelled. The notes still in the queue are then lost."""
        rate = Rate(self._pace.burst, self._pace.seconds)
        while True:
            prepared = await self._queue.get()
            await self._sleep(rate.wait(self._clock()))
            if self._busy():
                await self._sleep(_BUSY_SECONDS)
            rate.record(self._clock())
            self._counted(SENT if await self._send(prepared) else REFUSED)

    async def _send(self, prepared: _PreparedEvent) -> bool:
        """Send one Event, with retries for about half a minute, and return whether it was sent."""
        backoff = Backoff(self._random)
        attempts = 0
        while True:
            attempts += 1
            failure, is_final = await self._try(prepared)
            if failure is None:
                self._logged_codes.clear()
                return True
            if is_final or attempts == _ATTEMPTS:
                self._log_failure(failure)
                return False
            await self._sleep(backoff.next())

    async def _try(self, prepared: _PreparedEvent) -> tuple[PodiumError | None, bool]:
        """Send one Event. Return the error, and whether a retry would fail the same way."""
        try:
            await self._connection.send("POST", prepared.path, prepared.body)
        except RefusedError as error:
            return (None, True) if error.reason == "AlreadyExists" else (error, error.code < 500)
        except PodiumError as error:
            return error, False
        return None, True

    def _log_failure(self, failure: PodiumError) -> None:
        """Log an error once until an event succeeds, except for a missing or terminating namespace."""
        code, message = (failure.code, failure.message) if isinstance(failure, RefusedError) else (0, "")
        if code == 404 or _TERMINATING in message or code in self._logged_codes:
            return
        self._logged_codes.add(code)
        self._log_event("event not sent", {"error": str(failure)})

    def _rate(self, uid: str) -> Rate:
        """Return the rate of an object. The least recently used rates are removed."""
        rate = self._objects.pop(uid, None) or Rate(_OBJECT_BURST, _OBJECT_SECONDS)
        self._objects[uid] = rate
        if len(self._objects) > _OBJECTS:
            del self._objects[next(iter(self._objects))]
        return rate

    def _prepare(self, note: EventDraft) -> _PreparedEvent:
        ref = note.regarding
        regarding = {
            "apiVersion": ref.apiVersion,
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": note.uid,
            "resourceVersion": note.resource_version,
        }
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": ref.namespace, "name": _name(ref.name, note.token)},
            "eventTime": micro_time(self._now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": note.type,
            "reason": note.reason,
            "action": note.action,
            "regarding": regarding,
            "note": cut(note.text, _NOTE),
        }
        return _PreparedEvent(f"/apis/events.k8s.io/v1/namespaces/{ref.namespace}/events", body)


def _name(regarding: str, token: str) -> str:
    """Return the name of a note's Event, the same for the same note; a DNS subdomain."""
    digest = hashlib.sha256(token.encode()).hexdigest()[:16]
    return f"{regarding[: _NAME - len(digest) - 1].rstrip('.-')}.{digest}"
