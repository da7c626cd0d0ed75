"""The whole table."""

from tests.hostile.rows import amounts, gangs, sizes, states, terms
from tests.hostile.table import Row

# Open defects, by row: what happens.
_WAITS = "the gang counts on the room of a pod that leaves for eleven minutes, and waits for it"
OPEN = {"leaving-for-ten-years": _WAITS, "leaving-for-ten-years-of-another": _WAITS}

ROWS: tuple[Row, ...] = (*sizes.ROWS, *amounts.ROWS, *terms.ROWS, *gangs.ROWS, *states.ROWS)
