"""A shadow starts and ends with its switch, reports its plans, and never stops the scheduler."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from podium.api.core import Namespace
from podium.api.records import Agreement, Party, PlanMode, RecordedPlan, Result
from podium.runtime.worker import Worker
from podium.schedulerplugin.history.shadow import Shadow
from podium.schedulerplugin.history.shadowing import Shadowing
from podium.schedulerplugin.history.writer import History
from podium.schedulerplugin.live.metrics import SchedulerMetrics
from podium.schedulerplugin.scheduling.effects import Moment

PLAN = RecordedPlan(
    time="2026-11-21T12:00:00Z",
    mode=PlanMode.SHADOW,
    result=Result.PLANNED,
    preemptor=Party("Pod", "team", "high"),
    agreement=Agreement.SAME,
)


class Planner:
    """A fake Shadow: due at times that a test sets, with failures on request."""

    def __init__(self) -> None:
        self.dues: list[float | None] = []
        self.broken = False
        self.heard: list[tuple[object, object]] = []
        self.steps: list[float] = []
        self.begun = False

    def initialize(self) -> None:
        self.begun = True

    def apply(self, before: object, after: object) -> None:
        self.heard.append((before, after))

    def due(self) -> float | None:
        return self.dues[0] if self.dues else None

    def step(self, moment: Moment) -> list[RecordedPlan]:
        if self.broken:
            raise AssertionError("a bug")
        self.steps.append(moment.seconds)
        self.dues.pop(0)
        return [PLAN]


class Heard:
    """A fake of History and Metrics that records its calls."""

    def __init__(self) -> None:
        self.plans: list[RecordedPlan] = []
        self.agreements: list[str] = []
        self.failures = 0

    def append(self, plan: RecordedPlan) -> None:
        self.plans.append(plan)

    def shadowed(self, agreement: str) -> None:
        self.agreements.append(agreement)

    def failed(self) -> None:
        self.failures += 1


class Scene:
    """A shadowing at second 100, whose turns a test runs: `steps` are done, one a turn."""

    def __init__(self) -> None:
        self.wanted = False
        self.now = 100.0
        self.heard = Heard()
        self.planners: list[Planner] = []
        self.next = Planner
        self.waits: list[float] = []
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.shadowing = Shadowing(
            self._new,
            lambda: self.wanted,
            cast("History", self.heard),
            cast("SchedulerMetrics", self.heard),
            clock=lambda: self.now,
            now=lambda: datetime.now(UTC),
            sleep=self._sleep,
            log_event=lambda what, fields: self.logged.append((what, fields)),
            worker=Worker(),
        )
        self._steps: list[Callable[[], None]] = []

    async def run(self, *steps: Callable[[], None]) -> None:
        """Run turns, each followed by one of the steps, to the last."""
        self._steps = list(steps)
        with pytest.raises(asyncio.CancelledError):
            await self.shadowing.run()

    def switch(self, *, on: bool) -> Callable[[], None]:
        return lambda: setattr(self, "wanted", on)

    def _new(self) -> Shadow:
        self.planners.append(self.next())
        return cast("Shadow", self.planners[-1])

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if not self._steps:
            raise asyncio.CancelledError
        self._steps.pop(0)()


async def test_it_is_there_while_it_is_wanted() -> None:
    """Each start makes a new shadow, which receives changes only from then on."""
    scene = Scene()

    def change() -> None:
        scene.shadowing.apply(None, Namespace())

    await scene.run(
        change,
        scene.switch(on=True),
        change,
        scene.switch(on=False),
        change,
        scene.switch(on=True),
        change,
    )
    assert [len(planner.heard) for planner in scene.planners] == [1, 1]
    assert all(planner.begun for planner in scene.planners)
    assert set(scene.waits) == {1.0}


async def test_a_shadow_plan_is_recorded_and_counted_when_it_is_due() -> None:
    """It gets no call before, and the next one at its own time."""
    scene = Scene()

    def plan() -> None:
        scene.planners[0].dues = [100.25, 100.25, None]

    def pass_by() -> None:
        scene.now = 100.25

    await scene.run(scene.switch(on=True), plan, pass_by, lambda: None)
    assert scene.waits == [1.0, 1.0, 0.25, 0.0, 1.0]
    assert scene.planners[0].steps == [100.25, 100.25]
    assert scene.heard.plans == [PLAN, PLAN]
    assert scene.heard.agreements == ["Same", "Same"]


async def test_a_bug_ends_it_until_it_is_switched_on_anew() -> None:
    scene = Scene()

    def break_it() -> None:
        scene.planners[-1].broken = True
        scene.planners[-1].dues = [0.0]

    def nothing() -> None:
        """Run one turn."""

    await scene.run(
        scene.switch(on=True),
        break_it,
        nothing,
        nothing,
        scene.switch(on=False),
        scene.switch(on=True),
        nothing,
    )
    assert len(scene.planners) == 2
    assert scene.heard.failures == 1
    assert [what for what, _ in scene.logged] == ["no shadow any more: a bug"]
    assert "a bug" in scene.logged[0][1]["error"]
