"""Keeps an engine that follows the cluster, in a standby as in the leader, and checks it against the state.

Creating the engine of a large cluster takes seconds. So each replica creates it after its first lists, and a
new leader decides with it at once.

The check compares the arrays of the engine with the cluster state, a few nodes every second. A difference is
a bug, and may make every later decision wrong. So it is logged with all details and counted, and the engine
is built again from the state. A bug that shows again at once must not keep the scheduler from scheduling, so
rebuilds are limited to one per _REBUILD_SECONDS.
"""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

# numpy imports it when np.unique is first called, which would take 60 ms of an event.
import numpy.ma  # noqa: F401 - imported for its later users

from podium.api.minors import minor_of
from podium.api.podrequests import LATEST
from podium.api.times import seconds as epoch_seconds
from podium.cluster.reader import Name
from podium.cluster.state import Observer, Readable
from podium.errors import PodiumError
from podium.kube.cache import InformerCache
from podium.kube.connection import Sleep
from podium.kube.reflector import EventLogger
from podium.planner.comparer import Comparer
from podium.runtime.worker import Worker
from podium.schedulerplugin.live.metrics import SchedulerMetrics
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.scheduling.scheduler import Scheduler

_PAUSE_SECONDS = 1.0
# At this rate 5,000 nodes take 17 minutes, and a step takes 5 ms of the worker's thread.
_NODES = 5
# A rebuild takes up to ten seconds in a large cluster, and nothing is decided meanwhile.
_REBUILD_SECONDS = 600.0


class DriftError(PodiumError):
    """The engine is out of step with the cluster state, and is being built again."""


class WarmEngine:
    """The engine of one process: `run` builds it, and `built` returns it.

    While a scheduler decides with it (`engage`), its binds in flight are part of the comparison.
    """

    def __init__(
        self,
        cluster: InformerCache,
        new: Callable[[int], LiveEngine],
        worker: Worker,
        metrics: SchedulerMetrics,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        log_event: EventLogger,
    ) -> None:
        """`new` creates an engine from the cluster's state, for a minor release of Kubernetes.

        `clock` is steady, `now` the time in UTC.
        """
        self._cluster = cluster
        self._new = new
        self._worker = worker
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._log_event = log_event
        self._engine: LiveEngine | None = None
        self._built = asyncio.Event()
        self._drifted = asyncio.Event()
        self._scheduler: Scheduler | None = None
        self._failed = ""
        self._rebuilt = float("-inf")

    def waits(self) -> list[str]:
        """Return a line while the engine does not exist."""
        return [] if self._engine is not None else ["the engine is being built"]

    async def built(self) -> LiveEngine:
        """Return the engine when it exists and no thread works on it; it is current until the next await."""
        while True:
            await self._built.wait()
            await self._worker.idle()
            if self._engine is not None:
                return self._engine

    def engage(self, scheduler: Scheduler) -> None:
        """Record the scheduler that decides with the engine from now on."""
        self._scheduler = scheduler

    async def until_drift(self) -> None:
        """Wait until the current engine is out of step. Raises DriftError."""
        await self._drifted.wait()
        raise DriftError("the engine is out of step with the cluster state")

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
        """Build the engine, and build it again whenever it is out of step, until cancelled."""
        await self._cluster.ready()
        state, before = self._cluster.state, None
        while True:
            minor = self._minor()
            engine = await self._worker.run(partial(self._create, minor))
            # Between the end of the worker's work and the registration nothing is awaited, so no change is
            # lost. Until here the observers of the former engine's scheduler could query that engine.
            if before is not None:
                state.unobserve(before)
            before = self.observing(engine.apply)
            state.observe(before)
            self._engine, self._scheduler, self._failed = engine, None, ""
            self._drifted = asyncio.Event()
            self._built.set()
            await self._compare(engine, minor)
            self._log_event("building the engine again", {})
            self._engine = None
            self._built.clear()
            self._drifted.set()

    def _create(self, minor: int) -> LiveEngine:
        engine = self._new(minor)
        self._warm(engine)
        return engine

    def _minor(self) -> int:
        """Return the server's minor release."""
        discovery = self._cluster.discovery
        return (None if discovery is None else minor_of(discovery.server)) or LATEST

    def _warm(self, engine: LiveEngine) -> None:
        """Compute the units now. Otherwise the next decision computes them, within its time budget."""
        for for_group in (False, True):
            engine.units(for_group=for_group, now=epoch_seconds(self._now()))

    async def _compare(self, engine: LiveEngine, minor: int) -> None:
        """Compare the engine until it must be built again; a standby's also when the server is upgraded."""
        comparer, faults = Comparer(engine, self._binding), set[str]()
        while self._scheduler is not None or minor == self._minor():
            await self._sleep(_PAUSE_SECONDS)
            differences = await self._worker.run(partial(self._step, engine, comparer))
            known, faults = faults, {plugin.fault() for plugin in engine.snapshot.plugins}
            for fault in sorted(filter(None, faults - known)):
                self._log_event("plugin keeps failing", {"error": fault})
            if self._failed:
                differences.append(f"a change of an object was not followed: {self._failed}")
                self._failed = ""
            if differences and self._report(differences):
                return

    def _step(self, engine: LiveEngine, comparer: Comparer) -> list[str]:
        if self._scheduler is None:
            self._warm(engine)
        return comparer.step(_NODES)

    def _binding(self) -> Mapping[Name, str]:
        return {} if self._scheduler is None else self._scheduler.binding

    def _report(self, differences: list[str]) -> bool:
        """Log and count differences; return whether the engine is built again."""
        now = self._clock()
        rebuilds = now - self._rebuilt >= _REBUILD_SECONDS
        self._metrics.differed(len(differences))
        self._log_event("cache differs: a bug", {"differences": differences, "rebuilds": rebuilds})
        if rebuilds:
            self._rebuilt = now
        return rebuilds
