"""The server of the pages: its answers, their headers, and its reads of the cluster."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from http.client import HTTPMessage
from http.client import parse_headers as headers_of
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
import structlog
from tests.support.ui.clusters import NOW, Objects, mixed, page_data

from podium.cli.ui import planning, threatened
from podium.cli.ui.access import HOST
from podium.cli.ui.page_data import PageData
from podium.cli.ui.reading import Clock as AnyClock
from podium.cli.ui.reading import ClusterSource, SourceCache
from podium.cli.ui.shell import FORM_BYTES, Secrets, Site
from podium.errors import PodiumError

SECRETS = Secrets("token", "passing", "session")


class Response(NamedTuple):
    status: int
    headers: HTTPMessage
    text: str


class UiClient:
    """A client with our cookie, unless `cookie` is given."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"{HOST}:{port}"
        self.cookie = f"podium-{port}={SECRETS.session}"

    async def get(self, target: str, **headers: str) -> Response:
        return await self.ask("GET", target, b"", headers)

    async def post(self, target: str, body: bytes, **headers: str) -> Response:
        given = {
            "Origin": f"http://{self.host}",
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        return await self.ask("POST", target, body, given)

    async def ask(self, method: str, target: str, body: bytes, headers: dict[str, str]) -> Response:
        """Send a request; a header with an empty value is left out."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        given = {"Host": self.host, "Cookie": self.cookie, "Content-Length": str(len(body)), **headers}
        lines = [f"{name}: {value}" for name, value in given.items() if value]
        writer.write(
            f"{method} {target} HTTP/1.1\r\n".encode() + "\r\n".join([*lines, "", ""]).encode() + body
        )
        status = int((await reader.readline()).split()[1])
        fields = headers_of(BytesIO(await reader.readuntil(b"\r\n\r\n")))
        content = await reader.readexactly(int(fields["Content-Length"]))
        writer.close()
        await writer.wait_closed()
        return Response(status, fields, content.decode())


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def visiting(source: ClusterSource, clock: Clock | None = None) -> AsyncIterator[UiClient]:
    """Serve a source and yield a client."""
    server, guard = await Site(source, clock or Clock(), "0.1.0").serve(HOST, 0, SECRETS)
    try:
        assert guard.link.endswith("?token=token")
        yield UiClient(server.port)
    finally:
        await server.close()


PATHS = ("/", "/divergences", "/history", "/whatif", "/threats", "/group?name=a/train", "/pod?name=a/lone")


class Tray:
    """A source with a stored value that counts its reads; without a value a read fails."""

    def __init__(self, folder: Path, objects: Objects | None = None, *, live: bool = False) -> None:
        self.live = live
        self.reads = 0
        self.heard: list[str] = []
        self._folder = folder
        self.objects = objects

    async def reach(self) -> None:
        """Return without an effect."""

    async def read(self, clock: AnyClock) -> PageData:
        self.reads += 1
        if self.objects is None:
            raise PodiumError("pods of all namespaces cannot be read: missing permission: list pods")
        made = page_data(self.objects, self._folder)
        return PageData(made.cluster._replace(live=self.live, at=clock()))

    async def add_events(self, data: PageData, namespace: str) -> None:  # noqa: ARG002 - the signature of Source
        self.heard.append(namespace)


@pytest.fixture
def tray(tmp_path: Path) -> Tray:
    return Tray(tmp_path, mixed())


@pytest.mark.parametrize("path", PATHS)
async def test_every_page_is_served_under_lock(path: str, tray: Tray) -> None:
    """With the cookie a page is served, uncached, in no frame, without external resources; else refused."""
    async with visiting(tray) as visitor:
        response = await visitor.get(path)
        assert response.status == 200, response.text
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "script-src" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "<script" not in response.text
        for wrong in ({"Cookie": ""}, {"Cookie": "podium=session"}, {"Host": "evil.example"}):
            refused = await visitor.get(path, **wrong)
            assert refused.status == 403
            assert "train" not in refused.text
            assert "open the link that podium ui printed" in refused.text.lower()


async def test_the_link_is_exchanged_for_a_cookie(tray: Tray) -> None:
    """The token opens a session and leaves the address; a wrong one gets a remedy, and nothing is read."""
    async with visiting(tray) as visitor:
        entered = await visitor.get("/?token=token", Cookie="")
        assert entered.status == 200
        assert entered.headers["Refresh"] == "0; url=/"
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
        assert "token=" not in entered.text
        assert tray.reads == 0
        assert (await visitor.get("/", Cookie=cookie)).status == 200
        wrong = await visitor.get("/?token=other", Cookie="")
        assert wrong.status == 403
        assert wrong.headers["Set-Cookie"] is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": ""},
        {"Origin": "null"},
        {"Cookie": ""},
        {"Host": "evil.example"},
    ],
)
async def test_a_form_of_another_page_is_refused(headers: dict[str, str], tray: Tray) -> None:
    async with visiting(tray) as visitor:
        response = await visitor.post("/whatif/plan", b"target=a%2Ftrain", **headers)
        assert response.status == 403
        assert tray.reads == 0


async def test_a_large_body_is_refused_before_it_comes(tray: Tray) -> None:
    """A body larger than a form is refused by its header; the form names a manifest that is too large."""
    async with visiting(tray) as visitor:
        response = await visitor.ask(
            "POST",
            "/whatif/plan",
            b"",
            {
                "Origin": f"http://{visitor.host}",
                "Content-Type": "application/x-www-form-urlencoded",
                "Content-Length": str(FORM_BYTES + 1),
            },
        )
        assert response.status == 413
        assert "The form holds more than 4 MiB." in response.text
        body = urlencode({"target": "a/train", "manifest": "#" * (planning.MANIFEST + 1)}).encode()
        response = await visitor.post("/whatif/plan", body)
        assert response.status == 200
        assert "the manifest is larger than 1 MiB. Use podium whatif --add FILE" in response.text
        assert 'value="a/train"' in response.text


async def test_an_empty_form_explains_itself(tray: Tray) -> None:
    """A new form has no error; a sent one has, in the texts of the page."""
    async with visiting(tray) as visitor:
        for page in ("/whatif", "/threats"):
            response = await visitor.get(page)
            assert 'role="alert"' not in response.text
        sent = await visitor.post("/whatif/plan", b"target=&manifest=&budgets=strict")
        assert f'role="alert">{planning.EMPTY}' in sent.text
        assert '<option value="strict" selected>' in sent.text
        asked = await visitor.get("/threats?name=+")
        assert f'role="alert">{threatened.EMPTY}' in asked.text


async def test_errors_and_plans_name_fields_not_options(tray: Tray) -> None:
    """No page names an option of the command."""
    async with visiting(tray) as visitor:
        wrong = await visitor.get("/whatif?target=a/train&now=yesterday")
        assert "Time of the plan: &#x27;yesterday&#x27; is not a time" in wrong.text
        plan = await visitor.get("/whatif?target=a/train&now=2026-11-22T09:00:00Z&semantics=pods")
        assert "semantics pods: set in the form" in plan.text
        assert "Time: 2026-11-22T09:00:00Z (set in the form)" in plan.text
        for text in (wrong.text, plan.text):
            assert not re.findall(r"\s--[a-z]+", text.partition("<body>")[2])


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/../etc/passwd", 404),
        ("POST", "/", 405),
        ("GET", "/whatif/plan", 405),
        ("DELETE", "/pod?name=a/lone", 405),
        ("GET", "/?" + "&".join(f"x{n}=1" for n in range(99)), 400),
        ("GET", "/pod?name=a/nobody", 404),
        ("GET", "/group?name=a", 404),
        ("GET", "/pod", 404),
        ("GET", "/pod?name=%ff%00%2f%ff", 404),
        ("GET", "/?page=-1&state=%3Cscript%3E&namespace=zzz&what=!", 200),
        ("GET", "/?page=99999999999999999999", 200),
        ("GET", "/?words=1&path=2&self=3", 200),
        ("GET", "/history?mode=%22%3E&page=x", 200),
        ("GET", "/whatif?target=nobody&semantics=9", 200),
        ("GET", "/threats?name=a/nobody", 200),
        ("GET", "/threats?name=%ff&kind=%ff", 200),
    ],
)
async def test_no_address_breaks_it(method: str, target: str, status: int, tray: Tray) -> None:
    """Every request gets a page or a refusal; never an internal error, and no markup of the client's."""
    async with visiting(tray) as visitor:
        with structlog.testing.capture_logs() as logs:
            response = await visitor.ask(method, target, b"", {})
        assert response.status == status, response.text
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert 'href="/"' in response.text
        assert logs == []
        assert "<script" not in response.text
        assert "Traceback" not in response.text


async def test_an_error_says_what_and_where(tray: Tray) -> None:
    """The page of an absent pod has the message of `podium why`, with a link onwards."""
    async with visiting(tray) as visitor:
        response = await visitor.get("/pod?name=a/lon")
        assert "pod a/lon not found, and no record of it" in response.text.lower()
        assert "did you mean lone?" in response.text
        assert 'href="/history"' in response.text


async def test_a_failed_read_is_reported_and_retried(tmp_path: Path) -> None:
    """Each request reads again, because a right may have been granted meanwhile."""
    tray = Tray(tmp_path, live=True)
    async with visiting(tray) as visitor:
        response = await visitor.get("/")
        assert response.status == 502
        assert "missing permission: list pods." in response.text
        tray.objects = mixed()
        assert (await visitor.get("/")).status == 200


async def test_a_cluster_is_read_again_after_some_seconds_or_when_asked(tray: Tray) -> None:
    """Pages within five seconds share a read, and show its age; `read again` leaves the address."""
    tray.live = True
    clock = Clock()
    async with visiting(tray, clock) as visitor:
        for path in PATHS:
            assert (await visitor.get(path)).status == 200
        assert tray.reads == 1
        assert tray.heard == ["a", "a"]
        clock.now = NOW + timedelta(seconds=4)
        assert "read 4 s ago" in (await visitor.get("/")).text
        clock.now = NOW + timedelta(seconds=6)
        assert "read 0 s ago" in (await visitor.get("/")).text
        assert tray.reads == 2
        clock.now = NOW + timedelta(seconds=7)
        again = await visitor.get("/group?name=a/train&again=1")
        assert (again.status, again.headers["Location"]) == (303, "/group?name=a%2Ftrain")
        assert tray.reads == 3


@pytest.mark.parametrize(
    ("target", "live", "seconds"),
    [
        ("/", True, None),
        ("/?refresh=10", True, "10"),
        ("/group?name=a/train&refresh=60", True, "60"),
        ("/pod?name=a/gone&refresh=10", True, "10"),
        ("/?refresh=1", True, None),
        ("/?refresh=10", False, None),
        ("/whatif?refresh=10", True, None),
        ("/threats?refresh=10", True, None),
    ],
)
async def test_a_live_page_is_loaded_again_on_request(
    target: str, live: bool, seconds: str | None, tray: Tray
) -> None:
    """Only at the offered intervals, and never a page whose form holds input."""
    tray.live = live
    async with visiting(tray) as visitor:
        assert (await visitor.get(target)).headers.get("Refresh") == seconds


async def test_a_failed_read_does_not_end_the_refresh(tmp_path: Path) -> None:
    async with visiting(Tray(tmp_path, live=True)) as visitor:
        response = await visitor.get("/?refresh=10")
        assert (response.status, response.headers["Refresh"]) == (502, "10")


async def test_a_reading_continues_when_its_client_has_gone(tmp_path: Path) -> None:
    """A reloaded page waits for the running read, and starts no second one."""
    began, may_end = asyncio.Event(), asyncio.Event()

    class Slow(Tray):
        async def read(self, clock: AnyClock) -> PageData:
            began.set()
            await may_end.wait()
            return await super().read(clock)

    tray = Slow(tmp_path, mixed(), live=True)
    keeper = SourceCache(tray, Clock())
    first = asyncio.create_task(keeper.data())
    await began.wait()
    first.cancel()
    second, third = asyncio.create_task(keeper.data()), asyncio.create_task(keeper.data(again=True))
    may_end.set()
    assert await second is await third
    assert first.cancelled()
    assert tray.reads == 1


async def test_files_are_read_once(tray: Tray) -> None:
    """Files are read again on request only, when a user has taken a new dump."""
    clock = Clock()
    async with visiting(tray, clock) as visitor:
        await visitor.get("/")
        clock.now = NOW + timedelta(days=1)
        assert "from a file" in (await visitor.get("/")).text
        assert tray.reads == 1
        await visitor.get("/?again=1")
        assert tray.reads == 2
