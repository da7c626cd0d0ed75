"""The conditions of a group: a table of named cases, and properties over any names and values."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import NEW, OLD, cluster, findings, pod, pod_group, priority_class

from podium.api.core import Pod, PriorityClass
from podium.api.groups import PodGroup
from podium.controllers.conditions import (
    NO_MEMBERS,
    OURS,
    POLICIES_MATCH,
    POLICY,
    POLICY_MISMATCH,
    PRIORITIES_MATCH,
    PRIORITY,
    PRIORITY_MISMATCH,
    Judged,
    judged,
)
from podium.groups.divergence import BY_DIVERGENCE_POLICY, GROUP_UNRESOLVED, ServerInfo, measure_divergence

CLASSES: Mapping[str, PriorityClass] = {
    "gold": priority_class("gold", 1000),
    "standard": priority_class("standard", 100, default=True),
}
NEWER = ServerInfo(37, "1.37")
GOLD = pod_group(priority=1000, class_name="gold")


def of_priority(group: PodGroup, *members: Pod, server: ServerInfo = NEWER) -> Judged:
    (result,) = judged(group, members, CLASSES, server, policy=False)
    assert result.condition.type == PRIORITY
    assert result.condition.lastTransitionTime is None
    return result


def of_policy(group: PodGroup, *members: Pod, server: ServerInfo = NEWER) -> Judged:
    _, result = judged(group, members, CLASSES, server, policy=True)
    assert result.condition.type == POLICY
    return result


class Case(NamedTuple):
    """A group with its members, and its whole expected condition."""

    name: str
    group: PodGroup
    members: list[Pod]
    summary: tuple[str, str, str, int]  # its status, reason and cause, and the number of pods
    message: str


CASES = [
    Case(
        "one pod of two has no class",
        GOLD,
        [pod("a"), pod("b", priority=1000, class_name="gold")],
        ("True", PRIORITY_MISMATCH, "other-class", 1),
        "1 of 2 pods does not have priority 1000: 0 (a). Kubernetes 1.37 does not schedule the group. "
        "The class of the pod: none; the group's: gold.",
    ),
    Case(
        "the class was recreated between group and pods",
        GOLD,
        [pod(name, priority=500, class_name="gold") for name in "abcd"],
        ("True", PRIORITY_MISMATCH, "class-recreated", 4),
        "4 of 4 pods do not have priority 1000: 500 (a, b, c and 1 more). Kubernetes 1.37 does not schedule "
        "the group. PriorityClass gold had another value when they were created than for the group.",
    ),
    Case(
        "the default flipped after the group was made",
        pod_group(),
        [pod("a", priority=100, class_name="standard")],
        ("True", PRIORITY_MISMATCH, "default-changed", 1),
        "1 of 1 pod does not have priority 0: 100 (a). Kubernetes 1.37 does not schedule the group. "
        "PriorityClass standard became the default after the group was created without a class.",
    ),
    Case(
        "a pod older than its group, scheduled already",
        pod_group(priority=7, created=NEW),
        [pod("a", priority=3, created=OLD, node="node-1")],
        ("True", PRIORITY_MISMATCH, "pod-older", 1),
        "1 of 1 pod does not have priority 7: 3 (a). Kubernetes 1.37 does not schedule the group. "
        "Older than the group: a.",
    ),
    Case(
        "integers without any class",
        pod_group(priority=7),
        [pod("a", priority=3)],
        ("True", PRIORITY_MISMATCH, "unexplained", 1),
        "1 of 1 pod does not have priority 7: 3 (a). Kubernetes 1.37 does not schedule the group.",
    ),
    Case(
        "a pod whose class was never resolved counts as 0",
        GOLD,
        [pod("a", priority=None, class_name="gold")],
        ("True", PRIORITY_MISMATCH, "unresolved", 1),
        "1 of 1 pod does not have priority 1000: 0 (a). Kubernetes 1.37 does not schedule the group. "
        "The group or its pods name a class but store no priority.",
    ),
    Case(
        "most pods decide under which cause the group counts",
        GOLD,
        [
            pod("a", priority=500, class_name="gold"),
            pod("b", priority=100, class_name="standard"),
            pod("c", priority=100, class_name="standard"),
        ],
        ("True", PRIORITY_MISMATCH, "other-class", 3),
        "3 of 3 pods do not have priority 1000: 500 (a); 100 (b, c). Kubernetes 1.37 does not schedule the "
        "group. PriorityClass gold had another value when a was created than for the group. "
        "The class of b, c: standard; the group's: gold.",
    ),
    Case(
        "age is no cause where another is known",
        pod_group(priority=7, created=NEW),
        [pod("a", priority=3, class_name="gold", created=OLD), pod("b", priority=3, created=OLD)],
        ("True", PRIORITY_MISMATCH, "other-class", 2),
        "2 of 2 pods do not have priority 7: 3 (a, b). Kubernetes 1.37 does not schedule the group. "
        "The class of a: gold; the group's: none. Older than the group: b. Older than the group: a.",
    ),
    Case(
        "a terminating pod is named beside one that stays",
        GOLD,
        [pod("a"), pod("b", terminating=True)],
        ("True", PRIORITY_MISMATCH, "other-class", 1),
        "1 of 2 pods does not have priority 1000: 0 (a); 1 more, terminating. Kubernetes 1.37 does not "
        "schedule the group. The class of the pod: none; the group's: gold. Terminating and different: b.",
    ),
    Case(
        "a terminating pod alone is no divergence",
        GOLD,
        [pod("a", priority=1000, class_name="gold"), pod("b", terminating=True)],
        ("False", PRIORITIES_MATCH, "", 0),
        "All pods that are not terminating have priority 1000. Terminating and different: b.",
    ),
    Case(
        "all carry it, whatever their classes are called",
        GOLD,
        [pod("a", priority=1000, class_name="other"), pod("b", priority=1000, phase="Pending", node=None)],
        ("False", PRIORITIES_MATCH, "", 0),
        "All pods have priority 1000.",
    ),
    Case(
        "nil is 0 on both sides",
        pod_group(priority=None),
        [pod("a", priority=None), pod("b", priority=0)],
        ("False", PRIORITIES_MATCH, "", 0),
        "All pods have priority 0.",
    ),
    Case(
        "finished pods are no members",
        GOLD,
        [pod("a", phase="Succeeded"), pod("b", phase="Failed")],
        ("False", NO_MEMBERS, "", 0),
        "No unfinished pod references the group.",
    ),
    Case(
        "a group whose class was never resolved",
        pod_group(podium=True, priority=None, class_name="gold"),
        [pod("a", podium="train", priority=1000, class_name="gold")],
        ("Unknown", GROUP_UNRESOLVED, "unresolved", 0),
        "The group names PriorityClass gold, but its priority was never resolved from it. The cause is a "
        "group created while Podium's webhook is not running. Delete the group and create it again: "
        f"the priority cannot be set later. {BY_DIVERGENCE_POLICY}",
    ),
    Case(
        "an unresolved group without members",
        pod_group(priority=None, class_name="gold"),
        [],
        ("Unknown", GROUP_UNRESOLVED, "unresolved", 0),
        "The group names PriorityClass gold, but its priority was never resolved from it. The cause is a "
        "group created while the API server's Priority plugin is off. Delete the group and create it again: "
        f"the priority cannot be set later. Until then Kubernetes uses priority 0. {BY_DIVERGENCE_POLICY}",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_priority_condition(case: Case) -> None:
    result = of_priority(case.group, *case.members)
    condition = result.condition
    assert (condition.status, condition.reason, result.cause, result.pods) == case.summary
    assert condition.message == case.message


@pytest.mark.parametrize(
    ("group", "speaks_of", "text"),
    [
        (GOLD, ServerInfo(36, "1.36"), "Kubernetes 1.36 silently uses the group's 1000."),
        (GOLD, ServerInfo(38, "1.38"), "Kubernetes 1.38 does not schedule the group."),
    ],
    ids=["1.36", "later"],
)
def test_the_message_says_what_this_server_does(group: PodGroup, speaks_of: ServerInfo, text: str) -> None:
    assert text in (of_priority(group, pod("a"), server=speaks_of).condition.message or "")


@pytest.mark.parametrize("group", [GOLD, pod_group(podium=True, priority=1000)], ids=["native", "Podium's"])
def test_the_message_says_what_podiums_scheduler_does(group: PodGroup) -> None:
    result = of_priority(group, pod("a", scheduler="podium-scheduler"))
    summary = (
        "0 (a). Podium's scheduler follows its divergencePolicy: "
        "with NoPreemption, the default, the group does not preempt."
    )
    assert summary in (result.condition.message or "")


def test_many_values_are_bounded_to_those_of_most_pods() -> None:
    members = [pod(f"p{index:02}", priority=index) for index in range(40)]
    members += [pod(f"q{index}", priority=7) for index in range(9)]
    message = of_priority(GOLD, *members).condition.message or ""
    assert message.startswith(
        "49 of 49 pods do not have priority 1000: 39 (p39); 38 (p38); 37 (p37); 36 (p36); "
        "7 (p07, q0, q1 and 7 more); 35 pods with other values. "
    )


def test_many_causes_are_bounded_to_those_of_most_pods() -> None:
    members = [pod(f"p{index}", class_name=f"class-{index}") for index in range(9)]
    members.append(pod("q", class_name="class-8"))
    message = of_priority(GOLD, *members).condition.message or ""
    assert "The class of p8, q: class-8; the group's: gold." in message
    assert message.count("the group's: gold") == 5
    assert message.endswith(" And 4 more causes.")


def test_the_policy_condition_is_the_second_axis() -> None:
    group = pod_group(policy="Never")
    odd = of_policy(group, pod("a", policy="Never"), pod("b"), pod("c", terminating=True))
    assert (odd.condition.status, odd.condition.reason) == ("True", POLICY_MISMATCH)
    assert (odd.cause, odd.pods) == ("preemption-policy", 1)
    assert odd.condition.message == (
        "1 of 3 pods does not have preemptionPolicy Never: PreemptLowerPriority (b); 1 more, terminating. "
        "Kubernetes 1.37 does not schedule the group. Terminating and different: c."
    )
    older = of_policy(group, pod("b"), server=ServerInfo(36, "1.36")).condition.message or ""
    assert "One member with Never prevents the whole group from preempting." in older
    even = of_policy(group, pod("a", policy="Never"))
    assert (even.condition.status, even.condition.reason, even.cause) == ("False", POLICIES_MATCH, "")
    assert even.condition.message == "All pods have preemptionPolicy Never."
    assert of_policy(group, pod("a", phase="Failed")).condition.reason == NO_MEMBERS


def test_a_group_that_has_no_policy_leaves_its_members_to_agree() -> None:
    assert of_policy(pod_group(), pod("a", policy="Never")).condition.status == "False"
    assert of_policy(pod_group(), pod("a", policy="Never"), pod("b")).condition.status == "True"


def test_both_axes_are_judged_alone() -> None:
    """An unresolved group may agree on its policy, and so may a divergent one."""
    unresolved = pod_group(priority=None, class_name="gold")
    assert of_policy(unresolved, pod("a")).condition.status == "False"
    assert of_policy(GOLD, pod("a")).condition.status == "False"
    assert of_priority(pod_group(policy="Never"), pod("a")).condition.status == "False"


def test_a_condition_has_seen_the_generation_that_the_group_has() -> None:
    assert of_priority(GOLD).condition.observedGeneration is None
    third = msgspec.structs.replace(GOLD, metadata=msgspec.structs.replace(GOLD.metadata, generation=3))
    both = judged(third, [], CLASSES, NEWER, policy=True)
    assert [axis.condition.observedGeneration for axis in both] == [3, 3]


def test_pods_that_come_and_go_leave_a_good_message_alone() -> None:
    messages = {
        of_priority(GOLD, *(pod(f"p{index}", priority=1000) for index in range(size))).condition.message
        for size in (1, 2, 1000)
    }
    assert messages == {"All pods have priority 1000."}


def test_a_message_is_cut_at_the_limit_between_characters_and_says_so() -> None:
    """No API server accepts such names; a refused message would be retried for ever."""
    name = "\u00fc" * 20_000
    for group in (GOLD, pod_group(priority=None, class_name=name)):
        message = of_priority(group, pod(name)).condition.message or ""
        assert len(message.encode()) in (32_767, 32_768)
        assert message.endswith("\u00fc…")


integers = st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2))
texts = st.one_of(st.sampled_from(["", "gold", "standard", "gone"]), st.text(max_size=300))
members = st.lists(
    st.builds(
        pod,
        st.one_of(st.uuids().map(str), st.text(max_size=300)),
        priority=integers,
        policy=st.sampled_from([None, "Never", "PreemptLowerPriority"]),
        class_name=texts,
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        terminating=st.booleans(),
        created=st.sampled_from([OLD, NEW]),
    ),
    max_size=12,
)
groups = st.builds(
    pod_group,
    podium=st.booleans(),
    priority=integers,
    policy=st.sampled_from([None, "Never", "PreemptLowerPriority"]),
    class_name=texts,
)
servers = st.integers(30, 40).map(lambda minor: ServerInfo(minor, f"1.{minor}"))


@given(groups, members, servers)
def test_the_status_is_the_judgement(group: PodGroup, pods: list[Pod], speaks_of: ServerInfo) -> None:
    """The condition is True exactly if `divergence` finds one, except for a group that was never resolved."""
    divergence = measure_divergence(group, pods, CLASSES)
    priority, policy = judged(group, pods, CLASSES, speaks_of, policy=True)
    unresolved = bool(group.priority_class_name) and group.priority is None
    assert (priority.condition.status == "Unknown") == unresolved
    assert (priority.condition.status == "True") == (divergence.priority.divergent and not unresolved)
    assert (policy.condition.status == "True") == divergence.policy.divergent
    assert policy.condition.status != "Unknown"
    for result in (priority, policy):
        assert bool(result.cause) == (result.condition.status != "False")
        assert (result.pods > 0) == (result.condition.status == "True")


@given(groups, members, servers)
def test_conditions_are_valid_for_the_api_server(
    group: PodGroup, pods: list[Pod], speaks_of: ServerInfo
) -> None:
    for result in judged(group, pods, CLASSES, speaks_of, policy=True):
        condition = result.condition
        assert condition.type in OURS
        assert condition.reason
        assert condition.reason.isalpha()
        assert condition.message
        assert len(condition.message.encode()) <= 32_768


@given(groups, members, servers, st.randoms(use_true_random=False))
def test_the_order_of_pods_says_nothing(
    group: PodGroup, pods: list[Pod], speaks_of: ServerInfo, random: object
) -> None:
    shuffled = list(pods)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    assert judged(group, shuffled, CLASSES, speaks_of, policy=True) == judged(
        group, pods, CLASSES, speaks_of, policy=True
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "gold", "standard"])), max_size=5))
def test_the_audit_says_the_same(carried: list[tuple[int, str]]) -> None:
    """If nothing is truncated, a finding and the condition have the same message."""
    pods = [
        pod(f"p{index}", group="train", priority=priority, class_name=name)
        for index, (priority, name) in enumerate(carried)
    ]
    group = pod_group(priority=2, class_name="gold")
    reported = findings("pod-priority-differs", cluster(group, *CLASSES.values(), *pods))
    condition = of_priority(group, *pods).condition
    assert [finding.message for finding in reported] == (
        [condition.message] if condition.status == "True" else []
    )
