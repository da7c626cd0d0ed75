"""Runs the scheduler: passes the time in, and makes each effect that comes out a task.

It makes no decisions; only steps that need a finished write wait for it. The scheduler continues as if its
decisions were carried out, and receives the end of each write. The number of writes in flight is bounded, so
a slow server slows the loop down instead of filling the memory.

Each step of the scheduler runs on the worker's thread. A call to the scheduler meanwhile, such as for the end
of a write, waits until the step has ended.
"""

import asyncio
import traceback
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from podium.api.core import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.api.events import EventDraft
from podium.api.membership import GroupKey
from podium.api.meta import Condition
from podium.api.records import PlanMode, RecordedPlan
from podium.api.schedulable import Schedulable
from podium.api.times import written
from podium.errors import PodiumError
from podium.history.records import STOPPED
from podium.kube.connection import RefusedError, Sleep
from podium.kube.reflector import EventLogger
from podium.kube.timeouts import within
from podium.planner.liveplugin import GoneError, PreBindWrite
from podium.planner.preemption.inflight import DISRUPTION_TARGET
from podium.runtime.worker import Worker
from podium.schedulerplugin.history.planned import ended, planned
from podium.schedulerplugin.history.writer import History
from podium.schedulerplugin.live.evictor import Conditions, carry_out
from podium.schedulerplugin.live.metrics import SchedulerMetrics
from podium.schedulerplugin.live.prebindwriter import PreBindWriter
from podium.schedulerplugin.live.status import Statuses
from podium.schedulerplugin.live.writes import Job, TakenError, Writes, bind_all, together
from podium.schedulerplugin.scheduling import messages
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Disagreed,
    Effect,
    Evict,
    Held,
    Key,
    Moment,
    Planned,
    PodRef,
    PreBind,
    RefusedVictim,
    Rejected,
    ReportPending,
    TimedOut,
    UndoPreBind,
    Unmark,
    entry_name,
    pod_ref,
    stored_pod,
)
from podium.schedulerplugin.scheduling.messages import (
    same_condition,
    target_condition,
    unscheduled_condition,
    withdrawn_condition,
)
from podium.schedulerplugin.scheduling.preemptions import (
    NO_ANSWERS,
    Announcements,
    Notice,
    announcements,
    answers,
    is_requested,
    notices,
    waits,
)
from podium.schedulerplugin.scheduling.scheduler import Scheduler

# Writes in flight before no further step runs: some seconds of an API server's work. An effect has at most
# `Writes.limit` of them at a time, however many pods it is about.
_UNDER_WAY = 2048
# A step that takes this long names its entry in the Lease, for the next leader to find if this one does not
# survive the step. It is half of the default time budget of a decision, so only entries that come near the
# budget are written.
_SLOW_SECONDS = 0.5
# How often a preemption looks whether the victims that it asked have saved their work.
_NOTICE_SECONDS = 1.0
_NOT_TAKEN = "the API server did not take all of it"


class Loop:
    """Runs one scheduler as long as this replica leads; call `wake` when the state has changed."""

    def __init__(
        self,
        scheduler: Scheduler,
        writes: Writes,
        *,
        statuses: Statuses,
        history: History,
        metrics: SchedulerMetrics,
        emit: Callable[[EventDraft], None],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        log_event: EventLogger,
        worker: Worker,
        deciding: Callable[[Collection[Key]], None],
        learn: Callable[[RecordedPlan], None],
        interrupted: Collection[Key] = (),
    ) -> None:
        """`clock` returns steady seconds, `now` the time in UTC; `emit` takes events.

        `deciding` is called with the entries of a slow step, and with none when the step has ended.
        `learn` takes the record of a preemption that has ended, between two steps.
        `interrupted` are the entries that the previous leader was deciding for when it lost its lease.
        """
        self._scheduler = scheduler
        self._worker = worker
        self._deciding = deciding
        self._learn = learn
        self._interrupted = interrupted
        # Calls to the scheduler that wait for the end of the current step, each with its entry.
        self._calls: list[tuple[Key, Callable[[], None]]] = []
        self._switched = False
        self._view = scheduler.engine.view
        self._writes = writes
        self._prebind_writer = PreBindWriter(writes, scheduler.engine.view, now)
        self._statuses = statuses
        self._history = history
        self._metrics = metrics
        self._emit = emit
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._log_event = log_event
        self._wakeup = asyncio.Event()
        self._under_way = 0

    def wake(self) -> None:
        """Wake the loop, because something has changed."""
        self._wakeup.set()

    def switch(self) -> None:
        """Apply changed settings: before the next step, look at all entries that found no place."""
        self._switched = True
        self.wake()

    async def run(self) -> None:
        """Schedule until cancelled.

        Writes in flight are cancelled too, and the next leader finds their state in the cluster.
        """
        async with asyncio.TaskGroup() as tasks:
            begun = await self._guarded(
                partial(self._scheduler.initialize, interrupted=self._interrupted), self._moment()
            )
            for effect in begun:
                if not isinstance(effect, Unmark):
                    self._perform(effect, tasks)
            # Before anything is planned: a pod that is chosen as a victim after all must get its mark after
            # this.
            for effect in begun:
                if isinstance(effect, Unmark):
                    self._statuses.withdraw(effect.groups)
                    await self._unmark(effect.pods)
            while True:
                self._wakeup.clear()
                # Answers and changes that have waited for the last step go first.
                await self._worker.idle()
                calls, self._calls = self._calls, []
                for key, call in calls:
                    self._call(key, call)
                moment = self._moment()
                if self._switched:
                    self._switched = False
                    self._scheduler.switched()
                if self._under_way < _UNDER_WAY and self._scheduler.has_work(moment.seconds):
                    for effect in await self._step(moment):
                        self._perform(effect, tasks)
                    await asyncio.sleep(0)
                else:
                    await self._until_news(moment.seconds)

    def _moment(self) -> Moment:
        return Moment(self._now(), self._clock())

    async def _step(self, moment: Moment) -> list[Effect]:
        """Run one step of the scheduler: it looks at one entry."""
        slow = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._name_slow)
        try:
            effects = await self._guarded(self._scheduler.step, moment)
        finally:
            slow.cancel()
            self._deciding(())
        self._metrics.stepped(effects, moment.seconds, self._clock())
        return effects

    def _name_slow(self) -> None:
        self._deciding(tuple(self._scheduler.tried))

    async def _guarded(self, work: Callable[[Moment], list[Effect]], moment: Moment) -> list[Effect]:
        """Run a call of the scheduler. A bug concerns one entry, and must not stop the others."""
        try:
            return await self._worker.run(partial(work, moment))
        except Exception as error:  # noqa: BLE001 - any error: the next entry may be fine
            self._fail(self._scheduler.tried, error)
            return self._scheduler.on_error(moment)

    def _call_when_idle(self, key: Key, call: Callable[[], None]) -> None:
        """Call the scheduler about an entry, now or when the current step has ended."""
        if self._worker.busy:
            self._calls.append((key, call))
        else:
            self._call(key, call)
        self.wake()

    def _call(self, key: Key, call: Callable[[], None]) -> None:
        """Call the scheduler. A bug concerns this entry, which is looked at again."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail((key,), error)
            self._scheduler.look_again(key, self._moment())

    def _fail(self, keys: Collection[Key], error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        self._log_event("scheduling failed: a bug", {"keys": str(list(keys)), "error": trace})
        self._metrics.failed()

    async def _until_news(self, now: float) -> None:
        due = None if self._under_way >= _UNDER_WAY else self._scheduler.due(now)
        with suppress(TimeoutError):
            await within(None if due is None else due - now, self._wakeup.wait())

    def _perform(self, effect: Effect, tasks: asyncio.TaskGroup) -> None:
        match effect:
            case Bind():
                self._start_writes(self._bind(effect), len(effect.pods), tasks)
            case PreBind():
                self._start_writes(self._pre_bind(effect), len(effect.writes), tasks)
            case UndoPreBind():
                self._start_writes(self._undo(effect), len(effect.writes), tasks)
            case Evict():
                settings = self._scheduler.engine.settings
                asked = notices(self._view, effect, settings.notice_seconds, self._moment())
                pods = frozenset(notice.pod for notice in asked)
                first = announcements(self._view, effect, settings.semantics, pods)
                self._statuses.began(effect, first)
                self._start_writes(self._evict(effect, first, asked), len(effect.victims), tasks)
            case ReportPending() | RefusedVictim():
                self._publish(effect)
            case Planned(evict):
                self._history.append(planned(evict, self._view, self._now(), PlanMode.OBSERVED))
            case Unmark(pods, groups):
                self._statuses.withdraw(groups)
                self._start_writes(self._unmark(pods), len(pods), tasks)
            case Held(evict, circle):
                if circle:
                    self._log_event(
                        "workloads evict each other", {"error": evict.message, "of": evict.preemptor.uid}
                    )
            case Rejected(pod, reason):
                fields = {"error": reason, "pod": f"{pod.namespace}/{pod.name}"}
                self._log_event("a kubelet had no room for a pod of ours", fields)
            case Disagreed(_, condition):
                self._metrics.disagreed(condition)
            case TimedOut(key, seconds):
                self._metrics.timed_out("podgroup" if isinstance(key, GroupKey) else "pod")
                self._log_event("decision timed out", {"entry": entry_name(key), "seconds": seconds})

    def _publish(self, effect: ReportPending | RefusedVictim) -> None:
        if isinstance(effect, ReportPending):
            self._statuses.submit(effect)
            return
        name = f"{effect.pod.namespace}/{effect.pod.name}"
        self._log_event("a pod cannot be evicted", {"pod": name, "error": effect.why})
        self._emit(messages.refused_event(effect))
        self._metrics.refused()

    def _start_writes(self, work: Coroutine[Any, Any, None], pods: int, tasks: asyncio.TaskGroup) -> None:
        """Start a task that writes to `pods` pods, and count its writes as in flight until it ends."""
        weight = min(pods, self._writes.limit)
        self._under_way += weight

        def end(_task: asyncio.Task[None]) -> None:
            self._under_way -= weight
            self.wake()

        tasks.create_task(work).add_done_callback(end)

    async def _bind(self, bind: Bind) -> None:
        await bind_all(self._writes, bind, partial(self._bound, bind))
        await self._worker.idle()
        if isinstance(bind.key, GroupKey):
            satisfied = self._scheduler.entries.satisfied(bind.key)
            self._statuses.placed(satisfied, "All required pods have been successfully scheduled", bind.pods)

    def _bound(self, bind: Bind, pod: PodRef, node: str, error: PodiumError | None) -> None:
        if error is None:
            self._call_when_idle(bind.key, partial(self._scheduler.holds.bind_done, bind.key))
            self._metrics.bound(pod, self._clock())
            self._emit(messages.scheduled_event(pod, node))
            return
        settled = isinstance(error, GoneError | TakenError)
        self._metrics.not_bound(pod, self._clock())
        if not settled:
            self._log_event(
                "not bound", {"pod": f"{pod.namespace}/{pod.name}", "node": node, "error": str(error)}
            )
            message = f"binding to node {node} failed: {_reason(error)}"
            self._statuses.submit(ReportPending(bind.key, (pod,), SCHEDULER_ERROR, message, ((pod, node),)))
        failed = partial(self._scheduler.holds.bind_failed, bind.key, pod, node, settled=settled)
        self._call_when_idle(bind.key, failed)

    async def _pre_bind(self, effect: PreBind) -> None:
        """Carry out the writes of a decision; after an error no further write begins."""
        jobs = [partial(self._prebind_writer.write, write) for write in effect.writes]
        error = await together(jobs, self._writes.limit)
        if error is not None:
            self._log_event(
                "write before a bind failed", {"entry": entry_name(effect.key), "error": str(error)}
            )
        why = "" if error is None else _reason(error)
        self._call_when_idle(effect.key, partial(self._scheduler.holds.prebinds.written, effect.number, why))

    async def _undo(self, effect: UndoPreBind) -> None:
        """Undo what was written for a decision, as far as the API server takes it."""

        def job(write: PreBindWrite) -> Job:
            async def work() -> None:
                try:
                    await self._prebind_writer.undo(write)
                except GoneError:
                    return
                except PodiumError as error:
                    fields = {"object": " ".join(write.awaited), "error": str(error)}
                    self._log_event("write before a bind not undone", fields)

            return work

        await together([job(write) for write in effect.writes], self._writes.limit)

        def end() -> None:
            self._scheduler.holds.prebinds.released(effect.number, self._moment())

        self._call_when_idle(effect.key, end)

    async def _evict(self, evict: Evict, first: Announcements, asked: tuple[Notice, ...]) -> None:
        began, plan = self._clock(), planned(evict, self._view, self._now(), PlanMode.ENFORCED)
        for draft in messages.preempted_events(self._view, evict):
            self._emit(draft)

        results = NO_ANSWERS

        async def still() -> str:
            nonlocal results
            since, longest = self._clock(), self._scheduler.engine.settings.notice_seconds
            while True:
                await self._worker.idle()
                objection, now = self._scheduler.objection(evict.key, self._moment()), self._clock()
                if objection or not waits(self._view, asked, now):
                    results = answers(self._view, evict, asked, longest, (since, now))
                    return objection
                await self._rest(len(evict.victims))

        try:
            conditions = self._conditions(evict, first.asked)
            carried = await carry_out(evict, first, self._writes, conditions, still=still)
        except asyncio.CancelledError:
            # The next leader counts these as gone. Only deletes that the watch has shown already are known
            # here.
            gone = [pod for pod in evict.victims if not self._stays(pod)]
            self._history.append(ended(plan, STOPPED, gone, self._clock() - began, results))
            raise
        seconds = self._clock() - began
        self._metrics.carried_out(evict, seconds, error=carried.error)
        self._metrics.answered(results)
        record = ended(plan, carried.failed, carried.deleted, seconds, results)
        self._history.append(record)
        self._call_when_idle(evict.key, partial(self._learn, record))
        self._statuses.evicted(evict, first, carried.deleted)
        if carried.failed:
            fields = {
                "error": carried.failed,
                "preemptor": evict.preemptor.uid,
                "deleted": len(carried.deleted),
            }
            self._log_event("a preemption was not carried out", fields)
            self._statuses.gave_up(evict, carried.deleted)
            self._statuses.unmark(carried.still_marked)
        # The server's message names victims, which are other tenants' pods.
        why = _NOT_TAKEN if carried.error else carried.failed

        def end() -> None:
            for effect in self._scheduler.preempted(
                evict.key,
                carried.deleted,
                why,
                self._moment(),
                unsure=carried.unsure,
                refused=carried.refused,
            ):
                self._publish(effect)

        self._call_when_idle(evict.key, end)

    async def _rest(self, pods: int) -> None:
        """Let a preemption of so many pods wait for them; no write of it is in flight meanwhile."""
        weight = min(pods, self._writes.limit)
        self._under_way -= weight
        self.wake()
        try:
            await self._sleep(_NOTICE_SECONDS)
        finally:
            self._under_way += weight

    def _stays(self, ref: PodRef) -> bool:
        pod = stored_pod(self._view, ref)
        return pod is not None and pod.metadata.deletionTimestamp is None

    def _conditions(self, evict: Evict, asked: Collection[PodRef]) -> Conditions:
        """Return the conditions of a preemption, computed from the pods as stored when they are written."""
        name = self._scheduler.name

        def target(pod: Schedulable) -> Condition | None:
            condition = target_condition(name, evict.preemptor, pod, self._now())
            stored = pod.status.condition(DISRUPTION_TARGET) if pod.status is not None else None
            # An earlier process may have written it. A mark of our own may have been withdrawn since.
            known = same_condition(stored, condition) and (pod_ref(pod) not in asked or is_requested(pod))
            return None if evict.resumed and known else condition

        return Conditions(
            waiting=self._condition_source(
                lambda pod: unscheduled_condition(UNSCHEDULABLE, evict.message, pod, self._now())
            ),
            target=self._condition_source(target),
            withdrawn=self._condition_source(self._withdrawn),
            group=partial(self._statuses.target, evict),
            requested=written(self._now()),
        )

    def _condition_source(
        self, condition: Callable[[Schedulable], Condition | None]
    ) -> Callable[[PodRef], Condition | None]:
        """Return a function that returns the condition of a pod, None if the pod is gone."""

        def state(ref: PodRef) -> Condition | None:
            pod = stored_pod(self._view, ref)
            return None if pod is None else condition(pod)

        return state

    def _withdrawn(self, pod: Schedulable) -> Condition:
        return withdrawn_condition(pod, self._now())

    async def _unmark(self, pods: tuple[PodRef, ...]) -> None:
        """Withdraw the marks of pods. A write that fails is queued for later."""

        def job(pod: PodRef) -> Job:
            async def work() -> None:
                condition = self._condition_source(self._withdrawn)(pod)
                try:
                    if condition is not None:
                        await self._writes.mark(pod, condition)
                except PodiumError as error:
                    self._log_event("a condition was not withdrawn", {"error": str(error)})
                    self._statuses.unmark((pod,))

            return work

        await together([job(pod) for pod in pods], self._writes.limit)


def _reason(error: PodiumError) -> str:
    """Return the API server's words if it refused, which name no request."""
    return error.message if isinstance(error, RefusedError) else str(error)
