"""The integers that the command shows are those that the engine uses."""

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.why import group, node, pod, priority_class

from podium.answers.accounts.effectivepriority import JudgedGroup, PriorityRules, counts, of_group
from podium.api.membership import GroupKey
from podium.api.meta import Condition
from podium.api.schedulable import SCHEDULING_READS, Schedulable
from podium.cli import inputs
from podium.cluster.state import ClusterState
from podium.documents.split import split
from podium.groups.divergence import ServerInfo, measure_divergence
from podium.planner import Engine, Settings
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.units import PREEMPTION_CLASS
from podium.planner.semantics import Semantics
from podium.planner.settings import DivergencePolicy

KEY = GroupKey(native=False, namespace="a", name="ring")
INTEGERS = st.integers(-3, 3)


def state_of(objects: list[object]) -> ClusterState:
    listed = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects})
    return inputs.load_state(split(listed, "c.json"), strict=True, reads=SCHEDULING_READS).state


@given(
    of_group=INTEGERS,
    members=st.lists(INTEGERS, min_size=1, max_size=4),
    whole=st.booleans(),
    runs=st.booleans(),
    shielded=st.booleans(),
    semantics=st.sampled_from(Semantics),
    policy=st.sampled_from([DivergencePolicy.USE_GROUP_PRIORITY, DivergencePolicy.NO_PREEMPTION]),
)
def test_the_effective_priority_is_the_engines(
    *,
    of_group: int,
    members: list[int],
    whole: bool,
    runs: bool,
    shielded: bool,
    semantics: Semantics,
    policy: DivergencePolicy,
) -> None:
    """Pending members are placed at it, and running ones are units of it for a lone pod."""
    metadata = {"annotations": {PREEMPTION_CLASS: "shield"}} if shielded else {}
    pods = [
        pod(f"x{at}", group="ring", priority=value, node="n1" if runs else "", cpu="10m")
        for at, value in enumerate(members)
    ]
    ring = group("ring", least=1, priority=of_group, whole=whole, metadata=metadata)
    state = state_of([ring, *pods, node(), priority_class("shield", 2)])
    settings = Settings(semantics=semantics, divergence=policy, preemption_priority=True)
    engine = Engine(state, settings)
    judged = JudgedGroup(
        state.groups[KEY], measure_divergence(state.groups[KEY], state.members(KEY).values())
    )
    units, _ = engine.units(for_group=False, now=int(datetime(2026, 11, 22, tzinfo=UTC).timestamp()))
    for name, member in state.pods.items():
        assert isinstance(member, Schedulable)
        placed, victim = counts(member.spec.priority or 0, judged, settings, state.classes)
        if runs:
            lead = units.lead.item(engine.snapshot.pod_row[name])
            # kube-scheduler 1.38 takes the priority of any pod of a unit.
            any_member = whole and semantics is Semantics.V1_38
            assert units.priority.item(lead) in (members if any_member else [victim])
            continue
        found = engine.placement_target(name)
        if isinstance(found, PlacementTarget):
            assert found.priority == placed


def test_the_condition_is_named_where_it_withholds_preemption() -> None:
    """The pods have the group's priority, and its condition is True."""
    state = state_of([group("ring", least=1, priority=3), pod("x", group="ring", priority=3)])
    reported_pod = msgspec.structs.replace(
        state.groups[KEY], conditions=(Condition("PodsNotMatchingPriority", "True", "PriorityMismatch"),)
    )
    judged = JudgedGroup(reported_pod, measure_divergence(reported_pod, state.members(KEY).values()))
    for policy in DivergencePolicy:
        rules = PriorityRules(Settings(divergence=policy), ServerInfo(37, "1.37"), {})
        named = "its condition PodsNotMatchingPriority is True" in of_group(judged, rules).rule
        assert named == (policy is DivergencePolicy.NO_PREEMPTION)
