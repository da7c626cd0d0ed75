"""The conditions written to groups: one apply has all of our conditions, whatever the state shows yet.

An apply removes the conditions it does not name, so each apply repeats the earlier ones.
"""

import asyncio

import pytest
from tests.support.scheduling.statuses import (
    FULL,
    FULLER,
    KEY,
    at_work,
    everything,
    eviction,
    pod,
    ref,
    refused,
    report,
)
from tests.unit.schedulerplugin.scheduling.test_conditions import GOES, INITIALLY, WELL, group_with

from podium.api.groups import PodGroup
from podium.api.meta import Condition
from podium.schedulerplugin.live.status import LASTING_SECONDS
from podium.schedulerplugin.scheduling.effects import ReportPending, Unit
from podium.schedulerplugin.scheduling.messages import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.schedulerplugin.scheduling.preemptions import Announcements


def whole(group: PodGroup = group_with()) -> Unit:  # noqa: B008 - an immutable value
    """Return the unit of a group."""
    return Unit("PodGroup", "team", "train", group.metadata.uid or "", 5, (ref("v1"), ref("v2")))


async def test_a_group_is_told_with_its_pods() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        for name in ("a", "b"):
            scene.state.apply(pod(name))
        scene.statuses.submit(report(FULL, "a", "b", key=KEY))
        await scene.advance()
        assert scene.api.log == [
            ("group", "uid-train", f"{INITIALLY}=False"),
            ("mark", "a", FULL),
            ("mark", "b", FULL),
        ]
        (condition,) = scene.api.groups["uid-train"]
        assert (condition.reason, condition.message) == (UNSCHEDULABLE, FULL)
        scene.statuses.submit(report(FULL, "a", "b", key=KEY))
        await scene.advance()
        assert len(scene.api.log) == 3


async def test_a_group_that_cannot_be_judged() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.submit(ReportPending(KEY, (), SCHEDULER_ERROR, "a claim"))
        await scene.advance()
        (condition,) = scene.api.groups["uid-train"]
        assert (condition.reason, condition.message) == (SCHEDULER_ERROR, "a claim")


async def test_a_group_that_was_scheduled_stays_so() -> None:
    """Each message is written, whether or not the state shows the earlier one yet."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULLER))
        await scene.advance()
        assert scene.api.log == [("group", "uid-train", f"{INITIALLY}=True")]


async def test_a_group_that_is_evicted_is_a_target_until_it_is_scheduled_anew() -> None:
    """Each apply has all of our conditions, although the state shows none of them yet."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        await scene.advance()
        scene.statuses.began(eviction(whole()), everything(eviction(whole())))
        await scene.advance()
        scene.statuses.placed(KEY, "again")
        await scene.advance()
        assert scene.api.log == [
            ("group", "uid-train", f"{INITIALLY}=True"),
            ("group", "uid-train", f"{INITIALLY}=True", "DisruptionTarget=True"),
            ("group", "uid-train", f"{INITIALLY}=True"),
        ]


async def test_a_group_is_no_target_after_its_preemption_was_given_up() -> None:
    """A group that lost a pod already stays scheduled."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.began(eviction(whole()), everything(eviction(whole())))
        await scene.advance()
        scene.statuses.gave_up(eviction(whole()), [ref("v2")])
        await scene.advance()
        assert scene.api.log == [("group", "uid-train", "DisruptionTarget=True")]
        scene.statuses.gave_up(eviction(whole()), [])
        await scene.advance()
        assert scene.api.log[1:] == [("group", "uid-train")]


async def test_a_preemptors_group_is_told_what_it_waits_for() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.began(eviction(key=KEY), everything(eviction(key=KEY)))
        await scene.advance(LASTING_SECONDS)
        (condition,) = scene.api.groups["uid-train"]
        assert (condition.status, condition.message) == ("False", FULLER)


async def test_a_later_group_of_the_name_is_told_anew() -> None:
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        await scene.advance()
        scene.state.apply(group_with(uid="uid-later"))
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert scene.api.log[1:] == [("group", "uid-later", f"{INITIALLY}=False")]


async def test_a_group_that_is_gone_is_not_told() -> None:
    async with at_work() as scene:
        scene.statuses.placed(KEY, "all of them")
        await scene.advance(1.0)
        assert (scene.api.log, scene.statuses.depth) == ([], 0)


async def test_a_group_is_told_again_after_trouble_what_it_is_then() -> None:
    """The results of both attempts are written together."""
    async with at_work(refused(500)) as scene:
        scene.state.apply(group_with())
        scene.statuses.placed(KEY, "all of them")
        await scene.advance()
        scene.statuses.began(eviction(whole()), everything(eviction(whole())))
        await scene.advance(1.0)
        assert scene.api.log[-1] == ("group", "uid-train", f"{INITIALLY}=True", "DisruptionTarget=True")


async def test_a_stored_group_condition_is_ours_after_a_restart() -> None:
    async with at_work() as scene:
        theirs = Condition("PodsNotMatchingPriority", "True", "PriorityMismatch", "they differ")
        scene.state.apply(group_with(theirs, WELL, GOES))
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert scene.api.log == []
        scene.statuses.placed(KEY, "again")
        await scene.advance()
        assert scene.api.groups["uid-train"] == (WELL,)


async def test_a_group_is_told_at_once_what_must_be_known_before_the_first_delete() -> None:
    """The group has that condition at once, although hot writes are in flight; it is written once."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.api.busy = True
        evict = eviction(whole())
        scene.statuses.began(evict, Announcements((), (), evict.units))
        assert await scene.statuses.target(evict, whole())
        await scene.advance(5.0)
        assert scene.api.log == [("group", "uid-train", "DisruptionTarget=True")]
        scene.api.busy = False
        scene.statuses.withdraw([KEY])
        await scene.advance(1.0)
        assert scene.api.log[1:] == [("group", "uid-train")]


async def test_two_writes_to_a_group_do_not_overtake_each_other() -> None:
    """An apply that leaves a condition out removes it, so it waits for the one before."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.api.held = asyncio.Event()
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        evict = eviction(whole())
        write = asyncio.create_task(scene.statuses.target(evict, whole()))
        await scene.advance()
        assert not write.done()
        scene.api.held.set()
        scene.api.held = None
        await scene.advance()
        assert await write
        assert scene.api.log[-1] == ("group", "uid-train", f"{INITIALLY}=False", "DisruptionTarget=True")


@pytest.mark.parametrize("code", [403, 500])
async def test_a_group_that_cannot_be_told_is_said_so(code: int) -> None:
    """The evictor then marks its pods."""
    async with at_work(refused(code)) as scene:
        scene.state.apply(group_with())
        assert not await scene.statuses.target(eviction(whole()), whole())
        scene.state.remove(group_with())
        assert not await scene.statuses.target(eviction(whole()), whole())
