"""The filter of device claims: reasons by node, answers that are kept, and answers that are asked again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from tests.support.devices.scene import (
    ANY,
    DRIVER,
    applied,
    claim,
    cluster,
    device_class,
    devices_of,
    holder,
    node,
    pod,
    waiting,
)
from tests.support.filters.builders import device_plugin
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import engine_of, planned

from kubecel import UnansweredSelectorError, evaluate_devices, process
from kubecel.selector import Evaluations
from podium.api.devices import Device, DeviceConstraint, DeviceRequest, ResourceClaim
from podium.api.reads import Kind
from podium.cluster.state import ClusterState
from podium.planner.deadline import Deadline, DecisionTimeoutError, UnansweredDecisionError
from podium.planner.engine import Engine, plan
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.filter import ALL_EFFORT, NODE_EFFORT, UNALLOCATABLE, UNAVAILABLE
from podium.planner.plugins.devices.search import TOO_LONG
from podium.planner.preemption.outcome import Outcome

NODES = ("n0", "n1", "n2")
BROKEN = [{"key": "broken", "effect": "NoSchedule"}]


def answers(engine: Engine, name: str) -> dict[str, str]:
    """Return the reason against each node for a pod, empty if the node passes."""
    snapshot, devices = engine.snapshot, device_plugin(engine.snapshot).filter
    shape = snapshot.shape_at(snapshot.pod_row[NS, name])
    found = {each: devices.reason(shape, row) or "" for each, row in snapshot.row.items()}
    mask, short = devices.mask(shape), devices.refused_by_reason(shape, snapshot.alive)
    for each, row in snapshot.row.items():
        assert mask.item(row) == (not found[each]), "the mask is as the reasons"
        assert [why for why, rows in short.items() if rows.item(row)] == (
            [found[each]] if found[each] else []
        )
        assert devices.possible_at(shape, row) or not mask.item(row), "free devices are possible devices"
    return found


def asked(count: int | None = 1, **request: Any) -> list[Any]:
    """Return the pod `p` with a claim."""
    return [claim("p", count=count, **request), pod("p")]


@dataclass(frozen=True)
class Case:
    """Objects with the pod `p` beside three nodes with two devices each; the reason of each refused node."""

    objects: list[Any]
    refused: Mapping[str, str] = field(default_factory=dict)


NONE = dict.fromkeys(NODES, UNALLOCATABLE)
MODELS = [{"name": f"gpu-{at}", "attributes": {"model": {"string": model}}} for at, model in enumerate("ab")]
CASES = {
    "all nodes have free devices": Case(asked()),
    "a device of each node is in use": Case(
        [*asked(2), *holder("a", ["n0/gpu-0"]), *holder("b", ["n2/gpu-1"])],
        {"n0": UNALLOCATABLE, "n2": UNALLOCATABLE},
    ),
    "more devices than any node has": Case(asked(3), NONE),
    "a selector excludes devices": Case(
        [
            devices_of("n1", 2, devices=MODELS),
            *asked(selectors=[{"cel": {"expression": f'"model" in device.attributes["{DRIVER}"]'}}]),
        ],
        {"n0": UNALLOCATABLE, "n2": UNALLOCATABLE},
    ),
    "devices are tainted": Case(
        [devices_of("n1", 1, devices=[{"name": "gpu-0", "taints": BROKEN}]), *asked()], {"n1": UNALLOCATABLE}
    ),
    "devices are tainted, and tolerated": Case(
        [
            devices_of("n1", 1, devices=[{"name": "gpu-0", "taints": BROKEN}]),
            *asked(tolerations=[{"key": "broken", "operator": "Exists"}]),
        ]
    ),
    "devices for all nodes": Case([devices_of(ANY, 3), *asked(3)]),
    "the devices for all nodes are in use": Case(
        [devices_of(ANY, 3), *holder("a", [f"{ANY}/gpu-0"], on="n2"), *asked(3)]
    ),
    "all devices of a node": Case(
        [*asked(None, allocationMode="All"), *holder("a", ["n1/gpu-1"])], {"n1": UNALLOCATABLE}
    ),
    "an allocated claim": Case([claim("p", ["n1/gpu-0"]), pod("p")], {"n0": UNAVAILABLE, "n2": UNAVAILABLE}),
    "an allocated claim for all nodes": Case([devices_of(ANY, 1), claim("p", [f"{ANY}/gpu-0"]), pod("p")]),
    "an allocated claim beside one that is not": Case(
        [claim("p", ["n1/gpu-0"]), claim("q", count=2), pod("p", claims=["p", "q"])],
        {"n0": UNAVAILABLE, "n1": UNALLOCATABLE, "n2": UNAVAILABLE},
    ),
    "two claims share the devices": Case(
        [claim("p"), claim("q", count=2), pod("p", claims=["p", "q"])], NONE
    ),
    "a claim that is named twice counts once": Case([claim("c", count=2), pod("p", claims=["c", "c"])]),
    "no claims": Case([pod("p", claims=())]),
    "a pod that is gone holds its devices": Case(
        [claim("a", ["n0/gpu-0", "n0/gpu-1"]), *asked()], {"n0": UNALLOCATABLE}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_nodes_are_refused_for_devices(case: Case) -> None:
    found = answers(engine_of(cluster(3, 2), case.objects), "p")
    assert {name: why for name, why in found.items() if why} == case.refused


UNUSABLE = {"a selector that cannot be compiled": "device.", "a selector without a boolean": "1"}


@pytest.mark.parametrize("expression", UNUSABLE.values(), ids=list(UNUSABLE))
def test_a_class_that_cannot_be_read_refuses_every_node(expression: str) -> None:
    found = answers(engine_of(cluster(3, 2), device_class(expression=expression), asked()), "p")
    texts = set(found.values())
    assert len(texts) == 1
    assert texts.isdisjoint({"", UNALLOCATABLE})


def test_a_reason_names_the_claim_of_each_pod() -> None:
    """Claims with equal requests share their answers, but the reasons have their names."""
    outdated: dict[str, Any] = {"pool": {"name": "n0", "generation": 1, "resourceSliceCount": 2}}
    every: dict[str, Any] = {"count": None, "allocationMode": "All"}
    entries = [{"name": "x", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "r"}]}
    objects = [claim("p", **every), pod("p"), claim("q", **every), pod("q"), claim("r", owner="r", **every)]
    objects.append(pod("r", resourceClaims=entries, status=status))
    engine = engine_of(cluster(1, 0), devices_of("n0", 1, **outdated), *objects)
    named = {name: answers(engine, name)["n0"] for name in ("p", "q", "r")}
    fault = (
        "request gpus: asks for all devices, but resource pool gpu.example.com/n0 is currently being updated"
    )
    assert named == {
        "p": f"claim {NS}/p, {fault}",
        "q": f"claim {NS}/q, {fault}",
        "r": f"claim of the pod, {fault}",
    }


# The numbers of one to some thousands, all added for each device.
COSTLY = [{"cel": {"expression": "lists.range(9000).sum() > 0"}}]


def test_a_decision_ends_during_costly_selectors_and_the_next_goes_on() -> None:
    engine = engine_of(cluster(30, 2), claim("p", selectors=COSTLY), pod("p"), waiting("q"))
    found: list[Outcome | None] = []
    while not found or found[-1] is None:
        # A decision looks at its clock before each selector, also at those of the class.
        deadline = Deadline(partial(next, count()), 50)
        try:
            found.append(engine.decide((NS, "p"), NOW, deadline=deadline).outcome)
        except DecisionTimeoutError:
            found.append(None)
        assert engine.decide((NS, "q"), NOW).outcome is Outcome.FITS
    assert found == [None, None, Outcome.FITS]


SLOW = "device.driver == 'slow' || true"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of selectors that have no result while they are there."""
    listed = [SLOW]

    def evaluate(expression: str, *rest: Any) -> Evaluations:
        if expression in listed:
            raise UnansweredSelectorError("the evaluation takes more than 0.5 s", NODE_EFFORT)
        return evaluate_devices(expression, *rest)

    monkeypatch.setattr(process, "evaluate", evaluate)
    return listed


def test_a_decision_ends_at_a_selector_without_a_result(slow: list[str]) -> None:
    selectors = [{"cel": {"expression": SLOW}}]
    engine = engine_of(cluster(30, 2), claim("p", selectors=selectors), pod("p"), waiting("q"))
    deadline = Deadline(lambda: 0.0, 50)
    with pytest.raises(UnansweredDecisionError) as ended:
        engine.decide((NS, "p"), NOW, deadline=deadline)
    assert str(ended.value) == (
        f"claim {NS}/p: selector #0 on device {DRIVER}/n0/gpu-0: the evaluation takes more than 0.5 s"
    )
    assert engine.decide((NS, "q"), NOW, deadline=deadline).outcome is Outcome.FITS
    slow.clear()
    assert engine.decide((NS, "p"), NOW, deadline=deadline).outcome is Outcome.FITS


def test_a_selector_without_a_result_refuses_a_node_until_a_decision(slow: list[str]) -> None:
    selectors = [{"cel": {"expression": SLOW}}]
    engine = engine_of(cluster(3, 2), claim("p", selectors=selectors), pod("p"), waiting("q"))
    refused = answers(engine, "p")
    assert all("selector #0" in each and "more than 0.5 s" in each for each in refused.values())
    slow.clear()
    assert answers(engine, "p") == refused, "the answers of all nodes are kept"
    assert engine.decide((NS, "p"), NOW, deadline=Deadline(lambda: 0.0, 50)).outcome is Outcome.FITS


@pytest.mark.parametrize("limit", ["NODE_EFFORT", "ALL_EFFORT"])
def test_nodes_are_refused_if_selectors_take_too_much(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"podium.planner.plugins.devices.filter.{limit}", 5_000)
    engine = engine_of(cluster(3, 4), claim("p", count=4, selectors=COSTLY), pod("p"), waiting("q"))
    named = f"{TOO_LONG} (selector lists.range(9000).sum() > 0 takes too long)"
    assert set(answers(engine, "p").values()) == ({named} if limit == "NODE_EFFORT" else {named, TOO_LONG})
    assert set(answers(engine, "q").values()) == {""}


def test_a_usual_selector_takes_a_small_part_of_the_limits() -> None:
    of_driver = f'device.attributes["{DRIVER}"].model == "a"'
    expression = f"{of_driver} && device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('40Gi'))"
    described = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "80Gi"}}}
    device = msgspec.convert({"name": "gpu-0", **described}, Device)
    (result,), compiling = evaluate_devices(expression, 37, DRIVER, [device])
    assert result.selected
    assert result.effort < 50 < compiling < NODE_EFFORT / 100
    assert 100_000 * 8 * result.effort < ALL_EFFORT, "eight devices of 100,000 nodes"


@pytest.mark.parametrize("kind", [Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE])
def test_a_pod_with_claims_is_not_judged_without_the_kind(kind: Kind) -> None:
    state = ClusterState(native_served=True, unread={kind: "denied"})
    nominated = pod("q", 20, status={"nominatedNodeName": "n0"})
    for each in [*cluster(1, 1), *asked(), claim("q"), nominated, pod("plain", claims=())]:
        state.apply(each)
    assert plan(state, (NS, "p"), NOW).outcome is Outcome.NOT_JUDGED
    assert plan(state, (NS, "plain"), NOW).outcome is Outcome.FITS


NOMINATED: Mapping[str, list[Any]] = {
    "its claim is missing": [],
    "its claim is being deleted": [claim("q", terminating=True)],
    "the class of its claim is missing": [claim("q", requested="none")],
    "its devices do not suffice": [claim("q", count=5)],
    "its claim is allocated elsewhere": [claim("q", ["n9/gpu-0"])],
}


@pytest.mark.parametrize("objects", NOMINATED.values(), ids=list(NOMINATED))
def test_a_nominated_pod_that_cannot_use_its_claims_has_no_devices(objects: list[Any]) -> None:
    nominated = pod("q", 20, status={"nominatedNodeName": "n0"})
    made = planned(cluster(1, 2), objects, nominated, waiting("high", 2))
    assert made.outcome is Outcome.FITS


def test_a_nominated_pod_has_its_devices() -> None:
    nominated = pod("q", 20, status={"nominatedNodeName": "n0"})
    made = planned(cluster(1, 2), claim("q"), nominated, waiting("high", 2))
    assert made.outcome is Outcome.DOES_NOT_FIT


# --- assumed claims -------------------------------------------------------------------------------------


def test_a_shared_claim_binds_its_other_pods_to_the_node_of_the_first() -> None:
    engine = engine_of(cluster(3, 1), claim("c"), pod("p", claims=["c"]), pod("q", claims=["c"]))
    snapshot = engine.snapshot
    with snapshot.trial():
        snapshot.assume(snapshot.pod_row[NS, "q"], snapshot.row["n1"])
        assert answers(engine, "p") == {"n0": UNAVAILABLE, "n1": "", "n2": UNAVAILABLE}
    assert answers(engine, "p") == dict.fromkeys(NODES, "")


def test_a_pod_that_is_assumed_without_devices_has_none() -> None:
    engine = engine_of(cluster(1, 1), waiting("p"), waiting("q"))
    snapshot = engine.snapshot
    rows = [snapshot.pod_row[NS, name] for name in ("p", "q")]
    for row in rows:
        snapshot.assume(row, snapshot.row["n0"])
    plans = [device_plugin(engine.snapshot).filter.plan(row) for row in rows]
    assert [len(each) if each is not None else None for each in plans] == [1, None]
    for row in rows:
        snapshot.forget_pod(row)
    assert answers(engine, "p") == {"n0": ""}


# --- answers that are kept ------------------------------------------------------------------------------


def test_only_the_node_of_a_changed_claim_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    allocate = Allocator.allocate

    def counted(self: Allocator, name: str, *rest: Any) -> Any:
        names.append(name)
        return allocate(self, name, *rest)

    monkeypatch.setattr(Allocator, "allocate", counted)
    number = 1_000
    engine = engine_of(cluster(number, 1), asked(), holder("a", ["n7/gpu-0"]))
    snapshot, devices = engine.snapshot, device_plugin(engine.snapshot).filter
    shape = snapshot.shape_at(snapshot.pod_row[NS, "p"])

    def asked_for() -> list[str]:
        names.clear()
        devices.mask(shape)
        return sorted(names)

    assert len(asked_for()) == number
    assert asked_for() == []
    engine.apply(claim("a", ["n7/gpu-0"]), claim("a"))
    assert asked_for() == ["n7"]
    engine.apply(claim("a"), claim("a", ["n8/gpu-0"]))
    assert asked_for() == ["n8"]
    with snapshot.trial():
        snapshot.remove(snapshot.pod_row[NS, "a"])
        assert asked_for() == ["n8"]
    assert asked_for() == ["n8"]
    engine.apply(None, pod("same", claims=["q"]))
    engine.apply(None, claim("q"))
    assert asked_for() == []


def test_members_with_equal_claims_have_one_shape() -> None:
    created: dict[str, Any] = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
    named = [f"p{at}" for at in range(3)]
    pods = [
        pod(name, status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": name}]}, **created)
        for name in named
    ]
    snapshot = engine_of(cluster(1, 1), [claim(name, owner=name) for name in named], pods).snapshot
    assert len({snapshot.shape.item(snapshot.pod_row[NS, name]) for name in named}) == 1


# --- alternatives ---------------------------------------------------------------------------------------


def choosing(name: str, *alternatives: Mapping[str, Any], held: str = "", took: str = "") -> ResourceClaim:
    """Make a claim whose only request has alternatives; it may have a device, for the alternative `took`."""
    numbered = [{"name": f"s{at}", "deviceClassName": "gpu", **each} for at, each in enumerate(alternatives)]
    made = claim(name, [held] if held else ())
    request = msgspec.convert({"name": "r", "firstAvailable": numbered}, DeviceRequest)
    made.spec.devices.requests = [request]
    if made.status is not None and made.status.allocation is not None:
        (result,) = made.status.allocation.devices.results or []
        result.request = f"r/{took}"
    return made


def of_model(model: str) -> dict[str, Any]:
    """Return an alternative for one device of a model."""
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    return {"selectors": [{"cel": {"expression": expression}}]}


FIRST_A = choosing("p", of_model("a"), of_model("b"))
PREFERRED = {
    "without alternatives": ([claim("p")], (0, 0)),
    "the first alternative": ([choosing("p", of_model("b"), of_model("a"))], (200, 174)),
    "the second alternative": ([FIRST_A], (174, 200)),
    "a claim that is allocated": (
        [FIRST_A, choosing("q", of_model("a"), held=f"{ANY}/gpu-0", took="s0")],
        (186, 200),
    ),
}


@pytest.mark.parametrize(("claims", "points"), PREFERRED.values(), ids=list(PREFERRED))
def test_nodes_with_earlier_alternatives_have_higher_scores(
    claims: list[ResourceClaim], points: tuple[int, int]
) -> None:
    names = [each.metadata.name or "" for each in claims]
    devices = [devices_of("n0", 0, devices=MODELS[1:]), devices_of("n1", 0, devices=MODELS[:1])]
    engine = engine_of(cluster(2, 0), devices, devices_of(ANY, 0), claims, pod("p", claims=names))
    snapshot, found = engine.snapshot, device_plugin(engine.snapshot).filter
    shape = snapshot.shape_at(snapshot.pod_row[NS, "p"])
    assert found.prefers(shape) == (points != (0, 0))
    rows = np.array([snapshot.row[name] for name in ("n0", "n1")], np.intp)
    assert tuple(found.scores(shape, rows).tolist()) == points


def test_a_pod_goes_where_its_claim_gets_the_first_alternative() -> None:
    devices = [devices_of("n0", 0, devices=MODELS[1:]), devices_of("n1", 0, devices=MODELS[:1])]
    made = planned(cluster(2, 0), devices, choosing("high", of_model("a"), of_model("b")), pod("high"))
    assert [each.node for each in made.placements] == ["n1"]


def test_a_request_for_all_devices_may_fail_because_more_are_free() -> None:
    """With the first device in use, the next alternative is tried. With all free, a constraint fails."""
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "20Gi"}}}
    every = {"allocationMode": "All", "capacity": {"requests": {"memory": "15Gi"}}}
    wanted, held = choosing("p", every, {}), claim("a", ["n0/gpu-0"])
    wanted.spec.devices.constraints = [DeviceConstraint(matchAttribute=f"{DRIVER}/model")]
    assert held.status is not None
    assert held.status.allocation is not None
    (result,) = held.status.allocation.devices.results or []
    result.shareID, result.consumedCapacity = "1", {"memory": "8Gi"}
    devices = devices_of("n0", 0, devices=[each | shared for each in MODELS])
    for objects, why in (
        ([], f"claim {NS}/p, request s0: cannot add device"),
        ([held, pod("a", node="n0")], ""),
    ):
        found = answers(engine_of(cluster(1, 0), devices, wanted, pod("p"), objects), "p")
        assert found["n0"].startswith(why)
        assert bool(found["n0"]) == bool(why)


# The versions of each object, None for an object that does not exist.
TAINTED = {"name": "gpu-0", "taints": BROKEN}
VERSIONS: Mapping[str, list[Any]] = {
    **{f"node {name}": [node(name), None, node(name, unschedulable=True)] for name in NODES},
    **{
        f"slice {name}": [
            devices_of(name, 2),
            None,
            devices_of(name, 1),
            devices_of(name, 0, devices=[TAINTED, {"name": "gpu-1"}]),
            devices_of(name, 2, pool={"name": name, "generation": 2, "resourceSliceCount": 2}),
        ]
        for name in NODES
    },
    "slice of all": [devices_of(ANY, 1), None],
    "class": [device_class(), None, device_class(expression=f'device.driver == "{DRIVER}"')],
    "claim a": [claim("a", ["n0/gpu-0"]), None, claim("a", ["n1/gpu-0"]), claim("a")],
    "claim b": [claim("b", [f"{ANY}/gpu-0"]), None, claim("b", [f"{ANY}/gpu-0"], []), claim("b")],
    "claim p": [
        claim("p"),
        None,
        claim("p", count=2),
        claim("p", ["n2/gpu-0"]),
        claim("p", terminating=True),
    ],
    "claim c": [claim("c"), None, claim("c", ["n0/gpu-1"], ["q"]), claim("c", count=3)],
    "pod a": [pod("a", node="n0"), None, pod("a", node="n1"), pod("a")],
    "pod b": [pod("b", node="n2"), None],
}
PENDING = [pod("p"), pod("q", claims=["c"]), pod("r", claims=["c", "p"])]
CHANGES = st.lists(
    st.sampled_from([(name, at) for name, all_of in VERSIONS.items() for at in range(len(all_of))]),
    min_size=1,
    max_size=8,
)


@budget(max_examples=60)
@given(CHANGES)
def test_after_changes_the_answers_are_those_of_a_fresh_engine(changes: list[tuple[str, int]]) -> None:
    engine = engine_of([versions[0] for versions in VERSIONS.values()], PENDING)
    for _, _, objects in applied(engine, VERSIONS, changes):
        engine.catch_up()
        fresh = Engine(state_of([*objects, *PENDING]))
        for each in PENDING:
            wanted = each.metadata.name or ""
            assert answers(engine, wanted) == answers(fresh, wanted)
        assert device_plugin(engine.snapshot).known.usage == device_plugin(fresh.snapshot).known.usage
