"""Victims that are asked to save their work: the time for which their eviction waits, and its end."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import NOW, NS, time_of
from tests.support.preemption.scene import SECONDS, group, marked_for_deletion, node, priority_class
from tests.support.scheduling.objects import begun, running
from tests.support.scheduling.rig import World, pod

from podium.api.records import Saving
from podium.api.saving import (
    CHECKPOINT,
    LONGEST_WAIT,
    NO_CHECKPOINT,
    SAVE_REQUESTED,
    SAVES_ON_NOTICE,
    SAVES_ON_TERMINATION,
)
from podium.schedulerplugin.scheduling.effects import Moment, PodRef
from podium.schedulerplugin.scheduling.preemptions import Answers, Notice, answer, answers, notices, waits

MOMENT = Moment(NOW, 1_000.0)
SAVES = {SAVES_ON_NOTICE: "40s"}


def victim(annotations: dict[str, str], **kwargs: Any) -> Any:
    """Make a victim, which a scheduler has marked if it has asked it."""
    marked = {"status": marked_for_deletion()} if SAVE_REQUESTED in annotations else {}
    made = running("low", "n1", **{**marked, **kwargs})
    made.metadata.annotations = annotations
    return made


def asked(world: World, longest: int = 60) -> tuple[Notice, ...]:
    """Return the notices of the only preemption that has begun."""
    (evict,) = world.evictions()
    return notices(world.state, evict, longest, MOMENT)


ASKED: dict[str, tuple[dict[str, str], int | None]] = {
    # the victim's annotations, and for how many seconds its eviction waits; None: it is not asked
    "nothing declared": ({}, None),
    "on notice": (SAVES, 40),
    "as long as the scheduler waits": ({SAVES_ON_NOTICE: "1m"}, 60),
    "longer than the scheduler waits": ({SAVES_ON_NOTICE: "61s"}, None),
    "no duration": ({SAVES_ON_NOTICE: "soon"}, None),
    "after SIGTERM anyway": ({**SAVES, SAVES_ON_TERMINATION: "10s"}, None),
    "after SIGTERM, but later than its grace period": ({**SAVES, SAVES_ON_TERMINATION: "31s"}, 40),
    "an earlier leader asked": ({**SAVES, SAVE_REQUESTED: time_of(SECONDS - 30) or ""}, 10),
    "an earlier leader asked long ago": ({**SAVES, SAVE_REQUESTED: time_of(SECONDS - 90) or ""}, 0),
    "an earlier leader's clock was ahead": ({**SAVES, SAVE_REQUESTED: time_of(SECONDS + 90) or ""}, 40),
    "an earlier leader asked, at no time": ({**SAVES, SAVE_REQUESTED: "then"}, 40),
    "it has answered an earlier leader": (
        {
            **SAVES,
            SAVE_REQUESTED: time_of(SECONDS - 30) or "",
            CHECKPOINT: time_of(SECONDS - 25) or "",
        },
        0,
    ),
}


def test_a_request_that_was_taken_back_counts_no_more() -> None:
    """The annotation is a tenant's, or is left from an earlier preemption."""
    old = victim({**SAVES, SAVE_REQUESTED: time_of(SECONDS - 90) or ""}, status={})
    world = begun(node(cpu=1), old, pod("high", 1, 10))
    assert [notice.until - MOMENT.seconds for notice in asked(world)] == [40]


@pytest.mark.parametrize("case", ASKED)
def test_a_victim_is_asked_if_it_saves_on_notice(case: str) -> None:
    annotations, length = ASKED[case]
    world = begun(node(cpu=1), victim(annotations), pod("high", 1, 10))
    assert [notice.until - MOMENT.seconds for notice in asked(world)] == ([] if length is None else [length])


def test_a_group_declares_for_its_pods() -> None:
    team = group("v", whole=True)
    team.metadata.annotations = SAVES
    members = (running("v-0", "n1", group="v"), running("v-1", "n1", group="v"))
    world = begun(node(cpu=2), team, *members, pod("high", 2, 10))
    assert [notice.pod.name for notice in asked(world)] == ["v-0", "v-1"]


@pytest.mark.parametrize(("priority", "number"), [(1_000_000_000, 1), (2_000_000_000, 0)])
def test_a_preemptor_of_a_system_class_does_not_wait(priority: int, number: int) -> None:
    world = begun(node(cpu=1), victim(SAVES), pod("high", 1, priority))
    assert len(asked(world)) == number


WAITS: dict[str, tuple[str | None, bool]] = {
    # the annotation of the preemptor's class, and whether it waits 40 seconds for its victim
    "no limit": (None, True),
    "as long": ("40s", True),
    "shorter": ("39s", False),
    "not at all": ("0s", False),
    "longer than the cluster": ("9m", True),
    "no duration": ("soon", True),
}


@pytest.mark.parametrize("case", WAITS)
@pytest.mark.parametrize("grouped", [False, True])
def test_the_class_of_the_preemptor_bounds_the_wait(case: str, grouped: bool) -> None:
    text, waits_for_it = WAITS[case]
    fast = priority_class("fast", 10)
    fast.metadata.annotations = {} if text is None else {LONGEST_WAIT: text}
    if grouped:
        team = group("team", priority=10, least=1)
        team = msgspec.structs.replace(team, priority_class_name="fast")
        preemptor = [team, pod("high", 1, 10, group="team")]
    else:
        preemptor = [pod("high", 1, 10, priorityClassName="fast")]
    world = begun(node(cpu=1), fast, victim(SAVES), *preemptor)
    assert bool(asked(world)) is waits_for_it


def _saved(world: World, at: int) -> None:
    world.apply(victim({**SAVES, CHECKPOINT: time_of(at) or ""}))


def _ends(world: World) -> None:
    ending = victim(SAVES)
    ending.metadata.deletionTimestamp = time_of(SECONDS)
    world.apply(ending)


def _fails(world: World) -> None:
    world.apply(victim(SAVES, phase="Failed"))


def _recreated(world: World) -> None:
    other = victim(SAVES)
    world.apply(msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, uid="other")))


CHANGES: dict[str, tuple[Callable[[World], object], float, bool]] = {
    # what happens, after how many seconds, and whether the eviction still waits then
    "nothing": (lambda _world: None, 39.0, True),
    "nothing, until the time is over": (lambda _world: None, 40.0, False),
    "it saves its work": (lambda world: _saved(world, SECONDS + 1), 1.0, False),
    "it saves its work, and its clock is behind": (lambda world: _saved(world, SECONDS - 90), 1.0, False),
    "it is changed": (lambda world: world.apply(victim({**SAVES, "a": "b"})), 1.0, True),
    "it is gone": (lambda world: world.state.remove(world.state.pods[NS, "low"]), 1.0, False),
    "it is being deleted": (_ends, 1.0, False),
    "it has failed": (_fails, 1.0, False),
    "another pod has its name": (_recreated, 1.0, False),
}


@pytest.mark.parametrize("case", CHANGES)
def test_the_wait_ends_when_the_work_is_saved_or_lost(case: str) -> None:
    change, after, still = CHANGES[case]
    world = begun(node(cpu=1), victim(SAVES), pod("high", 1, 10))
    noticed = asked(world)
    change(world)
    assert waits(world.state, noticed, MOMENT.seconds + after) is still


def begun_for_a_gang() -> World:
    """Begin a preemption of a gang of two that saves on notice."""
    members = [running(f"v-{at}", "n1", group="v") for at in range(2)]
    for member in members:
        member.metadata.annotations = SAVES
    return begun(node(cpu=2), group("v", whole=True), *members, pod("high", 2, 10))


def test_all_members_are_awaited() -> None:
    world = begun_for_a_gang()
    noticed = asked(world)
    for at, still in ((0, True), (1, False)):
        saved = running(f"v-{at}", "n1", group="v")
        saved.metadata.annotations = {**SAVES, CHECKPOINT: time_of(SECONDS + 5) or ""}
        world.apply(saved)
        assert waits(world.state, noticed, MOMENT.seconds + 6) is still


def test_the_time_is_steady() -> None:
    """A step of the wall clock neither ends nor extends the wait of a victim that was asked now."""
    world = begun(node(cpu=1), victim(SAVES), pod("high", 1, 10))
    (evict,) = world.evictions()
    for step in (-3600, 0, 3600):
        moment = Moment(NOW + timedelta(seconds=step), 1_000.0)
        assert [notice.until for notice in notices(world.state, evict, 60, moment)] == [1_040.0]


LOW = Notice(PodRef(NS, "low", "team-a-low"), until=40.0, saved=7)
VERDICTS: dict[str, tuple[Notice, int, float, bool, Saving | None]] = {
    # the notice, the checkpoint and the time at the end, whether the request is stored; the verdict
    "no checkpoint in its time": (LOW, 7, 40.0, True, Saving.FAILED),
    "no checkpoint, some seconds later": (LOW, 7, 43.0, True, Saving.FAILED),
    "a checkpoint": (LOW, 9, 3.0, True, Saving.SAVED),
    "a checkpoint at the last moment": (LOW, 9, 40.0, True, Saving.SAVED),
    "a checkpoint by a clock that is behind": (LOW, 3, 3.0, True, Saving.SAVED),
    "its first checkpoint": (LOW._replace(saved=NO_CHECKPOINT), 3, 3.0, True, Saving.SAVED),
    "the wait ended before its time": (LOW, 7, 39.0, True, None),
    "it was not asked: the API server did not take the request": (LOW, 7, 40.0, False, None),
    "an earlier process asked it": (LOW._replace(resumed=True), 7, 40.0, True, None),
    "an earlier process asked it, and it saved": (LOW._replace(resumed=True), 9, 3.0, True, Saving.SAVED),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_victim_fails_only_if_it_had_all_of_its_time(case: str) -> None:
    notice, saved, now, requested, verdict = VERDICTS[case]
    assert answer(notice, saved, now, requested=requested) is verdict


def test_a_checkpoint_for_an_earlier_leader_is_an_answer() -> None:
    """The leader after it has not seen the checkpoint before."""
    saved = {SAVE_REQUESTED: time_of(SECONDS - 30) or "", CHECKPOINT: time_of(SECONDS - 25) or ""}
    world = begun(node(cpu=1), victim({**SAVES, **saved}), pod("high", 1, 10))
    (notice,) = asked(world)
    (evict,) = world.evictions()
    assert not waits(world.state, [notice], MOMENT.seconds)
    given = answers(world.state, evict, [notice], 60, (MOMENT.seconds, MOMENT.seconds))
    assert (given.asked, given.saved, given.failed) == (1, 1, 0)


def _requested(**kwargs: Any) -> Any:
    return victim({**SAVES, SAVE_REQUESTED: time_of(SECONDS) or ""}, **kwargs)


def _answered(**kwargs: Any) -> Any:
    annotations = {SAVE_REQUESTED: time_of(SECONDS) or "", CHECKPOINT: time_of(SECONDS + 5) or ""}
    return victim({**SAVES, **annotations}, **kwargs)


ENDS: dict[str, tuple[Callable[[], Any], float, Answers]] = {
    # the victim at the end of the wait, the seconds that it lasted, and the answers
    "it saves its work": (_answered, 5.0, Answers(1, 1, 0, {"team-a-low": Saving.SAVED}, 0, 5.0)),
    "its time is over": (_requested, 40.0, Answers(1, 0, 1, {"team-a-low": Saving.FAILED}, 60, 40.0)),
    "the preemptor leaves before": (_requested, 39.0, Answers(1, 0, 0, {}, 60, 39.0)),
    "it ends by itself": (lambda: _requested(phase="Succeeded"), 9.0, Answers(1, 0, 0, {}, 0, 9.0)),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_answers_of_a_preemption(case: str) -> None:
    """Work that was to be saved and was not is lost."""
    end, seconds, expected = ENDS[case]
    world = begun(node(cpu=1), victim(SAVES), pod("high", 1, 10))
    (evict,) = world.evictions()
    evict = evict._replace(units=tuple(unit._replace(saves=60) for unit in evict.units), saved=60)
    noticed = asked(world)
    world.apply(end())
    times = (MOMENT.seconds, MOMENT.seconds + seconds)
    assert answers(world.state, evict, noticed, 60, times) == expected


def test_work_that_nothing_was_awaited_for_is_lost() -> None:
    """The plan counted it as saved, but its preemptor does not wait."""
    world = begun(node(cpu=1), victim(SAVES), pod("high", 1, 10))
    (evict,) = world.evictions()
    evict = evict._replace(units=tuple(unit._replace(saves=60) for unit in evict.units), saved=60)
    assert answers(world.state, evict, (), 60, (0.0, 0.0)).lost == 60
    assert answers(world.state, evict, (), 30, (0.0, 0.0)).lost == 0


def test_a_gang_fails_if_one_member_does() -> None:
    world = begun_for_a_gang()
    noticed = asked(world)
    for at, annotations in enumerate(
        ({SAVE_REQUESTED: "x", CHECKPOINT: time_of(SECONDS + 5) or ""}, {SAVE_REQUESTED: "x"})
    ):
        member = running(f"v-{at}", "n1", group="v")
        member.metadata.annotations = {**SAVES, **annotations}
        world.apply(member)
    (evict,) = world.evictions()
    given = answers(world.state, evict, noticed, 60, (MOMENT.seconds, MOMENT.seconds + 40))
    assert (given.asked, given.saved, given.failed, [*given.units.values()]) == (2, 1, 1, [Saving.FAILED])
