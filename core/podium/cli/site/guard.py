"""Who may ask `podium ui` for anything: the browser that was given the link, and its own pages.

The page listens on loopback, which every user and every web site in a browser of this machine can reach. So
the link holds a token that nobody guesses, and is exchanged for a cookie that scripts cannot read and other
sites cannot make a browser send; the Host must be the address that was printed (a foreign name that resolves
to loopback is not); and what is posted must come from our own page.

Pure: a request in, a verdict out; the secrets come in.
"""

import hmac
from typing import NamedTuple

from podium.service.messages import Ask

# What every answer carries, beside the policy of a page: no frame, no copy kept, no guess at what it is.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_AGAIN = "open the link that podium ui printed in its terminal"


class Refusal(NamedTuple):
    """Why somebody is not served: a status, what is wrong, and what to do."""

    status: int
    why: str
    fix: str


class Guard:
    """The secrets of one process, and its port.

    `token` is in the link that is printed. `passing` is in the one that a browser is started with, which all
    users of the machine can read in the list of processes: it opens once. `session` is what either gives.
    """

    def __init__(self, port: int, *, token: str, passing: str, session: str) -> None:
        self._name = f"podium-{port}"
        # A browser leaves out the port that is http's own.
        self._suffix = "" if port == 80 else f":{port}"
        self._token = token
        self._passing = passing
        self._session = session
        self._passed = False

    @property
    def link(self) -> str:
        """The link to print."""
        return self._link(self._token)

    @property
    def passing_link(self) -> str:
        """The link that opens once."""
        return self._link(self._passing)

    @property
    def cookie(self) -> str:
        """What a browser is told to keep; cookies know no ports, so the name does."""
        return f"{self._name}={self._session}; HttpOnly; SameSite=Strict; Path=/"

    def strange(self, ask: Ask, *, posted: bool) -> Refusal | None:
        """Refuse who came by another name than ours, or sends a form from another page than ours."""
        host = ask.headers.get("Host", "").lower()
        if host not in (f"127.0.0.1{self._suffix}", f"localhost{self._suffix}"):
            return Refusal(403, "this address is not the one that podium ui printed", _AGAIN)
        site = ask.headers.get("Sec-Fetch-Site", "same-origin")
        if posted and (ask.headers.get("Origin") != f"http://{host}" or site != "same-origin"):
            return Refusal(403, "this form was sent from another page", "open the form from the navigation")
        return None

    def known(self, ask: Ask) -> Refusal | None:
        """Refuse whoever has not come by the link."""
        # Cookies of other servers on loopback come along, and may hold anything but a semicolon.
        for each in ask.headers.get("Cookie", "").split(";"):
            name, _, value = each.strip().partition("=")
            if name == self._name and _same(value, self._session):
                return None
        return Refusal(403, "this browser has not been let in", _AGAIN)

    def enters(self, token: str) -> Refusal | None:
        """Let in who has the token of a link."""
        if _same(token, self._token):
            return None
        if not _same(token, self._passing):
            return Refusal(403, "the token of this link is not the one that podium ui printed", _AGAIN)
        if self._passed:
            why = "this link was for the browser that podium ui started, and has been used"
            return Refusal(403, why, f"{_AGAIN}; if it was not you who used it, stop podium ui")
        self._passed = True
        return None

    def _link(self, token: str) -> str:
        return f"http://127.0.0.1{self._suffix}/?token={token}"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
