"""Objects of any size over a connection: informers read on, and lists use little memory."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, serving, status
from tests.support.informer.changing import Resource, following
from tests.support.informer.history import bookmark
from tests.support.informer.hostile import CASES, pod

from podium.api.reads import Kind
from podium.kube.connection import LONGEST_ANSWER, LONGEST_LINE, LineSplitter, TooLargeError, connect
from podium.kube.reading import PAGE_BYTES, Pager

PODS = "/api/v1/pods"
NEXT = json.dumps(pod("next", 9)).encode()
BEYOND = json.dumps(pod("x", 8, spec={"a": "<" * LONGEST_LINE})).encode()


class Hostile(Resource):
    """Pods as bytes; `streams` selects lists as watches."""

    def __init__(self, *pods: bytes, streams: bool) -> None:
        super().__init__(20)
        self._pods = pods
        self._streams = streams

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a watch or a page."""
        if "sendInitialEvents" in request.query and not self._streams:
            return status(422, "Invalid", "because")
        if "limit" in request.query:
            body = (
                b'{"kind":"PodList","metadata":{"resourceVersion":"20"},"items":['
                + b",".join(self._pods)
                + b"]}"
            )
            return web.Response(body=body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if "sendInitialEvents" in request.query:
            for each in self._pods:
                await response.write(b'{"type":"ADDED","object":' + each + b"}\n")
            await response.write(bookmark(20, ends_list=True))
        await self.hold()
        return response


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "pages"])
async def test_every_hostile_object_at_once_stops_no_informer(tmp_path: Path, streams: bool) -> None:
    """Decodable objects are read, the others counted, and the watch continues behind them."""
    texts = [
        case.text.replace(b'"x"', b'"x%d"' % number).replace(b'"uid-x"', b'"uid-x%d"' % number)
        for number, case in enumerate(CASES)
    ]
    hostile = Hostile(*texts, NEXT, streams=streams)
    async with following(Fake(), tmp_path, (Kind.POD,), {PODS: hostile}) as scene:
        await scene.until(lambda: scene.cluster.synced, step=0.1)
        names = {name for _, name in scene.state.pods}
        undecodable = {each.metadata.name for each in scene.cluster.undecodable()["pods"]}
        # An audit's read names fewer fields than a scheduler's: an unread field cannot be wrong.
        assert undecodable <= {f"x{number}" for number, case in enumerate(CASES) if not case.decodable}
        assert len(undecodable) >= 10
        assert {f"x{number}" for number, case in enumerate(CASES) if case.decodable} < names
        assert "next" in names
        assert scene.cluster.undecodable_reads() == {"pods": len(undecodable)}
        assert scene.events().count("object not decodable pods") == len(undecodable)


async def test_a_line_past_the_bound_is_counted_and_the_watch_goes_on(tmp_path: Path) -> None:
    """No API server stores as much; the object is undecodable then, but the watch goes on."""
    async with following(Fake(), tmp_path, (Kind.POD,), {PODS: Hostile(BEYOND, NEXT, streams=True)}) as scene:
        await scene.until(lambda: scene.cluster.synced)
        assert [each.metadata.name for each in scene.cluster.undecodable()["pods"]] == ["x"]
        assert set(scene.state.pods) == {("evil", "next")}
        assert "watch failed" not in " ".join(scene.events())


# Chunks, the bound, and the lines.
SPLITS: list[tuple[str, list[bytes], int, list[bytes]]] = [
    ("whole lines", [b"a\nb\n"], 9, [b"a\n", b"b\n"]),
    ("a line in pieces", [b"a", b"b", b"c\nd"], 9, [b"abc\n"]),
    ("an end of its own", [b"ab", b"\n"], 9, [b"ab\n"]),
    ("empty lines", [b"\n\n"], 9, [b"\n", b"\n"]),
    ("no end", [b"ab"], 9, []),
    ("as long as may be", [b"abc\n"], 4, [b"abc\n"]),
    ("one byte longer", [b"abcd\ne\n"], 4, [b"abcd", b"e\n"]),
    ("longer, in pieces", [b"ab", b"cd", b"ef", b"g\nh\n"], 4, [b"abcd", b"h\n"]),
    ("a carriage return is no end", [b"a\rb\n"], 9, [b"a\rb\n"]),
    ("nor is a line separator", ["a\u2028\u0085b\n".encode()], 9, ["a\u2028\u0085b\n".encode()]),
]


@pytest.mark.parametrize(
    ("chunks", "longest", "want"), [each[1:] for each in SPLITS], ids=[each[0] for each in SPLITS]
)
def test_lines(chunks: list[bytes], longest: int, want: list[bytes]) -> None:
    splitter = LineSplitter(longest)
    assert [line for chunk in chunks for line in splitter.split(chunk)] == want
    assert splitter.unfinished == (not chunks[-1].endswith(b"\n"))


def test_a_line_of_any_length_takes_bounded_memory() -> None:
    """Bytes past the bound are dropped as they arrive."""
    splitter = LineSplitter(1 << 20)
    chunk = b"x" * (1 << 16)
    tracemalloc.start()
    try:
        for _ in range(160):
            assert splitter.split(chunk) == []
        (line,) = splitter.split(b"\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(line) == 1 << 20
    # The line being read, as it grows, and the returned line.
    assert peak < 3 << 20


class Listed:
    """A list of objects of this many bytes each; `asked` are the limits."""

    def __init__(self, *sizes: int) -> None:
        self.asked: list[int] = []
        self._sizes = sizes

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a page, as much of it as is read."""
        limit, first = int(request.query["limit"]), int(request.query.get("continue", 0))
        self.asked.append(limit)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"items":[')
        for number, size in enumerate(self._sizes[first : first + limit]):
            filling = "x" * size
            await response.write((b"," if number else b"") + json.dumps([first + number, filling]).encode())
        more = str(first + limit) if first + limit < len(self._sizes) else ""
        await response.write(b'],"metadata":' + json.dumps({"continue": more}).encode() + b"}")
        return response


async def _read(listed: Listed, folder: Path) -> tuple[list[int], list[int]]:
    """Read a list; return the numbers of the objects, and the sizes of the pages."""
    fake = Fake()
    fake.answers["/list"] = listed.answer
    numbers, sizes = [], []
    async with serving(fake), connect(fake.kubeconfig(folder), None) as connection:
        pager, token = Pager(connection, "/list", {}), ""
        while True:
            body = await pager.page(token)
            page: dict[str, Any] = json.loads(body)
            numbers += [number for number, _ in page["items"]]
            sizes.append(len(body))
            token = page["metadata"]["continue"]
            if not token:
                return numbers, sizes


# The number of bytes that represents a mebibyte here.
MIB = 1 << 12
LISTS: list[tuple[str, list[int], list[int]]] = [
    ("small objects", [0] * 1200, [500, 500, 500]),
    ("objects of 1 MiB from the start", [MIB] * 40, [500, 62, *[7] * 6]),
    ("large ones behind small ones", [0] * 500 + [9 * MIB] * 4, [500, 500, 62, 7, 1, 1, 1, 1]),
    ("small ones behind large ones", [15 * MIB] * 3 + [0] * 40, [500, 62, 7, 1, 1, 1, 1, 2, 4, 8, 16, 32]),
    ("an empty list", [], [500]),
]


@pytest.fixture
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.kube.connection.LONGEST_ANSWER", (LONGEST_ANSWER >> 20) * MIB)
    monkeypatch.setattr("podium.kube.reading.PAGE_BYTES", (PAGE_BYTES >> 20) * MIB)


@pytest.mark.usefixtures("_small_bounds")
@pytest.mark.parametrize(("sizes", "limits"), [each[1:] for each in LISTS], ids=[each[0] for each in LISTS])
async def test_a_page_has_as_many_objects_as_its_bytes_allow(
    tmp_path: Path, sizes: list[int], limits: list[int]
) -> None:
    """Nothing is read twice or left out, and no page exceeds the bound."""
    listed = Listed(*sizes)
    numbers, pages = await _read(listed, tmp_path)
    assert numbers == list(range(len(sizes)))
    assert max(pages) <= (LONGEST_ANSWER >> 20) * MIB
    assert listed.asked == limits


@pytest.mark.usefixtures("_small_bounds")
async def test_an_object_past_the_bound_is_an_error_of_its_list(tmp_path: Path) -> None:
    """No API server stores one."""
    with pytest.raises(TooLargeError, match="GET /list: the answer is larger than"):
        await _read(Listed(33 * MIB), tmp_path)


def test_an_object_fits_a_line_and_a_page() -> None:
    """Two MiB in etcd, six bytes of JSON for each; reading one needs little memory."""
    assert 12 << 20 < LONGEST_LINE < LONGEST_ANSWER <= 32 << 20
    assert PAGE_BYTES < LONGEST_ANSWER
