"""The conditions written to pods: the last message, once, and no message without effect.

Every failed attempt ends in a report, and most of them repeat the pod's condition. Writing it again would
take requests from the API server that a bind could have used.
"""

import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from tests.support.scheduling.statuses import (
    FULL,
    FULLER,
    NOTHING,
    at_work,
    everything,
    eviction,
    pod,
    ref,
    refused,
    report,
)

from podium.api.schedulable import Schedulable
from podium.errors import PodiumError
from podium.schedulerplugin.live.status import LASTING_SECONDS
from podium.schedulerplugin.scheduling.effects import PodRef, Unit

VICTIM = Unit("Pod", "team", "v", "uid-v", 1, (ref("v"),))


async def test_each_condition_is_written_once() -> None:
    """The message is in a condition and an event, once, whether the state shows it or not."""
    async with at_work() as scene:
        for name in ("a", "b"):
            scene.state.apply(pod(name))
        for again in range(3):
            scene.statuses.submit(report(FULL, "a", "b"))
            await scene.advance()
            if again == 1:
                scene.show()
        assert scene.api.log == [("mark", "a", FULL), ("mark", "b", FULL)]
        assert [(note.reason, note.regarding.name, note.text) for note in scene.notes] == [
            ("FailedScheduling", "a", FULL),
            ("FailedScheduling", "b", FULL),
        ]
        assert scene.statuses.depth == 0
        await scene.advance(60.0)
        scene.statuses.submit(report(FULL, "a", "b"))
        await scene.advance()
        assert len(scene.api.log) == 2


async def test_only_the_last_word_counts() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a"))
        for message in (FULL, FULLER, "last"):
            scene.statuses.submit(report(message, "a"))
        await scene.advance()
        assert scene.api.log == [("mark", "a", "last")]


async def test_a_word_that_was_taken_back_is_not_said() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL))
        scene.statuses.submit(report(FULLER, "a"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        assert scene.api.log == []
        assert scene.statuses.depth == 0


@pytest.mark.parametrize("last", [FULL, FULLER])
async def test_a_message_in_flight_counts_as_written(last: str) -> None:
    """The state still shows the older message; a new message is compared with the one in flight."""
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL))
        scene.api.held = asyncio.Event()
        scene.statuses.submit(report(FULLER, "a"))
        await scene.advance()
        scene.statuses.submit(report(last, "a"))
        scene.api.held.set()
        await scene.advance()
        assert scene.api.told[ref("a")][0] == last
        assert len(scene.api.log) == (2 if last == FULL else 1)


async def test_a_message_that_the_state_never_shows_is_written_again() -> None:
    """Another client may have overwritten it."""
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL))
        for wait in (0.0, 9.0, 2.0):
            await scene.advance(wait)
            scene.statuses.submit(report(FULLER, "a"))
            await scene.advance()
        assert scene.api.log == [("mark", "a", FULLER)] * 2


MOOT = {
    "bound": pod("a", bound="node-1"),
    "another of its name": pod("a", uid="uid-later"),
    "finished": pod("a", phase="Failed"),
    "being deleted": pod("a", deleted="2026-11-21T16:00:00Z"),
    "gone": None,
}


@pytest.mark.parametrize("late", [False, True], ids=["at once", "while it waits"])
@pytest.mark.parametrize("after", MOOT.values(), ids=MOOT.keys())
async def test_a_pointless_message_is_not_written(after: Schedulable | None, late: bool) -> None:
    """It costs nothing of the rate, so the others do not wait longer."""
    async with at_work() as scene:
        scene.api.busy = late
        scene.state.apply(pod("a"))
        scene.statuses.submit(report(FULL, "a"))
        if late:
            await scene.advance()
        if after is None:
            scene.state.remove(pod("a"))
        else:
            scene.state.apply(after)
        scene.api.busy = False
        await scene.advance(1.0)
        assert scene.api.log == []
        assert scene.notes == []
        assert scene.statuses.depth == 0


NODES = {
    "reserved": ("", "node-1", ("nominate", "a", FULL, "node-1")),
    "another": ("node-2", "node-1", ("nominate", "a", FULL, "node-1")),
    "not any more": ("node-1", "", ("nominate", "a", FULL, "")),
    "still": ("node-1", "node-1", ("mark", "a", FULL)),
    "never": ("", "", ("mark", "a", FULL)),
}


@pytest.mark.parametrize(("stored", "wanted", "want"), NODES.values(), ids=NODES.keys())
async def test_a_reserved_node_is_written_when_it_changes(stored: str, wanted: str, want: tuple[str]) -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a", "before", stored))
        scene.statuses.submit(report(FULL, "a", reserved={"a": wanted}))
        await scene.advance()
        assert scene.api.log == [want]


async def test_a_node_that_is_not_reserved_any_more_is_no_failure_to_tell_of() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("a", FULL, "node-1"))
        scene.statuses.submit(report(FULL, "a"))
        await scene.advance()
        assert scene.api.log == [("nominate", "a", FULL, "")]
        assert scene.notes == []


async def test_no_older_report_undoes_what_an_evictor_writes() -> None:
    """The preemption reserves a node for `a` and takes one from `b`, and writes both itself."""
    async with at_work() as scene:
        scene.api.busy = True
        for each in (pod("a"), pod("b", FULL, "node-1")):
            scene.state.apply(each)
        scene.statuses.submit(report(FULL, "a"))
        scene.statuses.submit(report("other", "b", reserved={"b": "node-1"}))
        await scene.advance()
        scene.statuses.began(eviction(cleared=(ref("b"),)), everything(eviction(cleared=(ref("b"),))))
        scene.api.busy = False
        await scene.advance(1.0)
        assert scene.api.log == [("mark", "b", "other")]
        events = [(note.regarding.name, note.text) for note in scene.notes]
        assert events == [("a", FULLER), ("b", "other")]


async def test_a_preemption_that_failed_gives_its_nodes_back() -> None:
    """The state may not show yet that they were reserved."""
    async with at_work() as scene:
        scene.state.apply(pod("a"))
        scene.statuses.began(eviction(), everything(eviction()))
        scene.statuses.submit(report(f"{FULLER} preemption: no", "a"))
        await scene.advance()
        assert scene.api.log == [("nominate", "a", f"{FULLER} preemption: no", "")]


async def test_a_preemption_that_is_over_soon_is_not_told_of() -> None:
    """Neither the pod that was bound meanwhile nor deleted victims get a message."""
    async with at_work() as scene:
        scene.state.apply(pod("a"))
        scene.state.apply(pod("v", bound="node-1"))
        evict = eviction(VICTIM)
        scene.statuses.began(evict, NOTHING)
        scene.statuses.evicted(evict, NOTHING, [ref("v")])
        await scene.advance(LASTING_SECONDS / 2)
        scene.state.remove(pod("v", bound="node-1"))
        scene.state.apply(pod("a", bound="node-1"))
        await scene.advance(60.0)
        assert (scene.api.log, scene.notes, scene.statuses.depth) == ([], [], 0)


async def test_a_preemption_that_lasts_is_told_of() -> None:
    """Autoscalers read the reserved node, and users the reason of an eviction."""
    async with at_work() as scene:
        scene.state.apply(pod("a"))
        scene.state.apply(pod("v", bound="node-1"))
        evict = eviction(VICTIM)
        scene.statuses.began(evict, NOTHING)
        scene.statuses.evicted(evict, NOTHING, [ref("v")])
        await scene.advance(LASTING_SECONDS)
        assert sorted(scene.api.log) == [("mark for deletion", "v", ""), ("nominate", "a", FULLER, "node-1")]


async def test_marks_that_came_first_are_not_written_again() -> None:
    async with at_work() as scene:
        scene.state.apply(pod("v", bound="node-1"))
        evict = eviction(VICTIM)
        scene.statuses.evicted(evict, everything(evict), [ref("v")])
        await scene.advance(60.0)
        assert (scene.api.log, scene.statuses.depth) == ([], 0)


NAMES, MESSAGES, RESERVED = ("a", "b"), (FULL, FULLER), ("", "node-1", "node-2")

STEPS = st.one_of(
    st.tuples(
        st.just("report"), st.sampled_from(NAMES), st.sampled_from(MESSAGES), st.sampled_from(RESERVED)
    ),
    st.tuples(st.just("hold")),
    st.tuples(st.just("let go")),
    st.tuples(st.just("show")),
    st.tuples(st.just("turn")),
)


@example(
    [("report", "b", "full", "node-1"), ("hold",), ("report", "b", "full", "")],
    [None, refused(500)],
)
@given(
    st.lists(STEPS, max_size=30),
    st.lists(st.sampled_from([None, refused(500), PodiumError("no answer")]), max_size=4),
)
async def test_in_the_end_every_pod_has_its_last_message(
    steps: list[tuple[str, ...]], outcomes: list[PodiumError | None]
) -> None:
    """The result is right however late writes end and the state shows them, and whatever fails."""
    async with at_work(*outcomes) as scene:
        last: dict[PodRef, tuple[str, str]] = {}
        for name in NAMES:
            scene.state.apply(pod(name))
        for kind, *rest in steps:
            match kind, rest:
                case "report", [name, message, node]:
                    scene.statuses.submit(report(message, name, reserved={name: node}))
                    last[ref(name)] = message, node
                case "hold", _ if scene.api.held is None:
                    scene.api.held = asyncio.Event()
                case "let go", _ if scene.api.held is not None:
                    scene.api.held.set()
                    scene.api.held = None
                case "show", _:
                    scene.show()
                case _:
                    await scene.advance()
        if scene.api.held is not None:
            scene.api.held.set()
            scene.api.held = None
        # A change may wait 5 s for the next one, and a failed write is repeated.
        for _ in range(15):
            await scene.advance(1.0)
        assert scene.api.told == last
        assert scene.statuses.depth == 0
