"""What a kubelet and a Prometheus ask of any of our processes, without TLS: /livez, /readyz, /metrics.

Being alive is answering at all: the answer comes from the event loop that does the work. Being ready is for
the process to say, as a list of what is still missing.
"""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from podium.service.limits import Limits
from podium.service.messages import Ask, Reply, Route
from podium.service.metrics import exposition
from podium.service.server import Server

# Nobody but the node and a few scrapers has business here.
LIMITS = Limits(connections=64, waiting=16, held_bytes=16 << 20)

_TEXT: Mapping[str, str] = {"Content-Type": "text/plain; charset=utf-8"}


class Probes:
    """The three answers; `missing` names what keeps the process from being ready, one line each."""

    def __init__(self, missing: Callable[[], list[str]], registry: CollectorRegistry) -> None:
        self._missing = missing
        self._registry = registry

    def routes(self) -> dict[str, Route]:
        """Give what a server serves."""
        return {
            "/livez": Route("GET", self._live),
            "/readyz": Route("GET", self._ready),
            "/metrics": Route("GET", self._metrics),
        }

    def _live(self, ask: Ask) -> Reply:  # noqa: ARG002 - a Handler
        return Reply(200, b"ok\n", _TEXT)

    def _ready(self, ask: Ask) -> Reply:  # noqa: ARG002 - as above
        missing = self._missing()
        if not missing:
            return Reply(200, b"ok\n", _TEXT)
        return Reply(503, "".join(f"not ready: {line}\n" for line in missing).encode(), _TEXT)

    def _metrics(self, ask: Ask) -> Reply:
        body, content_type = exposition(self._registry, ask.accept)
        return Reply(200, body, {"Content-Type": content_type})


def server(missing: Callable[[], list[str]], registry: CollectorRegistry) -> Server:
    """Make what answers on the plain port; who calls it with nonsense is no client of ours."""
    return Server(Probes(missing, registry).routes(), LIMITS, lambda _why: None)
