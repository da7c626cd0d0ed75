"""Compares a running scheduler's arrays with the cluster state, a few nodes every second.

A difference is a bug, and may make every later decision wrong. So it is logged with all details and counted,
and the engine is rebuilt from the objects of the API server. A bug that shows again at once must not keep the
scheduler from scheduling, so rebuilds are limited to one per _REBUILD_SECONDS.
"""

import traceback
from collections.abc import Callable
from functools import partial

from podium.cluster.state import Observer, Readable
from podium.errors import PodiumError
from podium.kube.connection import Sleep
from podium.kube.reflector import EventLogger
from podium.runtime.worker import Worker
from podium.schedulerplugin.comparer import Comparer
from podium.schedulerplugin.live.metrics import SchedulerMetrics
from podium.schedulerplugin.scheduling.scheduler import Scheduler

_PAUSE_SECONDS = 1.0
# At this rate 5,000 nodes take 17 minutes, and a step takes 5 ms of the worker's thread.
_NODES = 5
# A rebuild takes up to ten seconds in a large cluster, and nothing is decided meanwhile.
_REBUILD_SECONDS = 600.0


class DriftError(PodiumError):
    """The engine is out of step with the cluster state, and must be rebuilt."""


class SelfCheck:
    """Checks one process for as long as it leads; `watch` sets the current scheduler."""

    def __init__(
        self,
        worker: Worker,
        metrics: SchedulerMetrics,
        *,
        clock: Callable[[], float],
        sleep: Sleep,
        log_event: EventLogger,
    ) -> None:
        """`clock` returns steady seconds."""
        self._worker = worker
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._log_event = log_event
        self._comparer: Comparer | None = None
        self._failed = ""
        self._rebuilt = float("-inf")

    def watch(self, scheduler: Scheduler) -> None:
        """Compare this scheduler's arrays from now on."""
        self._comparer = Comparer(scheduler.engine, lambda: scheduler.binding)
        self._failed = ""

    def observing(self, observer: Observer) -> Observer:
        """Return an observer of the state that records a failure: the arrays may have missed a change."""

        def observe(before: Readable | None, after: Readable | None) -> None:
            try:
                observer(before, after)
            except Exception as error:
                self._failed = "".join(traceback.format_exception_only(error)).strip()
                raise

        return observe

    async def run(self) -> None:
        """Compare until cancelled. Raises DriftError when the engine must be rebuilt."""
        assert self._comparer is not None
        while True:
            await self._sleep(_PAUSE_SECONDS)
            found = await self._worker.run(partial(self._comparer.step, _NODES))
            if self._failed:
                found.append(f"a change of an object was not followed: {self._failed}")
                self._failed = ""
            if found:
                self._report(found)

    def _report(self, found: list[str]) -> None:
        now = self._clock()
        rebuilds = now - self._rebuilt >= _REBUILD_SECONDS
        self._metrics.differed(len(found))
        self._log_event("cache differs: a bug", {"differences": found, "rebuilds": rebuilds})
        if rebuilds:
            self._rebuilt = now
            raise DriftError(f"the scheduler's arrays differ from the cluster state: {found[0]}")
