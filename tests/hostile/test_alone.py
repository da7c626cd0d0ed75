"""Rows of the table alone, against Podium as installed."""

import os
import random

import pytest
from tests.support.hostile.attacked import AttackedCluster
from tests.support.hostile.rows.everything import ROWS
from tests.support.hostile.table import Row
from tests.support.servers import FULL

pytestmark = pytest.mark.server


def _of_run() -> tuple[Row, ...]:
    """Return the rows of this run: half of them, drawn by its seed, all at length or without a seed.

    `test_together` writes all rows in each run. Each row alone takes two seconds, and finds which one it is.
    """
    seed = os.environ.get("PODIUM_SEED")
    if FULL or not seed:
        return ROWS
    return tuple(row for row in ROWS if random.Random(f"{seed} {row.name}").random() < 0.5)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in _of_run()])
def test_a_row_alone(attacked: AttackedCluster, row: Row) -> None:
    """Podium works as before while the objects of the row exist, and after their deletion."""
    attacked.endures(row.write, row.name, fills=row.fills)
