"""Prometheus metrics for all our processes: a registry, values read at a scrape, and exposition.

A value that an object already has (the age of a cache, the end of a certificate) is read at each scrape. A
gauge updated with it would be a second copy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

# Values by the values of the labels, in their order.
Values = Mapping[tuple[str, ...], float]
_Family = CounterMetricFamily | GaugeMetricFamily
_Labelled = TypeVar("_Labelled", Counter, Histogram)


class ScrapedMetric(Collector):
    """A gauge whose values are read at each scrape; a counter if its name ends in `_total`."""

    def __init__(
        self, name: str, documentation: str, labels: tuple[str, ...], read: Callable[[], Values]
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._read = read

    def describe(self) -> Iterable[_Family]:
        """Return the metric without its values."""
        return [self._new()]

    def collect(self) -> Iterable[_Family]:
        """Return the metric with its current values."""
        family = self._new()
        for values, number in self._read().items():
            family.add_metric(values, number)
        return [family]

    def _new(self) -> _Family:
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        return kind(self._name, self._documentation, labels=self._labels)


class Statistics(Protocol):
    """The statistics of a cluster's informers (see InformerCache)."""

    def ages(self) -> Mapping[str, float]:
        """Return the seconds since the last answer of the API server, by resource."""

    @property
    def observer_errors(self) -> int:
        """Return the number of exceptions of observers."""

    @property
    def longest_callback(self) -> float:
        """Return the longest processor time (seconds) that the observers took for one change."""

    def undecodable(self) -> Mapping[str, Sequence[object]]:
        """Return the objects that cannot be decoded, by resource."""

    def undecodable_reads(self) -> Mapping[str, int]:
        """Return the number of reads of undecodable objects, by resource."""


def read_cluster(registry: CollectorRegistry, cluster: Statistics) -> None:
    """Register the metrics about the caches of a cluster, the same in every process with informers."""
    for reading in (
        ScrapedMetric(
            "podium_cache_age_seconds",
            "Time since the last answer of the API server, by resource.",
            ("resource",),
            lambda: {(resource,): age for resource, age in cluster.ages().items()},
        ),
        ScrapedMetric(
            "podium_undecodable_objects",
            "Objects that exist and cannot be decoded, by resource; their last known state is used.",
            ("resource",),
            lambda: {(resource,): len(objects) for resource, objects in cluster.undecodable().items()},
        ),
        ScrapedMetric(
            "podium_undecodable_reads_total",
            "Reads of objects that could not be decoded, by resource.",
            ("resource",),
            lambda: {(resource,): number for resource, number in cluster.undecodable_reads().items()},
        ),
        ScrapedMetric(
            "podium_observer_errors_total",
            "Bugs because of which the change of an object was not processed; the log has the traceback.",
            (),
            lambda: {(): cluster.observer_errors},
        ),
        ScrapedMetric(
            "podium_longest_callback_seconds",
            "Longest processor time of the observers for one change of an object, since the process started.",
            (),
            lambda: {(): cluster.longest_callback},
        ),
    ):
        registry.register(reading)


def from_zero(metric: _Labelled, series: Iterable[tuple[str, ...]]) -> _Labelled:
    """Create each series of a metric, given by its label values, with the value 0; return the metric.

    A series that appears with its first increment begins at 1, and no rate or increase shows that increment:
    the first denial, failed write or eviction cycle, which alerts exist for.
    """
    for values in series:
        metric.labels(*values)
    return metric


def new_registry() -> CollectorRegistry:
    """Return a registry with the metrics of the process itself."""
    # Otherwise each counter has a second series with its creation time.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotation here
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return all metrics and their media type: OpenMetrics if `accept` asks for it, else Prometheus text."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
