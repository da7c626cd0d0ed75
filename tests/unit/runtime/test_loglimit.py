"""The limit of log lines: a few of each kind in a period, and the number of those left out."""

from podium.runtime.logs import Seldom


def test_lines_beyond_the_limit_are_counted_until_the_next_period() -> None:
    seconds = iter([0.0, 10.0, 20.0, 59.9, 60.0, 61.0, 62.0, 125.0])
    limit = Seldom(2, 60.0, lambda: next(seconds))
    assert [limit.admit_line("a") for _ in range(4)] == [0, 0, None, None]
    assert [limit.admit_line("a") for _ in range(3)] == [2, 0, None]
    assert limit.admit_line("a") == 1


def test_each_kind_has_its_own_limit() -> None:
    limit = Seldom(1, 60.0, lambda: 0.0)
    assert [limit.admit_line(kind) for kind in "aabb"] == [0, None, 0, None]
