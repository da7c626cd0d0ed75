"""The manager with a fake API server whose events are late and whose writes fail: the result is right.

The stored objects and the known objects differ here. Pods and groups come by two watches, each of which may
be behind by any number of changes. Writes are refused as an API server refuses them, and answers get lost.
When all is quiet every group must have true conditions. Each time must be that of its last flip, and no
further write may follow.
"""

import asyncio
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given
from prometheus_client import CollectorRegistry
from tests.support.audit.builders import NS, pod, pod_group
from tests.support.informer.changing import Time
from tests.unit.controllers.test_queue import settled

from podium.api.core import Namespace, Pod
from podium.api.events import EventDraft
from podium.api.groups import FINALIZER, PodGroup
from podium.api.membership import key_of
from podium.api.meta import Condition, ObjectMeta
from podium.cluster.state import ClusterState, Readable
from podium.controllers.actions import Action, ApplyConditions, SetFinalizers
from podium.controllers.conditions import OURS, PRIORITY, judged
from podium.controllers.manager import Manager, Rules
from podium.controllers.metrics import ReconcilerMetrics
from podium.errors import PodiumError
from podium.groups.divergence import ServerInfo
from podium.kube.connection import RefusedError
from podium.kube.preconditions import StaleError
from podium.runtime.workqueue import Workqueue

SERVER = ServerInfo(37, "1.37")
START = datetime(2026, 11, 21, 16, tzinfo=UTC)
NAMES = ("one", "two")
PODS = ("a", "b", "c")
# Enough for every backoff, and for writes that only change a message.
LONG = 200.0


def refusal(code: int, reason: str) -> RefusedError:
    """Return the error that the connection raises."""
    return RefusedError("server", "PATCH", code, reason, "no")


class Api:
    """The stored objects, and the part of them that the state knows."""

    def __init__(self, time: Time, *, podium: bool) -> None:
        self.time = time
        self.podium = podium
        self.state = ClusterState(native_served=not podium)
        self.stored: dict[tuple[type, str], Any] = {}
        self.news: dict[type, deque[tuple[Readable | None, Readable]]] = {Pod: deque(), PodGroup: deque()}
        self.writes: list[Action] = []
        self.faults: deque[str] = deque()
        self._version = 0
        self.state.apply(Namespace(metadata=ObjectMeta(name=NS)))

    async def ready(self) -> None:
        """The lists were read when the server was empty."""

    def now(self) -> datetime:
        """Return the time."""
        return START + timedelta(seconds=self.time.now)

    def store(self, obj: Any) -> int:
        """Store an object as its next version."""
        self._version += 1
        meta = msgspec.structs.replace(obj.metadata, resourceVersion=str(self._version))
        meta.uid = meta.uid or f"uid-{self._version}"
        obj = msgspec.structs.replace(obj, metadata=meta)
        self.stored[type(obj), meta.name or ""] = obj
        self.news[type(obj)].append((obj, obj))
        return self._version

    def drop(self, kind: type, name: str) -> None:
        """Delete an object: at once, or when its finalizers are gone."""
        obj = self.stored.get((kind, name))
        if obj is None:
            return
        if obj.metadata.finalizers:
            meta = msgspec.structs.replace(obj.metadata, deletionTimestamp="2026-11-21T16:00:00Z")
            self.store(msgspec.structs.replace(obj, metadata=meta))
            return
        self._version += 1
        del self.stored[kind, name]
        self.news[kind].append((None, obj))

    def tell(self, kind: type, count: int) -> None:
        """Deliver some events."""
        for _ in range(min(count, len(self.news[kind]))):
            after, obj = self.news[kind].popleft()
            if after is not None:
                self.state.apply(after)
            else:
                self.state.remove(obj)

    async def perform(self, action: Action) -> int:
        """Write as an API server does."""
        fault = self.faults.popleft() if self.faults else ""
        await asyncio.sleep(0)
        if fault == "busy":
            raise RefusedError("server", "PATCH", 429, "TooManyRequests", "later", retry_after=3)
        if fault == "broken":
            raise refusal(500, "InternalError")
        if fault == "late":
            raise TimeoutError
        assert isinstance(action, ApplyConditions | SetFinalizers)
        group = self.stored.get((PodGroup, action.ref.name))
        if group is None:
            raise StaleError(refusal(404, "NotFound"), gone=True)
        if group.metadata.resourceVersion != action.resource_version:
            raise StaleError(refusal(409, "Conflict"), gone=False)
        if group.metadata.uid != action.uid:
            raise StaleError(refusal(422, "Invalid"), gone=True)
        self.writes.append(action)
        version = self.store(_written(group, action))
        if isinstance(action, SetFinalizers) and group.metadata.deletionTimestamp and not action.finalizers:
            del self.stored[PodGroup, action.ref.name]
            self.news[PodGroup].append((None, group))
        if fault == "lost":
            raise PodiumError("the answer was lost")
        return version

    def group(self, name: str) -> PodGroup | None:
        """Return a stored group."""
        found: PodGroup | None = self.stored.get((PodGroup, name))
        return found


def _written(group: PodGroup, action: ApplyConditions | SetFinalizers) -> PodGroup:
    if isinstance(action, ApplyConditions):
        others = tuple(each for each in group.conditions if each.type not in OURS)
        return msgspec.structs.replace(group, conditions=(*others, *action.conditions))
    meta = msgspec.structs.replace(group.metadata, finalizers=list(action.finalizers) or None)
    return msgspec.structs.replace(group, metadata=meta)


class World:
    """A running manager for an API."""

    def __init__(self, *, podium: bool = False, rules: Rules | None = None) -> None:
        self.time = Time()
        self.api = Api(self.time, podium=podium)
        self.notes: list[EventDraft] = []
        self.bugs: list[str] = []
        self.logged: list[str] = []
        metrics = ReconcilerMetrics(CollectorRegistry())
        self.manager = Manager(
            self.api,
            self.api.perform,
            rules or Rules(preemption_policy=True, writers=2),
            metrics,
            self.notes.append,
            server=lambda: SERVER,
            new_queue=lambda: Workqueue(
                clock=self.time.clock,
                sleep=self.time.sleep,
                random=lambda: 0.0,
                log_event=lambda event, fields: self.bugs.append(f"{event} {fields}"),
                waited=lambda _: None,
                failed=lambda: None,
            ),
            clock=self.time.clock,
            now=self.api.now,
            log_event=lambda event, _: self.logged.append(event),
        )
        self._task: asyncio.Task[None] | None = None

    async def lead(self) -> None:
        """Start leading."""
        self._task = asyncio.create_task(self.manager.lead())
        await settled()

    async def lose(self) -> None:
        """Lose the lease: running workers are cancelled and awaited."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.time.advance(seconds)
        await settled()

    async def rest(self) -> None:
        """Deliver all events and end all waits, until nothing more happens."""
        if self._task is None:
            await self.lead()
        quiet, rounds = 0, 0
        while quiet < 3:
            before = len(self.api.writes), len(self.api.faults)
            for kind in (Pod, PodGroup):
                self.api.tell(kind, 1000)
            await self.advance(LONG)
            is_quiet = not any(self.api.news.values()) and before == (
                len(self.api.writes),
                len(self.api.faults),
            )
            quiet, rounds = quiet + 1 if is_quiet else 0, rounds + 1
            assert rounds < 100, "it never comes to rest"

    def member(self, name: str, group: str, priority: int, *, terminating: bool = False) -> Pod:
        """Make a member of a group."""
        native, podium = ("", group) if self.api.podium else (group, "")
        return pod(name, priority=priority, owner=None, group=native, podium=podium, terminating=terminating)

    def condition(self, name: str) -> Condition | None:
        """Return a stored group's condition."""
        group = self.api.group(name)
        assert group is not None
        return next((each for each in group.conditions if each.type == PRIORITY), None)


FAULTS = st.sampled_from(("busy", "broken", "late", "lost"))
STEPS = st.one_of(
    st.tuples(
        st.just("pod"), st.sampled_from(PODS), st.sampled_from(NAMES), st.sampled_from((0, 5)), st.booleans()
    ),
    st.tuples(st.just("finish"), st.sampled_from(PODS)),
    st.tuples(st.just("drop pod"), st.sampled_from(PODS)),
    st.tuples(st.just("group"), st.sampled_from(NAMES), st.sampled_from((0, 5))),
    st.tuples(st.just("drop group"), st.sampled_from(NAMES)),
    st.tuples(st.just("meddle"), st.sampled_from(NAMES)),
    st.tuples(st.just("tell"), st.sampled_from((Pod, PodGroup)), st.integers(1, 3)),
    st.tuples(st.just("pass"), st.sampled_from((0.1, 1.0, 5.0, 30.0))),
    st.tuples(st.just("fault"), FAULTS),
    st.tuples(st.just("lead")),
    st.tuples(st.just("lose")),
)


async def play(world: World, steps: list[tuple[Any, ...]]) -> None:
    """Carry out the steps."""
    api = world.api
    for step in steps:
        match step:
            case ("pod", name, group, priority, leaving):
                if (Pod, name) not in api.stored:
                    api.store(world.member(name, group, priority, terminating=leaving))
            case ("finish", name):
                if found := api.stored.get((Pod, name)):
                    status = msgspec.structs.replace(found.status, phase="Succeeded")
                    api.store(msgspec.structs.replace(found, status=status))
            case ("drop pod", name):
                api.drop(Pod, name)
            case ("group", name, priority):
                if (PodGroup, name) not in api.stored:
                    api.store(pod_group(name, priority=priority, podium=api.podium))
            case ("drop group", name):
                api.drop(PodGroup, name)
            case ("meddle", name):
                if found := api.stored.get((PodGroup, name)):
                    wrong = Condition(PRIORITY, "True", "Because", "I say so", "2026-01-01T00:00:00Z")
                    api.store(msgspec.structs.replace(found, conditions=(wrong,)))
            case ("tell", kind, count):
                api.tell(kind, count)
            case ("pass", seconds):
                await world.advance(seconds)
            case ("fault", fault):
                api.faults.append(fault)
            case ("lead",):
                await world.lose()
                await world.lead()
            case _:
                await world.lose()
        await settled()


def assert_true(world: World) -> None:
    """Assert that the conditions of every group are true and complete."""
    for name in NAMES:
        group = world.api.group(name)
        if group is None:
            continue
        members = world.api.state.members(key_of(group)).values()
        if group.metadata.deletionTimestamp is not None:
            assert any(not each.finished for each in members), "nothing needs it and it is still there"
            continue
        assert (FINALIZER in (group.metadata.finalizers or ())) is world.api.podium
        want = {
            each.condition.type: each.condition for each in judged(group, members, {}, SERVER, policy=True)
        }
        have = {each.type: each for each in group.conditions}
        for kind, condition in want.items():
            if kind in have:
                assert msgspec.structs.replace(have[kind], lastTransitionTime=None) == condition
            else:
                assert condition.status == "False"


@given(podium=st.booleans(), steps=st.lists(STEPS, max_size=25))
def test_whatever_happens_the_end_is_right_and_then_nothing_is_written(
    steps: list[tuple[Any, ...]], *, podium: bool
) -> None:
    """Events are late, writes fail, the lease is lost and acquired again."""

    async def scenario() -> None:
        world = World(podium=podium)
        await play(world, steps)
        await world.rest()
        assert not world.bugs
        assert_true(world)
        written = len(world.api.writes)
        await world.advance(LONG)
        await world.lose()
        await world.lead()
        await world.advance(LONG)
        assert len(world.api.writes) == written, world.api.writes[written:]
        await world.lose()

    asyncio.run(scenario())


@given(podium=st.booleans(), steps=st.lists(STEPS, max_size=15), faults=st.lists(FAULTS, max_size=4))
def test_a_leader_that_retires_leaves_no_mark(
    steps: list[tuple[Any, ...]], faults: list[str], *, podium: bool
) -> None:
    """Groups lose the finalizer and our conditions, whatever happened before; deleted groups are gone."""

    async def scenario() -> None:
        world = World(podium=podium)
        await play(world, steps)
        await world.rest()
        await world.lose()
        world.api.faults.extend(faults)
        retiring = asyncio.create_task(world.manager.retire(LONG))
        for _ in range(50):
            await world.advance(1.0)
            for kind in (Pod, PodGroup):
                world.api.tell(kind, 1)
            await world.advance(LONG)
        assert retiring.done()
        assert world.logged[-1] == "groups released"
        for name in NAMES:
            group = world.api.group(name)
            if group is not None:
                assert FINALIZER not in (group.metadata.finalizers or ())
                assert not [each for each in group.conditions if each.type in OURS]
                assert group.metadata.deletionTimestamp is None
        assert not world.bugs

    asyncio.run(scenario())


async def test_a_leader_that_retires_gives_up_in_time() -> None:
    """An API server that refuses every write holds nothing up."""
    world = World(podium=True)
    world.api.store(pod_group("one", priority=5, podium=True))
    await world.rest()
    await world.lose()
    world.api.faults.extend(["broken"] * 100)
    await asyncio.wait_for(world.manager.retire(0.05), 10)
    assert world.logged[-1] == "groups released"
    group = world.api.group("one")
    assert group is not None
    assert group.metadata.finalizers == [FINALIZER]


@given(statuses=st.lists(st.booleans(), max_size=12))
def test_a_condition_flips_as_often_as_the_truth_and_tells_each_time(statuses: list[bool]) -> None:
    """Each flip causes one write, one event and one new time; nothing else causes any."""

    async def scenario() -> None:
        world = World(rules=Rules(preemption_policy=False, writers=2))
        world.api.store(pod_group("one", priority=5))
        world.api.store(world.member("a", "one", 5))
        await world.rest()
        now, flips = False, 0
        for status in statuses:
            if status and not now:
                world.api.store(world.member("b", "one", 0))
            elif now and not status:
                world.api.drop(Pod, "b")
            flips, now = flips + (status != now), status
            await world.rest()
            condition = world.condition("one")
            assert (condition is not None and condition.status == "True") is now
        assert len(world.api.writes) == len(world.notes) == flips
        assert len({note.token for note in world.notes}) == flips
        await world.lose()

    asyncio.run(scenario())


async def test_groups_and_pods_in_doubt_are_counted_by_namespace_and_cause() -> None:
    """The count ends once the pods agree, or once another replica leads."""
    world = World()
    world.api.store(pod_group("one", priority=5, class_name="gold"))
    world.api.store(world.member("a", "one", 0))
    world.api.store(world.member("b", "one", 0))
    await world.rest()
    assert [dict(each) for each in world.manager.divergent()] == [
        {(NS, "other-class"): 1},
        {(NS, "other-class"): 2},
    ]
    world.api.drop(Pod, "a")
    await world.rest()
    assert world.manager.divergent()[1] == {(NS, "other-class"): 1}
    await world.lose()
    assert [dict(each) for each in world.manager.divergent()] == [{}, {}]


async def test_a_busy_server_is_left_alone_as_long_as_it_asks() -> None:
    """The Retry-After of the server overrides our own backoff."""
    world = World()
    world.api.faults.append("busy")
    world.api.store(pod_group("one", priority=5))
    world.api.store(world.member("a", "one", 0))
    await world.lead()
    world.api.tell(Pod, 1)
    world.api.tell(PodGroup, 1)
    await settled()
    await world.advance(2.9)
    assert not world.api.writes
    await world.advance(1.0)
    assert len(world.api.writes) == 1
    await world.lose()


async def test_a_conflict_over_a_group_has_a_steady_rate() -> None:
    """If another client keeps removing our finalizer, a minute costs a burst and a few writes."""
    world = World(podium=True)
    world.api.store(pod_group("one", podium=True))
    await world.rest()
    before = len(world.api.writes)
    for _ in range(600):
        group = world.api.group("one")
        assert group is not None
        if group.metadata.finalizers:
            meta = msgspec.structs.replace(group.metadata, finalizers=None)
            world.api.store(msgspec.structs.replace(group, metadata=meta))
        world.api.tell(PodGroup, 10)
        await world.advance(0.1)
    assert 10 < len(world.api.writes) - before < 30
    await world.lose()


async def test_a_server_that_refuses_everything_is_complained_of_once() -> None:
    """The log has one line instead of one for each group, and another after a write has succeeded."""
    world = World()
    for name in NAMES:
        world.api.store(pod_group(name, priority=5))
        world.api.store(world.member(f"of-{name}", name, 0))
    world.api.faults.extend(["broken"] * 5)
    await world.rest()
    assert world.logged.count("write failed") == 1
    await world.lose()
