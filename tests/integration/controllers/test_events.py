"""Events: one a note despite failures, at a limited rate, in a form that API servers accept."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.informer.changing import Time
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS

from podium.api.events import EventDraft
from podium.api.findings import ObjectRef
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, connect
from podium.kube.events import STEADY, EventRecorder, Pace

NOW = datetime(2026, 11, 21, 16, 0, 0, 42, tzinfo=UTC)


def note(
    name: str = "train",
    *,
    token: str = "t",
    text: str = "why",
    namespace: str = "team",
    reason: str = "PodsNotMatchingPriority",
) -> EventDraft:
    """A note about a group; its uid is its name."""
    ref = ObjectRef("scheduling.podium.dev/v1beta1", "PodGroup", namespace, name)
    return EventDraft(ref, name, "7", "Warning", reason, "Compare", text, token)


def refused(code: int, reason: str, message: str = "because") -> RefusedError:
    """A refusal of an API server."""
    return RefusedError("https://server", "POST /events", code, reason, message)


LOST = PodiumError("the connection was lost")


class Api:
    """The connection of a recorder: it answers with the outcomes in turn, then with success."""

    def __init__(self, *outcomes: PodiumError | None) -> None:
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self._outcomes = list(outcomes)

    async def send(self, method: str, path: str, body: dict[str, Any]) -> bytes:
        """Record a request."""
        self.sent.append((method, path, body))
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is not None:
            raise outcome
        return b"{}"


class Scene(NamedTuple):
    """A running recorder under a stopped clock."""

    api: Api
    time: Time
    recorder: EventRecorder
    counted: list[str]
    logged: list[tuple[str, dict[str, Any]]]
    # Other clients have work for the server while the list is not empty.
    others: list[str]

    async def advance(self, seconds: float = 0.0) -> None:
        """Advance the clock, and run the loop until all tasks wait for time."""
        for _ in range(5):
            await asyncio.sleep(0)
        self.time.advance(seconds)
        for _ in range(5):
            await asyncio.sleep(0)


def scene_of(*outcomes: PodiumError | None, pace: Pace = STEADY, least: str = "") -> Scene:
    """Return a recorder that is not started."""
    api, time = Api(*outcomes), Time()
    counted: list[str] = []
    logged: list[tuple[str, dict[str, Any]]] = []
    others: list[str] = []

    async def sleep(seconds: float) -> None:
        if seconds > 0:
            await time.sleep(seconds)

    recorder = EventRecorder(
        cast("Connection", api),
        "podium-controller",
        "replica-1",
        clock=time.clock,
        now=lambda: NOW,
        sleep=sleep,
        random=lambda: 0.0,
        log_event=lambda what, fields: logged.append((what, fields)),
        counted=counted.append,
        pace=pace,
        least=(least,),
        busy=lambda: bool(others),
    )
    return Scene(api, time, recorder, counted, logged, others)


@asynccontextmanager
async def at_work(*outcomes: PodiumError | None, pace: Pace = STEADY) -> AsyncIterator[Scene]:
    """Yield a running recorder."""
    scene = scene_of(*outcomes, pace=pace)
    task = asyncio.create_task(scene.recorder.run())
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


async def test_a_note_is_an_event() -> None:
    async with at_work() as scene:
        scene.recorder.emit(note())
        await scene.advance()
    assert scene.api.sent == [
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/team/events",
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"namespace": "team", "name": "train.e3b98a4da31a127d"},
                "eventTime": "2026-11-21T16:00:00.000042Z",
                "reportingController": "podium-controller",
                "reportingInstance": "replica-1",
                "type": "Warning",
                "reason": "PodsNotMatchingPriority",
                "action": "Compare",
                "regarding": {
                    "apiVersion": "scheduling.podium.dev/v1beta1",
                    "kind": "PodGroup",
                    "namespace": "team",
                    "name": "train",
                    "uid": "train",
                    "resourceVersion": "7",
                },
                "note": "why",
            },
        )
    ]
    assert scene.counted == ["sent"]


TERMINATING = "unable to create new content in namespace team because it is being terminated"


class Case(NamedTuple):
    """The API server's answers to two notes in turn, the results of both, and the number of requests.

    `logged` is the number of log events.
    """

    outcomes: tuple[PodiumError | None, ...]
    counted: tuple[str, str]
    requests: int = 2
    logged: int = 0


THERE = refused(409, "AlreadyExists")
NO = refused(403, "Forbidden")
GOING = refused(403, "Forbidden", TERMINATING)
GONE = refused(404, "NotFound")
TROUBLE = refused(500, "InternalError")

CASES = {
    "accepted": Case((), ("sent", "sent")),
    "the event exists": Case((THERE,), ("sent", "sent")),
    "the response to the create is lost": Case((LOST, THERE), ("sent", "sent"), requests=3),
    "three failures, then success": Case((TROUBLE, LOST, refused(503, "")), ("sent", "sent"), requests=5),
    "forbidden": Case((NO, NO), ("refused", "refused"), logged=1),
    "forbidden at first": Case((NO,), ("refused", "sent"), logged=1),
    "invalid, then forbidden": Case((refused(422, "Invalid"), NO), ("refused", "refused"), logged=2),
    "another conflict": Case((refused(409, "Conflict"),), ("refused", "sent"), logged=1),
    "the namespace is terminating": Case((GOING, GOING), ("refused", "refused")),
    "the namespace is deleted": Case((GONE, GONE), ("refused", "refused")),
    "eight calls without a response": Case((LOST,) * 8, ("refused", "sent"), requests=9, logged=1),
    "sixteen calls without a response": Case((LOST,) * 16, ("refused", "refused"), requests=16, logged=1),
    "eight failures": Case((TROUBLE,) * 8, ("refused", "sent"), requests=9, logged=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_the_outcomes_of_notes_are_logged(case: Case) -> None:
    """An unexpected failure is logged once; an expected failure is not."""
    async with at_work(*case.outcomes) as scene:
        scene.recorder.emit(note(token="1"))
        scene.recorder.emit(note(token="2"))
        for _ in range(20):
            await scene.advance(30.0)
        assert tuple(scene.counted) == case.counted
        assert [what for what, _ in scene.logged] == ["event not sent"] * case.logged
        names = [body["metadata"]["name"] for _, _, body in scene.api.sent]
        assert (len(names), len(set(names))) == (case.requests, 2)


async def test_an_error_is_logged_again_after_a_success() -> None:
    async with at_work(NO, NO, None, NO) as scene:
        for number in range(4):
            scene.recorder.emit(note(token=str(number)))
        await scene.advance()
        assert len(scene.logged) == 2


async def test_an_object_that_flaps_is_told_of_now_and_then() -> None:
    """The object's event is sent five times, and then once a minute; events of others are unaffected."""
    async with at_work() as scene:
        for number in range(100):
            scene.recorder.emit(note(token=str(number)))
        scene.recorder.emit(note("other"))
        await scene.advance()
        assert scene.counted.count("limited") == 95
        assert scene.counted.count("sent") == 6
        for minute in range(3):
            await scene.advance(59.0)
            scene.recorder.emit(note(token=f"early-{minute}"))
            await scene.advance(1.0)
            scene.recorder.emit(note(token=f"late-{minute}"))
            scene.recorder.emit(note(token=f"later-{minute}"))
            await scene.advance()
            assert scene.counted.count("sent") == 7 + minute
        await scene.advance(300.0)
        for number in range(6):
            scene.recorder.emit(note(token=f"rested-{number}"))
        await scene.advance()
        assert scene.counted.count("sent") == 14


async def test_a_storm_is_told_at_a_steady_rate_and_what_has_no_room_is_dropped() -> None:
    """At first 25 are sent, then five a second, in order; every accepted event is sent."""
    async with at_work() as scene:
        for number in range(1500):
            scene.recorder.emit(note(f"group-{number}"))
        assert scene.counted == ["full"] * 500
        await scene.advance()
        assert scene.counted.count("sent") == 25
        # The first ones, each awaited, and the others.
        for count in range(26, 76):
            await scene.advance(0.15)
            assert scene.counted.count("sent") == count - 1
            await scene.advance(0.0501)
            assert scene.counted.count("sent") == count
        for _ in range(76, 1001):
            await scene.advance(0.2)
        names = [body["regarding"]["name"] for _, _, body in scene.api.sent]
        assert names == [f"group-{number}" for number in range(1000)]


async def test_the_least_important_notes_are_dropped_first() -> None:
    """One object may fill half of the queue, and no room of others; the others may fill all of it."""
    scene = scene_of(pace=Pace(room=10), least="Scheduled")
    for number in range(8):
        scene.recorder.emit(note(f"pod-{number}", reason="Scheduled"))
    assert scene.counted == ["full"] * 3
    for number in range(8):
        scene.recorder.emit(note(f"group-{number}"))
    assert scene.counted == ["full"] * 6
    scene.recorder.emit(note("pod-8", reason="Scheduled"))
    assert scene.counted == ["full"] * 7


async def test_under_load_a_trickle_is_told() -> None:
    """Two events a second are sent while other writes wait, and the others afterwards."""
    async with at_work() as scene:
        scene.others.append("binds")
        for index in range(8):
            scene.recorder.emit(note(f"train-{index}", token=str(index)))
        await scene.advance()
        assert scene.counted == []
        await scene.advance(0.5)
        await scene.advance(0.5)
        assert scene.counted == ["sent"] * 2
        scene.others.clear()
        await scene.advance(0.5)
        await scene.advance()
        assert scene.counted == ["sent"] * 8


async def test_a_pace_of_its_own() -> None:
    """Two events are sent at once, and then one each second."""
    async with at_work(pace=Pace(burst=2, seconds=1.0)) as scene:
        for number in range(5):
            scene.recorder.emit(note(f"group-{number}"))
        await scene.advance()
        for sent in (2, 3, 4, 5):
            assert scene.counted.count("sent") == sent
            await scene.advance(1.0)


async def test_a_note_that_found_no_room_does_not_count_for_its_object() -> None:
    scene = scene_of()
    for number in range(1000):
        scene.recorder.emit(note(f"group-{number}"))
    for _ in range(10):
        scene.recorder.emit(note())
    assert scene.counted == ["full"] * 10


async def test_objects_are_forgotten_in_the_end() -> None:
    """The recorder remembers only the last objects, whatever the number of objects."""
    scene = scene_of()
    for number in range(10_000):
        scene.recorder.emit(note(f"group-{number}"))
    assert len(scene.recorder._objects) == 4096
    assert "group-9999" in scene.recorder._objects


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){0,8}", fullmatch=True)


@given(NAMES.filter(lambda name: len(name) <= 253) | st.just("a." * 126 + "b"), st.text(), st.text())
async def test_names_and_limits_hold_for_every_note(name: str, token: str, text: str) -> None:
    """Equal notes have the same name, different ones different names, and all names are valid."""
    async with at_work() as scene:
        for each in (token, token, token + "x"):
            scene.recorder.emit(note(name, token=each, text=text * 100))
        await scene.advance()
    (first, again, other) = (body for _, _, body in scene.api.sent)
    assert first == again
    assert first["metadata"]["name"] != other["metadata"]["name"]
    for body in (first, other):
        event = body["metadata"]["name"]
        assert len(event) <= 253
        assert all(part == part.strip("-") != "" for part in event.split("."))
        assert len(body["note"].encode()) <= 1024


TEXTS = {
    "short": "why",
    "as long as may be": "x" * 1024,
    "too long": "x" * 5000,
    "of many bytes": "ä" * 700,
    "of four bytes each": "😀" * 300,
    "of several lines": 'line\n"quoted"\t\\',
}


@pytest.mark.server
@pytest.mark.parametrize("name", ["train", "a." * 126 + "b", "x" * 253])
async def test_real_servers_have_the_event_once(server: Server, namespace: str, name: str) -> None:
    """An event is sent by two replicas once, in both API groups, for `kubectl get events` and `describe`."""
    kubeconfig = str(server.kubeconfig)
    counted: list[str] = []
    logged: list[tuple[str, dict[str, Any]]] = []
    async with connect(kubeconfig, None) as connection:
        replicas = [
            EventRecorder(
                connection,
                "podium-controller",
                instance,
                clock=lambda: 0.0,
                now=lambda: NOW,
                sleep=asyncio.sleep,
                random=lambda: 0.0,
                log_event=lambda what, fields: logged.append((what, fields)),
                counted=counted.append,
            )
            for instance in ("replica-1", "r" * 300)
        ]
        notes = [
            note(f"{name[:-1]}{index}", token=kind, text=text, namespace=namespace)
            for index, (kind, text) in enumerate(TEXTS.items())
        ]
        for replica in replicas:
            for each in notes:
                replica.emit(each)
        replicas[1].emit(note(name, token="of the second alone", namespace=namespace))
        # The namespace does not exist.
        replicas[0].emit(note("elsewhere", namespace=f"{namespace}-no"))
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(replica.run()) for replica in replicas]
            while len(counted) < 2 * len(notes) + 2:  # noqa: ASYNC110 - two recorders count into one list
                await asyncio.sleep(0.01)
            for task in running:
                task.cancel()
        found = {
            group: json.loads(await connection.get(f"{root}/namespaces/{namespace}/events"))["items"]
            for group, root in (("", "/api/v1"), ("events.k8s.io", "/apis/events.k8s.io/v1"))
        }
    assert logged == []
    assert sorted(counted) == ["refused"] + ["sent"] * (2 * len(notes) + 1)
    for items in found.values():
        assert len(items) == len(notes) + 1
    by_note = {each["note"]: each for each in found["events.k8s.io"]}
    assert {"why", "x" * 1024, TEXTS["of several lines"]} <= set(by_note)
    assert max(len(text.encode()) for text in by_note) == 1024
    old = next(each for each in found[""] if each["message"] == "x" * 1024)
    assert old["involvedObject"] == by_note["x" * 1024]["regarding"]
    assert old["type"] == "Warning"


@pytest.mark.server
async def test_a_terminating_namespace_takes_no_events_and_logs_nothing(server: Server) -> None:
    namespace = server.new_namespace()
    code, _ = server.request("DELETE", f"/api/v1/namespaces/{namespace}")
    assert code == 200
    async with connect(str(server.kubeconfig), None) as connection:
        scene = scene_of()
        recorder = EventRecorder(
            connection,
            "podium-controller",
            "replica-1",
            clock=lambda: 0.0,
            now=lambda: NOW,
            sleep=asyncio.sleep,
            random=lambda: 0.0,
            log_event=lambda what, fields: scene.logged.append((what, fields)),
            counted=scene.counted.append,
        )
        recorder.emit(note(namespace=namespace))
        task = asyncio.create_task(recorder.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not scene.counted:  # noqa: ASYNC110 - the recorder counts into a list
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
    assert (scene.counted, scene.logged) == (["refused"], [])
