"""A live scheduler's own decisions take precedence over the server, and count in every decision."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.support.preemption.clusters import NOW, NS, Object, state_of
from tests.support.preemption.scene import (
    HOST,
    SECONDS,
    composite,
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    pod,
    tree_of,
)
from tests.unit.planner.preemption.test_engine_follows import (
    NAMES,
    NODES,
    Following,
    answer,
    apart,
    pods,
    settings_of,
)

from podium.api.groups import RESERVED
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.groups.topology import SLICE_SIZE, SLICE_TOPOLOGY
from podium.planner.preemption.inflight import FailedEvictions, Intents
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.target import PlacementTarget
from podium.planner.settings import DivergencePolicy, Settings
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

PENDING = {"nominatedNodeName": "n1"}


def live(*objects: Any, **given: Any) -> tuple[ClusterState, LiveEngine]:
    """Return a cluster, and the engine of a live scheduler that follows it."""
    flat = [each for some in objects for each in (some if isinstance(some, list) else [some])]
    state = state_of(flat)
    engine = LiveEngine(state, Settings(**given))
    state.observe(engine.apply)
    return state, engine


def row(engine: LiveEngine, name: str) -> int:
    return engine.snapshot.pod_row[NS, name]


def where(engine: LiveEngine, name: str) -> str:
    """Return the node on which a lone pod would be placed now, empty if it does not fit."""
    decision = engine.decide((NS, name), NOW)
    if decision.outcome is not Outcome.FITS:
        return ""
    return engine.snapshot.names[decision.placed[row(engine, name)]] or ""


def victims(engine: LiveEngine, name: str) -> set[str]:
    """Return the pods that a lone pod would evict."""
    chosen = engine.decide((NS, name), NOW).chosen
    if chosen is None:
        return set()
    units, _ = engine.units(for_group=False, now=SECONDS)
    pods = (engine.snapshot.pods[each] for each in units.all_members(chosen.plan.victims).tolist())
    return {each.metadata.name or "" for each in pods if each is not None}


# --- nominations ------------------------------------------------------------------------------------------


def test_a_node_reserved_in_memory_counts_before_the_server_shows_it() -> None:
    _, engine = live(node("n1"), pod("first", 3, 5), pod("next", 3, 5))
    engine.nominate((NS, "first"), "n1")
    assert engine.nomination(row(engine, "first")) == "n1"
    assert where(engine, "next") == ""
    assert where(engine, "first") == "n1"


def test_a_higher_priority_takes_a_nominated_node() -> None:
    _, engine = live(node("n1"), pod("first", 3, 5), pod("next", 3, 6))
    engine.nominate((NS, "first"), "n1")
    assert where(engine, "next") == "n1"


@pytest.mark.parametrize("memory,taken", [("", "n1"), ("n2", "n1"), ("n1", ""), ("gone", "n1")])
def test_own_nominations_take_precedence_over_a_written_status(memory: str, taken: str) -> None:
    _, engine = live(node("n1"), pod("first", 3, 5, status=PENDING), pod("next", 3, 5))
    engine.nominate((NS, "first"), memory)
    assert where(engine, "next") == taken


def test_without_an_own_nomination_the_status_counts() -> None:
    _, engine = live(node("n1"), pod("first", 3, 5, status=PENDING), pod("next", 3, 5))
    assert engine.nominated_on(engine.snapshot.row["n1"]) == [engine.snapshot.pod_row[NS, "first"]]
    assert where(engine, "next") == ""


def test_a_nomination_belongs_to_one_uid() -> None:
    state, engine = live(node("n1"), pod("first", 3, 5), pod("next", 3, 5))
    engine.nominate((NS, "first"), "n1")
    state.apply(pod("first", 3, 5, uid="another"))
    assert engine.nomination(row(engine, "first")) == ""
    assert where(engine, "next") == "n1"


def test_a_nomination_ends_when_the_pod_is_bound_or_gone() -> None:
    """The decision does not return with a pod of the same UID, as from a backup."""
    state, engine = live(node("n1"), node("n2"), pod("first", 3, 5), pod("next", 3, 5))
    engine.nominate((NS, "first"), "n1")
    state.apply(pod("first", 3, 5, node="n2"))
    assert where(engine, "next") == "n1"
    state.remove(pod("first"))
    state.apply(pod("first", 3, 5))
    assert engine.nomination(row(engine, "first")) == ""


def test_a_members_nomination_has_the_groups_priority() -> None:
    _, engine = live(node("n1"), group("high", 7), gang("high", [None], 3, priority=1), pod("next", 3, 5))
    engine.nominate((NS, "high-0"), "n1")
    assert engine.priority_of(row(engine, "high-0")) == 7
    assert where(engine, "next") == ""


@pytest.mark.parametrize(
    "objects,node_name",
    [
        pytest.param([], "n1", id="it is free"),
        pytest.param([pod("low", 2, 0, node="n1")], None, id="not yet"),
        pytest.param([pod("other", 2, 6, status=PENDING)], None, id="a higher one holds it too"),
        pytest.param([pod("other", 2, 4, status=PENDING)], "n1", id="a lower one holds it too"),
    ],
)
def test_a_pod_that_fits_on_its_nominated_node_goes_there(objects: list[Any], node_name: str | None) -> None:
    _, engine = live(node("n1"), node("n2"), objects, pod("high", 3, 5))
    engine.nominate((NS, "high"), "n1")
    found = engine.as_reserved((NS, "high"))
    assert (None if found is None else engine.snapshot.names[found]) == node_name


def test_a_pod_without_a_nomination_has_no_reserved_node() -> None:
    _, engine = live(node("n1"), group("g", 1), gang("g", [None], status=PENDING), pod("high", 3, 5))
    assert engine.as_reserved((NS, "high")) is None
    assert engine.as_reserved((NS, "g-0")) is None


def test_a_divergent_groups_nomination_counts_with_its_priority() -> None:
    """As in the queue, and as a victim."""
    objects = node("n1"), group("high", 7), gang("high", [None], 3, priority=1), pod("next", 3, 5)
    _, engine = live(*objects, divergence=DivergencePolicy.NO_PREEMPTION)
    engine.nominate((NS, "high-0"), "n1")
    assert engine.priority_of(row(engine, "high-0")) == 7
    assert not where(engine, "next")


def test_a_nomination_follows_its_groups_priority() -> None:
    state, engine = live(node("n1"), group("high", 7), gang("high", [None], 3), pod("next", 3, 5))
    engine.nominate((NS, "high-0"), "n1")
    state.apply(group("high", 4))
    assert where(engine, "next") == "n1"


# --- terminating pods ----------------------------------------------------------------------------------


def test_a_marked_victim_is_leaving_before_the_server_shows_it() -> None:
    _, engine = live(node("n1"), pod("low", 4, 0, node="n1"), pod("high", 4, 5))
    engine.mark_for_deletion([row(engine, "low")])
    decision = engine.decide((NS, "high"), NOW)
    assert (decision.outcome, decision.chosen) == (Outcome.FITS_AFTER_PREEMPTION, None)
    assert decision.awaited == (row(engine, "low"),)
    engine.unmark([row(engine, "low")])
    assert victims(engine, "high") == {"low"}


def test_a_foreign_disruption_condition_does_not_count_as_leaving() -> None:
    """Otherwise the pod would be safe from preemption, and its room would count as free."""
    _, engine = live(node("n1"), pod("low", 4, 0, node="n1", status=marked_for_deletion()), pod("high", 4, 5))
    assert victims(engine, "high") == {"low"}


def test_a_pod_that_is_being_deleted_is_leaving_for_any_cause() -> None:
    _, engine = live(node("n1"), pod("low", 4, 0, node="n1", terminating=True), pod("high", 4, 5))
    assert engine.decide((NS, "high"), NOW).awaited == (row(engine, "low"),)


def test_the_next_pod_of_the_name_is_not_marked() -> None:
    state, engine = live(node("n1"), pod("low", 4, 0, node="n1"), pod("high", 4, 5))
    engine.mark_for_deletion([row(engine, "low")])
    state.apply(pod("low", 4, 0, node="n1", uid="another"))
    assert victims(engine, "high") == {"low"}


def test_a_marked_member_no_longer_counts_as_running() -> None:
    _, engine = live(node("n1"), group("g", 5, 2), gang("g", ["n1", "n1", None]))
    found = engine.placement_target(of("g"))
    assert isinstance(found, PlacementTarget)
    assert found.running == 2
    engine.mark_for_deletion([row(engine, "g-0"), row(engine, "g-1")])
    assert not isinstance(engine.placement_target(of("g")), PlacementTarget)


@pytest.mark.parametrize(
    "entry,constraint",
    [
        pytest.param(of("g"), [group("g", 5, None, topology="rack")], id="of a group"),
        pytest.param(
            tree_of("t"),
            [composite("t", 5, topology="rack"), group("g", 5, None, composite="t")],
            id="of a tree",
        ),
        pytest.param(
            of("g"),
            [group("g", 5, None, annotations={SLICE_SIZE: "2", SLICE_TOPOLOGY: "rack"})],
            id="of a slice",
        ),
    ],
)
def test_a_marked_member_pins_the_domain_until_it_is_being_deleted(
    entry: GroupKey, constraint: list[Any]
) -> None:
    """Its eviction may fail, and then members would run in two domains."""
    nodes = [node("n1", 2, labels={"rack": "a"}), node("n2", 8, labels={"rack": "b"})]
    members = pod("g-0", node="n1", group="g"), pod("g-1", 2, group="g")
    state, engine = live(nodes, constraint, *members, pod("low", node="n1"))
    engine.mark_for_deletion([row(engine, "g-0")])
    assert engine.decide(entry, NOW).outcome is Outcome.NOT_ELIGIBLE
    state.apply(pod("g-0", node="n1", group="g", terminating=True))
    decision = engine.decide(entry, NOW)
    assert decision.outcome is Outcome.FITS
    assert decision.placed == {row(engine, "g-1"): engine.snapshot.row["n2"]}


# --- nominated pods ---------------------------------------------------------------------------------------


def test_an_assumed_pod_takes_room_and_is_no_victim_until_it_is_bound() -> None:
    state, engine = live(node("n1"), pod("low", 4, 0), pod("high", 4, 5))
    engine.assume(row(engine, "low"), engine.snapshot.row["n1"])
    assert (where(engine, "high"), victims(engine, "high")) == ("", set())
    state.apply(pod("low", 4, 0, node="n1"))
    assert victims(engine, "high") == {"low"}


def test_an_assumed_pod_is_pending_again_after_a_failed_bind() -> None:
    _, engine = live(node("n1"), pod("low", 4, 0), pod("high", 4, 5))
    engine.assume(row(engine, "low"), engine.snapshot.row["n1"])
    engine.forget_pod(row(engine, "low"))
    assert (where(engine, "high"), where(engine, "low")) == ("n1", "n1")


def test_an_assumed_member_protects_its_whole_group() -> None:
    _, engine = live(
        node("n1"), group("low", 0, 2, whole=True), gang("low", ["n1", None], 2), pod("high", 2, 5)
    )
    assert where(engine, "high") == "n1"
    engine.assume(row(engine, "low-1"), engine.snapshot.row["n1"])
    assert (where(engine, "high"), victims(engine, "high")) == ("", set())


def test_assumed_members_count_as_running() -> None:
    _, engine = live(node("n1"), group("g", 5, 3), gang("g", [None] * 4))
    engine.assume(row(engine, "g-0"), engine.snapshot.row["n1"])
    found = engine.placement_target(of("g"))
    assert isinstance(found, PlacementTarget)
    assert (found.running, found.needed, len(found.rows)) == (1, 2, 3)


def test_an_assumed_pod_holds_no_other_node() -> None:
    _, engine = live(node("n1"), node("n2"), pod("first", 3, 5, status=PENDING), pod("next", 4, 5))
    engine.assume(row(engine, "first"), engine.snapshot.row["n2"])
    assert engine.nomination(row(engine, "first")) == ""
    assert where(engine, "next") == "n1"


def test_a_pod_with_a_bind_in_flight_is_no_target() -> None:
    _, engine = live(node("n1"), pod("first", 1, 5))
    engine.assume(row(engine, "first"), engine.snapshot.row["n1"])
    with pytest.raises(PodiumError, match="pod team-a/first: it is being bound to node n1"):
        engine.decide((NS, "first"), NOW)


def test_an_assumed_pod_that_is_being_deleted_keeps_its_room() -> None:
    """It may never run, so no plan counts on its room."""
    state, engine = live(node("n1"), pod("low", 4, 0), pod("high", 4, 5))
    engine.assume(row(engine, "low"), engine.snapshot.row["n1"])
    state.apply(pod("low", 4, 0, terminating=True))
    assert engine.decide((NS, "high"), NOW).outcome is Outcome.DOES_NOT_FIT


# --- events that could help ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objects,suits,room",
    [
        pytest.param([], True, True, id="empty"),
        pytest.param([pod("low", 2, node="n1")], True, False, id="full"),
        pytest.param([pod("same", 2, 5, status=PENDING)], True, False, id="reserved for its like"),
        pytest.param([pod("same", 1, 5, status=PENDING)], True, True, id="room for both"),
        pytest.param([pod("less", 2, 4, status=PENDING)], True, True, id="reserved for less"),
        pytest.param([pod("mine", 2, 5, status=PENDING)], True, True, id="reserved for itself"),
    ],
)
def test_a_node_with_room_suits_the_pod_and_has_room(objects: list[Any], suits: bool, room: bool) -> None:
    _, engine = live(node("n1"), objects, pod("high", 3, 5))
    shape = engine.snapshot.shapes[engine.snapshot.shape.item(row(engine, "high"))]
    beside = [row(engine, "mine")] if (NS, "mine") in engine.snapshot.pod_row else []
    assert engine.suits(shape, engine.snapshot.row["n1"]) is suits
    assert engine.has_room(shape, engine.snapshot.row["n1"], 5, beside) is room


@pytest.mark.parametrize(
    "there",
    [
        node("n1", 2),
        node("n1", unschedulable=True),
        node("n1", taints=[{"key": "x", "effect": "NoSchedule"}]),
    ],
)
def test_a_node_that_is_too_small_does_not_suit_the_pod(there: Any) -> None:
    _, engine = live(there, pod("high", 3, 5))
    shape = engine.snapshot.shapes[engine.snapshot.shape.item(row(engine, "high"))]
    assert not engine.suits(shape, engine.snapshot.row["n1"])
    assert not engine.has_room(shape, engine.snapshot.row["n1"], 5, ())


def test_a_nominated_pods_anti_affinity_keeps_others_away() -> None:
    first = pod("first", 1, 5, labels={"app": "b"}, status=PENDING)
    _, engine = live(node("n1"), first, pod("high", 1, 5, affinity=apart({})))
    shape = engine.snapshot.shapes[engine.snapshot.shape.item(row(engine, "high"))]
    assert not engine.has_room(shape, engine.snapshot.row["n1"], 5, ())
    assert engine.has_room(shape, engine.snapshot.row["n1"], 6, ())


# --- nodes reserved for Podium ----------------------------------------------------------------------------

_OURS = {"podium": "yes"}
_KEPT = [{"key": RESERVED, "effect": "NoSchedule"}]


@pytest.mark.parametrize("label", ["podium", "podium=yes"])
def test_only_reserved_nodes_are_used_and_their_taint_is_tolerated(label: str) -> None:
    ours = node("n2", labels=_OURS, taints=_KEPT)
    _, engine = live(node("n1"), ours, pod("high", 3), reserved=label)
    assert where(engine, "high") == "n2"


def test_other_nodes_have_a_reason_of_their_own() -> None:
    _, engine = live(node("n1"), node("n2", labels={"podium": "no"}), pod("high", 3), reserved="podium=yes")
    refusals = engine.decide((NS, "high"), NOW).refusals
    assert refusals is not None
    assert refusals.message == (
        "podium=yes: no node has this label; 0/2 nodes are available: 2 node(s) were not reserved for Podium."
    )


@pytest.mark.parametrize(
    "taints,reserved",
    [
        pytest.param(_KEPT, "", id="nothing is reserved for Podium"),
        pytest.param([{"key": RESERVED, "effect": "NoExecute"}], "podium", id="a kubelet would refuse it"),
        pytest.param([{"key": "other", "effect": "NoSchedule"}], "podium", id="another taint"),
    ],
)
def test_other_taints_keep_pods_away(taints: list[dict[str, str]], reserved: str) -> None:
    _, engine = live(node("n1", labels=_OURS, taints=taints), pod("high", 3), reserved=reserved)
    assert where(engine, "high") == ""


# --- many lone pods ---------------------------------------------------------------------------------------

LONE = tuple(f"w{at}" for at in range(6))
_lone = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([1, 1, 2, 3]),
        "labels": st.sampled_from([None, {"app": "a"}, {"app": "b"}]),
        "affinity": st.sampled_from([None, None, None, apart({})]),
        "schedulingGates": st.sampled_from([*[None] * 7, [{"name": "hold"}]]),
        "node": st.sampled_from([*[None] * 7, "n1"]),
        "topologySpreadConstraints": st.sampled_from([None, None, [{"maxSkew": 1, "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]]),
    }
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    given=settings_of,
    crowd=st.lists(pods, max_size=6),
    waiting=st.lists(_lone, min_size=1, max_size=len(LONE)),
    priority=st.integers(0, 3),
)
def test_lone_pods_are_placed_together_as_one_by_one(
    given: Settings, crowd: list[dict[str, Any]], waiting: list[dict[str, Any]], priority: int
) -> None:
    """Each gets its node with the pods before it assumed, up to the first that does not fit."""
    names: list[Name] = [(NS, name) for name, _ in zip(LONE, waiting, strict=False)]
    objects: list[Object] = [
        *(node(name) for name in NODES),
        group("low", 1),
        *(pod(NAMES[at], **fields | {"uid": NAMES[at]}) for at, fields in enumerate(crowd)),
        *(pod(name, priority=priority, **fields) for (_, name), fields in zip(names, waiting, strict=True)),
    ]
    engine = LiveEngine(state_of(objects), given)
    together = engine.place_lone(names)
    assert (engine.snapshot.node == engine.snapshot.home).all()
    one_by_one = {}
    for name in names:
        try:
            decision = engine.decide(name, NOW)
        except PodiumError:
            break
        if decision.outcome is not Outcome.FITS:
            break
        engine.assume(*next(iter(decision.placed.items())))
        one_by_one[name] = next(iter(decision.placed.values()))
    assert together == one_by_one


# --- equal pods ----------------------------------------------------------------------------------------

TWINS = ("twin-0", "twin-1")


@pytest.mark.parametrize("lower", [0, 5], ids=["it preempts", "nothing is lower"])
def test_an_equal_pod_gets_the_decision_that_it_would_get_alone(lower: int) -> None:
    _, engine = live(node("n1"), pod("low", 4, lower, node="n1"), pod("twin-0", 3, 5), pod("twin-1", 3, 5))
    first, second = (engine.decide((NS, name), NOW) for name in TWINS)
    assert set(second.placed) == ({row(engine, "twin-1")} if lower == 0 else set())
    assert list(second.placed.values()) == list(first.placed.values())
    assert engine.explain(second, NOW) == LiveEngine(engine.view).plan((NS, "twin-1"), NOW)


CHANGES = pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _, state: state.remove(pod("low", 4, 5, node="n1")), id="a pod went"),
        pytest.param(lambda _, state: state.apply(node("n2")), id="a node came"),
        pytest.param(lambda engine, _: engine.nominate((NS, "other"), ""), id="a reserved node is given up"),
        pytest.param(lambda engine, _: engine.forget_pod(row(engine, "bound")), id="a binding failed"),
        pytest.param(lambda _, state: state.apply(pod("low", 4, 0, node="n1")), id="it is worth less"),
        pytest.param(lambda _, state: state.serve_native(False), id="another API"),
    ],
)


@CHANGES
def test_cached_decisions_are_dropped_when_an_input_changes(change: Any) -> None:
    state, engine = live(
        node("n1"), node("n3", 3), pod("low", 4, 5, node="n1"), pod("bound", 3, 5),
        pod("other", 3, 9, status=PENDING), [pod(name, 3, 5) for name in TWINS],
    )  # fmt: skip
    engine.assume(row(engine, "bound"), engine.snapshot.row["n3"])
    before = engine.decide((NS, "twin-0"), NOW)
    assert engine.waits((NS, "twin-1"))
    assert engine.place_lone([(NS, "twin-1")]) == {}
    change(engine, state)
    assert not engine.waits((NS, "twin-1"))
    after = engine.decide((NS, "twin-1"), NOW)
    assert after.refusals is not before.refusals


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda engine: engine.nominate((NS, "other"), "n1"), id="a node is reserved"),
        pytest.param(lambda engine: engine.mark_for_deletion([row(engine, "low")]), id="one has to go"),
        pytest.param(lambda engine: engine.unmark([row(engine, "low")]), id="one need not go"),
    ],
)
def test_if_no_room_becomes_free_only_the_preemption_is_decided_again(change: Any) -> None:
    low = pod("low", 4, 0, node="n1")
    _, engine = live(node("n1"), low, pod("other", 3, 9), [pod(name, 3, 5) for name in TWINS])
    before = engine.decide((NS, "twin-0"), NOW)
    change(engine)
    assert engine.waits((NS, "twin-1"))
    assert engine.decide((NS, "twin-1"), NOW).refusals is not before.refusals


@pytest.mark.parametrize(
    "change", [pod("more", 3, 5), pod("twin-0", 3, 5, status={"conditions": [{"type": "PodScheduled"}]})]
)
def test_pending_pods_change_no_decision(change: Any) -> None:
    state, engine = live(node("n1"), pod("low", 4, 5, node="n1"), [pod(name, 3, 5) for name in TWINS])
    before = engine.decide((NS, "twin-0"), NOW)
    state.apply(change)
    assert engine.decide((NS, "twin-1"), NOW).refusals is before.refusals


def test_a_decision_is_cached_for_one_second() -> None:
    """A toleration may have ended."""
    _, engine = live(node("n1"), pod("low", 4, 5, node="n1"), [pod(name, 3, 5) for name in TWINS])
    before = engine.decide((NS, "twin-0"), NOW)
    assert engine.decide((NS, "twin-1"), NOW + timedelta(seconds=1)).refusals is not before.refusals


# --- random changes ------------------------------------------------------------------------------------


# --- refusals -----------------------------------------------------------------------------------------------


def test_a_refused_pod_is_no_victim_for_a_while() -> None:
    _, engine = live(
        node("n1"), node("n2"), pod("cheap", 4, node="n1"), pod("dear", 4, 2, node="n2"), pod("p", 4, 5)
    )
    assert victims(engine, "p") == {"cheap"}
    engine.keep_out(row(engine, "cheap"), "denied", SECONDS, final=True)
    assert victims(engine, "p") == {"dear"}


@pytest.mark.parametrize(
    ("times", "changed", "seconds"),
    [
        *[(1, False, 30), (2, False, 60), (6, False, 960), (7, False, 1800), (40, False, 1800)],
        *[(1, True, 5), (2, True, 10), (4, True, 40), (5, True, 60), (40, True, 60)],
    ],
)
def test_a_refusal_counts_longer_each_time(times: int, changed: bool, seconds: int) -> None:
    refusals, victim = FailedEvictions(), pod("v")
    for _ in range(times):
        refusals.add(victim, "denied", SECONDS, final=True)
    if changed:
        refusals.follow(
            msgspec.structs.replace(victim, metadata=ObjectMeta(uid=victim.metadata.uid, resourceVersion="2"))
        )
    assert refusals.expire(SECONDS + seconds - 1) == []
    assert refusals.why(victim) == "denied"
    assert refusals.expire(SECONDS + seconds) == [((NS, "v"), victim.metadata.uid)]
    assert refusals.why(victim) == ""
    assert refusals.knows(victim.metadata.uid or "")


def test_a_refusal_ends_when_the_clock_steps_back() -> None:
    """Otherwise it would last until the old time comes again."""
    refusals, victim = FailedEvictions(), pod("v")
    refusals.add(victim, "denied", SECONDS, final=True)
    assert refusals.expire(SECONDS - 86_400) == [((NS, "v"), victim.metadata.uid)]


def test_refusals_are_bounded() -> None:
    """The oldest are forgotten first, and their pods are victims again."""
    refusals, pods = FailedEvictions(), [pod(f"v{at}", uid=f"u{at}") for at in range(10_003)]
    for each in pods:
        refusals.add(each, "denied", SECONDS, final=True)
    assert [uid for _, uid in refusals.expire(SECONDS)] == ["u0", "u1", "u2"]
    assert [refusals.why(each) for each in pods[2:4]] == ["", "denied"]


def test_a_refused_pod_that_is_gone_is_forgotten() -> None:
    state, engine = live(node("n1"), pod("v", node="n1"))
    engine.keep_out(row(engine, "v"), "denied", SECONDS, final=True)
    state.remove(state.pods[NS, "v"])
    assert not engine.intents.failed_evictions.knows("team-a-v")
    assert not engine.intents.failed_evictions.doubts(NS)
    assert engine.intents.failed_evictions.expire(SECONDS + 3600) == []


class Living(Following):
    """A live scheduler decides between changes; a new engine with the same intents plans the same."""

    engine: LiveEngine

    @initialize(settings=settings_of, crowd=st.lists(pods, min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, settings: Settings, crowd: list[dict[str, Any]]) -> None:
        self.intents = Intents()
        super().begin(settings, crowd)

    @rule(name=st.sampled_from(["lone", "high-0", "high-1", *NAMES]), where=st.sampled_from(["", *NODES]))
    def nominate(self, name: str, where: str) -> None:
        if (NS, name) in self.engine.snapshot.pod_row:
            self.engine.nominate((NS, name), where)

    @rule(names=st.sets(st.sampled_from(NAMES)), doomed=st.booleans())
    def tell(self, names: set[str], doomed: bool) -> None:
        """Mark pods as victims, or unmark them."""
        known = self.engine.snapshot.pod_row
        rows = [known[NS, name] for name in names if (NS, name) in known]
        (self.engine.mark_for_deletion if doomed else self.engine.unmark)(rows)

    @rule(name=st.sampled_from(NAMES), final=st.booleans())
    def refuse(self, name: str, *, final: bool) -> None:
        """The API server refuses to delete a pod."""
        found = self.engine.snapshot.pod_row.get((NS, name))
        if found is not None:
            self.engine.keep_out(found, "denied", int(self.now.timestamp()), final=final)

    @rule(name=st.sampled_from(["lone", "high-0", "ours-0", *NAMES]), where=st.sampled_from(NODES))
    def assume(self, name: str, where: str) -> None:
        """Start binding a pod; it fails if its bind is in flight already."""
        snapshot = self.engine.snapshot
        pod_row, node_row = snapshot.pod_row.get((NS, name)), snapshot.row.get(where)
        if pod_row is None or node_row is None or snapshot.home.item(pod_row) >= 0:
            return
        if snapshot.node.item(pod_row) >= 0:
            self.engine.forget_pod(pod_row)
        else:
            self.engine.assume(pod_row, node_row)

    @rule(first=st.sampled_from(TWINS), others=st.lists(pods, max_size=1), cpu=st.sampled_from([1, 2, 3]))
    def ask_for_twins(self, first: str, others: list[dict[str, Any]], cpu: int) -> None:
        """The decision for a pod holds for an equal pod, whatever else is pending."""
        for name in TWINS:
            self.state.apply(pod(name, cpu, 3))
        answer(lambda: self.engine.plan((NS, first), self.now))
        for fields in others:
            self.state.apply(pod("beside", **fields | {"uid": "beside"}))
        for name in TWINS:
            self.compare((NS, name))

    def uid(self, name: str, *, uid: str, namespace: str = NS, **_: Any) -> str:
        return f"{uid}-{namespace}-{name}"

    def made_anew(self) -> LiveEngine:
        anew = LiveEngine(self.state, self.settings, intents=self.intents)
        if not hasattr(self, "engine"):
            return anew
        kept = self.engine.snapshot
        for name, at in kept.pod_row.items():
            if kept.node.item(at) >= 0 and kept.node.item(at) != kept.home.item(at):
                where = kept.names[kept.node.item(at)] or ""
                anew.assume(anew.snapshot.pod_row[name], anew.snapshot.row[where])
        return anew


TestLiving = Living.TestCase
TestLiving.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
