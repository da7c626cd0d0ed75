"""Grafana's dashboard, by the questions of an operator, and the fields that Grafana requires.

Grafana's JSON holds the position of each panel and repeats its data source with every query. Questions are
read and changed in this table.
"""

import json
from typing import Any, NamedTuple

PATH = "chart/files/dashboard/podium.json"
_RATE = "$__rate_interval"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Grafana's grid has 24 columns; three panels in a row are readable.
_WIDTH, _HEIGHT = 8, 8


class Panel(NamedTuple):
    """A panel: its title, its meaning, its unit by Grafana's names, and queries by their legends."""

    title: str
    says: str
    unit: str
    queries: dict[str, str]
    kind: str = "timeseries"


def _rate(by: str, metric: str) -> str:
    return f"sum by ({by}) (rate({metric}[{_RATE}]))"


def _quantile(quantile: str, metric: str, by: str = "") -> str:
    return f"histogram_quantile({quantile}, sum by (le{by and f', {by}'}) (rate({metric}_bucket[{_RATE}])))"


def _latency(metric: str, by: str = "") -> dict[str, str]:
    """Return the median and the slowest hundredth of a histogram."""
    legend = f"{{{{{by}}}}} " if by else ""
    return {
        f"{legend}half": _quantile("0.5", metric, by),
        f"{legend}99 %": _quantile("0.99", metric, by),
    }


def _a_minute(metric: str) -> str:
    return f"60 * sum(rate({metric}[{_RATE}]))"


_EXPIRY = "podium_certificate_expiry_timestamp_seconds"
_APISERVER = 'name=~".*\\\\.podium\\\\.dev"'
ROWS: dict[str, tuple[Panel, ...]] = {
    "Is admission answering?": (
        Panel(
            "Reviews",
            "By verdict. If pods are created and there are none, the API server does not call the webhook.",
            "reqps",
            {"{{phase}} {{verdict}}": _rate("phase, verdict", "podium_admission_requests_total")},
        ),
        Panel(
            "Latency",
            "From the header of a request to its answer; the API server waits a few seconds at most.",
            "s",
            _latency("podium_admission_duration_seconds", "phase"),
        ),
        Panel(
            "Denials",
            "By the rule that refused.",
            "reqps",
            {"{{rule}}": _rate("rule", 'podium_admission_requests_total{verdict="denied"}')},
        ),
        Panel(
            "No review as an answer",
            "Errors are bugs of Podium; shed requests are sent again.",
            "reqps",
            {
                "error: {{why}}": _rate("why", "podium_admission_errors_total"),
                "shed: {{why}}": _rate("why", "podium_admission_shed_total"),
            },
        ),
        Panel(
            "Unanswered",
            "Counted by the API server: writes admitted without review, and writes refused for that reason.",
            "reqps",
            {
                "through: {{name}}": _rate(
                    "name", f"apiserver_admission_webhook_fail_open_count{{{_APISERVER}}}"
                ),
                "refused: {{name}}": _rate(
                    "name",
                    "apiserver_admission_webhook_rejection_count"
                    f'{{error_type="calling_webhook_error",{_APISERVER}}}',
                ),
            },
        ),
        Panel(
            "Certificates end in",
            "The first end of all replicas; the renewal is ten days before.",
            "s",
            {"{{certificate}}": f"min by (certificate) ({_EXPIRY}) - time()"},
            "stat",
        ),
    ),
    "Is the reconciler current?": (
        Panel(
            "Divergent groups",
            "Pods have another priority than their group: podium audit has the fix.",
            "short",
            {"{{namespace}} {{cause}}": "sum by (namespace, cause) (podium_divergent_groups)"},
        ),
        Panel(
            "Groups in the queue",
            "Due, and waiting for a worker.",
            "short",
            {"waiting": "sum(podium_queue_depth)"},
        ),
        Panel("Wait in the queue", "Time until a worker starts.", "s", _latency("podium_queue_wait_seconds")),
        Panel(
            "Writes",
            "A conflict, or a deleted group, is decided again; failed writes were refused by the API server.",
            "reqps",
            {"{{what}} {{result}}": _rate("what, result", "podium_writes_total")},
        ),
    ),
    "Is the scheduler working?": (
        Panel(
            "Pending",
            "Lone pods and groups; gated ones wait for a gate or for more pods.",
            "short",
            {"{{queue}}": "sum by (queue) (podium_scheduler_pending_pods)"},
        ),
        Panel(
            "Attempts at pods",
            "If there are none and pods are pending, check the leader.",
            "ops",
            {"{{result}}": _rate("result", "podium_scheduler_schedule_attempts_total")},
        ),
        Panel(
            "Attempts at groups",
            "Groups that wait for victims have nominated nodes.",
            "ops",
            {"{{result}}": _rate("result", "podium_scheduler_podgroup_schedule_attempts_total")},
        ),
        Panel(
            "From the first attempt until bound",
            "The wait of a user after the first attempt.",
            "s",
            _latency("podium_scheduler_pod_scheduling_sli_duration_seconds"),
        ),
        Panel(
            "Searches for victims",
            "For groups by result, and for lone pods.",
            "ops",
            {
                "groups: {{result}}": _rate("result", "podium_scheduler_workload_preemption_attempts_total"),
                "lone pods": f"sum(rate(podium_scheduler_preemption_attempts_total[{_RATE}]))",
            },
        ),
        Panel(
            "Preemptions carried out",
            "Each is a task of its own; an error is the API server's.",
            "ops",
            {"{{result}}": _rate("result", "podium_scheduler_goroutines_execution_total")},
        ),
        Panel(
            "Duration of a preemption",
            "No other work waits for it.",
            "s",
            _latency("podium_scheduler_goroutines_duration_seconds"),
        ),
        Panel(
            "Evicted in a minute",
            "evictionsPerMinute limits the units: a group that is evicted as a whole, or a lone pod.",
            "short",
            {
                "units": _a_minute("podium_scheduler_preemption_workload_disruptions_sum"),
                "pods of lone pods' plans": _a_minute("podium_scheduler_preemption_victims_sum"),
                "pods of groups' plans": _a_minute("podium_scheduler_workload_preemption_victims_sum"),
            },
        ),
        Panel(
            "Left of the limit",
            "Units that evictionsPerMinute permits now; none for a minute after a killed leader.",
            "short",
            {
                "limit": "max(podium_scheduler_evictions_limit)",
                "left": "max(podium_scheduler_evictions_left)",
            },
        ),
        Panel(
            "Nodes reserved",
            "Pods that wait for their victims, of Podium and of other schedulers; normally few, and briefly.",
            "short",
            {"{{scheduler}}": "sum by (scheduler) (podium_scheduler_nominated_pods)"},
        ),
        Panel(
            "Preemptions not carried out",
            "Delayed by the limit or an eviction cycle, or only observed, as configured.",
            "ops",
            {
                "limit": f"sum(rate(podium_scheduler_rate_limited_total[{_RATE}]))",
                "cycle": f"sum(rate(podium_scheduler_eviction_cycles_total[{_RATE}]))",
                "observed": f"sum(rate(podium_scheduler_observed_preemptions_total[{_RATE}]))",
            },
        ),
    ),
    "Which replica leads, and how old is its state?": (
        Panel(
            "Leaders",
            "One of each; none of the scheduler if it is not installed.",
            "short",
            {"controller": "sum(podium_leader)", "scheduler": "sum(podium_scheduler_leader)"},
            "stat",
        ),
        Panel(
            "Age of the cache",
            "The oldest state of each resource; a bookmark comes each minute.",
            "s",
            {"{{resource}}": "max by (resource) (podium_cache_age_seconds)"},
        ),
        Panel(
            "Bugs",
            "Each leaves a traceback in the log.",
            "ops",
            {
                "controller": f"sum(rate(podium_reconcile_errors_total[{_RATE}]))",
                "scheduler": f"sum(rate(podium_scheduler_errors_total[{_RATE}]))",
            },
        ),
    ),
}


def text() -> str:
    """Return the dashboard as Grafana reads it."""
    return json.dumps(_dashboard(), indent=1) + "\n"


def _dashboard() -> dict[str, Any]:
    variable = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "podium",
        "title": "Podium",
        "tags": ["podium"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [variable]},
        "panels": _panels(),
    }


def _panels() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    y = 0
    for heading, panels in ROWS.items():
        place = {"x": 0, "y": y, "w": 24, "h": 1}
        made.append({"id": len(made) + 1, "type": "row", "title": heading, "gridPos": place, "panels": []})
        y += 1
        for start in range(0, len(panels), 24 // _WIDTH):
            for column, panel in enumerate(panels[start : start + 24 // _WIDTH]):
                place = {"x": column * _WIDTH, "y": y, "w": _WIDTH, "h": _HEIGHT}
                made.append({"id": len(made) + 1, "gridPos": place, **_panel(panel)})
            y += _HEIGHT
    return made


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }
