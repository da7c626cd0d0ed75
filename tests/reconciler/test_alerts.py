"""The alert rules speak of metrics that exist, by labels that they have, and wait five minutes."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from podium import data
from podium.controllers.metrics import Metrics
from podium.schedulerplugin.live.metrics import Metrics as SchedulerMetrics
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Preemptor, Rejected
from podium.webhooks.metrics import Metrics as WebhookMetrics

_FILE = data.folder("manifests") / "monitoring" / "alerts.yaml"
RULES = [rule for group in yaml.safe_load(_FILE.read_text())["spec"]["groups"] for rule in group["rules"]]
# What a scrape adds, and what a histogram's buckets have.
_ADDED = {"job", "instance", "le"}
_METRIC = re.compile(r"podium_[a-z_]+")
_BY = re.compile(r"by \(([a-z_, ]+)\)")
_SELECTED = re.compile(r"[{,]([a-z_]+)=")
_TOLD = re.compile(r"\$labels\.([a-z_]+)")


def known() -> Mapping[str, set[str]]:
    """Give the labels of every metric by its name, as the processes expose them once there is something."""
    registry = CollectorRegistry()
    ours = Metrics(registry)
    ours.read(
        divergent_groups=lambda: {("team", "other-class"): 1.0},
        divergent_pods=lambda: {("team", "other-class"): 1.0},
        depth=lambda: 0.0,
        leads=lambda: True,
        cache_ages=lambda: {"pods": 1.0},
    )
    ours.wrote("conditions", "written")
    theirs = CollectorRegistry()
    webhook = WebhookMetrics(theirs)
    webhook.read(in_flight=lambda: 0.0, cache_ages=dict, expiries=lambda: {"serving": 1.0})
    webhook.refused(429, "load")
    webhook.refused(500, "exception")
    scheduling = CollectorRegistry()
    scheduler = SchedulerMetrics(scheduling)
    scheduler.read(pending=dict, incoming=dict, leads=lambda: True, cache_ages=dict)
    preemptor = Preemptor("pod", "team", "train", "1", 7)
    scheduler.carried_out(Evict(("team", "train"), preemptor, (), (), "node", ""), 1.0, error=True)
    scheduler.stepped((Rejected(PodRef("team", "train", "1"), "OutOfcpu"),), 0.0, 0.0)
    scheduler.wrote("bind", "failed")
    return {
        sample.name: set(sample.labels)
        for each in (registry, theirs, scheduling)
        for family in each.collect()
        for sample in family.samples
    }


KNOWN = known()


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_rule_speaks_of_what_there_is(rule: Mapping[str, Any]) -> None:
    """By name and by label, in its expression and in its text."""
    metrics = _METRIC.findall(rule["expr"])
    assert metrics
    labels = set.intersection(*(KNOWN[metric] for metric in metrics)) | _ADDED
    by = {label.strip() for found in _BY.findall(rule["expr"]) for label in found.split(",")}
    assert by | set(_SELECTED.findall(rule["expr"])) <= labels
    assert set(_TOLD.findall("".join(rule["annotations"].values()))) <= by
    assert rule["for"] == "5m"
    assert rule["labels"]["severity"] in {"warning", "critical"}


def test_no_label_names_a_group() -> None:
    """A cluster makes groups without end, and no series of ours may."""
    assert not {"group", "podgroup", "name", "pod", "uid"} & set().union(*KNOWN.values())
