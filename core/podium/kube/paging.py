"""Read a list page by page, with a page size that adapts to the bytes per object.

500 objects of 7 MB would be one answer of 3.6 GB. So the limit of the next page follows from the bytes of the
last. If an answer is still too long, it is abandoned and requested again with fewer objects. One object
always fits (see LONGEST_ANSWER). A continue token is a position in the list, so the limit may change between
pages.
"""

from podium.kube.connection import Connection, TooLargeError

# The page size of client-go.
MOST_OBJECTS = 500
# The target size of a page: the cost of a request is small, and so is its share of the process' memory.
PAGE_BYTES = 8 << 20
# The divisor of the limit after a page that was too long.
_FEWER = 8


class Pager:
    """Requests the pages of one list; `query` is part of every request."""

    def __init__(
        self, connection: Connection, path: str, query: dict[str, str], most: int | None = None
    ) -> None:
        """`most` is the maximum number of objects in a page; None means MOST_OBJECTS."""
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
        """Set the limit of the next page to what fits PAGE_BYTES, and at most twice the limit before."""
        fits = self.limit * PAGE_BYTES // max(size, 1)
        self.limit = max(1, min(fits, 2 * self.limit, self._most))
