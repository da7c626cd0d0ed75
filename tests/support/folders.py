"""Resources that the modules of a folder share, closed after the folder's last test.

pytest's scope `package` needs an __init__.py in the folder, and a resource of the session's scope stays until
the worker ends. An idle server, with its watchers, takes a twentieth of a processor from all later tests.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class Kept:
    """Resources of a folder by name, each created once."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], AbstractContextManager[T]]) -> T:
        """Return the resource of this name; create it if it does not exist."""
        if name not in self._made:
            self._made[name] = self._stack.enter_context(make())
        made: T = self._made[name]
        return made


_KEPT = pytest.StashKey[Kept]()


@pytest.fixture(scope="module")
def kept(request: pytest.FixtureRequest) -> Kept:
    """Return the resources that all modules of the folder share."""
    folder = request.node.getparent(pytest.Dir)
    if _KEPT not in folder.stash:
        stack = ExitStack()
        folder.stash[_KEPT] = Kept(stack)

        def end() -> None:
            del folder.stash[_KEPT]
            stack.close()

        folder.addfinalizer(end)
    found: Kept = folder.stash[_KEPT]
    return found
