"""An HTTP client for the UI, like a browser: over a socket, one request a connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from http.client import HTTPMessage
from http.client import parse_headers as headers_of
from io import BytesIO
from typing import NamedTuple

from tests.support.ui.clusters import NOW

from podium.cli.ui.access import HOST
from podium.cli.ui.reading import ClusterSource
from podium.cli.ui.shell import Secrets, Site

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
