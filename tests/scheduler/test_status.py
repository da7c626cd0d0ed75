"""What pods and groups are told: the last word, once, on a lane that holds nothing up."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from tests.fixtures.servers import Server
from tests.informer.living import Time
from tests.scheduler.test_conditions import GOES, INITIALLY, WELL, group_with

from podium.api.groups import PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta
from podium.api.schedulable import SCHEDULING_READS, Schedulable, SchedulableSpec, SchedulableStatus
from podium.errors import PodiumError
from podium.findings import ObjectRef
from podium.kube.connection import RefusedError, connect
from podium.note import Note
from podium.schedulerplugin.live.status import Statuses
from podium.schedulerplugin.live.writes import GoneError, Writes
from podium.schedulerplugin.scheduling.conditions import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.schedulerplugin.scheduling.effects import Evict, Key, PodRef, Preemptor, Report, Unit
from podium.service.queue import Queue
from podium.state import State

NOW = datetime(2026, 11, 21, 16, 0, 0, tzinfo=UTC)
KEY = GroupKey(False, "team", "train")
FULL, FULLER = "0/3 nodes are available: 3 Insufficient cpu.", "0/4 nodes are available: 4 Insufficient cpu."
PREEMPTOR = Preemptor("podgroup", "team", "mine", "uid-mine", 9)
PATIENCE_SECONDS = 30.0


def ref(name: str, uid: str = "") -> PodRef:
    """A pod of the team; its UID follows from its name."""
    return PodRef("team", name, uid or f"uid-{name}")


def pod(
    name: str,
    message: str = "",
    node: str = "",
    *,
    bound: str | None = None,
    uid: str = "",
    phase: str = "Pending",
    deleted: str | None = None,
) -> Schedulable:
    """A pod that was told a message, and has a node reserved."""
    told = [Condition("PodScheduled", "False", UNSCHEDULABLE, message)] if message else None
    return Schedulable(
        metadata=ObjectMeta(name=name, namespace="team", uid=uid or f"uid-{name}", deletionTimestamp=deleted),
        spec=SchedulableSpec(nodeName=bound),
        status=SchedulableStatus(phase=phase, nominatedNodeName=node or None, conditions=told),
    )


def report(
    message: str, *names: str, key: Key = ("team", "a"), reserved: Mapping[str, str] | None = None
) -> Report:
    """Tell some pods of the team; nodes are reserved for some."""
    nodes = tuple((ref(name), node) for name, node in (reserved or {}).items() if node)
    return Report(key, tuple(map(ref, names)), UNSCHEDULABLE, message, nodes)


class Api:
    """What is written, as a server has it; `outcomes` are those of the next writes, None for well."""

    def __init__(self, *outcomes: PodiumError | None) -> None:
        self.busy = False
        self.log: list[tuple[str, ...]] = []
        self.told: dict[PodRef, tuple[str, str]] = {}
        self.groups: dict[str, tuple[Condition, ...]] = {}
        self.held: asyncio.Event | None = None
        self._outcomes = list(outcomes)

    async def mark(self, pod: PodRef, condition: Condition) -> None:
        """Take a condition."""
        await self._end("mark", pod.name, condition.message or "")
        self.told[pod] = condition.message or "", self.told.get(pod, ("", ""))[1]

    async def nominate(self, pod: PodRef, node: str | None, condition: Condition) -> None:
        """Take a condition and a node."""
        assert node != "", "None is said for none"
        await self._end("nominate", pod.name, condition.message or "", node or "")
        self.told[pod] = condition.message or "", node or ""

    async def apply_group(self, _ref: ObjectRef, uid: str, conditions: Sequence[Condition]) -> None:
        """Take all conditions."""
        await self._end("group", uid, *(f"{each.type}={each.status}" for each in conditions))
        self.groups[uid] = tuple(conditions)

    async def _end(self, *said: str) -> None:
        if self.held is not None:
            await self.held.wait()
        self.log.append(said)
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is not None:
            raise outcome


class Scene:
    """Statuses at work in a time that stands."""

    def __init__(self, *outcomes: PodiumError | None) -> None:
        self.time = Time()
        self.state = State(native_served=True)
        self.api = Api(*outcomes)
        self.notes: list[Note] = []
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.queue = Queue[Key](
            clock=self.time.clock,
            sleep=self._sleep,
            random=lambda: 0.0,
            waited=lambda _seconds: None,
            failed=lambda: self.said.append(("a bug", {})),
            say=lambda what, fields: self.said.append((what, fields)),
        )
        self.statuses = Statuses(
            self.state,
            cast("Writes", self.api),
            self.queue,
            self.notes.append,
            "podium-scheduler",
            clock=self.time.clock,
            now=lambda: NOW,
            sleep=self._sleep,
            say=lambda what, fields: self.said.append((what, fields)),
        )

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self.time.sleep(seconds)

    async def advance(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that waits for nothing but its turn."""
        await self._settled()
        self.time.advance(seconds)
        await self._settled()

    async def _settled(self) -> None:
        for _ in range(40):
            await asyncio.sleep(0)

    def show(self) -> None:
        """Have the state catch up with the server."""
        for (_, name, uid), (message, node) in self.api.told.items():
            if ("team", name) in self.state.pods:
                self.state.apply(pod(name, message, node, uid=uid))


@asynccontextmanager
async def at_work(*outcomes: PodiumError | None) -> AsyncIterator[Scene]:
    """Statuses that work; nothing is said that a test does not expect."""
    scene = Scene(*outcomes)
    task = asyncio.create_task(scene.statuses.run())
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


def refused(code: int) -> RefusedError:
    """An API server's no."""
    return RefusedError("https://server", "PATCH /status", code, "", "because")


async def test_pods_are_told_once() -> None:
    """In a condition and in an event; not again, before and after the state shows it."""
    async with at_work() as scene:
        for name in ("a", "b"):
            scene.state.apply(pod(name))
        for again in range(3):
            scene.statuses.submit(report(FULL, "a", "b"))
            await scene.advance()
            if again == 1:
                scene.show()
        assert scene.api.log == [("mark", "a", FULL), ("mark", "b", FULL)]
        assert [(note.reason, note.regarding.name, note.text) for note in scene.notes] == [
            ("FailedScheduling", "a", FULL),
            ("FailedScheduling", "b", FULL),
        ]
        assert scene.statuses.depth == 0
        await scene.advance(60.0)
        scene.statuses.submit(report(FULL, "a", "b"))
        await scene.advance()
        assert len(scene.api.log) == 2


async def test_only_the_last_word_counts() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a"))
        for message in (FULL, FULLER, "last"):
            scene.statuses.submit(report(message, "a"))
        await scene.advance()
        assert scene.api.log == [("mark", "a", "last")]


async def test_a_word_that_was_taken_back_is_not_said() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL))
        scene.statuses.submit(report(FULLER, "a"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        assert scene.api.log == []
        assert scene.statuses.depth == 0


@pytest.mark.parametrize("last", [FULL, FULLER])
async def test_what_is_on_its_way_counts_as_said(last: str) -> None:
    """The state shows the older word still; what is said meanwhile is compared with the newer one."""
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL))
        scene.api.held = asyncio.Event()
        scene.statuses.submit(report(FULLER, "a"))
        await scene.advance()
        scene.statuses.submit(report(last, "a"))
        scene.api.held.set()
        await scene.advance()
        assert scene.api.told[ref("a")][0] == last
        assert len(scene.api.log) == (2 if last == FULL else 1)


async def test_what_the_state_never_shows_is_said_again_in_the_end() -> None:
    """Somebody else wrote over it, say."""
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL))
        for wait in (0.0, 9.0, 2.0):
            await scene.advance(wait)
            scene.statuses.submit(report(FULLER, "a"))
            await scene.advance()
        assert scene.api.log == [("mark", "a", FULLER)] * 2


MOOT = {
    "bound": pod("a", bound="node-1"),
    "another of its name": pod("a", uid="uid-later"),
    "finished": pod("a", phase="Failed"),
    "being deleted": pod("a", deleted="2026-11-21T16:00:00Z"),
    "gone": None,
}


@pytest.mark.parametrize("late", [False, True], ids=["at once", "while it waits"])
@pytest.mark.parametrize("after", MOOT.values(), ids=MOOT.keys())
async def test_nobody_is_told_what_is_pointless(after: Schedulable | None, late: bool) -> None:
    """It costs nothing of the rate, so the others wait no longer for it."""
    async with at_work() as scene:
        scene.api.busy = late
        scene.state.apply(pod("a"))
        scene.statuses.submit(report(FULL, "a"))
        if late:
            await scene.advance()
        if after is None:
            scene.state.remove(pod("a"))
        else:
            scene.state.apply(after)
        scene.api.busy = False
        await scene.advance(1.0)
        assert scene.api.log == []
        assert scene.notes == []
        assert scene.statuses.depth == 0


NODES = {
    "reserved": ("", "node-1", ("nominate", "a", FULL, "node-1")),
    "another": ("node-2", "node-1", ("nominate", "a", FULL, "node-1")),
    "not any more": ("node-1", "", ("nominate", "a", FULL, "")),
    "still": ("node-1", "node-1", ("mark", "a", FULL)),
    "never": ("", "", ("mark", "a", FULL)),
}


@pytest.mark.parametrize(("stored", "wanted", "want"), NODES.values(), ids=NODES.keys())
async def test_a_reserved_node_is_written_when_it_changes(stored: str, wanted: str, want: tuple[str]) -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a", "before", stored))
        scene.statuses.submit(report(FULL, "a", reserved={"a": wanted}))
        await scene.advance()
        assert scene.api.log == [want]


async def test_a_node_that_is_not_reserved_any_more_is_no_failure_to_tell_of() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL, "node-1"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        assert scene.api.log == [("nominate", "a", FULL, "")]
        assert scene.notes == []


def eviction(*units: Unit, key: Key = ("team", "a"), cleared: tuple[PodRef, ...] = ()) -> Evict:
    """A preemption that reserves node-1 for `a`."""
    return Evict(key, PREEMPTOR, ((ref("a"), "node-1"),), units, "node-1", FULLER, cleared)


async def test_no_older_report_undoes_what_an_evictor_writes() -> None:
    """It reserves a node for `a` and takes one from `b`, and writes both itself."""
    async with at_work() as scene:
        scene.api.busy = True
        for each in (pod("a"), pod("b", FULL, "node-1")):
            scene.state.apply(each)
        scene.statuses.submit(report(FULL, "a"))
        scene.statuses.submit(report("other", "b", reserved={"b": "node-1"}))
        await scene.advance()
        scene.statuses.began(eviction(cleared=(ref("b"),)))
        scene.api.busy = False
        await scene.advance(1.0)
        assert scene.api.log == [("mark", "b", "other")]
        told = [(note.regarding.name, note.text) for note in scene.notes]
        assert told == [("a", FULLER), ("b", "other")]


async def test_a_preemption_that_failed_gives_its_nodes_back() -> None:
    """Though the state does not show yet that they had been reserved."""
    async with at_work() as scene:
        scene.state.apply(pod("a"))
        scene.statuses.began(eviction())
        scene.statuses.submit(report(f"{FULLER} preemption: no", "a"))
        await scene.advance()
        assert scene.api.log == [("nominate", "a", f"{FULLER} preemption: no", "")]


async def test_hot_writes_go_first() -> None:
    """As long as they go on a trickle passes; then all of it."""
    async with at_work() as scene:
        names = [f"pod-{number}" for number in range(20)]
        for name in names:
            scene.state.apply(pod(name))
        scene.api.busy = True
        scene.statuses.submit(report(FULL, *names))
        for _ in range(249):
            await scene.advance(0.02)
        assert scene.api.log == []
        for _ in range(3):
            await scene.advance(0.02)
        assert len(scene.api.log) == 4
        scene.api.busy = False
        await scene.advance(0.02)
        assert len(scene.api.log) == 20


async def test_a_storm_is_written_at_a_bounded_rate() -> None:
    """A quarter of a hundred at once, then a hundred a second."""
    async with at_work() as scene:
        names = [f"pod-{number}" for number in range(300)]
        for name in names:
            scene.state.apply(pod(name))
        scene.statuses.submit(report(FULL, *names))
        for _ in range(3):
            await scene.advance()
        assert len(scene.api.log) == 25
        for _ in range(100):
            await scene.advance(0.01)
        assert 120 <= len(scene.api.log) <= 126
        for _ in range(200):
            await scene.advance(0.01)
        assert {name for _, name, _ in scene.api.log} == set(names)


async def test_what_has_no_room_is_left_to_a_later_attempt() -> None:
    scene = Scene()
    for number in range(20_005):
        scene.state.apply(pod(f"pod-{number}"))
        scene.statuses.submit(report(FULL, f"pod-{number}"))
    assert scene.statuses.depth == 20_000
    scene.statuses.submit(report(FULLER, "pod-7"))
    assert scene.statuses.depth == 20_000


async def test_a_pod_that_is_gone_on_the_server_is_nobodys_fault() -> None:
    async with at_work(GoneError("no such pod")) as scene:
        scene.state.apply(pod("a"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance(60.0)
        assert (len(scene.api.log), scene.said, scene.notes) == (1, [], [])


@pytest.mark.parametrize("code", [403, 422])
async def test_what_we_may_not_write_is_said_once_and_left(code: int) -> None:
    """The next attempt at the pod asks again."""
    async with at_work(refused(code), refused(code), refused(code)) as scene:
        for name in ("a", "b"):
            scene.state.apply(pod(name))
        for _ in range(2):
            scene.statuses.submit(report(FULL, "a", "b"))
            await scene.advance(60.0)
        assert len(scene.api.log) == 4
        assert [what for what, _ in scene.said] == ["status not written"]
        assert scene.api.told == {ref("b"): (FULL, "")}


@pytest.mark.parametrize("newer", [False, True], ids=["the same", "a newer word"])
async def test_a_server_in_trouble_is_asked_again(newer: bool) -> None:
    async with at_work(refused(500), PodiumError("no answer")) as scene:
        scene.state.apply(pod("a"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        if newer:
            scene.statuses.submit(report(FULLER, "a"))
        for _ in range(5):
            await scene.advance(1.0)
        assert scene.api.told[ref("a")][0] == (FULLER if newer else FULL)
        assert [note.text for note in scene.notes] == [FULLER if newer else FULL]
        assert scene.statuses.depth == 0


async def test_what_is_said_again_while_it_is_on_its_way_is_said_though_that_fails() -> None:
    async with at_work(refused(500)) as scene:
        scene.state.apply(pod("a"))
        scene.api.held = asyncio.Event()
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        scene.statuses.submit(report(FULL, "a"))
        scene.api.held.set()
        await scene.advance(1.0)
        assert scene.api.told == {ref("a"): (FULL, "")}


def whole(group: PodGroup = group_with()) -> Unit:  # noqa: B008 - a value that nothing changes
    """The unit that a group is."""
    return Unit("PodGroup", "team", "train", group.metadata.uid or "", 5, (ref("v1"), ref("v2")))


async def test_a_group_is_told_with_its_pods() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        for name in ("a", "b"):
            scene.state.apply(pod(name))
        scene.statuses.submit(report(FULL, "a", "b", key=KEY))
        await scene.advance()
        assert scene.api.log == [
            ("group", "uid-train", f"{INITIALLY}=False"),
            ("mark", "a", FULL),
            ("mark", "b", FULL),
        ]
        (condition,) = scene.api.groups["uid-train"]
        assert (condition.reason, condition.message) == (UNSCHEDULABLE, FULL)
        scene.statuses.submit(report(FULL, "a", "b", key=KEY))
        await scene.advance()
        assert len(scene.api.log) == 3


async def test_a_group_that_cannot_be_judged() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.submit(Report(KEY, (), SCHEDULER_ERROR, "a claim"))
        await scene.advance()
        (condition,) = scene.api.groups["uid-train"]
        assert (condition.reason, condition.message) == (SCHEDULER_ERROR, "a claim")


async def test_a_group_that_was_scheduled_stays_so() -> None:
    """Whatever is said before it was written, and whether or not the state shows it yet."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        scene.statuses.submit(Report(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        scene.statuses.submit(Report(KEY, (), UNSCHEDULABLE, FULLER))
        await scene.advance()
        assert scene.api.log == [("group", "uid-train", f"{INITIALLY}=True")]


async def test_a_group_that_is_evicted_is_a_target_until_it_is_scheduled_anew() -> None:
    """One apply has all that is ours, though the state shows none of it yet."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        await scene.advance()
        scene.statuses.began(eviction(whole()))
        await scene.advance()
        scene.statuses.placed(KEY, "again")
        await scene.advance()
        assert scene.api.log == [
            ("group", "uid-train", f"{INITIALLY}=True"),
            ("group", "uid-train", f"{INITIALLY}=True", "DisruptionTarget=True"),
            ("group", "uid-train", f"{INITIALLY}=True"),
        ]


async def test_a_group_whose_preemption_was_given_up_is_no_target() -> None:
    """But where it lost a pod already."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.began(eviction(whole()))
        await scene.advance()
        scene.statuses.gave_up(eviction(whole()), [ref("v2")])
        await scene.advance()
        assert scene.api.log == [("group", "uid-train", "DisruptionTarget=True")]
        scene.statuses.gave_up(eviction(whole()), [])
        await scene.advance()
        assert scene.api.log[1:] == [("group", "uid-train")]


async def test_a_preemptors_group_is_told_what_it_waits_for() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.began(eviction(key=KEY))
        await scene.advance()
        (condition,) = scene.api.groups["uid-train"]
        assert (condition.status, condition.message) == ("False", FULLER)


async def test_a_later_group_of_the_name_is_told_anew() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        await scene.advance()
        scene.state.apply(group_with(uid="uid-later"))
        scene.statuses.submit(Report(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert scene.api.log[1:] == [("group", "uid-later", f"{INITIALLY}=False")]


async def test_a_group_that_is_gone_is_not_told() -> None:
    async with at_work() as scene:
        scene.statuses.placed(KEY, "all of them")
        await scene.advance(1.0)
        assert (scene.api.log, scene.statuses.depth) == ([], 0)


async def test_a_group_is_told_again_after_trouble_what_it_is_then() -> None:
    """News of both attempts go together."""
    async with at_work(refused(500)) as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        await scene.advance()
        scene.statuses.began(eviction(whole()))
        await scene.advance(1.0)
        assert scene.api.log[-1] == ("group", "uid-train", f"{INITIALLY}=True", "DisruptionTarget=True")


async def test_what_is_stored_of_a_group_is_ours_after_a_restart() -> None:
    async with at_work() as scene:
        theirs = Condition("PodsNotMatchingPriority", "True", "PriorityMismatch", "they differ")
        scene.state.apply(group_with(theirs, WELL, GOES))
        scene.statuses.submit(Report(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert scene.api.log == []
        scene.statuses.placed(KEY, "again")
        await scene.advance()
        assert scene.api.groups["uid-train"] == (WELL,)


NAMES, MESSAGES, RESERVED = ("a", "b"), (FULL, FULLER), ("", "node-1", "node-2")
STEPS = st.one_of(
    st.tuples(
        st.just("report"), st.sampled_from(NAMES), st.sampled_from(MESSAGES), st.sampled_from(RESERVED)
    ),
    st.tuples(st.just("hold")),
    st.tuples(st.just("let go")),
    st.tuples(st.just("show")),
    st.tuples(st.just("turn")),
)


@given(
    st.lists(STEPS, max_size=30),
    st.lists(st.sampled_from([None, refused(500), PodiumError("no answer")]), max_size=4),
)
async def test_in_the_end_everybody_was_told_the_last_word(
    steps: list[tuple[str, ...]], outcomes: list[PodiumError | None]
) -> None:
    """However late writes end and the state shows them, and whatever fails on the way."""
    async with at_work(*outcomes) as scene:
        last: dict[PodRef, tuple[str, str]] = {}
        for name in NAMES:
            scene.state.apply(pod(name))
        for kind, *rest in steps:
            match kind, rest:
                case "report", [name, message, node]:
                    scene.statuses.submit(report(message, name, reserved={name: node}))
                    last[ref(name)] = message, node
                case "hold", _ if scene.api.held is None:
                    scene.api.held = asyncio.Event()
                case "let go", _ if scene.api.held is not None:
                    scene.api.held.set()
                    scene.api.held = None
                case "show", _:
                    scene.show()
                case _:
                    await scene.advance()
        if scene.api.held is not None:
            scene.api.held.set()
            scene.api.held = None
        for _ in range(5):
            await scene.advance(1.0)
        assert scene.api.told == last
        assert scene.statuses.depth == 0


@pytest.mark.server
async def test_real_servers_take_it(server: Server, namespace: str) -> None:
    """Conditions of pods and of native groups, which another manager's stand beside."""
    version = "v1alpha2" if server.release.minor == "1.36" else "v1beta1"
    api = f"/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups"
    group = {
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    code, made = server.request("POST", api, group)
    assert code == 201, made
    spec = {
        "schedulerName": "podium-scheduler",
        "schedulingGroup": {"podGroupName": "train"},
        "containers": [{"name": "c", "image": "none"}],
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    code, created = server.request("POST", pods, {"metadata": {"name": "a"}, "spec": spec})
    assert code == 201, created
    theirs = {
        "type": "PodsNotMatchingPriority",
        "status": "False",
        "reason": "PrioritiesMatch",
        "message": "",
        "lastTransitionTime": "2026-11-21T16:00:00Z",
    }
    code, said = server.request(
        "PATCH",
        f"{api}/train/status?fieldManager=podium-controller&force=true",
        {
            "apiVersion": f"scheduling.k8s.io/{version}",
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "status": {"conditions": [theirs]},
        },
        "application/apply-patch+yaml",
    )
    assert code == 200, said
    state = State(native_served=True)
    key = GroupKey(True, namespace, "train")
    a = PodRef(namespace, "a", created["metadata"]["uid"])

    def read() -> tuple[dict[str, Any], dict[str, Any]]:
        """Have the state follow, and give the conditions of both."""
        found = []
        for path, api_version, kind in (
            (f"{api}/train", f"scheduling.k8s.io/{version}", "PodGroup"),
            (f"{pods}/a", "v1", "Pod"),
        ):
            code, stored = server.request("GET", path)
            assert code == 200, stored
            how = SCHEDULING_READS[api_version, kind]
            state.apply(how.neutral(msgspec.convert(stored, how.type)))
            found.append(
                {each["type"]: each for each in stored["status"].get("conditions", ())}
                | {"node": stored["status"].get("nominatedNodeName")}
            )
        return found[0], found[1]

    counted: list[tuple[str, str]] = []
    said_: list[Any] = []
    async with connect(str(server.kubeconfig), None) as connection:
        clock = asyncio.get_running_loop().time
        writes = Writes(
            connection,
            lambda: 60.0,
            sleep=asyncio.sleep,
            random=lambda: 0.0,
            counted=lambda what, how: counted.append((what, how)),
        )
        queue = Queue[Key](
            clock=clock,
            sleep=asyncio.sleep,
            random=lambda: 0.0,
            waited=lambda _seconds: None,
            failed=lambda: said_.append("a bug"),
            say=lambda *what: said_.append(what),
        )
        notes: list[Note] = []
        statuses = Statuses(
            state,
            writes,
            queue,
            notes.append,
            "podium-scheduler",
            clock=clock,
            now=lambda: NOW,
            sleep=asyncio.sleep,
            say=lambda *what: said_.append(what),
        )
        task = asyncio.create_task(statuses.run())

        async def written(number: int) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while statuses.depth or len(counted) < number:  # noqa: ASYNC110 - writes count into a list
                    await asyncio.sleep(0.01)

        read()
        statuses.submit(Report(key, (a,), UNSCHEDULABLE, FULL, ((a, "node-1"),)))
        await written(2)
        of_group, of_pod = read()
        kind = "PodGroupScheduled" if version == "v1alpha2" else INITIALLY
        assert (of_group[kind]["status"], of_group[kind]["message"]) == ("False", FULL)
        assert of_pod["PodScheduled"]["reason"] == UNSCHEDULABLE
        assert of_pod["PodScheduled"]["observedGeneration"] == created["metadata"]["generation"]
        assert of_pod["node"] == "node-1"
        statuses.submit(Report(key, (a,), UNSCHEDULABLE, FULL))
        statuses.began(Evict(key, PREEMPTOR, (), (whole_of(state, key, a),), "cluster", FULL))
        await written(4)
        of_group, of_pod = read()
        assert of_pod["node"] is None
        assert of_group["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        statuses.placed(key, "all of them")
        await written(5)
        of_group, _ = read()
        assert of_group.keys() == {"PodsNotMatchingPriority", kind, "node"}
        assert of_group[kind]["status"] == "True"
        task.cancel()
        await asyncio.wait({task})
    assert (said_, {how for _, how in counted}) == ([], {"written"})
    assert [note.text for note in notes] == [FULL]


def whole_of(state: State, key: GroupKey, pod: PodRef) -> Unit:
    """The unit that a stored group is."""
    group = state.groups[key]
    return Unit("PodGroup", key.namespace, key.name, group.metadata.uid or "", 0, (pod,))
