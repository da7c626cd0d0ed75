"""Replicas that share a store, interleaved at every await, stopped, killed and restarted at any of them.

Each replica is the real CertificateRotator over the real rotation; the store, the API server and the clock
are a model. The one invariant concerns any certificate that a replica presents and that has not expired. A
CA in every bundle that an API server may hold signed it, which is any bundle published within the last grace
period.
"""

import contextlib
from collections.abc import Coroutine, Generator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.errors import PodiumError
from podium.webhooks import certificates
from podium.webhooks.renewal import CertificateRotator
from podium.webhooks.rotation import Periods, ReplicaReport, Stored
from podium.webhooks.stores import StoreContent
from podium.webhooks.tls import Serving

_START = datetime(2026, 11, 21, tzinfo=UTC)
_PERIODS = Periods(
    ca=timedelta(seconds=120),
    leaf=timedelta(seconds=60),
    skew=timedelta(seconds=5),
    grace=timedelta(seconds=10),
    poll=timedelta(seconds=10),
    # Replicas stall here for the lifetime of a leaf: none of them counts as gone before that.
    patience=1000,
)
_NAMES = ("podium-webhook.podium-system.svc",)
_PORTS = (1, 2, 3)
# An example costs as much as many of others, even with each signature verified only once.
_EXAMPLES = settings().max_examples


class _Pause:
    """A point at which another replica may run."""

    def __await__(self) -> Generator[None]:
        yield


class _World:
    """The store, the API server with its past bundles, the clock and the replicas by port."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.stored: Stored | None = None
        self.version = 0
        self.bundle: bytes | None = None
        self.resource_version = 0
        self.superseded: list[tuple[float, bytes]] = []
        self.replicas: dict[int, _Node] = {}

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.seconds)

    def believed(self) -> Iterator[bytes]:
        """Return the bundles that an API server may verify by."""
        if self.bundle is not None:
            yield self.bundle
        oldest = self.seconds - _PERIODS.grace.total_seconds()
        yield from (bundle for until, bundle in self.superseded if until > oldest)

    def check(self) -> None:
        """Check the invariant."""
        for node in self.replicas.values():
            pair = node.serving._pair
            if pair is None or node.serving.expiry is None or self.now() >= node.serving.expiry:
                continue
            for bundle in self.believed():
                assert _vouches(bundle, pair.certificate), f"{node.port} at {self.seconds}"


class _Store:
    def __init__(self, world: _World) -> None:
        self._world = world

    async def read(self) -> StoreContent:
        await _Pause()
        found = StoreContent(self._world.stored, str(self._world.version))
        await _Pause()
        return found

    async def write(self, stored: Stored, version: str) -> bool:
        await _Pause()
        written = version == str(self._world.version)
        if written:
            self._world.stored = stored
            self._world.version += 1
        await _Pause()
        return written


class _Publisher:
    """Overwrites the version it read, like the real store by resourceVersion."""

    settling = False

    def __init__(self, world: _World) -> None:
        self._world = world
        self._read = 0

    async def registered(self) -> list[bytes]:
        await _Pause()
        return [self._world.bundle] if self._world.bundle is not None else []

    async def published(self, bundle: bytes | None) -> bool:
        await _Pause()
        self._read = self._world.resource_version
        there = self._world.bundle
        await _Pause()
        return there == bundle

    async def publish(self, bundle: bytes | None) -> None:
        await _Pause()
        world = self._world
        if self._read != world.resource_version:
            raise PodiumError("conflict")
        if world.bundle is not None:
            world.superseded.append((world.seconds, world.bundle))
        world.bundle = bundle
        world.resource_version += 1
        await _Pause()


class _Node:
    """A running replica and its progress."""

    def __init__(self, world: _World, port: int) -> None:
        self.port = port
        self.serving = Serving(_NAMES)
        self._world = world
        self._rotator = CertificateRotator(
            _Store(world),
            self.serving,
            _Publisher(world),
            names=_NAMES,
            replica=f"replica-{port}",
            address=("127.0.0.1", port),
            periods=_PERIODS,
            now=world.now,
            monotonic=lambda: world.seconds,
            sleep=_sleep,
            jitter=lambda: 0.5,
            log_event=lambda _event, _fields: None,
            probe=self._probe,
        )
        self._program = self._run()

    def step(self) -> None:
        self._program.send(None)

    def stop(self) -> None:
        self._program.close()

    def _run(self) -> Coroutine[Any, Any, None]:
        async def program() -> None:
            await self._rotator.load_pair()
            while True:
                with contextlib.suppress(PodiumError):
                    await self._rotator.turn()
                await _Pause()

        return program()

    async def _probe(self, reports: Sequence[ReplicaReport], bundle: bytes) -> Sequence[bool]:
        answers = []
        for report in reports:
            await _Pause()
            node = self._world.replicas.get(report.address[1])
            pair = node.serving._pair if node else None
            answers.append(pair is not None and _vouches(bundle, pair.certificate))
            await _Pause()
        return answers


async def _sleep(seconds: float) -> None:
    assert seconds >= 0
    await _Pause()


@cache
def _vouches(bundle: bytes, certificate: bytes) -> bool:
    begin = b"-----BEGIN"
    return any(certificates.issued(certificate, begin + ca) for ca in bundle.split(begin)[1:])


@pytest.fixture(autouse=True, scope="module")
def _verified_once() -> Iterator[None]:
    """Reading and verifying the same bytes gives the same result; here they are the most of the work."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_certificates", "_key", "_signed", "facts"):
            patch.setattr(certificates, name, cache(getattr(certificates, name)))
        yield


_port = st.sampled_from(_PORTS)
_moves = st.lists(
    st.one_of(
        st.tuples(st.just("step"), _port, st.integers(1, 20)),
        st.tuples(st.just("step"), _port, st.integers(1, 3)),
        st.tuples(st.just("tick"), st.just(0), st.sampled_from([1, 5, 11])),
        st.tuples(st.just("tick"), st.just(0), st.sampled_from([1, 11, 25, 70])),
        st.tuples(st.sampled_from(["kill", "kill", "delete"]), _port, st.just(0)),
        # A time without faults for one or two of them.
        st.tuples(st.just("work"), _port, st.integers(1, 6)),
        st.tuples(st.just("work"), _port, st.integers(1, 6)),
    ),
    min_size=20,
    max_size=100,
)


def _move(world: _World, kind: str, port: int, count: int) -> None:
    if kind == "tick":
        world.seconds += count
    elif kind == "delete":
        world.bundle = None
        world.resource_version += 1
    elif kind == "lose":
        world.stored = None
        world.version += 1
    elif kind == "work":
        for _ in range(count):
            world.seconds += 4
            for each in {port, 1}:
                _move(world, "step", each, 12)
    elif kind == "kill":
        if port in world.replicas:
            world.replicas.pop(port).stop()
    else:
        node = world.replicas.get(port) or world.replicas.setdefault(port, _Node(world, port))
        for _ in range(count):
            node.step()
            world.check()
    world.check()


@pytest.mark.parametrize("deleted", [False, True], ids=["as it was", "configuration deleted"])
@pytest.mark.parametrize("stalled", ["starting", "running"])
def test_a_replica_may_stall_at_any_await(stalled: str, deleted: bool) -> None:
    """A replica stops after each number of its steps in turn; the others replace the CA; then it continues.

    It may have been about to serve the old leaf, to publish the old bundle, or to write the old state.
    """
    for steps in range(20):
        world = _World()
        for port in (1, 2, 3) if stalled == "running" else (1, 2):
            _move(world, "step", port, 60)
        world.seconds = 75
        # The leaf is new, so that it outlives its CA's place in the bundle.
        _move(world, "step", 1, 24)
        if deleted:
            _move(world, "delete", 0, 0)
        _move(world, "step", 3, steps)
        for _ in range(15):
            world.seconds += 5
            for port in (1, 2):
                _move(world, "step", port, 12)
        _move(world, "step", 3, 40)
        for node in world.replicas.values():
            node.stop()


def test_a_deleted_state_is_put_back_by_a_replica_that_knows_it() -> None:
    """The invariant holds at each point of a rotation, also if a replica that slept notices first."""
    for rounds in range(15):
        world = _World()
        for port in (1, 2, 3):
            _move(world, "step", port, 60)
        world.seconds = 75
        for port in (1, 2, 3):
            _move(world, "step", port, 24)
        for _ in range(rounds):
            world.seconds += 5
            for port in (1, 2):
                _move(world, "step", port, 12)
        _move(world, "lose", 0, 0)
        for _ in range(10):
            for port in (3, 1, 2):
                _move(world, "step", port, 12)
            world.seconds += 5
        assert world.stored is not None
        for node in world.replicas.values():
            node.stop()


@settings(max_examples=_EXAMPLES // 5)
@given(_moves)
def test_no_api_server_ever_meets_a_leaf_it_cannot_verify(moves: list[tuple[str, int, int]]) -> None:
    """The invariant holds for all interleavings, stops and kills."""
    world = _World()
    # The three are idle, some seconds before the CA is due: the rare states come next.
    for port in _PORTS:
        _move(world, "step", port, 60)
    world.seconds = 75
    for move in moves:
        _move(world, *move)
    for node in world.replicas.values():
        node.stop()


@settings(max_examples=_EXAMPLES // 20)
@given(_moves)
def test_left_in_peace_a_rotation_completes(moves: list[tuple[str, int, int]]) -> None:
    """After any history, with one replica gone for good, the others replace the CA and serve valid leaves."""
    world = _World()
    for move in [*moves, ("kill", 3, 0)]:
        _move(world, *move)
    before = world.stored.signer if world.stored else None
    for _ in range(60):
        world.seconds += 5
        for port in (1, 2):
            _move(world, "step", port, 12)
    assert world.stored is not None
    assert world.stored.signer != before
    for node in world.replicas.values():
        assert node.serving.expiry is not None
        assert node.serving.expiry > world.now()
        node.stop()
