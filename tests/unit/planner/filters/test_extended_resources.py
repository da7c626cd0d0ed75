"""Extended resources that classes provide: the refused nodes, the requests by node, and changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from tests.support.devices.scene import (
    CLASS,
    RESOURCE,
    applied,
    claim,
    device_class,
    devices_of,
    extended,
    held_by,
    holder,
    node,
    plugged,
    pod,
    requesting,
    with_devices,
)
from tests.support.filters.builders import container, device_plugin
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import engine_of, planned

from podium.api.devices import IMPLICIT_RESOURCE_PREFIX
from podium.api.reads import Kind
from podium.cluster.state import ClusterState
from podium.planner.comparer import compare_node, compare_pod
from podium.planner.engine import Engine, plan
from podium.planner.plugins.devices.filter import NAMED, UNALLOCATABLE
from podium.planner.preemption.outcome import Outcome
from podium.planner.snapshot import BACKED

IMPLICIT = f"{IMPLICIT_RESOURCE_PREFIX}{CLASS}"
INSUFFICIENT = f"Insufficient {RESOURCE}"
OTHER = "example.com/nic"
PROVIDES = device_class(resource=RESOURCE)
SECOND = device_class("nic", "false", resource=OTHER)
LABEL = f"claim {NS}/<extended-resources>, request container-0-request-1"
LIMIT = "exceeds the claim limit of 32, with 0 already accounted for"
NAMES = {"resourceClaimName": "gone", "requestMappings": []}


def answers(engine: Engine, name: str) -> dict[str, str]:
    """Return the reasons against each node for a pod, as all forms of the filters give them."""
    snapshot, chain = engine.snapshot, engine.placer.chain
    shape = snapshot.shape_at(snapshot.pod_row[NS, name])
    found = {each: ", ".join(chain.reasons(shape, row)) for each, row in snapshot.row.items()}
    feasible, possible, short = (
        chain.feasible(shape),
        chain.static(shape),
        device_plugin(snapshot).filter.refused_by_reason(shape, snapshot.alive),
    )
    for each, row in snapshot.row.items():
        assert feasible.item(row) == chain.fits(shape, row) == (not found[each])
        assert possible.item(row) >= feasible.item(row), "free devices are possible devices"
        why = [reason for reason, rows in short.items() if rows.item(row)]
        assert why == list(filter(None, (device_plugin(chain.snapshot).filter.reason(shape, row),)))
    return found


@dataclass(frozen=True)
class Case:
    """Objects with the pod `p`, and the reason of each refused node.

    n0 has two devices, n1 none, and the device plugin of n2 offers two.
    """

    objects: list[Any]
    refused: Mapping[str, str] = field(default_factory=dict)


CLUSTER = [node("n0"), devices_of("n0", 2), node("n1"), plugged("n2", 2)]
CASES = {
    "no class provides the resource": Case(
        [device_class(), requesting("p")], {"n0": INSUFFICIENT, "n1": INSUFFICIENT}
    ),
    "a class provides the resource": Case([PROVIDES, requesting("p")], {"n1": UNALLOCATABLE}),
    "every class has a resource of its own": Case(
        [device_class(), requesting("p", resource=IMPLICIT)], {"n1": UNALLOCATABLE, "n2": UNALLOCATABLE}
    ),
    "more devices than any node has": Case(
        [PROVIDES, requesting("p", 3)], {"n0": UNALLOCATABLE, "n1": UNALLOCATABLE, "n2": INSUFFICIENT}
    ),
    "a pod of a device plugin uses what its node offers": Case(
        [PROVIDES, requesting("a", node="n2"), requesting("p", 2)], {"n1": UNALLOCATABLE, "n2": INSUFFICIENT}
    ),
    "a pod of a device plugin uses no device of another node": Case(
        [PROVIDES, requesting("a", node="n0"), requesting("p", 2)], {"n1": UNALLOCATABLE}
    ),
    "devices are in use by a claim of a user": Case(
        [PROVIDES, *holder("a", ["n0/gpu-0"]), requesting("p", 2)], {"n0": UNALLOCATABLE, "n1": UNALLOCATABLE}
    ),
    "devices are in use by a claim for extended resources": Case(
        [PROVIDES, *with_devices("a", ["n0/gpu-0"]), requesting("p", 2)],
        {"n0": UNALLOCATABLE, "n1": UNALLOCATABLE},
    ),
    "a device plugin without devices gives way to the class": Case(
        [PROVIDES, plugged("n2", 0), devices_of("n2", 1), requesting("p")], {"n1": UNALLOCATABLE}
    ),
    "a claim of the pod takes the devices first": Case(
        [PROVIDES, claim("p", count=2), requesting("p", resourceClaims=pod("p").spec.resourceClaims)],
        {"n0": UNALLOCATABLE, "n1": UNALLOCATABLE, "n2": UNALLOCATABLE},
    ),
    "a claim of the pod leaves a device": Case(
        [PROVIDES, claim("p"), requesting("p", resourceClaims=pod("p").spec.resourceClaims)],
        {"n1": UNALLOCATABLE, "n2": UNALLOCATABLE},
    ),
    "two resources, one without devices": Case(
        [PROVIDES, SECOND, requesting("p", containers=[container({RESOURCE: 1, OTHER: 1})])],
        dict.fromkeys(("n0", "n1", "n2"), UNALLOCATABLE),
    ),
    "a class without a name of a resource is no second provider": Case(
        [PROVIDES, device_class("z"), requesting("p")], {"n1": UNALLOCATABLE}
    ),
    "more devices than a claim has": Case(
        [PROVIDES, requesting("p", 33)],
        {
            **dict.fromkeys(("n0", "n1"), f"{LABEL}: adding 33 devices {LIMIT}"),
            "n2": INSUFFICIENT,
        },
    ),
    "the status of the pod names a claim": Case(
        [PROVIDES, requesting("p", status={"extendedResourceClaimStatus": NAMES})],
        {"n1": UNALLOCATABLE, "n2": NAMED},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_nodes_are_refused_for_extended_resources(case: Case) -> None:
    found = answers(engine_of(CLUSTER, case.objects), "p")
    assert {name: why for name, why in found.items() if why} == case.refused


def test_the_requests_of_a_pod_depend_on_the_node() -> None:
    both = requesting("p", containers=[container({"cpu": 1, RESOURCE: 1, OTHER: 2})])
    nic = device_class("nic", resource=OTHER)
    engine = engine_of([*CLUSTER, devices_of("n2", 3), PROVIDES, nic, devices_of("n1", 3), both])
    snapshot, row = engine.snapshot, engine.snapshot.pod_row[NS, "p"]
    found = {}
    for name, at in snapshot.row.items():
        with snapshot.trial():
            snapshot.assume(row, at)
            made = device_plugin(engine.snapshot).filter.plan(row) or ()
            found[name] = [each.request for one in made for each in one.allocation.devices.results or ()]
    gpu, nics = "container-0-request-1", ["container-0-request-2"] * 2
    assert found == {"n0": [], "n1": [gpu, *nics], "n2": nics}


def test_an_assumed_pod_uses_its_devices() -> None:
    engine = engine_of([*CLUSTER, PROVIDES, requesting("p"), requesting("q", 2)])
    snapshot = engine.snapshot
    row = snapshot.pod_row[NS, "p"]
    with snapshot.trial():
        snapshot.assume(row, snapshot.row["n0"])
        (made,) = device_plugin(engine.snapshot).filter.plan(row) or ()
        assert held_by(made.allocation) == ["n0/gpu-0"]
        assert answers(engine, "q")["n0"] == UNALLOCATABLE
    assert answers(engine, "q")["n0"] == ""


def test_a_pod_goes_to_idle_devices_and_evicts_no_pod_of_a_device_plugin() -> None:
    low = requesting("low", 2, node="n2")
    made = planned(CLUSTER, PROVIDES, low, requesting("high", 2, 10))
    assert (made.outcome, [each.node for each in made.placements]) == (Outcome.FITS, ["n0"])


def test_a_pod_goes_to_an_idle_device_plugin_and_evicts_no_pod_with_devices() -> None:
    made = planned(
        CLUSTER, PROVIDES, with_devices("low", ["n0/gpu-0", "n0/gpu-1"]), requesting("high", 2, 10)
    )
    assert (made.outcome, [each.node for each in made.placements]) == (Outcome.FITS, ["n2"])


@pytest.mark.parametrize("kind", [Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE])
def test_classes_provide_nothing_if_a_kind_was_not_read(kind: Kind) -> None:
    state = ClusterState(native_served=True, unread={kind: "denied"})
    for each in [*CLUSTER, PROVIDES, requesting("p", 2), requesting("a", 2, node="n2")]:
        state.apply(each)
    assert plan(state, (NS, "p"), NOW).outcome is Outcome.DOES_NOT_FIT


def test_a_large_request_without_a_node_leaves_no_other_pod_without_devices() -> None:
    """A pod may name its node itself, and then no scheduler checks its requests."""
    huge = requesting("huge", 2**50, node="n0")
    found = answers(engine_of([*CLUSTER, PROVIDES, huge, requesting("p")]), "p")
    assert found["n0"] == ""


# The versions of each object, None for an object that does not exist.
LATER = msgspec.structs.replace(
    device_class("later", "false", resource=RESOURCE),
    metadata=msgspec.structs.replace(
        PROVIDES.metadata, name="later", creationTimestamp="2026-02-01T00:00:00Z"
    ),
)
VERSIONS: Mapping[str, list[Any]] = {
    "node n0": [node("n0"), None, plugged("n0", 1)],
    "node n1": [node("n1"), plugged("n1", 2), plugged("n1", 0)],
    "node n2": [plugged("n2", 2), None, node("n2")],
    "slice n0": [devices_of("n0", 2), None, devices_of("n0", 1)],
    "slice n1": [None, devices_of("n1", 2)],
    "class": [PROVIDES, None, device_class(), device_class(resource=OTHER)],
    "later class": [None, LATER],
    "pod a": [None, *(each for each in with_devices("a", ["n0/gpu-0"])[1:])],
    "claim a": [None, with_devices("a", ["n0/gpu-0"])[0], extended("a")],
    "pod b": [requesting("b", node="n2"), None, requesting("b", 2**40, node="n1")],
    "pod p": [
        requesting("p", 2),
        requesting("p", 2, status={"extendedResourceClaimStatus": NAMES}),
        requesting("p", resource=IMPLICIT),
    ],
}
PENDING = [requesting("q"), requesting("r", containers=[container({RESOURCE: 1, OTHER: 1})])]
CHANGES = st.lists(
    st.sampled_from([(name, at) for name, all_of in VERSIONS.items() for at in range(len(all_of))]),
    min_size=1,
    max_size=6,
)


@budget(max_examples=25)
@given(CHANGES)
def test_after_changes_the_answers_are_those_of_a_fresh_engine(changes: list[tuple[str, int]]) -> None:
    first = [versions[0] for versions in VERSIONS.values()]
    engine = engine_of([each for each in first if each is not None], PENDING)
    state = engine.view
    assert isinstance(state, ClusterState)
    for before, after, objects in applied(engine, VERSIONS, changes):
        state.apply(after) if after is not None else state.remove(before)
        fresh = Engine(state_of([*objects, *PENDING]))
        for wanted in ("p", "q", "r"):
            assert answers(engine, wanted) == answers(fresh, wanted)
        assert device_plugin(engine.snapshot).known.usage == device_plugin(fresh.snapshot).known.usage
        found = [each for node_name in engine.snapshot.row for each in compare_node(engine, node_name)]
        found += [each for key in state.pods for each in compare_pod(engine, key)]
        assert found == []


def test_the_room_of_a_node_stays_what_it_offers_where_it_offers_the_resource() -> None:
    snapshot = engine_of([*CLUSTER, PROVIDES, requesting("p")]).snapshot
    at = snapshot.resource[RESOURCE]
    room = {name: snapshot.allocatable[at].item(row) for name, row in snapshot.row.items()}
    assert room == {"n0": BACKED, "n1": BACKED, "n2": 2}
