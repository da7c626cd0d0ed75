"""Where the history is kept: PreemptionRecords in Podium's own namespace, written in the background.

Nothing waits for it. At most one object a second is written, whatever happens meanwhile goes into the next
write, and what cannot be written is kept for a while and then dropped and said. A cluster without the custom
resource has no history, and is told so once.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from podium.api.records import RECORD_PLURAL, RECORD_VERSION, PreemptionRecord, RecordedPlan
from podium.errors import PodiumError
from podium.kube.backoff import Backoff
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.fenced import StaleError, fenced
from podium.kube.watching import Say
from podium.schedulerplugin.scheduling.history import Draft, Ring

# Between two writes.
_PAUSE_SECONDS = 1.0
# How long a new leader waits for the past, and one that stops for its last words.
_RESTORE_SECONDS = 5.0
_LAST_SECONDS = 2.0


T = TypeVar("T")


class _List(msgspec.Struct):
    items: list[PreemptionRecord]


class _Meta(msgspec.Struct):
    resourceVersion: str = ""


class _Stored(msgspec.Struct):
    metadata: _Meta


class History:
    """The history of one scheduler, `name`, in a namespace; `run` writes what `append` takes."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        name: str,
        remaining: Callable[[], float],
        *,
        sleep: Sleep,
        random: Callable[[], float],
        say: Say,
    ) -> None:
        """`remaining` is how many seconds the lease has left; `random` gives numbers from 0 up to 1."""
        self._connection = connection
        self._path = f"/apis/{RECORD_VERSION}/namespaces/{quote(namespace, safe='')}/{RECORD_PLURAL}"
        self._remaining = remaining
        self._sleep = sleep
        self._backoff = Backoff(random)
        self._say = say
        self._ring = Ring(name)
        self._restored = False
        self._said = ""
        self._news = asyncio.Event()

    async def restore(self) -> list[PreemptionRecord]:
        """Give what is stored, and go on after it; nothing where that cannot be read yet (`run` will)."""
        try:
            async with asyncio.timeout(_RESTORE_SECONDS):
                return await self._read()
        except (PodiumError, TimeoutError) as error:
            self._lament(error)
            return []

    def append(self, plan: RecordedPlan) -> None:
        """Take a plan to be written soon; never waits."""
        if self._ring.append(plan):
            self._news.set()

    @property
    def written(self) -> bool:
        """Whether all that was taken is stored."""
        return self._ring.draft() is None

    async def run(self) -> None:
        """Write what is taken, until cancelled; what is left then is written in two seconds, or never."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                pause = _PAUSE_SECONDS
                try:
                    if await self._write():
                        self._news.set()
                except PodiumError as error:
                    self._lament(error)
                    self._news.set()
                    pause = max(pause, self._backoff.next())
                await self._sleep(pause)
        except asyncio.CancelledError:
            await self._flush()
            raise

    async def _flush(self) -> None:
        """Write what is left, as far as there is time."""
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                while await self._write():
                    pass
        except (PodiumError, TimeoutError) as error:
            self._lament(error)

    async def _write(self) -> bool:
        """Write one object; say whether there is more. Raises PodiumError."""
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
        self._ring.saved(draft, msgspec.json.decode(body, type=_Stored).metadata.resourceVersion)
        self._backoff.reset()
        self._said = ""
        return self._ring.draft() is not None

    async def _send(self, draft: Draft) -> bytes:
        method, path = ("PUT", f"{self._path}/{draft.name}") if draft.version else ("POST", self._path)
        return await self._connection.send(method, path, draft.document(), patient=False)

    async def _meet(self, draft: Draft, error: StaleError) -> None:
        """Look at what is there instead of what was to be overwritten."""
        if error.gone and not draft.version:
            # What is new is not found where it should go: nothing is served there, or the namespace is gone.
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
            # Of a namespace that is not there the list is empty.
            raise PodiumError(
                f"{self._connection.server} does not serve PreemptionRecords, so there is no history; "
                "apply what `podium manifests crds` prints"
            ) from None
        records = _decoded(body, _List).items
        self._ring.restore(records)
        self._restored = True
        return records

    def _lament(self, error: PodiumError | TimeoutError) -> None:
        """Say what is wrong, once until it is not."""
        text = str(error) or "the API server did not answer in time"
        if text != self._said:
            self._said = text
            self._say("history not written", {"error": text, "dropped_plans": self._ring.dropped})


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise PodiumError(f"PreemptionRecords cannot be read: {error}") from None
