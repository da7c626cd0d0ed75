"""What a kubelet and a Prometheus ask of any of our processes, without TLS: /livez, /readyz, /metrics.

Being alive is answering at all: the answer comes from the event loop that does the work. A process with
another thread says whether that one is stuck, which only a restart ends. Being ready is for
the process to say, as a list of what is still missing. /undecodable names objects for `podium doctor`: a
metric only counts them, for its labels are closed sets.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry

from podium.kube.reading import Undecodable
from podium.service.limits import Limits
from podium.service.messages import JSON, Ask, Reply, Route
from podium.service.metrics import exposition
from podium.service.server import Server

# Nobody but the node and a few scrapers has business here.
LIMITS = Limits(connections=64, waiting=16, held_bytes=16 << 20)

# Of the objects that cannot be decoded; a person needs a few to know what they are.
MOST_NAMED = 100

Undecodables = Callable[[], Mapping[str, Sequence[Undecodable]]]
Stuck = Callable[[], str]

_TEXT: Mapping[str, str] = {"Content-Type": "text/plain; charset=utf-8"}


class Named(msgspec.Struct, frozen=True):
    """An object that cannot be decoded, and why, as /undecodable names it."""

    resource: str
    namespace: str
    name: str
    error: str


class Probes:
    """The answers; `missing` names what keeps the process from being ready, one line each.

    `undecodable` gives the objects that cannot be decoded, by resource; `stuck` says which work does not end,
    empty for none.
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
        """Give what a server serves."""
        return {
            "/livez": Route("GET", self._live),
            "/readyz": Route("GET", self._ready),
            "/metrics": Route("GET", self._metrics),
            "/undecodable": Route("GET", self._named),
        }

    def _live(self, ask: Ask) -> Reply:  # noqa: ARG002 - a Handler
        stuck = self._stuck()
        return Reply(500, f"{stuck}\n".encode(), _TEXT) if stuck else Reply(200, b"ok\n", _TEXT)

    def _ready(self, ask: Ask) -> Reply:  # noqa: ARG002 - as above
        missing = self._missing()
        if not missing:
            return Reply(200, b"ok\n", _TEXT)
        return Reply(503, "".join(f"not ready: {line}\n" for line in missing).encode(), _TEXT)

    def _metrics(self, ask: Ask) -> Reply:
        body, content_type = exposition(self._registry, ask.accept)
        return Reply(200, body, {"Content-Type": content_type})

    def _named(self, ask: Ask) -> Reply:  # noqa: ARG002 - as above
        named = (
            Named(resource, each.metadata.namespace or "", each.metadata.name or "", each.why)
            for resource, found in sorted(self._undecodable().items())
            for each in found
        )
        body = msgspec.json.encode(list(itertools.islice(named, MOST_NAMED)))
        return Reply(200, body, {"Content-Type": JSON})


def never_stuck() -> str:
    """Return nothing: the event loop does all the work of the process."""
    return ""


def server(
    missing: Callable[[], list[str]],
    registry: CollectorRegistry,
    undecodable: Undecodables,
    stuck: Stuck = never_stuck,
) -> Server:
    """Make what answers on the plain port; who calls it with nonsense is no client of ours."""
    return Server(Probes(missing, registry, undecodable, stuck).routes(), LIMITS, lambda _why: None)
