"""Log and memory of a day of work, compressed into minutes: both stay small."""

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.day import log_bytes, memory, run_gangs, simulated
from tests.support.e2e.work import Space
from tests.support.faults.writing import CLASS

pytestmark = pytest.mark.e2e

# A day of a shared cluster: 200 gangs of five pods.
_ROUNDS, _GANGS, _MEMBERS = 10, 20, 5
_NODES = 16
# Limits: the memory that a process adds in the second half of the day, and its log of the whole day.
_GROWTH_MIB = 8.0
_LOG_BYTES = 2 * 2**20


def test_a_day_of_work_fills_neither_memory_nor_log(podium_nodes: Nodes, measured: Measured) -> None:
    space = Space(podium_nodes)
    before = log_bytes(podium_nodes)
    noon: dict[str, float] = {}
    with simulated(podium_nodes, _NODES):
        for each in range(_ROUNDS):
            if each == _ROUNDS // 2:
                noon = memory(podium_nodes)
            run_gangs(space, CLASS, _GANGS, _MEMBERS, each * _GANGS)
        evening = memory(podium_nodes)
    after = log_bytes(podium_nodes)
    logged = {name: after[name] - before[name] for name in after}
    growth = {name: evening[name] - noon[name] for name in evening}
    for name, size in evening.items():
        measured(f"{name}: {size:.0f} MiB (noon {noon[name]:.0f}), {logged[name]:,} bytes of log")
    assert max(growth.values()) < _GROWTH_MIB
    assert max(logged.values()) < _LOG_BYTES
