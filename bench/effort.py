"""The processor time of a unit of effort: each function of selectors beside the usual one.

A budget of effort bounds the time of a selector only if no function is much cheaper to charge than to run.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

from bench.results import ROUNDS, Row, Section, spread
from tests.support.kubecel.effort import CASES, COMPILED, compilation, evaluation

_MOST = 3.0
_SHOWN = 5
_NOTE = f"""
Processor time of a unit of effort in times of the median: the {_SHOWN} dearest of the expressions in
tests/support/kubecel/effort.py. None may take more than {_MOST:g} times the median.
"""


def measure() -> Section:
    """Measure all expressions; takes about a minute."""
    rows = [
        *_dearest("evaluate", {name: evaluation(name) for name in CASES}),
        *_dearest("compile", {name: compilation(name) for name in COMPILED}),
    ]
    return Section("Effort of selectors", rows, _NOTE)


def _dearest(work: str, charged: Mapping[str, Callable[[], int]]) -> list[Row]:
    rounds = [_relative({name: _unit(run) for name, run in charged.items()}) for _ in range(ROUNDS + 1)][1:]
    ratios = {name: [units[name] for units in rounds] for name in charged}
    dearest = sorted(ratios, key=lambda name: -statistics.median(ratios[name]))[:_SHOWN]
    return [Row(f"{work}: {name}", spread(ratios[name], "x")) for name in dearest]


def _relative(units: Mapping[str, float]) -> dict[str, float]:
    usual = statistics.median(units.values())
    return {name: unit / usual for name, unit in units.items()}


def _unit(run: Callable[[], int]) -> float:
    # The garbage of the case before is no cost of this one.
    gc.collect()
    start = time.process_time()
    effort = run()
    return (time.process_time() - start) / effort
