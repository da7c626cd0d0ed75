"""The texts on a divergence in the audit and the condition, and their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import pod, pod_group

from podium.api.core import PODIUM_SCHEDULER, Pod
from podium.groups.divergence import (
    BY_DIVERGENCE_POLICY,
    ServerInfo,
    because,
    consequence,
    is_refused,
    measure_divergence,
    policy_consequence,
    policy_sentence,
    sentence,
)
from podium.text import cut

MEMBERS = [pod("a", priority=1), pod("b", priority=2), pod("c", priority=2), pod("d", priority=3)]


@pytest.mark.parametrize(
    ("minor", "whose", "priority", "policy"),
    [
        (35, "native", "reads no PodGroup: each pod uses its own priority", "uses its own preemptionPolicy"),
        (36, "native", "silently uses the group's 7", "prevents the whole group"),
        (37, "native", "Kubernetes 1.37 does not schedule the group", "1.37 does not schedule the group"),
        (38, "native", "Kubernetes 1.38 does not schedule the group", "1.38 does not schedule the group"),
        (38, "podium", "default-scheduler reads no group of Podium", "uses its own preemptionPolicy"),
    ],
)
def test_the_consequence_depends_on_the_server_and_the_api(
    minor: int, whose: str, priority: str, policy: str
) -> None:
    group, speaks_of = pod_group(priority=7, podium=whose == "podium"), ServerInfo(minor, f"1.{minor}")
    divergence = measure_divergence(group, MEMBERS)
    assert priority in consequence(group, divergence, speaks_of)
    assert policy in policy_consequence(group, divergence, speaks_of)


@pytest.mark.parametrize("podium", [False, True], ids=["native", "podium"])
@pytest.mark.parametrize("minor", [35, 36, 37, 38])
def test_podiums_scheduler_makes_the_same_of_every_group_on_every_server(minor: int, podium: bool) -> None:
    """Podium's scheduler places native groups too, by the KEP; pods of another scheduler change nothing."""
    group, speaks_of = pod_group(priority=7, podium=podium), ServerInfo(minor, f"1.{minor}")
    ours = [
        pod(name, scheduler=PODIUM_SCHEDULER, policy=policy) for name, policy in [("a", None), ("b", "Never")]
    ]
    divergence = measure_divergence(group, [*ours, pod("c", terminating=True)])
    assert consequence(group, divergence, speaks_of) == BY_DIVERGENCE_POLICY
    assert "prevents the whole group from preempting" in policy_consequence(group, divergence, speaks_of)
    assert not is_refused(group, divergence, minor)


def test_a_group_that_names_two_schedulers_is_spoken_of_for_the_other_one() -> None:
    divergence = measure_divergence(pod_group(priority=7), [pod("a"), pod("b", scheduler=PODIUM_SCHEDULER)])
    message = consequence(pod_group(priority=7), divergence, ServerInfo(37, "1.37"))
    assert message == "Kubernetes 1.37 does not schedule the group."


def test_a_cause_names_pods_only_where_it_is_not_all_of_them() -> None:
    group = pod_group(priority=1000, class_name="gold")

    def message(*members: Pod) -> list[str]:
        divergence = measure_divergence(group, members)
        return [because(group, each, divergence) for each in divergence.causes]

    recreated, classless = pod("a", priority=500, class_name="gold"), pod("b")
    both = [recreated, pod("c", priority=500, class_name="gold")]
    assert message(*both) == [
        "PriorityClass gold had another value when they were created than for the group."
    ]
    assert message(*both, classless)[0] == (
        "PriorityClass gold had another value when a, c were created than for the group."
    )
    assert message(classless, pod("d")) == ["Their class: none; the group's: gold."]
    older = pod("e", class_name="gold", priority=5, created="2025-01-01T00:00:00Z")
    assert message(older)[1] == "Older than the group: e."
    assert message(older, pod("f", class_name="gold", priority=5, created="2025-01-01T00:00:00Z"))[1] == (
        "Older than the group: all of them."
    )
    assert message(recreated) == [
        "PriorityClass gold had another value when the pod was created than for the group."
    ]
    assert message(recreated, classless) == [
        "PriorityClass gold had another value when a was created than for the group.",
        "The class of b: none; the group's: gold.",
    ]


def test_all_values_are_told_unless_a_bound_is_asked_for() -> None:
    divergence = measure_divergence(pod_group(), MEMBERS)
    assert sentence(divergence) == "4 of 4 pods do not have priority 0: 3 (d); 2 (b, c); 1 (a)"
    assert sentence(divergence, 3) == sentence(divergence)
    assert (
        sentence(divergence, 2)
        == "4 of 4 pods do not have priority 0: 3 (d); 2 (b, c); 1 pod with other values"
    )
    assert sentence(divergence, 1) == "4 of 4 pods do not have priority 0: 2 (b, c); 2 pods with other values"


def test_a_bound_leaves_terminating_pods_counted() -> None:
    leaving = [pod(f"z{index}", priority=10 + index, terminating=True) for index in range(3)]
    divergence = measure_divergence(pod_group(), [*MEMBERS, *leaving])
    assert sentence(divergence, 1) == (
        "4 of 7 pods do not have priority 0: 2 (b, c); 2 pods with other values; 3 more, terminating"
    )
    policies = measure_divergence(pod_group(policy="Never"), [pod("a"), pod("b", policy="Never")])
    assert policy_sentence(policies, 1) == policy_sentence(policies)


@given(st.text(max_size=60), st.integers(3, 60))
def test_a_cut_text_keeps_its_limit_and_its_beginning(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short.encode()) <= limit
    if len(text.encode()) <= limit:
        assert short == text
    else:
        assert text.startswith(short.removesuffix("…"))
        assert short.endswith("…") or limit == 3
        # Not one more character would fit beside the ellipsis.
        kept = short.removesuffix("…")
        assert len((kept + text[len(kept)]).encode()) > limit - len("…".encode()) or limit == 3


def test_no_room_is_no_text() -> None:
    assert cut("abcdef", 3) == cut("abcdef", 0) == ""
    assert cut("abc", 3) == "abc"
