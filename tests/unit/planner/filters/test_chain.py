"""All filters together: three forms of one answer, kube-scheduler's message, and plain shapes."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters import builders, dynamic_cases, picture
from tests.support.filters.builders import claim, node, pod, volume
from tests.support.filters.dynamic_scene import NAMESPACES, SAYS
from tests.support.filters.mixed import SCENES, MixedCluster
from tests.support.filters.picture import row_of, shape_in, snapshot_of
from tests.unit.planner.filters.test_dynamic_filters import PLACES

from podium.api.core import Namespace
from podium.api.meta import ObjectMeta
from podium.planner.filters.chain import Chain
from podium.planner.plugins.podaffinity.plugin import ExistingAntiAffinityFilter
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

TAINT = [{"key": "dedicated", "effect": "NoSchedule"}]
MOVES = st.lists(st.tuples(st.integers(0, 7), st.none() | PLACES), max_size=6)


def message(*objects: object, **wanted: Any) -> str:
    """Return the message for a pod, which is added last."""
    snapshot = snapshot_of(*objects, pod("wanted", **wanted))
    shape = shape_in(snapshot, "wanted")
    return Chain(snapshot, NAMESPACES).refusals(shape).message


def small(name: str, **more: Any) -> object:
    return node(name, {"cpu": "1", "memory": "1Gi", "pods": "1"}, **more)


def named(*names: str) -> dict[str, Any]:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names
    ]
    both = {"matchFields": [each for term in terms for each in term["matchFields"]]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [both]}}
    return {"affinity": {"nodeAffinity": required}}


def test_the_message_counts_each_reason_and_sorts_as_texts() -> None:
    """11 comes before 2, as kube-scheduler sorts whole entries; a node counts for each resource it lacks."""
    nodes = [*(small(f"s{number}") for number in range(11)), small("t0", taints=TAINT)]
    nodes += [small("t1", taints=TAINT), node("u", unschedulable=True)]
    assert message(*nodes, pod("there", node="s0"), requests={"cpu": "2", "memory": "2Gi"}) == (
        "0/14 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 11 Insufficient cpu, "
        "11 Insufficient memory, 2 node(s) had untolerated taint(s)."
    )


def test_a_node_is_refused_by_the_first_filter_alone() -> None:
    """Tainted, too small and in the wrong zone: the message has only the taint."""
    assert message(small("m", taints=TAINT), requests={"cpu": "2"}, nodeSelector={"zone": "1"}) == (
        "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    )


def test_ports_refuse_before_room_and_room_before_volumes() -> None:
    """The filters of one kind are not adjacent in kube-scheduler's order."""
    taken = pod("there", node="m", **dynamic_cases.port(80))
    reach = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}]
    bound = (claim("c", "v"), volume("v", terms=reach))
    mounts: dict[str, Any] = {"volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]}
    container = builders.container({"cpu": "2"}, ports=[{"hostPort": 80, "containerPort": 80}])
    assert message(small("m"), small("n"), node("o"), *bound, taken, **mounts, containers=[container]) == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't have free ports for the requested "
        "pod ports, 1 node(s) didn't match PersistentVolume's node affinity."
    )


def test_no_nodes() -> None:
    """kube-scheduler has a separate message for it."""
    assert message() == "no nodes available to schedule pods"


def test_names_that_exclude_each_other_refuse_before_any_node_is_looked_at() -> None:
    """kube-scheduler counts no node then."""
    assert message(node("m"), node("n"), **named("m", "n")) == (
        "0/2 nodes are available: pod affinity terms conflict."
    )


def test_an_absurd_request_closes_one_resource_of_its_node() -> None:
    """No room of the resource is free there; a pod that does not request it fits."""
    absurd = pod("absurd", {"memory": "9999999Ti"}, node="m")
    snapshot = snapshot_of(node("m"), absurd, pod("memory", {"memory": "1"}), pod("cpu", {"cpu": "1"}))
    chain, m = Chain(snapshot, NAMESPACES), snapshot.row["m"]
    wanted, other = (shape_in(snapshot, name) for name in ("memory", "cpu"))
    assert chain.static(wanted)[m]
    assert not chain.feasible(wanted).any()
    assert not chain.fits(wanted, m)
    assert chain.reasons(wanted, m) == ("Insufficient memory",)
    assert chain.refusals(wanted).message == "0/1 nodes are available: 1 Insufficient memory."
    assert chain.feasible(other)[m]
    assert chain.fits(other, m)


def test_a_reason_names_the_first_nodes_by_name() -> None:
    """There are three of them, in any order of arrival."""
    snapshot = snapshot_of(*map(small, ["m9", "m1", "m10", "m2"]), pod("wanted", {"cpu": "2"}))
    shape = snapshot.shapes[0]
    assert Chain(snapshot, NAMESPACES).refusals(shape).reasons == (
        ("Insufficient cpu", 4, ("m1", "m10", "m2")),
    )


def test_static_holds_whichever_pods_are_removed() -> None:
    """Full nodes are in it, and those with a taken port; too small or tainted ones are not."""
    snapshot = snapshot_of(
        node("full", {"cpu": "1"}),
        node("port"),
        small("few"),
        node("small", {"cpu": "500m"}),
        node("tainted", taints=TAINT),
        pod("a", {"cpu": "1"}, node="full"),
        pod("b", node="port", **dynamic_cases.port(80)),
        pod("c", node="few"),
        pod("wanted", containers=[builders.container({"cpu": "1"}, ports=[{"hostPort": 80}])]),
    )
    shape = shape_in(snapshot, "wanted")
    static = Chain(snapshot, NAMESPACES).static(shape)
    assert {name for name, row in snapshot.row.items() if static[row]} == {"full", "port", "few"}


def _guarded(key: str = "host") -> tuple[Snapshot, Shape, Chain]:
    """Return a pod of app a, and a pending guard whose anti-affinity selects it."""
    snapshot = snapshot_of(node("m", labels={"host": "m"}), pod("wanted", labels={"app": "a"}))
    chain = Chain(snapshot, NAMESPACES)
    repels = dynamic_cases.anti_affinity(dynamic_cases.term("a", key))
    snapshot.add_pod(pod("guard", labels={"app": "guard"}, **repels))
    return snapshot, shape_in(snapshot, "wanted"), chain


def test_a_pending_pods_anti_affinity_concerns_no_pod() -> None:
    """A guard that counts on a node changes the answer, also while a plan removes and restores it."""
    snapshot, shape, chain = _guarded()
    guard, m = row_of(snapshot, "guard"), snapshot.row["m"]
    assert chain.resources_only(shape)
    with snapshot.trial():
        snapshot.assume(guard, m)
        assert not chain.resources_only(shape)
        assert chain.reasons(shape, m) == (SAYS["existing"],)
        assert not chain.fits(shape, m)
        snapshot.remove(guard)
        assert not chain.resources_only(shape)
        assert chain.fits(shape, m)
    chain.drop_idle()
    assert chain.resources_only(shape)


def test_an_announced_pods_anti_affinity_concerns_other_pods() -> None:
    snapshot, shape, chain = _guarded()
    chain.announce([snapshot.shape.item(row_of(snapshot, "guard"))])
    assert not chain.resources_only(shape)
    chain.drop_idle()
    assert chain.resources_only(shape)


def test_a_term_with_an_unknown_topology_key_concerns_no_pod() -> None:
    snapshot, shape, chain = _guarded("no.such/key")
    snapshot.assume(row_of(snapshot, "guard"), snapshot.row["m"])
    assert chain.resources_only(shape)
    snapshot.add_node(node("n", labels={"no.such/key": "here"}))
    assert not chain.resources_only(shape)


def test_terms_that_no_pod_has_any_more_are_dropped() -> None:
    """Each Job has terms of its own; those of deleted pods restrict no pod."""
    snapshot, shape, chain = _guarded()
    snapshot.assume(row_of(snapshot, "guard"), snapshot.row["m"])
    assert not chain.resources_only(shape)
    snapshot.remove_pod((builders.NS, "guard"))
    chain.drop_idle()
    assert chain.resources_only(shape)


def test_a_node_that_gets_a_device_is_no_new_node() -> None:
    """A pod requests a resource that no node had when it came."""
    snapshot = snapshot_of(node("m"), pod("new", {"example.com/gpu": "1"}))
    shape, chain = shape_in(snapshot, "new"), Chain(snapshot, NAMESPACES)
    assert not chain.fits(shape, snapshot.row["m"])
    snapshot.add_node(node("m", {"example.com/gpu": "1"}))
    assert chain.fits(shape, snapshot.row["m"])
    assert chain.feasible(shape)[snapshot.row["m"]]


def test_namespaces_are_read_again_after_forget() -> None:
    """After `forget`, terms select the pods of the current namespaces."""
    namespaces: dict[str, Namespace] = {"team-a": Namespace(metadata=ObjectMeta(name="team-a"))}
    term = dynamic_cases.term("a", "host", namespaceSelector={"matchLabels": {"env": "prod"}})
    snapshot = snapshot_of(
        node("m", labels={"host": "m"}),
        pod("guard", node="m", **dynamic_cases.anti_affinity(term)),
        pod("wanted", labels={"app": "a"}),
    )
    shape = shape_in(snapshot, "wanted")
    chain = Chain(snapshot, namespaces)
    assert chain.resources_only(shape)
    namespaces["team-a"] = NAMESPACES["team-a"]
    chain.reload_namespaces()
    assert not chain.resources_only(shape)
    assert chain.reasons(shape, snapshot.row["m"]) == (SAYS["existing"],)


def _check(mixed: MixedCluster, chain: Chain) -> None:
    """Assert that the three forms agree with each other and the oracles, for every pod and node."""
    snapshot = mixed.snapshot
    for name in mixed.pods:
        if mixed.place(name) is not None:
            continue
        shape = mixed.shape(name)
        mask = chain.feasible(shape)
        counts: Counter[str] = Counter()
        for node_name in mixed.nodes:
            row = snapshot.row[node_name]
            why = chain.reasons(shape, row)
            counts.update(why)
            assert chain.fits(shape, row) == bool(mask[row]) == (not why) == mixed.allows(name, node_name)
            if not chain.static(shape)[row]:
                assert why
        assert mask.sum() <= len(mixed.nodes)
        refusals = chain.refusals(shape)
        assert {reason: count for reason, count, _ in refusals.reasons} == counts
        assert refusals.nodes == len(mixed.nodes)


@given(scene=SCENES, moves=MOVES)
def test_mask_fits_and_why_agree_with_the_oracles(scene: Mapping[str, Any], moves: Any) -> None:
    """The answers agree with the pods in place, in a trial with moved pods, and after it."""
    mixed = MixedCluster(**scene)
    chain = Chain(mixed.snapshot, NAMESPACES)
    _check(mixed, chain)
    before = picture.nodes(mixed.snapshot, ("zone",)), picture.pods(mixed.snapshot)
    with mixed.snapshot.trial():
        _move(mixed, moves)
        _check(mixed, chain)
    assert (picture.nodes(mixed.snapshot, ("zone",)), picture.pods(mixed.snapshot)) == before
    _check(mixed, chain)


@given(scene=SCENES, moves=MOVES)
def test_for_a_plain_shape_other_pods_change_only_room(scene: Mapping[str, Any], moves: Any) -> None:
    """With any pods lifted or placed, the shape fits on feasible nodes with enough room."""
    mixed = MixedCluster(**scene)
    chain = Chain(mixed.snapshot, NAMESPACES)
    chain.announce([*mixed.snapshot.shapes])
    plain = [shape for shape in mixed.snapshot.shapes.values() if chain.resources_only(shape)]
    static = [chain.static(shape) for shape in plain]
    with mixed.snapshot.trial():
        _move(mixed, moves)
        for shape, suits in zip(plain, static, strict=True):
            assert chain.resources_only(shape)
            assert (chain.static(shape) == suits).all()
            assert (chain.feasible(shape) == (suits & chain.room.mask(shape))).all()


def _move(mixed: MixedCluster, moves: list[tuple[int, str | None]]) -> None:
    for number, place in moves:
        row = mixed.row.get(f"pod-{number}")
        if row is None:
            continue
        if place in mixed.nodes:
            mixed.snapshot.assume(row, mixed.snapshot.row[place])
        else:
            mixed.snapshot.remove(row)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_terms_of_deleted_pods_are_not_kept() -> None:
    """Pods of the maximum size are added, decided and removed: nothing keeps their terms."""
    snapshot = snapshot_of(node("m"))
    chain = Chain(snapshot, NAMESPACES)
    for number in range(8):
        terms = [
            {"labelSelector": {"matchLabels": {"n": f"{number}-{at}"}}, "topologyKey": f"k{at}"}
            for at in range(2000)
        ]
        large = pod("large", affinity={"podAntiAffinity": {REQUIRED: terms}})
        snapshot.apply(None, large)
        shape = shape_in(snapshot, "large")
        chain.refusals(shape)
        assert chain.feasible(shape).any()
        snapshot.apply(large, None)
    snapshot.apply(None, pod("small", labels={"a": "b"}))
    chain.feasible(snapshot.shapes[max(snapshot.shapes)])
    assert not any(own.terms._shapes for own in chain.dynamic if isinstance(own, ExistingAntiAffinityFilter))
    assert all(look.shape in snapshot.shapes.values() for look in chain._by_shape.values())
