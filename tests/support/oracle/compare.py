"""Compare the planner with the oracle: `python -m tests.support.oracle.compare [FIRST LAST]`.

It prints a line for each case that differs, and how many plans do the least harm. `--all` prints every case.
`--semantics` compares other rules. `--constrained` uses gangs that spread or keep apart, and `--shrinking`
clusters whose gangs shrink to minCount first. `--repelled` uses pods that keep the preemptor away.
"""

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tests.support.oracle import clusters
from tests.support.oracle.clusters import Case
from tests.support.oracle.least import least
from tests.support.oracle.problem import Harm, Problem, by_domain, harm, problem_of
from tests.support.preemption.clusters import NOW

from podium.api.membership import GroupKey
from podium.planner.engine import Engine
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings

_PLACED = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION)


class Compared(NamedTuple):
    """The harm of a plan and the least harm; None if no plan was found, or if none exists."""

    seed: int
    sort: str
    plan: Harm | None
    least: Harm | None

    @property
    def equal(self) -> bool:
        """Whether the plan violates no more budgets and evicts no more, priority by priority."""
        return self.plan == self.least

    @property
    def missed(self) -> bool:
        """Whether a plan exists and none was found."""
        return self.plan is None and self.least is not None

    @property
    def regret(self) -> float:
        """Pods evicted, divided by those of the least harm; 1 where neither evicts any."""
        if self.plan is None or self.least is None or self.plan.pods == self.least.pods:
            return 1.0
        return self.plan.pods / self.least.pods if self.least.pods else float("inf")


class Regret(NamedTuple):
    """The summary of many comparisons; `ratios` are those of the cases that need victims.

    `work` and `least_work` are sums of the lost work, of plans and of the least harm.
    """

    cases: int
    equal: int
    missed: int
    needless: int
    ratios: tuple[float, ...]
    work: int
    least_work: int


def compared(seed: int, case: Case, *rules: Semantics) -> list[Compared]:
    """Return the harm of the plan by each of the rules, and the least harm, on one cluster."""
    spec = Engine(case.state, Settings())
    problem = problem_of(spec, case.target, NOW)
    group = case.state.groups.get(case.target) if isinstance(case.target, GroupKey) else None
    topology = group.topology if group is not None else ""
    problems = by_domain(spec, problem, topology) if topology else [problem]
    best = min((found.harm for found in map(least, problems) if found is not None), default=None)
    results = []
    for semantics in rules:
        engine = spec if semantics is Semantics.KEP else Engine(case.state, Settings(semantics=semantics))
        decision = engine.decide(case.target, NOW)
        results.append(Compared(seed, case.sort, harm_of(engine, problem, decision), best))
    return results


def harm_of(engine: Engine, problem: Problem, decision: Decision) -> Harm | None:
    """Return the harm of a decision of the engine, None if it places no pod.

    The decision's victims must make the room on which it places pods.
    """
    if decision.outcome not in _PLACED:
        return None
    assert decision.target is not None, "the preemptor is placed"
    units, _ = engine.units(for_group=decision.target.group is not None, now=int(NOW.timestamp()))
    victims = () if decision.chosen is None else units.all_members(decision.chosen.plan.victims).tolist()
    assert len(decision.placed) >= problem.needed
    room = {node: Counter(free) for node, free in problem.free.items()}
    for pod in (pod for unit in problem.units for pod in unit.pods):
        if pod.row in victims and pod.node in room:
            room[pod.node].update(dict(pod.amounts))
    snapshot = engine.snapshot
    for row, node in decision.placed.items():
        requests = dict(snapshot.shapes[snapshot.shape.item(row)].requests)
        room[node].subtract(requests)
        assert all(room[node][name] >= 0 for name in requests), (snapshot.names[node], room[node])
    return harm(problem, victims)


def regret(cases: Iterable[Compared]) -> Regret:
    """Sum up comparisons."""
    seen = list(cases)
    both = [
        (each.regret, each.plan, each.least)
        for each in seen
        if each.plan is not None and each.least is not None
    ]
    return Regret(
        len(seen),
        sum(each.equal for each in seen),
        sum(each.missed for each in seen),
        sum(ratio == float("inf") for ratio, _, _ in both),
        tuple(ratio for ratio, _, best in both if best.pods),
        sum(plan.work for _, plan, _ in both),
        sum(best.work for _, _, best in both),
    )


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "seeds", nargs="*", type=int, default=[0, 100], help="first seed, and one after the last"
    )
    parser.add_argument("--semantics", type=Semantics, default=Semantics.KEP)
    parser.add_argument("--constrained", action="store_true")
    parser.add_argument("--shrinking", action="store_true")
    parser.add_argument("--repelled", action="store_true")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args(arguments)
    make = clusters.constrained if given.constrained else clusters.generated
    make = clusters.shrinking if given.shrinking else make
    make = clusters.repelled if given.repelled else make
    seen = []
    for seed in range(*given.seeds) if len(given.seeds) > 1 else given.seeds:
        (each,) = compared(seed, make(seed), given.semantics)
        seen.append(each)
        if given.all or not each.equal:
            print(_line(each), flush=True)  # noqa: T201 - the command's output
    print(_sum(regret(seen)))  # noqa: T201 - as above
    return 0


def _line(of: Compared) -> str:
    plan, best = _words(of.plan), _words(of.least)
    return f"{of.seed:>5} {of.sort:<10} pods x{of.regret:<6.2f} plan: {plan} | least: {best}"


def _sum(of: Regret) -> str:
    ratios = of.ratios or (1.0,)
    return (
        f"{of.equal} of {of.cases} equal; {of.missed} missed; {of.needless} evict without need; "
        f"pods x{statistics.median(ratios):.2f} median, x{max(ratios):.2f} worst "
        f"of {len(of.ratios)} with victims"
    )


def _words(of: Harm | None) -> str:
    if of is None:
        return "none"
    lost = ", ".join(f"{each.units} units {each.pods} pods at {each.priority}" for each in of.lost)
    return f"violates {of.violations}; {lost or 'no victims'}; work {of.work / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
