"""The waiting room: which requests may wait for an object that the cluster does not know yet.

A tenant decides which objects its requests name, so it can have any number of them wait. A namespace has a
share, and when its share or the room is full, a request is judged at once by what is known: no request is
refused because others wait.
"""

from collections import Counter

# Each holds little: its body is let go.
PLACES = 100
PLACES_OF_NAMESPACE = 10


class Room:
    """The requests that wait, by namespace."""

    def __init__(self, places: int = PLACES, share: int = PLACES_OF_NAMESPACE) -> None:
        self._places = places
        self._share = share
        self._taken: Counter[str] = Counter()

    def enter(self, namespace: str) -> bool:
        """Take a place, to be given back by `leave`; False where there is none."""
        if self._taken[namespace] >= self._share or self._taken.total() >= self._places:
            return False
        self._taken[namespace] += 1
        return True

    def leave(self, namespace: str) -> None:
        """Give a place back."""
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
