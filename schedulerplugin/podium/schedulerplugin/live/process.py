"""The scheduler process: what is wired to what. Nothing is decided here.

What only a leader needs (the engine and all that follows it) is made when it begins to lead, from lists of
its own: a standby costs no more than its cache, and nothing of what another has done is missed.
"""

import asyncio
import random as chance
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from podium.api.minors import minor_of
from podium.api.reads import Kind
from podium.api.schedulable import SCHEDULING_READS
from podium.api.times import seconds as epoch_seconds
from podium.kube.cluster import Cluster
from podium.kube.connection import Connection, connect
from podium.kube.discovery import Served
from podium.kube.events import Pace, Recorder
from podium.schedulerplugin.live.history import History
from podium.schedulerplugin.live.keep import essential
from podium.schedulerplugin.live.loop import Loop
from podium.schedulerplugin.live.metrics import Metrics
from podium.schedulerplugin.live.selfcheck import DriftError, SelfCheck
from podium.schedulerplugin.live.shadowing import Shadowing
from podium.schedulerplugin.live.status import Statuses
from podium.schedulerplugin.live.switch import Source, Switch
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.preemption.pinned import DAEMON_SET
from podium.schedulerplugin.requests import LATEST
from podium.schedulerplugin.scheduling.effects import Key, entry_name, entry_of
from podium.schedulerplugin.scheduling.gang_hold import HoldEnd
from podium.schedulerplugin.scheduling.history import counted, recent, unfinished
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.restraint import Restraint, Unfinished
from podium.schedulerplugin.scheduling.scheduler import Scheduler
from podium.schedulerplugin.scheduling.settings import LiveSettings
from podium.schedulerplugin.scheduling.shadow import Shadow
from podium.service import logs
from podium.service import metrics as service_metrics
from podium.service.garbage import short_collections
from podium.service.lease import steady
from podium.service.queue import Queue
from podium.service.replica import Options, Replica, Work, utc_now
from podium.service.signals import Stop, stopping
from podium.service.worker import Worker

COMPONENT = "podium-scheduler"
# What decides where a pod may go, and who may be evicted for it.
KINDS = (
    Kind.POD,
    Kind.NODE,
    Kind.PRIORITY_CLASS,
    Kind.BUDGET,
    Kind.POD_GROUP,
    Kind.NAMESPACE,
    Kind.CLAIM,
    Kind.VOLUME,
    Kind.OWNER,
)
# A backlog of thousands is bound in seconds; one event for each would be as much to write as the binds.
_EVENTS = Pace(burst=100, seconds=0.05, room=2000)
# As far back as it matters who evicted whom.
_PAST = timedelta(minutes=30)
_DROPPED_FIRST = ("Scheduled",)


def wanted(served: Served) -> bool:
    """Return whether a kind is followed as it is served: of owners DaemonSets, for their pods never go."""
    return served.read.kind is not Kind.OWNER or (served.api_version, served.kind) == DAEMON_SET


async def run(options: Options, source: Source, log: FilteringBoundLogger) -> None:
    """Schedule until told to stop. Raises PodiumError when it cannot begin, and when the lease is lost."""
    switch = Switch(source, sleep=asyncio.sleep, say=logs.teller(log))
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stopping())
        stack.enter_context(short_collections())
        worker = stack.enter_context(Worker())
        connection = await stack.enter_async_context(connect(options.kubeconfig, options.context))
        replica = Replica(connection, COMPONENT, options, log)
        await _Process(connection, replica, switch, worker).serve(stop)


class _Process:
    """The parts that every replica has, once each."""

    def __init__(self, connection: Connection, replica: Replica, switch: Switch, worker: Worker) -> None:
        self._connection = connection
        self._worker = worker
        self._replica = replica
        self._switch = switch
        self._registry = service_metrics.new_registry()
        self._metrics = Metrics(self._registry)
        self._cluster = Cluster(
            connection,
            KINDS,
            reads=SCHEDULING_READS,
            keep=essential,
            only=wanted,
            idle=worker.idle,
            say=replica.say,
        )
        service_metrics.read_cluster(self._registry, self._cluster)
        self._recorder = Recorder(
            connection,
            self._live().scheduler_name,
            replica.name,
            clock=steady,
            now=utc_now,
            sleep=asyncio.sleep,
            random=chance.random,
            say=replica.say,
            counted=self._metrics.emitted,
            pace=_EVENTS,
            least=_DROPPED_FIRST,
            busy=lambda: self._writes is not None and self._writes.busy,
        )
        self._writes: Writes | None = None
        self._scheduler: Scheduler | None = None
        self._restraint: Restraint | None = None
        self._metrics.read(
            pending=self._pending,
            incoming=worker.between(self._incoming),
            evictions=worker.between(
                lambda: None if self._restraint is None else self._restraint.room(steady())
            ),
            nominated=worker.between(
                lambda: None if self._scheduler is None else self._scheduler.entries.nominated()
            ),
            gang_holds=worker.between(self._gang_holds),
            leads=lambda: replica.remaining() > 0,
            cache_ages=self._cluster.ages,
        )

    async def serve(self, stop: Stop) -> None:
        """Work until asked to stop. Raises PodiumError."""
        await self._replica.serve(
            stop,
            self._lead,
            ready=self._cluster.ready,
            others={
                "cluster": self._cluster.run,
                "events": self._recorder.run,
                "configuration": self._switch.run,
            },
            missing=lambda: self._cluster.waits() + self._cluster.refused(),
            registry=self._registry,
            undecodable=self._cluster.undecodable,
            stuck=self._worker.stuck,
        )

    def _pending(self) -> Mapping[str, float]:
        depths = {} if self._scheduler is None else self._scheduler.queue.depths()
        return {str(pool): depth for pool, depth in depths.items()}

    def _incoming(self) -> Mapping[tuple[str, str], float]:
        entered = {} if self._scheduler is None else self._scheduler.queue.entered
        return {(str(pool), str(event)): count for (pool, event), count in entered.items()}

    def _gang_holds(self) -> Mapping[str, float]:
        ended = {} if self._scheduler is None else self._scheduler.gang_hold.ended
        return {str(result): ended.get(result, 0) for result in HoldEnd}

    def _live(self) -> LiveSettings:
        return self._switch.now

    async def _lead(self) -> None:
        """Schedule for as long as this replica leads; begin again when the engine is out of step."""
        check = SelfCheck(
            self._worker, self._metrics, clock=steady, sleep=asyncio.sleep, say=self._replica.say
        )
        suspects = self._suspects()
        while True:
            await self._schedule(check, suspects)
            suspects = []

    async def _schedule(self, check: SelfCheck, suspects: Collection[Key]) -> None:
        """Schedule from what the server says now, until the engine is out of step with it."""
        # Stopped before it has begun, it knows no more than the one before.
        self._end_in_order(known=self._replica.orderly)
        if self._replica.elects or self._scheduler is not None:
            await self._cluster.relist()
        live, state = self._live(), self._cluster.state
        discovery = self._cluster.discovery
        minor = (None if discovery is None else minor_of(discovery.server)) or LATEST
        history = self._new_history(live)
        self._restraint = restraint = await self._new_restraint(history)

        def new_scheduler() -> Scheduler:
            engine = LiveEngine(state, live.engine, minor)
            # Else the first decision would have to, within its time budget.
            for for_group in (False, True):
                engine.units(for_group=for_group, now=epoch_seconds(utc_now()))
            return Scheduler(engine, self._live, restraint, clock=steady)

        # A large engine takes seconds. From its end until all observe the state nothing is awaited: no change
        # may get lost in between.
        scheduler = await self._worker.run(new_scheduler)
        self._writes = writes = Writes(
            self._connection,
            self._replica.remaining,
            sleep=asyncio.sleep,
            random=chance.random,
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
            clock=steady,
            now=utc_now,
            say=self._replica.say,
            worker=self._worker,
            deciding=lambda keys: self._replica.note(" ".join(map(entry_name, keys))),
            suspects=suspects,
        )
        shadowing = Shadowing(
            lambda: Shadow(state, live.engine, minor, live.scheduler_name, deadline=scheduler.deadline),
            lambda: self._live().shadow,
            history,
            self._metrics,
            clock=steady,
            now=utc_now,
            sleep=asyncio.sleep,
            say=self._replica.say,
            worker=self._worker,
        )
        check.watch(scheduler)
        # The engine first, for the others ask it.
        observers = (
            check.observing(scheduler.engine.apply),
            check.observing(scheduler.apply),
            shadowing.apply,
            lambda _before, _after: loop.wake(),
        )
        for observer in observers:
            state.observe(observer)

        self._scheduler, self._switch.changed = scheduler, loop.switch
        fields = {"pods": len(state.pods), "nodes": len(state.nodes), "preemption": str(live.mode)}
        self._replica.say("scheduling", fields)
        try:
            await ending_last(history.run, loop.run, statuses.run, shadowing.run, check.run)
        except* DriftError:
            self._replica.say("building the engine again", {})
        finally:
            for observer in observers:
                state.unobserve(observer)
            # Who follows takes what is stored for all that went lately.
            known = history.written and not restraint.doubts(steady())
            self._end_in_order(known=known)

    def _suspects(self) -> list[Key]:
        """Return the entries that the leader before was deciding for when it lost its lease."""
        suspects = [key for name in self._replica.found.split() if (key := entry_of(name)) is not None]
        if suspects:
            self._replica.say("entries tried last", {"entries": self._replica.found})
        return suspects

    def _end_in_order(self, *, known: bool) -> None:
        """Give the lease back at the end if all is known of what went lately, or no limit asks for it."""
        self._replica.end_in_order(orderly=known or self._live().evictions_a_minute is None)

    async def _new_restraint(self, history: History) -> Restraint:
        """Begin with what an earlier leader has evicted lately."""
        restraint = Restraint(self._live)
        records = await history.restore()
        now, seconds = utc_now(), steady()
        since = now - _PAST

        def steadily(at: datetime) -> float:
            # The wall's clock may have been set back since.
            return seconds - max(0.0, (now - at).total_seconds())

        past = [(steadily(at), by, of) for at, by, of in recent(records, since)]
        left = {by: Unfinished(of, steadily(at)) for at, by, of in unfinished(records, since)}
        restraint.restore(past, [steadily(at) for at in counted(records, since)], left)
        why = self._doubt(evicted=bool(records))
        if why:
            restraint.doubt(seconds)
            self._say_doubt(why)
        return restraint

    def _doubt(self, *, evicted: bool) -> str:
        """Give why nobody knows whom one before us has `evicted` in the end; empty where that is known."""
        if not self._replica.elects:
            return "there is no lease to say how a process before ended"
        if not self._replica.orderly:
            return "a leader before did not give its lease back"
        return "there was no lease, though somebody has led before" if self._replica.first and evicted else ""

    def _say_doubt(self, why: str) -> None:
        """Say why nobody is evicted at first; without a limit there is nothing to say."""
        limit = self._live().evictions_a_minute
        if limit is not None:
            self._replica.say("nothing is evicted for a minute", {"why": why, "evictionsPerMinute": limit})

    def _new_history(self, live: LiveSettings) -> History:
        return History(
            self._connection,
            live.records_namespace or self._connection.namespace,
            COMPONENT,
            self._replica.remaining,
            sleep=asyncio.sleep,
            random=chance.random,
            say=self._replica.say,
        )

    def _new_statuses(self, live: LiveSettings, writes: Writes) -> Statuses:
        queue = Queue[Key](
            clock=steady,
            sleep=asyncio.sleep,
            random=chance.random,
            waited=lambda _seconds: None,
            failed=self._metrics.failed,
            say=self._replica.say,
        )
        return Statuses(
            self._cluster.state,
            writes,
            queue,
            self._recorder.emit,
            live.scheduler_name,
            clock=steady,
            now=utc_now,
            sleep=asyncio.sleep,
            say=self._replica.say,
        )


async def ending_last(last: Work, *others: Work) -> None:
    """Do all until cancelled or one fails; `last` goes on until the others have ended.

    What they say of their end, it still hears.
    """
    async with asyncio.TaskGroup() as outer:
        outer.create_task(last())
        async with asyncio.TaskGroup() as inner:
            for other in others:
                inner.create_task(other())
