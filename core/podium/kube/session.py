"""The aiohttp session for one API server: a connection for each request in flight, and no write sent twice.

The session differs from aiohttp's default in four points. aiohttp repeats a PUT or DELETE on a persistent
connection that the server closed, because HTTP calls both idempotent. A renewed Lease or a deleted pod is
not, so a middleware prevents it. The connector has no limit: the renewal of a Lease must not wait until other
requests return their connections. Connections that are out of step or abandoned are aborted, see `Connector`.
Cookies of a load balancer are ignored, as kubectl ignores them.

All undocumented parts of aiohttp that clients use are in this module.
"""

from typing import Any

import aiohttp

# The size of the read buffer. When it is full, TCP flow control stops the server.
_READ_BYTES = 2 << 20


class Connector(aiohttp.TCPConnector):
    """A TCPConnector that aborts an abandoned connection, and one that sent bytes without a request."""

    async def _get(self, key: Any, traces: Any) -> Any:
        """Return an idle connection; aiohttp would return the unexpected bytes as the next response."""
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is not None and not connection.protocol.should_close:
                break
            connection.close()
        return connection

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        """Abort the connection of a cancelled request without TLS close_notify.

        The TLS shutdown waits for an answer of the server that no caller needs. aiohttp drops its reference
        to the connection when the shutdown begins. If the session closes at that moment, the socket stays
        open after the event loop ends. Every released connection passes through this method.
        """
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)


def open_session(certificates: Any) -> aiohttp.ClientSession:
    """Return a session; `certificates` is an SSL context, or a value that aiohttp accepts instead.

    kubernetes_asyncio's session looks up the proxy and ~/.netrc at every request, each on a thread, and waits
    for that thread while the event loop is busy. kubectl ignores netrc too.
    """
    return aiohttp.ClientSession(
        connector=Connector(limit=0, ssl=certificates),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_never_repeat_writes,),
        read_bufsize=_READ_BYTES,
    )


async def _never_repeat_writes(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send one request. aiohttp repeats it after two errors, so a write raises a third one instead."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET":
            raise
        raise aiohttp.ClientConnectionResetError(str(error)) from None
