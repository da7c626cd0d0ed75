"""Events about objects: told to whoever looks at the object, and never in the way of what they tell of.

An event is worth nothing beside the write that it tells of: telling it must neither hold that up nor flood
the API server when a whole cluster flips at once. So notes go into a bounded queue that one task empties at a
steady rate; an object that flaps is told of a few times and then rarely; and what has no room is dropped and
counted. A note makes its Event's name, so one that is sent twice, after a lost answer or by the next leader,
is one Event.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final, NamedTuple

from podium.api.times import micro_time
from podium.errors import PodiumError
from podium.kube.backoff import Backoff, Rate
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.watching import Say
from podium.note import Note
from podium.wording import cut

SENT: Final = "sent"
LIMITED: Final = "limited"
FULL: Final = "full"
REFUSED: Final = "refused"
# All that may become of a note.
RESULTS: Final = (SENT, LIMITED, FULL, REFUSED)

# An object that is told of more often than this flaps: its condition says how it is now.
_OBJECT_BURST, _OBJECT_SECONDS = 5, 60.0
# Objects whose rate is kept in mind.
_OBJECTS = 4096
# A pause before each event while others need the server more.
_BUSY_SECONDS = 0.5
# About half a minute: an API server that restarts is back by then.
_ATTEMPTS = 8

# What an API server takes, in bytes (validation of events.k8s.io/v1).
_NOTE = 1024
_INSTANCE = 128
_NAME = 253
# How its NamespaceLifecycle plugin words that a namespace takes nothing new; the code is 403.
_TERMINATING = "because it is being terminated"


class Pace(NamedTuple):
    """How all events together are told: `burst` at once, then one in `seconds`, while `room` wait.

    An API server's worth of other clients tell events too. As it is here, the last one is told after some
    three minutes: later nobody would connect it with its cause.
    """

    burst: int = 25
    seconds: float = 0.2
    room: int = 1000


STEADY: Final = Pace()


class _Told(NamedTuple):
    """An Event as it will be sent: what of it, and where to."""

    path: str
    body: dict[str, Any]


class Recorder:
    """Tells notes as Events of one controller, `instance` of which this process is."""

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
        say: Say,
        counted: Callable[[str], None],
        pace: Pace = STEADY,
        least: Collection[str] = (),
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`clock` is monotonic, `now` is the wall's in UTC; `random` gives numbers from 0 up to 1.

        While `busy` says that there is better use for the API server, two events a second are told.

        Notes of the reasons in `least` are dropped first: they may take half of the room. `counted` is told
        what became of each note: sent, limited (its object is told of too often), full (too many of all
        objects) or refused (by the API server, or it could not be reached for too long).
        """
        self._connection = connection
        self._controller = controller
        self._instance = cut(instance, _INSTANCE)
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._random = random
        self._say = say
        self._counted = counted
        self._pace = pace
        self._least = least
        self._busy = busy
        self._queue = asyncio.Queue[_Told]()
        self._objects: dict[str, Rate] = {}
        self._said: set[int] = set()

    def emit(self, note: Note) -> None:
        """Take a note to be told soon; never waits, and drops what is too much."""
        rate, now = self._rate(note.uid), self._clock()
        if rate.wait(now) > 0:
            self._counted(LIMITED)
            return
        room = self._pace.room // 2 if note.reason in self._least else self._pace.room
        if self._queue.qsize() >= room:
            self._counted(FULL)
            return
        self._queue.put_nowait(self._told(note))
        rate.take(now)

    async def run(self) -> None:
        """Tell what was taken, until cancelled; what is not told by then never is."""
        rate = Rate(self._pace.burst, self._pace.seconds)
        while True:
            told = await self._queue.get()
            await self._sleep(rate.wait(self._clock()))
            if self._busy():
                await self._sleep(_BUSY_SECONDS)
            rate.take(self._clock())
            self._counted(SENT if await self._send(told) else REFUSED)

    async def _send(self, told: _Told) -> bool:
        """Send one Event, again and again for a while if nobody answers or the server is in trouble."""
        backoff = Backoff(self._random)
        attempts = 0
        while True:
            attempts += 1
            failure, is_final = await self._try(told)
            if failure is None:
                self._said.clear()
                return True
            if is_final or attempts == _ATTEMPTS:
                self._lament(failure)
                return False
            await self._sleep(backoff.next())

    async def _try(self, told: _Told) -> tuple[PodiumError | None, bool]:
        """Send one Event; give what went wrong, and whether it would again."""
        try:
            await self._connection.send("POST", told.path, told.body)
        except RefusedError as error:
            return (None, True) if error.reason == "AlreadyExists" else (error, error.code < 500)
        except PodiumError as error:
            return error, False
        return None, True

    def _lament(self, failure: PodiumError) -> None:
        """Say what is wrong, once until it is not; that a namespace goes or has gone is nobody's fault."""
        code, message = (failure.code, failure.message) if isinstance(failure, RefusedError) else (0, "")
        if code == 404 or _TERMINATING in message or code in self._said:
            return
        self._said.add(code)
        self._say("event not sent", {"error": str(failure)})

    def _rate(self, uid: str) -> Rate:
        """Give an object's rate; those that were told of longest ago are forgotten."""
        rate = self._objects.pop(uid, None) or Rate(_OBJECT_BURST, _OBJECT_SECONDS)
        self._objects[uid] = rate
        if len(self._objects) > _OBJECTS:
            del self._objects[next(iter(self._objects))]
        return rate

    def _told(self, note: Note) -> _Told:
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
        return _Told(f"/apis/events.k8s.io/v1/namespaces/{ref.namespace}/events", body)


def _name(regarding: str, token: str) -> str:
    """Name a note's Event: the same note, the same name; a DNS subdomain as the object's own name is."""
    digest = hashlib.sha256(token.encode()).hexdigest()[:16]
    return f"{regarding[: _NAME - len(digest) - 1].rstrip('.-')}.{digest}"
