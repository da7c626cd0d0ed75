"""The conditions written to groups: one apply has all of our conditions, whatever the state shows yet.

An apply removes the conditions it does not name, so each apply repeats the earlier ones.
"""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from tests.support.scheduling.statuses import (
    FULL,
    FULLER,
    KEY,
    NOTHING,
    Scene,
    at_work,
    everything,
    eviction,
    pod,
    ref,
    refused,
    report,
)
from tests.unit.schedulerplugin.scheduling.test_conditions import GOES, INITIALLY, OURS, WELL, group_with

from podium.api.core import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.api.findings import ObjectRef
from podium.api.groups import CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.meta import Condition, ObjectMeta
from podium.api.reads import COMPOSITE_VERSION
from podium.groups.trees import MAX_GROUPS
from podium.schedulerplugin.live.status import LASTING_SECONDS
from podium.schedulerplugin.scheduling.effects import ReportPending, Unit
from podium.schedulerplugin.scheduling.preemptions import Announcements

ROOT, INNER = (GroupKey(False, "team", name, composite=True) for name in ("root", "inner"))
WAITING, TARGET = "CompositePodGroupInitiallyScheduled", "DisruptionTarget"
# A tree: the group `train` below `inner` below `root`.
TREE = ("uid-root", "uid-inner", "uid-train")


def composite(
    name: str, parent: str = "", *, version: str = OURS, generation: int | None = 3
) -> CompositeGroup:
    """Return a composite group."""
    return CompositeGroup(
        ref=ObjectRef(version, "CompositePodGroup", "team", name),
        metadata=ObjectMeta(name=name, namespace="team", uid=f"uid-{name}", generation=generation),
        min_group_count=1,
        disruption_mode=DisruptionMode.POD_GROUP,
        priority_class_name="",
        priority=5,
        preemption_policy=None,
        template_ref=None,
        composite=parent,
    )


def plant(scene: Scene) -> None:
    """Add the tree to the state."""
    for each in (composite("root"), composite("inner", "root")):
        scene.state.apply(each)
    scene.state.apply(msgspec.structs.replace(group_with(), composite="inner"))


def tree_unit() -> Unit:
    """Return the unit of the tree."""
    return Unit("CompositePodGroup", "team", "root", "uid-root", 5, (ref("v1"), ref("v2")))


def shown(scene: Scene) -> dict[str, tuple[str, ...]]:
    """Return the conditions of each group as written last, with their status."""
    return {
        uid: tuple(f"{each.type}={each.status}" for each in conditions)
        for uid, conditions in scene.api.groups.items()
    }


REPORTS: dict[str, tuple[Callable[[Scene], None], str, tuple[str, ...]]] = {
    "why it waits": (
        lambda scene: scene.statuses.submit(ReportPending(ROOT, (), UNSCHEDULABLE, FULL)),
        "{}=False",
        TREE,
    ),
    "a layout that is invalid": (
        lambda scene: scene.statuses.submit(ReportPending(ROOT, (), "Invalid", "a cycle")),
        "{}=False",
        TREE,
    ),
    "why the rest below a group waits": (
        lambda scene: scene.statuses.submit(ReportPending(INNER, (), UNSCHEDULABLE, FULL)),
        "{}=False",
        TREE[1:],
    ),
    "that it preempts": (lambda scene: scene.statuses.began(eviction(key=ROOT), NOTHING), "{}=False", TREE),
    "that it is scheduled": (
        lambda scene: scene.statuses.placed([ROOT, INNER, KEY], "all of them"),
        "{}=True",
        TREE,
    ),
    "that a part is scheduled": (
        lambda scene: scene.statuses.placed([ROOT, INNER], "all of them"),
        "{}=True",
        TREE[:2],
    ),
    "that it is evicted": (
        lambda scene: scene.statuses.began(eviction(tree_unit()), NOTHING),
        TARGET + "=True",
        TREE,
    ),
}


@pytest.mark.parametrize(("tell", "condition", "uids"), REPORTS.values(), ids=REPORTS)
async def test_a_report_about_a_composite_group_is_written_to_its_tree(
    tell: Callable[[Scene], None], condition: str, uids: tuple[str, ...]
) -> None:
    """Each group has the condition of its kind, and each is written once."""
    async with at_work() as scene:
        plant(scene)
        tell(scene)
        await scene.advance(LASTING_SECONDS)
        kinds = {"uid-train": INITIALLY, "uid-inner": WAITING, "uid-root": WAITING}
        assert shown(scene) == {uid: (condition.format(kinds[uid]),) for uid in uids}
        tell(scene)
        await scene.advance(LASTING_SECONDS)
        assert len(scene.api.log) == len(uids)


@pytest.mark.parametrize(("version", "generation"), [(OURS, 3), (COMPOSITE_VERSION, None)])
async def test_a_condition_of_a_composite_group_has_reason_message_and_generation(
    version: str, generation: int | None
) -> None:
    async with at_work() as scene:
        root = composite("root", version=version, generation=generation)
        scene.state.apply(root)
        scene.statuses.submit(ReportPending(key_of(root), (), SCHEDULER_ERROR, "a claim"))
        await scene.advance()
        (condition,) = scene.api.groups["uid-root"]
        assert (condition.type, condition.reason, condition.message, condition.observedGeneration) == (
            WAITING,
            SCHEDULER_ERROR,
            "a claim",
            generation,
        )


async def test_a_composite_group_that_was_scheduled_stays_so() -> None:
    """An eviction of the tree ends when it is scheduled again, or was given up."""
    async with at_work() as scene:
        plant(scene)
        scene.statuses.placed([ROOT, INNER, KEY], "all of them")
        await scene.advance()
        scene.statuses.submit(ReportPending(ROOT, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert len(scene.api.log) == len(TREE)
        ends: tuple[Callable[[], None], ...] = (
            lambda: scene.statuses.placed([ROOT, INNER, KEY], "again"),
            lambda: scene.statuses.withdraw([ROOT]),
            lambda: scene.statuses.gave_up(eviction(tree_unit()), []),
        )
        for end in ends:
            scene.statuses.began(eviction(tree_unit()), NOTHING)
            await scene.advance(LASTING_SECONDS)
            assert {TARGET + "=True" in each for each in shown(scene).values()} == {True}
            end()
            await scene.advance()
            scheduled = dict.fromkeys(TREE[:2], (f"{WAITING}=True",))
            assert shown(scene) == {**scheduled, "uid-train": (f"{INITIALLY}=True",)}


async def test_the_root_is_told_before_the_first_delete_and_the_rest_if_it_lasts() -> None:
    """The mark of the root is the record of the preemption."""
    async with at_work() as scene:
        plant(scene)
        evict = eviction(tree_unit())
        scene.statuses.began(evict, Announcements((), (), evict.units))
        assert await scene.statuses.target(evict, tree_unit())
        assert scene.api.log == [("group", "uid-root", "DisruptionTarget=True")]
        await scene.advance(LASTING_SECONDS)
        assert shown(scene) == dict.fromkeys(TREE, (TARGET + "=True",))


async def test_composite_groups_that_may_not_be_written_keep_no_group_out() -> None:
    async with at_work(refused(403), refused(403)) as scene:
        plant(scene)
        scene.statuses.submit(ReportPending(ROOT, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert shown(scene) == {"uid-train": (f"{INITIALLY}=False",)}
        assert [what for what, _ in scene.logged] == ["status not written"]


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
        scene.statuses.placed([KEY], "all of them")
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULLER))
        await scene.advance()
        assert scene.api.log == [("group", "uid-train", f"{INITIALLY}=True")]


async def test_a_group_that_is_evicted_is_a_target_until_it_is_scheduled_anew() -> None:
    """Each apply has all of our conditions, although the state shows none of them yet."""
    async with at_work() as scene:
        scene.state.apply(group_with())
        scene.statuses.placed([KEY], "all of them")
        await scene.advance()
        scene.statuses.began(eviction(whole()), everything(eviction(whole())))
        await scene.advance()
        scene.statuses.placed([KEY], "again")
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
        scene.statuses.placed([KEY], "all of them")
        await scene.advance()
        scene.state.apply(group_with(uid="uid-later"))
        scene.statuses.submit(ReportPending(KEY, (), UNSCHEDULABLE, FULL))
        await scene.advance()
        assert scene.api.log[1:] == [("group", "uid-later", f"{INITIALLY}=False")]


async def test_a_group_that_is_gone_is_not_told() -> None:
    async with at_work() as scene:
        scene.statuses.placed([KEY], "all of them")
        await scene.advance(1.0)
        assert (scene.api.log, scene.statuses.depth) == ([], 0)


async def test_a_group_is_told_again_after_trouble_what_it_is_then() -> None:
    """The results of both attempts are written together."""
    async with at_work(refused(500)) as scene:
        scene.state.apply(group_with())
        scene.statuses.placed([KEY], "all of them")
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
        scene.statuses.placed([KEY], "again")
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


async def test_a_report_about_a_tree_that_is_too_large_is_written_to_its_root() -> None:
    """Each write comes back as an event, so a report about a tree costs as many events as it has groups."""
    async with at_work() as scene:
        plant(scene)
        for at in range(MAX_GROUPS):
            scene.state.apply(composite(f"more-{at}", "root"))
        scene.statuses.submit(ReportPending(ROOT, (), UNSCHEDULABLE, "its tree is too large"))
        await scene.advance()
        assert list(shown(scene)) == ["uid-root"]
