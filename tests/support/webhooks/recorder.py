"""A webhook that allows everything and records its requests, and requests that show the warnings."""

import contextlib
import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.servers import Server

from podium.webhooks.conversion import convert_review


class Answer(NamedTuple):
    """The answer to a client: the code, the decoded body, and the texts of the Warning headers."""

    code: int
    body: dict[str, Any]
    warnings: list[str]


def send(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    *,
    content_type: str = "application/json",
    user: str = "",
    groups: Sequence[str] = (),
) -> Answer:
    """Send one request on the kept connection, as another user if one is named."""
    headers = [("Content-Type", content_type), *(("Impersonate-Group", group) for group in groups)]
    if user:
        headers.append(("Impersonate-User", user))
    text = body if isinstance(body, str) else json.dumps(body)
    content = b"" if body is None else text.encode()
    response, answer = server.client.exchange(method, path, content, headers)
    # 299 - "text": quotes and backslashes in the text are escaped.
    texts = [value.split(" ", 2)[2] for value in response.headers.get_all("Warning", [])]
    return Answer(response.status, json.loads(answer), [json.loads(text) for text in texts])


class Recorder:
    """The server that the API server calls, and the requests it has received; `url` has no path."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def take(self, name: str) -> list[str]:
        """Return and forget the requests about objects of a name: `mutate CREATE v1 pods`."""
        about = [(path, request) for path, request in self.asked if request.get("name") == name]
        self.asked = [each for each in self.asked if each not in about]
        return [
            " ".join((path.strip("/"), request["operation"], _version(request), _resource(request)))
            for path, request in about
        ]


def _version(request: Mapping[str, Any]) -> str:
    # The version as written: no rule matches a version that it does not name.
    assert request["kind"] == request["requestKind"]
    version: str = request["kind"]["version"]
    return version


def _resource(request: Mapping[str, Any]) -> str:
    resource: str = request["resource"]["resource"]
    return f"{resource}/{request['subResource']}" if "subResource" in request else resource


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: the second would wait 40 ms for the client's delayed acknowledgement.
    disable_nagle_algorithm = True
    recorder: Recorder

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        answer = convert_review(body) if path == "/convert" else self._allow(path, json.loads(body))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _allow(self, path: str, review: dict[str, Any]) -> bytes:
        self.recorder.asked.append((path, review["request"]))
        response = {"uid": review["request"]["uid"], "allowed": True}
        return json.dumps({**review, "request": None, "response": response}).encode()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of the library
        """Log nothing: tests read the requests themselves."""


@contextlib.contextmanager
def recording(server: Server) -> Iterator[Recorder]:
    """Serve on loopback with the API server's own certificate, which is for 127.0.0.1."""
    recorder = Recorder()
    handler = type("Handler", (_Handler,), {"recorder": recorder})
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listener.daemon_threads = True
    recorder.url = f"https://127.0.0.1:{listener.server_address[1]}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = server.folder / "certificates"
    context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield recorder
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
