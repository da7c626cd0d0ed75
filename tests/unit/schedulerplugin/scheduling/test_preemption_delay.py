"""The waits of a preemptor before any eviction: for new nodes, and for pods whose end is known."""

from datetime import timedelta

import pytest
from tests.support.preemption.scene import group, priority_class

from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import LONGEST_WAIT_FOR_ROOM, PREEMPTION_DELAY
from podium.planner.preemption.knownends import longest_wait, preemption_delay


def seconds(*texts: str | None) -> float:
    """Return the delay of a group and a class with such annotations; None means no annotation."""
    gang, found_class = group("g"), priority_class("c", 5)
    for metadata, text in zip((gang.metadata, found_class.metadata), texts, strict=True):
        if text is not None:
            metadata.annotations = {PREEMPTION_DELAY: text}
    return preemption_delay(gang, found_class).total_seconds()


@pytest.mark.parametrize(
    "of_group, of_class, length",
    [
        pytest.param(None, None, 0, id="none"),
        pytest.param(None, "90s", 90, id="the class's"),
        pytest.param("5m", "90s", 300, id="a group that waits longer"),
        pytest.param("0s", "90s", 90, id="a group that would not wait"),
        pytest.param("1h30m", None, 5400, id="of several parts"),
        pytest.param("24h", None, 86_400, id="the longest"),
        pytest.param("24h1s", "90s", 90, id="longer than that"),
        pytest.param("soon", None, 0, id="no duration"),
        pytest.param("-5m", None, 0, id="below zero"),
        pytest.param("5m ", None, 0, id="with a blank"),
        pytest.param("9" * 400 + "h", None, 0, id="very long"),
        pytest.param(None, "300", 0, id="without a unit"),
    ],
)
def test_delay(of_group: str | None, of_class: str | None, length: float) -> None:
    """The longer one counts; a text that cannot be parsed counts as absent."""
    assert seconds(of_group, of_class) == length


def test_a_lone_pod_waits_as_its_class_says() -> None:
    """Without a group, or without a class, the other one counts; without both there is no wait."""
    found = priority_class("c", 5)
    found.metadata.annotations = {PREEMPTION_DELAY: "1m"}
    assert preemption_delay(None, found) == timedelta(minutes=1)
    assert preemption_delay(None, None) == timedelta(0)


WAITS: dict[str, tuple[str | None, str | None, str | None, int, int]] = {
    # of the group, of the class, the preemption delay of the class, the priority, and the seconds
    "none": (None, None, None, 10, 0),
    "the class's": (None, "10m", None, 10, 600),
    "the group's, which is longer": ("20m", "10m", None, 10, 1200),
    "the delay, in which nothing is evicted anyway": (None, "1m", "10m", 10, 600),
    "longer than the delay": (None, "10m", "1m", 10, 600),
    "a system class": ("20m", "10m", "10m", HIGHEST_USER_PRIORITY + 1, 0),
    "more than a day": (None, "25h", None, 10, 0),
}


@pytest.mark.parametrize(("own", "of_class", "delay", "priority", "length"), WAITS.values(), ids=WAITS)
def test_longest_wait(
    own: str | None, of_class: str | None, delay: str | None, priority: int, length: int
) -> None:
    annotations = {} if own is None else {LONGEST_WAIT_FOR_ROOM: own}
    found = priority_class("c", priority)
    given = {LONGEST_WAIT_FOR_ROOM: of_class, PREEMPTION_DELAY: delay}
    found.metadata.annotations = {key: text for key, text in given.items() if text is not None}
    assert longest_wait(group("g", annotations=annotations), found, priority) == timedelta(seconds=length)
