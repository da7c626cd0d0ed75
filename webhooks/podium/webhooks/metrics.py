"""Metrics of the webhooks: every answer by the rule that decided it, and every request without an answer.

Label values come from closed sets, whatever a request contains, so a client cannot create series.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram

from podium.api.findings import Severity
from podium.rules import podiumrules
from podium.rules.admission import Verdict
from podium.rules.podiumrule import AdmissionPhase, WriteTarget
from podium.rules.webhook import PARITY, PARITY_RULES
from podium.runtime.messages import REFUSALS
from podium.runtime.metrics import ScrapedMetric, from_zero
from podium.webhooks.review import Review

# From a fifth of the usual duration to the longest timeout of an API server.
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_KINDS = frozenset(("Pod", "PodGroup", "CompositePodGroup", "Workload"))
_OPERATIONS = frozenset(("CREATE", "UPDATE"))
_OTHER = "other"
# The refusals of the handlers, in addition to those of the server.
REFUSED = {**REFUSALS, "review": 400, "large object": 413, "not synced": 503}


class WebhookMetrics:
    """The counters and histograms; `read` adds values that other objects have."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._requests = from_zero(
            Counter(
                "podium_admission_requests",
                "Admission reviews answered, by the rule that decided, or the first rule violated.",
                ["phase", "kind", "operation", "verdict", "rule"],
                registry=registry,
            ),
            sorted(answers()),
        )
        duration = Histogram(
            "podium_admission_duration_seconds",
            "Time from the header of a request to its answer.",
            ["phase"],
            buckets=_BUCKETS,
            registry=registry,
        )
        shed = Counter(
            "podium_admission_shed",
            "Requests answered 429 (retry later), and connections closed to make room.",
            ["why"],
            registry=registry,
        )
        errors = Counter(
            "podium_admission_errors", "Requests that were not judged.", ["why"], registry=registry
        )
        self._refused = {
            why: (shed if status == 429 else errors).labels(why) for why, status in REFUSED.items()
        }
        self._conversions = Counter(
            "podium_conversion_requests", "Conversion reviews answered.", registry=registry
        )
        self._conversion_duration = Histogram(
            "podium_conversion_duration_seconds",
            "Time from the header of a request to its answer.",
            buckets=_BUCKETS,
            registry=registry,
        )
        # A cache, because finding a child by its labels costs more than counting.
        self._counters: dict[tuple[str, str, str, str, str], Counter] = {}
        self._durations = {phase: duration.labels(phase) for phase in AdmissionPhase}

    def read(
        self,
        *,
        in_flight: Callable[[], float],
        expiries: Callable[[], Mapping[str, float]],
    ) -> None:
        """Register values that other objects have; expiries are in Unix time."""
        for reading in (
            ScrapedMetric(
                "podium_admission_in_flight", "Requests being judged.", (), lambda: {(): in_flight()}
            ),
            ScrapedMetric(
                "podium_certificate_expiry_timestamp_seconds",
                "Time when the certificate expires.",
                ("certificate",),
                lambda: {(name,): expiry for name, expiry in expiries().items()},
            ),
        ):
            self._registry.register(reading)

    def judged(self, review: Review, verdict: Verdict, seconds: float) -> None:
        """Count an answer."""
        key = (
            review.phase,
            review.kind if review.kind in _KINDS else _OTHER,
            review.operation if review.operation in _OPERATIONS else _OTHER,
            outcome(verdict),
            deciding_rule(verdict),
        )
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(*key)
        counter.inc()
        self._durations[review.phase].observe(seconds)

    def converted(self, seconds: float) -> None:
        """Count a conversion."""
        self._conversions.inc()
        self._conversion_duration.observe(seconds)

    def count_refusal(self, why: str) -> None:
        """Count a request that was not judged."""
        self._refused[why].inc()


def answers() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the labels of every possible answer to a registered webhook, under any policy."""
    for target in PARITY:
        yield from _without_findings(target)
        for rule in PARITY_RULES[target.kind]:
            verdict = "denied" if rule.severity is Severity.ERROR else "warned"
            yield target.phase, target.kind, target.operation, verdict, rule.id
    for ours in (*podiumrules.OWN_RULES, podiumrules.LABEL_FIXED):
        for target in ours.on:
            yield from _without_findings(target)
            for verdict in ("denied", "warned"):
                yield target.phase, target.kind, target.operation, verdict, ours.cause.rule.id


def _without_findings(target: WriteTarget) -> Iterator[tuple[str, str, str, str, str]]:
    for verdict in ("allowed",) if target.phase is AdmissionPhase.VALIDATE else ("allowed", "patched"):
        yield target.phase, target.kind, target.operation, verdict, ""


def outcome(verdict: Verdict) -> str:
    """Return the result of a verdict: denied, warned, patched or allowed."""
    if not verdict.allowed:
        return "denied"
    if verdict.findings:
        return "warned"
    return "patched" if verdict.patch else "allowed"


def deciding_rule(verdict: Verdict) -> str:
    """Return the rule that denied, or else the first violated rule; empty if there is none."""
    decided = verdict.causes or verdict.findings
    return decided[0].rule if decided else ""
