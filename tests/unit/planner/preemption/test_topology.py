"""A group with a topology constraint is placed in one domain: free room first, then the least harm."""

from typing import Any

import pytest
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import engine_of, gang, group, node, of, placed, planned, pod, victims

from podium.groups.topology import PREFERRED_TOPOLOGY, SPREAD_SET, SPREAD_TOPOLOGY
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
GPU = "example.com/gpu"


def rack(name: str, nodes: int, cpu: int = 4, **kwargs: Any) -> list[Any]:
    """Make nodes `name-0` and so on, in a rack."""
    return [node(f"{name}-{at}", cpu, labels={RACK: name}, **kwargs) for at in range(nodes)]


def constrained(
    pods: int, cpu: int = 4, *, least: int | None = -1, priority: int = 5, **kwargs: Any
) -> list[Any]:
    """Make a gang `high` of pending pods that wants one rack; `least` is -1 for all of them."""
    needed = pods if least == -1 else least
    members = gang("high", [None] * pods, cpu, priority=priority, **kwargs)
    return [group("high", priority, needed, topology=RACK), *members]


def racks_of(*objects: Any, **settings: Any) -> tuple[Outcome, list[str], list[str]]:
    """Return the outcome, the racks of the placed pods, and the victims."""
    plan = planned(*objects, by=of("high"), **settings)
    used = sorted({where.partition("-")[0] for where in placed(plan).values()})
    return plan.outcome, used, sorted(victims(plan))


def low(name: str, where: str, cpu: int = 4, priority: int = 1, **kwargs: Any) -> Any:
    """Make a running pod."""
    return pod(name, cpu, priority, node=where, **kwargs)


FREE = {
    "the only rack that is large enough": ([*rack("a", 1), *rack("b", 2)], 2, "b"),
    "the fullest rack": ([*rack("a", 3), *rack("b", 3), low("x", "b-0")], 2, "b"),
    "the smallest of equally full racks": ([*rack("a", 4, 2), *rack("b", 2)], 1, "b"),
    "the first by name of equal racks": ([*rack("b", 2), *rack("a", 2)], 2, "a"),
    "free room before every eviction": (
        [*rack("a", 2), *rack("b", 2), low("x", "a-0"), low("y", "a-1")],
        2,
        "b",
    ),
}


@pytest.mark.parametrize(("objects", "pods", "where"), FREE.values(), ids=FREE)
def test_a_gang_takes_free_room_in(objects: list[Any], pods: int, where: str) -> None:
    cpu = 2 if where == "b" and pods == 1 else 4
    assert racks_of(*objects, *constrained(pods, cpu)) == (Outcome.FITS, [where], [])


def test_accelerators_count_in_packing() -> None:
    """Rack a uses more cpu and memory, rack b more accelerators."""
    gpus = {"room": {GPU: 8}}
    used = builders.pod("x", {"cpu": 1, GPU: 8}, priority=1, node="b-0")
    objects = [*rack("a", 2, 8, **gpus), *rack("b", 2, 8, **gpus), low("y", "a-0", 2), used]
    member = builders.pod("high-0", {"cpu": 1, GPU: 4}, priority=5, group="high")
    assert racks_of(*objects, group("high", 5, 1, topology=RACK), member) == (Outcome.FITS, ["b"], [])


def test_nodes_without_the_label_belong_to_no_domain() -> None:
    objects = [*rack("a", 1), node("free-0", 64)]
    outcome, used, _ = racks_of(*objects, *constrained(2))
    assert (outcome, used) == (Outcome.DOES_NOT_FIT, [])


@pytest.mark.parametrize("lower", [[], [low("x", "n", 64)]], ids=["a free node", "possible victims"])
def test_a_label_that_no_node_has_is_named(lower: list[Any]) -> None:
    plan = planned(node("n", 64), *lower, *constrained(2), by=of("high"))
    assert plan.outcome is Outcome.DOES_NOT_FIT
    named = f"0/1 nodes are available: 1 node(s) had no label {RACK}, the topology of the group."
    assert named in plan.message


@pytest.mark.parametrize("required", ["", ZONE], ids=["", "in a zone"])
def test_a_preference_for_a_label_that_no_node_has_clears_a_node(required: str) -> None:
    objects = [node("n", 4, labels={ZONE: "z"}), low("x", "n"), pod("high-0", 4, 5, group="high")]
    wanted = group("high", 5, 1, topology=required, annotations={PREFERRED_TOPOLOGY: RACK})
    assert victims(planned(*objects, wanted, by=of("high"))) == ["x"]


def test_a_refusal_names_the_nearest_domain() -> None:
    plan = planned(*rack("a", 1), *rack("b", 2), *constrained(3), by=of("high"))
    assert plan.outcome is Outcome.DOES_NOT_FIT
    assert plan.message == (
        f"nothing has a lower priority: 0/2 domains of {RACK} are available, the nearest is {RACK}=b: "
        "2 of 3 members have room; 0/2 nodes are available: "
        "2 node(s) were taken by other members of the group (Insufficient cpu)."
    )


WIDE = [group("wide", 1, 4, whole=True), *gang("wide", ["a-0", "a-1", "c-0", "c-1"], 4, priority=1)]
CLEARED = {
    "the rack without a group that has pods in other racks": (
        [*rack("c", 2), *WIDE, low("x", "b-0"), low("y", "b-1")],
        ["x", "y"],
    ),
    "the rack with the lowest priority": (
        [low("x", "a-0", priority=3), low("y", "a-1"), low("z", "b-0", priority=2), low("w", "b-1")],
        ["w", "z"],
    ),
    "the rack with the fewest victims": (
        [*(low(f"x{at}", f"a-{at % 2}", 2) for at in range(4)), low("y", "b-0"), low("z", "b-1")],
        ["y", "z"],
    ),
    "the rack that is half free": ([low("x", "a-0"), low("y", "a-1"), low("z", "b-1")], ["z"]),
    "the rack with other pods than the highest": (
        [low("x", "a-0", priority=9), low("y", "a-1"), low("z", "b-0"), low("w", "b-1")],
        ["w", "z"],
    ),
}


@pytest.mark.parametrize(("running", "gone"), CLEARED.values(), ids=CLEARED)
def test_a_gang_clears(running: list[Any], gone: list[str]) -> None:
    objects = [*rack("a", 2), *rack("b", 2), *running, *constrained(2)]
    assert racks_of(*objects) == (Outcome.FITS_AFTER_PREEMPTION, ["b"], gone)


def test_a_priority_bound_leaves_out_no_cheaper_rack() -> None:
    """Many racks, of which the last has the only plan of a low priority."""
    objects: list[Any] = []
    for at in range(12):
        priority = 1 if at == 11 else 3
        objects += rack(f"r{at:02}", 2)
        objects += [low(f"x{at}", f"r{at:02}-0", priority=priority), low(f"y{at}", f"r{at:02}-1", priority=1)]
    outcome, used, gone = racks_of(*objects, *constrained(2))
    assert (outcome, used, gone) == (Outcome.FITS_AFTER_PREEMPTION, ["r11"], ["x11", "y11"])


PINNED = {
    "a free node beside it": (["a-0"], [], Outcome.FITS, ["a"], []),
    "a preemption beside it": (["a-0"], ["a-1"], Outcome.FITS_AFTER_PREEMPTION, ["a"], ["x0"]),
    "no node beside it": (["a-0", "a-1"], [], Outcome.DOES_NOT_FIT, [], []),
    "the rack of most members": (["a-0", "b-0", "b-1"], [], Outcome.FITS, ["b"], []),
    "a member outside every rack": (["a-0", "free-0"], [], Outcome.FITS, ["a"], []),
}


@pytest.mark.parametrize(("runs", "taken", "outcome", "used", "gone"), PINNED.values(), ids=PINNED)
def test_a_later_member_with_running_members_and(
    runs: list[str], taken: list[str], outcome: Outcome, used: list[str], gone: list[str]
) -> None:
    nodes = [*rack("a", 2), *rack("b", 3), node("free-0", 64)]
    members = [*gang("high", [*runs, None], 4, priority=5)]
    others = [low(f"x{at}", where) for at, where in enumerate(taken)]
    the_group = group("high", 5, len(runs) + 1, topology=RACK)
    assert racks_of(*nodes, the_group, *members, *others) == (outcome, used, gone)


def test_an_elastic_gang_prefers_the_rack_for_all_members() -> None:
    objects = [*rack("a", 2), low("x", "a-0", 1), *rack("b", 3)]
    plan = planned(*objects, *constrained(3, least=1), by=of("high"))
    assert set(placed(plan).values()) == {"b-0", "b-1", "b-2"}


def test_members_beyond_the_needed_ones_stay_in_the_domain() -> None:
    objects = [*rack("a", 2), *rack("b", 1), low("x", "a-0"), low("y", "a-1"), low("z", "b-0")]
    annotated = group("high", 5, 2, topology=RACK)
    plan = planned(*objects, annotated, *gang("high", [None] * 3, 4, priority=5), by=of("high"))
    assert {where.partition("-")[0] for where in placed(plan).values()} == {"a"}


def test_kube_scheduler_keeps_the_rack_that_packs_best() -> None:
    """Rack a has costlier victims and packs better; 1.37 chooses it, and kep does not."""
    objects = [*rack("a", 2), *rack("b", 3), *(low(f"x{at}", f"a-{at}", priority=4) for at in range(2))]
    objects += [low(f"y{at}", f"b-{at}") for at in range(3)]
    members = constrained(2)
    assert racks_of(*objects, *members)[1:] == (["b"], ["y1", "y2"])
    assert racks_of(*objects, *members, semantics=Semantics.V1_37)[1:] == (["a"], ["x0", "x1"])


def test_kube_scheduler_gives_up_a_group_that_straddles_racks() -> None:
    objects = [*rack("a", 2), *rack("b", 2)]
    members = gang("high", ["a-0", "b-0", None], 4, priority=5)
    plan = planned(
        *objects, group("high", 5, 3, topology=RACK), *members, by=of("high"), semantics=Semantics.V1_37
    )
    assert plan.outcome is Outcome.NOT_ELIGIBLE
    assert "more than 1 domain found for pod group: a, b" in plan.message


def test_1_36_preempts_for_no_group_with_a_constraint() -> None:
    objects = [*rack("a", 1), low("x", "a-0")]
    assert racks_of(*objects, *constrained(1), semantics=Semantics.V1_36)[::2] == (Outcome.DOES_NOT_FIT, [])


def test_a_label_that_changes_changes_the_domains() -> None:
    engine = engine_of(*rack("a", 1), *rack("b", 1), *constrained(2))
    key = of("high")
    assert engine.decide(key, NOW).outcome is Outcome.DOES_NOT_FIT
    engine.apply(rack("b", 1)[0], node("b-0", 4, labels={RACK: "a"}))
    assert engine.decide(key, NOW).outcome is Outcome.FITS


def test_a_report_compares_the_domains() -> None:
    """The chosen domain comes first, then the others by harm, then those that do not help."""
    objects = [*rack("a", 2), *rack("b", 2), *rack("c", 2), node("free-0")]
    objects += [low("x", "a-0", priority=3), low("y", "a-1"), low("z", "b-0"), low("w", "b-1")]
    objects += [low(f"v{at}", f"c-{at}", priority=9) for at in range(2)]
    plan = engine_of(*objects, *constrained(2)).plan(of("high"), NOW, domains=3)
    assert plan.message == f"2 of 2 pending pods fit in {RACK}=b after preempting 2 pods"
    assert plan.topology is not None
    assert (plan.topology.key, plan.topology.count) == (RACK, 3)
    assert [
        (each.name, each.chosen, each.nodes, each.free, each.capacity, each.outcome.value, each.message)
        for each in plan.topology.domains
    ] == [
        ("b", True, 2, 0, 2, "FitsAfterPreemption", ""),
        ("a", False, 2, 0, 2, "FitsAfterPreemption", ""),
        ("c", False, 2, 0, 0, "DoesNotFit", "0/2 nodes are available: 2 Insufficient cpu."),
    ]
    assert [each.harm.pods if each.harm else None for each in plan.topology.domains] == [2, 2, None]


@pytest.mark.parametrize("domains", [1, 2])
def test_a_report_has_so_many_domains(domains: int) -> None:
    engine = engine_of(*rack("a", 2), *rack("b", 2), *rack("c", 2), *constrained(2))
    plan = engine.plan(of("high"), NOW, domains=domains)
    assert plan.topology is not None
    assert [plan.topology.count, len(plan.topology.domains)] == [3, domains]
    assert plan.topology.domains[0].chosen


def test_a_pod_has_no_report_of_domains() -> None:
    assert (
        engine_of(node("n"), pod("high", 1, 5)).plan((builders.NS, "high"), NOW, domains=3).topology is None
    )


def zoned(zone: str, name: str, nodes: int, cpu: int = 4) -> list[Any]:
    """Make the nodes of a rack in a zone."""
    return [node(f"{name}-{at}", cpu, labels={RACK: name, ZONE: zone}) for at in range(nodes)]


def preferring(pods: int, keys: str = RACK, required: str = "", **kwargs: Any) -> list[Any]:
    """Make a gang of pending pods that prefers one domain of the labels."""
    annotations = {PREFERRED_TOPOLOGY: keys}
    made = group("high", 5, kwargs.pop("least", pods), topology=required, annotations=annotations)
    return [made, *gang("high", [None] * pods, 4, priority=5)]


BOTH = [*zoned("east", "a", 2), *zoned("east", "b", 1), *zoned("west", "c", 2)]
PREFERRED: dict[str, tuple[list[Any], list[Any], Outcome, list[str], list[str], str]] = {
    "a free rack": (
        [low("x", "a-0")], preferring(2), Outcome.FITS, ["c"], [], f" in {RACK}=c;"),
    "a wider domain without a free rack": (
        [low("x", "a-0"), low("y", "c-0"), low("z", "c-1")], preferring(2, f"{RACK},{ZONE}"),
        Outcome.FITS, ["a", "b"], [], f" in {ZONE}=east, and in no single {RACK};"),
    "any nodes without a free domain": (
        [low("x", "a-0"), low("y", "b-0"), low("z", "c-1")], preferring(2, f"{RACK},{ZONE}"),
        Outcome.FITS, ["a", "c"], [], f", but in no single {RACK};"),
    "no eviction where wider room is free": (
        [low("x", "a-0"), low("y", "c-0")], preferring(2), Outcome.FITS, ["a", "b"], [], ""),
    "the rack among plans of equal harm": (
        [low("x", "a-0"), low("y", "a-1"), low("z", "b-0", priority=9), low("w", "c-0"), low("v", "c-1")],
        preferring(2), Outcome.FITS_AFTER_PREEMPTION, ["a"], ["x", "y"], f" in {RACK}=a after"),
    "less harm before the rack": (
        [low("x", "a-0", priority=4), low("y", "a-1"), low("z", "b-0"), low("w", "c-0", priority=4),
         low("v", "c-1", priority=4)],
        preferring(2), Outcome.FITS_AFTER_PREEMPTION, ["a", "b"], ["y", "z"], f"in no single {RACK}"),
    "a rack inside the required zone": (
        [low("x", "a-0"), low("y", "b-0")], preferring(2, RACK, ZONE), Outcome.FITS, ["c"], [], ""),
    "no rack outside the required zone": (
        [low("x", "a-0", priority=9), low("y", "c-0", priority=9)], preferring(2, RACK, ZONE),
        Outcome.FITS, ["a", "b"], [], f" in {ZONE}=east, and in no single {RACK};"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("running", "members", "outcome", "used", "gone", "said"), PREFERRED.values(), ids=PREFERRED
)
def test_a_gang_with_a_preference_takes(  # noqa: PLR0917 - a case
    running: list[Any], members: list[Any], outcome: Outcome, used: list[str], gone: list[str], said: str
) -> None:
    assert racks_of(*BOTH, *running, *members) == (outcome, used, gone)
    assert said in planned(*BOTH, *running, *members, by=of("high")).message


def test_a_later_member_prefers_the_rack_of_the_others() -> None:
    members = gang("high", ["b-0", "c-0", None], 4, priority=5)
    made = group("high", 5, 3, annotations={PREFERRED_TOPOLOGY: RACK})
    outcome, used, _ = racks_of(*BOTH, made, *members)
    assert (outcome, used) == (Outcome.FITS, ["c"])


@pytest.mark.parametrize("preferred", ["", RACK])
def test_a_later_member_goes_to_the_zone_of_most_members(preferred: str) -> None:
    """The label of b-0 changed while a member ran there; the zone counts more than the rack of a member."""
    nodes = [*zoned("east", "a", 2), *zoned("west", "b", 1), *zoned("east", "c", 1)]
    members = gang("high", ["a-0", "a-1", "b-0", None], 2, priority=5)
    made = group("high", 5, 3, topology=ZONE, annotations={PREFERRED_TOPOLOGY: preferred})
    outcome, used, _ = racks_of(*nodes, low("x", "a-0", 2), low("y", "a-1", 2), made, *members)
    assert (outcome, used) == (Outcome.FITS, ["c"])


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37])
def test_kube_scheduler_knows_no_preference(semantics: Semantics) -> None:
    objects = [*zoned("east", "a", 1), *zoned("east", "b", 1), low("x", "a-0"), low("y", "b-0")]
    assert racks_of(*objects, *preferring(2), semantics=semantics)[1] == ["a", "b"]


@pytest.mark.parametrize("keys", ["", ",", "no.such/label", f" {RACK} , {RACK}"])
def test_a_preference_never_keeps_a_gang_waiting(keys: str) -> None:
    objects = [*zoned("east", "a", 1), *zoned("east", "b", 1)]
    assert racks_of(*objects, *preferring(2, keys))[0] is Outcome.FITS


def spreading(name: str, nodes: list[str | None], key: str = ZONE, **fields: Any) -> list[Any]:
    """Make a group of the set `web` that spreads over zones."""
    annotations = {SPREAD_TOPOLOGY: key, SPREAD_SET: "web"}
    made = group(name, 5, len(nodes), annotations=annotations, **fields)
    return [made, *gang(name, nodes, 1, priority=5)]


SPREAD: dict[str, tuple[list[Any], list[str]]] = {
    "the zone without a replica": ([spreading("w0", ["a-0"])], ["c"]),
    "the zone with fewer replicas": (
        [spreading("w0", ["a-0"]), spreading("w1", ["c-0"]), spreading("w2", ["c-1"])], ["b"]),
    "a zone with a replica if no other has room": (
        [spreading("w0", ["c-0"]), [low(f"x{at}", f"{at}") for at in ("a-0", "a-1", "b-0")]], ["c"]),
}  # fmt: skip


@pytest.mark.parametrize(("others", "used"), SPREAD.values(), ids=SPREAD)
def test_a_replica_takes(others: list[list[Any]], used: list[str]) -> None:
    assert racks_of(*BOTH, *(each for some in others for each in some), *spreading("high", [None]))[1] == used


def test_a_replica_that_needs_a_rack_keeps_away_from_the_zone_of_others() -> None:
    """Rack b packs as well as rack c, and its zone has a replica."""
    others = spreading("w0", ["a-0"])
    wanted = spreading("high", [None, None], topology=RACK)
    assert racks_of(*BOTH, *others, *wanted)[1] == ["c"]


def test_replicas_of_another_set_or_namespace_do_not_count() -> None:
    other = group("w0", 5, 1, annotations={SPREAD_TOPOLOGY: ZONE, SPREAD_SET: "other"})
    members = gang("w0", ["c-0"], 1, priority=5)
    engine = engine_of(*BOTH, other, *members, *spreading("high", [None]))
    assert engine.spread_peers(spreading("high", [None])[0]) == ()
    engine.apply(other, spreading("w0", [])[0])
    assert [each.tolist() for each in engine.spread_peers(spreading("high", [None])[0])] == [
        [engine.snapshot.pod_row["team-a", "w0-0"]]
    ]
    engine.apply(spreading("w0", [])[0], None)
    assert engine.spread_peers(spreading("high", [None])[0]) == ()
