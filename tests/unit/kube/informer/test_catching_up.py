"""A new leader catches up with the writes of the former one, by its watches if it can, or by new lists."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.connection.fake import Fake
from tests.support.informer.changing import Resource, Scene, following
from tests.support.informer.history import bookmark, failure
from tests.support.informer.scripted import priority_class

from podium.api.reads import Kind
from podium.kube import cache

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BEHIND = "watch is behind, listing again priorityclasses.scheduling.k8s.io"


@asynccontextmanager
async def _large(folder: Path, classes: Resource, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Follow a collection that counts as large, and forget the requests of the first list."""
    monkeypatch.setattr(cache, "FEW_OBJECTS", 0)
    async with following(Fake(), folder, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.cluster.ready()
        scene.fake.requests.clear()
        yield scene


def _asked(scene: Scene) -> list[str]:
    """Return the kinds of requests for the collection."""
    queries = [query for _, path, query in scene.fake.requests if path == CLASSES]
    return sorted(
        "list"
        if "sendInitialEvents" in query
        else "version"
        if "limit" in query
        else f"watch {query['resourceVersion']}, {query['timeoutSeconds']} s"
        for query in queries
    )


async def _reaches_server(scene: Scene) -> None:
    await scene.until(lambda: len(_asked(scene)) >= 2)


async def test_a_bookmark_shows_that_the_watch_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch continues where it was, and is brief, so that the server sends a bookmark before its end.

    The write of the former leader that was on its way arrives before the bookmark. An earlier version than
    the server's does not suffice.
    """
    classes = Resource(10, priority_class("gold", 5))
    async with _large(tmp_path, classes, monkeypatch) as scene:
        late = classes.change("ADDED", priority_class("silver", 11))
        classes.version = 15
        catching_up = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        await _reaches_server(scene)
        await classes.send(bookmark(10))
        await classes.send(late)
        await scene.until(lambda: "silver" in scene.state.classes)
        assert not catching_up.done()
        await classes.send(bookmark(15))
        await catching_up
        assert _asked(scene) == ["version", "watch 10, 3 s"]
        await classes.tell("ADDED", priority_class("bronze", 16))
        await scene.until(lambda: "bronze" in scene.state.classes)


async def test_an_event_shows_that_the_watch_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy collection needs no bookmark, because its events come in the order of their versions."""
    classes = Resource(10, priority_class("gold", 5))
    async with _large(tmp_path, classes, monkeypatch) as scene:
        classes.version = 15
        catching_up = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        await _reaches_server(scene)
        await classes.tell("DELETED", priority_class("gold", 16))
        await catching_up
        assert not scene.state.classes
        assert "list" not in _asked(scene)


async def test_a_collection_that_did_not_change_is_current_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that is known is the server's."""
    async with _large(tmp_path, Resource(10, priority_class("gold", 5)), monkeypatch) as scene:
        await scene.cluster.catch_up((Kind.PRIORITY_CLASS,))
        assert scene.events() == ["api found priorityclasses.scheduling.k8s.io"]


@pytest.mark.parametrize(
    "fault",
    [
        "no bookmark",
        "an older bookmark",
        "no version",
        "denied version",
        "restored from a backup",
        "late watch",
    ],
)
async def test_a_watch_that_does_not_become_current_is_replaced_by_a_list(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After four seconds the objects are listed, and the state is as new as the server's.

    "restored" is a server whose data was restored from a backup, so its version is older than the known one.
    """
    classes = Resource(10, priority_class("gold", 5))
    async with _large(tmp_path, classes, monkeypatch) as scene:
        late = classes.change("ADDED", priority_class("silver", 11))
        classes.version = 15
        match fault:
            case "no version":
                classes.version_refusal = (500, "InternalError")
            case "denied version":
                classes.version_refusal = (403, "Forbidden")
            case "restored":
                classes.version = 7
            case _:
                pass
        catching_up = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        await _reaches_server(scene)
        if fault == "an older bookmark":
            await classes.send(bookmark(14))
        if fault == "a late event":
            await classes.send(late)
        scene.time.advance(3.9)
        await asyncio.sleep(0.01)
        assert not catching_up.done()
        assert "list" not in _asked(scene)
        scene.time.advance(0.2)
        await scene.until(catching_up.done, step=0.001)
        await catching_up
        assert set(scene.state.classes) == {"gold", "silver"}
        assert BEHIND in scene.events()
        assert _asked(scene).count("list") == 1


@pytest.mark.parametrize("how", ["answer", "event"])
async def test_a_watch_that_expired_is_replaced_by_a_list(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server compacted the known version (410) at that moment: nobody waits for the four seconds."""
    classes = Resource(10, priority_class("gold", 5))
    async with _large(tmp_path, classes, monkeypatch) as scene:
        classes.change("ADDED", priority_class("silver", 11))
        classes.expired = how == "answer"
        catching_up = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        if how == "event":
            await _reaches_server(scene)
            await classes.send(failure(410, "Expired"))
        await scene.until(catching_up.done, step=0.001)
        await catching_up
        assert set(scene.state.classes) == {"gold", "silver"}
        assert BEHIND not in scene.events()


async def test_few_objects_are_listed_at_once(tmp_path: Path) -> None:
    """A list of few objects is faster than a bookmark."""
    classes = Resource(10, priority_class("gold", 5))
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.cluster.ready()
        scene.fake.requests.clear()
        classes.change("ADDED", priority_class("silver", 11))
        await scene.cluster.catch_up((Kind.PRIORITY_CLASS,))
        assert set(scene.state.classes) == {"gold", "silver"}
        assert _asked(scene) == ["list"]


async def test_a_server_that_is_away_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No leader decides before it has read the server's state, however long that takes."""
    classes = Resource(10, priority_class("gold", 5))
    async with _large(tmp_path, classes, monkeypatch) as scene:
        await classes.refuse(503, "ServiceUnavailable")
        classes.change("ADDED", priority_class("silver", 11))
        catching_up = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        await scene.until(lambda: BEHIND in scene.events(), step=0.5)
        assert not catching_up.done()
        classes.allow()
        await scene.until(catching_up.done, step=0.5)
        await catching_up
        assert set(scene.state.classes) == {"gold", "silver"}


async def test_a_leader_that_is_stopped_meanwhile_goes_on_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = Resource(10, priority_class("gold", 5))
    async with _large(tmp_path, classes, monkeypatch) as scene:
        classes.version = 15
        catching_up = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        await _reaches_server(scene)
        catching_up.cancel()
        await asyncio.wait({catching_up})
        assert catching_up.cancelled()
        await classes.tell("ADDED", priority_class("silver", 16))
        await scene.until(lambda: "silver" in scene.state.classes)
