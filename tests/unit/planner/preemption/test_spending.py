"""A budget grants a disruption once, even if its status is late."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import node, pod
from tests.unit.planner.preemption.test_budgets import budget

from podium.cluster.state import ClusterState
from podium.planner.preemption.outcome import Outcome
from podium.planner.settings import Budgets, Settings
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

APP = {"app": "a"}
Change = Callable[[ClusterState, LiveEngine], object]


def scene(allowed: int = 1) -> tuple[ClusterState, LiveEngine]:
    """Return two pods of one budget, one of them a new victim, and a preemptor for the other's node."""
    lows = [pod(f"low-{at}", 4, 1, node=f"n{at}", labels=APP) for at in (1, 2)]
    nodes = [node("n1", 4, taints=[{"key": "x", "effect": "NoSchedule"}]), node("n2")]
    state = state_of([*nodes, *lows, budget(allowed=allowed), pod("high", 4, 5)])
    engine = LiveEngine(state, Settings(budgets=Budgets.STRICT))
    state.observe(engine.apply)
    assert preempts(engine)
    engine.mark_for_deletion([engine.snapshot.pod_row[NS, "low-1"]])
    return state, engine


def preempts(engine: LiveEngine, seconds: int = 0) -> bool:
    return engine.decide((NS, "high"), NOW + timedelta(seconds=seconds)).outcome is not Outcome.DOES_NOT_FIT


def delete(state: ClusterState, _: LiveEngine) -> None:
    state.apply(pod("low-1", 4, 1, node="n1", labels=APP, terminating=True))


def vanish(state: ClusterState, _: LiveEngine) -> None:
    state.remove(pod("low-1"))


def write(allowed: int) -> Change:
    return lambda state, _: state.apply(budget(allowed=allowed))


def unmark(_: ClusterState, engine: LiveEngine) -> None:
    engine.unmark([engine.snapshot.pod_row[NS, "low-1"]])


@pytest.mark.parametrize(
    ("changes", "granted"),
    [
        pytest.param([], False, id="evicted"),
        pytest.param([delete], False, id="being deleted"),
        pytest.param([vanish], False, id="gone"),
        pytest.param([write(1)], False, id="written before it went"),
        pytest.param([write(1), vanish], False, id="written before, gone now"),
        pytest.param([delete, write(0)], False, id="the status shows it"),
        pytest.param([unmark], True, id="it may stay"),
        pytest.param([delete, write(1)], True, id="another pod has come, says the status"),
        pytest.param([vanish, write(1)], True, id="and it is gone"),
    ],
)
def test_a_disruption_is_granted_again_only_if_it_was_not_used(changes: list[Change], granted: bool) -> None:
    state, engine = scene()
    for change in changes:
        change(state, engine)
    assert preempts(engine) is granted


def test_a_budget_of_two_grants_two_disruptions() -> None:
    _, engine = scene(allowed=2)
    assert preempts(engine)


def test_a_budget_that_is_not_written_counts_after_ten_seconds() -> None:
    """It is not written if the pod did not count as healthy."""
    state, engine = scene()
    vanish(state, engine)
    assert [preempts(engine, seconds) for seconds in (0, 9, 10, 20)] == [False, False, True, True]


def test_a_victim_that_is_being_deleted_already_is_not_charged() -> None:
    """A new leader continues the preemption of another; the statuses have shown it long ago."""
    lows = [pod(f"low-{at}", 4, 1, node=f"n{at}", labels=APP, terminating=at == 1) for at in (1, 2)]
    nodes = [node("n1", 4, taints=[{"key": "x", "effect": "NoSchedule"}]), node("n2")]
    state = state_of([*nodes, *lows, budget(allowed=1), pod("high", 4, 5)])
    engine = LiveEngine(state, Settings(budgets=Budgets.STRICT))
    engine.mark_for_deletion([engine.snapshot.pod_row[NS, "low-1"]])
    assert preempts(engine)
