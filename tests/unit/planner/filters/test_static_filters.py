"""Static filters and resources: named cases, and a plain oracle over small random clusters."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import (
    Quantities,
    claim,
    empty_snapshot,
    filters_of,
    need,
    node,
    pod,
    volume,
)
from tests.support.filters.picture import snapshot_of

from podium.api.meta import ObjectMeta
from podium.api.schedulable import Schedulable, SchedulableNode, Taint
from podium.planner.filters import nodes as filters_of_nodes
from podium.planner.filters.chain import Chain
from podium.planner.framework import NodeFilter
from podium.planner.plugins.declaredfeatures import DeclaredFeaturesFilter, FeatureNeed
from podium.planner.plugins.nodeaffinity import NamedNodesFilter, NodeAffinityFilter
from podium.planner.plugins.noderesources import ResourcesFilter
from podium.planner.plugins.tainttoleration import NodeUnschedulableFilter, TaintTolerationFilter
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.plugins.volumes.volumebinding import (
    MissingVolumeFilter,
    VolumeNodeAffinityFilter,
    VolumeZoneFilter,
)
from podium.planner.shapes import Shape, shape_of
from podium.planner.snapshot import Snapshot

Manifest = dict[str, Any]

# The filters on nodes and room, in kube-scheduler's order.
NODES: tuple[type[NodeFilter], ...] = (
    NamedNodesFilter,
    NodeUnschedulableFilter,
    TaintTolerationFilter,
    NodeAffinityFilter,
    ResourcesFilter,
)

ROOM = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/gpu": "2"}


def asks(requests: Quantities | None = None, **spec: Any) -> Schedulable:
    return pod("p", requests, **spec)


def has(allocatable: Quantities | None = None, **fields: Any) -> SchedulableNode:
    return node("n", {**ROOM, **(allocatable or {})}, **fields)


def required(*terms: Manifest) -> Manifest:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def labelled(key: str, operator: str, *values: str) -> Manifest:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, name: str) -> Manifest:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}


def shape(wanted: Schedulable, snapshot: Snapshot) -> Shape:
    # The resources of a pod count while the pod is there.
    snapshot.apply(None, wanted)
    return shape_of(wanted, snapshot.plugins)


def refusal(wanted: Shape, snapshot: Snapshot, name: str = "n") -> str | None:
    """The first filter's message, in kube-scheduler's order, for why a pod may not have a node."""
    needs = snapshot.plugin(VolumesPlugin).needs
    kinds = (VolumeNodeAffinityFilter, MissingVolumeFilter, VolumeZoneFilter)
    volumes = (kind(snapshot, needs) for kind in kinds)
    filters: list[NodeFilter] = [*filters_of(snapshot, NODES), *volumes]
    filters += filters_of(snapshot, [DeclaredFeaturesFilter])
    row = snapshot.row[name]
    if wanted.refused:
        return wanted.refused
    for each in filters:
        why = each.reason(wanted, row)
        assert bool(each.mask(wanted)[row]) == (why is None)
        if why is not None:
            return why
    return None


CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
ELSEWHERE = "node(s) didn't match Pod's node affinity/selector"
UNNAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
DEDICATED = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
GPU = {"disk": "ssd", "size": "4", "odd": "x4"}

CASES: dict[str, tuple[Schedulable, SchedulableNode, str | None]] = {
    "nothing requested, nothing set": (asks(), has(), None),
    "a cordoned node": (asks(), has(unschedulable=True), CORDONED),
    "a cordoned node, its taint tolerated": (
        asks(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        has(unschedulable=True),
        None,
    ),
    "a cordoned node, its taint tolerated for another effect": (
        asks(
            tolerations=[
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}
            ]
        ),
        has(unschedulable=True),
        CORDONED,
    ),
    "a cordoned node, everything tolerated": (
        asks(tolerations=[{"operator": "Exists"}]),
        has(unschedulable=True),
        None,
    ),
    "cordoned comes before tainted": (asks(), has(unschedulable=True, taints=[DEDICATED]), CORDONED),
    "NoSchedule": (asks(), has(taints=[DEDICATED]), TAINTED),
    "NoExecute": (asks(), has(taints=[{"key": "k", "effect": "NoExecute"}]), TAINTED),
    "PreferNoSchedule excludes no pod": (
        asks(),
        has(taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
        None,
    ),
    "Equal is the default operator": (
        asks(tolerations=[{"key": "dedicated", "value": "gpu"}]),
        has(taints=[DEDICATED]),
        None,
    ),
    "Equal to another value": (
        asks(tolerations=[{"key": "dedicated", "operator": "Equal", "value": "cpu", "effect": "NoSchedule"}]),
        has(taints=[DEDICATED]),
        TAINTED,
    ),
    "Exists takes any value": (
        asks(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        has(taints=[DEDICATED]),
        None,
    ),
    "an empty taint value equals an absent toleration value": (
        asks(tolerations=[{"key": "k"}]),
        has(taints=[{"key": "k", "effect": "NoSchedule"}]),
        None,
    ),
    "every taint needs its toleration": (
        asks(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        has(taints=[DEDICATED, {"key": "k", "effect": "NoExecute"}]),
        TAINTED,
    ),
    "an operator behind a gate tolerates nothing": (
        asks(tolerations=[{"key": "sla", "operator": "Lt", "value": "900"}]),
        has(taints=[{"key": "sla", "value": "500", "effect": "NoSchedule"}]),
        TAINTED,
    ),
    "tainted comes before elsewhere": (asks(nodeSelector={"a": "b"}), has(taints=[DEDICATED]), TAINTED),
    "a node selector": (asks(nodeSelector={"disk": "ssd"}), has(labels=GPU), None),
    "a node selector, one of two": (asks(nodeSelector={"disk": "ssd", "x": ""}), has(labels=GPU), ELSEWHERE),
    "a node selector for an empty value": (asks(nodeSelector={"x": ""}), has(labels={"x": ""}), None),
    "In": (asks(affinity=required(labelled("disk", "In", "hdd", "ssd"))), has(labels=GPU), None),
    "In without the label": (
        asks(affinity=required(labelled("zone", "In", "a"))),
        has(labels=GPU),
        ELSEWHERE,
    ),
    "NotIn": (asks(affinity=required(labelled("disk", "NotIn", "ssd"))), has(labels=GPU), ELSEWHERE),
    "NotIn without the label": (
        asks(affinity=required(labelled("zone", "NotIn", "a"))),
        has(labels=GPU),
        None,
    ),
    "Exists": (asks(affinity=required(labelled("disk", "Exists"))), has(labels=GPU), None),
    "Exists without the label": (
        asks(affinity=required(labelled("z", "Exists"))),
        has(labels=GPU),
        ELSEWHERE,
    ),
    "DoesNotExist": (asks(affinity=required(labelled("disk", "DoesNotExist"))), has(labels=GPU), ELSEWHERE),
    "DoesNotExist without the label": (
        asks(affinity=required(labelled("z", "DoesNotExist"))),
        has(labels=GPU),
        None,
    ),
    "Gt": (asks(affinity=required(labelled("size", "Gt", "3"))), has(labels=GPU), None),
    "Gt is not at least": (asks(affinity=required(labelled("size", "Gt", "4"))), has(labels=GPU), ELSEWHERE),
    "Lt compares numbers, not texts": (
        asks(affinity=required(labelled("size", "Lt", "10"))),
        has(labels=GPU),
        None,
    ),
    "Lt of no number": (asks(affinity=required(labelled("odd", "Lt", "10"))), has(labels=GPU), ELSEWHERE),
    "Gt without the label": (asks(affinity=required(labelled("z", "Gt", "-1"))), has(labels=GPU), ELSEWHERE),
    "one term of two suffices": (
        asks(affinity=required(labelled("z", "Exists"), labelled("disk", "Exists"))),
        has(labels=GPU),
        None,
    ),
    "all expressions of a term are needed": (
        asks(
            affinity=required(
                {
                    "matchExpressions": [
                        {"key": "disk", "operator": "Exists"},
                        {"key": "z", "operator": "Exists"},
                    ]
                }
            )
        ),
        has(labels=GPU),
        ELSEWHERE,
    ),
    "selector and affinity are both needed": (
        asks(nodeSelector={"disk": "hdd"}, affinity=required(labelled("disk", "Exists"))),
        has(labels=GPU),
        ELSEWHERE,
    ),
    "an empty term matches no node": (asks(affinity=required({})), has(), ELSEWHERE),
    "no terms match no node": (asks(affinity=required()), has(), ELSEWHERE),
    "named by a field": (asks(affinity=required(named("In", "n"))), has(), None),
    "another is named by a field": (asks(affinity=required(named("In", "m"))), has(), UNNAMED),
    "another is named, which comes before cordoned": (
        asks(affinity=required(named("In", "m"))),
        has(unschedulable=True),
        UNNAMED,
    ),
    "one term names no node, so the others narrow nothing": (
        asks(affinity=required(named("In", "m"), labelled("disk", "Exists"))),
        has(),
        ELSEWHERE,
    ),
    "excluded by a field": (asks(affinity=required(named("NotIn", "n"))), has(), ELSEWHERE),
    "another is excluded by a field": (asks(affinity=required(named("NotIn", "m"))), has(), None),
    "two names at once": (
        asks(
            affinity=required(
                {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["n"]},
                        {"key": "metadata.name", "operator": "In", "values": ["m"]},
                    ]
                }
            )
        ),
        has(),
        "pod affinity terms conflict",
    ),
    "as large as the node": (
        asks({name: amount for name, amount in ROOM.items() if name != "pods"}),
        has(),
        None,
    ),
    "more cpu than there is": (asks({"cpu": "4001m"}), has(), "Insufficient cpu"),
    "a byte too many": (asks({"memory": "8589934593"}), has(), "Insufficient memory"),
    "an extended resource": (asks({"example.com/gpu": "3"}), has(), "Insufficient example.com/gpu"),
    "a resource the node never named": (
        asks({"example.com/fpga": "1"}),
        has(),
        "Insufficient example.com/fpga",
    ),
    "nothing of a resource the node never named": (asks({"example.com/fpga": "0"}), has(), None),
    "all that is short is named, in kube-scheduler's order": (
        asks({"cpu": "9", "memory": "9Gi", "example.com/gpu": "3"}),
        has({"pods": "0"}),
        "Too many pods, Insufficient cpu, Insufficient memory, Insufficient example.com/gpu",
    ),
    "a node that names no room has none": (
        asks(),
        SchedulableNode(metadata=ObjectMeta(name="n")),
        "Too many pods",
    ),
    "elsewhere comes before insufficient": (asks({"cpu": "9"}, nodeSelector={"a": "b"}), has(), ELSEWHERE),
}


@pytest.mark.parametrize(("wanted", "there", "want"), CASES.values(), ids=CASES.keys())
def test_a_node_is_refused_in_kube_schedulers_words(
    wanted: Schedulable, there: SchedulableNode, want: str | None
) -> None:
    """Each node filter and resources, for one pod and one empty node; the other node does not suit."""
    snapshot = snapshot_of(there, node("other"))
    assert refusal(shape(wanted, snapshot), snapshot) == want


def test_room_is_what_the_pods_there_leave() -> None:
    """Requests of the pods on a node count, and so does their number."""
    snapshot = snapshot_of(has(), *(pod(f"p{number}", {"cpu": "1500m"}, node="n") for number in range(2)))
    assert refusal(shape(asks({"cpu": "1"}), snapshot), snapshot) is None
    assert refusal(shape(asks({"cpu": "1001m"}), snapshot), snapshot) == "Insufficient cpu"
    snapshot.apply(None, pod("p2", node="n"))
    assert refusal(shape(asks(), snapshot), snapshot) == "Too many pods"


def test_an_overcommitted_node_takes_pods_that_do_not_request_that_resource() -> None:
    """A node over its cpu capacity still takes a pod that requests none."""
    snapshot = snapshot_of(has(), pod("big", {"cpu": "5"}, node="n"))
    assert refusal(shape(asks({"memory": "1Gi"}), snapshot), snapshot) is None
    assert refusal(shape(asks({"cpu": "1m"}), snapshot), snapshot) == "Insufficient cpu"


def test_preemption_cannot_help_where_the_node_is_too_small() -> None:
    """A request beyond the whole node is unresolvable; a full node is not, nor one with room for no pods."""
    snapshot = snapshot_of(has(), node("none", ROOM | {"pods": "0"}), pod("big", {"cpu": "4"}, node="n"))
    resources = ResourcesFilter(snapshot)

    def resolvable(requests: Quantities) -> set[str | None]:
        rows = resources.possible(shape(asks(requests), snapshot)).nonzero()[0]
        return {snapshot.names[row] for row in rows.tolist()}

    assert resolvable({"cpu": "4"}) == {"n", "none"}
    assert resolvable({"cpu": "4001m"}) == set()
    assert resolvable({"example.com/fpga": "1"}) == set()


def test_bound_volumes_must_be_within_reach() -> None:
    """Every volume's node affinity counts, by labels only, and its zones; a node without a zone is in any."""
    local = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    snapshot = snapshot_of(
        node("n", labels={"disk": "ssd", "topology.kubernetes.io/zone": "a"}),
        node("far", labels={"disk": "hdd", "topology.kubernetes.io/zone": "a"}),
        node("abroad", labels={"disk": "ssd", "topology.kubernetes.io/zone": "b"}),
        node("nowhere", labels={"disk": "ssd"}),
        volume("v", terms=[local]),
        volume("w", labels={"topology.kubernetes.io/zone": "a__c"}),
        claim("data", "v"),
        claim("logs", "w"),
    )
    claims = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in ("data", "logs")]
    wanted = shape(asks(volumes=claims), snapshot)
    assert {name: refusal(wanted, snapshot, name) for name in snapshot.row} == {
        "n": None,
        "far": "node(s) didn't match PersistentVolume's node affinity",
        "abroad": "node(s) had no available volume zone",
        "nowhere": None,
    }


RESTARTS = {"name": "main", "restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
MOUNTS = {"name": "main", "volumeMounts": [{"name": "a"}, {"name": "b", "bindMountOptions": ["noexec"]}]}
REQUIRED: dict[str, tuple[Manifest, dict[int, tuple[str, ...]]]] = {
    "nothing": ({}, {36: (), 37: ()}),
    "a rule that restarts all containers": (
        {"containers": [RESTARTS]},
        dict.fromkeys((36, 37), ("RestartAllContainersOnContainerExits",)),
    ),
    "the rule of an init container": (
        {"initContainers": [RESTARTS]},
        dict.fromkeys((36, 37), ("RestartAllContainersOnContainerExits",)),
    ),
    "a rule that restarts one container": (
        {"containers": [{"name": "main", "restartPolicyRules": [{"action": "Restart"}]}]},
        {36: (), 37: ()},
    ),
    "a user namespace on the host's network": (
        {"hostNetwork": True, "hostUsers": False},
        dict.fromkeys((36, 37), ("UserNamespacesHostNetworkSupport",)),
    ),
    "a user namespace": ({"hostUsers": False}, {36: (), 37: ()}),
    "the host's users on its network": ({"hostNetwork": True, "hostUsers": True}, {36: (), 37: ()}),
    "options of a bind mount": ({"containers": [MOUNTS]}, {36: (), 37: ("VolumeBindMountOptions",)}),
    "those of an init container": ({"initContainers": [MOUNTS]}, {36: (), 37: ("VolumeBindMountOptions",)}),
    "those of an ephemeral container": (
        {"ephemeralContainers": [MOUNTS]},
        {36: (), 37: ("VolumeBindMountOptions",)},
    ),
    "several": (
        {"containers": [RESTARTS, MOUNTS]},
        {37: ("RestartAllContainersOnContainerExits", "VolumeBindMountOptions")},
    ),
}


@pytest.mark.parametrize(("spec", "want"), REQUIRED.values(), ids=REQUIRED)
def test_features_are_inferred_as_each_release_does(spec: Manifest, want: dict[int, tuple[str, ...]]) -> None:
    """In 1.35 the gate NodeDeclaredFeatures is off."""
    for minor, features in {35: (), **want}.items():
        assert (
            need(shape_of(asks(**spec), empty_snapshot(minor).plugins, minor), FeatureNeed).features
            == features
        )


@pytest.mark.parametrize(
    ("features", "want"),
    [
        (None, "node(s) didn't match Pod's required features"),
        (["VolumeBindMountOptions"], "node(s) didn't match Pod's required features"),
        (["RestartAllContainersOnContainerExits", "Unknown", "VolumeBindMountOptions"], None),
    ],
    ids=["none is declared", "one of two is declared", "all are declared"],
)
def test_a_node_must_declare_every_required_feature(features: list[str] | None, want: str | None) -> None:
    """That holds also when it declares them later."""
    wanted = asks(containers=[RESTARTS, MOUNTS])
    snapshot = snapshot_of(has(features=features))
    assert refusal(shape(wanted, snapshot), snapshot) == want
    assert refusal(shape(asks(), snapshot), snapshot) is None
    before = snapshot.objects[0]
    snapshot.apply(before, has(features=["RestartAllContainersOnContainerExits", "VolumeBindMountOptions"]))
    assert refusal(shape(wanted, snapshot), snapshot) is None


def test_a_refusal_names_the_features_that_no_node_has() -> None:
    snapshot = snapshot_of(has())
    wanted = shape(asks(containers=[RESTARTS, MOUNTS]), snapshot)
    features = "RestartAllContainersOnContainerExits, VolumeBindMountOptions"
    assert Chain(snapshot, {}).unmet(wanted) == (
        f"required features {features}: no node declares them",
        "",
        True,
    )


def test_a_kept_mask_cannot_be_changed() -> None:
    """Pods with equal requests share one answer, so no caller may narrow it in place."""
    snapshot = snapshot_of(has())
    (taints,) = filters_of(snapshot, [TaintTolerationFilter])
    mask = taints.mask(shape(asks(), snapshot))
    assert taints.mask(shape(asks({"cpu": "1"}), snapshot)) is mask
    with pytest.raises(ValueError, match="read-only"):
        mask &= False


# The oracle: the documentation, on manifests, one pod and one node at a time.


def tolerated(wanted: Schedulable, taint: Taint) -> bool:
    return any(
        each.effect in (None, taint.effect)
        and each.key in (None, taint.key)
        and (each.operator == "Exists" or (each.value or "") == (taint.value or ""))
        for each in wanted.spec.tolerations or ()
    )


def holds(expression: Any, labels: dict[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdecimal() and int(value) > int(expression.values[0])
        case _:
            return value is not None and value.isdecimal() and int(value) < int(expression.values[0])


def chosen(wanted: Schedulable, there: SchedulableNode) -> bool:
    labels = there.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (wanted.spec.nodeSelector or {}).items()):
        return False
    if wanted.spec.affinity is None:
        return True
    assert wanted.spec.affinity.nodeAffinity is not None
    selector = wanted.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert selector is not None
    name = {"metadata.name": there.metadata.name or ""}
    return any(
        bool(term.matchExpressions or term.matchFields)
        and all(holds(each, labels) for each in term.matchExpressions or ())
        and all(holds(each, name) for each in term.matchFields or ())
        for term in selector.nodeSelectorTerms or ()
    )


def outcome(wanted: Schedulable, there: SchedulableNode) -> tuple[bool, bool, bool]:
    assert there.spec is not None
    cordon = Taint("node.kubernetes.io/unschedulable", None, "NoSchedule")
    return (
        not there.spec.unschedulable or tolerated(wanted, cordon),
        all(tolerated(wanted, each) for each in there.spec.taints or () if each.effect != "PreferNoSchedule"),
        chosen(wanted, there),
    )


KEYS = ("a", "b", "node.kubernetes.io/unschedulable")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
keys, values, names = (
    st.sampled_from(KEYS),
    st.sampled_from(("", "x", "1", "2", "10")),
    st.sampled_from("nmo"),
)
numbers = st.sampled_from(("0", "1", "5"))


def expressions() -> st.SearchStrategy[Manifest]:
    listed = st.lists(values, min_size=1, max_size=2)
    return st.one_of(
        st.builds(labelled, keys, st.sampled_from(("In", "NotIn")), st.just("x")),
        st.builds(lambda *of: labelled(of[0], of[1], *of[2]), keys, st.sampled_from(("In", "NotIn")), listed),
        st.builds(labelled, keys, st.sampled_from(("Exists", "DoesNotExist"))),
        st.builds(labelled, keys, st.sampled_from(("Gt", "Lt")), numbers),
        st.builds(named, st.sampled_from(("In", "NotIn")), names),
    )


def merged(parts: list[Manifest]) -> Manifest:
    return {
        kind: [each for part in parts for each in part.get(kind, ())]
        for kind in ("matchExpressions", "matchFields")
    }


taints = st.fixed_dictionaries({"key": keys, "effect": st.sampled_from(EFFECTS)}, optional={"value": values})
tolerations = st.one_of(
    st.fixed_dictionaries(
        {"operator": st.just("Exists")}, optional={"key": keys, "effect": st.sampled_from(EFFECTS)}
    ),
    st.fixed_dictionaries({"key": keys}, optional={"value": values, "effect": st.sampled_from(EFFECTS)}),
)
terms = st.lists(expressions(), max_size=3).map(merged)
pods = st.builds(
    lambda selector, affinity, tolerations: asks(
        nodeSelector=selector, affinity=affinity, tolerations=tolerations
    ),
    st.dictionaries(keys, values, max_size=2),
    st.none() | st.lists(terms, max_size=3).map(lambda terms: required(*terms)),
    st.lists(tolerations, max_size=3),
)
nodes = st.builds(
    lambda name, labels, taints, cordoned: node(name, labels=labels, taints=taints, unschedulable=cordoned),
    names,
    st.dictionaries(keys, values),
    st.lists(taints, max_size=2),
    st.booleans(),
)


@given(pods=st.lists(pods, min_size=1, max_size=3), events=st.lists(nodes | names, min_size=1, max_size=8))
def test_node_filters_agree_with_the_documentation(
    pods: list[Schedulable], events: list[SchedulableNode | str]
) -> None:
    """After every change of a node, each cached mask equals the answers for pod and node."""
    snapshot = empty_snapshot()
    filters = filters_of(snapshot, NODES[1:4])
    alive: dict[str, SchedulableNode] = {}
    for event in events:
        if isinstance(event, str):
            snapshot.remove_node(event)
            alive.pop(event, None)
        else:
            snapshot.add_node(event)
            alive[event.metadata.name or ""] = event
        for wanted in pods:
            masks = [each.mask(shape(wanted, snapshot)) for each in filters]
            for name, there in alive.items():
                row = snapshot.row[name]
                assert tuple(bool(mask[row]) for mask in masks) == outcome(wanted, there)
            assert all(not (mask & ~snapshot.alive).any() for mask in masks)


sizes = st.dictionaries(st.sampled_from(("cpu", "memory", "a/b")), st.integers(0, 4).map(str), max_size=3)


@given(
    rooms=st.lists(sizes, min_size=1, max_size=3),
    placed=st.lists(st.tuples(st.integers(0, 2), sizes), max_size=6),
    wanted=sizes,
)
def test_resources_are_subtraction(
    rooms: list[dict[str, str]], placed: list[tuple[int, dict[str, str]]], wanted: dict[str, str]
) -> None:
    """A pod fits if the pods there leave each amount it requests, and one more pod may run."""
    rooms = [{"cpu": "0", "memory": "0", "pods": "3"} | room for room in rooms]
    there = [(at, requests) for at, requests in placed if at < len(rooms)]
    snapshot = snapshot_of(
        *(node(f"n{at}", room) for at, room in enumerate(rooms)),
        *(pod(f"p{number}", requests, node=f"n{at}") for number, (at, requests) in enumerate(there)),
    )
    resources, wanted_shape = ResourcesFilter(snapshot), shape(asks(wanted), snapshot)
    for at, room in enumerate(rooms):
        held = [requests for where, requests in there if where == at]
        short = {"pods"} if len(held) + 1 > int(room["pods"]) else set()
        for name, amount in wanted.items():
            free = int(room.get(name, 0)) - sum(int(requests.get(name, 0)) for requests in held)
            if int(amount) and int(amount) > free:
                short.add(name)
        row = snapshot.row[f"n{at}"]
        reasons = {each.removeprefix("Insufficient ") for each in resources.reasons(wanted_shape, row)}
        assert reasons == {"Too many pods" if name == "pods" else name for name in short}
        assert bool(resources.mask(wanted_shape)[row]) == (not short)
        large = all(int(amount) <= int(room.get(name, 0)) for name, amount in wanted.items())
        assert bool(resources.possible(wanted_shape)[row]) == large


@pytest.mark.parametrize("dtype", [np.bool_, np.int32])
def test_answers_are_kept_up_to_a_number_of_bytes(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are dropped first; wide answers count by their size."""
    snapshot = empty_snapshot()
    snapshot.apply(None, node("n"))
    size = len(snapshot.alive) * np.dtype(dtype).itemsize
    monkeypatch.setattr(filters_of_nodes, "KEPT_BYTES", 3 * size)
    kept: filters_of_nodes.NodeCache[Any] = filters_of_nodes.NodeCache(snapshot)
    made: list[int] = []

    def ask(key: int) -> None:
        def make() -> Any:
            made.append(key)
            return np.zeros(len(snapshot.alive), dtype)

        kept.get(key, make)

    for key in (1, 2, 3, 1, 4, 2, 3, 4, 1):
        ask(key)
    assert made == [1, 2, 3, 4, 1]
    snapshot.apply(None, node("m"))
    ask(4)
    assert made[-1] == 4
