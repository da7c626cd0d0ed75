"""What is counted of the reconciler; labels are namespaces and closed sets, never the name of a group.

A cluster makes groups without end, and every series lives for as long as the process. Which group it is says
its condition.
"""

from collections.abc import Callable, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram

from podium.controllers.writer import RESULTS, WRITES
from podium.kube import events
from podium.service.metrics import Reading, Values, from_zero

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The counters; the values that others know are read from them, see `read`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._reconciles = Histogram(
            "podium_reconcile_duration_seconds",
            "Time from taking up a group to being done with it, writing included.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._waits = Histogram(
            "podium_queue_wait_seconds",
            "Time that a group was due before a worker took it up.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._bugs = Counter(
            "podium_reconcile_errors", "Groups that a bug kept from being looked at.", registry=registry
        )
        self._writes = from_zero(
            Counter(
                "podium_writes",
                "Writes by what was written and how it ended; a conflict is decided anew.",
                ["what", "result"],
                registry=registry,
            ),
            product(sorted(WRITES), RESULTS),
        )
        self._events = from_zero(
            Counter("podium_events", "Events by what became of them.", ["result"], registry=registry),
            product(events.RESULTS),
        )

    def read(
        self,
        *,
        divergent_groups: Callable[[], Values],
        divergent_pods: Callable[[], Values],
        depth: Callable[[], float],
        leads: Callable[[], bool],
        cache_ages: Callable[[], Mapping[str, float]],
    ) -> None:
        """Say where to read what others know; ages in seconds by resource."""
        labels = ("namespace", "cause")
        for reading in (
            Reading(
                "podium_divergent_groups",
                "Groups with a condition that is True or Unknown; only the leader says it.",
                labels,
                divergent_groups,
            ),
            Reading(
                "podium_divergent_pods",
                "Pods that are not as their group; only the leader says it.",
                labels,
                divergent_pods,
            ),
            Reading("podium_queue_depth", "Groups that wait to be looked at.", (), lambda: {(): depth()}),
            Reading("podium_leader", "Whether this replica does the work.", (), lambda: {(): float(leads())}),
            Reading.of_caches(cache_ages),
        ):
            self._registry.register(reading)

    def reconciled(self, seconds: float) -> None:
        """Note how long a group took."""
        self._reconciles.observe(seconds)

    def waited(self, seconds: float) -> None:
        """Note how long a group waited for it."""
        self._waits.observe(seconds)

    def failed(self) -> None:
        """Count a bug."""
        self._bugs.inc()

    def wrote(self, what: str, result: str) -> None:
        """Count a write."""
        self._writes.labels(what, result).inc()

    def emitted(self, result: str) -> None:
        """Count an event."""
        self._events.labels(result).inc()
