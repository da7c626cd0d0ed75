"""Indexes by key, as plugins keep them, and the question which kinds were read."""

from collections.abc import Callable, Collection
from typing import TypeVar

# Returns the kinds that were not read, or not entirely.
Unread = Callable[[], Collection[str]]
Key = TypeVar("Key")
Item = TypeVar("Item")


def discard(index: dict[Key, set[Item]], key: Key, item: Item) -> None:
    """Remove an item from a set of an index, and the set if it is empty then."""
    items = index[key]
    items.discard(item)
    if not items:
        del index[key]
