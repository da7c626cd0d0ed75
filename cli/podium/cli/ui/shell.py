"""`podium ui` as a process: a server on loopback that renders each page from a reading of the cluster.

It listens on one address of loopback and only reads. `access` decides on requests, the data and the pages on
content. Any problem with the input becomes a page that says what, where and what to do.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from podium.answers.accounts.model import RunState
from podium.answers.targets import parse_name
from podium.api.times import written
from podium.cli.render.html import content_security_policy
from podium.cli.ui import page_parts, threatened
from podium.cli.ui.access import HEADERS, HOST, Guard, Refusal
from podium.cli.ui.diverging import diverging
from podium.cli.ui.history import history
from podium.cli.ui.object_page import object_page
from podium.cli.ui.overview import overview
from podium.cli.ui.page_data import PageData
from podium.cli.ui.page_parts import Here, PageContext
from podium.cli.ui.planning import (
    ACTION,
    EMPTY,
    Form,
    PlanAnswer,
    entered,
    form_errors,
    planning,
    validate_form,
)
from podium.cli.ui.reading import Clock, ClusterSource, SourceCache
from podium.errors import PodiumError
from podium.runtime.host import listen
from podium.runtime.messages import HTTPRequest, HTTPResponse, Limits, Route
from podium.runtime.server import HTTPServer

# A form contains a manifest, percent-encoded.
FORM_BYTES = 4 << 20
# For one user's browser; a large cluster takes minutes to list.
LIMITS = Limits(connections=64, waiting=32, default_seconds=900.0, longest_seconds=900.0)

_FORM = "application/x-www-form-urlencoded"
_HTML = {**HEADERS, "Content-Type": "text/html; charset=utf-8"}

_BEGIN = "open the overview"
_FAILURES = {
    404: ("page not found", "check the address, or open the overview"),
    405: ("method not allowed", "send forms with their button, or open the overview"),
    413: (f"the form holds more than {FORM_BYTES >> 20} MiB", "go back and use podium whatif --add FILE"),
    500: ("podium failed, which is a bug", "the terminal of podium ui shows the error"),
    504: ("the cluster took too long to answer", "load this page again, or see one namespace: podium ui -n"),
}

Make = Callable[[PageData, Here, PageContext], Awaitable[str]]


class Secrets(NamedTuple):
    """The secret values; see `access`."""

    token: str
    passing: str
    session: str


class Site:
    """The pages of one source, and the access to them; `version` is Podium's."""

    def __init__(self, source: ClusterSource, clock: Clock, version: str) -> None:
        self._keeper = SourceCache(source, clock)
        self._clock = clock
        self._version = version
        self._guard: Guard

    async def serve(self, host: str, port: int, secrets: Secrets) -> tuple[HTTPServer, Guard]:
        """Listen (port 0 is any free one), and return the server and the guard with its links.

        If the machine lacks the address, as macOS does, it is HOST. Raises PodiumError.
        """
        server = HTTPServer(self._routes(), LIMITS, lambda _why: None, worded=_failure_page)
        try:
            await server.start(listen(host, port))
        except PodiumError:
            if host == HOST:
                raise
            host = HOST
            await server.start(listen(host, port))
        self._guard = Guard(host, server.port, **secrets._asdict())
        return server, self._guard

    async def check_source(self) -> None:
        """Check that there is something to show. Raises PodiumError."""
        await self._keeper.check_source()

    def _routes(self) -> dict[str, Route]:
        pages: dict[str, Make] = {
            "/": self._overview,
            "/group": partial(self._object, "group"),
            "/pod": partial(self._object, "pod"),
            "/divergences": self._divergences,
            "/history": self._history,
            "/whatif": self._whatif,
            threatened.PATH: self._threats,
        }
        return {
            **{path: Route("GET", partial(self._answer, make)) for path, make in pages.items()},
            ACTION: Route("POST", self._planned, content_type=_FORM, body_limit=FORM_BYTES),
        }

    # Requests.

    async def _answer(self, make: Make, request: HTTPRequest) -> HTTPResponse:
        refused = self._guard.strange(request, posted=False)
        if refused is not None:
            return _refusal_page(refused)
        try:
            query = page_parts.fields(request.query)
        except ValueError:
            return _refusal_page(Refusal(400, "this address cannot be read", _BEGIN))
        if request.path == "/" and "token" in query:
            return self._entered(query["token"])
        refused = self._guard.known(request)
        if refused is not None:
            return _refusal_page(refused)
        return await self._made(Here(request.path, query), make)

    async def _planned(self, request: HTTPRequest) -> HTTPResponse:
        refused = self._guard.strange(request, posted=True) or self._guard.known(request)
        if refused is not None:
            return _refusal_page(refused)
        try:
            form = entered(page_parts.fields(request.body.decode(errors="replace")))
        except ValueError:
            return _refusal_page(Refusal(400, "this form cannot be read", "enter it again under What if"))
        here = Here("/whatif", {name: value for name, value in form._asdict().items() if name != "manifest"})
        return await self._made(here, partial(self._answered, form, asked=True))

    def _entered(self, token: str) -> HTTPResponse:
        refused = self._guard.enters(token)
        if refused is not None:
            return _refusal_page(refused)
        # Not a redirect: after one, a browser that came from another site would not send the cookie.
        headers = {"Set-Cookie": self._guard.cookie, "Refresh": "0; url=/"}
        return _page(page_parts.entry(), headers=headers)

    async def _made(self, here: Here, make: Make) -> HTTPResponse:
        again = "again" in here.query
        seconds = page_parts.refresh(here, live=self._keeper.source.live)
        headers = {"Refresh": seconds} if seconds else {}
        try:
            data = await self._keeper.data(again=again)
        except PodiumError as error:
            return _refusal_page(Refusal(502, str(error), "correct it, then reload this page"), headers)
        if again:
            location = page_parts.address(here.path, **{**here.query, "again": ""})
            return HTTPResponse(303, b"", {**HEADERS, "Location": location})
        around = self._around(data)
        try:
            return _page(await make(data, here, around), headers=headers)
        except PodiumError as error:
            return _page(page_parts.problem(str(error), here, around), 404, headers)

    def _around(self, data: PageData) -> PageContext:
        age = int((self._clock() - data.cluster.at).total_seconds())
        return PageContext(
            data.cluster.source,
            written(data.cluster.at),
            age,
            self._version,
            data.cluster.live,
            data.unknown,
        )

    def _now(self, data: PageData) -> datetime | None:
        """Return the time from which ages count; None for files, whose content is past."""
        return self._clock() if data.cluster.live else None

    # Pages.

    async def _overview(self, data: PageData, here: Here, around: PageContext) -> str:
        return overview(data.census, data.map, here, around, data.reason, self._now(data))

    async def _divergences(self, data: PageData, here: Here, around: PageContext) -> str:
        return diverging(data.divergences, here, around)

    async def _history(self, data: PageData, here: Here, around: PageContext) -> str:
        missing = [line for line in data.cluster.unknown if line.startswith("PreemptionRecord")]
        around = around._replace(unknown=missing)
        return history(data.plans, data.summary, data.cluster.known, here, around)

    async def _object(self, kind: str, data: PageData, here: Here, around: PageContext) -> str:
        with form_errors():
            name = parse_name("name", here.query.get("name", ""))
        await self._keeper.source.add_events(data, name[0])
        explained = data.explain(kind, name, self._clock())
        report = data.report(explained.planned) if explained.planned is not None else None
        related = data.related(kind, name)
        return object_page(explained.account, related, report, self._now(data), here, around)

    async def _whatif(self, data: PageData, here: Here, around: PageContext) -> str:
        return await self._answered(entered(here.query), data, here, around, asked=False)

    async def _answered(
        self, form: Form, data: PageData, here: Here, around: PageContext, *, asked: bool
    ) -> str:
        answer = PlanAnswer(error=EMPTY if asked else "")
        if not form.empty:
            try:
                validate_form(form)
                answer = data.plan(form, self._clock())
            except PodiumError as error:
                answer = PlanAnswer(error=str(error))
        return planning(form, answer, data.named(RunState.WAITING), here, around)

    async def _threats(self, data: PageData, here: Here, around: PageContext) -> str:
        answer = threatened.ThreatAnswer(error=threatened.EMPTY if "name" in here.query else "")
        if name := here.query.get("name", "").strip():
            try:
                answer = threatened.ThreatAnswer(data.threat(here.query.get("kind", ""), name, self._clock()))
            except PodiumError as error:
                answer = threatened.ThreatAnswer(error=str(error))
        names = data.named(RunState.STARTING, RunState.RUNNING)
        return threatened.threatened(answer, names, here, around)


def _page(html: str, status: int = 200, headers: dict[str, str] | None = None) -> HTTPResponse:
    given = {
        **_HTML,
        "Content-Security-Policy": f"{content_security_policy(served=True)}; frame-ancestors 'none'",
        **(headers or {}),
    }
    return HTTPResponse(status, html.encode("utf-8", "backslashreplace"), given)


def _failure_page(status: int) -> HTTPResponse:
    """Return the answer to a request that reached no page; it contains nothing of a cluster."""
    why, fix = _FAILURES.get(status, (f"this was not answered: {HTTPStatus(status).phrase.lower()}", _BEGIN))
    return _refusal_page(Refusal(status, why, fix))


def _refusal_page(refusal: Refusal, headers: dict[str, str] | None = None) -> HTTPResponse:
    return _page(page_parts.refusal(*refusal), refusal.status, headers)
