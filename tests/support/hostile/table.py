"""The form of a row: a few writes of a tenant that the API server accepts, extreme in one thing."""

from collections.abc import Callable
from typing import NamedTuple

from tests.support.hostile.tenant import Tenant

Write = Callable[[Tenant], None]


class Row(NamedTuple):
    """A row; the docstring of `write` names the extreme.

    A row that `fills` puts pods of its own on all of the honest tenant's nodes.
    """

    name: str
    write: Write
    fills: bool


class Table(list[Row]):
    """Rows in the order of their definition."""

    def row(self, write: Write) -> Write:
        """Add a row."""
        return self._add(write, fills=False)

    def filling(self, write: Write) -> Write:
        """Add a row whose pods take all of the honest tenant's nodes."""
        return self._add(write, fills=True)

    def _add(self, write: Write, *, fills: bool) -> Write:
        self.append(Row(write.__name__.replace("_", "-"), write, fills))
        return write
