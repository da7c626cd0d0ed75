"""The metrics of the scheduler that are read at each scrape, because other parts keep their values."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from podium.runtime.metrics import ScrapedMetric
from podium.schedulerplugin.live.metrics import PREFIX


def register_scraped(
    registry: CollectorRegistry,
    *,
    pending: Callable[[], Mapping[str, float]],
    incoming: Callable[[], Mapping[tuple[str, str], float]],
    evictions: Callable[[], tuple[int, int] | None],
    nominated: Callable[[], tuple[int, int] | None],
    gang_holds: Callable[[], Mapping[str, float]],
    leads: Callable[[], bool],
) -> None:
    """Register the metrics whose values are read at each scrape, with their sources.

    `pending` returns the number of waiting entries by pool (a group is one entry). `incoming` returns how
    many ever entered a pool, by pool and event. `evictions` returns the limit of evictions and what is
    left of it, None if that is unknown or there is no limit. `nominated` returns how many nominated pods
    are ours and how many are not, None if that is unknown. `gang_holds` returns the holds that ended, by
    result.
    """
    for reading in (
        ScrapedMetric(
            f"{PREFIX}_pending_pods",
            "Lone pods and groups that wait, by pool.",
            ("queue",),
            lambda: {(pool,): number for pool, number in pending().items()},
        ),
        ScrapedMetric(
            f"{PREFIX}_queue_incoming_pods_total",
            "Lone pods and groups that came into a pool, by what brought them.",
            ("queue", "event"),
            lambda: {(pool, event): number for (pool, event), number in incoming().items()},
        ),
        ScrapedMetric(
            f"{PREFIX}_evictions_limit",
            "Units that may be evicted in a minute; none without a limit, and only the leader says it.",
            (),
            lambda: {} if (value := evictions()) is None else {(): value[0]},
        ),
        ScrapedMetric(
            f"{PREFIX}_evictions_left",
            "Units of that limit that may be evicted now.",
            (),
            lambda: {} if (value := evictions()) is None else {(): value[1]},
        ),
        ScrapedMetric(
            f"{PREFIX}_nominated_pods",
            "Pending pods for which a node is reserved, by whose they are; only the leader says it.",
            ("scheduler",),
            lambda: {} if (value := nominated()) is None else {("ours",): value[0], ("other",): value[1]},
        ),
        ScrapedMetric(
            f"{PREFIX}_gang_holds_total",
            "Times that a waiting gang held room, by how that ended.",
            ("result",),
            lambda: {(result,): number for result, number in gang_holds().items()},
        ),
        ScrapedMetric(
            f"{PREFIX}_leader", "Whether this replica does the work.", (), lambda: {(): float(leads())}
        ),
    ):
        registry.register(reading)
