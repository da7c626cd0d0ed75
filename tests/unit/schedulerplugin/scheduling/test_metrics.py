"""Metrics: kube-scheduler's names after our prefix, counted from the decisions."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from podium.api.core import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.api.membership import GroupKey
from podium.cluster.reader import name_in
from podium.runtime.metrics import new_registry
from podium.schedulerplugin.live.metrics import SchedulerMetrics, register_scraped
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Effect,
    Evict,
    Held,
    Planned,
    PodRef,
    Preemptor,
    Rejected,
    ReportPending,
    Unit,
    Unmark,
)
from podium.schedulerplugin.scheduling.preemptions import Answers

PREFIX = "podium_scheduler_"
POD, GROUP = ("team", "a"), GroupKey(False, "team", "train")
PODS = tuple(PodRef("team", name, f"uid-{name}") for name in "abc")
VICTIMS = tuple(PodRef("other", f"victim-{number}", str(number)) for number in range(5))
UNITS = (
    Unit("PodGroup", "other", "one", "uid-1", 1, VICTIMS[:4]),
    Unit("Pod", "other", "victim-4", "4", 1, VICTIMS[4:]),
)


def bind(key: tuple[str, str] | GroupKey, *pods: PodRef) -> Bind:
    """Put pods on one node."""
    return Bind(key, tuple((pod, "node-1") for pod in pods))


def evict(key: tuple[str, str] | GroupKey, *pods: PodRef, violations: int = 0) -> Evict:
    """Make a preemption of five pods in two units."""
    kind = "podgroup" if isinstance(key, GroupKey) else "pod"
    preemptor = Preemptor(kind, "team", name_in(key)[1], "uid", 9)
    nominations = tuple((pod, "node-1") for pod in pods)
    return Evict(key, preemptor, nominations, UNITS, "cluster", "full", violations=violations)


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Return our series that are not 0, without the buckets: `name{label=value,...}`."""
    values = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name.startswith(PREFIX) and not sample.name.endswith("_bucket") and sample.value:
                labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
                name = sample.name.removeprefix(PREFIX)
                values[f"{name}{{{labels}}}" if labels else name] = sample.value
    return values


def series(registry: CollectorRegistry) -> set[tuple[str, ...]]:
    """Return all series of ours, counted or not, by name and labels."""
    return {
        (sample.name, *sample.labels.values())
        for family in registry.collect()
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    }


def plan(kind: str, result: str) -> dict[str, float]:
    """Return the counts of one search for room."""
    labels = f"preemptor={kind},result={result}"
    attempts = "preemption_attempts_total"
    return {
        attempts if kind == "pod" else f"workload_{attempts}{{result={result}}}": 1,
        f"preemption_evaluation_duration_seconds_count{{{labels}}}": 1,
        f"preemption_evaluation_duration_seconds_sum{{{labels}}}": 0.5,
    }


def attempts(result: str, pods: int) -> dict[str, float]:
    """Return the counts of one attempt at pods without a binding."""
    return {
        f"schedule_attempts_total{{result={result}}}": pods,
        f"scheduling_attempt_duration_seconds_count{{result={result}}}": 1,
        f"scheduling_attempt_duration_seconds_sum{{result={result}}}": 0.5,
    }


def group(result: str) -> dict[str, float]:
    """Return the counts of one attempt at a group."""
    return {
        f"podgroup_schedule_attempts_total{{result={result}}}": 1,
        f"podgroup_scheduling_attempt_duration_seconds_count{{result={result}}}": 1,
        f"podgroup_scheduling_attempt_duration_seconds_sum{{result={result}}}": 0.5,
    }


UNFIT = attempts("unschedulable", 1)
FULL = ReportPending(POD, PODS[:1], UNSCHEDULABLE, "full")
NO_PLAN = {**UNFIT, **plan("pod", "Unschedulable")}
A_PLAN = {**UNFIT, **plan("pod", "Success")}
# The decisions of a step of half a second and their counts, except for the time of the step itself.
CASES: dict[str, tuple[tuple[Effect, ...], dict[str, float]]] = {
    "nothing": ((), {}),
    "a pod is bound": ((bind(POD, PODS[0]),), {}),
    "a group is bound": ((bind(GROUP, *PODS),), group("scheduled")),
    "a pod does not fit": ((FULL,), NO_PLAN),
    "a group does not fit": (
        (ReportPending(GROUP, PODS, UNSCHEDULABLE, "full"),),
        {**attempts("unschedulable", 3), **group("unschedulable"), **plan("podgroup", "Unschedulable")},
    ),
    "a pod cannot be judged": (
        (ReportPending(POD, PODS[:1], SCHEDULER_ERROR, "a claim"),),
        {**attempts("error", 1), **plan("pod", "Unschedulable")},
    ),
    "a gated pod was not tried": ((ReportPending(POD, PODS[:1], UNSCHEDULABLE, "gates", gated=True),), {}),
    "a pod preempts": (
        (evict(POD, PODS[0], violations=2),),
        {
            **A_PLAN,
            "preemption_victims_count": 1,
            "preemption_victims_sum": 5,
            "preemption_workload_disruptions_count{preemptor=pod}": 1,
            "preemption_workload_disruptions_sum{preemptor=pod}": 2,
            "preemption_pdb_violations_total{preemptor=pod}": 2,
        },
    ),
    "a group preempts": (
        (evict(GROUP, *PODS),),
        {
            **attempts("unschedulable", 3),
            **group("waiting_on_preemption"),
            **plan("podgroup", "Success"),
            "workload_preemption_victims_count": 1,
            "workload_preemption_victims_sum": 5,
            "preemption_workload_disruptions_count{preemptor=podgroup}": 1,
            "preemption_workload_disruptions_sum{preemptor=podgroup}": 2,
        },
    ),
    "a preemption is only observed": (
        (FULL, Planned(evict(POD, PODS[0]))),
        {**A_PLAN, "observed_preemptions_total": 1},
    ),
    "a preemption has to wait for the rate": (
        (FULL, Held(evict(POD, PODS[0]), circle=False)),
        {**A_PLAN, "rate_limited_total": 1},
    ),
    "a preemption is in a cycle": (
        (FULL, Held(evict(POD, PODS[0]), circle=True)),
        {**A_PLAN, "eviction_cycles_total": 1},
    ),
    "some are bound and the next is not": (
        (bind(POD, PODS[0]), ReportPending(("team", "b"), PODS[1:2], UNSCHEDULABLE, "full")),
        NO_PLAN,
    ),
    "a kubelet had no room": (
        (Rejected(PODS[0], "OutOfcpu"), Rejected(PODS[1], "OutOfexample.com/device")),
        {"rejected_pods_total{reason=OutOfcpu}": 1, "rejected_pods_total{reason=other}": 1},
    ),
    "marks are withdrawn": ((Unmark(PODS),), {}),
}


@pytest.mark.parametrize(("effects", "counts"), CASES.values(), ids=CASES)
def test_the_metrics_of_a_step(effects: tuple[Effect, ...], counts: dict[str, float]) -> None:
    registry = new_registry()
    SchedulerMetrics(registry).stepped(effects, 10.0, 10.5)
    step = {
        "scheduling_algorithm_duration_seconds_count": 1,
        "scheduling_algorithm_duration_seconds_sum": 0.5,
    }
    assert samples(registry) == {**step, **counts}


def test_counting_begins_no_series() -> None:
    """All series exist from the start, or a rate would miss the first increment of each."""
    registry = new_registry()
    metrics = SchedulerMetrics(registry)
    begun = series(registry)
    for effects, _ in CASES.values():
        metrics.stepped(effects, 0.0, 0.5)
    for _ in range(20):
        metrics.bound(PODS[0], 1.0)
        metrics.stepped((ReportPending(POD, PODS[1:2], UNSCHEDULABLE, "full"),), 0.0, 0.5)
    metrics.bound(PODS[1], 1.0)
    metrics.not_bound(PODS[2], 1.0)
    for error in (False, True):
        metrics.carried_out(evict(POD, PODS[0]), 1.0, error=error)
        metrics.carried_out(evict(GROUP, *PODS), 1.0, error=error)
    assert series(registry) == begun


def test_a_pod_is_counted_from_its_first_attempt_to_its_binding() -> None:
    """It did not fit, then a bind failed, and then it was bound: the last attempt began at 20."""
    registry = new_registry()
    metrics = SchedulerMetrics(registry)
    pod = PODS[0]
    metrics.stepped((ReportPending(POD, (pod,), UNSCHEDULABLE, "full"),), 0.0, 0.5)
    metrics.stepped((bind(POD, pod),), 10.0, 10.5)
    metrics.not_bound(pod, 12.0)
    metrics.stepped((bind(POD, pod),), 20.0, 20.5)
    metrics.bound(pod, 21.0)
    values = samples(registry)
    assert values["schedule_attempts_total{result=error}"] == 1
    assert values["scheduling_attempt_duration_seconds_sum{result=error}"] == 2
    assert values["schedule_attempts_total{result=scheduled}"] == 1
    assert values["scheduling_attempt_duration_seconds_sum{result=scheduled}"] == 1
    assert values["pod_scheduling_attempts_sum"] == 3
    assert values["pod_scheduling_sli_duration_seconds_sum{attempts=3}"] == 21


def test_many_attempts_are_one_series() -> None:
    registry = new_registry()
    metrics = SchedulerMetrics(registry)
    for number in range(40):
        metrics.stepped((ReportPending(POD, PODS[:1], UNSCHEDULABLE, "full"),), float(number), number + 0.5)
    metrics.bound(PODS[0], 50.0)
    assert samples(registry)["pod_scheduling_sli_duration_seconds_sum{attempts=15+}"] == 50


def test_pods_that_are_never_bound_are_forgotten_in_the_end() -> None:
    metrics = SchedulerMetrics(new_registry())
    for start in range(0, 120_000, 10_000):
        pods = tuple(PodRef("team", str(number), str(number)) for number in range(start, start + 10_000))
        metrics.stepped((ReportPending(POD, pods, UNSCHEDULABLE, "full"),), 0.0, 0.5)
    assert len(metrics._tried) == 100_000
    assert "119999" in metrics._tried


@pytest.mark.parametrize("error", [False, True])
def test_a_preemption_that_ended(error: bool) -> None:
    """The counts are those of upstream's metrics, and of KEP-4832's names."""
    registry = new_registry()
    SchedulerMetrics(registry).carried_out(evict(GROUP, *PODS), 2.0, error=error)
    result = "error" if error else "success"
    assert samples(registry) == {
        f"preemption_execution_duration_seconds_count{{preemptor=podgroup,result={result}}}": 1,
        f"preemption_execution_duration_seconds_sum{{preemptor=podgroup,result={result}}}": 2,
        f"goroutines_execution_total{{operation=preemption,result={result}}}": 1,
        "goroutines_duration_seconds_count{operation=preemption}": 1,
        "goroutines_duration_seconds_sum{operation=preemption}": 2,
    }


def test_requests_to_save_work_are_counted() -> None:
    registry = new_registry()
    metrics = SchedulerMetrics(registry)
    metrics.answered(Answers(asked=5, saved=3, failed=1))
    metrics.answered(Answers())
    assert samples(registry) == {
        "save_requests_total{result=asked}": 5,
        "save_requests_total{result=saved}": 3,
        "save_requests_total{result=failed}": 1,
    }


def test_own_results_are_counted() -> None:
    registry = new_registry()
    metrics = SchedulerMetrics(registry)
    metrics.failed()
    metrics.wrote("bind", "written")
    metrics.emitted("sent")
    assert samples(registry) == {
        "errors_total": 1,
        "writes_total{what=bind,result=written}": 1,
        "events_total{result=sent}": 1,
    }


def test_values_of_other_objects_are_read() -> None:
    registry = new_registry()
    register_scraped(
        registry,
        pending=lambda: {"active": 3, "gated": 2},
        incoming=lambda: {("active", "PodAdd"): 5},
        evictions=lambda: (5, 2),
        nominated=lambda: (3, 1),
        gang_holds=lambda: {"timed_out": 2},
        untrusted=lambda: 4,
        leads=lambda: True,
    )
    assert samples(registry) == {
        "pending_pods{queue=active}": 3,
        "pending_pods{queue=gated}": 2,
        "queue_incoming_pods_total{queue=active,event=PodAdd}": 5,
        "evictions_limit": 5,
        "evictions_left": 2,
        "nominated_pods{scheduler=ours}": 3,
        "nominated_pods{scheduler=other}": 1,
        "gang_holds_total{result=timed_out}": 2,
        "untrusted_workloads": 4,
        "leader": 1,
    }
    text = generate_latest(registry).decode()
    assert "# TYPE podium_scheduler_queue_incoming_pods_total counter" in text


def _quiet(registry: CollectorRegistry, *, leads: bool) -> SchedulerMetrics:
    """Return the metrics of an idle process."""
    metrics = SchedulerMetrics(registry)
    register_scraped(
        registry,
        pending=dict,
        incoming=dict,
        evictions=lambda: None,
        nominated=lambda: None,
        gang_holds=dict,
        untrusted=float,
        leads=lambda: leads,
    )
    return metrics


def test_a_standby_has_no_limit_and_no_nomination() -> None:
    """Without a limit there is no sample: a 0 would mean that no eviction is allowed."""
    registry = new_registry()
    _quiet(registry, leads=False)
    assert not {name for name, *_ in series(registry) if "evictions" in name or "nominated" in name}


# Of kube-scheduler 1.37: its histograms by their first bound and how many there are, and its counters.
UPSTREAM_HISTOGRAMS = {
    "scheduling_attempt_duration_seconds": (0.001, 15),
    "scheduling_algorithm_duration_seconds": (0.001, 15),
    "pod_scheduling_sli_duration_seconds": (0.01, 20),
    "pod_scheduling_attempts": (1, 5),
    "podgroup_scheduling_attempt_duration_seconds": (0.001, 15),
    "preemption_victims": (1, 7),
    "workload_preemption_victims": (1, 11),
    "preemption_workload_disruptions": (1, 11),
    "preemption_evaluation_duration_seconds": (0.001, 16),
    "preemption_execution_duration_seconds": (0.001, 16),
    "goroutines_duration_seconds": (0.01, 20),
}
UPSTREAM_COUNTERS = {
    "schedule_attempts",
    "podgroup_schedule_attempts",
    "preemption_attempts",
    "workload_preemption_attempts",
    "preemption_pdb_violations",
    "goroutines_execution",
    "queue_incoming_pods",
}


def test_names_and_buckets_are_upstreams() -> None:
    registry = new_registry()
    metrics = _quiet(registry, leads=True)
    metrics.stepped((evict(GROUP, *PODS), evict(POD, PODS[0])), 0.0, 0.5)
    metrics.bound(PODS[0], 1.0)
    metrics.carried_out(evict(GROUP, *PODS), 2.0, error=False)
    families = {family.name.removeprefix(PREFIX): family for family in registry.collect()}
    assert {name for name, family in families.items() if family.type == "histogram"} == set(
        UPSTREAM_HISTOGRAMS
    )
    assert {name for name in UPSTREAM_COUNTERS if families[name].type == "counter"} == UPSTREAM_COUNTERS
    assert families["pending_pods"].type == "gauge"
    for name, (first, times) in UPSTREAM_HISTOGRAMS.items():
        bounds = {
            float(sample.labels["le"]) for sample in families[name].samples if sample.name.endswith("_bucket")
        }
        assert sorted(bounds)[:-1] == pytest.approx([first * 2**power for power in range(times)]), name
