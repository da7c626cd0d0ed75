"""The scheduler process: creates the parts and connects them. Nothing is decided here.

Each replica follows the cluster with its cache and its engine. The parts that only a leader needs (the queue,
the writes and the statuses) are created when the replica begins to lead. Before that its cache catches up
with the API server, so a new leader misses nothing that the previous one did.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import partial

from structlog.typing import FilteringBoundLogger

from podium.api.podkinds.workloads import JOB_KEY
from podium.api.reads import Kind, Reads
from podium.api.records import PreemptionRecord, RecordedPlan
from podium.api.schedulable import SCHEDULING_READS
from podium.history.records import counted, recent, unfinished
from podium.history.trust import FAILURES, Trust, distrust
from podium.kube.cache import InformerCache
from podium.kube.connection import Connection
from podium.kube.deployment import is_turned_off
from podium.kube.discovery import Served
from podium.kube.events import EventRecorder, Pace
from podium.planner.plugins import PLUGINS
from podium.planner.preemption.protection import DAEMON_SET
from podium.planner.settings import LiveSettings
from podium.runtime import logs
from podium.runtime import metrics as service_metrics
from podium.runtime.garbage import short_collections
from podium.runtime.host import THIS_MACHINE, Host
from podium.runtime.manager import ManagerOptions, ReplicaManager, Work
from podium.runtime.signals import Stop, stopping
from podium.runtime.worker import Worker
from podium.runtime.workqueue import Workqueue
from podium.schedulerplugin.history.writer import History
from podium.schedulerplugin.live.loop import Loop
from podium.schedulerplugin.live.metrics import SchedulerMetrics, register_scraped
from podium.schedulerplugin.live.settingsreload import SettingsSource, Switch
from podium.schedulerplugin.live.status import Statuses
from podium.schedulerplugin.live.transforms import transform
from podium.schedulerplugin.live.warmengine import DriftError, WarmEngine
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import Key, entry_name, entry_of
from podium.schedulerplugin.scheduling.evictionlimits import EvictionLimits, Unfinished
from podium.schedulerplugin.scheduling.holds import HoldEnd
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.scheduler import Scheduler

COMPONENT = "podium-scheduler"
_OF_PLUGINS = tuple(followed for plugin in PLUGINS for followed in plugin.KINDS)
# The kinds that restrict the nodes of a pod, and the pods that may be evicted for it.
KINDS = (
    Kind.POD,
    Kind.NODE,
    Kind.PRIORITY_CLASS,
    Kind.BUDGET,
    Kind.POD_GROUP,
    Kind.COMPOSITE_GROUP,
    Kind.NAMESPACE,
    *(followed.kind for followed in _OF_PLUGINS),
    Kind.OWNER,
    Kind.JOB,
)
# The kinds that only trees of groups, waits for deadlines and some plugins need. Without the right to read
# them, other pods are placed.
OPTIONAL_KINDS = (
    Kind.COMPOSITE_GROUP,
    Kind.JOB,
    *(followed.kind for followed in _OF_PLUGINS if followed.optional),
)
# Jobs have a kind of their own here, because Jobs that cannot be read say nothing about DaemonSets.
SCHEDULER_READS: Reads = {**SCHEDULING_READS, JOB_KEY: SCHEDULING_READS[JOB_KEY]._replace(kind=Kind.JOB)}
# The kinds that a scheduler writes, and budgets, which show the pods that it has evicted. Of the other kinds
# a new leader knows as much as a leader that goes on.
_WRITTEN = (
    *(Kind.POD, Kind.BUDGET, Kind.POD_GROUP, Kind.COMPOSITE_GROUP),
    *(followed.kind for followed in _OF_PLUGINS if followed.written),
)
# A backlog of thousands of pods is bound in seconds. One event for each would cost as much as the binds.
_EVENTS = Pace(burst=100, seconds=0.05, room=2000)
# How far back evictions matter for cycles and limits.
_PAST = timedelta(minutes=30)
# Less than the default grace period of a pod, 30 s.
_RETIRE_SECONDS = 20.0
_DROPPED_FIRST = ("Scheduled",)


def wanted(served: Served) -> bool:
    """Return whether a served kind is watched.

    Of owners, only DaemonSets are, because their pods are never evicted.
    """
    return served.read.kind is not Kind.OWNER or (served.api_version, served.kind) == DAEMON_SET


async def run(
    options: ManagerOptions,
    source: SettingsSource,
    log: FilteringBoundLogger,
    *,
    deployment: tuple[str, str] | None = None,
    host: Host = THIS_MACHINE,
) -> None:
    """Schedule until asked to stop.

    `deployment` is the process's own. If it is turned off when the leader stops, nominations, marks and
    conditions are withdrawn. Raises PodiumError when it cannot begin, and when the lease is lost.
    """
    switch = Switch(source, sleep=asyncio.sleep, log_event=logs.event_logger(log))
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stopping())
        stack.enter_context(short_collections())
        worker = stack.enter_context(Worker(host.executor(), host.clock))
        connection = await stack.enter_async_context(host.connect(options.kubeconfig, options.context))
        replica = ReplicaManager(connection, COMPONENT, options, host, log)
        await _SchedulerProcess(connection, replica, switch, worker, host, deployment=deployment).serve(stop)


class _SchedulerProcess:
    """The parts that every replica has, each created once."""

    def __init__(
        self,
        connection: Connection,
        replica: ReplicaManager,
        switch: Switch,
        worker: Worker,
        host: Host,
        *,
        deployment: tuple[str, str] | None,
    ) -> None:
        self._connection = connection
        self._deployment = deployment
        self._host = host
        self._worker = worker
        self._replica = replica
        self._switch = switch
        self._registry = service_metrics.new_registry()
        self._metrics = SchedulerMetrics(self._registry)
        self._cluster = InformerCache(
            connection,
            KINDS,
            reads=SCHEDULER_READS,
            transform=transform,
            only=wanted,
            optional=OPTIONAL_KINDS,
            clock=host.clock,
            random=host.random,
            idle=worker.idle,
            log_event=replica.log_event,
        )
        service_metrics.read_cluster(self._registry, self._cluster)
        self._engine = WarmEngine(
            self._cluster,
            lambda minor: LiveEngine(self._cluster.state, self._live().engine, minor),
            worker,
            self._metrics,
            clock=host.clock,
            now=host.now,
            sleep=asyncio.sleep,
            log_event=replica.log_event,
        )
        self._recorder = EventRecorder(
            connection,
            self._live().scheduler_name,
            replica.name,
            clock=host.clock,
            now=host.now,
            sleep=asyncio.sleep,
            random=self._host.random,
            log_event=replica.log_event,
            counted=self._metrics.emitted,
            pace=_EVENTS,
            least=_DROPPED_FIRST,
            busy=lambda: self._writes is not None and self._writes.busy,
        )
        self._writes: Writes | None = None
        self._scheduler: Scheduler | None = None
        self._limits: EvictionLimits | None = None
        register_scraped(
            self._registry,
            pending=self._pending,
            incoming=worker.between(self._incoming),
            evictions=worker.between(
                lambda: None if self._limits is None else self._limits.room(host.clock())
            ),
            nominated=worker.between(
                lambda: None if self._scheduler is None else self._scheduler.entries.nominated()
            ),
            gang_holds=worker.between(self._gang_holds),
            untrusted=lambda: len(self._cluster.state.untrusted),
            leads=lambda: replica.remaining() > 0,
        )

    async def serve(self, stop: Stop) -> None:
        """Run the replica until asked to stop. Raises PodiumError."""
        await self._replica.serve(
            stop,
            lambda: self._lead(stop),
            ready=self._ready,
            others={
                "cluster": self._cluster.run,
                "engine": self._engine.run,
                "events": self._recorder.run,
                "configuration": self._switch.run,
            },
            missing=lambda: self._cluster.waits() + self._cluster.denied_resources() + self._engine.waits(),
            registry=self._registry,
            undecodable=self._cluster.undecodable,
            stuck=self._worker.stuck,
        )

    def _illegal(self, problem: str) -> None:
        """Report an entry whose phase was corrected."""
        self._replica.log_event("entry phase corrected: a bug", {"error": problem})
        self._metrics.failed()

    def _pending(self) -> Mapping[str, float]:
        depths = {} if self._scheduler is None else self._scheduler.queue.depths()
        return {str(pool): depth for pool, depth in depths.items()}

    def _incoming(self) -> Mapping[tuple[str, str], float]:
        entered = {} if self._scheduler is None else self._scheduler.queue.entered
        return {(str(pool), str(event)): count for (pool, event), count in entered.items()}

    def _gang_holds(self) -> Mapping[str, float]:
        ended = {} if self._scheduler is None else self._scheduler.holds.ended
        return {str(result): ended.get(result, 0) for result in HoldEnd}

    def _live(self) -> LiveSettings:
        return self._switch.now

    async def _ready(self) -> None:
        await self._engine.built()

    async def _lead(self, stop: Stop) -> None:
        """Schedule for as long as this replica leads; start again when the engine is out of step.

        If no process follows, withdraw at the end what a process would maintain.
        """
        interrupted = self._interrupted()
        try:
            while True:
                await self._schedule(interrupted)
                interrupted = []
        finally:
            if stop.asked.is_set() and await is_turned_off(
                self._connection, self._deployment, self._replica.log_event
            ):
                await self._retire()

    async def _retire(self) -> None:
        if self._writes is not None:
            released, left = await self._new_statuses(self._live(), self._writes).retire(_RETIRE_SECONDS)
            self._replica.log_event("pods and groups released", {"objects": released, "left": left})

    async def _schedule(self, interrupted: Collection[Key]) -> None:
        """Schedule from the server's current objects, until the engine is out of step with them."""
        # A replica that is stopped before it has begun knows no more than the previous leader.
        self._end_in_order(known=self._replica.orderly)
        live, state = self._live(), self._cluster.state
        history = self._new_history(live)
        records, _ = await asyncio.gather(history.restore(), self._catch_up())
        self._limits = limits = self._new_limits(records)
        engine = await self._engine.built()
        trust = Trust(records)
        distrust(state, trust.untrusted)
        # Until all observers are registered nothing is awaited, so no change is lost.
        scheduler = Scheduler(engine, limits, illegal=self._illegal)
        self._writes = writes = Writes(
            self._connection,
            self._replica.remaining,
            sleep=asyncio.sleep,
            random=self._host.random,
            counted=self._metrics.wrote,
        )
        statuses = self._new_statuses(live, writes)
        loop = Loop(
            scheduler,
            writes,
            statuses=statuses,
            history=history,
            metrics=self._metrics,
            emit=self._recorder.emit,
            clock=self._host.clock,
            now=self._host.now,
            sleep=asyncio.sleep,
            log_event=self._replica.log_event,
            worker=self._worker,
            deciding=lambda keys: self._replica.set_note(" ".join(map(entry_name, keys))),
            learn=partial(self._learn, trust),
            interrupted=interrupted,
        )
        self._engine.engage(scheduler)
        # The engine observes since before, because the others query it.
        observers = (
            self._engine.observing(scheduler.apply),
            lambda _before, _after: loop.wake(),
        )
        for observer in observers:
            state.observe(observer)

        shared = shared_devices(len(state.resource_slices), live.engine.reserved)
        if shared and self._scheduler is None:
            self._replica.log_event("devices are shared with other schedulers", shared)
        self._scheduler, self._switch.changed = scheduler, loop.switch
        fields = {"pods": len(state.pods), "nodes": len(state.nodes), "preemption": str(live.mode)}
        self._replica.log_event("scheduling", fields)
        try:
            await ending_last(history.run, loop.run, statuses.run, self._engine.until_drift)
        except* DriftError:
            pass
        finally:
            for observer in observers:
                state.unobserve(observer)
            # The next leader learns of recent evictions from the stored history.
            known = history.written and not limits.doubts(self._host.clock())
            self._end_in_order(known=known)

    def _learn(self, trust: Trust, plan: RecordedPlan) -> None:
        """Count the answers of the victims that a preemption asked to save their work."""
        before = trust.untrusted
        trust.add(plan)
        for kind, namespace, name in sorted(trust.untrusted - before):
            fields = {"workload": f"{kind} {namespace}/{name}", "failures": FAILURES}
            self._replica.log_event("a workload does not save its work as declared", fields)
        if trust.untrusted != before:
            distrust(self._cluster.state, trust.untrusted)

    async def _catch_up(self) -> None:
        """Let the cache catch up with the writes of an earlier leader, or of an earlier scheduler here."""
        if self._replica.elects or self._scheduler is not None:
            await self._cluster.catch_up(_WRITTEN)

    def _interrupted(self) -> list[Key]:
        """Return the entries that the leader before was deciding for when it lost its lease."""
        interrupted = [key for name in self._replica.found.split() if (key := entry_of(name)) is not None]
        if interrupted:
            self._replica.log_event("entries tried last", {"entries": self._replica.found})
        return interrupted

    def _end_in_order(self, *, known: bool) -> None:
        """Record whether the lease ends in order: recent evictions are `known`, or no limit needs them."""
        self._replica.end_in_order(orderly=known or self._live().evictions_a_minute is None)

    def _new_limits(self, records: list[PreemptionRecord]) -> EvictionLimits:
        """Return the eviction limits, restored from the evictions of earlier leaders."""
        limits = EvictionLimits(self._live, self._host.clock)
        now, seconds = self._host.now(), self._host.clock()
        since = now - _PAST

        def steadily(at: datetime) -> float:
            # The wall clock may have been set back since.
            return seconds - max(0.0, (now - at).total_seconds())

        past = [(steadily(at), by, of) for at, by, of in recent(records, since)]
        left = {by: Unfinished(of, steadily(at)) for at, by, of in unfinished(records, since)}
        limits.restore(past, [steadily(at) for at in counted(records, since)], left)
        why = self._doubt(evicted=bool(records))
        if why:
            limits.doubt(seconds)
            self._log_doubt(why)
        return limits

    def _doubt(self, *, evicted: bool) -> str:
        """Return why it is not known which pods an earlier leader evicted last; empty if it is known."""
        if not self._replica.elects:
            return "no lease shows how an earlier process ended"
        if not self._replica.orderly:
            return "the previous leader did not release its lease"
        return (
            "the lease is missing, though an earlier leader evicted pods"
            if self._replica.created_lease and evicted
            else ""
        )

    def _log_doubt(self, why: str) -> None:
        """Log why nothing is evicted at first, if there is a limit."""
        limit = self._live().evictions_a_minute
        if limit is not None:
            self._replica.log_event(
                "nothing is evicted for a minute", {"why": why, "evictionsPerMinute": limit}
            )

    def _new_history(self, live: LiveSettings) -> History:
        return History(
            self._connection,
            live.records_namespace or self._connection.namespace,
            COMPONENT,
            self._replica.remaining,
            sleep=asyncio.sleep,
            random=self._host.random,
            log_event=self._replica.log_event,
        )

    def _new_statuses(self, live: LiveSettings, writes: Writes) -> Statuses:
        queue = Workqueue[Key](
            clock=self._host.clock,
            sleep=asyncio.sleep,
            random=self._host.random,
            waited=lambda _seconds: None,
            failed=self._metrics.failed,
            log_event=self._replica.log_event,
        )
        return Statuses(
            self._cluster.state,
            writes,
            queue,
            self._recorder.emit,
            live.scheduler_name,
            clock=self._host.clock,
            now=self._host.now,
            sleep=asyncio.sleep,
            log_event=self._replica.log_event,
        )


def shared_devices(slices: int, reserved: str) -> dict[str, object]:
    """Return the warning if other schedulers may allocate the same devices; empty if none can.

    `slices` is the number of ResourceSlices, `reserved` the label of the nodes that only Podium uses. The API
    server locks a claim, and no device: of two schedulers each can allocate one device to another claim.
    """
    if not slices or reserved:
        return {}
    why = "reservedNodes is not set, so two schedulers may allocate one device at once. Reserve nodes"
    return {"error": why, "slices": slices}


async def ending_last(last: Work, *others: Work) -> None:
    """Run all until cancelled or until one fails; `last` runs until the others have ended.

    So `last` still receives what the others report at their end.
    """
    async with asyncio.TaskGroup() as outer:
        outer.create_task(last())
        async with asyncio.TaskGroup() as inner:
            for work in others:
                inner.create_task(work())
