"""URLs as Go reads them.

Source: Go net/url (ParseRequestURI).
"""

import re
from typing import NamedTuple
from urllib.parse import unquote_plus

from kubecel.effort import READ, SEARCHED, meter
from kubecel.goquote import go_quote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@!'()*%")


class UrlError(Exception):
    """A text that is no URL; the text is Go's."""


class UrlParts(NamedTuple):
    """The parts of a URL; the path is as it was written."""

    scheme: str
    user: str
    host: str
    path: str
    query: str
    opaque: str = ""

    def full_text(self) -> str:
        """Return the URL."""
        query = f"?{self.query}" if self.query else ""
        if self.opaque:
            return f"{self.scheme}:{self.opaque}{query}"
        authority = f"//{self.user + '@' if self.user else ''}{self.host}" if self.host or self.scheme else ""
        scheme = f"{self.scheme}:" if self.scheme else ""
        return scheme + authority + self.escaped_path() + query

    def hostname(self) -> str:
        """Return the host without its port and brackets."""
        meter.spend(len(self.host) // SEARCHED)
        host, colon, port = self.host.rpartition(":")
        name = host if colon and (not port or port.isdigit()) and "]" not in port else self.host
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name

    def port(self) -> str:
        """Return the port, which may be missing."""
        meter.spend(len(self.host) // SEARCHED)
        host, colon, port = self.host.rpartition(":")
        return port if colon and port.isdigit() and (not host.startswith("[") or host.endswith("]")) else ""

    def escaped_path(self) -> str:
        """Return the path, with escapes for what needs them."""
        meter.spend(len(self.path) // READ)
        return "".join(
            c if c in _PATH else "".join(f"%{octet:02X}" for octet in c.encode("utf-8", "surrogatepass"))
            for c in self.path
        )

    def query_values(self) -> dict[str, list[str]]:
        """Return the parameters; those that cannot be read are left out."""
        meter.spend(len(self.query) // READ)
        parameters: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if not pair or ";" in pair or _PERCENT.search(pair):
                continue
            key, _, value = pair.partition("=")
            parameters.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        return parameters


def parse_url(text: str) -> UrlParts:
    """Return the parts of a URL that may be requested. Raises UrlError."""

    def url_error(reason: str) -> UrlError:
        return UrlError(f"parse {go_quote(text)}: {reason}")

    if any(ord(c) < 0x20 or c == "\x7f" for c in text):
        raise url_error("net/url: invalid control character in URL")
    if not text:
        raise url_error("empty url")
    if text == "*":
        return UrlParts("", "", "", "*", "")
    scheme, rest = _scheme(text, url_error)
    rest, _, query = rest.partition("?")
    user = host = ""
    if not rest.startswith("/"):
        if scheme:
            return UrlParts(scheme, "", "", "", query, opaque=rest)
        raise url_error("invalid URI for request")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        if scheme:
            user, _, host = authority.rpartition("@")
            _check_host(host, url_error)
        else:
            rest = f"//{authority}{rest}"
    bad = _PERCENT.search(rest)
    if bad is not None:
        raise url_error(f"invalid URL escape {go_quote(rest[bad.start() : bad.start() + 3])}")
    return UrlParts(scheme, user, host, rest, query)


def _scheme(text: str, url_error) -> tuple[str, str]:  # type: ignore[no-untyped-def] # noqa: ANN001
    match = _SCHEME.match(text)
    if match is not None and text[match.end() : match.end() + 1] == ":":
        return match[0].lower(), text[match.end() + 1 :]
    if text.startswith(":"):
        raise url_error("missing protocol scheme")
    return "", text


def _check_host(host: str, url_error) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise url_error("missing ']' in host")
        port = host[end + 1 :]
    else:
        colon = host.find(":")
        port = host[colon:] if colon >= 0 else ""
        for character in host:
            if character in ' "<>\\^`{|}':
                raise url_error(f"invalid character {go_quote(character)} in host name")
    if port and not (port[0] == ":" and (port == ":" or port[1:].isdigit())):
        raise url_error(f"invalid port {go_quote(port)} after host")
