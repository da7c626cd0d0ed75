"""Metrics of the reconciler; labels are namespaces and closed sets, never the name of a group.

The number of groups over time is unlimited, and every series lives as long as the process. The conditions
name the groups.
"""

from collections.abc import Callable
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram

from podium.controllers.writer import RESULTS, WRITES
from podium.kube import events
from podium.runtime.metrics import ScrapedMetric, Values, from_zero

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ReconcilerMetrics:
    """The counters and histograms; `read` adds values that other objects have."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.reconciles = Histogram(
            "podium_reconcile_duration_seconds",
            "Duration of one reconcile of a group, including its write.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.waits = Histogram(
            "podium_queue_wait_seconds",
            "Time from when a group was due to the start of its reconcile.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.bugs = Counter(
            "podium_reconcile_errors", "Reconciles that failed because of a bug.", registry=registry
        )
        self._writes = from_zero(
            Counter(
                "podium_writes",
                "Writes by what was written and the result; a conflict is retried with a new decision.",
                ["what", "result"],
                registry=registry,
            ),
            product(sorted(WRITES), RESULTS),
        )
        self._events = from_zero(
            Counter("podium_events", "Events by result.", ["result"], registry=registry),
            product(events.RESULTS),
        )

    def read(
        self,
        *,
        divergent_groups: Callable[[], Values],
        divergent_pods: Callable[[], Values],
        depth: Callable[[], float],
        leads: Callable[[], bool],
    ) -> None:
        """Register values that other objects have."""
        labels = ("namespace", "cause")
        for reading in (
            ScrapedMetric(
                "podium_divergent_groups",
                "Groups with a condition that is True or Unknown; reported by the leader only.",
                labels,
                divergent_groups,
            ),
            ScrapedMetric(
                "podium_divergent_pods",
                "Pods that differ from their group; reported by the leader only.",
                labels,
                divergent_pods,
            ),
            ScrapedMetric(
                "podium_queue_depth", "Groups that wait for a reconcile.", (), lambda: {(): depth()}
            ),
            ScrapedMetric("podium_leader", "Whether this replica leads.", (), lambda: {(): float(leads())}),
        ):
            self._registry.register(reading)

    def wrote(self, kind: str, result: str) -> None:
        """Count a write."""
        self._writes.labels(kind, result).inc()

    def emitted(self, result: str) -> None:
        """Count an event."""
        self._events.labels(result).inc()
