"""Health and metrics endpoints of all our processes, without TLS: /livez, /readyz, /metrics.

A process is alive if it answers at all, because the event loop that does the work answers. A process with
another thread reports if that thread is stuck, which only a restart ends. A process reports readiness as a
list of what is missing. /undecodable names objects for `podium doctor`; a metric only counts them, because
its labels are closed sets.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry

from podium.kube.reading import NamedUndecodable, Undecodable
from podium.runtime.limits import Limits
from podium.runtime.messages import JSON, HTTPRequest, HTTPResponse, Route, text_response
from podium.runtime.metrics import exposition
from podium.runtime.server import HTTPServer

# Only the kubelet and a few scrapers use this port.
LIMITS = Limits(connections=64, waiting=16, held_bytes=16 << 20)

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
            "/metrics": Route("GET", self._metrics),
            "/undecodable": Route("GET", self._list_undecodable),
        }

    def _live(self, ask: HTTPRequest) -> HTTPResponse:  # noqa: ARG002 - a Handler
        stuck = self._stuck()
        return text_response(500, stuck) if stuck else text_response(200, "ok")

    def _ready(self, ask: HTTPRequest) -> HTTPResponse:  # noqa: ARG002 - as above
        missing = self._missing()
        if not missing:
            return text_response(200, "ok")
        return text_response(503, "\n".join(f"not ready: {line}" for line in missing))

    def _metrics(self, ask: HTTPRequest) -> HTTPResponse:
        body, content_type = exposition(self._registry, ask.accept)
        return HTTPResponse(200, body, {"Content-Type": content_type})

    def _list_undecodable(self, ask: HTTPRequest) -> HTTPResponse:  # noqa: ARG002 - as above
        named = (
            NamedUndecodable(resource, each.metadata.namespace or "", each.metadata.name or "", each.why)
            for resource, found in sorted(self._undecodable().items())
            for each in found
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
