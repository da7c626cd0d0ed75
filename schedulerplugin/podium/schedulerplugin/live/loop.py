"""The loop that runs the scheduler: time goes in, effects come out, and every one becomes a task.

Nothing is decided here, and nothing waits for a write but what must: the scheduler goes on with what it has
decided as if it were done, and hears of the end of each write. How many writes are under way is bounded, so a
slow server slows the loop down instead of filling the memory.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any

from podium.api.membership import GroupKey
from podium.api.meta import Condition
from podium.api.records import Mode
from podium.api.schedulable import Schedulable
from podium.errors import PodiumError
from podium.kube.connection import RefusedError
from podium.kube.watching import Say
from podium.note import Note
from podium.schedulerplugin.live.binder import bind_all
from podium.schedulerplugin.live.evictor import Conditions, carry_out
from podium.schedulerplugin.live.history import History
from podium.schedulerplugin.live.metrics import Metrics
from podium.schedulerplugin.live.status import Statuses
from podium.schedulerplugin.live.together import Job, together
from podium.schedulerplugin.live.writes import GoneError, TakenError, Writes
from podium.schedulerplugin.preemption.intents import DISRUPTION_TARGET
from podium.schedulerplugin.scheduling import notes
from podium.schedulerplugin.scheduling.conditions import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    doomed,
    same,
    spared,
    unscheduled,
)
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Effect,
    Evict,
    Held,
    Moment,
    Planned,
    PodRef,
    Rejected,
    Report,
    Spare,
)
from podium.schedulerplugin.scheduling.history import STOPPED, ended, planned
from podium.schedulerplugin.scheduling.scheduler import Scheduler

# Pods to be bound or evicted at a time before nothing more is decided: some seconds of an API server's work.
_UNDER_WAY = 2048
_NOT_TAKEN = "the API server did not take all of it"


class Loop:
    """Runs one scheduler as long as this replica leads; `wake` is to be called when the state has changed."""

    def __init__(
        self,
        scheduler: Scheduler,
        writes: Writes,
        *,
        statuses: Statuses,
        history: History,
        metrics: Metrics,
        emit: Callable[[Note], None],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        say: Say,
    ) -> None:
        """`clock` gives seconds and never goes back, `now` the time in UTC; `emit` takes events."""
        self._scheduler = scheduler
        self._view = scheduler.engine.view
        self._writes = writes
        self._statuses = statuses
        self._history = history
        self._metrics = metrics
        self._emit = emit
        self._clock = clock
        self._now = now
        self._say = say
        self._news = asyncio.Event()
        self._under_way = 0

    def wake(self) -> None:
        """Have a look: something has changed."""
        self._news.set()

    async def run(self) -> None:
        """Schedule until cancelled; what is under way then is cancelled too, and who follows finds it."""
        async with asyncio.TaskGroup() as tasks:
            begun = self._guarded(self._scheduler.begin, self._moment())
            for effect in begun:
                if not isinstance(effect, Spare):
                    self._perform(effect, tasks)
            # Before anything is planned: who is to go after all must be told so after this.
            for effect in begun:
                if isinstance(effect, Spare):
                    await self._spare(effect.pods)
            while True:
                self._news.clear()
                moment = self._moment()
                if self._under_way < _UNDER_WAY and self._scheduler.has_work(moment.seconds):
                    for effect in self._step(moment):
                        self._perform(effect, tasks)
                    # Who has waited for the loop meanwhile, answers and changes, goes first.
                    await asyncio.sleep(0)
                else:
                    await self._until_news(moment.seconds)

    def _moment(self) -> Moment:
        return Moment(self._now(), self._clock())

    def _step(self, moment: Moment) -> list[Effect]:
        """Let the scheduler look at one entry."""
        effects = self._guarded(self._scheduler.step, moment)
        self._metrics.stepped(effects, moment.seconds, self._clock())
        return effects

    def _guarded(self, work: Callable[[Moment], list[Effect]], moment: Moment) -> list[Effect]:
        """Let the scheduler work; a bug is about one entry, and must not keep the others out."""
        try:
            return work(moment)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next entry may be none the worse
            said = "".join(traceback.format_exception(error))
            self._say("scheduling failed: a bug", {"keys": str(self._scheduler.tried), "error": said})
            self._metrics.failed()
            return self._scheduler.stumbled(moment)

    async def _until_news(self, now: float) -> None:
        due = None if self._under_way >= _UNDER_WAY else self._scheduler.due(now)
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                await self._news.wait()
        except TimeoutError:
            pass

    def _perform(self, effect: Effect, tasks: asyncio.TaskGroup) -> None:
        match effect:
            case Bind():
                self._begin(self._bind(effect), len(effect.pods), tasks)
            case Evict():
                self._statuses.began(effect)
                self._begin(self._evict(effect), len(effect.victims), tasks)
            case Report():
                self._statuses.submit(effect)
            case Planned(evict):
                self._history.append(planned(evict, self._view, self._now(), Mode.OBSERVED))
            case Spare(pods):
                self._begin(self._spare(pods), len(pods), tasks)
            case Held(evict, circle):
                if circle:
                    self._say(
                        "workloads evict each other", {"error": evict.message, "of": evict.preemptor.uid}
                    )
            case Rejected(pod, reason):
                fields = {"error": reason, "pod": f"{pod.namespace}/{pod.name}"}
                self._say("a kubelet had no room for a pod of ours", fields)

    def _begin(self, work: Coroutine[Any, Any, None], weight: int, tasks: asyncio.TaskGroup) -> None:
        """Have work done beside the loop, counting what it weighs while it is under way."""
        self._under_way += weight

        def end(_task: asyncio.Task[None]) -> None:
            self._under_way -= weight
            self.wake()

        tasks.create_task(work).add_done_callback(end)

    async def _bind(self, bind: Bind) -> None:
        await bind_all(self._writes, bind, partial(self._bound, bind))
        if isinstance(bind.key, GroupKey) and self._scheduler.entries.satisfied(bind.key):
            self._statuses.placed(bind.key, "All required pods have been successfully scheduled")

    def _bound(self, bind: Bind, pod: PodRef, node: str, error: PodiumError | None) -> None:
        if error is None:
            self._scheduler.binds.done(bind.key)
            self._metrics.bound(pod, self._clock())
            self._emit(notes.scheduled(pod, node))
            return
        settled = isinstance(error, GoneError | TakenError)
        self._metrics.not_bound(pod, self._clock())
        if not settled:
            self._say("not bound", {"pod": f"{pod.namespace}/{pod.name}", "node": node, "error": str(error)})
            why = error.message if isinstance(error, RefusedError) else str(error)
            message = f"binding to node {node} failed: {why}"
            self._statuses.submit(Report(bind.key, (pod,), SCHEDULER_ERROR, message, ((pod, node),)))
        self._scheduler.binds.failed(bind.key, pod, node, settled=settled)
        self.wake()

    async def _evict(self, evict: Evict) -> None:
        began, plan = self._clock(), planned(evict, self._view, self._now(), Mode.ENFORCED)
        self._emit(notes.preempted(self._view, evict))

        def still() -> str:
            return self._scheduler.objection(evict.key, self._moment())

        try:
            carried = await carry_out(evict, self._writes, self._conditions(evict), still=still)
        except asyncio.CancelledError:
            # Who comes next counts them as gone; which are is known only as far as it has been seen.
            gone = [pod for pod in evict.victims if not self._stays(pod)]
            self._history.append(ended(plan, STOPPED, gone, self._clock() - began))
            raise
        seconds = self._clock() - began
        self._metrics.carried_out(evict, seconds, error=carried.error)
        self._history.append(ended(plan, carried.failed, carried.deleted, seconds))
        if carried.failed:
            fields = {
                "error": carried.failed,
                "preemptor": evict.preemptor.uid,
                "deleted": len(carried.deleted),
            }
            self._say("a preemption was not carried out", fields)
            self._statuses.gave_up(evict, carried.deleted)
            self._statuses.spare(carried.untold)
        # The server's words name victims, which are other tenants' pods.
        why = _NOT_TAKEN if carried.error else carried.failed
        for report in self._scheduler.preempted(
            evict.key, carried.deleted, why, self._moment(), unsure=carried.unsure
        ):
            self._statuses.submit(report)

    def _stays(self, ref: PodRef) -> bool:
        pod = self._view.pods.get(ref.key)
        return pod is not None and pod.metadata.uid == ref.uid and pod.metadata.deletionTimestamp is None

    def _conditions(self, evict: Evict) -> Conditions:
        """Give what pods are told, as they are stored at that moment."""
        name = self._scheduler.name

        def target(pod: Schedulable) -> Condition | None:
            condition = doomed(name, evict.preemptor, pod, self._now())
            stored = pod.status.condition(DISRUPTION_TARGET) if pod.status is not None else None
            # A process before us may have written it; what we wrote ourselves we may have withdrawn since.
            return None if evict.resumed and same(stored, condition) else condition

        return Conditions(
            waiting=self._of(lambda pod: unscheduled(UNSCHEDULABLE, evict.message, pod, self._now())),
            target=self._of(target),
            spared=self._of(self._spared),
        )

    def _of(
        self, condition: Callable[[Schedulable], Condition | None]
    ) -> Callable[[PodRef], Condition | None]:
        """Give what a pod is told if it is there still."""

        def say(ref: PodRef) -> Condition | None:
            pod = self._view.pods.get(ref.key)
            same_pod = isinstance(pod, Schedulable) and pod.metadata.uid == ref.uid
            return condition(pod) if same_pod and isinstance(pod, Schedulable) else None

        return say

    def _spared(self, pod: Schedulable) -> Condition:
        return spared(pod, self._now())

    async def _spare(self, pods: tuple[PodRef, ...]) -> None:
        """Tell pods that they stay; who cannot be told now is told later."""

        def job(pod: PodRef) -> Job:
            async def work() -> None:
                condition = self._of(self._spared)(pod)
                try:
                    if condition is not None:
                        await self._writes.mark(pod, condition)
                except PodiumError as error:
                    self._say("a condition was not withdrawn", {"error": str(error)})
                    self._statuses.spare((pod,))

            return work

        await together([job(pod) for pod in pods], self._writes.limit)
