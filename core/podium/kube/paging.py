"""Read a list page by page, each as many objects as its bytes allow.

500 objects of 7 MB are one answer of 3.6 GB. So the limit of the next page follows from the bytes of the
last. An answer that is too long all the same is given up, and asked for again with fewer objects. One object
always fits (see LONGEST_ANSWER). A continue token is a place in the list, so the limit may change on the way.
"""

from podium.kube.connection import Connection, TooLargeError

# As client-go asks.
MOST_OBJECTS = 500
# What a page should have: large enough that the request costs little, small beside the memory of a process.
PAGE_BYTES = 8 << 20
# Of the limit of a page that was too long.
_FEWER = 8


class Pager:
    """Asks for the pages of one list, one after the other; `query` is what every request has."""

    def __init__(
        self, connection: Connection, path: str, query: dict[str, str], most: int | None = None
    ) -> None:
        """`most` is how many objects a page has at most, MOST_OBJECTS if it is None."""
        self._connection = connection
        self._path = path
        self._query = query
        self._most = self.limit = MOST_OBJECTS if most is None else most

    async def page(self, token: str = "") -> bytes:
        """Return the body of the page at a continue token. Raises PodiumError."""
        query = {**self._query, "continue": token} if token else self._query
        while True:
            try:
                body = await self._connection.get(self._path, **query, limit=str(self.limit))
            except TooLargeError:
                if self.limit == 1:
                    raise
                self.limit = max(1, self.limit // _FEWER)
                continue
            self._adapt(len(body))
            return body

    def _adapt(self, size: int) -> None:
        """Choose the limit of the next page: what PAGE_BYTES hold, and at most twice as many as before."""
        fits = self.limit * PAGE_BYTES // max(size, 1)
        self.limit = max(1, min(fits, 2 * self.limit, self._most))
