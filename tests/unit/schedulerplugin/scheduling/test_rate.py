"""The limit of units evicted in a minute: no minute exceeds it, and no entry waits for ever."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.schedulerplugin.scheduling.evictionlimits import EvictionRate

LIMIT = 5


@pytest.mark.parametrize(
    "taken, units, now, seconds",
    [
        pytest.param([], 1, 0.0, 0.0, id="the first"),
        pytest.param([(4, 0.0)], 1, 1.0, 0.0, id="up to the limit at once"),
        pytest.param([(5, 0.0)], 1, 1.0, 59.0, id="one more, when the first has counted for a minute"),
        pytest.param([(3, 0.0), (2, 30.0)], 2, 40.0, 20.0, id="two more, for the oldest two"),
        pytest.param([(3, 0.0), (2, 30.0)], 4, 40.0, 50.0, id="more, for the younger ones too"),
        pytest.param([(1, 0.0)], 9, 20.0, 40.0, id="more than the limit, when nothing counts"),
        pytest.param([], 9, 0.0, 0.0, id="more than the limit, as nothing counts"),
        pytest.param([(9, 0.0)], 1, 59.0, 1.0, id="four of nine count from the next minute"),
        pytest.param([(9, 0.0)], 2, 60.0, 60.0, id="and leave room for one more in that"),
    ],
)
def test_wait(taken: list[tuple[int, float]], units: int, now: float, seconds: float) -> None:
    """A plan waits until the counted evictions leave room for it."""
    rate = EvictionRate()
    for number, at in taken:
        rate.charge(LIMIT, number, at)
    assert rate.wait(LIMIT, units, now) == seconds
    assert rate.wait(LIMIT, units, now + seconds) == 0.0
    assert rate.wait(None, units, now) == 0.0


@given(
    st.lists(st.tuples(st.integers(1, 12), st.floats(0.0, 50.0)), max_size=8),
    st.integers(1, 10),
    st.booleans(),
)
def test_left_is_what_may_go_at_once(taken: list[tuple[int, float]], limit: int, closed: bool) -> None:
    """Units within the limit need no wait, and one more does."""
    rate, now = EvictionRate(), 0.0
    if closed:
        rate.close(now)
    for units, pause in taken:
        now += pause
        rate.charge(limit, units, now)
    left = rate.left(limit, now)
    assert [rate.wait(limit, units, now) == 0.0 for units in range(1, limit + 1)] == [
        units <= left for units in range(1, limit + 1)
    ]


def test_a_limit_that_is_set_later_counts_what_went_before() -> None:
    """Evictions without a limit, or by an earlier process, count."""
    rate = EvictionRate()
    rate.charge(None, 3, 100.0)
    rate.restore([70.0, 90.0])
    assert rate.wait(LIMIT, 1, 100.0) == 30.0
    assert rate.wait(6, 1, 100.0) == 0.0


@pytest.mark.parametrize(
    "taken, units, now, seconds",
    [
        pytest.param([], 1, 100.0, 60.0, id="no eviction at first"),
        pytest.param([], 9, 100.0, 60.0, id="more than the limit when all may"),
        pytest.param([], 5, 130.0, 30.0, id="what is left of the minute"),
        pytest.param([], 5, 160.0, 0.0, id="and then all"),
        pytest.param([(5, 90.0)], 1, 100.0, 60.0, id="what is known to have gone before costs no more"),
        pytest.param([(1, 165.0), (4, 170.0)], 2, 175.0, 55.0, id="after it as ever"),
    ],
)
def test_no_pod_is_evicted_for_a_minute_after_unknown_evictions(
    taken: list[tuple[int, float]], units: int, now: float, seconds: float
) -> None:
    """The limit holds also if it is set, or raised, only then."""
    rate = EvictionRate()
    rate.close(100.0)
    for number, at in taken:
        rate.charge(LIMIT, number, at)
    assert rate.wait(LIMIT, units, now) == seconds
    assert rate.wait(LIMIT, units, now + seconds) == 0.0
    assert rate.wait(10 * LIMIT, 1, now) == max(0.0, 160.0 - now)
    assert rate.wait(None, units, now) == 0.0


class _Crashed(NamedTuple):
    """A process of a crash loop: its delay after the last one, and the plans that it tries after pauses."""

    pause: float
    plans: list[tuple[int, float]]


@given(
    st.lists(
        st.builds(
            _Crashed,
            st.floats(0.0, 90.0),
            st.lists(st.tuples(st.integers(1, LIMIT), st.floats(0.0, 45.0)), max_size=4),
        ),
        max_size=12,
    )
)
def test_never_more_in_any_minute_of_a_crash_loop(processes: list[_Crashed]) -> None:
    """The limit holds even if no eviction is ever recorded."""
    now = 0.0
    taken: list[tuple[float, int]] = []
    for process in processes:
        now += process.pause
        rate = EvictionRate()
        rate.close(now)
        for units, pause in process.plans:
            now += pause
            if rate.wait(LIMIT, units, now) == 0.0:
                rate.charge(LIMIT, units, now)
                taken.append((now, units))
    for start, _ in taken:
        # Waits are rounded to a microsecond.
        assert sum(units for at, units in taken if start <= at < start + 60.0 - 1e-5) <= LIMIT


@given(st.lists(st.tuples(st.integers(1, 12), st.floats(0.0, 90.0)), max_size=20), st.integers(1, 6))
def test_never_more_in_any_minute(plans: list[tuple[int, float]], limit: int) -> None:
    """In any minute, and in the long run, the limit holds except for one plan; no preemptor starves."""
    rate, now = EvictionRate(), 0.0
    taken: list[tuple[float, int]] = []
    for units, pause in plans:
        now += pause
        wait = rate.wait(limit, units, now)
        assert wait <= 60.0 * (12 / limit + 1)
        now += wait
        assert rate.wait(limit, units, now) == 0.0
        rate.charge(limit, units, now)
        taken.append((now, units))
    for start, _ in taken:
        # Waits are rounded to a microsecond.
        within = [units for at, units in taken if start <= at < start + 60.0 - 1e-5]
        assert sum(within) <= limit or len(within) == 1
        since = [units for at, units in taken if at >= start]
        assert sum(since[:-1]) <= limit * ((now - start + 1e-5) // 60.0 + 1) or len(since) == 1
