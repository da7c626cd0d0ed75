"""A resource is watched through failures: the requests, the waits, and the final state."""

from pathlib import Path

import pytest
from tests.support.informer.history import bookmark, event, failure
from tests.support.informer.scripted import (
    PATH,
    Answer,
    Page,
    Refusal,
    Script,
    Stream,
    informing,
    priority_class,
)

from podium.kube import informer


def _added(name: str, version: int) -> bytes:
    return event("ADDED", priority_class(name, version))


def _gone(name: str, version: int) -> bytes:
    return event("DELETED", priority_class(name, version))


LISTED = (_added("a", 5), _added("b", 7), bookmark(10, ends_list=True))
LIST = Stream(LISTED)
AGAIN = Stream((_added("c", 20), bookmark(21, ends_list=True)), "hold")
TOO_NEW = failure(504, "Timeout")
NO_STREAMS = Refusal(422, "Invalid")

# The answers, the requests, the final objects, and the waits between (the first after a list: 0.2 s).
SCRIPTS: list[tuple[str, list[Answer], list[str], dict[str, str], list[float]]] = [
    (
        "a list goes on as a watch",
        [Stream((*LISTED, _gone("a", 11), _added("c", 12)), "hold")],
        ["stream"],
        {"b": "7", "c": "12"},
        [],
    ),
    ("an empty list", [Stream((bookmark(10, ends_list=True),), "hold")], ["stream"], {}, []),
    (
        "a watch that the server ends",
        [LIST, Stream((_added("c", 11),)), Stream((_added("d", 12),), "hold")],
        ["stream", "watch 10", "watch 11"],
        {"a": "5", "b": "7", "c": "11", "d": "12"},
        [0.2, 0.4],
    ),
    (
        "bookmarks only",
        [LIST, Stream((bookmark(40),)), Stream((bookmark(50),)), Stream((_added("c", 51),), "hold")],
        ["stream", "watch 10", "watch 40", "watch 50"],
        {"a": "5", "b": "7", "c": "51"},
        [0.2, 0.4, 0.8],
    ),
    (
        "410 as the first event",
        [LIST, Stream((failure(410, "Expired"),)), AGAIN],
        ["stream", "watch 10", "stream"],
        {"c": "20"},
        [0.2, 0.0],
    ),
    (
        "410 in the middle",
        [LIST, Stream((_gone("a", 11), failure(410, "Expired"))), AGAIN],
        ["stream", "watch 10", "stream"],
        {"c": "20"},
        [0.2, 0.0],
    ),
    (
        "410 as a status",
        [LIST, Refusal(410, "Expired"), AGAIN],
        ["stream", "watch 10", "stream"],
        {"c": "20"},
        [0.2, 0.0],
    ),
    (
        "410 after every list",
        [*[LIST, Stream((failure(410, "Expired"),))] * 3, AGAIN],
        ["stream", "watch 10", "stream", "watch 10", "stream", "watch 10", "stream"],
        {"c": "20"},
        [0.2, 0.0, 0.4, 0.0, 0.8, 0.0],
    ),
    (
        "410 inside a list",
        [Stream((*LISTED, failure(410, "Expired"))), AGAIN],
        ["stream", "stream"],
        {"c": "20"},
        [0.2],
    ),
    (
        "a connection cut within a line",
        [LIST, Stream((_added("c", 11), b'{"type":"ADDED","obj'), "cut"), Stream((_added("d", 12),), "hold")],
        ["stream", "watch 10", "watch 11"],
        {"a": "5", "b": "7", "c": "11", "d": "12"},
        [0.2, 0.4],
    ),
    (
        "a last line without its end",
        [LIST, Stream((_added("c", 11)[:-1],)), Stream((_added("c", 11),), "hold")],
        ["stream", "watch 10", "watch 10"],
        {"a": "5", "b": "7", "c": "11"},
        [0.2, 0.4],
    ),
    (
        "a line that is no event",
        [LIST, Stream((b"<html>\n",), "hold"), Stream((_gone("b", 11),), "hold")],
        ["stream", "watch 10", "watch 10"],
        {"a": "5"},
        [0.2, 0.4],
    ),
    (
        "another error event",
        [LIST, Stream((_gone("a", 11), failure(500, "InternalError"))), Stream((_gone("b", 12),), "hold")],
        ["stream", "watch 10", "watch 11"],
        {},
        [0.2, 0.4],
    ),
    (
        "a watch that helps no more, time after time",
        [LIST, *[Stream((TOO_NEW,))] * 5, AGAIN],
        ["stream", *["watch 10"] * 5, "stream"],
        {"c": "20"},
        [0.2, 0.4, 0.8, 1.6, 3.2, 0.0],
    ),
    (
        "a list cut before its end, and a deletion meanwhile",
        [Stream((_added("a", 5), _added("b", 7)), "cut"), AGAIN],
        ["stream", "stream"],
        {"c": "20"},
        [0.2],
    ),
    (
        "a deletion while listing again",
        [
            LIST,
            Stream((failure(410, "Expired"),)),
            Stream((_added("a", 5), _added("b", 7), _gone("b", 21), bookmark(21, ends_list=True)), "hold"),
        ],
        ["stream", "watch 10", "stream"],
        {"a": "5"},
        [0.2, 0.0],
    ),
    (
        "an object that cannot be read",
        [
            Stream(
                (event("ADDED", priority_class("x", 4, value="high")), *LISTED, _added("c", 11)),
                "hold",
            )
        ],
        ["stream"],
        {"a": "5", "b": "7", "c": "11"},
        [],
    ),
    (
        "a busy server that says when to come back",
        [Refusal(429, "TooManyRequests", (("Retry-After", "7"),)), LIST, Stream((_gone("a", 11),), "hold")],
        ["stream", "stream", "watch 10"],
        {"b": "7"},
        [7.0, 0.4],
    ),
    (
        "a broken server",
        [*[Refusal(500, "InternalError")] * 3, Refusal(503, "ServiceUnavailable"), AGAIN],
        ["stream"] * 5,
        {"c": "20"},
        [0.2, 0.4, 0.8, 1.6],
    ),
    (
        "no permission until it is granted",
        [Refusal(403, "Forbidden"), Refusal(401, "Unauthorized"), AGAIN],
        ["stream"] * 3,
        {"c": "20"},
        [0.2, 0.4],
    ),
    (
        "a resource that the server has not yet",
        [Refusal(404, "NotFound"), AGAIN],
        ["stream", "stream"],
        {"c": "20"},
        [0.2],
    ),
    (
        "a server that does not stream lists",
        [
            NO_STREAMS,
            Page(("a",), 10, "more"),
            Page(("b",), 10),
            Stream((_gone("a", 11), failure(410, "Expired"))),
            Page(("c",), 20),
            Stream((_added("d", 21),), "hold"),
        ],
        ["stream", "page", "page more", "watch 10", "page", "watch 20"],
        {"c": "5", "d": "21"},
        [0.0, 0.2],
    ),
    (
        "410 between pages",
        [NO_STREAMS, Page(("a",), 10, "m"), Refusal(410, "Expired"), Page(("b",), 20), Stream((), "hold")],
        ["stream", "page", "page m", "page", "watch 20"],
        {"b": "5"},
        [0.0, 0.2],
    ),
    (
        "a stream that never ends well",
        [*[Stream((b"<html>\n",))] * 5, Page(("a",), 10), Stream((), "hold")],
        [*["stream"] * 5, "page", "watch 10"],
        {"a": "5"},
        [0.2, 0.4, 0.8, 1.6, 0.0],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "requests", "want", "waits"),
    [each[1:] for each in SCRIPTS],
    ids=[each[0] for each in SCRIPTS],
)
async def test_a_script(
    tmp_path: Path, answers: list[Answer], requests: list[str], want: dict[str, str], waits: list[float]
) -> None:
    script = Script(*answers)
    async with informing(script, tmp_path) as scene:
        await script.served.wait()
        await scene.until(lambda: scene.classes == want and scene.informer.follower.listed)
        assert script.asked == requests
        assert scene.waits == waits


async def test_readers_never_see_less_than_there_was(tmp_path: Path) -> None:
    """During a new list the old objects stay, with all their revisions."""
    seen: list[dict[str, str | None]] = []
    script = Script(
        LIST, Stream((failure(410, "Expired"),)), Stream((_added("b", 7), _added("c", 20))), AGAIN
    )
    async with informing(script, tmp_path) as scene:
        await script.served.wait()

        def look() -> bool:
            if not seen or seen[-1] != scene.classes:
                seen.append(scene.classes)
            return "c" in scene.classes

        await scene.until(look)
    assert [each for each in seen if each] == [{"a": "5", "b": "7"}, {"c": "20"}]


async def test_a_connection_gone_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half-open TCP, or with a server without bookmarks, the watch is repeated without an error."""
    monkeypatch.setattr(informer, "_SILENCE_SECONDS", 0.05)
    script = Script(Stream(LISTED, "hold"), Stream((_gone("a", 11),), "hold"))
    async with informing(script, tmp_path) as scene:
        await scene.until(lambda: scene.classes == {"b": "7"})
        assert script.asked[:2] == ["stream", "watch 10"]
        assert "watch failed" not in [each[0] for each in scene.logged]


async def test_a_list_that_falls_silent_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a list is an error."""
    monkeypatch.setattr(informer, "_SILENCE_SECONDS", 0.05)
    script = Script(Stream((LISTED[0],), "hold"), Stream(LISTED, "hold"))
    async with informing(script, tmp_path) as scene:
        await scene.until(lambda: scene.informer.follower.listed)
        (_, fields), *_ = [each for each in scene.logged if each[0] == "watch failed"]
        assert fields["error"].endswith(f": no answer to GET {PATH} in time")


async def test_a_dead_server_is_dialled_often(tmp_path: Path) -> None:
    """A failed server is dialled at least each 3 s, so the state is updated soon after its return."""
    async with informing(Script(Stream(LISTED, "cut")), tmp_path) as scene:
        await scene.until(lambda: scene.informer.follower.listed)
        scene.informer._connection.server = "http://127.0.0.1:1"
        await scene.until(lambda: len(scene.waits) > 7)
        assert scene.waits[:7] == [0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0]
        assert scene.classes == {"a": "5", "b": "7"}


async def test_trouble_is_said_once_and_its_end_too(tmp_path: Path) -> None:
    """A repeated failure is one line; a missing kind is named while it is missing."""
    script = Script(*[Refusal(403, "Forbidden")] * 3, AGAIN)
    async with informing(script, tmp_path) as scene:
        await scene.until(lambda: scene.informer.failure is not None)
        assert scene.informer.unread == (
            'missing permission: list and watch priorityclasses (API group "scheduling.k8s.io") cluster-wide'
        )
        await scene.until(lambda: scene.informer.follower.listed)
        assert [what for what, _ in scene.logged] == ["watch failed", "watch resumed"]
        assert scene.informer.unread == ""
        assert scene.informer.failure is None


STARTING = Refusal(429, "TooManyRequests", (("Retry-After", "1"),))
EXPIRED = Stream((failure(410, "Expired"),))


@pytest.mark.parametrize("times", [8, 9])
@pytest.mark.parametrize(
    ("answers", "event"),
    [
        ((STARTING,), "watch failed"),
        ((LIST, EXPIRED), "watch expired"),
    ],
    ids=["429", "410"],
)
async def test_an_error_that_ends_by_itself_is_a_warning_only_if_repeated(
    tmp_path: Path, answers: tuple[Answer, ...], event: str, times: int
) -> None:
    """A new custom resource answers 429 for seconds, and a changed one ends its watches with 410."""
    async with informing(Script(*answers * times, AGAIN), tmp_path) as scene:
        await scene.until(lambda: "c" in scene.classes)
        told = [fields for what, fields in scene.logged if what == event]
        assert {what for what, _ in scene.logged} == {event, "watch resumed"}
        assert [("reason" in fields, "error" in fields) for fields in told[:1]] == [(True, False)]
        assert sum("error" in fields for fields in told) == times - 8


async def test_a_good_watch_is_followed_at_once(tmp_path: Path) -> None:
    """Servers end a watch every few minutes: the next one starts without a wait."""
    script = Script(LIST, Stream((bookmark(12),)), Stream((_gone("a", 13),), "hold"))
    async with informing(script, tmp_path, step=300.0) as scene:
        await scene.until(lambda: scene.classes == {"b": "7"})
        assert script.asked == ["stream", "watch 10", "watch 12"]
        assert scene.waits == []
