"""Keep the certificates valid while the process lives: observe, do the next step, sleep, repeat.

`rotation` decides the next step; this module keeps the order of reads and writes on which its rules depend. A
replica stores the leaf that it will serve before it serves it. A replica publishes a bundle after it has read
first the API server and then the store. So the bundle is newer than the one it replaces, or the API server
refuses it as a conflict. After the first pair no error is fatal. Errors are logged and retried, because a
webhook with a valid certificate must survive minutes without an API server.
"""

import asyncio
import contextlib
import random
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from podium.errors import PodiumError
from podium.kube.backoff import Tolerance
from podium.kube.connection import RefusedError, Sleep
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.webhooks import certificates, rotation, tls
from podium.webhooks.certificates import Pair
from podium.webhooks.stores import Store, StoreContent
from podium.webhooks.tls import Serving

# Returns whether each replica serves under a CA, in the order of the reports.
Probe = Callable[[Sequence[rotation.ReplicaReport], bytes], Awaitable[Sequence[bool]]]

# All replicas may try to write at the same time, and one wins each round.
_ATTEMPTS = 50
_LEAVE_SECONDS = 2.0
_NOT_KEPT = "certificates not kept"
# The number of conflicts within a minute that are normal: replicas that start together, the API server and an
# install all write to the same objects. After a conflict the next turn follows soon.
_CONFLICTS, _CONFLICTS_SECONDS = 8, 60.0
_SOON_SECONDS = 1.0


class Publisher(Protocol):
    """Writes the registration with the bundle, where API servers read it."""

    @property
    def settling(self) -> bool:
        """Whether the registration changes soon, so that it should be read again soon."""
        ...

    async def registered(self) -> list[bytes]:
        """Return the bundles that API servers have now. Raises PodiumError, and TimeoutError soon."""
        ...

    async def published(self, bundle: bytes | None) -> bool:
        """Return whether the API server has exactly this bundle everywhere. Raises PodiumError."""
        ...

    async def publish(self, bundle: bytes | None) -> None:
        """Replace what `published` last read, and nothing newer, with this bundle. Raises PodiumError."""
        ...


async def _probe_all(reports: Sequence[rotation.ReplicaReport], authority: bytes) -> Sequence[bool]:
    """Probe all replicas at once, so that all vanished replicas together cost one timeout."""
    return await asyncio.gather(
        *(tls.serves(report.address, authority, report.names[0]) for report in reports)
    )


class _Renewal:
    """Repeats `turn`, and logs each failure unless the last turn failed the same way."""

    def __init__(
        self,
        serving: Serving,
        publisher: Publisher | None,
        *,
        poll: float,
        now: Callable[[], datetime],
        log_event: EventLogger,
        sleep: Sleep,
        monotonic: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        """`poll` is in seconds, and the time until the next turn after one that failed."""
        self._serving = serving
        self._publisher = publisher
        # Whether the webhooks are registered; before that API servers cannot call us.
        self.registered = publisher is None
        self._poll = poll
        self._now = now
        self._log_event = log_event
        self._sleep = sleep
        self._monotonic = monotonic
        self._jitter = jitter
        self._conflicts = Tolerance(_CONFLICTS, _CONFLICTS_SECONDS)

    async def turn(self) -> float:
        """Do the next step, and return the seconds until the next one. Raises PodiumError."""
        raise NotImplementedError

    async def run(self) -> None:
        """Do the next step until cancelled."""
        logged: list[str] = []
        while True:
            wait, failures = self._poll, []
            try:
                wait = await self.turn()
                if self._publisher is not None and self._publisher.settling:
                    wait = min(wait, _SOON_SECONDS)
            except PodiumError as error:
                if self._is_normal(error):
                    self._log_event("certificates changed meanwhile", {"reason": str(error)})
                    wait = _SOON_SECONDS
                else:
                    failures.append(str(error))
            except Exception:  # noqa: BLE001 - if this loop ended, the certificate would expire unnoticed
                failures.append(traceback.format_exc())
            try:
                if self._serving.refresh_clients():
                    self._log_event("client authorities loaded", {})
            except PodiumError as error:
                failures.append(str(error))
            for failure in failures:
                if failure not in logged:
                    self._log_event(_NOT_KEPT, {"error": failure})
            logged = failures
            await self._sleep(wait * (0.8 + 0.4 * self._jitter()))

    def _is_normal(self, error: PodiumError) -> bool:
        """Return whether another client wrote in between, and that is not frequent."""
        conflict = isinstance(error, RefusedError) and error.code == 409
        return conflict and self._conflicts.covers(self._monotonic())

    def _load(self, pair: Pair) -> None:
        """Serve a pair from now on. Raises PodiumError for a pair that clients would not accept."""
        if self._serving.load(pair, self._now()):
            leaf, end = self._serving.fingerprint, str(self._serving.expiry)
            self._log_event("certificate loaded", {"leaf": leaf, "end": end})


class CertificateRotator(_Renewal):
    """Renews our own CA and certificates. `address` is where other replicas reach this one.

    `replica` is its name among them, and should be the same after a restart: a report replaces the report of
    the same name. Without a publisher another program manages the bundle: the leaf is renewed, the CA is not.
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
        log_event: EventLogger,
        periods: rotation.Periods = rotation.USUAL,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        probe: Probe = _probe_all,
    ) -> None:
        assert names, "a leaf needs a name"
        poll = periods.poll.total_seconds()
        super().__init__(
            serving,
            publisher,
            poll=poll,
            now=now,
            log_event=log_event,
            sleep=sleep,
            monotonic=monotonic,
            jitter=jitter,
        )
        self._store = store
        self._me = rotation.Replica(replica, address, names)
        self._periods = periods
        self._probe = probe
        # The last stored state, and the time since which the store is empty.
        self._last: rotation.Stored | None = None
        self._gone_since: float | None = None
        self._bundle = b""
        self._published_at = 0.0
        # Consecutive polls at which a report was not proven, while a CA is being dropped.
        self._unproven: Counter[rotation.ReplicaReport] = Counter()
        self._logged = ""

    async def load_pair(self) -> None:
        """Load a pair; create it if the store is empty. Publishes nothing. Raises PodiumError.

        If the CA expired while no replica ran, `run` replaces it in its first seconds. If the store takes no
        write, the stored pair is served, and `run` tries again: a restart must not cost a valid certificate.
        """
        try:
            await self._settle()
        except PodiumError as error:
            content = await self._store.read()
            if content.stored is None:
                raise
            self._load(content.stored.serving)
            self._last = content.stored
            self._log_event(_NOT_KEPT, {"error": str(error)})

    async def run(self) -> None:
        """Do the next step until cancelled; then remove this replica's report."""
        try:
            await super().run()
        finally:
            await self._leave()

    async def turn(self) -> float:
        """Do the next step, and return the seconds until the next poll. Raises PodiumError."""
        content, stored = await self._settle()
        if self._publisher is None:
            due = rotation.authority_due(stored, self._now(), self._periods)
            self._tell(
                _NOT_KEPT if due else "",
                {"error": "the CA must be replaced, which needs --register-url or --register-service"},
            )
            return self._poll
        seen = await self._look(self._publisher, stored)
        step = rotation.decide(stored, self._me, seen, self._now(), self._periods)
        if step in rotation.WRITES:
            written = await self._advance(content, step)
            if written and step is rotation.RotationStep.DROP and seen.silent:
                self._log_event("replicas not waited for", {"replicas": sorted(seen.silent)})
            return 0.0
        if step is rotation.RotationStep.PUBLISH:
            return 0.0 if await self._publish(self._publisher, content, stored) else self._poll
        missing = [
            report.replica for report in stored.reports if report.replica not in seen.proven | seen.silent
        ]
        self._tell(
            "" if step is rotation.RotationStep.REST else step.value,
            {"replicas": missing} if step is rotation.RotationStep.PROVE else {},
        )
        if step is rotation.RotationStep.WAIT and seen.published is not None:
            return min(self._periods.poll, self._periods.grace - seen.published).total_seconds()
        return self._poll

    async def _settle(self) -> tuple[StoreContent, rotation.Stored]:
        """Advance the store to a state from which we may serve, and serve its leaf."""
        for _ in range(_ATTEMPTS):
            content = await self._store.read()
            if content.damage:
                self._tell("stored certificates damaged, new ones replace them", {"error": content.damage})
            if content.stored is None and self._last is not None:
                await self._restore(self._last, content.version)
                continue
            step = rotation.decide(
                content.stored, self._me, rotation.RotationState(), self._now(), self._periods
            )
            if step not in rotation.WRITES:
                assert content.stored is not None, "nothing stored is a step that writes"
                self._last, self._gone_since = content.stored, None
                self._load_stored(content.stored.serving)
                return content, content.stored
            if not await self._advance(content, step):
                await self._sleep(self._jitter() / 4)
        raise PodiumError(
            "the stored certificates change faster than they are read; does another program write?"
        )

    def _load_stored(self, pair: Pair) -> None:
        """Serve the pair. If it is unusable, its CA has expired, and the next steps replace it."""
        try:
            self._load(pair)
        except PodiumError as error:
            self._log_event(_NOT_KEPT, {"error": str(error)})

    async def _restore(self, last: rotation.Stored, version: str) -> None:
        """Restore a deleted state, because API servers still trust it, and begin to replace its CA.

        Raises PodiumError if API servers trust another bundle: this replica was suspended, and another
        replica has a newer state. If no replica restores that within the next polls, this one restores its
        own.
        """
        if self._publisher is not None:
            if self._gone_since is None:
                self._gone_since = self._monotonic()
            waited = timedelta(seconds=self._monotonic() - self._gone_since)
            if waited < 3 * self._periods.poll and not await self._publisher.published(last.bundle):
                raise PodiumError(
                    "the stored certificates are missing or damaged, and those of this replica are older"
                )
            last = rotation.introduce(last, self._now(), self._periods, certificates.new_key)
        if await self._store.write(last, version):
            self._log_event("certificates restored", {})

    async def _advance(self, content: StoreContent, step: rotation.RotationStep) -> bool:
        """Do a step that writes. Return False if another replica wrote first."""
        now, registered = self._now(), b""
        if content.stored is None and self._publisher is not None:
            # Without an answer of the API server the new CA replaces the registered ones.
            with contextlib.suppress(PodiumError, TimeoutError):
                registered = certificates.valid(await self._publisher.registered(), now)
        after = rotation.advance(
            content.stored,
            step,
            self._me,
            now,
            periods=self._periods,
            new_key=certificates.new_key,
            registered=registered,
        )
        written = await self._store.write(after, content.version)
        if written and step is not rotation.RotationStep.REPORT:
            self._log_event(step.value, {})
        return written

    async def _look(self, publisher: Publisher, stored: rotation.Stored) -> rotation.RotationState:
        """Read back the bundle and, while a CA is being dropped, probe every replica."""
        bundle = stored.bundle
        if not await publisher.published(bundle):
            self._bundle = b""
            return rotation.RotationState()
        self.registered = True
        if bundle != self._bundle:
            self._bundle, self._published_at = bundle, self._monotonic()
        proven, silent = await self._ask_all(stored)
        waited = timedelta(seconds=self._monotonic() - self._published_at)
        return rotation.RotationState(waited, proven, silent)

    async def _ask_all(self, stored: rotation.Stored) -> tuple[frozenset[str], frozenset[str]]:
        """Return the replicas that serve under the signer, and those that have not for `patience` polls."""
        reports = stored.reports if stored.retired else ()
        answers = await self._probe(reports, stored.signer.certificate) if reports else ()
        asked = list(zip(reports, answers, strict=True))
        # A changed report shows that its replica lives, so its count starts again.
        self._unproven = Counter(
            {report: self._unproven[report] + 1 for report, proven in asked if not proven}
        )
        silent = (
            report.replica for report, looks in self._unproven.items() if looks >= self._periods.patience
        )
        return frozenset(report.replica for report, proven in asked if proven), frozenset(silent)

    async def _publish(self, publisher: Publisher, content: StoreContent, stored: rotation.Stored) -> bool:
        """Publish if the store is unchanged since the last read; return whether the bundle stayed."""
        if (await self._store.read()).version != content.version:
            return True
        await publisher.publish(stored.bundle)
        stuck = await publisher.published(stored.bundle)
        if stuck:
            self._log_event(rotation.RotationStep.PUBLISH.value, {})
        elif not publisher.settling:
            self._log_event(
                _NOT_KEPT, {"error": "the API server has another registration than the one just written"}
            )
        return stuck

    async def _leave(self) -> None:
        """Remove our report if that is quick; otherwise it expires with the leaf."""
        try:
            await within(_LEAVE_SECONDS, self._withdraw())
        except (PodiumError, TimeoutError) as error:
            self._log_event("replica not withdrawn", {"error": str(error)})

    async def _withdraw(self) -> None:
        content = await self._store.read()
        while content.stored and not await self._store.write(
            rotation.withdraw(content.stored, self._me), content.version
        ):
            await self._sleep(self._jitter() / 4)
            content = await self._store.read()

    def _tell(self, event: str, fields: dict[str, object]) -> None:
        """Log a lasting condition once, when it begins."""
        if event and event != self._logged:
            self._log_event(event, fields)
        self._logged = event


class CertificateWatcher(_Renewal):
    """Serves a pair that another program, such as cert-manager, keeps in a folder as tls.crt and tls.key.

    Reads every `poll` seconds and compares bytes, because a projected volume is replaced by a symbolic link.
    That program also writes the caBundle. A publisher registers the webhooks without one.
    """

    def __init__(
        self,
        folder: Path,
        serving: Serving,
        publisher: Publisher | None,
        *,
        now: Callable[[], datetime],
        log_event: EventLogger,
        poll: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(
            serving,
            publisher,
            poll=poll,
            now=now,
            log_event=log_event,
            sleep=sleep,
            monotonic=monotonic,
            jitter=jitter,
        )
        self._folder = folder

    async def turn(self) -> float:
        """Load the pair and register the webhooks, and return the seconds until the next turn.

        Raises PodiumError when the pair cannot be used; the former pair is then still served.
        """
        await self.load_pair()
        if self._publisher is not None:
            if not await self._publisher.published(None):
                await self._publisher.publish(None)
                await self._publisher.published(None)
            self.registered = True
        return self._poll

    async def load_pair(self) -> None:
        """Load the pair. Raises PodiumError."""
        try:
            pair = Pair((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())
        except OSError as error:
            raise PodiumError(f"{error.filename}: {error.strerror}") from None
        try:
            self._load(pair)
        except PodiumError as error:
            raise PodiumError(f"{self._folder}: tls.crt, tls.key: {error}") from None
