"""All rows of the table at once, and the memory that the largest leave behind."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.hostile.attacked import AttackedCluster
from tests.support.hostile.rows.everything import ROWS
from tests.support.hostile.table import Row
from tests.support.hostile.tenant import Tenant
from tests.support.hostile.watched import MIB

pytestmark = [pytest.mark.server, pytest.mark.timeout(1200)]

# Rows that are written at the same time.
_WRITERS = 4
# The rows that cost a process most memory, each in another way.
_LARGEST = (
    *("env-of-escapes", "env-of-escapes-to-schedule", "most-resources", "selectors-of-many-keys"),
    *("many-preferences", "many-tolerations", "large-selector", "native-group-of-escapes"),
)
# An allocator keeps a process's maximum in fragments and reuses it. Later growth is memory that was not
# freed. These rows are 20 MB of JSON, so objects that were kept would add 40 MiB.
_ADDED = 24 * MIB
_TIMES = 3


def _written(rows: Collection[Row], tenant: Tenant) -> None:
    """Write rows at the same time."""

    def write(row: Row) -> None:
        with tenant.another(row.name) as mine:
            row.write(mine)

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(write, rows))


def test_all_rows_together(attacked: AttackedCluster) -> None:
    """Podium works as before while all rows exist."""
    attacked.endures(lambda tenant: _written(ROWS, tenant), "all")


def test_memory_is_returned(attacked: AttackedCluster) -> None:
    """Repeating the same attack adds no memory, and leaves room for another attack."""
    rows = [each for each in ROWS if each.name in _LARGEST]
    assert len(rows) == len(_LARGEST)
    processes = attacked.podium.processes
    attacked.endures(lambda tenant: _written(rows, tenant), "largest")
    most = {name: each.peak for name, each in processes.items()}
    for _ in range(_TIMES - 1):
        attacked.endures(lambda tenant: _written(rows, tenant), "largest")
    added = {name: each.resident - most[name] for name, each in processes.items()}
    assert max(added.values()) <= _ADDED, f"bytes beyond the most of the first time: {added}"
    assert all(each.resident <= each.limit // 2 for each in processes.values())
