"""A decision that runs out of time leaves the engine as it was, at any of its checks."""

from collections import Counter
from collections.abc import Callable
from itertools import chain, count, repeat
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from tests.support.filters import picture
from tests.support.filters.dynamic_cases import anti_affinity, term
from tests.support.preemption.clusters import NOW, NS, SECONDS, clusters, objects, state_of, target
from tests.support.preemption.plain_cluster import Cluster
from tests.support.preemption.scene import HOST, node, pod, priority_class

from podium.errors import PodiumError
from podium.planner.deadline import NEVER, Deadline, DecisionTimeoutError
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.search import Search
from podium.planner.reprieve import PodsByShape
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

# More checks than any decision on a cluster of these tests makes.
MANY = 10_000

Ask = Callable[[Deadline], Any]


def after(checks: int) -> Deadline:
    """Return a deadline that passes after so many checks."""
    return Deadline(count().__next__, checks + 1)


def kept(engine: Engine) -> Any:
    """Return all data of an engine that a decision reads, except caches."""
    snapshot = engine.snapshot
    tables = [table for _, table in engine._units.values()]
    return (
        picture.nodes(snapshot, (HOST,)),
        picture.pods(snapshot),
        [sorted(on) for on in snapshot._on],
        {each: engine.placer.chain.feasible(shape).tolist() for each, shape in snapshot.shapes.items()},
        [(table.pods.tolist(), table.pod_count.tolist(), table.repeats_unit.tolist()) for table in tables],
    )


def interrupted(engine: Engine, ask: Ask) -> tuple[int, Any]:
    """Interrupt a decision at each of its checks; return the number of checks, and the answer."""
    engine.units(for_group=True, now=SECONDS)
    engine.units(for_group=False, now=SECONDS)
    before = kept(engine)
    for checks in range(MANY):
        # The caches are cleared, so that the next attempt starts without them.
        engine.apply(None, priority_class("other", 0))
        try:
            return checks, ask(after(checks))
        except DecisionTimeoutError:
            assert not engine._planning
            engine.units(for_group=True, now=SECONDS)
            engine.units(for_group=False, now=SECONDS)
            assert kept(engine) == before
    raise AssertionError("it never ends")


@profile(max_examples=50)
@given(clusters(), st.sampled_from([Semantics.KEP, Semantics.KEP, *Semantics]))
def test_an_interrupted_decision_leaves_the_engine_as_it_was(
    case: tuple[Cluster, str], semantics: Semantics
) -> None:
    cluster, name = case
    settings, preemptor = Settings(semantics=semantics), target(name)
    engine = Engine(state_of(objects(cluster)), settings)
    checks, decision = interrupted(engine, lambda deadline: engine.decide(preemptor, NOW, deadline=deadline))
    event(f"{checks} checks, {decision.outcome}")
    # A search that has a plan may have spent half of the time, and improves it no more.
    assert decision.outcome is Engine(engine.view, settings).decide(preemptor, NOW).outcome


@profile(max_examples=50)
@given(clusters())
def test_an_interrupted_resumption_leaves_the_engine_as_it_was(case: tuple[Cluster, str]) -> None:
    cluster, name = case
    engine = LiveEngine(state_of(objects(cluster)))
    decision = engine.decide(target(name), NOW)
    if decision.chosen is None:
        return
    units, _ = engine.units(for_group=decision.chosen.plan.domain.node is None, now=SECONDS)
    rows = units.all_members(decision.chosen.plan.victims).tolist()
    checks, again = interrupted(
        engine, lambda deadline: engine.resume(target(name), rows, NOW, deadline=deadline)
    )
    event(f"{checks} checks, {'resumed' if again is not None else 'not resumed'}")
    expected = LiveEngine(engine.view).resume(target(name), rows, NOW)
    assert (again is None) == (expected is None)
    if again is not None and expected is not None:
        assert again.placed == expected.placed
        assert again.refusals == expected.refusals


def test_interrupted_placements_leave_the_engine_as_it_was() -> None:
    names = [(NS, f"p{at}") for at in range(5)]
    engine = LiveEngine(state_of([node("n1"), node("n2"), *(pod(name) for _, name in names)]))
    checks, placed = interrupted(engine, lambda deadline: engine.place_lone(names, deadline=deadline))
    assert checks > len(names)
    assert sorted(Counter(placed[name] for name in names).values()) == [2, 3]


def test_an_interrupted_next_decision_leaves_the_engine_as_it_was() -> None:
    nodes = [node(f"n{at}") for at in range(3)]
    low = [pod(f"low-{at}", 4, 0, node=f"n{at}") for at in range(3)]
    engine = LiveEngine(state_of([*nodes, *low, pod("first", 3, 5), pod("second", 3, 5)]))
    first = engine.decide((NS, "first"), NOW)
    assert first.chosen is not None
    engine.nominate((NS, "first"), "n0")
    engine.mark_for_deletion(first.chosen.plan.victims.tolist())
    checks, second = interrupted(
        engine, lambda deadline: engine.decide_next(first, (NS, "second"), NOW, deadline=deadline)
    )
    assert checks > 0
    assert [*second.placed.values()] == [engine.snapshot.row["n1"]]


@pytest.mark.parametrize(("spent", "improved"), [(0.4, True), (0.6, False)])
def test_a_search_improves_its_plan_in_half_of_the_time(
    spent: float, improved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After that the plan is taken as it is: a decision that ends without one starves its pod."""
    rebuilt = Mock(return_value=False)
    monkeypatch.setattr(Search, "_rebuilt", rebuilt)
    nodes = [node(f"n{at}") for at in range(4)]
    running = [pod(f"low-{at}", 4, at % 3, node=f"n{at}") for at in range(4)]
    engine = Engine(state_of([*nodes, *running, pod("preemptor", 4, 9)]))
    clock = chain([0.0], repeat(spent))
    decision = engine.decide((NS, "preemptor"), NOW, deadline=Deadline(clock.__next__, 1))
    assert decision.outcome is Outcome.FITS_AFTER_PREEMPTION
    assert rebuilt.called is improved


def test_terms_of_other_pods_are_checked_although_they_select_nothing() -> None:
    """A tenant may give each of its pods a thousand terms."""
    running = [pod(f"p{at}", node="n1", **anti_affinity(term(f"none-{at}", HOST))) for at in range(10)]
    engine = Engine(state_of([node("n1"), *running, pod("preemptor")]))
    snapshot = engine.snapshot
    row = snapshot.pod_row[NS, "preemptor"]
    rows = np.array([snapshot.pod_row[NS, f"p{at}"] for at in range(len(running))])
    pods = PodsByShape(snapshot.shapes, snapshot.shape[rows])
    shapes = {snapshot.shape.item(row): snapshot.shape_at(row)}
    assert not list(engine.placer.chain.exclusions(shapes, pods, after(len(running))))
    with pytest.raises(DecisionTimeoutError):
        list(engine.placer.chain.exclusions(shapes, pods, after(len(running) - 1)))


def test_results_from_before_the_deadline_are_kept() -> None:
    """Each attempt continues from where the last one ended, so one of them completes."""
    names = [f"p{at}" for at in range(5)]
    state = state_of([node("n1"), *(pod(name, node="n1") for name in names)])
    engine = Engine(state)
    attempts = 0
    while True:
        attempts += 1
        try:
            units, _ = engine.units(for_group=False, now=SECONDS, deadline=after(1))
        except DecisionTimeoutError:
            continue
        break
    assert attempts == len(names)
    assert units.is_lead.sum() == len(names)
    assert sorted(units.on_node(0)) == sorted(engine.snapshot.pod_row.values())


def test_the_error_names_the_length_of_the_deadline() -> None:
    with pytest.raises(DecisionTimeoutError, match=r"^no decision within 0\.5 s$"):
        Deadline(iter([10.0, 10.5]).__next__, 0.5).enforce()
    Deadline(iter([10.0, 10.25]).__next__, 0.5).enforce()
    NEVER.enforce()


def test_a_passed_deadline_is_no_podium_error() -> None:
    """It is no PodiumError. Callers drop the target of a PodiumError, because it no longer exists."""
    assert not issubclass(DecisionTimeoutError, PodiumError)
