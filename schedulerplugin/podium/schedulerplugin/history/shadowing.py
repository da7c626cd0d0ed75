"""Runs the shadow: creates it when the settings switch it on, and drops it when they switch it off.

The shadow plans on the worker's thread, between the steps of the scheduler, and its plans are only recorded.
A bug in the shadow is logged, and the shadow stays off until it is switched off and on again.
"""

import traceback
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from podium.cluster.state import Readable
from podium.kube.connection import Sleep
from podium.kube.reflector import EventLogger
from podium.runtime.worker import Worker
from podium.schedulerplugin.history.shadow import Shadow
from podium.schedulerplugin.history.writer import History
from podium.schedulerplugin.scheduling.effects import Moment

_LOOK_SECONDS = 1.0


class Counters(Protocol):
    """The metrics of a shadow (see Metrics)."""

    def shadowed(self, agreement: str) -> None:
        """Count a shadow plan."""

    def failed(self) -> None:
        """Count a bug."""


class Shadowing:
    """Keeps one shadow or none; pass `apply` to State.observe."""

    def __init__(
        self,
        new: Callable[[], Shadow],
        wanted: Callable[[], bool],
        history: History,
        counters: Counters,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        sleep: Sleep,
        log_event: EventLogger,
        worker: Worker,
    ) -> None:
        """`new` creates a shadow from the current state; `clock` is steady, `now` the time in UTC."""
        self._new = new
        self._wanted = wanted
        self._history = history
        self._counters = counters
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._log_event = log_event
        self._worker = worker
        self._shadow: Shadow | None = None
        self._broken = False

    def apply(self, before: Readable | None, after: Readable | None) -> None:
        """Pass one change of an object to the shadow."""
        if self._shadow is not None:
            self._shadow.apply(before, after)

    async def run(self) -> None:
        """Run the shadow and record its plans, until cancelled."""
        while True:
            await self._sleep(await self._turn())

    async def _turn(self) -> float:
        """Do what is due, and return the seconds until the next look."""
        if not self._wanted():
            self._shadow, self._broken = None, False
        elif not self._broken:
            try:
                return await self._step()
            except Exception as error:  # noqa: BLE001 - any error: scheduling continues without a shadow
                self._shadow, self._broken = None, True
                self._counters.failed()
                trace = "".join(traceback.format_exception(error))
                self._log_event("no shadow any more: a bug", {"error": trace})
        return _LOOK_SECONDS

    async def _step(self) -> float:
        if self._shadow is None:
            self._shadow = await self._worker.run(self._initialize)
        await self._worker.idle()
        shadow, now = self._shadow, self._clock()
        due = shadow.due()
        if due is not None and due <= now:
            for plan in await self._worker.run(partial(shadow.step, Moment(self._now(), now))):
                self._history.append(plan)
                self._counters.shadowed(str(plan.agreement))
            due = shadow.due()
        return _LOOK_SECONDS if due is None else min(_LOOK_SECONDS, max(0.0, due - now))

    def _initialize(self) -> Shadow:
        shadow = self._new()
        shadow.initialize()
        return shadow
