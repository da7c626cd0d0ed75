"""The whole table."""

from tests.support.hostile.rows import amounts, devices, gangs, refused, sizes, states, terms, trees
from tests.support.hostile.table import Row

ROWS: tuple[Row, ...] = (
    *(*sizes.ROWS, *amounts.ROWS, *terms.ROWS, *gangs.ROWS),
    *(*states.ROWS, *devices.ROWS, *refused.ROWS, *trees.ROWS),
)
