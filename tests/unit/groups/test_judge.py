"""The comparison of a group with its members: a table of named cases, and a naive oracle."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import NEW, OLD, pod, pod_group, priority_class

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PodGroup
from podium.api.meta import Condition
from podium.groups.divergence import (
    Differing,
    DivergenceCause,
    disagreement,
    doubt,
    measure_divergence,
    policy_sentence,
    sentence,
)

GOLD = priority_class("gold", 1000)
STANDARD = priority_class("standard", 100, default=True)
CLASSES: Mapping[str, PriorityClass] = {"gold": GOLD, "standard": STANDARD}


def member(name: str, priority: int | None = 0, class_name: str = "", **more: str) -> Pod:
    return pod(name, group="train", priority=priority, class_name=class_name, **more)  # type: ignore[arg-type] # text options only


CAUSES: list[tuple[str, PodGroup, Pod, list[tuple[DivergenceCause, str]]]] = [
    (
        "one class name, two integers",
        pod_group(priority=500, class_name="gold"),
        member("a", 1000, "gold"),
        [(DivergenceCause.CLASS_RECREATED, "gold")],
    ),
    (
        "the group was made before there was a default",
        pod_group(priority=0),
        member("a", 100, "standard"),
        [(DivergenceCause.DEFAULT_CHANGED, "standard")],
    ),
    (
        "the pod was made before there was a default",
        pod_group(priority=100, class_name="standard"),
        member("a"),
        [(DivergenceCause.DEFAULT_CHANGED, "")],
    ),
    (
        "the pod has a class that is no default",
        pod_group(priority=0),
        member("a", 1000, "gold"),
        [(DivergenceCause.OTHER_CLASS, "gold")],
    ),
    (
        "two classes",
        pod_group(priority=1000, class_name="gold"),
        member("a", 100, "standard"),
        [(DivergenceCause.OTHER_CLASS, "standard")],
    ),
    (
        "a class that was never resolved on the pod",
        pod_group(priority=1000, class_name="gold"),
        member("a", None, "gold"),
        [(DivergenceCause.UNRESOLVED, "gold")],
    ),
    (
        "a class that was never resolved on the group",
        pod_group(priority=None, class_name="gold"),
        member("a", 1000, "gold"),
        [(DivergenceCause.UNRESOLVED, "gold")],
    ),
    ("integers without any class", pod_group(priority=3), member("a", 4), []),
    (
        "the pod is older",
        pod_group(priority=3, created=NEW),
        member("a", 4, created=OLD),
        [(DivergenceCause.POD_OLDER, "")],
    ),
    (
        "made in the same second",
        pod_group(priority=3, created=OLD),
        member("a", 4, created=OLD),
        [],
    ),
]


@pytest.mark.parametrize(
    ("group", "odd", "expected"), [case[1:] for case in CAUSES], ids=[case[0] for case in CAUSES]
)
def test_causes(group: PodGroup, odd: Pod, expected: list[tuple[DivergenceCause, str]]) -> None:
    judged = measure_divergence(group, [odd], CLASSES)
    assert [(each.cause, each.class_name) for each in judged.causes] == expected
    assert all(each.pods == ("a",) for each in judged.causes)


def test_terminating_members_are_named_and_divide_nothing() -> None:
    leaving = pod("b", group="train", terminating=True)
    judged = measure_divergence(pod_group(priority=1000), [member("a", 1000), leaving])
    assert not judged.priority.divergent
    assert judged.priority.differing == (Differing(0, (), ("b",)),)
    assert judged.members == 2
    with_another = measure_divergence(pod_group(priority=1000), [member("a"), leaving])
    assert sentence(with_another) == "1 of 2 pods does not have priority 1000: 0 (a); 1 more, terminating"


def test_members_by_value_are_largest_first_with_names_in_order() -> None:
    judged = measure_divergence(
        pod_group(priority=5), [member("b", 1), member("c", 9), member("a", 1), member("d", 5)]
    )
    assert judged.priority.differing == (Differing(9, ("c",)), Differing(1, ("a", "b")))
    assert judged.priority.live == 3


def test_a_policy_divides_as_the_second_axis() -> None:
    judged = measure_divergence(
        pod_group(policy="Never"), [pod("a", policy="Never"), pod("b"), pod("c", policy="Never")]
    )
    assert judged.policy.divergent
    assert not judged.priority.divergent
    assert (
        policy_sentence(judged)
        == "1 of 3 pods does not have preemptionPolicy Never: PreemptLowerPriority (b)"
    )


def test_a_group_without_a_policy_leaves_members_to_agree() -> None:
    assert not measure_divergence(
        pod_group(), [pod("a", policy="Never"), pod("b", policy="Never")]
    ).policy.divergent
    assert measure_divergence(pod_group(), [pod("a", policy="Never"), pod("b")]).policy.divergent


def test_without_a_group_the_most_common_integer_is_expected_and_the_larger_of_two() -> None:
    assert measure_divergence(None, [member("a", 1), member("b", 1), member("c", 9)]).priority.expected == 1
    assert measure_divergence(None, [member("a", 1), member("b", 9)]).priority.expected == 9
    leaving = [pod(f"old-{index}", priority=1, terminating=True) for index in range(3)]
    assert measure_divergence(None, [*leaving, member("b", 9)]).priority.expected == 9


def test_no_members_agree() -> None:
    judged = measure_divergence(pod_group(priority=7), [])
    assert (judged.members, judged.priority.divergent, judged.policy.divergent) == (0, False, False)
    assert measure_divergence(None, []).priority.expected == 0


integers = st.one_of(st.none(), st.integers(-2, 2))
policies = st.sampled_from([None, "Never", "PreemptLowerPriority"])
names = st.sampled_from(["", "gold", "standard", "gone"])
members = st.lists(
    st.builds(
        pod,
        st.uuids().map(str),
        priority=integers,
        policy=policies,
        class_name=names,
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        terminating=st.booleans(),
        created=st.sampled_from([OLD, NEW]),
    ),
    max_size=8,
)
groups = st.one_of(
    st.none(),
    st.builds(pod_group, priority=integers, policy=policies, class_name=names, created=st.just(NEW)),
)


@given(groups, members)
def test_the_judgement_is_the_naive_one(group: PodGroup | None, pods: list[Pod]) -> None:
    """The oracle applies the rules pod by pod."""
    judged = measure_divergence(group, pods, CLASSES)
    present = [each for each in pods if each.status and each.status.phase in ("Pending", "Running")]
    staying = [each for each in present if each.metadata.deletionTimestamp is None]
    assert judged.members == len(present)
    if group is not None:
        assert judged.priority.expected == (group.priority or 0)
    else:
        counts = Counter(each.spec.priority or 0 for each in staying or present)
        assert counts[judged.priority.expected] == max(counts.values(), default=0)
    differ = [each for each in present if (each.spec.priority or 0) != judged.priority.expected]
    assert judged.priority.divergent == any(each in staying for each in differ)
    reasons = {
        (name, each.value) for each in judged.priority.differing for name in (*each.live, *each.terminating)
    }
    assert reasons == {(each.metadata.name, each.spec.priority or 0) for each in differ}
    policy_of = [each.spec.preemptionPolicy or "PreemptLowerPriority" for each in staying]
    if group is not None and group.preemption_policy is not None:
        assert judged.policy.divergent == any(policy != group.preemption_policy for policy in policy_of)
    else:
        assert judged.policy.divergent == (len(set(policy_of)) > 1)


@given(groups, members, st.randoms(use_true_random=False))
def test_the_order_of_members_is_nothing(group: PodGroup | None, pods: list[Pod], random: object) -> None:
    shuffled = list(pods)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    assert measure_divergence(group, shuffled, CLASSES) == measure_divergence(group, pods, CLASSES)


ALIKE, DIVIDED = [member("a", 5)], [member("a", 1)]
PODS, CLASS = "not all of its pods have its priority", "its PriorityClass was never resolved to a priority"
TRUE, UNKNOWN = (f"its condition PodsNotMatchingPriority is {status}" for status in ("True", "Unknown"))


def group_as(status: str, reason: str = "", **fields: Any) -> PodGroup:
    """Make a group that has the condition."""
    condition = Condition("PodsNotMatchingPriority", status, reason)
    return msgspec.structs.replace(pod_group(**fields), conditions=(condition,))


FIVE = pod_group(priority=5)
UNRESOLVED: dict[str, Any] = {"priority": None, "class_name": "gold"}


@pytest.mark.parametrize(
    ("group", "members", "doubted", "disputed"),
    [
        pytest.param(FIVE, ALIKE, "", "", id="no condition, alike"),
        pytest.param(FIVE, DIVIDED, PODS, "", id="no condition, divided"),
        pytest.param(group_as("False", priority=5), ALIKE, "", "", id="False, alike"),
        pytest.param(group_as("False", priority=5), DIVIDED, PODS, "False", id="False grants nothing"),
        pytest.param(group_as("True", "Any", priority=5), ALIKE, TRUE, "True", id="True from any writer"),
        pytest.param(group_as("True", priority=5), DIVIDED, PODS, "", id="True, divided"),
        pytest.param(
            *(group_as("Unknown", "GroupUnresolved", priority=5), ALIKE, UNKNOWN, "Unknown"),
            id="Unknown, and the group is resolved",
        ),
        pytest.param(group_as("Unknown", "Any", priority=5), ALIKE, "", "", id="Unknown for another reason"),
        pytest.param(
            *(group_as("Unknown", "GroupUnresolved", **UNRESOLVED), [], CLASS, ""),
            id="Unknown, and the group is unresolved",
        ),
        pytest.param(group_as("False", **UNRESOLVED), [], CLASS, "False", id="False, unresolved"),
        pytest.param(group_as("Ja", priority=5), ALIKE, "", "", id="a status that is none"),
    ],
)
def test_doubt_and_disagreement(group: PodGroup, members: list[Pod], doubted: str, disputed: str) -> None:
    """A condition adds uncertainty and never removes it."""
    judgement = measure_divergence(group, members)
    assert (doubt(group, judgement), disagreement(group, judgement)) == (doubted, disputed)
