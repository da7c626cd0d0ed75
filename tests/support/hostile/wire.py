"""An HTTP client that decodes nothing: an object of a hostile tenant may exceed a decoder's limits."""

import http.client
import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from tests.support.servers import Server

_TIMEOUT_SECONDS = 60.0
_FORCE = "gracePeriodSeconds=0&propagationPolicy=Background"
# The requested form: names only of a list, metadata only of an object; the whole object if that is refused.
_META = "g=meta.k8s.io;v=v1"
NAMES = f"application/json;as=Table;{_META},application/json"
_BRIEF_LIST = f"application/json;as=PartialObjectMetadataList;{_META},application/json"
BRIEF = f"application/json;as=PartialObjectMetadata;{_META},application/json"


class Answer(NamedTuple):
    """A status code and the undecoded body."""

    code: int
    body: bytes


class Wire:
    """A persistent connection to an API server with a token.

    Not thread-safe.
    """

    def __init__(self, server: Server, token: str) -> None:
        self._token = token
        parts = urlsplit(server.url)
        context = ssl.create_default_context(cafile=str(server.access.authority))
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS, context=context
        )

    def request(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", accept: str = BRIEF
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept, "Content-Type": kind}
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def names(self, path: str) -> list[str]:
        """Return the names of the objects of a collection."""
        answer = self.request("GET", f"{path}?includeObject=None", accept=NAMES)
        assert answer.code == 200, answer.body[:2000]
        return [row["cells"][0] for row in json.loads(answer.body).get("rows", ())]

    def clear(self, path: str) -> None:
        """Request the deletion of all objects of a collection."""
        answer = self.request("DELETE", f"{path}?{_FORCE}", accept=_BRIEF_LIST)
        assert answer.code in (200, 500, 504), answer.body[:2000]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
