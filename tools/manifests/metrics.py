"""The metrics of the three processes at /metrics: the source of the reference and the names for alerts.

A series without a value is in no scrape, so the names come from the registries, which have all of them.
`python -m tools.manifests.metrics` regenerates the reference in docs/metrics.md.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from podium.controllers.metrics import ReconcilerMetrics
from podium.runtime.metrics import read_cluster
from podium.schedulerplugin.live.metrics import SchedulerMetrics, register_scraped
from podium.webhooks.metrics import WebhookMetrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_PLACE = re.compile(r"(?<=<!-- metrics -->\n).*?(?=<!-- end -->)", re.DOTALL)
# The suffixes of sample names, by the type of a family.
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


class Series(NamedTuple):
    """A metric of a process: the name of its family, its type, its labels and its description."""

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str

    @property
    def samples(self) -> dict[str, frozenset[str]]:
        """Return the labels of a query; a bucket also has its bound."""
        return {
            self.name + suffix: frozenset(self.labels) | ({"le"} if suffix == "_bucket" else frozenset())
            for suffix in _SUFFIXES[self.kind]
        }


class _Listing(CollectorRegistry):
    """A registry that remembers its collectors."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        super().register(collector)
        self.collectors.append(collector)

    def series(self) -> Iterator[Series]:
        """Yield the series of each collector."""
        for collector in self.collectors:
            for family in collector.collect():
                # The library exposes labels only with values; a registry has them by family.
                owner: Any = collector if hasattr(collector, "_labelnames") else family
                labels = tuple(owner._labelnames)  # noqa: SLF001 - as above
                yield Series(family.name, family.type, labels, family.documentation)


class _NoObjects:
    """An empty cluster, before any read."""

    observer_errors = 0
    longest_callback = 0.0

    def ages(self) -> dict[str, float]:
        return {}

    def undecodable(self) -> dict[str, list[object]]:
        return {}

    def undecodable_reads(self) -> dict[str, int]:
        return {}


def registries() -> dict[str, _Listing]:
    """Return the metrics of each process before any event, by the command that starts it."""
    webhook, controller, scheduler = _Listing(), _Listing(), _Listing()
    WebhookMetrics(webhook).read(in_flight=float, expiries=dict)
    ReconcilerMetrics(controller).read(divergent_groups=dict, divergent_pods=dict, depth=float, leads=bool)
    SchedulerMetrics(scheduler)
    register_scraped(
        scheduler,
        pending=dict,
        incoming=dict,
        evictions=lambda: None,
        nominated=lambda: None,
        gang_holds=dict,
        untrusted=float,
        leads=bool,
    )
    for registry in (webhook, controller, scheduler):
        read_cluster(registry, _NoObjects())
    return {"webhook": webhook, "controller": controller, "scheduler": scheduler}


def exposed() -> dict[str, list[Series]]:
    """Return the series of ours that each process exposes, in the order of names."""
    return {process: sorted(registry.series()) for process, registry in registries().items()}


def reference() -> str:
    """Return the tables of docs/metrics.md, one for each process."""
    return "\n".join(
        f"### podium {process}\n\n| Series | Type | Labels | Meaning |\n|---|---|---|---|\n"
        + "".join(_row(metric) for metric in series)
        for process, series in exposed().items()
    )


def page(text: str) -> str:
    """Return a page with the reference inserted at its mark."""
    written, count = _PLACE.subn(lambda _: f"\n{reference()}\n", text)
    if count != 1:
        raise ValueError(
            f"{PAGE.name} has {count} places for the reference, between <!-- metrics --> and <!-- end -->"
        )
    return written


def _row(series: Series) -> str:
    name = f"{series.name}_total" if series.kind == "counter" else series.name
    return f"| `{name}` | {series.kind} | {', '.join(series.labels)} | {series.says} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
