"""Alerts fire for their fault, name it, and are otherwise silent, by Prometheus' own promtool.

test_monitoring.py checks that their metrics and labels exist. Here each expression is evaluated, minute by
minute, on series with a fault, and on similar series without one.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import generate_latest
from tests.unit.manifests.test_monitoring import _ALERTS, _RULES
from tools.manifests import metrics
from tools.manifests.render import ROOT

pytestmark = pytest.mark.server

# A value for each minute: constant, steadily rising, risen once.
_MINUTES = 30
_REST, _RISES, _ONCE = "0x30", "0+1x30", "0x9 1x20"
_FIRING = 20
# A fault that exists from the first minute on is reported from the fifth.
_EARLY = 4


class Scene(NamedTuple):
    """Series, and the expected labels and value of an alert; None if it stays silent."""

    alert: str
    name: str
    series: Mapping[str, str]
    fires: Mapping[str, str] | None = None
    value: str = ""


def _on(metric: str, values: str, **labels: str) -> dict[str, str]:
    """Return one series of a metric for one replica."""
    written = ",".join(f'{name}="{value}"' for name, value in {"instance": "a", **labels}.items())
    return {f"{metric}{{{written}}}": values}


def _both(metric: str, first: str, second: str) -> dict[str, str]:
    """Return a series of each replica."""
    return {**_on(metric, first), **_on(metric, second, instance="b")}


def _waits(bucket: str) -> dict[str, str]:
    """Return a histogram of waits that all end within a bucket."""
    bounds = ["1.0", "2.5", "5.0", "10.0", "30.0", "+Inf"]
    return {
        f'podium_queue_wait_seconds_bucket{{instance="a",le="{bound}"}}': _RISES
        if at >= bounds.index(bucket)
        else _REST
        for at, bound in enumerate(bounds)
    }


def _with_and_without(
    alert: str, fault: str, metric: str, values: str, *, value: str = "", **labels: str
) -> tuple[Scene, Scene]:
    """Return a fault in one series, whose labels the alert has, and the same series without it."""
    return (
        Scene(alert, fault, _on(metric, values, **labels), labels, value),
        Scene(alert, "none", _on(metric, _REST, **labels)),
    )


_DIVERGENT = {"namespace": "team", "cause": "class changed"}
_ATTEMPTS = "podium_scheduler_goroutines_execution_total"
_OPEN = "apiserver_admission_webhook_fail_open_count"
_REJECTED = "apiserver_admission_webhook_rejection_count"
_CALLING = "calling_webhook_error"
_DAY = 86400

_SCENES = (
    *_with_and_without(
        "PodiumGroupsDivergent", "two groups", "podium_divergent_groups", "2x30", value="2", **_DIVERGENT
    ),
    Scene(
        "PodiumGroupsDivergent",
        "while a workload is replaced",
        _on("podium_divergent_groups", "0x9 1x3 0x16", **_DIVERGENT),
    ),
    Scene("PodiumControllerHasNoLeader", "both stand by", _both("podium_leader", _REST, _REST), {}),
    Scene("PodiumControllerHasNoLeader", "no process", {}, {}),
    Scene("PodiumControllerHasNoLeader", "one leads", _both("podium_leader", "1x30", _REST)),
    Scene(
        "PodiumControllerHasNoLeader", "another takes over", _both("podium_leader", "1x9 0x20", "0x12 1x17")
    ),
    Scene(
        "PodiumWritesFail",
        "again and again",
        _on("podium_writes_total", _RISES, what="conditions", result="failed"),
        {"what": "conditions"},
    ),
    Scene("PodiumWritesFail", "once", _on("podium_writes_total", _ONCE, what="conditions", result="failed")),
    Scene(
        "PodiumWritesFail",
        "conflicts",
        _on("podium_writes_total", _RISES, what="conditions", result="conflict"),
    ),
    *_with_and_without("PodiumReconcileErrors", "a bug", "podium_reconcile_errors_total", _RISES),
    Scene("PodiumControllerSlow", "waits of 5 to 10 s", _waits("10.0"), {}, "9.95s"),
    Scene("PodiumControllerSlow", "waits of half as long", _waits("5.0")),
    Scene("PodiumControllerSlow", "nothing to do", dict.fromkeys(_waits("5.0"), _REST)),
    Scene(
        "PodiumPreemptionsFail",
        "one of eleven",
        {
            **_on(_ATTEMPTS, _RISES, operation="preemption", result="error"),
            **_on(_ATTEMPTS, "0+10x30", operation="preemption", result="success"),
        },
        {},
        "9.091%",
    ),
    Scene(
        "PodiumPreemptionsFail",
        "one of two hundred",
        {
            **_on(_ATTEMPTS, _RISES, operation="preemption", result="error"),
            **_on(_ATTEMPTS, "0+199x30", operation="preemption", result="success"),
        },
    ),
    Scene(
        "PodiumPreemptionsFail",
        "no preemption",
        {
            **_on(_ATTEMPTS, _REST, operation="preemption", result="error"),
            **_on(_ATTEMPTS, _REST, operation="preemption", result="success"),
        },
    ),
    Scene("PodiumSchedulerHasNoLeader", "both stand by", _both("podium_scheduler_leader", _REST, _REST), {}),
    Scene(
        "PodiumSchedulerHasNoLeader",
        "it is gone",
        _both("podium_scheduler_leader", "1x9 stale", "0x9 stale"),
        {},
    ),
    Scene("PodiumSchedulerHasNoLeader", "none was ever there", {}),
    Scene("PodiumSchedulerHasNoLeader", "one leads", _both("podium_scheduler_leader", "1x30", _REST)),
    Scene(
        "PodiumSchedulerWritesFail",
        "again and again",
        _on("podium_scheduler_writes_total", _RISES, what="bind", result="failed"),
        {"what": "bind"},
    ),
    Scene(
        "PodiumSchedulerWritesFail",
        "pods that are gone",
        _on("podium_scheduler_writes_total", _RISES, what="bind", result="gone"),
    ),
    *_with_and_without("PodiumSchedulerErrors", "a bug", "podium_scheduler_errors_total", _RISES),
    *_with_and_without(
        "PodiumSchedulerCacheDiffers", "one", "podium_scheduler_cache_differences_total", _ONCE
    ),
    *_with_and_without(
        "PodiumDecisionsTimeOut",
        "again and again",
        "podium_scheduler_decision_timeouts_total",
        _RISES,
        preemptor="podgroup",
    ),
    *_with_and_without("PodiumEvictionCycle", "one", "podium_scheduler_eviction_cycles_total", _ONCE),
    *_with_and_without(
        "PodiumPodsRejected", "one", "podium_scheduler_rejected_pods_total", _ONCE, reason="OutOfcpu"
    ),
    Scene(
        "PodiumCacheStale",
        "a watch that hears nothing",
        _on("podium_cache_age_seconds", "0+30x30", job="podium-webhook", resource="podgroups"),
        {"job": "podium-webhook", "instance": "a", "resource": "podgroups"},
        "10m 0s",
    ),
    Scene(
        "PodiumCacheStale",
        "a bookmark each minute",
        _on("podium_cache_age_seconds", "60x30", job="podium-webhook", resource="podgroups"),
    ),
    *_with_and_without(
        "PodiumUndecodableObjects",
        "one in one replica",
        "podium_undecodable_objects",
        "1x30",
        value="1",
        job="podium-scheduler",
        resource="pods",
    ),
    *_with_and_without(
        "PodiumObserverErrors", "a bug", "podium_observer_errors_total", _ONCE, job="podium-scheduler"
    ),
    Scene("PodiumWebhookAbsent", "no process", {}, {}),
    Scene("PodiumWebhookAbsent", "one of two", _both("podium_admission_in_flight", _REST, "0x9 stale")),
    Scene(
        "PodiumWebhookUnanswered",
        "pods go through",
        _on(_OPEN, _RISES, name="pods.podium.dev", type="validating"),
        {"name": "pods.podium.dev"},
    ),
    Scene(
        "PodiumWebhookUnanswered",
        "groups are refused",
        _on(_REJECTED, _RISES, name="groups.podium.dev", type="admit", error_type=_CALLING),
        {"name": "groups.podium.dev"},
    ),
    Scene(
        "PodiumWebhookUnanswered",
        "groups are denied",
        _on(_REJECTED, _RISES, name="groups.podium.dev", type="validating", error_type="no_error"),
    ),
    Scene(
        "PodiumWebhookUnanswered",
        "another product's",
        {
            **_on(_OPEN, _RISES, name="pods.example.com", type="validating"),
            **_on(_REJECTED, _RISES, name="pods.example.com", type="admit", error_type=_CALLING),
        },
    ),
    Scene(
        "PodiumCertificateExpires",
        "in two days",
        # The first minute is that of the epoch.
        _on("podium_certificate_expiry_timestamp_seconds", f"{2 * _DAY + 60 * _FIRING}x30"),
        {"instance": "a"},
        "2d 0h 0m 0s",
    ),
    Scene(
        "PodiumCertificateExpires",
        "in ten",
        _on("podium_certificate_expiry_timestamp_seconds", f"{10 * _DAY}x30"),
    ),
    Scene(
        "PodiumWebhookErrors",
        "again and again",
        _on("podium_admission_errors_total", _RISES, why="exception"),
        {"why": "exception"},
    ),
    Scene(
        "PodiumWebhookDeniesForSize",
        "one padded pod",
        _on("podium_admission_errors_total", _ONCE, why="large body"),
        {"why": "large body"},
    ),
    Scene(
        "PodiumWebhookDeniesForSize",
        "a group of many values",
        _on("podium_admission_errors_total", _RISES, why="large object"),
        {"why": "large object"},
    ),
    Scene(
        "PodiumWebhookDeniesForSize",
        "another error",
        _on("podium_admission_errors_total", _RISES, why="review"),
    ),
    Scene("PodiumWebhookErrors", "once", _on("podium_admission_errors_total", _ONCE, why="exception")),
    *_with_and_without(
        "PodiumWebhookSheds", "again and again", "podium_admission_shed_total", _RISES, why="waiting"
    ),
)


@cache
def _promtool() -> str:
    done = subprocess.run(
        [ROOT / "tools" / "install-promtool"], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def _told(scene: Scene) -> list[dict[str, Any]]:
    """Return the alerts that promtool is to expect at `_FIRING`."""
    if scene.fires is None:
        return []
    (rule,) = [rule for rule in _RULES if rule["alert"] == scene.alert]
    labels = {**scene.fires, **rule["labels"]}

    def filled(text: str) -> str:
        with_labels = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], text)
        return re.sub(r"{{ \$value.*? }}", scene.value, with_labels)

    annotations = {name: filled(text) for name, text in rule["annotations"].items()}
    return [{"exp_labels": labels, "exp_annotations": annotations}]


@pytest.mark.parametrize("scene", _SCENES, ids=lambda scene: f"{scene.alert}: {scene.name}")
def test_an_alert_tells_what_is_wrong(scene: Scene, tmp_path: Path) -> None:
    """The alert fires with complete texts after five minutes; without a fault, never."""
    minutes = range(_MINUTES + 1) if scene.fires is None else (_EARLY, _FIRING)
    rules, test = tmp_path / "rules.yaml", tmp_path / "test.yaml"
    rules.write_text(json.dumps(_ALERTS["spec"]), encoding="utf-8")
    asked = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in scene.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": scene.alert,
                "exp_alerts": _told(scene) if minute == _FIRING else [],
            }
            for minute in minutes
        ],
    }
    test.write_text(
        json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [asked]}), "utf-8"
    )
    done = subprocess.run(
        [_promtool(), "test", "rules", str(test)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_seen_to_tell_and_to_be_silent() -> None:
    covered = {(scene.alert, scene.fires is not None) for scene in _SCENES}
    assert covered == {(rule["alert"], tells) for rule in _RULES for tells in (True, False)}


@pytest.mark.parametrize("process", metrics.exposed())
def test_metrics_are_named_as_prometheus_has_them(process: str) -> None:
    """The exposition of an idle process has units, suffixes and help."""
    text = generate_latest(metrics.registries()[process])
    done = subprocess.run([_promtool(), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
