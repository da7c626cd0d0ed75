"""The scheduler's metrics: kube-scheduler's under the prefix `podium_scheduler_`, and Podium's own.

Names after the prefix, results and buckets are those of kube-scheduler 1.37, so a dashboard needs only
another prefix. The two metrics of goroutines are those of KEP-4832; here a task does what a goroutine does
there. There are no profiles. Labels are closed sets, never a pod, a group or a node.

Most values are read from the effects of a step, because the effects are what was decided. Others are read at
each scrape, because other parts keep them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram

from podium.api.core import SCHEDULER_ERROR
from podium.api.membership import GroupKey
from podium.kube import events
from podium.runtime.metrics import ScrapedMetric, from_zero
from podium.schedulerplugin.live.writes import RESULTS, WRITES
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Effect,
    Evict,
    Held,
    Key,
    Planned,
    PodRef,
    Rejected,
    ReportPending,
)
from podium.schedulerplugin.scheduling.preemptions import Answers

_PREFIX = "podium_scheduler"
_TASK = "preemption"
# Attempts from this number on share one label.
_MANY = 15
_ATTEMPTS = (*map(str, range(1, _MANY)), f"{_MANY}+")
# The most pods whose first attempt is remembered. Of the others, the first attempt counts as the time of the
# bind.
_TRIED = 100_000
# The reasons for which a kubelet rejects a pod, apart from those that name a cluster's devices.
_REJECTIONS = ("OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods")
_RESULTS = ("scheduled", "unschedulable", "error")
_GROUP_RESULTS = (*_RESULTS, "waiting_on_preemption")
_PREEMPTORS = ("pod", "podgroup")
_SEARCHES = ("Success", "Unschedulable")
_ENDS = ("success", "error")
_SAVES = ("asked", "saved", "failed")


def _doubling(first: float, times: int) -> tuple[float, ...]:
    return tuple(first * 2**power for power in range(times))


_ATTEMPT = _doubling(0.001, 15)
_PREEMPTION = _doubling(0.001, 16)
_SINCE_FIRST = _doubling(0.01, 20)
_PER_POD, _PER_GROUP = _doubling(1, 7), _doubling(1, 11)


class _Tried(NamedTuple):
    """The attempts at a pod: their number, and when the first and the last began."""

    attempts: int
    first: float
    last: float


class SchedulerMetrics:
    """The counters; all times are seconds of one clock that never goes back."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._tried: dict[str, _Tried] = {}
        self._add_attempts()
        self._add_preemptions()
        self._add_ours()
        # Looking up a series by its labels costs as much as counting, and these are counted for every pod.
        self._scheduled = self._attempts.labels("scheduled")
        self._scheduled_seconds = self._durations.labels("scheduled")
        self._since_first_by = [self._since_first.labels(attempts) for attempts in _ATTEMPTS]

    def stepped(self, effects: Iterable[Effect], began: float, ended: float) -> None:
        """Count what a step of the scheduler decided."""
        seconds = ended - began
        # For each entry that was not placed at once: whether a preemption was planned for it.
        planned: dict[Key, bool] = {}
        for effect in effects:
            match effect:
                case Bind(key, pods):
                    self._try((pod for pod, _ in pods), began)
                    if isinstance(key, GroupKey):
                        self._end_group("scheduled", seconds)
                case Evict(key):
                    planned[key] = True
                    self._refuse([pod for pod, _ in effect.nominations], "unschedulable", began, seconds)
                    if isinstance(key, GroupKey):
                        self._end_group("waiting_on_preemption", seconds)
                    self._count_victims(effect)
                case ReportPending(key) if not effect.gated:
                    planned.setdefault(key, False)
                    result = "error" if effect.reason == SCHEDULER_ERROR else "unschedulable"
                    self._refuse(effect.pods, result, began, seconds)
                    if isinstance(key, GroupKey):
                        self._end_group(result, seconds)
                case Planned(evict):
                    planned[evict.key] = True
                    self._observed.inc()
                case Held(evict, circle):
                    planned[evict.key] = True
                    (self._cycles if circle else self._limited).inc()
                case Rejected(_, reason):
                    self._rejected.labels(reason if reason in _REJECTIONS else "other").inc()
                case _:
                    pass
        self._algorithm.observe(seconds)
        for key, success in planned.items():
            self._count_search("podgroup" if isinstance(key, GroupKey) else "pod", seconds, success=success)

    def bound(self, pod: PodRef, now: float) -> None:
        """Count a pod that was bound."""
        tried = self._tried.pop(pod.uid, _Tried(1, now, now))
        self._scheduled.inc()
        self._scheduled_seconds.observe(now - tried.last)
        self._pod_attempts.observe(tried.attempts)
        self._since_first_by[min(tried.attempts, _MANY) - 1].observe(now - tried.first)

    def not_bound(self, pod: PodRef, now: float) -> None:
        """Count a pod whose bind failed."""
        tried = self._tried.get(pod.uid, _Tried(1, now, now))
        self._attempts.labels("error").inc()
        self._durations.labels("error").observe(now - tried.last)

    def carried_out(self, evict: Evict, seconds: float, *, error: bool) -> None:
        """Count a preemption that has ended, successfully or with an error of the API server."""
        result = "error" if error else "success"
        self._execution.labels(evict.preemptor.kind, result).observe(seconds)
        self._tasks.labels(_TASK, result).inc()
        self._task_seconds.labels(_TASK).observe(seconds)

    def answered(self, answers: Answers) -> None:
        """Count the pods of a preemption that were asked to save their work."""
        for result, pods in zip(_SAVES, (answers.asked, answers.saved, answers.failed), strict=True):
            self._saves.labels(result).inc(pods)

    def refused(self) -> None:
        """Count a pod that the API server does not let the scheduler delete."""
        self._refused.inc()

    def differed(self, differences: int) -> None:
        """Count differences between the scheduler's arrays and the cluster state."""
        self._differences.inc(differences)

    def disagreed(self, condition: str) -> None:
        """Count a group whose condition began to disagree with its pods."""
        self._disagreements.labels(condition).inc()

    def timed_out(self, preemptor: str) -> None:
        """Count a decision that exceeded its time budget."""
        self._timeouts.labels(preemptor).inc()

    def failed(self) -> None:
        """Count a bug."""
        self._bugs.inc()

    def wrote(self, kind: str, result: str) -> None:
        """Count a write."""
        self._writes.labels(kind, result).inc()

    def emitted(self, result: str) -> None:
        """Count an event."""
        self._events.labels(result).inc()

    def _try(self, pods: Iterable[PodRef], began: float) -> None:
        """Record an attempt at each of some pods."""
        for pod in pods:
            before = self._tried.pop(pod.uid, None)
            attempts, first = (before.attempts, before.first) if before is not None else (0, began)
            self._tried[pod.uid] = _Tried(attempts + 1, first, began)
        while len(self._tried) > _TRIED:
            del self._tried[next(iter(self._tried))]

    def _refuse(self, pods: Collection[PodRef], result: str, began: float, seconds: float) -> None:
        """Count a failed attempt at pods. Its duration counts once, because the pods were tried together."""
        self._try(pods, began)
        self._attempts.labels(result).inc(len(pods))
        self._durations.labels(result).observe(seconds)

    def _end_group(self, result: str, seconds: float) -> None:
        self._group_attempts.labels(result).inc()
        self._group_durations.labels(result).observe(seconds)

    def _count_search(self, preemptor: str, seconds: float, *, success: bool) -> None:
        """Count a search for victims. It follows a failed attempt, so the duration includes that attempt."""
        result = "Success" if success else "Unschedulable"
        self._evaluation.labels(preemptor, result).observe(seconds)
        if preemptor == "pod":
            self._preemptions.inc()
        else:
            self._group_preemptions.labels(result).inc()

    def _count_victims(self, evict: Evict) -> None:
        kind = evict.preemptor.kind
        victims = self._victims if kind == "pod" else self._group_victims
        victims.observe(len(evict.victims))
        self._disruptions.labels(kind).observe(len(evict.units))
        self._violations.labels(kind).inc(evict.violations)

    def _add_attempts(self) -> None:
        self._attempts = self._counter(
            "schedule_attempts",
            "Attempts to schedule pods; an error is one of ours or of the API server.",
            result=_RESULTS,
        )
        self._durations = self._histogram(
            "scheduling_attempt_duration_seconds",
            "Time of an attempt; of a successful one, until the pod was bound.",
            _ATTEMPT,
            result=_RESULTS,
        )
        self._algorithm = self._histogram(
            "scheduling_algorithm_duration_seconds", "Time of a step: what is first in the queue.", _ATTEMPT
        )
        self._pod_attempts = self._histogram(
            "pod_scheduling_attempts", "Attempts until a pod was bound.", _doubling(1, 5)
        )
        self._since_first = self._histogram(
            "pod_scheduling_sli_duration_seconds",
            "Time from the first attempt at a pod until it was bound, by how many it took.",
            _SINCE_FIRST,
            attempts=_ATTEMPTS,
        )
        self._group_attempts = self._counter(
            "podgroup_schedule_attempts", "Attempts to schedule groups.", result=_GROUP_RESULTS
        )
        self._group_durations = self._histogram(
            "podgroup_scheduling_attempt_duration_seconds",
            "Time of an attempt to schedule a group, binding not included.",
            _ATTEMPT,
            result=_GROUP_RESULTS,
        )

    def _add_preemptions(self) -> None:
        self._preemptions = self._counter(
            "preemption_attempts", "Searches for room that others have, for lone pods."
        )
        self._group_preemptions = self._counter(
            "workload_preemption_attempts",
            "Searches for room that others have, for groups.",
            result=_SEARCHES,
        )
        self._victims = self._histogram(
            "preemption_victims", "Pods that a lone pod's preemption evicts.", _PER_POD
        )
        self._group_victims = self._histogram(
            "workload_preemption_victims", "Pods that a group's preemption evicts.", _PER_GROUP
        )
        self._disruptions = self._histogram(
            "preemption_workload_disruptions",
            "Units that a preemption evicts: pods, or groups that are evicted as a whole.",
            _PER_GROUP,
            preemptor=_PREEMPTORS,
        )
        self._violations = self._counter(
            "preemption_pdb_violations",
            "PodDisruptionBudgets that preemptions left with too few pods.",
            preemptor=_PREEMPTORS,
        )
        self._evaluation = self._histogram(
            "preemption_evaluation_duration_seconds",
            "Time to find victims, and that nothing fits without.",
            _PREEMPTION,
            preemptor=_PREEMPTORS,
            result=_SEARCHES,
        )
        self._execution = self._histogram(
            "preemption_execution_duration_seconds",
            "Time of the deletes of victims; nothing else waits for it.",
            _PREEMPTION,
            preemptor=_PREEMPTORS,
            result=_ENDS,
        )
        self._task_seconds = self._histogram(
            "goroutines_duration_seconds", "Time of a task beside the loop.", _SINCE_FIRST, operation=(_TASK,)
        )
        self._tasks = self._counter(
            "goroutines_execution",
            "Tasks beside the loop that have ended.",
            operation=(_TASK,),
            result=_ENDS,
        )

    def _add_ours(self) -> None:
        self._observed = self._counter(
            "observed_preemptions", "Preemptions that were planned and, as configured, not carried out."
        )
        self._limited = self._counter(
            "rate_limited", "Times that a preemption had to wait for the rate of evictions."
        )
        self._cycles = self._counter(
            "eviction_cycles", "Times that a preemption was held back because both sides evict each other."
        )
        self._rejected = self._counter(
            "rejected_pods",
            "Pods of ours that a kubelet rejected, by its reason.",
            reason=(*_REJECTIONS, "other"),
        )
        self._refused = self._counter(
            "refused_victims",
            "Victims whose deletion the API server refused; plans are without them for a while.",
        )
        self._saves = self._counter(
            "save_requests",
            "Victims that were asked to save their work, that did, and that did not within their time.",
            result=_SAVES,
        )
        self._timeouts = self._counter(
            "decision_timeouts",
            "Decisions that were given up because they, or a device selector, took too long.",
            preemptor=_PREEMPTORS,
        )
        self._disagreements = self._counter(
            "condition_disagreements",
            "Times that PodsNotMatchingPriority of a waiting group began to contradict its pods, by status.",
            condition=("True", "False", "Unknown"),
        )
        self._differences = self._counter(
            "cache_differences",
            "Differences between the scheduler's arrays and the cluster state; each is a bug.",
        )
        self._bugs = self._counter("errors", "Bugs that kept something from being looked at.")
        self._writes = self._counter(
            "writes", "Writes by what was written and how it ended.", what=WRITES, result=RESULTS
        )
        self._events = self._counter("events", "Events by what became of them.", result=events.RESULTS)

    # Both methods take each label with all of its possible values.

    def _counter(self, name: str, description: str, **labels: Iterable[str]) -> Counter:
        made = Counter(f"{_PREFIX}_{name}", description, tuple(labels), registry=self._registry)
        return from_zero(made, product(*labels.values())) if labels else made

    def _histogram(
        self, name: str, description: str, buckets: tuple[float, ...], **labels: Iterable[str]
    ) -> Histogram:
        made = Histogram(
            f"{_PREFIX}_{name}", description, tuple(labels), buckets=buckets, registry=self._registry
        )
        return from_zero(made, product(*labels.values())) if labels else made


def register_scraped(
    registry: CollectorRegistry,
    *,
    pending: Callable[[], Mapping[str, float]],
    incoming: Callable[[], Mapping[tuple[str, str], float]],
    evictions: Callable[[], tuple[int, int] | None],
    nominated: Callable[[], tuple[int, int] | None],
    gang_holds: Callable[[], Mapping[str, float]],
    untrusted: Callable[[], float],
    leads: Callable[[], bool],
) -> None:
    """Register the metrics whose values are read at each scrape, with their sources.

    `pending` returns the number of waiting entries by pool (a group is one entry). `incoming` returns how
    many ever entered a pool, by pool and event. `evictions` returns the limit of evictions and what is
    left of it, None if that is unknown or there is no limit. `nominated` returns how many nominated pods
    are ours and how many are not, None if that is unknown. `gang_holds` returns the holds that ended, by
    result. `untrusted` returns how many workloads failed to save their work when asked.
    """
    for reading in (
        ScrapedMetric(
            f"{_PREFIX}_pending_pods",
            "Lone pods and groups that wait, by pool.",
            ("queue",),
            lambda: {(pool,): number for pool, number in pending().items()},
        ),
        ScrapedMetric(
            f"{_PREFIX}_queue_incoming_pods_total",
            "Lone pods and groups that came into a pool, by what brought them.",
            ("queue", "event"),
            lambda: {(pool, event): number for (pool, event), number in incoming().items()},
        ),
        ScrapedMetric(
            f"{_PREFIX}_evictions_limit",
            "Units that may be evicted in a minute; none without a limit, and only the leader says it.",
            (),
            lambda: {} if (value := evictions()) is None else {(): value[0]},
        ),
        ScrapedMetric(
            f"{_PREFIX}_evictions_left",
            "Units of that limit that may be evicted now.",
            (),
            lambda: {} if (value := evictions()) is None else {(): value[1]},
        ),
        ScrapedMetric(
            f"{_PREFIX}_nominated_pods",
            "Pending pods for which a node is reserved, by whose they are; only the leader says it.",
            ("scheduler",),
            lambda: {} if (value := nominated()) is None else {("ours",): value[0], ("other",): value[1]},
        ),
        ScrapedMetric(
            f"{_PREFIX}_gang_holds_total",
            "Times that a waiting gang held room, by how that ended.",
            ("result",),
            lambda: {(result,): number for result, number in gang_holds().items()},
        ),
        ScrapedMetric(
            f"{_PREFIX}_untrusted_workloads",
            "Workloads whose declaration to save their work does not count; only the leader knows them.",
            (),
            lambda: {(): untrusted()},
        ),
        ScrapedMetric(
            f"{_PREFIX}_leader", "Whether this replica does the work.", (), lambda: {(): float(leads())}
        ),
    ):
        registry.register(reading)
