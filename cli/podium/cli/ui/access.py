"""Access to `podium ui`: only browsers with the link, and their own pages, get an answer.

The page listens on loopback, which every user and every web site in a browser of this machine can reach. The
link therefore contains a secret token. It is exchanged for a cookie that scripts cannot read and that other
sites cannot make a browser send. The Host must be the printed address (a foreign name that resolves to
loopback is refused), and posts must come from our own page.

Pure: a request in, a verdict out; secrets are arguments.
"""

import hmac
import time
from collections.abc import Callable
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


# Seconds in which the printed link opens the pages. A terminal's history shows it for longer.
LINK_SECONDS = 600.0
_AGAIN = "open the link that podium ui printed in its terminal"


# The address that each machine has.
HOST = "127.0.0.1"


def own_host(random: bytes) -> str:
    """Return an address of loopback from three random bytes.

    Cookies ignore ports, so a browser would send a cookie of 127.0.0.1 to other users' servers there too.
    """
    return ".".join(["127", *(str(1 + byte % 254) for byte in random)])


class Refusal(NamedTuple):
    """The reason for a refused request: a status, what is wrong, and what to do."""

    status: int
    why: str
    fix: str


class Guard:
    """The secrets of one process, and its address.

    `token` is in the printed link, which works for LINK_SECONDS. `passing` is in the link that starts a
    browser. All users of the machine can see that link in the process list, so it works once. `session` is
    the cookie that either link gives.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str,
        passing: str,
        session: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = f"podium-{port}"
        # A browser omits the default port of http.
        suffix = "" if port == 80 else f":{port}"
        self._address = f"{host}{suffix}"
        self._hosts = (self._address, f"localhost{suffix}") if host == HOST else (self._address,)
        self._clock = clock
        self._ends = clock() + LINK_SECONDS
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

    def strange(self, request: HTTPRequest, *, posted: bool) -> Refusal | None:
        """Return a refusal for a foreign Host, or for a form that was sent from another page."""
        host = request.headers.get("Host", "").lower()
        if host not in self._hosts:
            return Refusal(403, "the address is not the address that podium ui printed", _AGAIN)
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        if posted and (request.headers.get("Origin") != f"http://{host}" or site != "same-origin"):
            return Refusal(403, "this form came from another page", "open the form from the navigation")
        return None

    def known(self, request: HTTPRequest) -> Refusal | None:
        """Return a refusal for a request without the session cookie."""
        # Cookies of other servers on loopback are sent too, and may contain anything but a semicolon.
        for cookie in request.headers.get("Cookie", "").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self._name and _same(value, self._session):
                return None
        return Refusal(403, "this browser is not signed in", _AGAIN)

    def enters(self, token: str) -> Refusal | None:
        """Return a refusal unless the token is that of a link."""
        if _same(token, self._token):
            if self._clock() < self._ends:
                return None
            return Refusal(403, "the link has expired", "start podium ui again, and open its link soon")
        if not _same(token, self._passing):
            return Refusal(403, "the token of this link is not the token that podium ui printed", _AGAIN)
        if self._passed:
            why = "this link was for the browser that podium ui started, and is used up"
            return Refusal(403, why, f"{_AGAIN}; if you did not use it, stop podium ui")
        self._passed = True
        return None

    def _link(self, token: str) -> str:
        return f"http://{self._address}/?token={token}"


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(errors="replace"), right.encode())
