"""A decision returns its verdict as a value and changes nothing; one function carries the value out."""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node
from tests.support.scheduling.objects import gang, running
from tests.support.scheduling.rig import World, pod

from podium.api.membership import GroupKey
from podium.planner.deadline import DecisionTimeoutError
from podium.planner.settings import PreemptionMode
from podium.schedulerplugin.scheduling import cycle, verdicts
from podium.schedulerplugin.scheduling.cycle import SchedulingCycle
from podium.schedulerplugin.scheduling.effects import Bind, Effect, Key
from podium.schedulerplugin.scheduling.entry import EntryPhase
from podium.schedulerplugin.scheduling.evictionlimits import EvictionLimits
from podium.schedulerplugin.scheduling.holds import Holds
from podium.schedulerplugin.scheduling.prebinds import PreBinds
from podium.schedulerplugin.scheduling.queue import Queue
from podium.schedulerplugin.scheduling.verdicts import (
    Await,
    Deciding,
    Fail,
    Gate,
    Preempt,
    Refuse,
    Verdict,
)

HIGH: Key = (NS, "high")
GANG: Key = GroupKey(True, NS, "big")
GATED = "it is held by scheduling gates: example.com/wait"


def described(verdict: Verdict) -> tuple[Any, ...]:
    """Return the facts of a verdict that a situation decides."""
    match verdict:
        case Bind(_, pods):
            return "bind", *(node for _, node in pods)
        case Await(report):
            return "await", *(node for _, node in report.nominated)
        case Preempt(evict):
            return "preempt", *(victim.name for victim in evict.victims)
        case Refuse():
            kind = None if verdict.limited is None else verdict.limited[1].kind.name
            return "refuse", None if verdict.gang is None else type(verdict.gang).__name__, kind
        case Gate(report):
            return "gate", report.message
        case Fail():
            return "fail", verdict.gone


class Situation(NamedTuple):
    """A cluster with an entry that waits, and the verdict on the entry."""

    objects: tuple[Any, ...]
    verdict: tuple[Any, ...]
    settings: Mapping[str, Any] = MappingProxyType({})
    key: Key = HIGH


def _full(**high: Any) -> tuple[Any, ...]:
    return node(cpu=1), running("low"), pod("high", 1, 10, **high)


def _gang(*objects: Any, cpu: int = 1) -> tuple[Any, ...]:
    return (*objects, group("big", 0, 2), *gang("big", size=2, cpu=cpu))


SITUATIONS = {
    "room": Situation((node(cpu=1), pod("high")), ("bind", "n1")),
    "room for a gang": Situation(_gang(node(cpu=2)), ("bind", "n1", "n1"), key=GANG),
    "no room": Situation((node(cpu=1), pod("high", 2)), ("refuse", None, None)),
    "a victim": Situation(_full(), ("preempt", "low")),
    "room once a pod is gone": Situation(
        (node(cpu=1), running("low", terminating=True), pod("high", 1, 10)), ("await", "n1")
    ),
    "a victim of no lower priority": Situation(
        (node(cpu=1), running("low"), pod("high")), ("refuse", None, None)
    ),
    "preemption switched off": Situation(_full(), ("refuse", None, "OFF"), {"mode": PreemptionMode.OFF}),
    "preemption observed": Situation(_full(), ("refuse", None, "OBSERVED"), {"mode": PreemptionMode.OBSERVE}),
    "a scheduling gate": Situation(
        _full(schedulingGates=[{"name": "example.com/wait"}]),
        ("gate", GATED),
    ),
    "a gang holds the room that is free": Situation(
        _gang(node("n1", 1), node("n2", 1), running("low", "n2")),
        ("refuse", "GangRoom", None),
        {"gang_hold_seconds": 60},
        GANG,
    ),
    "a gang that fits on no empty nodes pauses": Situation(
        _gang(node(cpu=4), cpu=4), ("refuse", "GangPause", None), {"gang_hold_seconds": 60}, GANG
    ),
}


def state(world: World) -> Any:
    """Return all that a verdict may change when it is carried out."""
    scheduler = world.scheduler
    fields = (
        "phase",
        "attempts",
        "alone",
        "binding",
        "held_back",
        "hold_failures",
        "no_room_since",
        "unsure",
    )
    entries = {
        key: tuple(getattr(entry, field) for field in fields)
        for key, entry in scheduler.entries.records.items()
    }
    nominated = {name: world.nominated(name) for _, name in world.state.pods}
    assumed = scheduler.engine.snapshot.node.tolist()
    terminating = scheduler.engine.snapshot.terminating.tolist()
    return entries, nominated, assumed, terminating, scheduler.holds.holder, world.limits.room(0.0)


def prepared(situation: Situation) -> World:
    """Return a world in which the entry is popped, and nothing is decided."""
    world = World(*situation.objects, **situation.settings)
    world.scheduler._settle([], world.moment)
    # A gated entry is never popped.
    assert world.scheduler.queue.pop(world.seconds) in (situation.key, None)
    return world


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=list(SITUATIONS))
def test_a_situation_has_one_verdict_and_deciding_changes_nothing(situation: Situation) -> None:
    world = prepared(situation)
    deciding, before = world.scheduler._cycle.deciding, state(world)
    for _ in range(2):
        assert described(deciding.decide(situation.key, world.moment)) == situation.verdict
        assert state(world) == before


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=list(SITUATIONS))
def test_a_step_decides_and_applies_the_value(situation: Situation) -> None:
    stepped, applied = World(*situation.objects, **situation.settings), prepared(situation)
    effects = list[Effect]()
    cycle_ = applied.scheduler._cycle
    cycle_.apply(cycle_.deciding.decide(situation.key, applied.moment), effects, applied.moment)
    assert stepped.scheduler.step(stepped.moment) == effects
    assert state(stepped) == state(applied)


def test_an_entry_without_pods_fails_without_a_decision() -> None:
    """The next step looks at the entry again."""
    world = prepared(SITUATIONS["room"])
    world.die("high")
    verdict = world.scheduler._cycle.deciding.decide(HIGH, world.moment)
    assert described(verdict) == ("fail", True)
    world.scheduler._cycle.apply(verdict, [], world.moment)
    assert world.scheduler.queue.phase_of(HIGH) is EntryPhase.RETRYING


def test_a_decision_over_its_budget_fails_and_names_the_budget() -> None:
    world = prepared(SITUATIONS["no room"])
    verdict = world.scheduler._cycle.deciding.timed_out(HIGH, DecisionTimeoutError())
    assert (verdict.key, verdict.budget, verdict.gone) == (HIGH, 1.0, False)
    assert verdict.report is not None
    assert verdict.report.reason == "SchedulerError"


# --- structure --------------------------------------------------------------------------------------------

# The methods that change nothing. `pop` and `give_back` choose the entries that are tried.
READS = {
    Queue: {"first", "pop", "give_back", "keys", "due", "phase_of", "depths"},
    Holds: {"stranded", "gang_room", "over", "due", "until", "counts", "yields", "blocks", "comes_first"},
    PreBinds: {"stranded", "has_work", "due"},
    EvictionLimits: {"deadline", "limit", "room", "doubts"},
}


def _mutators() -> set[str]:
    return {
        name
        for owner, reads in READS.items()
        for name, _ in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and name not in reads
    }


def _changes(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the mutators that a function calls on one of its collaborators."""
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            own = isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
            if call.func.attr in _mutators() and not own:
                yield call.func.attr


def test_apply_is_the_only_place_that_changes_the_queue_the_holds_and_the_limits() -> None:
    """`forget` is the part of it that an entry without waiting pods needs too."""
    functions = (
        function
        for module in (cycle, verdicts)
        for function in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(function, ast.FunctionDef)
    )
    changing = {function.name: set(_changes(function)) for function in functions}
    assert {name for name, changes in changing.items() if changes} == {"apply", "forget"}
    assert {"give_way", "park", "gate", "preempt", "back_off", "hold"} <= changing["apply"]


@pytest.mark.parametrize("owner", [SchedulingCycle, Deciding])
def test_a_cycle_has_four_collaborators(owner: Callable[..., object]) -> None:
    assert list(inspect.signature(owner).parameters) == ["engine", "entries", "holds", "limits"]
