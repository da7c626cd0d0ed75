"""The names that programs import from podium.schedulerplugin."""

import pytest

from podium import schedulerplugin


@pytest.mark.parametrize("name", schedulerplugin.__all__)
def test_each_listed_name_exists(name: str) -> None:
    assert getattr(schedulerplugin, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'podium\.schedulerplugin' has no attribute 'planner'"):
        schedulerplugin.planner  # noqa: B018 - the access is the test
