"""A webhook process without an API server, to be treated badly: the real server and handlers, no cluster.

`python -m tests.webhooks.rude` writes its port to standard output and serves until its standard input ends.
"""

import asyncio
import sys

import uvloop
from tests.webhooks.client import ADDRESS, server_context

from podium.rules.case import Profile
from podium.service import logs
from podium.service.limits import Limits
from podium.service.metrics import new_registry
from podium.service.server import Server
from podium.state import State
from podium.webhooks.handlers import Handlers
from podium.webhooks.metrics import Metrics

# Slow clients are given up soon, or a test would have to wait as long as a cluster can; and as many as there
# may be are still few enough to be made in a test.
LIMITS = Limits(
    connections=250, header_seconds=2.0, body_seconds=2.0, handshake_seconds=2.0, linger_seconds=0.2
)


class Still:
    """A cluster in which nothing is and nothing happens."""

    state = State(native_served=True)
    synced = True

    async def changed(self, revision: int) -> None:
        """Never return: the revision does not change."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError(revision)


async def serve() -> None:
    """Serve until the parent process goes away."""
    metrics = Metrics(new_registry())
    log = logs.configure("json", "info")
    handlers = Handlers(Still(), lambda: Profile(kubernetes="1.37", rules="podium"), metrics, log)
    server = Server(handlers.routes(), LIMITS, metrics.refused, context=server_context())
    await server.start(ADDRESS, 0)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.close()
    handlers.close()


if __name__ == "__main__":
    uvloop.run(serve())
