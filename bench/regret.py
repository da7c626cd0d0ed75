"""Regret: the pods that a plan evicts, divided by those of the least harm that an integer program finds.

The clusters and the program are those of tests/conformance/oracle, so the figures are of the cases that the
tests assert.
"""

from collections.abc import Callable, Iterator
from statistics import median

from bench.results import Row, Section
from tests.support.oracle import clusters
from tests.support.oracle.clusters import Case
from tests.support.oracle.compare import Compared, compared, regret

from podium.planner.semantics import Semantics

RULES = (Semantics.KEP, Semantics.V1_38, Semantics.V1_37, Semantics.V1_36)
# The kinds of clusters compared, how a seed makes one, and how many there are.
SUBJECTS: tuple[tuple[str, Callable[[int], Case], int], ...] = (
    ("8-GPU nodes full of whole gangs", clusters.full_of_gangs, 25),
    ("all sorts", clusters.generated, 1_000),
    ("gangs that spread or keep apart", clusters.constrained, 300),
)
_NOTE = """
Seeds from 0. The least harm violates the fewest budgets, then loses the least work, pods and units of the
highest priority, then of the next, and so on; an integer program (HiGHS) finds it. The first clusters have
40 to 200 nodes of 8 accelerators, full of whole gangs of one priority; the preemptor wants 1 to 32 of the
nodes. The others have 3 to 20 nodes with and without accelerators, gangs and lone pods of up to four
priorities, budgets, taints and some free room. There the preemptor is a lone pod or a gang of one or two
shapes, some with a minCount below their size; in the last rows it runs one pod a host or spreads over hosts
or zones. Regret is of the clusters with at least one victim. A unit that loses a pod counts with all its
pods. Work: the lost work of all clusters, divided by that of the least harm. Equal: the same violations, and
of each priority the same work, pods and units. Missed: no plan where one exists.
"""


def measure() -> Section:
    """Measure all subjects; takes about three minutes."""
    rows = []
    for label, make, number in SUBJECTS:
        seen = list(_compared(make, number))
        rows += [_row(label, rules, [compared[at] for compared in seen]) for at, rules in enumerate(RULES)]
    return Section("Regret", rows, _NOTE)


def _compared(make: Callable[[int], Case], number: int) -> Iterator[list[Compared]]:
    for seed in range(number):
        yield compared(seed, make(seed), *RULES)


def _row(label: str, rules: Semantics, seen: list[Compared]) -> Row:
    of = regret(seen)
    share = 100 * of.equal / of.cases
    figure = (
        f"{median(of.ratios):.2f} x, worst {max(of.ratios):.1f} x; work {of.work / of.least_work:.2f} x; "
        f"equal {share:.1f} %, missed {of.missed}, evicts without need {of.needless}"
    )
    return Row(f"{label}, {of.cases:,} clusters, {rules}", figure)
