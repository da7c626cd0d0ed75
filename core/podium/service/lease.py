"""Which replica works: the one that holds a Lease, renews it in time, and gives it back when it ends.

No lease can stop a process that still believes in it; so every belief here errs to the safe side. The holder
counts from the moment before it asked (`remaining`), the others from the moment after they saw a change, each
by a clock of its own that never jumps. What the wall clock says is written into the record for people, and
nobody goes by it: neither clocks that differ nor one that is set can make two leaders. With equal terms the
holder has stopped acting `lease_seconds - renew_seconds` before anybody else may begin.

A write whose answer was lost may land later. It names the UID and the resourceVersion that it rests on, so it
lands on what we saw or not at all, and the Lease is read again before anything else is believed. (A PUT
without a UID would make a Lease anew that was deleted.) Who is told to stop while one is under way hears its
end first: what it takes later than we look, nobody would give back.

Needs get, create and update on leases of coordination.k8s.io.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.watching import Say
from podium.service.leaserecord import (
    Record,
    Seen,
    Terms,
    begin,
    free_in,
    is_of,
    noted,
    observe,
    released,
    renewed,
    with_note,
)

_LATEST = 0.2  # how much of the pause between two looks may be added to it at random
_NEVER = -math.inf


class LostError(PodiumError):
    """The lease is not ours any more: the process has stopped working, and ends."""


def steady() -> float:
    """Give the seconds of a clock that nobody sets, and that goes on while the machine is suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Elector:
    """One candidate for a lease, once: who lost it ends, and a new process is the next candidate.

    `leader` is who holds the lease and `transitions` how often it was taken over, as far as we have seen.
    Of the lease that we have taken `expired` says that whoever had it before us never gave it back, and
    `made` that there was none, as far as we have seen. Who sets `keeps` does not give it back either: whoever
    follows waits for it to expire, and knows that. `found` is the note of a holder that did not give it back.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        name: str,
        identity: str,
        *,
        terms: Terms,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        random: Callable[[], float],
        say: Say,
    ) -> None:
        """`clock` must never be set back or forth (`steady`); `now` is UTC; `random` gives from 0 up to 1."""
        assert terms.lease_seconds > terms.renew_seconds > terms.retry_seconds * (1 + _LATEST) > 0
        self.leader = ""
        self.transitions = 0
        self.expired = False
        self.made = False
        self.keeps = False
        self.found = ""
        self._connection = connection
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._where = f"{namespace}/{name}"
        self._identity = identity
        self._terms = terms
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._random = random
        self._say = say
        self._seen: Seen | None = None
        self._unsure = True  # whether a write of ours may have changed what we have seen
        self._term: Record | None = None  # what we hold, or may hold
        self._sending: asyncio.Future[bytes] | None = None  # the last write
        self._until = _NEVER
        self._began = _NEVER  # when the last attempt did
        self._failure = ""
        self._note = ""
        self._noted = asyncio.Event()

    def note(self, text: str) -> None:
        """Keep a text in the Lease for as long as it is set, for the next holder to read if this one is lost.

        It is written at once. An empty text goes with the next renewal: a note that is late is harmless.
        """
        if text and text != self._note:
            self._noted.set()
        self._note = text

    def remaining(self) -> float:
        """Give the seconds in which we still may act, 0 when we do not lead.

        Who was paused sees it at the first call, before anything else has run.
        """
        return max(0.0, self._until - self._clock())

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, and keep it while `lead` runs, which has always ended when this ends.

        Raises LostError when the lease is lost. Whatever else ends this (`lead` returns or raises, or this is
        cancelled) the lease is given back first, unless it is kept, and renewed until then.
        """
        try:
            await self._campaign()
            self._say("leading", {"lease": self._where, "transitions": self.transitions})
            await self._work(lead)
        finally:
            if self._term is not None and self.keeps:
                self._term, self._until = None, _NEVER
            elif self._term is not None:
                await self._release(self._term)
            self._give_up()

    async def _work(self, lead: Callable[[], Awaitable[None]]) -> None:
        keeping = asyncio.ensure_future(self._keep())
        leading = asyncio.ensure_future(lead())
        try:
            await asyncio.wait((keeping, leading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                await _end(leading)
            finally:
                await _end(keeping)
            # A bug in it is worse news than any other.
            failure = None if leading.cancelled() else leading.exception()
            if failure is not None:
                raise failure
        if not keeping.cancelled():
            keeping.result()

    async def _campaign(self) -> None:
        """Return when the lease is ours."""
        while True:
            await self._attempt(self._bid, self._patience)
            # It may be over already, if we were paused before we read the answer.
            if self.remaining() > 0:
                return
            wait = self._pause()
            if self._seen is not None and not self._unsure:
                # Who waits for it to expire need not look before, and should not look much later.
                wait = min(wait, free_in(self._seen, self._terms, self._clock()) or wait)
            await self._sleep(wait)

    async def _keep(self) -> None:
        """Renew for ever. Raises LostError."""
        while True:
            await self._rest(min(self._pause(), self.remaining()))
            if self.remaining() > 0:
                await self._attempt(self._renew, min(self._patience, self.remaining()))
            if self.remaining() <= 0:
                why = f": {self._failure}" if self._failure else ""
                raise self._lost(f"not renewed within {self._terms.renew_seconds:g} s{why}")

    async def _rest(self, seconds: float) -> None:
        """Sleep until the next renewal is due, or there is a note to be written."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._noted.wait()
        self._noted.clear()

    @property
    def _patience(self) -> float:
        """Seconds for one attempt: a call that hangs must leave the time for another on a new connection."""
        return self._terms.renew_seconds / 2

    def _pause(self) -> float:
        """Give the seconds until the next attempt, counted from the beginning of the last."""
        pause = self._terms.retry_seconds * (1 + _LATEST * self._random())
        return max(0.0, self._began + pause - self._clock())

    async def _attempt(self, step: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Try one step, in bounded time whatever the connection does, and say a new failure once."""
        self._began = self._clock()
        try:
            async with asyncio.timeout(seconds):
                await step()
        except LostError:
            raise
        except TimeoutError:
            self._give_up()
            failure = "no answer in time"
        except PodiumError as error:
            failure = str(error)
        else:
            failure = ""
        if failure and failure != self._failure:
            self._say("lease not reached", {"lease": self._where, "error": failure})
        self._failure = failure

    async def _bid(self) -> None:
        """Take the lease if it is free, or ours already by a write whose answer was lost."""
        while True:
            before = self._seen
            seen = await self._look()
            if not is_of(seen.record, self._term):
                if (seconds := free_in(seen, self._terms, self._clock())) > 0:
                    self._say_why(before, seen, seconds)
                    return
                self.expired = seen.torn or bool(seen.record.holderIdentity)
                self.made = not seen.document
                self.found = noted(seen.document) if self.expired else ""
                self._term = begin(seen, self._identity, self._terms, self._now(), self._term)
            assert self._term is not None
            if await self._hold(seen, self._term):
                return

    def _say_why(self, before: Seen | None, seen: Seen, seconds: float) -> None:
        """Say for whom we wait, when that has changed."""
        if seen.torn and (before is None or not before.torn):
            self._say("the lease was not given back", {"lease": self._where, "seconds": round(seconds, 1)})
        elif not seen.torn and (before is None or before.record.holderIdentity != self.leader):
            self._say("another leads", {"lease": self._where, "leader": self.leader})

    async def _renew(self) -> None:
        assert self._term is not None
        while True:
            seen = await self._known()
            if not is_of(seen.record, self._term):
                raise self._lost(_why(seen.record, self._identity) if seen.document else "deleted")
            if await self._hold(seen, self._term):
                return

    async def _hold(self, seen: Seen, term: Record) -> bool:
        """Write a renewal of the term; if that was done we may act, from before the question was put."""
        began = self._clock()
        if not await self._write(seen, renewed(term, self._now(), seen.record.renewTime)):
            return False
        self._until = began + self._terms.renew_seconds
        return True

    async def _release(self, term: Record) -> None:
        """Give the lease back, if it is ours; nobody has to wait for it then. Failing that it expires."""
        self._term = None
        self._until = _NEVER
        self._note = ""
        try:
            async with asyncio.timeout(self._patience):
                if self._sending is not None:
                    await asyncio.wait([self._sending], timeout=self._patience / 2)
                while is_of((seen := await self._known()).record, term):
                    if await self._write(seen, released(seen.record, self._now())):
                        self._say("lease released", {"lease": self._where})
                        return
        except (PodiumError, TimeoutError) as error:
            failure = str(error) or "no answer in time"
            self._say("lease not released", {"lease": self._where, "error": failure})

    def _lost(self, why: str) -> LostError:
        self._term = None
        self._until = _NEVER
        self._say("lease lost", {"lease": self._where, "error": why})
        return LostError(
            f"lease {self._where}: lost: {why}; this replica has stopped working and must be restarted"
        )

    async def _known(self) -> Seen:
        """Give what we have seen, read again if a write of ours may have changed it."""
        return await self._look() if self._unsure or self._seen is None else self._seen

    async def _look(self) -> Seen:
        try:
            body = await self._connection.get(f"{self._path}/{self._name}")
        except RefusedError as error:
            if error.code != 404:
                raise
            body = b"{}"
        return self._take(body)

    async def _write(self, seen: Seen, record: Record) -> bool:
        """Replace what was seen, keeping what others put on the object; False when it has changed since."""
        spec = {**(seen.document.get("spec") or {}), **msgspec.to_builtins(record)}
        self._unsure = True
        try:
            if seen.document:
                method, path = "PUT", f"{self._path}/{self._name}"
                document = with_note({**seen.document, "spec": spec}, self._note)
            else:
                method, path = "POST", self._path
                document = {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": self._name},
                    "spec": spec,
                }
            self._sending = asyncio.ensure_future(
                self._connection.send(method, path, document, patient=False)
            )
            body = await asyncio.shield(self._sending)
        except RefusedError as error:
            # 409: changed, deleted, or made in the meantime. A 404 to a POST is of its namespace.
            if error.code == 409 or (error.code == 404 and seen.document):
                return False
            raise
        self._take(body)
        return True

    def _give_up(self) -> None:
        """Hear no more of a write that is under way."""
        if self._sending is not None:
            self._sending.cancel()

    def _take(self, body: bytes) -> Seen:
        """Remember what was read."""
        try:
            seen = observe(self._seen, msgspec.json.decode(body, type=dict[str, Any]), self._clock())
        except msgspec.DecodeError as error:
            raise PodiumError(f"lease {self._where}: the API server's answer is no Lease: {error}") from None
        self._seen = seen
        self._unsure = False
        self.leader = seen.record.holderIdentity or ""
        self.transitions = seen.record.leaseTransitions or 0
        return seen


def _why(record: Record, identity: str) -> str:
    """Say what has become of a lease that was ours."""
    if not record.holderIdentity:
        return "emptied"
    return "changed by another" if record.holderIdentity == identity else f"taken by {record.holderIdentity}"


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel and await; whoever is cancelled here cancels it once more, and still awaits it."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
