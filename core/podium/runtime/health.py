"""Health and metrics endpoints of all our processes, without TLS: /livez, /readyz, /startupz, /metrics.

A process is alive if it answers at all, because the event loop that does the work answers. A process with
another thread reports if that thread is stuck, which only a restart ends. A process reports readiness as a
list of what is missing. /undecodable names objects for `podium doctor`; a metric only counts them, because
its labels are closed sets.

/startupz answers when the process is ready, or after a few seconds. The kubelet records a warning for each
failed probe, and asks for readiness only after the startup probe.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry

from podium.kube.reading import NamedUndecodable, Undecodable
from podium.runtime.messages import JSON, HTTPRequest, HTTPResponse, Limits, Route, text_response
from podium.runtime.metrics import exposition
from podium.runtime.server import HTTPServer

# Only the kubelet and a few scrapers use this port.
LIMITS = Limits(connections=64, waiting=16, held_bytes=16 << 20)

# How long /startupz waits for readiness. A normal start takes less. A longer one has a cause, such as an API
# server that does not answer, which readiness reports and a restart would not end.
START_SECONDS = 8.0
_GLANCE_SECONDS = 0.1

# The maximum number of undecodable objects to name; a few are enough to identify the cause.
MOST_NAMED = 100

Undecodables = Callable[[], Mapping[str, Sequence[Undecodable]]]
Stuck = Callable[[], str]


class Probes:
    """The handlers; `missing` returns one line for each reason why the process is not ready.

    `undecodable` returns the undecodable objects by resource; `stuck` a line about work that does not end, or
    an empty string.
    """

    def __init__(
        self,
        missing: Callable[[], list[str]],
        registry: CollectorRegistry,
        undecodable: Undecodables,
        stuck: Stuck,
    ) -> None:
        self._stuck = stuck
        self._missing = missing
        self._registry = registry
        self._undecodable = undecodable

    def routes(self) -> dict[str, Route]:
        """Return the routes to serve."""
        return {
            "/livez": Route("GET", self._live),
            "/readyz": Route("GET", self._ready),
            "/startupz": Route("GET", self._started),
            "/metrics": Route("GET", self._metrics),
            "/undecodable": Route("GET", self._list_undecodable),
        }

    def _live(self, request: HTTPRequest) -> HTTPResponse:  # noqa: ARG002 - a Handler
        stuck = self._stuck()
        return text_response(500, stuck) if stuck else text_response(200, "ok")

    def _ready(self, request: HTTPRequest) -> HTTPResponse:  # noqa: ARG002 - as above
        missing = self._missing()
        if not missing:
            return text_response(200, "ok")
        return text_response(503, "\n".join(f"not ready: {line}" for line in missing))

    async def _started(self, request: HTTPRequest) -> HTTPResponse:
        clock = asyncio.get_running_loop().time
        until = clock() + START_SECONDS
        # Many parts decide about readiness, and none announces it.
        while self._missing() and clock() < until:  # noqa: ASYNC110
            await asyncio.sleep(_GLANCE_SECONDS)
        return self._live(request)

    def _metrics(self, request: HTTPRequest) -> HTTPResponse:
        body, content_type = exposition(self._registry, request.accept)
        return HTTPResponse(200, body, {"Content-Type": content_type})

    def _list_undecodable(self, request: HTTPRequest) -> HTTPResponse:  # noqa: ARG002 - as above
        named = (
            NamedUndecodable(resource, entry.metadata.namespace or "", entry.metadata.name or "", entry.why)
            for resource, undecodable in sorted(self._undecodable().items())
            for entry in undecodable
        )
        body = msgspec.json.encode(list(itertools.islice(named, MOST_NAMED)))
        return HTTPResponse(200, body, {"Content-Type": JSON})


def never_stuck() -> str:
    """Return an empty string, for a process whose event loop does all the work."""
    return ""


def server(
    missing: Callable[[], list[str]],
    registry: CollectorRegistry,
    undecodable: Undecodables,
    stuck: Stuck = never_stuck,
) -> HTTPServer:
    """Return the server of the plain port. It counts no refused requests."""
    return HTTPServer(Probes(missing, registry, undecodable, stuck).routes(), LIMITS, lambda _why: None)
