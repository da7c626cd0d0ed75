"""Conditions as kube-scheduler writes them, and all of a group's together."""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.api.core import SCHEDULER_ERROR, UNSCHEDULABLE
from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta
from podium.api.schedulable import Schedulable, SchedulableStatus
from podium.cluster.state import ClusterState
from podium.rules.conditions import MAX_MESSAGE
from podium.schedulerplugin.scheduling.effects import PodRef, Preemptor, Unit
from podium.schedulerplugin.scheduling.messages import (
    SCHEDULED,
    STRADDLES,
    Attempt,
    group_conditions,
    group_of,
    ours,
    same_condition,
    target_condition,
    unscheduled_condition,
    withdrawn_condition,
)

NOW = datetime(2026, 11, 21, 16, 0, 0, 42, tzinfo=UTC)
SINCE = "2026-11-21T16:00:00Z"
BEFORE = "2026-11-21T15:00:00Z"

NATIVE_136, NATIVE_137 = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"
ALPHA_137, OURS = "scheduling.k8s.io/v1alpha3", "scheduling.podium.dev/v1beta1"
INITIALLY = "PodGroupInitiallyScheduled"


def pod_of(*conditions: Condition, generation: int | None = 3) -> Schedulable:
    """A pod that has some conditions."""
    metadata = ObjectMeta(name="a", namespace="team", uid="uid-a", generation=generation)
    return Schedulable(metadata=metadata, status=SchedulableStatus(conditions=list(conditions)))


def group_with(
    *conditions: Condition, version: str = OURS, generation: int | None = 2, uid: str = "uid-train"
) -> PodGroup:
    """A group that has some conditions."""
    return PodGroup(
        ref=ObjectRef(version, "PodGroup", "team", "train"),
        metadata=ObjectMeta(name="train", namespace="team", uid=uid, generation=generation),
        min_count=2,
        disruption_mode=DisruptionMode.POD_GROUP,
        priority_class_name="",
        priority=5,
        preemption_policy=None,
        template_ref=None,
        conditions=conditions,
    )


def test_a_pod_says_why_it_waits() -> None:
    message = "0/3 nodes are available: 3 Insufficient cpu."
    assert unscheduled_condition(UNSCHEDULABLE, message, pod_of(), NOW) == Condition(
        "PodScheduled", "False", "Unschedulable", message, SINCE, 3
    )


@pytest.mark.parametrize(
    ("status", "moment"),
    {"still false": ("False", BEFORE), "it was true": ("True", SINCE)}.values(),
    ids=str,
)
def test_a_condition_keeps_the_time_of_its_flip(status: str, moment: str) -> None:
    """Another reason or message does not change the transition time."""
    stored = Condition("PodScheduled", status, "SchedulingGated", "gates", BEFORE)
    assert unscheduled_condition(SCHEDULER_ERROR, "no", pod_of(stored), NOW).lastTransitionTime == moment


@pytest.mark.parametrize("kind", ["pod", "podgroup"])
@pytest.mark.parametrize(("namespace", "name"), [("secret", ""), ("team", ", team/mine")])
def test_the_condition_of_a_victim_names_the_preemptor(kind: str, namespace: str, name: str) -> None:
    """The message has the UID. A preemptor of another namespace may be of another tenant, so has no name."""
    condition = target_condition(
        "podium-scheduler", Preemptor(kind, namespace, "mine", "1-2", 7), pod_of(), NOW
    )
    assert condition == Condition(
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
        f"podium-scheduler: preempting to accommodate a higher priority {kind} (UID 1-2){name}",
        SINCE,
        3,
    )


def test_a_pod_that_stays_is_no_disruption_target() -> None:
    condition = withdrawn_condition(
        pod_of(Condition("DisruptionTarget", "True", "PreemptionByScheduler", "", BEFORE)), NOW
    )
    assert (condition.type, condition.status, condition.lastTransitionTime) == (
        "DisruptionTarget",
        "False",
        SINCE,
    )


def test_only_what_is_said_counts() -> None:
    """The time of a condition and its observed generation do not count."""
    stored = Condition("PodScheduled", "False", UNSCHEDULABLE, "full", BEFORE, 1)
    assert same_condition(stored, unscheduled_condition(UNSCHEDULABLE, "full", pod_of(stored), NOW))
    assert not same_condition(stored, unscheduled_condition(UNSCHEDULABLE, "fuller", pod_of(stored), NOW))
    assert not same_condition(stored, unscheduled_condition(SCHEDULER_ERROR, "full", pod_of(stored), NOW))
    assert not same_condition(None, unscheduled_condition(UNSCHEDULABLE, "full", pod_of(), NOW))


class Case(NamedTuple):
    """A group's stored conditions, the new events, and the expected conditions without their times."""

    stored: tuple[Condition, ...] = ()
    attempt: Attempt | None = None
    target: str | None = None
    want: tuple[tuple[str, str, str, str], ...] = ()


def condition(kind: str, status: str, reason: str, message: str) -> Condition:
    """A stored condition."""
    return Condition(kind, status, reason, message, BEFORE, 2)


WELL = condition(INITIALLY, "True", SCHEDULED, "all of them")
WAITS = condition(INITIALLY, "False", UNSCHEDULABLE, "full")
GOES = condition("DisruptionTarget", "True", "PreemptionByScheduler", "for 1")
WELL_SAID = (INITIALLY, "True", SCHEDULED, "all of them")
GOES_SAID = ("DisruptionTarget", "True", "PreemptionByScheduler", "for 1")

CASES = {
    "no room": Case(
        attempt=Attempt(UNSCHEDULABLE, "full"), want=((INITIALLY, "False", UNSCHEDULABLE, "full"),)
    ),
    "another reason": Case(
        stored=(WAITS,),
        attempt=Attempt(SCHEDULER_ERROR, "a claim"),
        want=((INITIALLY, "False", SCHEDULER_ERROR, "a claim"),),
    ),
    "scheduled": Case(stored=(WAITS,), attempt=Attempt(SCHEDULED, "all of them"), want=(WELL_SAID,)),
    "once scheduled it stays so": Case(
        stored=(WELL,), attempt=Attempt(UNSCHEDULABLE, "full"), want=(WELL_SAID,)
    ),
    "scheduled again is no news": Case(
        stored=(WELL,), attempt=Attempt(SCHEDULED, "one more"), want=(WELL_SAID,)
    ),
    "evicted": Case(stored=(WELL,), target="for 1", want=(WELL_SAID, GOES_SAID)),
    "evicted for another": Case(stored=(GOES,), target="for 2", want=((*GOES_SAID[:3], "for 2"),)),
    "a target stays one while the group waits": Case(
        stored=(WELL, GOES), attempt=Attempt(UNSCHEDULABLE, "full"), want=(WELL_SAID, GOES_SAID)
    ),
    "a target no more": Case(stored=(WELL, GOES), target="", want=(WELL_SAID,)),
    "no news": Case(stored=(WELL, GOES), want=(WELL_SAID, GOES_SAID)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_group_has_all_its_conditions(case: Case) -> None:
    """An apply that leaves one out would remove it."""
    found = group_conditions(group_with(), case.stored, NOW, attempt=case.attempt, target=case.target)
    assert tuple((each.type, each.status, each.reason, each.message) for each in found) == case.want
    before = {each.type: each for each in case.stored}
    for each in found:
        flipped = each.type not in before or before[each.type].status != each.status
        assert each.lastTransitionTime == (SINCE if flipped else BEFORE)


@pytest.mark.parametrize(
    ("version", "kind"),
    {
        NATIVE_136: "PodGroupScheduled",
        ALPHA_137: INITIALLY,
        NATIVE_137: INITIALLY,
        OURS: INITIALLY,
    }.items(),
)
def test_each_version_has_its_word(version: str, kind: str) -> None:
    group = group_with(version=version)
    (found,) = group_conditions(group, (), NOW, attempt=Attempt(SCHEDULED, ""))
    assert found.type == kind
    theirs = Condition("PodsNotMatchingPriority", "True", "PriorityMismatch", "they differ")
    assert ours(group_with(theirs, found, GOES, version=version)) == (found, GOES)


@pytest.mark.parametrize("generation", [None, 7])
def test_a_group_without_a_generation_claims_none(generation: int | None) -> None:
    """Native groups have none."""
    (found,) = group_conditions(group_with(generation=generation), (), NOW, target="for 1")
    assert found.observedGeneration == generation


@given(st.text(max_size=30), st.integers(1, 4000))
def test_no_message_is_too_long_for_an_api_server(text: str, times: int) -> None:
    message = text * times
    for found in (
        unscheduled_condition(UNSCHEDULABLE, message, pod_of(), NOW),
        *group_conditions(group_with(), (), NOW, attempt=Attempt(UNSCHEDULABLE, message)),
    ):
        assert len((found.message or "").encode()) <= MAX_MESSAGE


def test_a_unit_is_found_by_its_uid() -> None:
    """The group is native or ours; a later group of the same name is another, and a lone pod has none."""
    state = ClusterState(native_served=True)
    assert group_of(state, unit()) is None
    for version, other in ((OURS, "uid-ours"), (NATIVE_137, "uid-train")):
        state.apply(group_with(version=version, uid=other))
    native = group_of(state, unit())
    assert native is not None
    assert native.native
    assert group_of(state, unit()._replace(uid="uid-ours")) is state.groups[GroupKey(False, "team", "train")]
    assert group_of(state, unit()._replace(uid="uid-later")) is None
    assert group_of(state, unit()._replace(kind="Pod")) is None


def unit() -> Unit:
    """A whole group that is evicted."""
    return Unit("PodGroup", "team", "train", "uid-train", 5, (PodRef("team", "a", "uid-a"),))


def test_a_group_says_that_its_members_straddle_domains_until_they_do_not() -> None:
    """The sentence has a condition of its own, beside the others."""
    attempt = Attempt(SCHEDULED, "all run")
    spread = group_conditions(group_with(), (), NOW, attempt=attempt, spread=Attempt("Why", "two racks"))
    assert [(each.type, each.status, each.reason, each.message) for each in spread] == [
        (INITIALLY, "True", SCHEDULED, "all run"),
        (STRADDLES, "True", "Why", "two racks"),
    ]
    assert [each.type for each in ours(group_with(*spread))] == [INITIALLY, STRADDLES]
    assert [each.type for each in group_conditions(group_with(), spread, NOW)] == [INITIALLY]
