"""Access to `podium ui`: only the browser with the link, and its own pages, get an answer.

The page listens on loopback, which every user and every web site in a browser of this machine can reach. The
link therefore contains a secret token. It is exchanged for a cookie that scripts cannot read and that other
sites cannot make a browser send. The Host must be the printed address (a foreign name that resolves to
loopback is refused), and posts must come from our own page.

Pure: a request in, a verdict out; secrets are arguments.
"""

import hmac
from typing import NamedTuple

from podium.runtime.messages import HTTPRequest

# Headers of every answer, beside the policy of a page: no frames, no caching, no content sniffing.
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_AGAIN = "open the link that podium ui printed in its terminal"


class Refusal(NamedTuple):
    """The reason for a refused request: a status, what is wrong, and what to do."""

    status: int
    why: str
    fix: str


class Guard:
    """The secrets of one process, and its port.

    `token` is in the printed link. `passing` is in the link with which a browser is started. All users of the
    machine can see that link in the process list, so it works once. `session` is the cookie that either link
    gives.
    """

    def __init__(self, port: int, *, token: str, passing: str, session: str) -> None:
        self._name = f"podium-{port}"
        # A browser omits the default port of http.
        self._suffix = "" if port == 80 else f":{port}"
        self._token = token
        self._passing = passing
        self._session = session
        self._passed = False

    @property
    def link(self) -> str:
        """Return the link to print."""
        return self._link(self._token)

    @property
    def passing_link(self) -> str:
        """Return the link that works once."""
        return self._link(self._passing)

    @property
    def cookie(self) -> str:
        """Return the cookie for a browser; its name contains the port, because cookies ignore ports."""
        return f"{self._name}={self._session}; HttpOnly; SameSite=Strict; Path=/"

    def strange(self, ask: HTTPRequest, *, posted: bool) -> Refusal | None:
        """Return a refusal for a foreign Host, or for a form that was sent from another page."""
        host = ask.headers.get("Host", "").lower()
        if host not in (f"127.0.0.1{self._suffix}", f"localhost{self._suffix}"):
            return Refusal(403, "the address is not the address that podium ui printed", _AGAIN)
        site = ask.headers.get("Sec-Fetch-Site", "same-origin")
        if posted and (ask.headers.get("Origin") != f"http://{host}" or site != "same-origin"):
            return Refusal(403, "this form came from another page", "open the form from the navigation")
        return None

    def known(self, ask: HTTPRequest) -> Refusal | None:
        """Return a refusal for a request without the session cookie."""
        # Cookies of other servers on loopback are sent too, and may contain anything but a semicolon.
        for each in ask.headers.get("Cookie", "").split(";"):
            name, _, value = each.strip().partition("=")
            if name == self._name and _same(value, self._session):
                return None
        return Refusal(403, "this browser is not signed in", _AGAIN)

    def enters(self, token: str) -> Refusal | None:
        """Return a refusal unless the token is that of a link."""
        if _same(token, self._token):
            return None
        if not _same(token, self._passing):
            return Refusal(403, "the token of this link is not the token that podium ui printed", _AGAIN)
        if self._passed:
            why = "this link was for the browser that podium ui started, and is used up"
            return Refusal(403, why, f"{_AGAIN}; if you did not use it, stop podium ui")
        self._passed = True
        return None

    def _link(self, token: str) -> str:
        return f"http://127.0.0.1{self._suffix}/?token={token}"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
