"""Prometheus metrics of any of our processes: a registry of its own, readings taken at a scrape, exposition.

What a thing already knows (how old a cache is, when a certificate ends) is read when somebody scrapes;
keeping a gauge in step with it would be a second copy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

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

# By the values of the labels, in their order.
Values = Mapping[tuple[str, ...], float]
_Family = CounterMetricFamily | GaugeMetricFamily
_Labelled = TypeVar("_Labelled", Counter, Histogram)


class Reading(Collector):
    """A gauge whose values are asked for at each scrape; a counter if its name ends in `_total`."""

    def __init__(
        self, name: str, documentation: str, labels: tuple[str, ...], read: Callable[[], Values]
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._read = read

    @classmethod
    def of_caches(cls, ages: Callable[[], Mapping[str, float]]) -> Self:
        """Make the one that every process with informers has; `ages` are in seconds by resource."""
        return cls(
            "podium_cache_age_seconds",
            "Time since the API server was last heard of, by resource.",
            ("resource",),
            lambda: {(resource,): age for resource, age in ages().items()},
        )

    def describe(self) -> Iterable[_Family]:
        """Name the metric without reading it."""
        return [self._new()]

    def collect(self) -> Iterable[_Family]:
        """Read it."""
        family = self._new()
        for values, number in self._read().items():
            family.add_metric(values, number)
        return [family]

    def _new(self) -> _Family:
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        return kind(self._name, self._documentation, labels=self._labels)


class Objects(Protocol):
    """Reports of a cluster's informers on the objects that they have read (see Cluster)."""

    @property
    def observer_errors(self) -> int:
        """Count the exceptions of observers."""

    def undecodable(self) -> Mapping[str, Sequence[object]]:
        """Return the objects that cannot be decoded, by resource."""

    def undecodable_reads(self) -> Mapping[str, int]:
        """Return how often one was read, by resource."""


def read_cluster(registry: CollectorRegistry, cluster: Objects) -> None:
    """Register what is read of the objects of a cluster, as every process with informers has it."""
    for reading in (
        Reading(
            "podium_undecodable_objects",
            "Objects that are there and cannot be decoded, by resource; their last known state counts.",
            ("resource",),
            lambda: {(resource,): len(found) for resource, found in cluster.undecodable().items()},
        ),
        Reading(
            "podium_undecodable_reads_total",
            "Times that an object was read and could not be decoded, by resource.",
            ("resource",),
            lambda: {(resource,): number for resource, number in cluster.undecodable_reads().items()},
        ),
        Reading(
            "podium_observer_errors_total",
            "Bugs that kept a change of one object from being noticed; the log has the traceback.",
            (),
            lambda: {(): cluster.observer_errors},
        ),
    ):
        registry.register(reading)


def from_zero(metric: _Labelled, series: Iterable[tuple[str, ...]]) -> _Labelled:
    """Begin each series of a metric, given by the values of its labels, before anything is counted; give it.

    One that came with its first increment would begin at 1, and no rate or increase would see that one: the
    first denial, failed write or eviction circle, which alerts are for.
    """
    for values in series:
        metric.labels(*values)
    return metric


def new_registry() -> CollectorRegistry:
    """Make a registry that knows about the process itself."""
    # Each counter would be given twice, once with the time at which it began.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no annotation here
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Give all metrics and their media type: OpenMetrics when `accept` asks for it, else Prometheus' text."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
