"""Leader election: the replica that holds a Lease works, renews it in time, and releases it at the end.

A lease cannot stop a process that still believes it leads, so every assumption here is on the safe side. The
holder counts from before its request (`remaining`), the others from after they saw a change, each on its own
clock that never jumps. Lease timestamps are written for people and ignored, so neither clock skew nor a
changed clock can make two leaders. With equal terms, the holder stops acting `lease_seconds - renew_seconds`
before another replica may begin.

A write whose answer was lost may take effect later. It names UID and resourceVersion, so it applies to the
Lease as last read or fails, and the Lease is read again before the next decision. (A PUT without a UID would
recreate a deleted Lease.) If SIGTERM arrives during a write, the process waits for its end first: a lease
acquired after the last read would not be released.

Needs get, create and update on leases of coordination.k8s.io.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from podium import jsontext
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, Sleep, get_or_none
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.runtime.leaserecord import (
    ObservedLease,
    Record,
    Terms,
    acquire_record,
    free_in,
    is_of,
    noted,
    observe,
    released,
    renewed,
    with_note,
)

_LATEST = 0.2  # the share of the retry period that jitter may add
_NEVER = -math.inf


class LostError(PodiumError):
    """The lease is lost: the process has stopped working, and ends."""


class Elector:
    """A candidate for a lease, for one term: a process that loses the lease ends, and a new one takes part.

    `leader` is the holder of the lease, and `transitions` the number of takeovers, as last read. For the
    lease that we acquired, `expired` says that the former holder never released it, and `made` that no Lease
    existed. If `keeps` is set, the lease is not released at the end: the next leader waits for its expiry,
    and its `expired` is true. `found` is the note of a former holder that did not release the lease.
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
        log_event: EventLogger,
    ) -> None:
        """`clock` must never be set (`steady`); `now` is UTC; `random` returns a number from 0 up to 1."""
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
        self._log_event = log_event
        self._seen: ObservedLease | None = None
        self._unsure = True  # whether a write of ours may have changed the Lease since it was read
        self._term: Record | None = None  # the term that we hold, or may hold
        self._sending: asyncio.Future[bytes] | None = None  # the last write
        self._until = _NEVER
        self._began = _NEVER  # the start of the last attempt
        self._failure = ""
        self._note = ""
        self._noted = asyncio.Event()

    def set_note(self, text: str) -> None:
        """Keep a text in the Lease while it is set; the next holder reads it if this one loses the lease.

        A text is written at once. An empty text is written with the next renewal, because a late removal is
        harmless.
        """
        if text and text != self._note:
            self._noted.set()
        self._note = text

    def remaining(self) -> float:
        """Return the seconds in which this process may still act; 0 when it does not lead.

        After a pause of the process, the first call already returns 0, before any other code runs.
        """
        return max(0.0, self._until - self._clock())

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Acquire the lease, and renew it while `lead` runs; `lead` has always ended when this returns.

        Raises LostError when the lease is lost. On any other end (`lead` returns or raises, or this is
        cancelled) the lease is renewed until `lead` has ended, and then released, unless `keeps` is set.
        """
        try:
            await self._campaign()
            self._log_event("leading", {"lease": self._where, "transitions": self.transitions})
            await self._lead_while_held(lead)
        finally:
            try:
                if self._term is not None and self.keeps:
                    self._term, self._until = None, _NEVER
                elif self._term is not None:
                    await self._release(self._term)
            finally:
                self._give_up()

    async def _lead_while_held(self, lead: Callable[[], Awaitable[None]]) -> None:
        keeping = asyncio.ensure_future(self._renew_until_lost())
        leading = asyncio.ensure_future(lead())
        try:
            await asyncio.wait((keeping, leading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                await _cancel_and_wait(leading)
            finally:
                await _cancel_and_wait(keeping)
            # An exception of `lead` is a bug, and outranks a lost lease.
            failure = None if leading.cancelled() else leading.exception()
            if failure is not None:
                raise failure
        if not keeping.cancelled():
            keeping.result()

    async def _campaign(self) -> None:
        """Return when this process holds the lease."""
        while True:
            await self._attempt(self._bid, self._patience)
            # The lease may have expired already, if the process was paused before it read the answer.
            if self.remaining() > 0:
                return
            wait = self._pause()
            if self._seen is not None and not self._unsure:
                # If the lease of another holder expires before the next attempt, the attempt is made then.
                wait = min(wait, free_in(self._seen, self._terms, self._clock()) or wait)
            await self._sleep(wait)

    async def _renew_until_lost(self) -> None:
        """Renew the lease until it is lost. Raises LostError."""
        while True:
            await self._rest(min(self._pause(), self.remaining()))
            if self.remaining() > 0:
                await self._attempt(self._renew, min(self._patience, self.remaining()))
            if self.remaining() <= 0:
                why = f": {self._failure}" if self._failure else ""
                raise self._lost(f"not renewed within {self._terms.renew_seconds:g} s{why}")

    async def _rest(self, seconds: float) -> None:
        """Sleep until the next renewal is due, or a note must be written."""
        with suppress(TimeoutError):
            await within(seconds, self._noted.wait())
        self._noted.clear()

    @property
    def _patience(self) -> float:
        """Return the timeout of one attempt, short enough for a second attempt on a new connection."""
        return self._terms.renew_seconds / 2

    def _pause(self) -> float:
        """Return the seconds until the next attempt, counted from the start of the last one."""
        pause = self._terms.retry_seconds * (1 + _LATEST * self._random())
        return max(0.0, self._began + pause - self._clock())

    async def _attempt(self, step: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Run one step with a timeout, and log a new failure once."""
        self._began = self._clock()
        try:
            await within(seconds, step())
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
            self._log_event("lease not reached", {"lease": self._where, "error": failure})
        self._failure = failure

    async def _bid(self) -> None:
        """Acquire the lease if it is free, or held by us through a write whose answer was lost."""
        while True:
            before = self._seen
            seen = await self._look()
            if not is_of(seen.record, self._term):
                if (seconds := free_in(seen, self._terms, self._clock())) > 0:
                    self._log_leader(before, seen, seconds)
                    return
                self.expired = seen.emptied or bool(seen.record.holderIdentity)
                self.made = not seen.document
                self.found = noted(seen.document) if self.expired else ""
                self._term = acquire_record(seen, self._identity, self._terms, self._now(), self._term)
            assert self._term is not None
            if await self._hold(seen, self._term):
                return

    def _log_leader(self, before: ObservedLease | None, seen: ObservedLease, seconds: float) -> None:
        """Log why the lease is not free, when that has changed."""
        if seen.emptied and (before is None or not before.emptied):
            self._log_event(
                "the lease was not released", {"lease": self._where, "seconds": round(seconds, 1)}
            )
        elif not seen.emptied and (before is None or before.record.holderIdentity != self.leader):
            self._log_event("another leads", {"lease": self._where, "leader": self.leader})

    async def _renew(self) -> None:
        assert self._term is not None
        while True:
            seen = await self._known()
            if not is_of(seen.record, self._term):
                raise self._lost(_loss_reason(seen.record, self._identity) if seen.document else "deleted")
            if await self._hold(seen, self._term):
                return

    async def _hold(self, seen: ObservedLease, term: Record) -> bool:
        """Write a renewal of the term. If it succeeds, `remaining` counts from before the request."""
        began = self._clock()
        if not await self._write(seen, renewed(term, self._now(), seen.record.renewTime)):
            return False
        self._until = began + self._terms.renew_seconds
        return True

    async def _release(self, term: Record) -> None:
        """Release the lease if it is ours, so that no replica waits for its expiry.

        If that fails, the lease expires.
        """
        self._term = None
        self._until = _NEVER
        self._note = ""
        try:
            await within(self._patience, self._write_release(term))
        except (PodiumError, TimeoutError) as error:
            failure = str(error) or "no answer in time"
            self._log_event("lease not released", {"lease": self._where, "error": failure})

    async def _write_release(self, term: Record) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=self._patience / 2)
        while is_of((seen := await self._known()).record, term):
            if await self._write(seen, released(seen.record, self._now())):
                self._log_event("lease released", {"lease": self._where})
                return

    def _lost(self, why: str) -> LostError:
        self._term = None
        self._until = _NEVER
        self._log_event("lease lost", {"lease": self._where, "error": why})
        return LostError(
            f"lease {self._where}: lost: {why}; this replica has stopped working and must be restarted"
        )

    async def _known(self) -> ObservedLease:
        """Return the Lease as last read; read it again if a write of ours may have changed it."""
        return await self._look() if self._unsure or self._seen is None else self._seen

    async def _look(self) -> ObservedLease:
        body = await get_or_none(self._connection, f"{self._path}/{self._name}")
        return self._store_answer(b"{}" if body is None else body)

    async def _write(self, seen: ObservedLease, record: Record) -> bool:
        """Write the record and keep the Lease's other fields. Return False if it changed since `seen`."""
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
            # If this is cancelled, no caller receives the error of the write.
            self._sending.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
            body = await asyncio.shield(self._sending)
        except RefusedError as error:
            # 409: changed, deleted or created meanwhile. A 404 to a POST is about the namespace.
            if error.code == 409 or (error.code == 404 and seen.document):
                return False
            raise
        self._store_answer(body)
        return True

    def _give_up(self) -> None:
        """Stop waiting for a write in flight."""
        if self._sending is not None:
            self._sending.cancel()

    def _store_answer(self, body: bytes) -> ObservedLease:
        """Store an answer of the API server, and return it decoded."""
        try:
            seen = observe(self._seen, jsontext.parse(body, dict[str, Any]), self._clock())
        except msgspec.DecodeError as error:
            raise PodiumError(
                f"lease {self._where}: the API server's answer is not a Lease: {error}"
            ) from None
        self._seen = seen
        self._unsure = False
        self.leader = seen.record.holderIdentity or ""
        self.transitions = seen.record.leaseTransitions or 0
        return seen


def _loss_reason(record: Record, identity: str) -> str:
    """Return how we lost a lease."""
    if not record.holderIdentity:
        return "emptied"
    return "changed by another" if record.holderIdentity == identity else f"taken by {record.holderIdentity}"


async def _cancel_and_wait(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait for its end, even if the waiting itself is cancelled."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
