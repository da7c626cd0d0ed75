"""Stores the preemption history: PreemptionRecords in Podium's own namespace, written in the background.

Nothing waits for these writes. At most one object is written each second, and plans that arrive meanwhile go
into the next write. Plans that cannot be written are kept for a while, then dropped, and the number of
dropped plans is logged. A cluster without the custom resource has no history; this is logged once.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from podium import jsontext
from podium.api.records import RECORD_PLURAL, RECORD_VERSION, PreemptionRecord, RecordedPlan
from podium.errors import PodiumError
from podium.kube.backoff import Backoff
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.preconditions import StaleError, fenced
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.schedulerplugin.history.recordring import Draft, Ring

# The pause between two writes.
_PAUSE_SECONDS = 1.0
# How long a new leader waits for the stored history, and how long a stopping leader writes.
_RESTORE_SECONDS = 5.0
_LAST_SECONDS = 2.0
# The codes with which an API server refuses an object for what it holds, each time that it is sent.
_OF_THE_OBJECT = (400, 413, 422)


T = TypeVar("T")


class _RecordList(msgspec.Struct):
    items: list[PreemptionRecord]


class _RecordMetadata(msgspec.Struct):
    resourceVersion: str = ""


class _StoredRecord(msgspec.Struct):
    metadata: _RecordMetadata


class History:
    """The history of one scheduler, `name`, in one namespace; `run` writes the plans that `append` takes."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        name: str,
        remaining: Callable[[], float],
        *,
        sleep: Sleep,
        random: Callable[[], float],
        log_event: EventLogger,
    ) -> None:
        """`remaining` returns the seconds left in the lease; `random` returns numbers from 0 up to 1."""
        self._connection = connection
        self._path = f"/apis/{RECORD_VERSION}/namespaces/{quote(namespace, safe='')}/{RECORD_PLURAL}"
        self._remaining = remaining
        self._sleep = sleep
        self._backoff = Backoff(random)
        self._log_event = log_event
        self._ring = Ring(name)
        self._restored = False
        self._logged = ""
        self._news = asyncio.Event()

    async def restore(self) -> list[PreemptionRecord]:
        """Return the stored records and continue after them; empty if the read fails (`run` retries)."""
        try:
            return await within(_RESTORE_SECONDS, self._read())
        except (PodiumError, TimeoutError) as error:
            self._log_error(error)
            return []

    def append(self, plan: RecordedPlan) -> None:
        """Queue a plan to be written soon, without waiting."""
        if self._ring.append(plan):
            self._news.set()

    @property
    def written(self) -> bool:
        """Whether all plans that were appended are stored."""
        return self._ring.draft() is None

    async def run(self) -> None:
        """Write appended plans until cancelled, and then for up to two seconds what is left."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                pause = _PAUSE_SECONDS
                try:
                    if await self._write():
                        self._news.set()
                except PodiumError as error:
                    self._log_error(error)
                    self._news.set()
                    pause = max(pause, self._backoff.next())
                await self._sleep(pause)
        except asyncio.CancelledError:
            await self._flush()
            raise

    async def _flush(self) -> None:
        """Write what is left, within _LAST_SECONDS."""
        try:
            await within(_LAST_SECONDS, self._write_all())
        except (PodiumError, TimeoutError) as error:
            self._log_error(error)

    async def _write_all(self) -> None:
        while await self._write():
            pass

    async def _write(self) -> bool:
        """Write one object, and return whether there is more to write. Raises PodiumError."""
        if not self._restored:
            await self._read()
        draft = self._ring.draft()
        if draft is None:
            return False
        try:
            body = await fenced(self._remaining, lambda: self._send(draft))
        except StaleError as error:
            await self._meet(draft, error)
            return True
        except RefusedError as error:
            if error.code not in _OF_THE_OBJECT:
                raise
            self._ring.refused(draft)
            self._log_error(error)
            return True
        self._ring.saved(draft, jsontext.parse(body, _StoredRecord).metadata.resourceVersion)
        self._backoff.reset()
        self._logged = ""
        return self._ring.draft() is not None

    async def _send(self, draft: Draft) -> bytes:
        method, path = ("PUT", f"{self._path}/{draft.name}") if draft.version else ("POST", self._path)
        return await self._connection.send(method, path, draft.document(), patient=False)

    async def _meet(self, draft: Draft, error: StaleError) -> None:
        """Read the object that a stale write was meant to replace, and merge it."""
        if error.gone and not draft.version:
            # A new object that is "not found": the resource is not served, or the namespace is gone.
            raise error
        try:
            body = await self._connection.get(f"{self._path}/{draft.name}")
        except RefusedError as refused:
            if refused.code != 404:
                raise
            self._ring.met(draft, None)
            return
        self._ring.met(draft, _decoded(body, PreemptionRecord))

    async def _read(self) -> list[PreemptionRecord]:
        try:
            body = await self._connection.get(self._path)
        except RefusedError as refused:
            if refused.code != 404:
                raise
            # The list of a namespace that does not exist is empty, so a 404 means that the resource is not
            # served.
            raise PodiumError(
                f"{self._connection.server} does not serve PreemptionRecords, so there is no history; "
                "apply what `podium manifests crds` prints"
            ) from None
        records = _decoded(body, _RecordList).items
        self._ring.restore(records)
        self._restored = True
        return records

    def _log_error(self, error: PodiumError | TimeoutError) -> None:
        """Log an error once, until a write succeeds or the error changes."""
        text = str(error) or "the API server did not answer in time"
        if text != self._logged:
            self._logged = text
            self._log_event("history not written", {"error": text, "dropped_plans": self._ring.dropped})


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return jsontext.parse(body, kind)
    except msgspec.DecodeError as error:
        raise PodiumError(f"PreemptionRecords cannot be read: {error}") from None
