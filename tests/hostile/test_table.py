"""The table of hostile rows is consistent."""

from tests.support.hostile.rows.everything import ROWS

_LEAST = 80


def test_the_table_is_long_and_each_row_has_a_name_of_its_own() -> None:
    """A row's name is short, because the names of its objects begin with it."""
    names = [each.name for each in ROWS]
    assert len(names) == len(set(names)) >= _LEAST
    assert all(each.write.__doc__ for each in ROWS)
    assert max(map(len, names)) < 50
