"""Binding: all pods of a decision at the same time, each with its own result."""

import asyncio

import pytest
from tests.support.scheduling.recording import Recorded, Write, pod

from podium.errors import PodiumError
from podium.planner.liveplugin import GoneError
from podium.schedulerplugin.live.writes import bind_all, together
from podium.schedulerplugin.scheduling.effects import Bind, PodRef

GANG = Bind(("team", "train"), tuple((pod(f"p{number}"), f"n{number}") for number in range(5)))


async def test_all_at_the_same_time_and_each_is_told() -> None:
    """A failing bind stops no other."""
    gone, refused = GoneError("gone"), PodiumError("refused")
    ends = {Write("bind", "p0", "n0"): gone, Write("bind", "p3", "n3"): refused}
    writes = Recorded(ends)
    results: list[tuple[str, str, PodiumError | None]] = []
    await bind_all(writes, GANG, lambda ref, node, error: results.append((ref.name, node, error)))
    assert writes.most == 5
    assert sorted(results, key=lambda each: each[0]) == [
        ("p0", "n0", gone),
        ("p1", "n1", None),
        ("p2", "n2", None),
        ("p3", "n3", refused),
        ("p4", "n4", None),
    ]


async def test_each_bind_is_reported_before_the_others_end() -> None:
    """A gang of a thousand takes a second; a failed bind is retried at once."""
    writes = Recorded(limit=2)
    story: list[str] = []
    writes.watch = lambda: story.append(f"bind {writes.begun[-1].pod}")
    await bind_all(writes, GANG, lambda ref, _node, _error: story.append(f"done {ref.name}"))
    assert story.index("done p0") < story.index("bind p4")
    assert writes.most == 2


async def test_cancelled_no_more_is_begun() -> None:
    """The next leader finds the binds that were in flight when it lists the cluster."""
    writes = Recorded(limit=2)
    results: list[str] = []
    binding = asyncio.create_task(bind_all(writes, GANG, lambda ref, _node, _error: results.append(ref.name)))
    writes.at(2, binding.cancel)
    with pytest.raises(asyncio.CancelledError):
        await binding
    assert len(writes.begun) < len(GANG.pods)
    assert len(results) < len(writes.begun)


async def test_an_unexpected_exception_is_a_bug() -> None:
    """The exception ends the work and is not suppressed."""
    writes = Recorded({Write("bind", "p1", "n1"): KeyError("bug")})

    def done(_ref: PodRef, _node: str, _error: PodiumError | None) -> None:
        return

    with pytest.raises(ExceptionGroup) as raised:
        await bind_all(writes, GANG, done)
    assert [type(each) for each in raised.value.exceptions] == [KeyError]


async def test_together_of_nothing_is_done() -> None:
    assert await together([], 64) is None
