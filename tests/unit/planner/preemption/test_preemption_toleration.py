"""Preemption toleration in plans: the classes of its proposal, each step of the plugin's test, groups.

`test_toleration` tests single victims; this module tests plans. The steps are those of scheduler-plugins'
pkg/preemptiontoleration, in its order.
"""

from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import time_of
from tests.support.preemption.scene import (
    SECONDS,
    gang,
    group,
    node,
    of,
    planned,
    pod,
    priority_class,
    scheduled,
    spared,
    victims,
)

from podium.api.core import PriorityClass
from podium.api.meta import Condition
from podium.api.priority import TOLERATION_PREFIX
from podium.planner.preemption.outcome import Outcome, Plan
from podium.planner.semantics import Semantics

# The classes of the proposal's use cases.
CRITICAL, HIGH, LOW = 10_000, 9_000, 8_000
NON_PREEMPTED = priority_class("low-non-preempted", LOW, minimum=CRITICAL, seconds=-1)
TEN_MINUTES = priority_class("low-non-preempted-10min", LOW, minimum=CRITICAL, seconds=600)
THIRTY_MINUTES = priority_class("low-non-preempted-30min", LOW, minimum=CRITICAL, seconds=1_800)
PLAIN = priority_class("low", LOW)


def against(victim_class: PriorityClass | None, priority: int, ago: int | None = 0, **fields: Any) -> Plan:
    """Plan for a pod of that priority against one victim of a class, scheduled so many seconds ago."""
    status = scheduled(ago) if ago is not None else {}
    victim: dict[str, Any] = {
        "priorityClassName": victim_class.metadata.name if victim_class else None,
        "status": status,
    }
    return planned(
        node("n1"),
        [victim_class] if victim_class else [],
        pod("victim", 4, LOW, node="n1", **victim | fields),
        pod("high", 4, priority),
    )


@pytest.mark.parametrize(
    ("victim_class", "priority", "ago", "fields", "taken"),
    [
        pytest.param(PLAIN, CRITICAL, 0, {}, True, id="system critical preempts low at once"),
        pytest.param(TEN_MINUTES, CRITICAL, 0, {}, True, id="and 10min"),
        pytest.param(THIRTY_MINUTES, CRITICAL, 0, {}, True, id="and 30min"),
        pytest.param(NON_PREEMPTED, CRITICAL, 0, {}, True, id="5: at the minimum, not exempt"),
        pytest.param(PLAIN, HIGH, 0, {}, True, id="low has no toleration: normal preemption"),
        pytest.param(NON_PREEMPTED, HIGH, 0, {}, False, id="low-non-preempted: not at once"),
        pytest.param(TEN_MINUTES, HIGH, 601, {}, True, id="10min: after ten minutes"),
        pytest.param(THIRTY_MINUTES, HIGH, 601, {}, False, id="30min: not after ten"),
        pytest.param(THIRTY_MINUTES, HIGH, 1_801, {}, True, id="30min: after thirty"),
        pytest.param(None, HIGH, None, {}, True, id="1: a victim of no class is not exempt"),
        pytest.param(
            priority_class("c", LOW, minimum="10e3", seconds=-1), 10**9, 0, {}, False,
            id="4: no user class is above a minimum that does not parse",
        ),
        pytest.param(
            priority_class("c", LOW, minimum="10e3", seconds=-1), 10**9 + 1, 0, {}, True,
            id="4: a system class is",
        ),
        pytest.param(
            priority_class("c", LOW, minimum="10e3", seconds=600), HIGH, 600, {}, True,
            id="4: a minimum that does not parse lasts as long as the seconds say",
        ),
        pytest.param(
            priority_class("c", LOW, minimum=CRITICAL, seconds="soon"), HIGH, 10**9, {}, False,
            id="4: seconds that do not parse are for ever",
        ),
        pytest.param(
            priority_class("c", LOW, minimum=CRITICAL, seconds="soon"), CRITICAL, 0, {}, True,
            id="4: but below the minimum only",
        ),
        pytest.param(
            priority_class("c", LOW, seconds=-1), LOW + 1, 0, {}, True,
            id="4: no minimum is the value + 1, so seconds alone protect from no pod",
        ),
        pytest.param(
            priority_class("c", LOW, minimum=CRITICAL), HIGH, 0, {}, True,
            id="4: no seconds are 0 seconds",
        ),
        pytest.param(NON_PREEMPTED, CRITICAL - 1, 0, {}, False, id="5: below it, exempt"),
        pytest.param(NON_PREEMPTED, HIGH, 10**9, {}, False, id="6: negative seconds are for ever"),
        pytest.param(
            priority_class("c", LOW, minimum=CRITICAL, seconds=0), HIGH, None, {}, False,
            id="7: no PodScheduled: exempt even with 0 seconds",
        ),
        pytest.param(
            priority_class("c", LOW, minimum=CRITICAL, seconds=0), HIGH, None,
            {"status": scheduled(60, "False")}, False, id="7: PodScheduled that is not True: the same",
        ),
        pytest.param(TEN_MINUTES, HIGH, 600, {}, True, id="8: at the very second, not exempt"),
        pytest.param(TEN_MINUTES, HIGH, 599, {}, False, id="8: a second before, exempt"),
        pytest.param(TEN_MINUTES, HIGH, -60, {}, False, id="8: scheduled in the future, exempt"),
    ],
)  # fmt: skip
def test_the_classes_of_the_proposal_and_the_steps_of_the_plugin(
    victim_class: PriorityClass | None, priority: int, ago: int | None, fields: dict[str, Any], taken: bool
) -> None:
    plan = against(victim_class, priority, ago, **fields)
    assert victims(plan) == (["victim"] if taken else [])
    assert plan.outcome is (Outcome.FITS_AFTER_PREEMPTION if taken else Outcome.DOES_NOT_FIT)


def test_2_no_user_class_preempts_a_victim_of_a_missing_class_and_the_plan_says_so() -> None:
    """The plugin gives up the node; here other pods of the node may be evicted."""
    plan = planned(
        node("n1"),
        pod("victim", 2, LOW, node="n1", priorityClassName="gone"),
        pod("other", 2, LOW, node="n1"),
        pod("high", 2, HIGH),
    )
    assert victims(plan) == ["other"]
    assert spared(plan) == {
        "victim": "its PriorityClass gone does not exist, so only system classes preempt it"
    }
    assert [(each.rule, str(each.object)) for each in plan.findings] == [
        ("class-missing", "PriorityClass gone")
    ]


@pytest.mark.parametrize("priority", [1_000_000_000, 1_000_000_001, 2_000_000_000, 2_000_001_000])
@pytest.mark.parametrize("ago", [None, 0, 10**9])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_class_that_does_not_exist_protects_from_user_classes_only(
    priority: int, ago: int | None, *, grouped: bool
) -> None:
    """At any time after scheduling; the highest priority of a user's class is 1,000,000,000."""
    status = scheduled(ago) if ago is not None else {}
    name: dict[str, Any] = {"group": "g"} if grouped else {"priorityClassName": "gone"}
    plan = planned(
        node("n1"),
        group("g", LOW, 1, whole=True, priority_class_name="gone"),
        pod("victim", 4, LOW, node="n1", status=status, **name),
        pod("high", 4, priority),
    )
    assert victims(plan) == (["victim"] if priority > 1_000_000_000 else [])


def test_3_a_preemptor_that_may_not_preempt_has_no_victims() -> None:
    plan = planned(
        node("n1"),
        PLAIN,
        pod("victim", 4, LOW, node="n1", priorityClassName="low"),
        pod("high", 4, HIGH, preemptionPolicy="Never"),
    )
    assert (plan.outcome, victims(plan)) == (Outcome.NOT_ELIGIBLE, [])


def test_4_an_annotation_that_does_not_parse_is_a_finding() -> None:
    plan = against(priority_class("c", LOW, minimum="ten", seconds=-1), HIGH)
    assert [(each.rule, str(each.object)) for each in plan.findings] == [
        ("toleration-unreadable", "PriorityClass c")
    ]


@pytest.mark.parametrize(
    ("victim_class", "ago", "why"),
    [
        (NON_PREEMPTED, 0, "its PriorityClass tolerates preemption by priorities below 10000 for ever"),
        (
            TEN_MINUTES,
            60,
            "its PriorityClass tolerates preemption by priorities below 10000 until 2026-01-01T12:09:00Z",
        ),
        (
            priority_class("c", LOW, minimum="ten", seconds=-1),
            0,
            (
                "its PriorityClass c has annotations that are no integers "
                f"({TOLERATION_PREFIX}minimum-preemptable-priority), so only system classes preempt it"
            ),
        ),
        (
            priority_class("c", LOW, minimum=CRITICAL, seconds="ten"),
            0,
            (
                "its PriorityClass c has annotations that are no integers "
                f"({TOLERATION_PREFIX}toleration-seconds), so only priorities from 10000 preempt it"
            ),
        ),
        (
            TEN_MINUTES,
            None,
            (
                "its PriorityClass tolerates preemption by priorities below 10000, and team-a/victim is not "
                "scheduled yet"
            ),
        ),
    ],
)
def test_the_plan_names_the_reason_of_each_exemption(
    victim_class: PriorityClass, ago: int | None, why: str
) -> None:
    assert spared(against(victim_class, HIGH, ago)) == {"victim": why}


def test_a_toleration_may_end_after_the_last_calendar_year() -> None:
    for seconds in (10**12, 2**63 - 1):
        plan = against(priority_class("long", LOW, minimum=CRITICAL, seconds=seconds), HIGH)
        assert spared(plan) == {
            "victim": "its PriorityClass tolerates preemption by priorities below 10000 for ever"
        }


def test_a_system_class_counts_without_its_object() -> None:
    plan = planned(
        node("n1"),
        pod("victim", 4, LOW, node="n1", priorityClassName="system-cluster-critical", status=scheduled()),
        pod("high", 4, 2_000_000_001),
    )
    assert victims(plan) == ["victim"]
    assert plan.findings == ()


# Groups: the extension, because the plugin knows none.


def group_of_two(
    victim_class: PriorityClass,
    *,
    ago: tuple[int | None, int | None],
    own: str | None = None,
    whole: bool = True,
) -> list[Any]:
    """Return a node full of a group of that class; `own` is the class that its pods name."""
    members = [
        pod(
            f"low-{at}",
            2,
            LOW,
            node="n1",
            group="low",
            priorityClassName=own,
            status=scheduled(seconds) if seconds is not None else {},
        )
        for at, seconds in enumerate(ago)
    ]
    return [
        node("n1"),
        victim_class,
        group("low", LOW, 2, whole=whole, priority_class_name=victim_class.metadata.name),
        members,
    ]


@pytest.mark.parametrize(
    ("ago", "taken"),
    [
        pytest.param((601, 601), True, id="both have run their time"),
        pytest.param((599, 599), False, id="none has: the whole group is exempt"),
        pytest.param((601, 599), True, id="one that was made again extends nothing"),
        pytest.param((601, None), True, id="nor one that was never scheduled"),
        pytest.param((599, None), False, id="the time of the one that was counts"),
        pytest.param((None, None), False, id="none was scheduled: as a pod"),
    ],
)
def test_a_whole_group_is_exempt_from_its_first_scheduling_on(
    ago: tuple[int | None, int | None], taken: bool
) -> None:
    plan = planned(group_of_two(TEN_MINUTES, ago=ago), pod("high", 2, HIGH))
    assert victims(plan) == (["low-0", "low-1"] if taken else [])


def says_scheduled(ago: int, kind: str = "PodGroupInitiallyScheduled", status: str = "True") -> Condition:
    return Condition(kind, status, lastTransitionTime=time_of(SECONDS - ago))


@pytest.mark.parametrize(
    ("ago", "made", "condition", "taken"),
    [
        pytest.param((10, 10), 700, says_scheduled(601), True, id="all members made again, the group is not"),
        pytest.param((10, 10), 700, says_scheduled(599), False, id="its time is not over"),
        pytest.param((601, 10), 700, says_scheduled(10), True, id="a condition that is too late"),
        pytest.param((None, None), 700, says_scheduled(601), True, id="members that say nothing"),
        pytest.param(
            (10, 10), 700, says_scheduled(601, "PodGroupScheduled"), True, id="as Kubernetes 1.36 names it"
        ),
        pytest.param((10, 10), 700, says_scheduled(601, status="False"), False, id="one that is not True"),
        pytest.param((10, 10), 700, says_scheduled(601, "Ready"), False, id="another condition"),
        pytest.param(
            (10, 10), 700, Condition("PodGroupInitiallyScheduled", "True"), False, id="one of no time"
        ),
        pytest.param((20, 10), 15, None, True, id="the group was made again under a running member"),
        pytest.param((20, 10), 15, says_scheduled(10), True, id="and scheduled again with another"),
        pytest.param((20, 10), 20, None, False, id="made in the second of the scheduling"),
    ],
)
def test_a_groups_toleration_starts_at_its_first_scheduling(
    ago: tuple[int | None, int | None], made: int, condition: Condition | None, taken: bool
) -> None:
    """It lasts ten minutes from the first scheduling, even if members or the group are recreated."""
    *others, low, members = group_of_two(TEN_MINUTES, ago=ago)
    low.metadata.creationTimestamp = time_of(SECONDS - made)
    low = msgspec.structs.replace(low, conditions=(condition,) if condition is not None else ())
    assert victims(planned(others, low, members, pod("high", 2, HIGH))) == (
        ["low-0", "low-1"] if taken else []
    )


def test_an_endless_toleration_does_not_end() -> None:
    """Also for a recreated group: there is no time that it could extend."""
    *others, low, members = group_of_two(NON_PREEMPTED, ago=(20, 10))
    low.metadata.creationTimestamp = time_of(SECONDS - 15)
    assert victims(planned(others, low, members, pod("high", 2, HIGH))) == []


def test_members_of_mode_pod_are_exempt_one_by_one_by_the_class_of_their_group() -> None:
    plan = planned(group_of_two(TEN_MINUTES, ago=(601, 599), whole=False), pod("high", 2, HIGH))
    assert victims(plan) == ["low-0"]
    assert set(spared(plan)) == {"low-1"}


def test_the_members_own_class_does_not_count() -> None:
    """It neither exempts nor protects them."""
    never = planned(group_of_two(NON_PREEMPTED, ago=(60, 60), own="gone"), pod("high", 2, HIGH))
    assert victims(never) == []
    plain = [
        priority_class("patient", LOW, minimum=CRITICAL, seconds=-1),
        group_of_two(PLAIN, ago=(60, 60), own="patient"),
    ]
    assert victims(planned(plain, pod("high", 2, HIGH))) == ["low-0", "low-1"]


def test_the_toleration_compares_the_preempting_groups_priority() -> None:
    """Not at its pods' own priorities."""
    plan = planned(
        group_of_two(NON_PREEMPTED, ago=(60, 60)),
        group("high", CRITICAL, 1),
        gang("high", [None], 2, priority=HIGH),
        by=of("high"),
    )
    assert victims(plan) == ["low-0", "low-1"]


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_kube_scheduler_ignores_tolerations(semantics: Semantics) -> None:
    plan = planned(
        node("n1"),
        NON_PREEMPTED,
        pod("victim", 4, LOW, node="n1", priorityClassName="low-non-preempted", status=scheduled(60)),
        pod("high", 4, HIGH),
        semantics=semantics,
    )
    assert victims(plan) == ["victim"]
