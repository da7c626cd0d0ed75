"""Limits on requests that wait for an object that the cluster state does not have yet.

A tenant chooses the objects that its requests name, so it can make any number of them wait. Each namespace
has a share. If the share or the total is used up, a request is judged at once with the current state. No
request is refused because others wait.
"""

from collections import Counter

# A waiting request needs little memory, because its body is released.
PLACES = 100
PLACES_OF_NAMESPACE = 10


class Room:
    """The waiting requests, by namespace."""

    def __init__(self, places: int = PLACES, share: int = PLACES_OF_NAMESPACE) -> None:
        self._places = places
        self._share = share
        self._taken: Counter[str] = Counter()

    def enter(self, namespace: str) -> bool:
        """Reserve a place until `leave`. Return False if there is none."""
        if self._taken[namespace] >= self._share or self._taken.total() >= self._places:
            return False
        self._taken[namespace] += 1
        return True

    def leave(self, namespace: str) -> None:
        """Release a place."""
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
