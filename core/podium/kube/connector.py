"""Connections that leave without a goodbye: TLS' takes an answer from the server, for which nobody waits.

aiohttp forgets the connection of a request that was given up the moment it begins to say goodbye, so a
session that ends right then leaves it open behind its event loop. Nothing is owed to a server whose answer
nobody reads.
"""

from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, but what is given up is reset at once."""

    def _release(self, key: Any, protocol: "ResponseHandler", *, should_close: bool = False) -> None:
        # The one place through which every connection comes back; aiohttp has no public one.
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
