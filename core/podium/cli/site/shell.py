"""`podium ui` as a process: a server on loopback that renders each page from a reading of the cluster.

It listens on 127.0.0.1 alone and only reads. `guard` decides on access, the desk and the pages on content.
Any problem with the input becomes a page that says what, where and what to do.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlencode

import click

from podium.api.times import written
from podium.cli.naming import full_name
from podium.cli.render.html import policy
from podium.cli.site import frame, threatened
from podium.cli.site.desk import Desk
from podium.cli.site.diverging import diverging
from podium.cli.site.frame import Here, Surroundings
from podium.cli.site.guard import HEADERS, Guard, Refusal
from podium.cli.site.history import history
from podium.cli.site.one import one
from podium.cli.site.overview import overview
from podium.cli.site.planning import ACTION, Answer, Form, check, entered, planning
from podium.cli.site.reading import Clock, Keeper, Source
from podium.errors import PodiumError
from podium.service.limits import Limits
from podium.service.messages import Ask, Reply, Route
from podium.service.server import Server
from podium.why.account import State

HOST = "127.0.0.1"
# A form contains a manifest, percent-encoded.
FORM_BYTES = 4 << 20
# For one user's browser; a large cluster takes minutes to list.
LIMITS = Limits(connections=64, waiting=32, default_seconds=900.0, longest_seconds=900.0)

_FORM = "application/x-www-form-urlencoded"
_HTML = {**HEADERS, "Content-Type": "text/html; charset=utf-8"}

_BEGIN = "begin at the overview"
_UNHEARD = {
    404: ("there is no such page", "see how its address is spelt, or begin at the overview"),
    405: ("this is not asked for in this way", "send forms with their button, and begin at the overview"),
    413: (f"the form holds more than {FORM_BYTES >> 20} MiB", "go back, and ask podium whatif --add FILE"),
    500: ("podium failed, which is a bug of ours", "what it failed at stands in the terminal of podium ui"),
    504: ("the cluster took too long to answer", "load this page again, or see one namespace: podium ui -n"),
}

Make = Callable[[Desk, Here, Surroundings], Awaitable[str]]


class Secrets(NamedTuple):
    """The secret values; see `guard`."""

    token: str
    passing: str
    session: str


class Site:
    """The pages of one source, and the access to them; `version` is Podium's."""

    def __init__(self, source: Source, clock: Clock, version: str) -> None:
        self._keeper = Keeper(source, clock)
        self._clock = clock
        self._version = version
        self._guard: Guard

    async def serve(self, port: int, secrets: Secrets) -> tuple[Server, Guard]:
        """Listen (port 0 is any free one), and return the server and the guard with its links.

        Raises PodiumError.
        """
        server = Server(self._routes(), LIMITS, lambda _why: None, worded=_unheard)
        await server.start(HOST, port)
        self._guard = Guard(server.port, **secrets._asdict())
        return server, self._guard

    async def begin(self) -> None:
        """Check that there is something to show. Raises PodiumError."""
        await self._keeper.begin()

    def _routes(self) -> dict[str, Route]:
        pages: dict[str, Make] = {
            "/": self._overview,
            "/group": partial(self._one, "group"),
            "/pod": partial(self._one, "pod"),
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

    async def _answer(self, make: Make, ask: Ask) -> Reply:
        refused = self._guard.strange(ask, posted=False)
        if refused is not None:
            return _refused(refused)
        try:
            query = frame.fields(ask.query)
        except ValueError:
            return _refused(Refusal(400, "this address cannot be read", _BEGIN))
        if ask.path == "/" and "token" in query:
            return self._entered(query["token"])
        refused = self._guard.known(ask)
        if refused is not None:
            return _refused(refused)
        return await self._made(Here(ask.path, query), make)

    async def _planned(self, ask: Ask) -> Reply:
        refused = self._guard.strange(ask, posted=True) or self._guard.known(ask)
        if refused is not None:
            return _refused(refused)
        try:
            form = entered(frame.fields(ask.body.decode(errors="replace")))
        except ValueError:
            return _refused(Refusal(400, "this form cannot be read", "enter it again under What if"))
        here = Here("/whatif", {name: value for name, value in form._asdict().items() if name != "manifest"})
        return await self._made(here, partial(self._answered, form))

    def _entered(self, token: str) -> Reply:
        refused = self._guard.enters(token)
        if refused is not None:
            return _refused(refused)
        # Not a redirect: after one, a browser that came from another site would not send the cookie.
        headers = {"Set-Cookie": self._guard.cookie, "Refresh": "0; url=/"}
        return _page(frame.entry(), headers=headers)

    async def _made(self, here: Here, make: Make) -> Reply:
        again = "again" in here.query
        try:
            desk = await self._keeper.desk(again=again)
        except PodiumError as error:
            return _refused(Refusal(502, str(error), "mend that, then reload this page"))
        if again:
            query = urlencode(
                {name: value for name, value in here.query.items() if name != "again" and value}
            )
            return Reply(303, b"", {**HEADERS, "Location": f"{here.path}?{query}" if query else here.path})
        around = self._around(desk)
        try:
            return _page(await make(desk, here, around))
        except (PodiumError, click.UsageError) as error:
            return _page(frame.problem(_said(error), here, around), 404)

    def _around(self, desk: Desk) -> Surroundings:
        age = int((self._clock() - desk.at).total_seconds())
        return Surroundings(desk.source, written(desk.at), age, self._version, desk.live, desk.unknown)

    # Pages.

    async def _overview(self, desk: Desk, here: Here, around: Surroundings) -> str:
        return overview(desk.census, here, around, desk.reason)

    async def _divergences(self, desk: Desk, here: Here, around: Surroundings) -> str:
        return diverging(desk.divergences, here, around)

    async def _history(self, desk: Desk, here: Here, around: Surroundings) -> str:
        missing = [each for each in desk.read.unknown if each.startswith("PreemptionRecord")]
        around = around._replace(unknown=missing)
        return history(desk.plans, desk.summary, desk.read.known, here, around)

    async def _one(self, kind: str, desk: Desk, here: Here, around: Surroundings) -> str:
        name = full_name("name", here.query.get("name", ""))
        await self._keeper.source.hear(desk, name[0])
        told = desk.told(kind, name, self._clock())
        assert told.account is not None, "nobody would have been an error"
        report = desk.report(told.planned) if told.planned is not None else None
        now = self._clock() if desk.live else None
        return one(told.account, desk.kin(kind, name), report, now, here, around)

    async def _whatif(self, desk: Desk, here: Here, around: Surroundings) -> str:
        return await self._answered(entered(here.query), desk, here, around)

    async def _answered(self, form: Form, desk: Desk, here: Here, around: Surroundings) -> str:
        answer = Answer()
        if not form.empty:
            try:
                check(form)
                answer = desk.plan(form, self._clock())
            except (PodiumError, click.UsageError) as error:
                answer = Answer(error=_said(error))
        return planning(form, answer, desk.named(State.WAITING), here, around)

    async def _threats(self, desk: Desk, here: Here, around: Surroundings) -> str:
        answer = threatened.Answer()
        if name := here.query.get("name", "").strip():
            try:
                answer = threatened.Answer(desk.threat(here.query.get("kind", ""), name, self._clock()))
            except (PodiumError, click.UsageError) as error:
                answer = threatened.Answer(error=_said(error))
        return threatened.threatened(answer, desk.named(State.RUNNING), here, around)


def _page(html: str, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    given = {
        **_HTML,
        "Content-Security-Policy": f"{policy(served=True)}; frame-ancestors 'none'",
        **(headers or {}),
    }
    return Reply(status, html.encode("utf-8", "backslashreplace"), given)


def _unheard(status: int) -> Reply:
    """Return the answer to a request that reached no page; it contains nothing of a cluster."""
    why, fix = _UNHEARD.get(status, (f"this was not answered: {HTTPStatus(status).phrase.lower()}", _BEGIN))
    return _refused(Refusal(status, why, fix))


def _refused(refusal: Refusal) -> Reply:
    return _page(frame.refusal(*refusal), refusal.status)


def _said(error: PodiumError | click.UsageError) -> str:
    return error.format_message() if isinstance(error, click.UsageError) else str(error)
