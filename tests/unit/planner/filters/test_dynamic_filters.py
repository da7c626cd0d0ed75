"""Filters and scores that depend on other pods: host ports, pod affinity, spread; with a plain oracle."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.support.filters import builders
from tests.support.filters.builders import empty_snapshot
from tests.support.filters.dynamic_cases import (
    CASES,
    FEATURES,
    NODES,
    A,
    Case,
    affinity,
    anti_affinity,
    spread,
    term,
)
from tests.support.filters.dynamic_scene import NAMESPACES, SAYS, Filters, Scene

from podium.planner.filters import counters
from podium.planner.shapes import shape_of


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_message_for_each_node(case: Case) -> None:
    """The messages are kube-scheduler's; only a refusal that preemption might change is resolvable."""
    snapshot = empty_snapshot()
    for name, labels in NODES.items():
        said_of_itself = {"host": name, **labels}
        snapshot.add_node(builders.node(name, labels=said_of_itself, features=FEATURES.get(name)))
    filters = Filters(snapshot)
    for number, (template, node) in enumerate(case.standing):
        snapshot.add_pod(builders.pod(f"pod-{number}", node=node, **template))
    shape = shape_of(builders.pod(**case.pod), snapshot.plugins)
    reasons = {node: filters.why(shape, node) for node in NODES}
    assert {node: each for node, each in reasons.items() if each} == {
        node: [SAYS[each]] for node, each in case.says.items()
    }


def test_changed_namespace_labels_are_read_again() -> None:
    """The terms of the incoming pod and of running pods, and the scores, agree."""
    namespaces = dict(NAMESPACES)
    snapshot = empty_snapshot()
    snapshot.add_node(builders.node("m", labels={"zone": "1"}))
    filters = Filters(snapshot, namespaces)
    tested = term("a", namespaceSelector={"matchLabels": {"env": "test"}})
    snapshot.add_pod(builders.pod("b", node="m", namespace="team-b", **A, **anti_affinity(tested)))
    shapes = {
        name: shape_of(builders.pod(**A, **spec), snapshot.plugins)
        for name, spec in {"near": affinity(tested), "far": anti_affinity(tested), "plain": {}}.items()
    }

    def reasons() -> dict[str, list[str]]:
        return {name: filters.why(shape, "m") for name, shape in shapes.items()}

    assert reasons() == {"near": [], "far": [SAYS["anti-affinity"]], "plain": []}
    namespaces["team-a"], namespaces["team-b"] = namespaces["team-b"], namespaces["team-a"]
    for each in filters.by_namespace:
        each.reload_namespaces()
    # Now the incoming pod's own namespace is selected: it may be the first of its kind.
    assert reasons() == {"near": [SAYS["existing"]], "far": [SAYS["existing"]], "plain": [SAYS["existing"]]}


def test_the_emptiest_domain_is_followed_both_ways() -> None:
    """Zone 2 is the emptiest, then zone 1 is, then both are equal, as pods are tried and removed."""
    snapshot = empty_snapshot()
    for name, zone in {"m": "1", "o": "2"}.items():
        snapshot.add_node(builders.node(name, labels={"zone": zone}))
    for name, place in {"x": "m", "y": "m", "z": "o"}.items():
        snapshot.add_pod(builders.pod(name, node=place, **A))
    filters, shape = Filters(snapshot), shape_of(builders.pod(**A, **spread("a")), snapshot.plugins)
    rows = {name: at for (_, name), at in snapshot.pod_row.items()}

    def refused() -> list[str]:
        return [node for node in ("m", "o") if filters.why(shape, node)]

    assert refused() == ["m"]
    with snapshot.trial():
        snapshot.remove(rows["x"])
        assert refused() == []
        snapshot.remove(rows["y"])
        assert refused() == ["o"]
        snapshot.assume(rows["x"], snapshot.row["o"])
        assert refused() == ["o"]
    assert refused() == ["m"]


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return dicts with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


# Few values, and the common ones more often: values without a match decide nothing.
APPS = st.sampled_from(["a", "a", "b"])
KEYS = st.sampled_from(["zone", "zone", "rack", "host"])
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["app", "tier"]),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(APPS, min_size=1, max_size=2),
    }
) | st.fixed_dictionaries(
    {"key": st.sampled_from(["app", "tier"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
)
SELECTORS: st.SearchStrategy[dict[str, Any]] = (
    st.builds(lambda app: {"matchLabels": {"app": app}}, APPS)
    | st.just({})
    | st.builds(lambda app: {"matchLabels": {"app": app}}, APPS)
    | st.builds(lambda each: {"matchExpressions": each}, st.lists(EXPRESSIONS, min_size=1, max_size=2))
)
NAMES = st.sampled_from(["team-a", "team-b", "unknown"])
NAMESPACE_SELECTORS: st.SearchStrategy[dict[str, Any]] = (
    st.just({})
    | st.just({"matchLabels": {"env": "prod"}})
    | st.just({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]})
)
TERMS = st.builds(
    lambda key, rest: {"topologyKey": key, **rest},
    KEYS,
    _some(
        labelSelector=SELECTORS,
        namespaces=st.lists(NAMES, min_size=1, max_size=2),
        namespaceSelector=NAMESPACE_SELECTORS,
    ),
)
WISHES = st.builds(lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 3), TERMS)
NEAR_OR_FAR = _some(
    requiredDuringSchedulingIgnoredDuringExecution=st.lists(TERMS, min_size=1, max_size=2),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(WISHES, min_size=1, max_size=2),
)
SPREAD = st.builds(
    lambda key, skew, when, rest: {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, **rest},
    KEYS,
    st.integers(1, 2),
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    _some(
        labelSelector=SELECTORS,
        minDomains=st.integers(1, 3),
        nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore"]),
        nodeTaintsPolicy=st.sampled_from(["Honor", "Ignore"]),
        matchLabelKeys=st.just(["tier"]),
    ),
)
HOST_PORTS = st.builds(
    lambda number, rest: {"hostPort": number, "containerPort": 80, **rest},
    st.integers(1, 2),
    _some(
        protocol=st.sampled_from(["TCP", "UDP"]), hostIP=st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"])
    ),
)
TEMPLATES = st.builds(
    lambda labels, ports, rest: {"labels": labels, "containers": [builders.container(ports=ports)], **rest},
    st.fixed_dictionaries({"app": APPS}, optional={"tier": APPS}),
    st.just([]) | st.lists(HOST_PORTS, max_size=2),
    _some(
        namespace=NAMES,
        affinity=_some(podAffinity=NEAR_OR_FAR, podAntiAffinity=NEAR_OR_FAR),
        topologySpreadConstraints=st.lists(SPREAD, min_size=1, max_size=2),
        nodeSelector=st.just({"zone": "1"}),
        tolerations=st.just([{"key": "dedicated", "operator": "Exists"}]),
    ),
)
PLACES = st.sampled_from(["m", "n", "o", "p"])
MARKS: dict[str, st.SearchStrategy[str]] = {
    "zone": st.sampled_from(["1", "2"]),
    "rack": st.sampled_from(["1", "2", "3"]),
    "host": st.sampled_from(["m", "n", "o", "p"]),
}
LABELS = st.fixed_dictionaries(MARKS) | st.fixed_dictionaries({}, optional=MARKS)
PODS = st.sampled_from([f"pod-{number}" for number in range(6)])
STEPS = st.one_of(
    st.tuples(st.just("node"), PLACES, LABELS, st.booleans()),
    st.tuples(st.just("node gone"), PLACES),
    st.tuples(st.just("pod"), PODS, st.integers(0, 3), PLACES, st.booleans()),
    st.tuples(st.just("pod"), PODS, st.integers(0, 3), PLACES, st.booleans()),
    st.tuples(st.just("pod gone"), PODS),
    st.tuples(
        st.just("try"), st.lists(st.tuples(PODS, st.none() | PLACES), min_size=1, max_size=4), st.booleans()
    ),
    st.tuples(st.just("nominate"), st.lists(st.tuples(PODS, PLACES), min_size=1, max_size=4)),
    st.tuples(st.just("check")),
)


def _take(scene: Scene, step: tuple[Any, ...]) -> None:
    match step:
        case ("node", name, labels, tainted):
            scene.put_node(name, labels, tainted=tainted)
        case ("node gone", name):
            scene.drop_node(name)
        case ("pod", name, which, node, terminating):
            scene.put_pod(name, which, node, terminating=terminating)
        case ("pod gone", name):
            scene.drop_pod(name)
        case ("try", moves, at_once):
            scene.attempt(moves, at_once=at_once)
        case ("nominate", moves):
            scene.nominate(moves)
        case _:
            scene.check()


@given(
    templates=st.lists(TEMPLATES, min_size=4, max_size=4),
    start=st.lists(st.tuples(LABELS, st.booleans()), min_size=4, max_size=4),
    pods=st.lists(st.tuples(st.integers(0, 3), PLACES, st.booleans()), min_size=6, max_size=6),
    steps=st.lists(STEPS, max_size=10),
    late=st.booleans(),
    roomy=st.sampled_from([1, 1024]),
)
def test_counters_agree_with_the_plain_filters(
    *,
    templates: list[dict[str, Any]],
    start: list[tuple[dict[str, str], bool]],
    pods: list[tuple[int, str, bool]],
    steps: list[tuple[Any, ...]],
    late: bool,
    roomy: int,
) -> None:
    """Filters agree with the oracle after any events in any order, also if unneeded counts are dropped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "_MAX_SPARE_ENTRIES", roomy)
        scene = Scene(templates, late=late)
        for name, (labels, tainted) in zip("mnop", start, strict=True):
            scene.put_node(name, labels, tainted=tainted)
        for number, (which, node, terminating) in enumerate(pods):
            scene.put_pod(f"pod-{number}", which, node, terminating=terminating)
        for step in steps:
            _take(scene, step)
        scene.check()
