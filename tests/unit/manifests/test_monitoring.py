"""Alerts and panels use existing metrics and labels; alerts have a runbook."""

import ast
import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from itertools import product
from typing import Any

import pytest
import yaml
from tests.support.manifests.promql import TARGET, Query
from tests.unit.manifests.test_modes import rendered
from tools.docs.sources import ROOTS
from tools.manifests import dashboard, metrics
from tools.manifests.render import MANIFESTS, ROOT
from tools.release.artifacts import ADDRESS

from podium.rules import clientchecks, pod, podiumrules, priorityclass, storage
from podium.rules.policy import Policy
from podium.rules.table import ADMISSION_RULES
from podium.webhooks.registration import Endpoint, Options, configurations

_CHART = MANIFESTS / "chart"
_ALERTS = yaml.load(
    (_CHART / "files" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
_SERVICE, _SERVICE_MONITOR = yaml.load_all(
    (MANIFESTS / "components" / "monitoring" / "monitor.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
_RULES = [rule for group in _ALERTS["spec"]["groups"] for rule in group["rules"]]
_EXPOSED = metrics.exposed()
_KNOWN = {
    name: labels for series in _EXPOSED.values() for each in series for name, labels in each.samples.items()
}
_PAGE = ROOT / "docs" / "monitoring.md"
# The API server's own metrics; the tests of faults read them there.
_APISERVER = {
    "apiserver_admission_webhook_fail_open_count": frozenset({"name", "type"}),
    "apiserver_admission_webhook_rejection_count": frozenset(
        {"error_type", "name", "operation", "rejection_code", "type"}
    ),
}
_PANELS = [panel for row in dashboard.ROWS.values() for panel in row]
_QUERIES = (
    *(rule["expr"] for rule in _RULES),
    *(query.replace("$__rate_interval", "5m") for panel in _PANELS for query in panel.queries.values()),
)
# Only the API server validates its own kinds and their stored objects.
_CLASS_RULES = {rule.cause.rule for rule in podiumrules.CLASS_RULES}
_NOT_OURS = {*pod.RULES, *priorityclass.RULES, *storage.RULES, *clientchecks.RULES, *_CLASS_RULES}
_OWN = {rule.cause.rule.id for rule in podiumrules.OWN_RULES}
_SCHEDULER = "podium_scheduler_"
_RESULTS = ("scheduled", "unschedulable", "error")
# The label values of each counter and histogram that a query names.
_VALUES: dict[str, dict[str, Collection[str]]] = {
    "podium_admission_requests_total": {
        "phase": ("mutate", "validate", "gang", "scheduled-gang"),
        "kind": ("Pod", "PodGroup", "CompositePodGroup", "Workload"),
        "operation": ("CREATE", "UPDATE"),
        "verdict": ("allowed", "patched", "warned", "denied"),
        "rule": {"", *(rule.id for rule in ADMISSION_RULES if rule not in _NOT_OURS), *_OWN},
    },
    "podium_admission_duration_seconds_bucket": {"phase": ("mutate", "validate", "gang", "scheduled-gang")},
    "podium_admission_errors_total": {
        "why": (
            *("not HTTP", "handshake", "client certificate", "path", "method", "slow header", "slow body"),
            *("no length", "large body", "content type", "large header", "exception", "late", "review"),
            *("not synced", "large object"),
        )
    },
    "podium_admission_shed_total": {"why": ("connections", "descriptors", "handshakes", "memory", "waiting")},
    "podium_writes_total": {
        "what": ("conditions", "finalizer", "group"),
        "result": ("written", "gone", "conflict", "failed"),
    },
    f"{_SCHEDULER}decision_timeouts_total": {"preemptor": ("pod", "podgroup")},
    f"{_SCHEDULER}goroutines_duration_seconds_bucket": {"operation": ("preemption",)},
    f"{_SCHEDULER}goroutines_execution_total": {"operation": ("preemption",), "result": ("success", "error")},
    f"{_SCHEDULER}pod_scheduling_sli_duration_seconds_bucket": {
        "attempts": (*(str(number) for number in range(1, 15)), "15+")
    },
    f"{_SCHEDULER}podgroup_schedule_attempts_total": {"result": (*_RESULTS, "waiting_on_preemption")},
    f"{_SCHEDULER}preemption_workload_disruptions_sum": {"preemptor": ("pod", "podgroup")},
    f"{_SCHEDULER}rejected_pods_total": {
        "reason": ("OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "other")
    },
    f"{_SCHEDULER}schedule_attempts_total": {"result": _RESULTS},
    f"{_SCHEDULER}workload_preemption_attempts_total": {"result": ("Success", "Unschedulable")},
    f"{_SCHEDULER}writes_total": {
        "what": ("bind", "claim", "nominate", "mark", "delete", "group"),
        "result": ("written", "gone", "taken", "failed"),
    },
}
_TOLD = re.compile(r"\$labels\.(\w+)")


@cache
def _said() -> frozenset[str]:
    """Return all string constants in the program's source, which include the label values."""
    return frozenset(
        node.value
        for source in ROOTS
        for file in (ROOT / source).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _held(query: str) -> Query:
    """Check a query against the exposed metrics: names, labels, and the values that it selects by."""
    held = Query(query, {**_KNOWN, **_APISERVER})
    assert held.metrics
    for selected in held.selected:
        assert selected.metric in _APISERVER or selected.value in _said(), selected
    return held


@pytest.mark.parametrize("rule", _RULES, ids=[rule["alert"] for rule in _RULES])
def test_an_alert_speaks_of_what_there_is(rule: Mapping[str, Any]) -> None:
    """Names and labels in its expression exist, and its texts use labels of the result."""
    held = _held(rule["expr"])
    assert set(_TOLD.findall("".join(rule["annotations"].values()))) <= held.labels
    for event in re.findall(r'"(.+?)"', rule["annotations"]["description"]):
        assert event in _said()
    assert rule["for"] == "5m"
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}


def test_each_rate_is_of_series_that_are_known() -> None:
    """Every counter and histogram that a query names has its row."""
    rated = {
        name
        for series in _EXPOSED.values()
        for each in series
        for name in each.samples
        if each.kind != "gauge" and each.labels
    }
    assert {name for query in _QUERIES for name in _held(query).metrics} & rated == _VALUES.keys()


@pytest.mark.parametrize("name", _VALUES)
def test_each_series_exists_before_its_first_increment(name: str) -> None:
    """A series exists for each value of each label, because a rate misses a series' first increment."""
    begun = {
        tuple(sample.labels[label] for label in _VALUES[name])
        for registry in metrics.registries().values()
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }
    want = _VALUES[name].values()
    assert [set(values) for values in zip(*begun, strict=True)] == [set(values) for values in want]
    # The reviews of all tests check which rule may decide where.
    assert name == "podium_admission_requests_total" or begun == set(product(*want))


@pytest.mark.parametrize("panel", _PANELS, ids=[panel.title for panel in _PANELS])
def test_a_panel_speaks_of_what_there_is(panel: dashboard.Panel) -> None:
    """Its queries use exposed metrics, and its legend the labels that distinguish its lines."""
    assert panel.queries
    for legend, query in panel.queries.items():
        held = _held(query.replace("$__rate_interval", "5m"))
        assert set(re.findall(r"{{(\w+)}}", legend)) == held.labels


def test_every_webhook_is_looked_for_at_the_api_server() -> None:
    """The names are those that the API server counts."""
    registered = configurations(Policy(), Endpoint(service=("n", "s")), Options(), None)
    names = [webhook["name"] for each in registered for webhook in each["webhooks"]]
    queries = [query for panel in _PANELS for query in panel.queries.values()]
    held = [
        _held(query.replace("$__rate_interval", "5m"))
        for query in (*queries, *(rule["expr"] for rule in _RULES))
        if "apiserver" in query
    ]
    patterns = [
        json.loads(f'"{selected.value}"')
        for each in held
        for selected in each.selected
        if selected.label == "name"
    ]
    assert names
    assert len(patterns) == sum(len(each.metrics) for each in held) > 0
    assert all(re.fullmatch(pattern, name) for pattern in patterns for name in names)


def test_a_page_of_panels_can_be_drawn() -> None:
    """Each panel has its own id and place, and a data source of the page."""
    page = json.loads(dashboard.text())
    (variable,) = page["templating"]["list"]
    panels = page["panels"]
    drawn = [panel for panel in panels if panel["type"] != "row"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in drawn] == [panel.title for panel in _PANELS]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in drawn:
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == f"${{{variable['name']}}}"


def test_each_alert_has_its_place_in_the_docs() -> None:
    """Each alert's runbook is a heading of docs/monitoring.md, and each heading belongs to an alert."""
    text = _PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^### (Podium\w+)$", text, re.MULTILINE)
    assert headings == [rule["alert"] for rule in _RULES]
    values = yaml.safe_load((_CHART / "values.yaml").read_text(encoding="utf-8"))
    page = values["monitoring"]["runbooks"]
    assert page == f"{ADDRESS}/blob/main/{_PAGE.relative_to(ROOT)}"
    assert [rule["annotations"]["runbook_url"] for rule in _RULES] == [
        f"{page}#{heading.lower()}" for heading in headings
    ]


def test_the_page_leads_to_places_that_are_there() -> None:
    """That covers each link to another page, and to a heading on it."""
    links = re.findall(r"\]\((\w+\.md)(?:#([\w-]+))?\)", _PAGE.read_text(encoding="utf-8"))
    assert links
    for page, anchor in links:
        text = _PAGE.with_name(page).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_the_reference_is_what_is_exposed() -> None:
    """`python -m tools.manifests.metrics` would change nothing."""
    text = metrics.PAGE.read_text(encoding="utf-8")
    assert metrics.page(text) == text


def test_a_scrape_keeps_our_labels() -> None:
    """The operator adds a namespace to targets, which would hide that of a divergent group."""
    (endpoint,) = _SERVICE_MONITOR["spec"]["endpoints"]
    assert endpoint["honorLabels"]
    assert "namespace" in _KNOWN["podium_divergent_groups"]


def test_every_process_is_scraped() -> None:
    """One Service selects it alone; the job is the process, by a label of its pods."""
    services = [_SERVICE, *rendered("scheduler", "Service")]
    selected = _SERVICE_MONITOR["spec"]["selector"]["matchLabels"].items()
    assert [each for each in services if selected <= each["metadata"]["labels"].items()] == [_SERVICE]
    assert _SERVICE_MONITOR["metadata"]["namespace"] == _SERVICE["metadata"]["namespace"]
    (endpoint,), (port,) = _SERVICE_MONITOR["spec"]["endpoints"], _SERVICE["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    (relabeling,) = endpoint["relabelings"]
    (source,) = relabeling["sourceLabels"]
    jobs = set()
    for deployment in rendered("scheduler", "Deployment"):
        pod = deployment["spec"]["template"]
        (container,) = pod["spec"]["containers"]
        assert port["targetPort"] in {each["name"] for each in container["ports"]}
        labels = pod["metadata"]["labels"]
        assert _SERVICE["spec"]["selector"].items() <= labels.items()
        meta = {f"__meta_kubernetes_pod_label_{re.sub('[^a-zA-Z0-9]', '_', name)}": name for name in labels}
        jobs.add(relabeling["replacement"].replace("$1", labels[meta[source]]))
    assert jobs == {f"podium-{process}" for process in metrics.exposed()}


def test_no_label_names_an_object() -> None:
    """No series has a label with the name of a pod or group, whose number is unbounded.

    None is a scrape's label.
    """
    labels = {label for each in _KNOWN.values() for label in each}
    assert not labels & ({"group", "podgroup", "name", "pod", "node", "uid"} | TARGET)


@pytest.mark.parametrize(
    "query, message",
    [
        ("podium_leaders", "no metric podium_leaders"),
        ("podium_queue_wait_seconds", "no metric"),
        ("podium_queue_wait_seconds_total", "no metric"),
        ("podium_writes", "no metric podium_writes"),
        ('podium_leader{result="failed"}', "no label result"),
        ("sum by (cause) (podium_leader)", "cause is no label there"),
        ("sum(podium_leader) by (cause)", "cause is no label there"),
        ("sum by (what) (sum by (result) (podium_writes_total))", "what is no label there"),
        ("histogram_quantile(0.9, sum(rate(podium_queue_wait_seconds_bucket[5m])))", "by le"),
        ("rates(podium_leader)", "rates is no function"),
        ("podium_leader ? 1", "is not understood"),
        ("podium_leader 1", "1 is not expected"),
        ("sum(podium_leader", "is expected, not the end"),
    ],
)
def test_a_query_of_what_there_is_not(query: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Query(query, _KNOWN)


@pytest.mark.parametrize(
    "query, labels",
    [
        ("1", set()),
        ("podium_leader", {"job", "instance"}),
        ("sum by (what) (rate(podium_writes_total[5m])) / 2 > 0", {"what"}),
        ("sum(podium_leader) or vector(0)", set()),
        ("podium_divergent_pods - time()", {"namespace", "cause", "job", "instance"}),
        ("sum by (what, result) (podium_writes_total) / sum by (what) (podium_writes_total)", {"what"}),
        ("histogram_quantile(0.9, sum by (le, job) (podium_queue_wait_seconds_bucket))", {"job"}),
    ],
)
def test_the_labels_of_what_comes_out(query: str, labels: set[str]) -> None:
    assert Query(query, _KNOWN).labels == labels
