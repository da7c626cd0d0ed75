"""The names that programs import from podium.planner, and under its earlier name, podium.schedulerplugin."""

from types import ModuleType

import pytest

from podium import planner, schedulerplugin

LIBRARIES = pytest.mark.parametrize("library", [planner, schedulerplugin])


@LIBRARIES
def test_each_listed_name_exists(library: ModuleType) -> None:
    for name in planner.__all__:
        assert getattr(library, name).__name__ == name


@LIBRARIES
def test_another_name_is_an_attribute_error(library: ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"module '{library.__name__}' has no attribute 'tea'"):
        library.tea  # noqa: B018 - the access is the test
