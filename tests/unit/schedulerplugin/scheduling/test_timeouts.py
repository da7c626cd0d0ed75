"""Decisions that exceed their time budget: the entry waits behind all others with a message."""

from collections.abc import Sequence
from datetime import datetime

import pytest
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World, pod

from podium.api.membership import GroupKey
from podium.cluster.reader import Name, name_in
from podium.planner.deadline import Deadline, DecisionTimeoutError, UnansweredDecisionError
from podium.planner.preemption.decision import Decision
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    Key,
    ReportPending,
    TimedOut,
    entry_name,
    entry_of,
)
from podium.schedulerplugin.scheduling.entry import EntryPhase


class Slow(World):
    """A world where decisions on some pods take longer than any budget."""

    def __init__(self, *names: str) -> None:
        self.slow = set(names)
        self.asked: list[str] = []
        super().__init__(node("n1", 10))

    def restart(self, *args: object, **kwargs: object) -> None:
        """Start a process whose engine is slow too."""
        super().restart(*args, **kwargs)  # type: ignore[arg-type]
        engine = self.scheduler.engine
        decide, place = engine.decide, engine.place_lone

        def decided(target: Key, now: datetime, *, deadline: Deadline) -> Decision:
            self._take_time([target], deadline)
            return decide(target, now, deadline=deadline)

        def placed(targets: list[Name], *, deadline: Deadline) -> dict[Name, int]:
            self._take_time(targets, deadline)
            return place(targets, deadline=deadline)

        vars(engine).update(decide=decided, place_lone=placed)

    def _take_time(self, targets: Sequence[Key], deadline: Deadline) -> None:
        """Exceed the deadline if one of the targets is slow."""
        self.asked += [name_in(target)[1] for target in targets]
        if self.slow.intersection(name_in(target)[1] for target in targets):
            self.seconds += 2 * deadline.seconds
            deadline.enforce()

    def timeouts(self) -> list[str]:
        """Return the entries whose decisions timed out, one by one."""
        return [entry_name(each.key) for each in self.effects if isinstance(each, TimedOut)]


@pytest.mark.parametrize(
    "slow, entry",
    [
        pytest.param([pod("slow", priority=9)], f"pod/{NS}/slow", id="a lone pod"),
        pytest.param(
            [group("slow", 9, 2), *gang("slow", size=2, priority=9)],
            f"podgroup.scheduling.k8s.io/{NS}/slow",
            id="a group",
        ),
    ],
)
def test_an_entry_over_budget_says_so_and_keeps_no_other_out(slow: list[object], entry: str) -> None:
    """It has the highest priority, and is still tried after all others from its first timeout on."""
    world = Slow("slow")
    world.run(*slow, *(pod(f"p{number}") for number in range(3)))  # type: ignore[arg-type]
    assert sorted(world.bound()) == ["p0", "p1", "p2"]
    assert set(world.timeouts()) == {entry}
    report = next(each for each in world.effects if isinstance(each, ReportPending))
    assert report.reason == "SchedulerError"
    assert report.message.startswith("no decision within 1 s (decisionTimeoutSeconds)")
    assert {ref.name for ref in report.pods} <= {"slow", "slow-0", "slow-1"}


def test_a_selector_without_a_result_is_named_and_keeps_no_other_out() -> None:
    """It is tried again after the others, as after a decision that exceeds its time."""
    world = World(node("n1", 10))
    engine, slow = world.scheduler.engine, {"slow"}
    place, decide = engine.place_lone, engine.decide

    def fail(targets: Sequence[Key]) -> None:
        if slow.intersection(name_in(target)[1] for target in targets):
            raise UnansweredDecisionError("claim ns/c: selector #0: too slow")

    def placed(targets: list[Name], *, deadline: Deadline) -> dict[Name, int]:
        fail(targets)
        return place(targets, deadline=deadline)

    def decided(target: Key, now: datetime, *, deadline: Deadline) -> Decision:
        fail([target])
        return decide(target, now, deadline=deadline)

    vars(engine).update(place_lone=placed, decide=decided)
    world.run(pod("slow", priority=9), *(pod(f"p{number}") for number in range(3)))
    assert sorted(world.bound()) == ["p0", "p1", "p2"]
    report = next(each for each in world.effects if isinstance(each, ReportPending))
    assert report.reason == "SchedulerError"
    assert report.message == (
        "no decision: claim ns/c: selector #0: too slow; the scheduler tries again after all other pods"
    )
    slow.clear()
    world.later(60)
    assert world.bound()["slow"] == "n1"


def test_it_is_tried_again_and_bound_once_it_is_quick() -> None:
    """It backs off like any failed entry, and the timeout leaves nothing behind."""
    world = Slow("slow")
    world.run(pod("slow"))
    world.later(60)
    tries = len(world.timeouts())
    assert 5 <= tries <= 12
    world.slow.clear()
    world.later(60)
    assert world.bound() == {"slow": "n1"}
    assert len(world.timeouts()) == tries


def test_it_is_tried_after_entries_of_any_priority() -> None:
    """Later entries of lower priority do not wait for it a second time."""
    world = Slow("slow")
    world.run(pod("slow", priority=100))
    world.asked.clear()
    world.apply(*(pod(f"p{number}", cpu=20) for number in range(5)))
    world.seconds += 60
    world.run()
    assert set(world.asked[:-1]) == {f"p{number}" for number in range(5)}
    assert world.asked[-1] == "slow"


def test_one_slow_pod_among_many_is_found() -> None:
    """Lone pods are placed in batches; the batch gets shorter until the slow one is by itself."""
    world = Slow("p3")
    world.run(*(pod(f"p{number}") for number in range(8)))
    assert sorted(world.bound()) == [f"p{number}" for number in range(8) if number != 3]
    assert set(world.timeouts()) == {f"pod/{NS}/p3"}


def test_a_preemption_that_followed_another_is_planned_for_itself() -> None:
    """The fast path for an equal preemptor may exceed the budget; the last decision still counts."""
    world = World(node("n1", 1), node("n2", 1), running("v1", "n1"), running("v2", "n2"))

    def never(*_args: object, **_kwargs: object) -> None:
        raise DecisionTimeoutError

    vars(world.scheduler.engine).update(decide_next=never)
    world.run(pod("a", 1, 10), pod("b", 1, 10))
    assert sorted(world.evicted()) == ["v1", "v2"]
    assert not [each for each in world.effects if isinstance(each, TimedOut)]


def test_a_suspect_is_tried_last_and_alone() -> None:
    """The former leader lost its lease while it decided this entry, and this one may lose it too."""
    world = World(node("n1", 10))
    world.state._observers.clear()
    world.apply(pod("high", priority=100), pod("low"), pod("lower", priority=-1))
    world.restart()
    interrupted = [(NS, "high")]
    order: list[list[Key]] = []
    for effect in world.scheduler.initialize(world.moment, interrupted):
        world.effects.append(effect)
    while world.scheduler.has_work(world.seconds):
        effects = world.scheduler.step(world.moment)
        order += [[each.key] for each in effects if isinstance(each, Bind)]
    assert order == [[(NS, "low")], [(NS, "lower")], [(NS, "high")]]


def test_a_preemption_begun_for_a_suspect_is_not_resumed() -> None:
    """Its victims are unmarked; the suspect is decided after all others."""
    world = World(node("n1", 1), running("victim"))
    world.hold_evictions = True
    world.run(pod("high", 1, 10))
    assert world.evicted() == ["victim"]
    world.release(failed="")
    pool = world.scheduler.queue.phase_of((NS, "high"))
    assert pool is not EntryPhase.ACTIVE


@pytest.mark.parametrize(
    "key",
    [("ns", "p"), GroupKey(True, "ns", "g"), GroupKey(False, "ns", "g")],
    ids=["a pod", "a native group", "a group of Podium's"],
)
def test_the_name_of_an_entry_leads_back_to_it(key: Key) -> None:
    """It is kept in the Lease between two processes."""
    assert entry_of(entry_name(key)) == key


@pytest.mark.parametrize("text", ["", "pod", "pod/ns", "pod//x", "pod/ns/", "node/ns/x", "podgroup.x/ns/g"])
def test_a_name_of_no_entry_is_none(text: str) -> None:
    """Any account that may write the Lease may write any text there."""
    assert entry_of(text) is None
