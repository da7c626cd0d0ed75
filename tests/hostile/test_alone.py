"""Each row of the table alone, against Podium as installed."""

import pytest
from tests.support.hostile.attacked import AttackedCluster
from tests.support.hostile.rows.everything import ROWS
from tests.support.hostile.table import Row

pytestmark = pytest.mark.server


@pytest.mark.parametrize("row", [pytest.param(each, id=each.name) for each in ROWS])
def test_a_row_alone(attacked: AttackedCluster, row: Row) -> None:
    """Podium works as before while the objects of the row exist, and after their deletion."""
    attacked.endures(row.write, row.name, fills=row.fills)
