"""The pods that budgets count, and those that violate them, compared with a plain oracle."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import NS, empty_snapshot, pod
from tests.support.filters.plain_dynamic import matches
from tests.support.preemption.clusters import NOW, clusters, objects, state_of
from tests.support.preemption.plain_cluster import Cluster

from podium.api.core import PodDisruptionBudget
from podium.planner import Engine
from podium.planner.preemption import budgets as budget_index
from podium.planner.preemption.budgets import MOST_BUDGETS, MOST_VALUES, BudgetIndex
from podium.planner.semantics import Charge


def budget(
    name: str = "pdb",
    selector: Mapping[str, Any] | None = None,
    allowed: int | None = 0,
    *,
    namespace: str = NS,
    disrupted: Sequence[str] = (),
) -> PodDisruptionBudget:
    """Make a budget that selects `app: a` by default; without a status if `allowed` is None."""
    given = {"matchLabels": {"app": "a"}} if selector is None else selector
    status = {
        "disruptionsAllowed": allowed,
        "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
    }
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": given},
            "status": None if allowed is None else status,
        },
        PodDisruptionBudget,
    )


class Scene:
    """Running pods and budgets; pods are charged in the order in which they were made."""

    def __init__(self, *, empty_selector: bool = True) -> None:
        self.snapshot = empty_snapshot()
        self.index = BudgetIndex(self.snapshot, empty_selector=empty_selector)
        self.budgets: dict[tuple[str, str], PodDisruptionBudget] = {}

    def run(self, *names: str, labels: Mapping[str, str] | None = None, namespace: str = NS) -> "Scene":
        for name in names:
            worn = {"app": "a"} if labels is None else labels
            self.snapshot.apply(None, pod(name, namespace=namespace, labels=worn, node="n"))
        return self

    def put(self, *budgets: PodDisruptionBudget) -> "Scene":
        for each in budgets:
            key = each.metadata.namespace or "", each.metadata.name or ""
            self.index.apply(self.budgets.get(key), each)
            self.budgets[key] = each
        return self

    def drop(self, name: str, namespace: str = NS) -> "Scene":
        self.index.apply(self.budgets.pop((namespace, name)), None)
        return self

    def rows(self) -> Any:
        return np.fromiter(self.snapshot.pod_row.values(), np.intp)

    def of(self, name: str, namespace: str = NS) -> list[str]:
        """Return the budgets of a pod."""
        row = self.snapshot.pod_row[namespace, name]
        return [budget for _, budget in self.index.charges(np.array([row], np.intp))]

    def violations(self, units: Sequence[int] | None = None, charge: Charge = Charge.EVERY) -> list[int]:
        rows = self.rows()
        numbers = np.arange(len(rows)) if units is None else np.array(units, np.int64)
        found = self.index.violations(rows, numbers, charge)
        return list(found.tolist())


def test_a_budget_counts_the_pods_of_its_namespace_that_its_selector_matches() -> None:
    scene = Scene().run("in").run("other", labels={"app": "b"}).run("away", namespace="team-b").put(budget())
    assert [scene.of("in"), scene.of("other"), scene.of("away", "team-b")] == [["pdb"], [], []]


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "Is", "values": ["a"]}]}, id="operator"
        ),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "NotIn"}]}, id="NotIn without values"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]},
            id="Exists with values",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "no key", "operator": "DoesNotExist"}]}, id="no label key"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "-"]}]},
            id="no label value",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["a"] * MOST_VALUES}]},
            id="many values",
        ),
    ],
)
def test_a_selector_that_counts_no_pod(selector: Mapping[str, Any]) -> None:
    """It violates nothing. A selector that a server would refuse is named."""
    scene = Scene().run("a", "b").put(budget(selector=selector))
    assert scene.of("a") == []
    assert scene.violations() == [0, 0]
    fields = [problem.field for problem in scene.index.problems()]
    assert fields == ["spec.selector"]


def test_a_pod_is_compared_with_a_limited_number_of_budgets() -> None:
    """The first by name count, in whatever order they were made."""
    everything = {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}
    budgets = [budget(f"b{at:04}", everything, 0) for at in range(2 * MOST_BUDGETS)]
    labelled = budget("a", {"matchLabels": {"app": "x"}}, 0)
    for made in ([*budgets, labelled], [labelled, *reversed(budgets)]):
        scene = Scene().run("p", labels={"app": "x"}).put(*made)
        assert scene.of("p") == ["a", *(f"b{at:04}" for at in range(MOST_BUDGETS - 1))]


def test_the_memory_of_budgets_does_not_grow_with_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each label of a pod makes another set of its budgets."""
    monkeypatch.setattr(budget_index, "_MOST_ENTRIES", 16)
    budgets = [
        budget(f"b{at}", {"matchExpressions": [{"key": "n", "operator": "NotIn", "values": [str(at)]}]}, 0)
        for at in range(8)
    ]
    scene = Scene().put(*budgets)
    for at in (*range(8), *range(8)):
        assert scene.run("p", labels={"n": str(at)}).of("p") == [f"b{n}" for n in range(8) if n != at]
    assert len(scene.index._flat) <= 16 + 8


def test_a_budget_without_a_selector_or_a_spec_counts_no_pod() -> None:
    without = budget("bare")
    without.spec = None
    absent = budget("absent")
    assert absent.spec is not None
    absent.spec.selector = None
    scene = Scene().run("a").put(without, absent)
    assert scene.violations() == [0]
    assert scene.index.problems() == []


@pytest.mark.parametrize(
    ("empty_selector", "selector", "violations"),
    [
        (True, {}, [1, 1]),
        (False, {}, [0, 0]),
        (True, {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, [1, 1]),
        (False, {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, [0, 1]),
    ],
)
def test_an_empty_selector_and_pods_without_labels(
    selector: Mapping[str, Any], violations: list[int], *, empty_selector: bool
) -> None:
    """Both count in the eviction API and in kube-scheduler 1.38, and do not up to 1.37."""
    scene = Scene(empty_selector=empty_selector).run("bare", labels={}).run("labelled")
    assert scene.put(budget(selector=selector)).violations() == violations


@pytest.mark.parametrize(
    ("allowed", "violating"),
    [(None, [1, 1, 1]), (-1, [1, 1, 1]), (0, [1, 1, 1]), (1, [0, 1, 1]), (2, [0, 0, 1]), (3, [0, 0, 0])],
)
def test_the_most_important_pods_use_up_a_budget(allowed: int | None, violating: list[int]) -> None:
    """A budget without a status allows nothing, and so does a negative one, which is named."""
    scene = Scene().run("a", "b", "c").put(budget(allowed=allowed))
    assert scene.violations() == violating
    assert [problem.field for problem in scene.index.problems()] == (
        ["status.disruptionsAllowed"] if allowed == -1 else []
    )
    assert scene.drop("pdb").index.problems() == []


def test_a_disrupted_pod_is_not_charged_again() -> None:
    scene = Scene().run("a", "b", "c").put(budget(allowed=1, disrupted=["a", "gone"]))
    assert scene.violations() == [0, 0, 1]
    assert scene.of("a") == []
    scene.put(budget(allowed=1))
    assert scene.violations() == [0, 1, 1]


def test_another_pod_in_the_row_of_a_disrupted_pod_is_charged() -> None:
    scene = Scene().run("a").put(budget(disrupted=["a"]))
    assert scene.violations() == [0]
    scene.snapshot.remove_pod((NS, "a"))
    assert scene.run("b").violations() == [1]


def test_every_member_of_a_unit_is_charged_and_counted() -> None:
    scene = Scene().run("a", "b", "c", "d").put(budget(allowed=1))
    assert scene.violations([0, 0, 0, 1]) == [2, 1]


def test_two_budgets_charge_one_pod_and_it_violates_either() -> None:
    wide = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    scene = Scene().run("a").run("b", labels={"app": "b"}).run("c")
    scene.put(budget("narrow", allowed=5), budget("wide", wide, allowed=1))
    assert scene.of("a") == ["narrow", "wide"]
    assert scene.violations() == [0, 1, 1]


CHARGES = [
    (Charge.EVERY, [1, 1, 1]),
    # The first violates `a` and leaves `b` unchanged, so the second, which is in `b` only, may be evicted.
    (Charge.POD_STOPS, [1, 0, 1]),
]


@pytest.mark.parametrize(("charge", "violating"), CHARGES)
def test_the_rule_may_stop_charging_at_a_violated_budget(charge: Charge, violating: list[int]) -> None:
    b = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    scene = Scene().run("first").run("second", "third", labels={"app": "b"})
    scene.put(budget("b", b, allowed=1), budget("a", allowed=0))
    assert scene.violations(charge=charge) == violating


@pytest.mark.parametrize(
    ("charge", "violations"),
    [(Charge.EVERY, [2, 1, 1]), (Charge.POD_STOPS, [2, 1, 1]), (Charge.UNIT_STOPS, [1, 0, 1])],
)
def test_the_rule_may_stop_charging_after_a_violating_unit(charge: Charge, violations: list[int]) -> None:
    """1.36 charges no more pods of a group after one of them violates."""
    scene = Scene().run("m0").run("m1", "m2", "x", "y", labels={"app": "b"})
    scene.put(budget("a", allowed=0), budget("b", {"matchLabels": {"app": "b"}}, allowed=1))
    assert scene.violations([0, 0, 0, 1, 2], charge) == violations


def test_nodes_that_may_violate_are_those_with_more_victims_than_a_budget_allows() -> None:
    scene = Scene().run("a", "b", "c", "d").run("e", labels={"app": "free"}).put(budget(allowed=1))
    nodes = np.array([7, 3, 7, 4, 3], np.int32)
    assert scene.index.may_violate(scene.rows(), nodes).tolist() == [7]
    scene.put(budget(allowed=0))
    assert scene.index.may_violate(scene.rows(), nodes).tolist() == [3, 4, 7]
    scene.put(budget(allowed=2))
    assert scene.index.may_violate(scene.rows(), nodes).tolist() == []


def test_no_potential_victims() -> None:
    scene = Scene()
    assert scene.violations() == []
    assert scene.index.may_violate(scene.rows(), np.zeros(0, np.int32)).tolist() == []
    scene.run("a")
    assert scene.violations() == [0]
    assert scene.index.may_violate(scene.rows(), np.zeros(1, np.int32)).tolist() == []


def test_a_budget_that_is_added_changed_or_removed_counts_at_once() -> None:
    """Its status alone, its selector, another budget under its id, and labels of pods."""
    scene = Scene().run("a")
    assert scene.violations() == [0]
    assert scene.put(budget()).violations() == [1]
    assert scene.put(budget(allowed=1)).violations() == [0]
    assert scene.put(budget(selector={"matchLabels": {"app": "b"}})).violations() == [0]
    assert scene.run("a", labels={"app": "b"}).violations() == [1]
    assert scene.drop("pdb").violations() == [0]
    assert scene.put(budget("new")).violations() == [0]
    assert scene.run("a").of("a") == ["new"]
    scene.index.apply(budget("never seen"), None)
    assert scene.violations() == [1]


LABELS = st.fixed_dictionaries({}, optional={key: st.sampled_from(["x", "y"]) for key in ("app", "tier")})
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.fixed_dictionaries(
    {"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
BUDGETS = st.builds(
    lambda name, selector, allowed, namespace, disrupted: budget(
        name, selector, allowed, namespace=namespace, disrupted=disrupted
    ),
    st.sampled_from(["p", "q", "r"]),
    SELECTORS,
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from(["one", "two"]),
    st.lists(st.sampled_from(["pod-0", "pod-1", "pod-2"]), max_size=1),
)
PODS = st.tuples(st.sampled_from(["one", "two"]), LABELS)


def plain(
    pods: Sequence[tuple[str, Mapping[str, str]]],
    units: Sequence[int],
    budgets: Sequence[PodDisruptionBudget],
    charge: Charge,
) -> list[int]:
    """Charge one pod after another; budgets in order of name."""
    left = {id(pdb): (pdb.status.disruptionsAllowed or 0) if pdb.status else 0 for pdb in budgets}
    found = [0] * (max(units, default=-1) + 1)
    for number, (namespace, labels) in enumerate(pods):
        unit = units[number]
        if charge is Charge.UNIT_STOPS and found[unit]:
            continue
        violates = False
        for pdb in sorted(budgets, key=lambda pdb: pdb.metadata.name or ""):
            selector = pdb.spec.selector if pdb.spec else None
            if selector is None or pdb.metadata.namespace != namespace:
                continue
            if not matches(msgspec.to_builtins(selector), labels):
                continue
            if pdb.status is not None and f"pod-{number}" in (pdb.status.disruptedPods or {}):
                continue
            left[id(pdb)] -= 1
            violates = violates or left[id(pdb)] < 0
            if violates and charge is not Charge.EVERY:
                break
        found[unit] += violates
    return found


@given(
    before=st.lists(BUDGETS, max_size=4),
    budgets=st.lists(
        BUDGETS, max_size=5, unique_by=lambda each: (each.metadata.namespace, each.metadata.name)
    ),
    pods=st.lists(PODS, max_size=8),
    steps=st.lists(st.booleans(), min_size=8, max_size=8),
    charge=st.sampled_from(Charge),
)
def test_charges_equal_one_after_another(
    before: list[PodDisruptionBudget],
    budgets: list[PodDisruptionBudget],
    pods: list[tuple[str, dict[str, str]]],
    steps: list[bool],
    charge: Charge,
) -> None:
    """For any budgets before, and for any division of the pods into units."""
    scene = Scene()
    for number, (namespace, labels) in enumerate(pods):
        scene.run(f"pod-{number}", labels=labels, namespace=namespace)
    scene.put(*before)
    scene.violations()
    for namespace, name in scene.budgets.copy():
        scene.drop(name, namespace)
    scene.put(*budgets)
    units = [0, *np.cumsum(steps).tolist()][: len(pods)]
    assert scene.violations(units, charge) == plain(pods, units, budgets, charge)


@given(clusters())
def test_charging_all_nodes_equals_charging_each_node_alone(case: tuple[Cluster, str]) -> None:
    """Charging all nodes at once equals charging the units of each node, with their pods elsewhere."""
    engine = Engine(state_of(objects(case[0])))
    now = int(NOW.timestamp())
    units, _ = engine.units(for_group=False, now=now)
    entries = [
        (int(lead), node)
        for node in sorted(engine.snapshot.row.values(), reverse=True)
        for lead in units.ordered(units.on_node(node), now)
    ]
    leads = np.array([lead for lead, _ in entries], np.intp)
    nodes = np.array([node for _, node in entries], np.int32)
    expected: list[bool] = []
    for _, each in groupby(entries, key=itemgetter(1)):
        here = np.array([lead for lead, _ in each], np.intp)
        numbers = np.repeat(np.arange(len(here)), units.size[here])
        expected += (engine.budgets.violations(units.all_members(here), numbers) > 0).tolist()
    assert engine.budgets.violating_on_nodes(leads, nodes, units).tolist() == expected
