"""A webhook process without an API server, for hostile clients: the real server and handlers, no cluster.

`python -m tests.support.webhooks.isolated` writes its port to standard output and serves until its standard
input ends.
"""

import asyncio
import sys

import uvloop
from tests.support.webhooks.client import ADDRESS, server_context

from podium.cluster.state import ClusterState
from podium.rules.context import Profile
from podium.runtime import logs
from podium.runtime.host import listen
from podium.runtime.messages import Limits
from podium.runtime.metrics import new_registry
from podium.runtime.server import HTTPServer
from podium.webhooks.handlers import Handlers
from podium.webhooks.metrics import WebhookMetrics

# Short timeouts and few connections, so that a test can reach the limits.
LIMITS = Limits(
    connections=250, header_seconds=2.0, body_seconds=2.0, handshake_seconds=2.0, linger_seconds=0.2
)


class Still:
    """An empty cluster that does not change."""

    state = ClusterState(native_served=True)
    synced = True

    async def changed(self, revision: int) -> None:
        """Never return: the revision does not change."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError(revision)


async def serve() -> None:
    """Serve until the parent process ends."""
    metrics = WebhookMetrics(new_registry())
    log = logs.configure("json", "info")
    handlers = Handlers(Still(), lambda: Profile(kubernetes="1.37", rules="podium"), metrics, log)
    server = HTTPServer(handlers.routes(), LIMITS, metrics.count_refusal, context=server_context())
    await server.start(listen(ADDRESS, 0))
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.close()
    handlers.close()


if __name__ == "__main__":
    uvloop.run(serve())
