"""Keeping certificates while serving: whole rotations under load, and all errors that must not be fatal."""

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.webhooks import pki

from podium.errors import PodiumError
from podium.kube.connection import RefusedError
from podium.webhooks import certificates, rotation
from podium.webhooks.certificates import Pair
from podium.webhooks.renewal import CertificateRotator, CertificateWatcher
from podium.webhooks.rotation import USUAL, Periods, Replica, ReplicaReport, RotationStep, Stored
from podium.webhooks.stores import FolderStore
from podium.webhooks.tls import Serving

_QUICK = USUAL._replace(grace=timedelta(seconds=1), poll=timedelta(milliseconds=50))


class _Cluster:
    """The API servers: published bundles with their times, so clients can lag; `error` is raised if set."""

    def __init__(self) -> None:
        self.bundles: list[tuple[float, bytes]] = []
        self.error: Exception | None = None
        self.overwritten = False
        self.settling = False

    async def registered(self) -> list[bytes]:
        return [bundle for _, bundle in self.bundles[-1:]]

    async def published(self, bundle: bytes | None) -> bool:
        if self.error:
            raise self.error
        return bool(self.bundles) and self.bundles[-1][1] == bundle and not self.overwritten

    async def publish(self, bundle: bytes | None) -> None:
        assert bundle is not None
        self.bundles.append((asyncio.get_running_loop().time(), bundle))

    def believed(self, lag: float) -> bytes:
        """The bundle of `lag` seconds ago."""
        then = asyncio.get_running_loop().time() - lag
        past = [bundle for since, bundle in self.bundles if since <= then]
        return past[-1] if past else self.bundles[0][1]


def _rotator(store: FolderStore, *, replica: str = "a", port: int = 1, **options: Any) -> CertificateRotator:
    """Return a rotator that publishes nothing and logs nowhere, unless the options say otherwise."""
    defaults: dict[str, Any] = {"now": pki.now, "log_event": lambda _event, _fields: None}
    serving, cluster = options.pop("serving", None), options.pop("cluster", None)
    return CertificateRotator(
        store,
        serving or Serving(pki.NAMES),
        cluster,
        names=pki.NAMES,
        replica=replica,
        address=("127.0.0.1", port),
        **defaults | options,
    )


class _Replica:
    """A rotator with a listener of its own; `logged` are its events in order."""

    def __init__(
        self,
        folder: Path,
        cluster: _Cluster | None = None,
        port: int = 1,
        serving: Serving | None = None,
        periods: Periods = _QUICK,
    ) -> None:
        self.serving = serving or Serving(pki.NAMES)
        self.port = port
        self.logged = _Said()
        self.store = FolderStore(folder)
        self.rotator = _rotator(
            self.store,
            replica=f"replica-{port}",
            port=port,
            serving=self.serving,
            cluster=cluster,
            periods=periods,
            log_event=lambda event, fields: self.logged.append((event, fields)),
        )

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.logged]

    @property
    def errors(self) -> list[object]:
        return [fields["error"] for _, fields in self.logged if "error" in fields]


@contextlib.asynccontextmanager
async def _running(
    folder: Path, cluster: _Cluster | None, periods: Periods = _QUICK
) -> AsyncIterator[_Replica]:
    """A replica that is prepared, listens and runs until the end."""
    serving = Serving(pki.NAMES)
    async with pki.listening(serving) as port:
        replica = _Replica(folder, cluster, port, serving, periods)
        await replica.rotator.load_pair()
        kept = asyncio.create_task(replica.rotator.run())
        try:
            yield replica
        finally:
            kept.cancel()
            await asyncio.wait([kept])


async def _until(reached: Callable[[], Any]) -> None:
    """Run the loop until a condition holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The condition depends on files and sockets; no event announces it.
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def _calling(
    cluster: _Cluster, replicas: list[_Replica], answers: list[str]
) -> AsyncIterator[asyncio.Task[None]]:
    """Call replicas during the block; no call is cancelled, because asyncio leaves its connection open."""
    stop = asyncio.Event()
    calls = asyncio.create_task(_call(cluster, replicas, answers, stop))
    try:
        yield calls
    finally:
        stop.set()
        await calls


async def _call(cluster: _Cluster, replicas: list[_Replica], answers: list[str], stop: asyncio.Event) -> None:
    """Call replica after replica on new connections, by bundles of up to half the grace period ago."""
    for number in itertools.count():
        if stop.is_set():
            return
        lag = (number % 3) / 4 * _QUICK.grace.total_seconds()
        context = pki.client(cluster.believed(lag))
        name = pki.NAMES[number % 2]
        answer, _ = await pki.ask(replicas[number % len(replicas)].port, context, name=name)
        answers.append(answer)


def _replaced(cluster: _Cluster, before: bytes, calls: asyncio.Task[None]) -> bool:
    """Return whether exactly one new CA is left, or the calls have failed."""
    now = cluster.believed(0)
    return calls.done() or (now != before and now.count(b"BEGIN CERTIFICATE") == 1)


def _at_rest(replica: _Replica) -> Stored | None:
    """Return the state that a replica knows to be stored, None during a rotation."""
    known = replica.rotator._last
    return known if known and not known.next and not known.retired else None


async def test_rotations_cost_not_one_of_the_calls_made_meanwhile(tmp_path: Path) -> None:
    """Three whole rotations, requested by deleting the state, with two replicas and continuous calls."""
    cluster, answers = _Cluster(), list[str]()
    async with _running(tmp_path, cluster) as one, _running(tmp_path, cluster) as two:
        await _until(lambda: one.rotator.registered and two.rotator.registered)
        async with _calling(cluster, [one, two], answers) as calls:
            bundle = cluster.believed(0)
            for _ in range(3):
                await _until(lambda: _at_rest(one) == _at_rest(two) is not None)
                answered = len(answers)
                (tmp_path / "state.json").unlink()
                await _until(partial(_replaced, cluster, bundle, calls))
                assert not calls.done(), calls.exception()
                assert len(answers) > answered
                bundle = cluster.believed(0)
        events = one.events + two.events
        assert (
            events.count(RotationStep.SWITCH)
            == events.count(RotationStep.DROP)
            == events.count("certificates restored")
            == 3
        )
        assert one.serving.fingerprint == two.serving.fingerprint
        assert not one.errors + two.errors
        assert "PRIVATE" not in f"{one.logged}{two.logged}"
    assert set(answers) == {"welcome"}
    stored = (await FolderStore(tmp_path).read()).stored
    assert stored is not None
    assert stored.reports == (), "a process that ended in order left no report"


_Said = list[tuple[str, dict[str, object]]]


class _Virtual:
    """A clock that advances only while something waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return pki.now() + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def options(self, logged: _Said, probe: Any) -> dict[str, Any]:
        """Return the options of a rotator with this clock, a log and a probe."""
        return {
            "now": self.now,
            "monotonic": lambda: self.seconds,
            "sleep": self.sleep,
            "log_event": lambda event, fields: logged.append((event, fields)),
            "probe": probe,
        }


class _Listening:
    """The replicas that answer, each with the leaf it loaded last; a silent one costs a probe's timeout."""

    def __init__(self, time: _Virtual) -> None:
        self._time = time
        self.servings: dict[str, Serving] = {}

    async def probe(self, reports: Sequence[ReplicaReport], authority: bytes) -> list[bool]:
        pairs = [
            serving._pair if (serving := self.servings.get(report.replica)) else None for report in reports
        ]
        if None in pairs:
            await self._time.sleep(5)
        return [pair is not None and certificates.issued(pair.certificate, authority) for pair in pairs]


async def _distrusted(folder: Path, vanished: int, stuck: int) -> tuple[float, _Said]:
    """Leak a CA with two running replicas; return the seconds until it is untrusted, and the log.

    `vanished` more replicas reported and no longer answer; `stuck` ones still serve the leaf of the old CA.
    """
    time, cluster, logged = _Virtual(), _Cluster(), _Said()
    listening = _Listening(time)

    def rotator(name: str) -> CertificateRotator:
        serving = listening.servings[name] = Serving(pki.NAMES)
        clock = time.options(logged, listening.probe) | {"jitter": lambda: 1.0}
        return _rotator(FolderStore(folder), replica=name, serving=serving, cluster=cluster, **clock)

    live = [rotator("live-a"), rotator("live-b")]
    gone = [f"vanished-{number}" for number in range(vanished)]
    for member in [*live, *(rotator(name) for name in gone), *(rotator(f"stuck-{n}") for n in range(stuck))]:
        await member.load_pair()
    for name in gone:
        del listening.servings[name]
    while not all(member.registered for member in live):
        await _round(time, live)
    leaked = cluster.believed(0)
    (folder / "state.json").unlink()
    began = time.seconds
    while leaked in cluster.believed(0):
        await _round(time, live)
        assert time.seconds - began < 3600, logged
    return time.seconds - began, logged


async def _round(time: _Virtual, keepers: list[CertificateRotator]) -> None:
    """Run a turn of each and the longest pause that its jitter allows, all in the same time."""
    began, ends = time.seconds, list[float]()
    for keeper in keepers:
        time.seconds = began
        wait = await keeper.turn()
        ends.append(time.seconds + 1.2 * wait)
    time.seconds = max(ends)


@pytest.mark.parametrize(
    ("vanished", "stuck", "within"), [(0, 0, 60), (1, 0, 240), (5, 0, 240), (0, 1, 180), (2, 2, 240)]
)
async def test_a_leaked_ca_is_out_of_trust_within_minutes(
    tmp_path: Path, vanished: int, stuck: int, within: float
) -> None:
    """Replicas that vanished, or never load the new leaf, delay it for `patience` checks, not for a month."""
    taken, logged = await _distrusted(tmp_path, vanished, stuck)
    assert taken <= within
    missing = [f"stuck-{n}" for n in range(stuck)] + [f"vanished-{n}" for n in range(vanished)]
    waited_for = [fields["replicas"] for event, fields in logged if event == "replicas not waited for"]
    assert waited_for == ([missing] if missing else [])


async def test_leaves_of_seconds_are_renewed_before_they_expire(tmp_path: Path) -> None:
    """Leaves of one CA and then of the next are called while they are valid."""
    cluster, answers = _Cluster(), list[str]()
    periods = Periods(
        ca=timedelta(seconds=15),
        leaf=timedelta(seconds=6),
        skew=timedelta(seconds=1),
        grace=timedelta(seconds=1),
        poll=timedelta(milliseconds=50),
    )
    async with _running(tmp_path, cluster, periods) as replica:
        await _until(lambda: replica.rotator.registered)
        async with _calling(cluster, [replica], answers) as calls:
            await _until(lambda: calls.done() or RotationStep.DROP in replica.events)
            assert not calls.done(), calls.exception()
        assert replica.events.count("certificate loaded") >= 3
        assert not replica.errors
    assert set(answers) == {"welcome"}


async def test_nothing_is_published_by_preparing(tmp_path: Path) -> None:
    """The listener must be up before an API server knows its certificate."""
    cluster = _Cluster()
    replica = _Replica(tmp_path, cluster)
    await replica.rotator.load_pair()
    assert replica.serving.expiry is not None
    assert cluster.bundles == []
    assert not replica.rotator.registered


async def test_a_ca_that_expired_while_no_replica_ran_is_replaced_in_the_first_seconds(
    tmp_path: Path,
) -> None:
    """After two years of pause, preparing is no failure, although there is nothing to serve yet."""
    me = Replica("replica-of-old", ("127.0.0.1", 1), pki.NAMES)
    past = pki.now() - timedelta(days=730)
    stored = rotation.advance(
        None, RotationStep.CREATE, me, past, periods=USUAL, new_key=certificates.new_key
    )
    assert await FolderStore(tmp_path).write(stored, "")
    cluster = _Cluster()
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: RotationStep.DROP in replica.events)
        await _until(lambda: cluster.believed(0).count(b"BEGIN CERTIFICATE") == 1)
        assert (await pki.ask(replica.port, pki.client(cluster.believed(0))))[0] == "welcome"
        assert "expired at" in str(replica.errors[0])


async def test_a_second_replica_serves_what_the_first_made(tmp_path: Path) -> None:
    first, second = _Replica(tmp_path, port=1), _Replica(tmp_path, port=2)
    for replica in (first, second):
        await replica.rotator.load_pair()
    assert first.serving.fingerprint == second.serving.fingerprint is not None


async def test_a_store_that_cannot_be_read_is_fatal_only_at_the_start(tmp_path: Path) -> None:
    cluster = _Cluster()
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: replica.rotator.registered)
        good, serving = (tmp_path / "state.json").read_bytes(), replica.serving.fingerprint
        (tmp_path / "state.json").unlink()
        (tmp_path / "state.json").mkdir()
        await _until(lambda: replica.errors)
        assert "state.json" in str(replica.errors[0])
        with pytest.raises(PodiumError, match=r"state\.json"):
            await _Replica(tmp_path).rotator.load_pair()
        (tmp_path / "state.json").rmdir()
        (tmp_path / "state.json").write_bytes(good)
        await replica.rotator.turn()
        assert replica.serving.fingerprint == serving


@pytest.mark.parametrize("damage", [b"garbage", b"{}", b"[" * 100_000, b"\x00", None], ids=repr)
async def test_a_new_authority_stands_beside_the_registered_one(tmp_path: Path, damage: bytes | None) -> None:
    """A replica that starts with a damaged state, or none, breaks no call of the replicas that run."""
    cluster, time, logged = _Cluster(), _Virtual(), _Said()

    def rotator(name: str) -> CertificateRotator:
        clock = time.options(logged, _Listening(time).probe)
        return _rotator(FolderStore(tmp_path), replica=name, cluster=cluster, **clock)

    running = rotator("running")
    await running.load_pair()
    while not running.registered:
        await _round(time, [running])
    former = cluster.believed(0)
    if damage is None:
        (tmp_path / "state.json").unlink()
    else:
        (tmp_path / "state.json").write_bytes(damage)
    logged.clear()
    starting = rotator("starting")
    await starting.load_pair()
    while not starting.registered:
        await _round(time, [starting])
    told = [fields for event, fields in logged if event.startswith("stored certificates damaged")]
    assert len(told) == (damage is not None)
    assert former in cluster.believed(0) != former
    began = time.seconds
    while former in cluster.believed(0):
        await _round(time, [running, starting])
        assert time.seconds - began < 300
    assert cluster.believed(0).count(b"BEGIN CERTIFICATE") == 1


async def test_running_replicas_restore_a_damaged_state(tmp_path: Path) -> None:
    cluster = _Cluster()
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: replica.rotator.registered)
        former = cluster.believed(0)
        (tmp_path / "state.json").write_bytes(b"garbage")
        await _until(lambda: "certificates restored" in replica.events)
        assert former in cluster.believed(0)
        assert len(replica.errors) == 1
        assert "state.json" in str(replica.errors[0])


@pytest.mark.parametrize("error", [PodiumError("the API server is away"), RuntimeError("a bug")])
async def test_without_an_api_server_serving_and_renewing_go_on(tmp_path: Path, error: Exception) -> None:
    """A due leaf is renewed although the bundle cannot be read; a bug is logged with its traceback."""
    cluster = _Cluster()
    cluster.error = error
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: replica.errors)
        assert str(error) in str(replica.errors[0])
        assert ("Traceback" in str(replica.errors[0])) is isinstance(error, RuntimeError)
        before = replica.serving.fingerprint
        content = await replica.store.read()
        assert content.stored is not None
        ca = content.stored.signer
        old = certificates.leaf(
            ca, certificates.new_key(), pki.NAMES, pki.now() - pki.HOUR, pki.now() + pki.HOUR
        )
        stored = Stored(signer=ca, serving=old, reports=content.stored.reports)
        assert await replica.store.write(stored, content.version)
        await _until(lambda: RotationStep.RENEW in replica.events)
        await _until(lambda: replica.serving.fingerprint != before)
        cluster.error = None
        await _until(lambda: replica.rotator.registered)


async def test_a_deleted_configuration_is_published_again(tmp_path: Path) -> None:
    cluster = _Cluster()
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: replica.rotator.registered)
        bundle = cluster.believed(0)
        cluster.bundles.clear()
        await _until(lambda: cluster.bundles)
        assert cluster.believed(0) == bundle


async def test_a_registration_that_is_about_to_change_is_no_error(tmp_path: Path) -> None:
    """The first registration is open, and the read after it already asks for the closed one."""
    cluster = _Cluster()
    cluster.overwritten = cluster.settling = True
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: len(cluster.bundles) > 1)
        cluster.overwritten = cluster.settling = False
        await _until(lambda: replica.rotator.registered)
        assert replica.errors == []


async def test_an_overwritten_bundle_is_logged_and_no_ca_is_replaced(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.overwritten = True
    async with _running(tmp_path, cluster) as replica:
        await _until(lambda: replica.errors)
        assert "another registration" in str(replica.errors[0])
        (tmp_path / "state.json").unlink()
        await _until(lambda: len(replica.errors) > 3)
        assert RotationStep.SWITCH not in replica.events
        cluster.overwritten = False
        await _until(lambda: RotationStep.SWITCH in replica.events)


async def test_without_a_publisher_a_deleted_state_is_put_back_as_it_was(tmp_path: Path) -> None:
    """The API servers would not learn of another CA."""
    async with _running(tmp_path, None) as replica:
        before = await replica.store.read()
        (tmp_path / "state.json").unlink()
        await _until((tmp_path / "state.json").exists)
        assert await replica.store.read() == before
        assert replica.rotator.registered


async def test_without_a_publisher_a_ca_about_to_expire_is_told_of_once(tmp_path: Path) -> None:
    periods = _QUICK._replace(ca=timedelta(hours=1))
    replica = _Replica(tmp_path, periods=periods)
    await replica.rotator.load_pair()
    replica.rotator._periods = periods._replace(ca=timedelta(days=365))
    for _ in range(3):
        await replica.rotator.turn()
    assert replica.errors == ["the CA must be replaced, which needs --register-url or --register-service"]


class _Faster(FolderStore):
    """A store in which another writer is always faster."""

    async def write(self, stored: Stored, version: str) -> bool:  # noqa: ARG002 - the store's signature
        return False


async def test_a_store_that_never_takes_a_write_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="change faster than they are read"):
        await _rotator(_Faster(tmp_path), jitter=lambda: 0.0).load_pair()


class _ReadOnly(FolderStore):
    """A store that refuses writes until they are allowed."""

    allowed = False

    async def write(self, stored: Stored, version: str) -> bool:
        if not self.allowed:
            raise PodiumError("forbidden: secrets")
        return await super().write(stored, version)


async def test_a_replica_starts_while_its_store_takes_no_write(tmp_path: Path) -> None:
    """It serves the stored leaf at once, and reports itself when it may write."""
    first = _Replica(tmp_path)
    await first.rotator.load_pair()
    again, store = _Replica(tmp_path, port=2), _ReadOnly(tmp_path)
    again.rotator._store = store
    await again.rotator.load_pair()
    assert again.serving.fingerprint == first.serving.fingerprint
    assert again.errors == ["forbidden: secrets"]
    store.allowed = True
    await again.rotator.turn()
    stored = (await store.read()).stored
    assert stored is not None
    assert {report.replica for report in stored.reports} == {"replica-1", "replica-2"}


async def test_an_empty_store_that_takes_no_write_is_fatal_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="forbidden: secrets"):
        await _rotator(_ReadOnly(tmp_path)).load_pair()


class _Stuck(FolderStore):
    """A store that, once it holds a state, is locked by a stopped replica."""

    async def write(self, stored: Stored, version: str) -> bool:
        return not version and await super().write(stored, version)


async def test_a_store_that_is_stuck_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Withdrawing is given up after a moment; the report then expires with its leaf."""
    logged: list[str] = []
    rotator = _rotator(_Stuck(tmp_path), log_event=lambda event, _fields: logged.append(event))
    await rotator.load_pair()
    kept = asyncio.create_task(rotator.run())
    await asyncio.sleep(0)
    kept.cancel()
    await asyncio.wait([kept])
    assert logged[-1] == "replica not withdrawn"


async def test_a_client_ca_that_changes_is_noticed(tmp_path: Path) -> None:
    """A bad one is logged; the certificates are kept meanwhile."""
    file = tmp_path / "client-ca.crt"
    file.write_bytes(pki.authority().certificate)
    serving = Serving(pki.NAMES, client_ca=file)
    replica = _Replica(tmp_path / "certs", serving=serving)
    await replica.rotator.load_pair()
    kept = asyncio.create_task(replica.rotator.run())
    file.write_bytes(b"")
    await _until(lambda: replica.errors)
    assert "client-ca.crt" in str(replica.errors[0])
    file.write_bytes(pki.authority().certificate)
    await _until(lambda: "client authorities loaded" in replica.events)
    kept.cancel()
    await asyncio.wait([kept])


def _more(logged: _Said, count: int) -> bool:
    return len(logged) > count


def _serves(serving: Serving, fingerprint: str) -> bool:
    return serving.fingerprint == fingerprint


class _Volume:
    """A projected volume as the kubelet writes it: links to a folder of each version, swapped at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._editions = itertools.count()
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")

    def swap(self, pair: Pair) -> None:
        edition = self.folder / f"..{next(self._editions)}"
        edition.mkdir()
        pki.write(edition, pair)
        (self.folder / "..data_tmp").symlink_to(edition.name)
        (self.folder / "..data_tmp").replace(self.folder / "..data")

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


async def test_provided_certificates_are_followed_and_never_written(tmp_path: Path) -> None:
    """RSA after ECDSA after a bad pair; the folder is read-only."""
    ca, volume, serving = pki.authority(), _Volume(tmp_path), Serving(pki.NAMES)
    logged = _Said()
    watcher = CertificateWatcher(
        tmp_path,
        serving,
        None,
        now=pki.now,
        log_event=lambda event, fields: logged.append((event, fields)),
        poll=0.02,
    )
    assert watcher.registered
    volume.swap(pki.leaf(ca))
    await watcher.load_pair()
    watching = asyncio.create_task(watcher.run())
    async with pki.listening(serving) as port:
        for pair in (pki.rsa_leaf(ca), pki.leaf(ca)):
            bad = Pair(pki.leaf(ca).certificate, pair.key)
            before, count = serving.fingerprint, len(logged)
            volume.swap(bad)
            await _until(partial(_more, logged, count))
            assert "does not belong" in str(logged[-1][1]["error"])
            assert (await pki.ask(port, pki.client(ca.certificate)))[1] == before
            volume.swap(pair)
            expected = certificates.facts(pair.certificate).fingerprint
            await _until(partial(_serves, serving, expected))
            assert (await pki.ask(port, pki.client(ca.certificate)))[1] == expected
        files = volume.files()
        shutil.rmtree(tmp_path / "..data", ignore_errors=True)
        (tmp_path / "..data").unlink()
        await _until(lambda: "No such file" in str(logged[-1][1].get("error")))
        assert (await pki.ask(port, pki.client(ca.certificate)))[0] == "welcome"
    watching.cancel()
    await asyncio.wait([watching])
    assert files == sorted({"tls.crt", "tls.key", "..data", *(f"..{number}" for number in range(5))})
    assert "PRIVATE" not in str(logged)


async def test_a_lasting_failure_is_logged_once(tmp_path: Path) -> None:
    """An API server that is down for an hour gives one log line, and so does its next absence."""
    pki.write(tmp_path, pki.leaf(pki.authority()))
    logged: list[str] = []
    turns = itertools.count(1)

    async def sleep(_: float) -> None:
        turn = next(turns)
        if turn in (3, 9):
            (tmp_path / "tls.crt").rename(tmp_path / "away")
        elif turn == 6:
            (tmp_path / "away").rename(tmp_path / "tls.crt")
        elif turn == 12:
            raise asyncio.CancelledError

    watcher = CertificateWatcher(
        tmp_path,
        Serving(pki.NAMES),
        None,
        now=pki.now,
        log_event=lambda event, _: logged.append(event),
        sleep=sleep,
    )
    with pytest.raises(asyncio.CancelledError):
        await watcher.run()
    assert logged == ["certificate loaded", "certificates not kept", "certificates not kept"]


@pytest.mark.parametrize("conflicts", [1, 8, 9])
async def test_a_conflict_is_normal_unless_it_repeats(tmp_path: Path, conflicts: int) -> None:
    """Replicas that start together and an install write to the same objects. The next turn follows soon."""
    cluster = _Cluster()
    cluster.error = RefusedError("server", "PATCH /podgroups", 409, "Conflict", "changed since it was read")
    logged = _Said()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == conflicts:
            cluster.error = None
        elif len(waits) > conflicts:
            raise asyncio.CancelledError

    rotator = _rotator(
        FolderStore(tmp_path),
        cluster=cluster,
        log_event=lambda event, fields: logged.append((event, dict(fields))),
        monotonic=lambda: 0.0,
        sleep=sleep,
        jitter=lambda: 0.5,
    )
    await rotator.load_pair()
    with pytest.raises(asyncio.CancelledError):
        await rotator.run()
    assert waits[:conflicts] == [1.0] * min(conflicts, 8) + [10.0] * (conflicts - 8)
    assert [event for event, _ in logged].count("certificates changed meanwhile") == min(conflicts, 8)
    assert [event for event, fields in logged if "error" in fields] == ["certificates not kept"] * (
        conflicts - 8
    )


async def test_provided_certificates_must_be_good_at_the_start(tmp_path: Path) -> None:
    watcher = CertificateWatcher(
        tmp_path, Serving(pki.NAMES), None, now=pki.now, log_event=lambda _event, _fields: None
    )
    with pytest.raises(PodiumError, match=r"tls\.crt: No such file"):
        await watcher.load_pair()
    pki.write(tmp_path, pki.leaf(pki.authority(), ("other.example",)))
    with pytest.raises(PodiumError, match=r"tls\.crt, tls\.key: the certificate is not for"):
        await watcher.load_pair()
