"""A disruption that a budget grants is granted once, however late its status says so."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.preemption.clusters import NOW, NS, state_of
from tests.preemption.scene import node, pod
from tests.preemption.test_budgets import budget

from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.settings import Budgets, Settings
from podium.state import State

APP = {"app": "a"}
Change = Callable[[State, LiveEngine], object]


def scene(allowed: int = 1) -> tuple[State, LiveEngine]:
    """Give two pods of one budget, of which one has just been told to go, and who wants the other's room."""
    lows = [pod(f"low-{at}", 4, 1, node=f"n{at}", labels=APP) for at in (1, 2)]
    nodes = [node("n1", 4, taints=[{"key": "x", "effect": "NoSchedule"}]), node("n2")]
    state = state_of([*nodes, *lows, budget(allowed=allowed), pod("high", 4, 5)])
    engine = LiveEngine(state, Settings(budgets=Budgets.STRICT))
    state.observe(engine.apply)
    assert preempts(engine)
    engine.doom([engine.snapshot.pod_row[NS, "low-1"]])
    return state, engine


def preempts(engine: LiveEngine, seconds: int = 0) -> bool:
    return engine.decide((NS, "high"), NOW + timedelta(seconds=seconds)).outcome is not Outcome.DOES_NOT_FIT


def delete(state: State, _: LiveEngine) -> None:
    state.apply(pod("low-1", 4, 1, node="n1", labels=APP, terminating=True))


def vanish(state: State, _: LiveEngine) -> None:
    state.remove(pod("low-1"))


def write(allowed: int) -> Change:
    return lambda state, _: state.apply(budget(allowed=allowed))


def spare(_: State, engine: LiveEngine) -> None:
    engine.spare([engine.snapshot.pod_row[NS, "low-1"]])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([], id="told to go"),
        pytest.param([delete], id="being deleted"),
        pytest.param([vanish], id="gone"),
        pytest.param([write(1)], id="written before it went"),
        pytest.param([write(1), vanish], id="written before, gone now"),
        pytest.param([delete, write(0)], id="the status shows it"),
    ],
)
def test_who_was_told_to_go_has_spent_it(changes: list[Change]) -> None:
    state, engine = scene()
    for change in changes:
        change(state, engine)
    assert not preempts(engine)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([spare], id="it may stay"),
        pytest.param([delete, write(1)], id="another pod has come, says the status"),
        pytest.param([vanish, write(1)], id="and it is gone"),
    ],
)
def test_what_is_not_spent_any_more_is_granted(changes: list[Change]) -> None:
    state, engine = scene()
    for change in changes:
        change(state, engine)
    assert preempts(engine)


def test_two_disruptions_are_two() -> None:
    _, engine = scene(allowed=2)
    assert preempts(engine)


def test_a_budget_that_nobody_writes_is_waited_for_ten_seconds() -> None:
    """It is not written where the pod was none of its healthy ones."""
    state, engine = scene()
    vanish(state, engine)
    assert [preempts(engine, seconds) for seconds in (0, 9, 10, 20)] == [False, False, True, True]


def test_who_is_being_deleted_already_when_told_to_go_is_not_charged() -> None:
    """A takeover goes on with what another began; the statuses have long said it."""
    lows = [pod(f"low-{at}", 4, 1, node=f"n{at}", labels=APP, terminating=at == 1) for at in (1, 2)]
    nodes = [node("n1", 4, taints=[{"key": "x", "effect": "NoSchedule"}]), node("n2")]
    state = state_of([*nodes, *lows, budget(allowed=1), pod("high", 4, 5)])
    engine = LiveEngine(state, Settings(budgets=Budgets.STRICT))
    engine.doom([engine.snapshot.pod_row[NS, "low-1"]])
    assert preempts(engine)
