"""Victims that are asked to save their work: the time for which their eviction waits, and its end."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import NOW, NS, time_of
from tests.support.preemption.scene import SECONDS, group, marked_for_deletion, node
from tests.support.scheduling.objects import begun, running
from tests.support.scheduling.rig import World, pod

from podium.api.saving import CHECKPOINT, SAVE_REQUESTED, SAVES_ON_NOTICE, SAVES_ON_TERMINATION
from podium.schedulerplugin.scheduling.effects import Moment
from podium.schedulerplugin.scheduling.preemptions import Notice, notices, waits

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


def test_all_members_are_awaited() -> None:
    team = group("v", whole=True)
    members = [running(f"v-{at}", "n1", group="v") for at in range(2)]
    for member in members:
        member.metadata.annotations = SAVES
    world = begun(node(cpu=2), team, *members, pod("high", 2, 10))
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
