"""Preemptions on a timeline: lanes by mode, round spans, and any time that a record may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.api.records import Party, RecordedPlan
from podium.cli.render.pictures.drawing import Box, Drawing, Spot, Style, svg
from podium.cli.ui.history import SPANS, timeline


def plan(time: str, mode: str = "Enforced", result: str = "Evicted", pods: int = 1) -> RecordedPlan:
    party = Party("Pod", "a", "x")
    return RecordedPlan(time=time, mode=mode, result=result, preemptor=party, podCount=pods)


def drawn(*plans: RecordedPlan) -> Drawing:
    made = timeline(plans)
    assert made is not None
    return made


def bars(drawing: Drawing) -> list[float]:
    return [box.height for box in drawing.boxes if box.style is Style.EVENT]


@pytest.mark.parametrize("times", [[], ["yesterday"]])
def test_without_a_time_there_is_no_timeline(times: list[str]) -> None:
    assert timeline([plan(time) for time in times]) is None


def test_each_mode_has_a_lane_on_one_scale() -> None:
    """A failed plan has a lane of its own, visible without pods; an unknown mode is shown."""
    made = drawn(
        plan("2026-11-16T09:00:00Z", pods=8),
        plan("2026-11-16T09:00:30Z", pods=4),
        plan("2026-11-16T09:30:00Z", "Observed", pods=6),
        plan("2026-11-16T09:40:00Z", result="Failed", pods=0),
        plan("2026-11-16T09:50:00Z", "Dreamt", pods=0),
    )
    words = [label.words for label in made.labels]
    assert words[:4] == [
        "Enforced: 2 plans, 12 pods",
        "Enforced, failed: 1 plan, 0 pods",
        "Observed only: 1 plan, 6 pods",
        "Other modes: 1 plan, 0 pods",
    ]
    assert words[4] == "highest bar: 12 pods"
    first, failed, observed, _ = bars(made)
    assert first == 2 * observed
    assert 0 < failed < observed


SPREADS = {
    "one moment": ("2026-11-16T09:12:40Z", "2026-11-16T09:12:40Z", "2026-11-16 09:12", "2026-11-16 09:13"),
    "an hour": ("2026-11-16T09:12:40Z", "2026-11-16T10:10:00Z", "2026-11-16 09:12", "2026-11-16 10:11"),
    "a day": ("2026-11-16T09:12:40Z", "2026-11-17T09:12:40Z", "2026-11-16 09:00", "2026-11-17 10:00"),
    "a month": ("2026-10-16T09:12:40Z", "2026-11-16T09:12:40Z", "2026-10-16", "2026-11-17"),
    "a zone": ("2026-11-16T11:12:40+02:00", "2026-11-16T09:13:00Z", "2026-11-16 09:12", "2026-11-16 09:14"),
    "a year": ("2025-11-16T09:12:40Z", "2026-11-16T09:12:40Z", "2025-11-13", "2026-11-19"),
    "all time": ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01", "9999-12-31"),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spans_are_round_and_few(name: str) -> None:
    first, last, start, end = SPREADS[name]
    made = drawn(plan(first), plan(last))
    assert [label.words for label in made.labels[-2:]] == [start, end]
    assert len(bars(made)) == len(made.spots)


def test_a_full_timeline_is_small() -> None:
    modes = ("Enforced", "Observed", "Dreamt")
    made = drawn(
        *(plan(f"2026-11-16T09:{at:02}:00Z", mode, pods=at) for at in range(SPANS) for mode in modes)
    )
    assert len(made.spots) == SPANS * len(modes)
    assert len(svg(made)) < 100_000


@given(st.lists(st.tuples(st.datetimes(), st.integers(-5, 10**9), st.sampled_from(["Enforced", "Observed"]))))
def test_bars_stay_inside(given_: list[tuple[object, int, str]]) -> None:
    made = timeline([plan(f"{at}Z".replace(" ", "T"), mode, pods=pods) for at, pods, mode in given_])
    assert (made is None) == (not given_)
    if made is None:
        return
    shapes: list[Box | Spot] = [*made.boxes, *made.spots]
    for box in shapes:
        assert 0 <= box.x <= box.x + box.width <= 100.1
        assert 0 <= box.y <= box.y + box.height <= made.height
    assert len({box.x for box in made.boxes}) <= SPANS + 1
    assert svg(made).startswith("<svg")
