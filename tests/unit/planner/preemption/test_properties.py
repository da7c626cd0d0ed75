"""The engine against a plain brute force, and properties of every plan."""

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from tests.support.preemption.clusters import NOW, OURS, Object, clusters, objects, state_of, target
from tests.support.preemption.plain_cluster import Cluster, still_fits
from tests.support.preemption.plain_preemption import (
    eligible,
    harm,
    plans,
    preemptor_of,
    promised,
    running,
    staying,
    units,
)

from podium.planner import Outcome, Plan, Settings, plan
from podium.planner.preemption.outcome import UnitVerdict
from podium.planner.settings import Budgets

Case = tuple[Cluster, str]


def planned(case: Case, **settings: Any) -> Plan:
    """Return the engine's plan."""
    cluster, name = case
    return plan(state_of(objects(cluster)), target(name), NOW, Settings(evict_only=OURS, **settings))


def placed(answer: Plan) -> dict[str, str]:
    """Return the nodes of the preemptor's pods."""
    return {each.pod.partition("/")[2]: each.node for each in answer.placements}


def left(case: Case, answer: Plan, *, but: UnitVerdict | None = None) -> dict[str, str]:
    """Return the nodes of the pods that remain without the victims and the leaving pods."""
    cluster, _ = case
    gone = {pod.name for unit in answer.victims if unit is not but for pod in unit.pods}
    holding = {**staying(cluster), **promised(cluster, preemptor_of(*case))}
    return {name: at for name, at in holding.items() if name not in gone}


# The best first.
OUTCOMES = (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION, Outcome.DOES_NOT_FIT, Outcome.NOT_ELIGIBLE)


@given(clusters(), st.sampled_from(Budgets))
def test_no_plan_is_worse_than_that_of_the_plain_algorithm(case: Case, budgets: Budgets) -> None:
    """It finds a plan if KEP-5710's own steps do; if only resources decide, one of no more harm.

    If ports and anti-affinity decide too, a plan may do more harm, because that search is weaker.
    """
    answer = planned(case, budgets=budgets)
    expected = plans(*case, strict=budgets is Budgets.STRICT)
    event(f"{answer.outcome}, {len(answer.victims)} victims")
    (outcome,) = {each.outcome for each in expected}
    assert OUTCOMES.index(answer.outcome) <= OUTCOMES.index(Outcome(outcome))
    by_resources = not any(pod.avoids or pod.ports for pod in case[0].pods)
    if answer.victims and outcome != Outcome.DOES_NOT_FIT and by_resources:
        by_name = {unit.name: unit for unit in units(case[0])}
        theirs = [[by_name[victim.unit] for victim in each.victims] for each in expected]
        mine = [by_name[victim.name] for victim in answer.victims]
        assert harm(case[0], mine) <= min(harm(case[0], victims) for victims in theirs)


@given(clusters(), st.sampled_from(Budgets))
def test_properties_of_every_plan(case: Case, budgets: Budgets) -> None:
    """For its placement, for each victim, and for the units that are not victims."""
    answer = planned(case, budgets=budgets)
    check_placement(case, answer)
    for victim in answer.victims:
        check_victim(case, answer, victim)
        assert not (victim.violatesBudget and budgets is Budgets.STRICT)
    assert len({unit.name for unit in answer.victims}) == len(answer.victims)
    listed = {pod.name for unit in (*answer.victims, *answer.spared) for pod in unit.pods}
    assert not listed & {pod.name for pod in case[0].pods if pod.leaving}


def check_placement(case: Case, answer: Plan) -> None:
    """Assert that enough pods are placed, and fit once the victims and leaving pods are gone."""
    cluster, _ = case
    if answer.outcome in (Outcome.DOES_NOT_FIT, Outcome.NOT_ELIGIBLE):
        assert (answer.placements, answer.victims, answer.minimalPriority) == ((), (), None)
        return
    preemptor = preemptor_of(*case)
    assert len(placed(answer)) >= preemptor.needed
    assert set(placed(answer)) <= {pod.name for pod in preemptor.pods}
    beside = running(cluster) if answer.outcome == Outcome.FITS else left(case, answer)
    assert still_fits(cluster, beside, placed(answer))


def check_victim(case: Case, answer: Plan, victim: UnitVerdict) -> None:
    """Assert that a victim is a whole unit that may be evicted, of at most N, and is necessary."""
    cluster, _ = case
    unit = next(unit for unit in units(cluster) if unit.name == victim.name)
    assert {(pod.name, pod.node) for pod in unit.pods} == {(pod.name, pod.node) for pod in victim.pods}
    assert (victim.kind, victim.priority) == ("PodGroup" if unit.grouped else "Pod", unit.priority)
    assert eligible(cluster, unit, preemptor_of(*case).priority)
    assert answer.minimalPriority is not None
    assert victim.priority <= answer.minimalPriority
    assert not still_fits(cluster, left(case, answer, but=victim), placed(answer))


@given(clusters(), st.data())
def test_the_order_of_the_input_does_not_matter(case: Case, data: st.DataObject) -> None:
    """The whole answer is the same, including reasons and examples."""
    cluster, name = case
    shuffled: list[Object] = data.draw(st.permutations(objects(cluster)))
    assert plan(state_of(shuffled), target(name), NOW, Settings(evict_only=OURS)) == planned(case)
