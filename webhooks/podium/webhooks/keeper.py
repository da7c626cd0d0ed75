"""Who keeps the certificates right while the process lives: look, do the one step that is due, sleep, again.

`rotation` says what is due; here is only the order in which the world is looked at, which its rules rest on.
A replica writes what it will serve before it serves it. A bundle is published by a replica that has read, in
this order, what the API server has, then the store: what it publishes is then newer than what it replaces, or
the API server refuses it as a conflict. After the first pair nothing is fatal: what fails is told and tried
again, for a webhook whose certificate has a month to live must not die of a minute without an API server.
"""

import asyncio
import random
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from podium import certificates
from podium.certificates import Pair
from podium.errors import PodiumError
from podium.kube.connection import Sleep
from podium.kube.watching import Say
from podium.webhooks import rotation, tls
from podium.webhooks.rotation import USUAL, WRITES, Periods, Replica, Report, Seen, Step, Stored
from podium.webhooks.stores import Found, Store
from podium.webhooks.tls import Serving

# Whether each replica serves under a CA, in the order of their reports.
Probe = Callable[[Sequence[Report], bytes], Awaitable[Sequence[bool]]]

# As many replicas as there are may want to write at once; each round one of them wins.
_ATTEMPTS = 50
_LEAVE_SECONDS = 2.0
_NOT_KEPT = "certificates not kept"


class Publisher(Protocol):
    """Where API servers get the bundle from: webhook configurations and conversions."""

    async def published(self, bundle: bytes) -> bool:
        """Read back whether the API server has exactly this bundle, everywhere. Raises PodiumError."""
        ...

    async def publish(self, bundle: bytes) -> None:
        """Put it there, over what `published` last read and nothing newer. Raises PodiumError."""
        ...


async def _probe_all(reports: Sequence[Report], authority: bytes) -> Sequence[bool]:
    """Ask all replicas at once: those that vanished cost one timeout, not one each."""
    return await asyncio.gather(*(tls.serves(each.address, authority, each.names[0]) for each in reports))


class Keeper:
    """Keeps our own CA and certificates. `address` is where the other replicas reach this one.

    `replica` names this one among them, and should survive a restart: a report replaces that of its name.
    Without a publisher the bundle is somebody else's business: the leaf is renewed, the CA is not.
    """

    def __init__(
        self,
        store: Store,
        serving: Serving,
        publisher: Publisher | None,
        *,
        names: tuple[str, ...],
        replica: str,
        address: tuple[str, int],
        now: Callable[[], datetime],
        say: Say,
        periods: Periods = USUAL,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        new_key: rotation.NewKey = certificates.new_key,
        probe: Probe = _probe_all,
    ) -> None:
        assert names, "a leaf needs a name"
        self._store = store
        self._serving = serving
        self._publisher = publisher
        self._me = Replica(replica, address, names)
        self._periods = periods
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._jitter = jitter
        self._new_key = new_key
        self._probe = probe
        self._say = say
        # What was stored when last read, and since when nothing has been.
        self._last: Stored | None = None
        self._gone_since: float | None = None
        self._bundle = b""
        self._published_at = 0.0
        # Looks in a row at which a report was not proven, while a CA is to go.
        self._unproven: Counter[Report] = Counter()
        self._told = ""
        # Whether API servers were seen to have our bundle: before that they cannot call us.
        self.registered = publisher is None

    async def prepare(self) -> None:
        """Have a pair loaded, made if there is none. Raises PodiumError. Publishes nothing.

        Only a CA that expired while nobody ran takes longer: `run` replaces it in its first seconds.
        """
        await self._settle()

    async def run(self) -> None:
        """Do what is due, for ever; when cancelled, tell the others that this replica is gone."""
        try:
            poll = self._periods.poll.total_seconds()
            await _for_ever(
                self.turn, self._serving, poll=poll, say=self._say, sleep=self._sleep, jitter=self._jitter
            )
        finally:
            await self._leave()

    async def turn(self) -> float:
        """Look, do what is due, and give the seconds until the next look. Raises PodiumError."""
        poll = self._periods.poll.total_seconds()
        found, stored = await self._settle()
        if self._publisher is None:
            due = rotation.authority_due(stored, self._now(), self._periods)
            self._tell(
                _NOT_KEPT if due else "", {"error": "the CA is to be replaced, and we do not register"}
            )
            return poll
        seen = await self._look(self._publisher, stored)
        step = rotation.decide(stored, self._me, seen, self._now(), self._periods)
        if step in WRITES:
            written = await self._advance(found, step)
            if written and step is Step.DROP and seen.silent:
                self._say("replicas not waited for", {"replicas": sorted(seen.silent)})
            return 0.0
        if step is Step.PUBLISH:
            return 0.0 if await self._publish(self._publisher, found, stored) else poll
        missing = [
            report.replica for report in stored.reports if report.replica not in seen.proven | seen.silent
        ]
        self._tell(
            "" if step is Step.REST else step.value, {"replicas": missing} if step is Step.PROVE else {}
        )
        if step is Step.WAIT and seen.published is not None:
            return min(self._periods.poll, self._periods.grace - seen.published).total_seconds()
        return poll

    async def _settle(self) -> tuple[Found, Stored]:
        """Bring the store to where we may serve from it, and serve from it."""
        for _ in range(_ATTEMPTS):
            found = await self._store.read()
            if found.stored is None and self._last is not None:
                await self._restore(self._last, found.version)
                continue
            step = rotation.decide(found.stored, self._me, Seen(), self._now(), self._periods)
            if step not in WRITES:
                assert found.stored is not None, "nothing stored is a step that writes"
                self._last, self._gone_since = found.stored, None
                self._load(found.stored.serving)
                return found, found.stored
            if not await self._advance(found, step):
                await self._sleep(self._jitter() / 4)
        raise PodiumError("the stored certificates change faster than they are read: who else writes there?")

    def _load(self, pair: Pair) -> None:
        """Serve the pair. One that cannot be has an expired CA, which the steps that follow replace."""
        try:
            if self._serving.load(pair, self._now()):
                _say_loaded(self._say, self._serving)
        except PodiumError as error:
            self._say(_NOT_KEPT, {"error": str(error)})

    async def _restore(self, last: Stored, version: str) -> None:
        """Put back what was deleted: API servers still trust it. That it was deleted asks for a successor.

        Raises PodiumError where they trust something else: this replica slept, and another knows better. If
        none puts it back within the next polls, nobody does.
        """
        if self._publisher is not None:
            if self._gone_since is None:
                self._gone_since = self._monotonic()
            waited = timedelta(seconds=self._monotonic() - self._gone_since)
            if waited < 3 * self._periods.poll and not await self._publisher.published(last.bundle):
                raise PodiumError(
                    "the stored certificates are gone, and this replica has older ones than that"
                )
            last = rotation.introduce(last, self._now(), self._periods, self._new_key)
        if await self._store.write(last, version):
            self._say("certificates restored", {})

    async def _advance(self, found: Found, step: Step) -> bool:
        """Do a step that writes; False when another replica was faster, with this or something else."""
        after = rotation.advance(
            found.stored, step, self._me, self._now(), periods=self._periods, new_key=self._new_key
        )
        written = await self._store.write(after, found.version)
        if written and step is not Step.REPORT:
            self._say(step.value, {})
        return written

    async def _look(self, publisher: Publisher, stored: Stored) -> Seen:
        """Read back the bundle and, while a CA is to go, ask every replica for its certificate."""
        bundle = stored.bundle
        if not await publisher.published(bundle):
            self._bundle = b""
            return Seen()
        self.registered = True
        if bundle != self._bundle:
            self._bundle, self._published_at = bundle, self._monotonic()
        proven, silent = await self._ask_all(stored)
        waited = timedelta(seconds=self._monotonic() - self._published_at)
        return Seen(waited, proven, silent)

    async def _ask_all(self, stored: Stored) -> tuple[frozenset[str], frozenset[str]]:
        """Give the replicas that serve under the signer, and those that have not for `patience` looks."""
        reports = stored.reports if stored.retired else ()
        answers = await self._probe(reports, stored.signer.certificate) if reports else ()
        asked = list(zip(reports, answers, strict=True))
        # A report that changed is of a replica that lives: it is counted from the start.
        self._unproven = Counter({each: self._unproven[each] + 1 for each, proven in asked if not proven})
        silent = (each.replica for each, looks in self._unproven.items() if looks >= self._periods.patience)
        return frozenset(each.replica for each, proven in asked if proven), frozenset(silent)

    async def _publish(self, publisher: Publisher, found: Found, stored: Stored) -> bool:
        """Publish, if the store is still as it was before the API server was read; tell whether it stuck."""
        if (await self._store.read()).version != found.version:
            return True
        await publisher.publish(stored.bundle)
        stuck = await publisher.published(stored.bundle)
        if stuck:
            self._say(Step.PUBLISH.value, {})
        else:
            self._say(_NOT_KEPT, {"error": "the API server shows another caBundle than was written just now"})
        return stuck

    async def _leave(self) -> None:
        """Take our report out, if that can be had quickly; otherwise it runs out with the leaf."""
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                found = await self._store.read()
                while found.stored and not await self._store.write(
                    rotation.withdraw(found.stored, self._me), found.version
                ):
                    await self._sleep(self._jitter() / 4)
                    found = await self._store.read()
        except (PodiumError, TimeoutError) as error:
            self._say("replica not withdrawn", {"error": str(error)})

    def _tell(self, event: str, fields: dict[str, object]) -> None:
        """Say what lasts when it begins."""
        if event and event != self._told:
            self._say(event, fields)
        self._told = event


class Watcher:
    """Serves the pair that somebody else keeps in a folder, as tls.crt and tls.key: cert-manager, say.

    Looks every `poll` seconds and compares bytes, for a projected volume is swapped by a link. Nothing is
    written, and the caBundle is the business of who made the pair.
    """

    registered = True

    def __init__(
        self,
        folder: Path,
        serving: Serving,
        *,
        now: Callable[[], datetime],
        say: Say,
        poll: float = 10.0,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._folder = folder
        self._serving = serving
        self._now = now
        self._say = say
        self._poll = poll
        self._sleep = sleep
        self._jitter = jitter

    async def prepare(self) -> None:
        """Have the pair loaded. Raises PodiumError."""
        await self.turn()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        await _for_ever(
            self.turn, self._serving, poll=self._poll, say=self._say, sleep=self._sleep, jitter=self._jitter
        )

    async def turn(self) -> float:
        """Look once; the seconds until the next look. Raises PodiumError; what was served still is."""
        try:
            pair = Pair((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())
        except OSError as error:
            raise PodiumError(f"{error.filename}: {error.strerror}") from None
        try:
            loaded = self._serving.load(pair, self._now())
        except PodiumError as error:
            raise PodiumError(f"{self._folder}: tls.crt, tls.key: {error}") from None
        if loaded:
            _say_loaded(self._say, self._serving)
        return self._poll


def _say_loaded(say: Say, serving: Serving) -> None:
    say("certificate loaded", {"leaf": serving.fingerprint, "end": str(serving.expiry)})


async def _for_ever(
    turn: Callable[[], Awaitable[float]],
    serving: Serving,
    *,
    poll: float,
    say: Say,
    sleep: Sleep,
    jitter: Callable[[], float],
) -> None:
    """Take turns. One that fails is told of, unless the last failed alike; the next comes all the same."""
    told: list[str] = []
    while True:
        wait, failures = poll, []
        try:
            wait = await turn()
        except PodiumError as error:
            failures.append(str(error))
        except Exception:  # noqa: BLE001 - a keeper that died would be noticed when the certificate expires
            failures.append(traceback.format_exc())
        try:
            if serving.refresh_clients():
                say("client authorities loaded", {})
        except PodiumError as error:
            failures.append(str(error))
        for failure in failures:
            if failure not in told:
                say(_NOT_KEPT, {"error": failure})
        told = failures
        await sleep(wait * (0.8 + 0.4 * jitter()))
