"""What a live scheduler has decided itself rules over what the server shows, and counts in every decision."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.preemption.clusters import NOW, NS, Object, state_of
from tests.preemption.scene import (
    HOST,
    SECONDS,
    gang,
    group,
    node,
    of,
    pod,
    told_to_go,
)
from tests.preemption.test_engine_follows import NAMES, NODES, Following, answer, apart, pods, settings_of

from podium.api.groups import RESERVED
from podium.errors import PodiumError
from podium.schedulerplugin.preemption.intents import Intents
from podium.schedulerplugin.preemption.outcome import Outcome
from podium.schedulerplugin.preemption.target import Wanted
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.schedulerplugin.settings import DivergencePolicy, Settings
from podium.state import State
from podium.view import Name

PENDING = {"nominatedNodeName": "n1"}


def live(*objects: Any, **given: Any) -> tuple[State, LiveEngine]:
    """Give a cluster, and the engine of a live scheduler that follows it."""
    flat = [each for some in objects for each in (some if isinstance(some, list) else [some])]
    state = state_of(flat)
    engine = LiveEngine(state, Settings(**given))
    state.observe(engine.apply)
    return state, engine


def row(engine: LiveEngine, name: str) -> int:
    return engine.snapshot.pod_row[NS, name]


def where(engine: LiveEngine, name: str) -> str:
    """Give where a lone pod would go now, empty where it does not fit."""
    decision = engine.decide((NS, name), NOW)
    if decision.outcome is not Outcome.FITS:
        return ""
    return engine.snapshot.names[decision.placed[row(engine, name)]] or ""


def victims(engine: LiveEngine, name: str) -> set[str]:
    """Give whom a lone pod would evict."""
    chosen = engine.decide((NS, name), NOW).chosen
    if chosen is None:
        return set()
    units, _ = engine.units(for_group=False, now=SECONDS)
    pods = (engine.snapshot.pods[each] for each in units.all_members(chosen.found.victims).tolist())
    return {each.metadata.name or "" for each in pods if each is not None}


# --- nominations ------------------------------------------------------------------------------------------


def test_a_node_reserved_in_memory_counts_before_the_server_shows_it() -> None:
    _, engine = live(node("n1"), pod("first", 3, 5), pod("next", 3, 5))
    engine.nominate((NS, "first"), "n1")
    assert engine.nomination(row(engine, "first")) == "n1"
    assert where(engine, "next") == ""
    assert where(engine, "first") == "n1"


def test_a_reservation_does_not_hold_against_a_higher_priority() -> None:
    _, engine = live(node("n1"), pod("first", 3, 5), pod("next", 3, 6))
    engine.nominate((NS, "first"), "n1")
    assert where(engine, "next") == "n1"


@pytest.mark.parametrize("memory,taken", [("", "n1"), ("n2", "n1"), ("n1", ""), ("gone", "n1")])
def test_memory_rules_over_the_status_that_somebody_wrote(memory: str, taken: str) -> None:
    _, engine = live(node("n1"), pod("first", 3, 5, status=PENDING), pod("next", 3, 5))
    engine.nominate((NS, "first"), memory)
    assert where(engine, "next") == taken


def test_without_memory_the_status_counts_as_for_pods_of_other_schedulers() -> None:
    _, engine = live(node("n1"), pod("first", 3, 5, status=PENDING), pod("next", 3, 5))
    assert engine.nominated_on(engine.snapshot.row["n1"]) == [engine.snapshot.pod_row[NS, "first"]]
    assert where(engine, "next") == ""


def test_memory_is_of_one_pod_not_of_the_next_of_its_name() -> None:
    state, engine = live(node("n1"), pod("first", 3, 5), pod("next", 3, 5))
    engine.nominate((NS, "first"), "n1")
    state.apply(pod("first", 3, 5, uid="another"))
    assert engine.nomination(row(engine, "first")) == ""
    assert where(engine, "next") == "n1"


def test_memory_ends_when_the_pod_is_bound_or_gone() -> None:
    """What nobody needs any more does not come back with a pod of the same UID, as from a backup."""
    state, engine = live(node("n1"), node("n2"), pod("first", 3, 5), pod("next", 3, 5))
    engine.nominate((NS, "first"), "n1")
    state.apply(pod("first", 3, 5, node="n2"))
    assert where(engine, "next") == "n1"
    state.remove(pod("first"))
    state.apply(pod("first", 3, 5))
    assert engine.nomination(row(engine, "first")) == ""


def test_the_priority_of_a_reservation_is_the_groups() -> None:
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
def test_a_pod_that_fits_where_its_node_is_reserved_goes_there(
    objects: list[Any], node_name: str | None
) -> None:
    _, engine = live(node("n1"), node("n2"), objects, pod("high", 3, 5))
    engine.nominate((NS, "high"), "n1")
    found = engine.as_reserved((NS, "high"))
    assert (None if found is None else engine.snapshot.names[found]) == node_name


def test_who_holds_no_node_has_none_to_go_to() -> None:
    _, engine = live(node("n1"), group("g", 1), gang("g", [None], status=PENDING), pod("high", 3, 5))
    assert engine.as_reserved((NS, "high")) is None
    assert engine.as_reserved((NS, "g-0")) is None


def test_a_group_in_doubt_reserves_at_no_more_than_its_pods_own_priority() -> None:
    """Else a high class on the group alone would hold nodes against pods that have earned theirs."""
    objects = node("n1"), group("high", 7), gang("high", [None], 3, priority=1), pod("next", 3, 5)
    _, engine = live(*objects, divergence=DivergencePolicy.NO_PREEMPTION)
    engine.nominate((NS, "high-0"), "n1")
    assert engine.priority_of(row(engine, "high-0")) == 1
    assert where(engine, "next") == "n1"


def test_a_reservation_follows_its_groups_priority() -> None:
    state, engine = live(node("n1"), group("high", 7), gang("high", [None], 3), pod("next", 3, 5))
    engine.nominate((NS, "high-0"), "n1")
    state.apply(group("high", 4))
    assert where(engine, "next") == "n1"


# --- who is leaving ---------------------------------------------------------------------------------------


def test_who_was_told_to_go_by_us_is_leaving_before_the_server_shows_it() -> None:
    _, engine = live(node("n1"), pod("low", 4, 0, node="n1"), pod("high", 4, 5))
    engine.doom([row(engine, "low")])
    decision = engine.decide((NS, "high"), NOW)
    assert (decision.outcome, decision.chosen) == (Outcome.FITS_AFTER_PREEMPTION, None)
    assert decision.awaited == (row(engine, "low"),)
    engine.spare([row(engine, "low")])
    assert victims(engine, "high") == {"low"}


def test_a_condition_that_anybody_may_have_written_makes_nobody_leave() -> None:
    """Were it so, its writer's pod would be safe from preemption, and its room promised to others."""
    _, engine = live(node("n1"), pod("low", 4, 0, node="n1", status=told_to_go()), pod("high", 4, 5))
    assert victims(engine, "high") == {"low"}


def test_who_is_being_deleted_leaves_whoever_wants_it() -> None:
    _, engine = live(node("n1"), pod("low", 4, 0, node="n1", terminating=True), pod("high", 4, 5))
    assert engine.decide((NS, "high"), NOW).awaited == (row(engine, "low"),)


def test_the_next_pod_of_the_name_is_not_doomed() -> None:
    state, engine = live(node("n1"), pod("low", 4, 0, node="n1"), pod("high", 4, 5))
    engine.doom([row(engine, "low")])
    state.apply(pod("low", 4, 0, node="n1", uid="another"))
    assert victims(engine, "high") == {"low"}


def test_a_doomed_member_counts_as_running_no_more() -> None:
    _, engine = live(node("n1"), group("g", 5, 2), gang("g", ["n1", "n1", None]))
    found = engine.wanted(of("g"))
    assert isinstance(found, Wanted)
    assert found.running == 2
    engine.doom([row(engine, "g-0"), row(engine, "g-1")])
    assert not isinstance(engine.wanted(of("g")), Wanted)


# --- who is on the way to a node --------------------------------------------------------------------------


def test_an_assumed_pod_takes_its_room_and_is_no_victim_until_it_is_bound() -> None:
    state, engine = live(node("n1"), pod("low", 4, 0), pod("high", 4, 5))
    engine.assume(row(engine, "low"), engine.snapshot.row["n1"])
    assert (where(engine, "high"), victims(engine, "high")) == ("", set())
    state.apply(pod("low", 4, 0, node="n1"))
    assert victims(engine, "high") == {"low"}


def test_an_assumed_pod_whose_bind_failed_waits_again() -> None:
    _, engine = live(node("n1"), pod("low", 4, 0), pod("high", 4, 5))
    engine.assume(row(engine, "low"), engine.snapshot.row["n1"])
    engine.forget(row(engine, "low"))
    assert (where(engine, "high"), where(engine, "low")) == ("n1", "n1")


def test_an_assumed_member_guards_its_whole_group() -> None:
    _, engine = live(
        node("n1"), group("low", 0, 2, whole=True), gang("low", ["n1", None], 2), pod("high", 2, 5)
    )
    assert where(engine, "high") == "n1"
    engine.assume(row(engine, "low-1"), engine.snapshot.row["n1"])
    assert (where(engine, "high"), victims(engine, "high")) == ("", set())


def test_assumed_members_count_as_running() -> None:
    _, engine = live(node("n1"), group("g", 5, 3), gang("g", [None] * 4))
    engine.assume(row(engine, "g-0"), engine.snapshot.row["n1"])
    found = engine.wanted(of("g"))
    assert isinstance(found, Wanted)
    assert (found.running, found.needed, len(found.rows)) == (1, 2, 3)


def test_an_assumed_pod_holds_no_other_node() -> None:
    _, engine = live(node("n1"), node("n2"), pod("first", 3, 5, status=PENDING), pod("next", 4, 5))
    engine.assume(row(engine, "first"), engine.snapshot.row["n2"])
    assert engine.nomination(row(engine, "first")) == ""
    assert where(engine, "next") == "n1"


def test_nobody_is_asked_twice_while_its_binding_is_on_the_way() -> None:
    _, engine = live(node("n1"), pod("first", 1, 5))
    engine.assume(row(engine, "first"), engine.snapshot.row["n1"])
    with pytest.raises(PodiumError, match="pod team-a/first: it is being bound to node n1"):
        engine.decide((NS, "first"), NOW)


def test_an_assumed_pod_that_is_being_deleted_keeps_its_room() -> None:
    """Whether it comes to run at all is not known, so nothing is promised on it."""
    state, engine = live(node("n1"), pod("low", 4, 0), pod("high", 4, 5))
    engine.assume(row(engine, "low"), engine.snapshot.row["n1"])
    state.apply(pod("low", 4, 0, terminating=True))
    assert engine.decide((NS, "high"), NOW).outcome is Outcome.DOES_NOT_FIT


# --- what could help --------------------------------------------------------------------------------------


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
def test_a_node_with_room_suits_and_has_room(objects: list[Any], suits: bool, room: bool) -> None:
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
def test_a_node_that_would_not_take_it_empty_suits_it_not(there: Any) -> None:
    _, engine = live(there, pod("high", 3, 5))
    shape = engine.snapshot.shapes[engine.snapshot.shape.item(row(engine, "high"))]
    assert not engine.suits(shape, engine.snapshot.row["n1"])
    assert not engine.has_room(shape, engine.snapshot.row["n1"], 5, ())


def test_a_reservation_keeps_those_away_that_will_not_stand_beside_it() -> None:
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


def test_other_nodes_refuse_in_words_of_their_own() -> None:
    _, engine = live(node("n1"), node("n2", labels={"podium": "no"}), pod("high", 3), reserved="podium=yes")
    refusals = engine.decide((NS, "high"), NOW).refusals
    assert refusals is not None
    assert refusals.message == "0/2 nodes are available: 2 node(s) were not reserved for Podium."


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
def test_lone_pods_placed_together_are_placed_as_one_by_one(
    given: Settings, crowd: list[dict[str, Any]], waiting: list[dict[str, Any]], priority: int
) -> None:
    """Each where it would be decided to go once those before it are assumed, up to the first that is not."""
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


# --- pods that are alike ----------------------------------------------------------------------------------

TWINS = ("twin-0", "twin-1")


@pytest.mark.parametrize("lower", [0, 5], ids=["it preempts", "nothing is lower"])
def test_the_same_is_decided_for_a_like_pod_as_if_it_had_asked_first(lower: int) -> None:
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
        pytest.param(lambda engine, _: engine.forget(row(engine, "bound")), id="a binding failed"),
        pytest.param(lambda _, state: state.apply(pod("low", 4, 0, node="n1")), id="it is worth less"),
        pytest.param(lambda _, state: state.serve_native(False), id="another API"),
    ],
)


@CHANGES
def test_what_was_decided_is_forgotten_when_something_changes(change: Any) -> None:
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
        pytest.param(lambda engine: engine.doom([row(engine, "low")]), id="one has to go"),
        pytest.param(lambda engine: engine.spare([row(engine, "low")]), id="one need not go"),
    ],
)
def test_where_no_room_comes_free_who_waits_waits_but_is_decided_anew(change: Any) -> None:
    low = pod("low", 4, 0, node="n1")
    _, engine = live(node("n1"), low, pod("other", 3, 9), [pod(name, 3, 5) for name in TWINS])
    before = engine.decide((NS, "twin-0"), NOW)
    change(engine)
    assert engine.waits((NS, "twin-1"))
    assert engine.decide((NS, "twin-1"), NOW).refusals is not before.refusals


@pytest.mark.parametrize(
    "change", [pod("more", 3, 5), pod("twin-0", 3, 5, status={"conditions": [{"type": "PodScheduled"}]})]
)
def test_pods_that_only_wait_change_no_decision(change: Any) -> None:
    state, engine = live(node("n1"), pod("low", 4, 5, node="n1"), [pod(name, 3, 5) for name in TWINS])
    before = engine.decide((NS, "twin-0"), NOW)
    state.apply(change)
    assert engine.decide((NS, "twin-1"), NOW).refusals is before.refusals


def test_the_next_second_is_another_question() -> None:
    """A toleration may have run out."""
    _, engine = live(node("n1"), pod("low", 4, 5, node="n1"), [pod(name, 3, 5) for name in TWINS])
    before = engine.decide((NS, "twin-0"), NOW)
    assert engine.decide((NS, "twin-1"), NOW + timedelta(seconds=1)).refusals is not before.refusals


# --- whatever happens -------------------------------------------------------------------------------------


class Living(Following):
    """A live scheduler decides between the changes; one made anew that knows its intents plans the same."""

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
        """Tell pods to go, or take it back."""
        known = self.engine.snapshot.pod_row
        rows = [known[NS, name] for name in names if (NS, name) in known]
        (self.engine.doom if doomed else self.engine.spare)(rows)

    @rule(name=st.sampled_from(["lone", "high-0", "ours-0", *NAMES]), where=st.sampled_from(NODES))
    def assume(self, name: str, where: str) -> None:
        """Begin to bind a pod; it fails where it has begun already."""
        snapshot = self.engine.snapshot
        pod_row, node_row = snapshot.pod_row.get((NS, name)), snapshot.row.get(where)
        if pod_row is None or node_row is None or snapshot.home.item(pod_row) >= 0:
            return
        if snapshot.node.item(pod_row) >= 0:
            self.engine.forget(pod_row)
        else:
            self.engine.assume(pod_row, node_row)

    @rule(first=st.sampled_from(TWINS), others=st.lists(pods, max_size=1), cpu=st.sampled_from([1, 2, 3]))
    def ask_for_twins(self, first: str, others: list[dict[str, Any]], cpu: int) -> None:
        """What is known of one is said of the other, whatever waits beside them."""
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
