"""An aiohttp connector that closes abandoned TLS connections without close_notify.

The TLS shutdown waits for an answer of the server that no caller needs. aiohttp drops its reference to the
connection of a cancelled request when the shutdown begins. If the session closes at that moment, the socket
stays open after the event loop ends.
"""

from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler


class Connector(aiohttp.TCPConnector):
    """aiohttp's TCPConnector, except that an abandoned connection is aborted at once."""

    def _release(self, key: Any, protocol: "ResponseHandler", *, should_close: bool = False) -> None:
        # Every released connection passes through this method; aiohttp has no public hook.
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
