"""The cluster as arrays: updated by events, and equal to a new snapshot after any history."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.filters import picture
from tests.support.filters.builders import (
    NS,
    claim,
    container,
    empty_snapshot,
    node,
    pod,
    volume,
    volume_needs,
)
from tests.support.filters.picture import row_of, shape_in, snapshot_of

from podium.api.core import Node, Pod
from podium.api.meta import ObjectMeta
from podium.api.podrequests import LARGEST
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.api.storage import PersistentVolume, PersistentVolumeClaim
from podium.cluster.state import ClusterState
from podium.planner.arrays import ABSENT_VALUE, MOST, MOST_COLUMNS, MOST_RESOURCES, MOST_SPARE_COLUMNS
from podium.planner.overlay import PENDING, REMOVED, UNKNOWN_NODE
from podium.planner.plugins.noderesources import ResourcesFilter
from podium.planner.progress import NO_START
from podium.planner.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
GIB = 2**30
# The memory of a resource without arrays, in the sums and in the shape that requests it.
BYTES_A_NAME = 700


def used(snapshot: Snapshot, resource: str, name: str) -> int:
    return snapshot.used[snapshot.resource[resource]].item(snapshot.row[name])


def problem_lines(snapshot: Snapshot) -> list[str]:
    return [f"{each.object}: {each.field}: {each.why}" for each in snapshot.problems()]


# Rows and amounts.


def test_a_pods_requests_count_on_its_node_until_it_is_gone() -> None:
    """Requests in milli cpu and bytes; a finished or deleted pod takes nothing."""
    snapshot = snapshot_of(node("n", {"example.com/gpu": "8"}), node("other"))
    one = pod("a", {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"}, node="n")
    two = pod("b", {"cpu": "1"}, node="n")
    snapshot.apply(None, one)
    snapshot.apply(None, two)
    assert [used(snapshot, each, "n") for each in ("cpu", "memory", "example.com/gpu", "pods")] == [
        1500,
        GIB,
        2,
        2,
    ]
    assert used(snapshot, "cpu", "other") == 0
    snapshot.apply(two, pod("b", {"cpu": "1"}, node="n", phase="Succeeded"))
    snapshot.apply(one, None)
    assert [used(snapshot, each, "n") for each in ("cpu", "memory", "pods")] == [0] * 3
    assert "example.com/gpu" not in snapshot.resource
    assert (NS, "b") not in snapshot.pod_row


def test_scores_count_defaults_for_missing_requests() -> None:
    """kube-scheduler scores a container without requests as 100m and 200Mi."""
    snapshot = snapshot_of(node("n"), pod("a", node="n"), pod("b", {"cpu": "1", "memory": "1Gi"}, node="n"))
    assert [array.item(snapshot.row["n"]) for array in snapshot.scored] == [1100, GIB + 200 * 2**20]
    assert used(snapshot, "cpu", "n") == 1000


def test_rows_are_stable_and_reused() -> None:
    """A node keeps its row while others change; a new one gets a free, empty row."""
    snapshot = snapshot_of(
        node("a"), node("b", {"example.com/gpu": "8"}, labels={ZONE: "z"}, unschedulable=True)
    )
    snapshot.apply(None, pod("p", {"cpu": "1"}, node="a"))
    snapshot.columns.column(ZONE)
    kept, freed = snapshot.row["a"], snapshot.row["b"]
    snapshot.apply(node("b"), None)
    for number in range(100):
        snapshot.apply(None, node(f"n-{number}", {"pods": "0"}))
    assert snapshot.row["a"] == kept
    assert snapshot.names[freed] == "n-0"
    assert used(snapshot, "cpu", "a") == 1000
    assert not snapshot.unschedulable.any()
    assert set(snapshot.columns.column(ZONE).tolist()) == {-1}
    assert all(array.item(freed) == 0 for array in snapshot.used.values())
    assert int(snapshot.alive.sum()) == 101


def test_copies_share_a_shape_until_the_last_is_gone() -> None:
    """Name, uid, node, priority and start are no part of a shape; an id is not reused."""
    snapshot = snapshot_of(
        node("n"), pod("a", {"cpu": "1"}), pod("b", {"cpu": "1000m"}, node="n", priority=7)
    )
    (shape_id,) = snapshot.shapes
    snapshot.apply(pod("a"), None)
    assert set(snapshot.shapes) == {shape_id}
    snapshot.apply(pod("b"), None)
    assert not snapshot.shapes
    snapshot.apply(None, pod("a", {"cpu": "1"}))
    assert set(snapshot.shapes) == {shape_id + 1}


def test_the_fields_that_order_victims() -> None:
    """Priority nil is 0; a start is in seconds, a missing one is the latest; deletion marks a pod."""
    snapshot = snapshot_of(
        pod("a", priority=None),
        pod("b", priority=-5, start="1970-01-01T01:00:00Z"),
        pod("c", priority=2_000_000_000, start="1970-01-01T01:00:01.5+00:00", terminating=True),
    )
    rows = [row_of(snapshot, name) for name in "abc"]
    assert snapshot.priority[rows].tolist() == [0, -5, 2_000_000_000]
    assert snapshot.start[rows].tolist() == [NO_START, 3600, 3601]
    assert snapshot.terminating[rows].tolist() == [False, False, True]
    assert [snapshot.uids[row] for row in rows] == [f"{NS}-{name}" for name in "abc"]


def test_the_release_decides_which_requests_count() -> None:
    """During a resize 1.36 takes the maximum of each container, 1.37 the maximum of the sums."""
    given = [
        {"name": name, "allocatedResources": cpu, "resources": {"requests": cpu}} for name, cpu in RESIZED
    ]
    resized = pod(
        "a",
        node="n",
        containers=[container({"cpu": "2"}, name="down"), container({"cpu": "1"}, name="up")],
        status={"containerStatuses": given},
    )
    taken = []
    for minor in (36, 37):
        snapshot = empty_snapshot(minor)
        snapshot.apply(None, node("n"))
        snapshot.apply(None, resized)
        taken.append(used(snapshot, "cpu", "n"))
    assert taken == [5000, 4000]


RESIZED: list[tuple[str, dict[str, str]]] = [("down", {"cpu": "1"}), ("up", {"cpu": "3"})]


# Nodes.


def test_a_node_change_is_told_once_and_only_if_it_matters() -> None:
    """A change of room leaves static masks valid; labels, taints and the unschedulable mark do not."""
    snapshot = snapshot_of(node("n"))
    listener = picture.Listener(snapshot, many=True)
    before = snapshot.node_revision
    changes: list[tuple[SchedulableNode, int]] = [
        (node("n", {"cpu": "64"}), 0),
        (node("n", labels={ZONE: "z"}), 1),
        (node("n", labels={ZONE: "z"}, taints=[{"key": "k", "effect": "NoSchedule"}]), 1),
        (node("n", labels={ZONE: "z"}, unschedulable=True), 1),
        (node("n", labels={ZONE: "z"}, unschedulable=True), 0),
    ]
    for changed, expected in changes:
        snapshot.apply(None, changed)
        before += expected
        assert snapshot.node_revision == before
    assert listener.changed == ["n"] * 3


def test_pods_of_an_unknown_node_wait_for_it_and_are_named() -> None:
    """Informers may deliver a pod before its node, and delete a node before its pods: any order is right."""
    early = pod("early", {"cpu": "1"}, node="n")
    snapshot = snapshot_of(early)
    assert problem_lines(snapshot) == [f"Pod {NS}/early: spec.nodeName: node n does not exist"]
    assert snapshot.node.item(row_of(snapshot, "early")) == UNKNOWN_NODE
    snapshot.apply(None, node("n"))
    assert used(snapshot, "cpu", "n") == 1000
    assert not snapshot.problems()
    snapshot.apply(node("n"), None)
    assert snapshot.home.item(row_of(snapshot, "early")) == UNKNOWN_NODE
    snapshot.apply(early, pod("early", {"cpu": "1"}, node="m"))
    snapshot.apply(None, node("m"))
    snapshot.apply(None, node("n"))
    assert (used(snapshot, "cpu", "m"), used(snapshot, "cpu", "n")) == (1000, 0)


# Unreadable values.

UNUSABLE = {
    "negative": ({"memory": "-1Gi"}, "spec.containers[0].resources.requests[memory]"),
    "no quantity": ({"cpu": "many"}, "spec.containers[0].resources.requests[cpu]"),
    "absurd": ({"memory": "1000Pi"}, "spec[memory]"),
}


@pytest.mark.parametrize("requests, field", UNUSABLE.values(), ids=UNUSABLE)
def test_a_request_that_cannot_be_counted_takes_all_of_its_resource(
    requests: dict[str, str], field: str
) -> None:
    """The pod is named. Other resources of the node stay as they are."""
    bad = pod("bad", {"example.com/gpu": "1", **requests}, node="n")
    snapshot = snapshot_of(node("n", {"example.com/gpu": "8"}), bad)
    (name,) = requests
    assert used(snapshot, name, "n") == LARGEST
    assert used(snapshot, "example.com/gpu", "n") == 1
    (named,) = snapshot.problems()
    assert (str(named.object), named.field) == (f"Pod {NS}/bad", field)
    snapshot.apply(bad, None)
    assert used(snapshot, name, "n") == 0
    assert not snapshot.problems()


def test_sums_beyond_64_bits_stay_full_and_are_taken_back_exactly() -> None:
    """Three thousand pods of 4 PiB overflow an integer; without them the node is as before."""
    snapshot = snapshot_of(node("n"), pod("small", {"memory": "1Gi"}, node="n"))
    huge = [pod(f"huge-{number}", {"memory": "4Pi"}, node="n") for number in range(3000)]
    for each in huge:
        snapshot.apply(None, each)
    assert used(snapshot, "memory", "n") == MOST
    rows = np.array([row_of(snapshot, each.metadata.name or "") for each in huge])
    with snapshot.trial():
        snapshot.remove_many(rows[:2000])
        assert used(snapshot, "memory", "n") == 1000 * LARGEST + GIB
        snapshot.remove_many(rows[2000:])
        assert used(snapshot, "memory", "n") == GIB
    assert used(snapshot, "memory", "n") == MOST
    for each in huge:
        snapshot.apply(each, None)
    assert used(snapshot, "memory", "n") == GIB


# Added and removed resources.

GPU = "example.com/gpu"


def test_a_resource_has_arrays_only_while_a_node_offers_it() -> None:
    """The requests of running pods count as soon as a node has the resource, and so do later pods."""
    snapshot = snapshot_of(node("n"), node("m"), pod("a", {GPU: "2"}, node="n"), pod("b", {GPU: "1"}))
    assert GPU not in snapshot.resource
    snapshot.apply(node("n"), node("n", {GPU: "8"}))
    at = snapshot.resource[GPU]
    assert used(snapshot, GPU, "n") == 2
    assert [snapshot.requests[at].item(row_of(snapshot, name)) for name in "ab"] == [2, 1]
    snapshot.assume(row_of(snapshot, "b"), snapshot.row["n"])
    snapshot.apply(None, pod("c", {GPU: "4"}, node="m"))
    assert (used(snapshot, GPU, "n"), used(snapshot, GPU, "m")) == (3, 4)
    snapshot.apply(None, node("m", {GPU: "8"}))
    snapshot.apply(None, node("n"))
    assert snapshot.resource[GPU] == at
    snapshot.apply(node("m"), None)
    assert GPU not in snapshot.resource
    assert {at} & (snapshot.allocatable.keys() | snapshot.used.keys() | snapshot.requests.keys()) == set()
    assert {at} & {position for needs in snapshot._needs.values() for position, _ in needs} == set()
    snapshot.apply(None, node("n", {GPU: "8"}))
    assert used(snapshot, GPU, "n") == 3


def test_one_node_may_exchange_one_resource_for_another() -> None:
    snapshot = snapshot_of(
        node("n", {"x.com/old": "1"}), pod("a", {"x.com/old": "1", "x.com/new": "2"}, node="n")
    )
    snapshot.apply(None, node("n", {"x.com/new": "4"}))
    assert sorted(snapshot.resource) == ["cpu", "memory", "pods", "x.com/new"]
    assert used(snapshot, "x.com/new", "n") == 2


ODD = {f"odd.example.com/{number}": "1" for number in range(2_000)}
MANY_NODES = [node(f"n{at}") for at in range(500)]
NAMES: dict[str, list[Any]] = {
    "a pod requests them and no node offers them": [pod("odd", ODD)],
    "a pod has them on a node that does not offer them": [pod("odd", ODD, node="n0")],
    "a node offers them and no pod requests them": [node("odd", ODD)],
    "a node offers them and a pod requests them": [node("odd", ODD), pod("odd", ODD)],
}


@pytest.mark.parametrize("odd", NAMES.values(), ids=list(NAMES))
@pytest.mark.parametrize("reverse", [False, True])
def test_the_memory_of_a_resource_does_not_grow_with_the_cluster(odd: list[Any], *, reverse: bool) -> None:
    """Dense arrays of 500 nodes would take 8,000 bytes a name; `MOST_RESOURCES` resources may have them."""
    snapshot = snapshot_of(*MANY_NODES, pod("usual"))
    before = _bytes_of(snapshot)
    tracemalloc.start()
    for each in reversed(odd) if reverse else odd:
        snapshot.apply(None, each)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    dense = _bytes_of(snapshot) - before
    assert len(snapshot.resource) <= MOST_RESOURCES
    assert dense <= (MOST_RESOURCES if len(odd) > 1 else 0) * 3 * 8 * len(snapshot.alive)
    assert (allocated - dense) / len(ODD) < BYTES_A_NAME
    for each in odd:
        snapshot.apply(each, None)
    assert sorted(snapshot.resource) == ["cpu", "memory", "pods"]
    assert _bytes_of(snapshot) == before


def _bytes_of(snapshot: Snapshot) -> int:
    """Return the bytes of the arrays of amounts."""
    arrays = (snapshot.allocatable, snapshot.used, snapshot.requests)
    return sum(array.nbytes for by_position in arrays for array in by_position.values())


def test_the_resources_that_most_nodes_offer_count() -> None:
    """A resource on two nodes takes the arrays of one on a single node, and gives them back."""
    shared = "shared.example.com/gpu"
    snapshot = snapshot_of(node("a", {shared: "4", **ODD}), node("b"), pod("odd", ODD))
    assert len(snapshot.resource) == MOST_RESOURCES
    snapshot.apply(None, pod("honest", {shared: "3"}, node="a"))
    assert shared not in snapshot.resource
    wanted = shape_in(snapshot, "honest")
    assert ResourcesFilter(snapshot).reasons(wanted, snapshot.row["a"]) == (
        f"{shared} is not counted (more than {MOST_RESOURCES} resources)",
    )
    snapshot.apply(None, node("b", {shared: "2"}))
    assert len(snapshot.resource) == MOST_RESOURCES
    assert (used(snapshot, shared, "a"), used(snapshot, shared, "b")) == (3, 0)
    snapshot.apply(pod("odd"), None)
    assert sorted(snapshot.resource) == ["cpu", "memory", "pods", shared]
    assert used(snapshot, shared, "a") == 3


def test_the_memory_of_label_keys_is_limited() -> None:
    """A node may have as many labels as fit into an object, and a pod may select by each."""
    many = MOST_COLUMNS + 2 * MOST_SPARE_COLUMNS
    snapshot = snapshot_of(node("plain"), node("odd", labels={f"key-{at}": f"v{at}" for at in range(many)}))
    columns, odd = snapshot.columns, snapshot.row["odd"]
    for _ in range(2):
        for at in range(many):
            ids = columns.column(f"key-{at}")
            assert ids.item(snapshot.row["plain"]) == ABSENT_VALUE
            assert columns.values(f"key-{at}").of == {f"v{at}": ids.item(odd)}
    assert len(columns._columns) + len(columns._spare) == MOST_COLUMNS + MOST_SPARE_COLUMNS
    last = f"key-{many - 1}"
    snapshot.apply(None, node("plain", labels={last: "other"}))
    assert columns.values(last).of.keys() == {f"v{many - 1}", "other"}
    snapshot.apply(None, node("odd"))
    assert columns.values(last).of == {"other": columns.column(last).item(snapshot.row["plain"])}


def test_a_node_has_none_of_an_unusable_amount() -> None:
    snapshot = snapshot_of(node("n", {"memory": "-1", "cpu": "x"}))
    assert [each.field for each in snapshot.problems()] == [
        "status.allocatable[cpu]",
        "status.allocatable[memory]",
    ]
    for name in ("cpu", "memory"):
        at = snapshot.resource.get(name)
        assert at is None or snapshot.allocatable[at].item(snapshot.row["n"]) == 0
    snapshot.apply(None, node("n"))
    assert not snapshot.problems()


@pytest.mark.parametrize("start", ["soon", "2026-01-01", "2026-01-01T00:00:00"])
def test_an_unreadable_start_is_named_and_counts_as_none(start: str) -> None:
    """A time without its zone is refused: it would mean another moment on another machine."""
    snapshot = snapshot_of(pod("a", start=start))
    assert snapshot.start.item(row_of(snapshot, "a")) == NO_START
    (problem,) = snapshot.problems()
    assert problem.field == "status.startTime"
    assert repr(start) in problem.why
    snapshot.apply(None, pod("a", start="2026-01-01T00:00:00Z"))
    assert not snapshot.problems()


@pytest.mark.parametrize("obj", [Pod(metadata=ObjectMeta(name="a")), Node(metadata=ObjectMeta(name="a"))])
def test_a_read_without_constraints_is_refused(obj: object) -> None:
    """A pod read as a member only would fit anywhere; that is a bug of the program."""
    with pytest.raises(TypeError, match="read as Schedulable"):
        empty_snapshot().apply(None, obj)


# Volumes.


def test_shapes_follow_claims_and_volumes() -> None:
    """A claim that is bound, or its new volume, makes the pod placeable."""
    volumes: list[Any] = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    zone = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
    snapshot = snapshot_of(node("n"), pod("a", {"cpu": "1"}, node="n", volumes=volumes))
    history: list[tuple[object, object]] = [
        (None, claim("c")),
        (None, claim("c", "v")),
        (None, volume("v", terms=zone)),
    ]
    for before, after in history:
        assert shape_in(snapshot, "a").refused
        snapshot.apply(before, after)
    assert not shape_in(snapshot, "a").refused
    assert len(volume_needs(shape_in(snapshot, "a")).reach.volumes) == 1
    assert used(snapshot, "cpu", "n") == 1000
    snapshot.apply(volume("v", terms=zone), None)
    assert shape_in(snapshot, "a").refused
    assert len(snapshot.shapes) == 1


# Shapes.


def test_the_number_of_spellings_of_a_shape_is_limited() -> None:
    """A permanent shape is shared by pods with containers of other names."""
    snapshot = snapshot_of(pod("stays", {"cpu": "1"}))
    for number in range(300):
        one = pod("goes", containers=[container({"cpu": "1"}, name=f"c{number}")])
        snapshot.apply(None, one)
        assert len(snapshot.shapes) == 1
        snapshot.apply(one, None)
    assert len(snapshot._interner._seen) <= 64
    snapshot.apply(pod("stays"), None)
    assert not snapshot._interner._seen


# Assumed, lifted, tried.


def scene() -> Snapshot:
    """Two nodes, a running pod on the first, a pending one."""
    running = pod("running", {"cpu": "1"}, node="n")
    return snapshot_of(node("n"), node("m"), running, pod("pending", {"cpu": "2"}))


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    snapshot = scene()
    row = row_of(snapshot, "pending")
    snapshot.assume(row, snapshot.row["m"])
    assert used(snapshot, "cpu", "m") == 2000
    assert snapshot.pods_on(snapshot.row["m"]).tolist() == [row]
    snapshot.forget_pod(row)
    assert used(snapshot, "cpu", "m") == 0
    assert snapshot.node.item(row) == PENDING


AFTER_ASSUMING: dict[str, tuple[Schedulable, dict[str, int]]] = {
    "its status changes": (pod("pending", {"cpu": "2"}, priority=3), {"n": 1000, "m": 2000}),
    "its requests change": (pod("pending", {"cpu": "3"}), {"n": 1000, "m": 3000}),
    "the server agrees": (pod("pending", {"cpu": "2"}, node="m"), {"n": 1000, "m": 2000}),
    "the server has it elsewhere": (pod("pending", {"cpu": "2"}, node="n"), {"n": 3000, "m": 0}),
    "it was recreated": (pod("pending", {"cpu": "2"}, uid="another"), {"n": 1000, "m": 0}),
    "it ended": (pod("pending", {"cpu": "2"}, phase="Failed"), {"n": 1000, "m": 0}),
}


@pytest.mark.parametrize("after, cpu", AFTER_ASSUMING.values(), ids=AFTER_ASSUMING)
def test_an_assumption_ends_when_the_server_shows_a_node(after: Schedulable, cpu: dict[str, int]) -> None:
    """It survives events of the pod without a node, and no others."""
    snapshot = scene()
    snapshot.assume(row_of(snapshot, "pending"), snapshot.row["m"])
    snapshot.apply(pod("pending", {"cpu": "2"}), after)
    assert {name: used(snapshot, "cpu", name) for name in cpu} == cpu


def test_an_assumption_ends_with_its_node() -> None:
    snapshot = scene()
    row = row_of(snapshot, "pending")
    snapshot.assume(row, snapshot.row["m"])
    snapshot.apply(node("m"), None)
    snapshot.apply(None, node("m"))
    assert snapshot.node.item(row) == PENDING
    assert used(snapshot, "cpu", "m") == 0


def test_a_trial_leaves_nothing_behind_and_may_be_kept() -> None:
    """Inner trials end within outer ones; a kept trial stays until the outer one ends, or for good."""
    snapshot = scene()
    running, pending = row_of(snapshot, "running"), row_of(snapshot, "pending")
    before = picture.pods(snapshot), picture.nodes(snapshot, (ZONE,))
    with snapshot.trial() as outer:
        snapshot.remove(running)
        with snapshot.trial() as inner:
            snapshot.assume(pending, snapshot.row["n"])
            snapshot.forget_pod(running)
            inner.undo()
            assert used(snapshot, "cpu", "n") == 0
            snapshot.assume(pending, snapshot.row["n"])
            inner.commit()
        assert used(snapshot, "cpu", "n") == 2000
        assert snapshot.node.item(running) == REMOVED
        outer.undo()
        assert (picture.pods(snapshot), picture.nodes(snapshot, (ZONE,))) == before
        snapshot.assume(pending, snapshot.row["m"])
        outer.commit()
    assert used(snapshot, "cpu", "m") == 2000
    assert used(snapshot, "cpu", "n") == 1000


def test_a_trial_that_fails_leaves_nothing_behind() -> None:
    """An error undoes a trial that was to be kept."""
    snapshot = scene()
    before = picture.pods(snapshot)

    def fail() -> None:
        with snapshot.trial() as trial:
            snapshot.remove(row_of(snapshot, "running"))
            trial.commit()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert picture.pods(snapshot) == before


WRITES: dict[str, Callable[[Snapshot], None]] = {
    "a node": lambda snapshot: snapshot.add_node(node("n")),
    "no node": lambda snapshot: snapshot.remove_node("n"),
    "a pod": lambda snapshot: snapshot.add_pod(pod("running")),
    "no pod": lambda snapshot: snapshot.remove_pod((NS, "running")),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_no_object_is_applied_during_a_trial(write: Callable[[Snapshot], None]) -> None:
    """A trial is undone by rows, so rows must not be reused in it."""
    snapshot = scene()
    with snapshot.trial(), pytest.raises(AssertionError, match="while a trial is open"):
        write(snapshot)


def test_a_snapshot_follows_a_state() -> None:
    """The scheduler's snapshot is fed by the State that its informers feed."""
    state, snapshot = ClusterState(native_served=True), empty_snapshot()
    state.observe(snapshot.apply)
    state.apply(node("n"))
    state.apply(pod("a", {"cpu": "1"}, node="n"))
    state.apply(pod("a", {"cpu": "2"}, node="n"))
    assert used(snapshot, "cpu", "n") == 2000
    state.remove(pod("a"))
    state.remove(node("n"))
    assert not snapshot.row
    assert not snapshot.pod_row


# Any history.

NODES = ("n-1", "n-2", "n-3")
PODS = ("a", "b", "c", "d", "e")
KEYS = (ZONE, "disk")
_REQUESTS = st.sampled_from(
    [
        None,
        {"cpu": "1"},
        {"cpu": "500m", "memory": "1Gi"},
        {"example.com/gpu": "1"},
        {"memory": "4Pi"},
        {"memory": "-1"},
        {"cpu": "x", "memory": "1"},
    ]
)
_ROOM = st.sampled_from([{}, {"example.com/gpu": "4"}, {"cpu": "-1"}, {"memory": "4Pi", "pods": "3"}])
_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from("ab"))
_TAINTS = st.sampled_from([None, [{"key": "k", "effect": "NoSchedule"}], [{"key": "k", "value": "v"}]])
_STARTS = st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "never"])
_VOLUMES = st.sampled_from(
    [
        None,
        [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
        [{"name": "tmp", "ephemeral": {}}],
    ]
)
_POD_PARTS: dict[str, Any] = {
    "requests": _REQUESTS,
    "labels": st.dictionaries(st.just("app"), st.sampled_from("xy")),
    "node": st.sampled_from([None, None, *NODES, "nowhere"]),
    "priority": st.sampled_from([None, 0, 10]),
    "start": _STARTS,
    "uid": st.sampled_from(["1", "1", "1", "2"]),
    "terminating": st.booleans(),
    "phase": st.sampled_from([None, None, None, "Succeeded"]),
    "volumes": _VOLUMES,
}


class AnyHistory(RuleBasedStateMachine):
    """Objects change, pods are assumed and tried: the snapshot equals that of the objects."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = empty_snapshot()
        self.objects: dict[tuple[type, str], Any] = {}
        self.assumed: dict[str, str] = {}
        self.listeners = [picture.Listener(self.snapshot, many=many) for many in (False, True)]

    def put(self, obj: Any) -> None:
        key = (type(obj), obj.metadata.name or "")
        before = self.objects.get(key)
        self.objects[key] = obj
        if isinstance(obj, Schedulable) and not (
            before is not None
            and before.metadata.uid == obj.metadata.uid
            and not obj.finished
            and not obj.spec.nodeName
        ):
            self.assumed.pop(key[1], None)
        self.snapshot.apply(before, obj)

    @rule(name=st.sampled_from(NODES), room=_ROOM, labels=_LABELS, taints=_TAINTS, closed=st.booleans())
    def put_node(self, name: str, room: Any, labels: Any, taints: Any, closed: bool) -> None:
        self.put(node(name, room, labels=labels, taints=taints, unschedulable=closed))

    @rule(name=st.sampled_from(PODS), parts=st.fixed_dictionaries(_POD_PARTS))
    def put_pod(self, name: str, parts: dict[str, Any]) -> None:
        self.put(pod(name, **parts))

    @rule(bound=st.sampled_from([None, "v", "w"]), name=st.sampled_from(["c", "a-tmp"]))
    def put_claim(self, bound: str | None, name: str) -> None:
        self.put(claim(name, bound))

    @rule(name=st.sampled_from(["v", "w"]), labels=_LABELS)
    def put_volume(self, name: str, labels: dict[str, str]) -> None:
        self.put(volume(name, labels=labels))

    @rule(data=st.data())
    @precondition(lambda self: self.objects)
    def drop(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.objects, key=str)))
        obj = self.objects.pop(key)
        if isinstance(obj, Schedulable):
            self.assumed.pop(key[1], None)
        if isinstance(obj, SchedulableNode):
            self.assumed = {name: at for name, at in self.assumed.items() if at != key[1]}
        self.snapshot.apply(obj, None)

    @rule(data=st.data())
    @precondition(lambda self: self.snapshot.row and PENDING in self.snapshot.home)
    def assume(self, data: st.DataObject) -> None:
        """Assume a pending pod on a node, or release it."""
        snapshot = self.snapshot
        row = data.draw(st.sampled_from(np.flatnonzero(snapshot.home == PENDING).tolist()))
        name, at = picture.pod_name(snapshot, row), data.draw(st.sampled_from([None, *sorted(snapshot.row)]))
        if at is None:
            self.assumed.pop(name, None)
            snapshot.forget_pod(row)
        else:
            self.assumed[name] = at
            snapshot.assume(row, snapshot.row[at])

    @rule(data=st.data())
    @precondition(lambda self: self.snapshot.row and self.snapshot.pod_row)
    def try_out(self, data: st.DataObject) -> None:
        """Move pods, one by one and in bulk; afterwards nothing has changed."""
        snapshot = self.snapshot
        all_rows = sorted(snapshot.pod_row.values())
        places = [REMOVED, *sorted(snapshot.row.values())]
        before = self.look(snapshot)
        with snapshot.trial():
            for _ in range(data.draw(st.integers(1, 4))):
                rows = data.draw(st.lists(st.sampled_from(all_rows), unique=True))
                self.move(np.array(rows, np.intp), data.draw(st.sampled_from(places)), data)
                self.what_is_told_is_what_is()
                picture.check_indexes(snapshot)
        assert self.look(snapshot) == before

    def move(self, rows: Any, to: int, data: st.DataObject) -> None:
        snapshot, how = self.snapshot, data.draw(st.sampled_from(["one", "many", "home", "all home"]))
        if how == "all home":
            snapshot.forget_many(rows)
        elif how == "home":
            for row in rows.tolist():
                snapshot.forget_pod(row)
        elif how == "one":
            for row in rows.tolist():
                snapshot.remove(row) if to == REMOVED else snapshot.assume(row, to)
        elif to == REMOVED:
            snapshot.remove_many(rows)
        else:
            snapshot.assume_many(rows, np.full(len(rows), to, np.int32))

    def look(self, snapshot: Snapshot) -> Any:
        snapshot.catch_up()
        return picture.nodes(snapshot, KEYS), picture.pods(snapshot), snapshot.problems()

    @invariant()
    def it_is_the_snapshot_of_the_objects_there_are(self) -> None:
        """Assert that a new snapshot, built in another order, has the same facts of each object."""
        anew = empty_snapshot()
        kinds: list[type] = [Schedulable, SchedulableNode, PersistentVolume, PersistentVolumeClaim]
        for key in sorted(self.objects, key=lambda each: (kinds.index(each[0]), each[1])):
            anew.apply(None, self.objects[key])
        for name, at in self.assumed.items():
            anew.assume(row_of(anew, name), anew.row[at])
        assert self.look(self.snapshot) == self.look(anew)
        picture.check_free_rows(self.snapshot)
        picture.check_indexes(self.snapshot)

    @invariant()
    def what_is_told_is_what_is(self) -> None:
        """Assert that observers that add up their events know the node of each pod."""
        tally = picture.tally(self.snapshot)
        for listener in self.listeners:
            assert listener.tally == tally


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=30)
