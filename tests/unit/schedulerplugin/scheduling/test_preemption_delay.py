"""The window for an autoscaler: the wait of a preemptor for new nodes before any eviction."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.preemption.scene import group, priority_class

from podium.schedulerplugin.scheduling.evictionlimits import (
    DELAY_ANNOTATION,
    Delay,
    preemption_delay,
    window_end,
)

SINCE = datetime(2026, 5, 1, 12, tzinfo=UTC)
BAD = "is no duration of at most 24h, such as 90s, 5m or 1h30m."


def seconds(*texts: str | None) -> tuple[float, str]:
    """Return the delay of a group and a class with such annotations; None means no annotation."""
    gang, found_class = group("g"), priority_class("c", 5)
    for metadata, text in zip((gang.metadata, found_class.metadata), texts, strict=True):
        if text is not None:
            metadata.annotations = {DELAY_ANNOTATION: text}
    found = preemption_delay(gang, found_class)
    return found.length.total_seconds(), found.problem


@pytest.mark.parametrize(
    "of_group, of_class, length, problem",
    [
        pytest.param(None, None, 0, "", id="none"),
        pytest.param(None, "90s", 90, "", id="the class's"),
        pytest.param("5m", "90s", 300, "", id="a group that waits longer"),
        pytest.param("0s", "90s", 90, "", id="a group that would not wait"),
        pytest.param("1h30m", None, 5400, "", id="of several parts"),
        pytest.param("24h", None, 86_400, "", id="the longest"),
        pytest.param("24h1s", "90s", 90, f"of PodGroup g is ignored: '24h1s' {BAD}", id="longer than that"),
        pytest.param("soon", None, 0, f"of PodGroup g is ignored: 'soon' {BAD}", id="no duration"),
        pytest.param("-5m", None, 0, f"of PodGroup g is ignored: '-5m' {BAD}", id="below zero"),
        pytest.param("5m ", None, 0, f"of PodGroup g is ignored: '5m ' {BAD}", id="with a blank"),
        pytest.param(
            "9" * 400 + "h", None, 0, f"of PodGroup g is ignored: {'9' * 40!r} {BAD}", id="very long"
        ),
        pytest.param(None, "300", 0, f"of PriorityClass c is ignored: '300' {BAD}", id="without a unit"),
    ],
)
def test_delay(of_group: str | None, of_class: str | None, length: float, problem: str) -> None:
    """The longer one counts; a text that cannot be parsed is logged, and counts as absent."""
    found, note = seconds(of_group, of_class)
    assert found == length
    assert note == (problem and f"The annotation scheduling.podium.dev/preemption-delay {problem}")


def test_both_problems_are_said() -> None:
    """Two bad annotations are two sentences."""
    assert seconds("x", "y")[1].count("is ignored") == 2


def test_a_lone_pod_waits_as_its_class_says() -> None:
    """Without a group, or without a class, the other one counts; without both there is no wait."""
    found = priority_class("c", 5)
    found.metadata.annotations = {DELAY_ANNOTATION: "1m"}
    assert preemption_delay(None, found) == Delay(timedelta(minutes=1))
    assert preemption_delay(None, None) == Delay(timedelta(0))


def test_deadline() -> None:
    """The window starts with the first failed attempt."""
    assert window_end(SINCE, timedelta(minutes=5)) == SINCE + timedelta(minutes=5)
    assert window_end(SINCE, timedelta(0)) is None
