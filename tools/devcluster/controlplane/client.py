"""A small synchronous client of one local API server: one connection, bytes in, a code and JSON out.

It serves readiness checks and the differential tests. These send thousands of requests and must see every
answer exactly as the server sent it, including refusals. Therefore no status code raises an exception here.
"""

import http.client
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

# The server closes a connection that was idle for 90 s. A POST is not sent on a connection that may be
# closed.
from podium import jsontext

_IDLE_SECONDS = 60.0
_TIMEOUT_SECONDS = 60.0


class Client:
    """A connection to an API server with a bearer token. Not thread-safe."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        """Create a client, without sending anything; `authority` is a PEM file of trusted certificates."""
        parts = urlsplit(url)
        self._headers = (("Authorization", f"Bearer {token}"), ("Accept", "application/json"))
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "",
            parts.port,
            timeout=_TIMEOUT_SECONDS,
            context=ssl.create_default_context(cafile=str(authority)),
        )
        self._last_used = time.monotonic()

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send one request; return the status code and the decoded body, or its text if it is not JSON.

        A `body` of bytes is sent unchanged, any other as JSON. OSError and http.client.HTTPException escape.
        """
        headers = [] if body is None else [("Content-Type", content_type)]
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        response, answer = self.exchange(method, path, body or b"", headers)
        if response.headers.get_content_type() == "application/json":
            return response.status, jsontext.parse(answer, Any)
        return response.status, answer.decode(errors="replace")

    def exchange(
        self, method: str, path: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send one request with more headers; return the response and its body, which has been read."""
        now = time.monotonic()
        if now - self._last_used > _IDLE_SECONDS:
            self._connection.close()
        self._last_used = now
        try:
            self._connection.putrequest(method, path)
            for name, value in (*self._headers, *headers, ("Content-Length", str(len(body)))):
                self._connection.putheader(name, value)
            self._connection.endheaders(body)
            response = self._connection.getresponse()
            return response, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()
