"""Writing in the background: at its own pace, fenced, quiet about lasting errors, bounded at the end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any, cast

import msgspec
import pytest
from tests.support.history import NAME, Store, plan
from tests.support.waiting import PATIENCE_SECONDS

from podium.api.records import RECORD_VERSION, PreemptionRecord
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.schedulerplugin.history.recordring import Draft
from podium.schedulerplugin.history.writer import History
from podium.schedulerplugin.live.process import ending_last

PATH = f"/apis/{RECORD_VERSION}/namespaces/system/preemptionrecords"
NOT_SERVED = RefusedError("s", f"GET {PATH}", 404, "NotFound", "404 page not found")
BUSY = RefusedError("s", f"POST {PATH}", 429, "TooManyRequests", "too many requests")


class Api:
    """An API server that stores records; `failures` are raised first, `hangs` answers nothing."""

    server = "s"

    def __init__(self) -> None:
        self.store = Store()
        self.failures: list[PodiumError] = []
        self.hangs = False
        self.requests: list[str] = []

    async def get(self, path: str) -> bytes:
        await self._begin("GET", path)
        if path == PATH:
            return msgspec.json.encode({"items": list(self.store.records.values())})
        record = self.store.records.get(path.rpartition("/")[2])
        if record is None:
            raise RefusedError("s", f"GET {path}", 404, "NotFound", "not found")
        return msgspec.json.encode(record)

    async def send(self, method: str, path: str, body: dict[str, Any], *, patient: bool) -> bytes:
        assert not patient
        await self._begin(method, path)
        metadata = body["metadata"]
        name = metadata["name"]
        stored = self.store.records.get(name)
        if method == "PUT" and stored is None:
            raise RefusedError("s", f"PUT {path}", 404, "NotFound", "not found")
        if stored is not None and stored.metadata.resourceVersion != metadata.get("resourceVersion"):
            raise RefusedError("s", f"{method} {path}", 409, "Conflict", "it was changed")
        version = metadata.get("resourceVersion", "")
        draft = Draft(name, version, body["sequence"], tuple(body["plans"]), 0)
        return msgspec.json.encode({"metadata": {"resourceVersion": self.store.put(draft)}})

    async def _begin(self, method: str, path: str) -> None:
        self.requests.append(f"{method} {path.removeprefix(PATH)}")
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            raise self.failures.pop(0)


class Scene:
    """A history that is written to an Api; time passes only as `pace` lets it."""

    def __init__(self) -> None:
        self.api = Api()
        self.remaining = inf
        self.logged: list[str] = []
        self.pauses: list[float] = []
        self.changed = asyncio.Event()
        self.history = History(
            cast(Connection, self.api),
            "system",
            NAME,
            lambda: self.remaining,
            sleep=self._sleep,
            random=lambda: 0.0,
            log_event=lambda text, fields: self.logged.append(f"{text}: {fields['error']}"),
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.changed.set()
        await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write in the background, until the end of the block."""
        task = asyncio.create_task(self.history.run())
        # A task that is cancelled before its start does nothing.
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached():
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_many_plans_are_one_write(scene: Scene) -> None:
    """A burst of plans is written at once, and the next write waits for a second."""
    async with scene.running():
        for at in range(50):
            scene.history.append(plan(at))
        await scene.until(lambda: len(scene.api.store.plans()) == 50)
        scene.history.append(plan(50))
        await scene.until(lambda: len(scene.api.store.plans()) == 51)
    assert scene.api.requests == ["GET ", "POST ", f"PUT /{NAME}-00"]
    assert set(scene.pauses) == {1.0}
    assert scene.logged == []


async def test_without_the_custom_resource_it_is_said_once(scene: Scene) -> None:
    """The kept plans are written when it exists."""
    scene.api.failures = [NOT_SERVED] * 6
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: bool(scene.api.store.plans()))
    assert len(scene.logged) == 1
    assert "podium manifests crds" in scene.logged[0]
    assert max(scene.pauses) > 5.0, "it is asked ever more seldom"


async def test_a_busy_server_is_asked_again(scene: Scene) -> None:
    await scene.history.restore()
    scene.api.failures = [BUSY, BUSY]
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: bool(scene.api.store.plans()))
    assert scene.logged == [f"history not written: {BUSY}"]


async def test_a_lost_answer_makes_no_plan_twice(scene: Scene) -> None:
    """The object was stored but the answer was lost: the writer reads the stored object."""
    await scene.history.restore()
    before = scene.api.send

    async def lost(*args: Any, **kwargs: Any) -> bytes:
        scene.api.send = before  # type: ignore[method-assign]
        await before(*args, **kwargs)
        raise PodiumError("the connection was lost")

    scene.api.send = lost  # type: ignore[method-assign]
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: len(scene.pauses) == 1)
        scene.history.append(plan(1))
        await scene.until(lambda: len(scene.api.store.plans()) == 2)
    assert scene.api.store.plans() == [plan(0), plan(1)]


async def test_an_object_that_was_deleted_is_made_anew(scene: Scene) -> None:
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: bool(scene.api.store.plans()))
        scene.api.store.records.clear()
        scene.history.append(plan(1))
        await scene.until(lambda: len(scene.api.store.plans()) == 2)


def refusal(method: str, code: int) -> RefusedError:
    """Return a server's refusal of a request."""
    return RefusedError("s", f"{method} /records", code, "Because", "it is so")


# The answers to the requests after a first plan was stored, and the message; then the server works again.
FAILURES: dict[str, tuple[list[PodiumError], str]] = {
    "the new object is not found": ([refusal("POST", 404)], "404"),
    "a conflict, and the read is refused": ([refusal("PUT", 409), refusal("GET", 500)], "500"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failed_write_is_logged_once_and_loses_no_plan(name: str, scene: Scene) -> None:
    failures, message = FAILURES[name]
    await scene.history.restore()
    async with scene.running():
        if len(failures) > 1:
            scene.history.append(plan(0))
            await scene.until(lambda: bool(scene.api.store.plans()))
        scene.api.failures = list(failures)
        scene.history.append(plan(1))
        await scene.until(lambda: plan(1) in scene.api.store.plans())
    assert len(scene.logged) == 1
    assert f" {message} " in scene.logged[0]


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_an_object_that_is_refused_for_ever_delays_no_other(code: int, scene: Scene) -> None:
    await scene.history.restore()
    scene.api.failures = [refusal("POST", code)]
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: bool(scene.logged))
        scene.history.append(plan(1))
        await scene.until(lambda: scene.history.written)
    assert scene.api.store.plans() == [plan(1)]
    assert len(scene.logged) == 1


async def test_a_list_that_is_refused_is_no_missing_resource(scene: Scene) -> None:
    """The error is the server's own, and the scheduler starts without a history."""
    scene.api.failures = [refusal("GET", 403)]
    assert await scene.history.restore() == []
    assert scene.logged == [f"history not written: {refusal('GET', 403)}"]


async def test_a_process_without_the_lease_writes_nothing(scene: Scene) -> None:
    await scene.history.restore()
    scene.remaining = 0.0
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: bool(scene.logged))
    assert scene.api.requests == ["GET "]
    assert "lease" in scene.logged[0]


async def test_queued_plans_are_written_at_the_end(scene: Scene) -> None:
    """All of it is written, at any pace."""
    async with scene.running():
        for at in range(250):
            scene.history.append(plan(at))
    assert len(scene.api.store.plans()) == 250


async def test_the_end_waits_for_no_server_that_is_silent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.schedulerplugin.history.writer._LAST_SECONDS", 0.05)
    scene.api.hangs = True
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with scene.running():
            scene.history.append(plan(0))
    assert scene.logged == ["history not written: the API server did not answer in time"]


async def test_a_new_leader_is_told_the_past(scene: Scene) -> None:
    other = Scene()
    other.api.store = scene.api.store
    async with scene.running():
        scene.history.append(plan(0))
        await scene.until(lambda: bool(scene.api.store.plans()))
    (record,) = await other.history.restore()
    assert record.plans == [plan(0)]


@pytest.mark.parametrize("trouble", ["silent", "not served", "no record"])
async def test_an_unreadable_past_delays_no_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """It is empty then, and the log has a line."""
    monkeypatch.setattr("podium.schedulerplugin.history.writer._RESTORE_SECONDS", 0.05)
    match trouble:
        case "silent":
            scene.api.hangs = True
        case "not served":
            scene.api.failures = [NOT_SERVED]
        case _:
            scene.api.store.records["x"] = cast(PreemptionRecord, {"plans": 1})
    assert await scene.history.restore() == []
    assert len(scene.logged) == 1


@pytest.mark.parametrize("failure", [None, ZeroDivisionError()], ids=["told to stop", "one fails"])
async def test_the_recorded_end_of_a_plan_is_written(failure: Exception | None, scene: Scene) -> None:
    """The process ends, for any end, even if that takes the writer some time."""
    works, end = asyncio.Event(), asyncio.Event()

    async def evicting() -> None:
        works.set()
        try:
            await asyncio.Event().wait()
        finally:
            await scene.api.get(PATH)
            scene.history.append(plan(1))

    async def failing() -> None:
        await end.wait()
        if failure is not None:
            raise failure

    task = asyncio.create_task(ending_last(scene.history.run, evicting, failing))
    await works.wait()
    end.set()
    if failure is None:
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == (failure is None)
    assert failure is None or task.exception() is not None
    assert len(scene.api.store.plans()) == 1


async def test_the_process_ends_with_its_writer(scene: Scene) -> None:
    """A process that can do only half of its work must end."""
    others: list[str] = []

    async def broken() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            others.append("ended")

    with pytest.raises(ExceptionGroup):
        await ending_last(broken, other)
    assert others == ["ended"]
