"""Conditions of groups, events, and the window that waits for an autoscaler, on real servers."""

from datetime import datetime
from typing import Any

import pytest
from tests.support.controllers.running import conditions
from tests.support.scheduling.world import Yard

from podium.api.groups import NATIVE_GROUP
from podium.schedulerplugin.scheduling.evictionlimits import DELAY_ANNOTATION

pytestmark = pytest.mark.server


def scheduled_type(yard: Yard) -> str:
    """Return the name of the condition in the stored version."""
    older = yard.world.place.api == f"{NATIVE_GROUP}/v1alpha2"
    return "PodGroupScheduled" if older else "PodGroupInitiallyScheduled"


def group_says(yard: Yard, name: str, kind: str, status: str, reason: str, *, text: str = "") -> str:
    """Wait until a group's condition has a status and a text in its message; return the condition."""
    found = ""

    def reached() -> bool:
        nonlocal found
        condition = conditions(yard.ask("GET", yard.groups_path(name))).get(kind)
        found = condition.message if condition is not None else ""
        return condition is not None and condition[:2] == (status, reason) and text in found

    yard.until(reached, f"{kind} of {name} is {status} {reason}")
    return found


def events(yard: Yard, reason: str) -> list[dict[str, Any]]:
    path = f"/apis/events.k8s.io/v1/namespaces/{yard.name}/events"
    return [each for each in yard.ask("GET", path)["items"] if each["reason"] == reason]


def test_a_group_says_how_it_fares(yard: Yard) -> None:
    """The condition is false with the pods' message, then permanently true; later it is a target."""
    kind = scheduled_type(yard)
    yard.nodes(1)
    yard.group("low", 3, 2, whole=True)
    names = yard.members("low", 2, 4, 3)
    # While its members are created one by one, the message reports too few.
    group_says(yard, "low", kind, "False", "Unschedulable", text="0/1 nodes are available")
    yard.node("n1")
    yard.until_bound(names)
    group_says(yard, "low", kind, "True", "Scheduled")
    made = yard.pod("high", 4, 5)
    yard.until_bound(["high"])
    message = group_says(yard, "low", "DisruptionTarget", "True", "PreemptionByScheduler")
    assert made["metadata"]["uid"] in message
    group_says(yard, "low", kind, "True", "Scheduled")


def test_one_event_tells_of_a_plan(yard: Yard) -> None:
    """The event has the preemptor's UID; Scheduled and FailedScheduling events have upstream's form."""
    yard.nodes(1)
    yard.running_gang("low", ["n0", "n0"], 2, 1, whole=True)
    made = yard.pod("high", 2, 5)
    node = yard.full(yard.until_bound(["high"])["high"])
    yard.until(lambda: events(yard, "Preempted"), "the plan is in an event")
    (event,) = events(yard, "Preempted")
    uid = made["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node {node}, 2 pods in 1 unit"
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("PodGroup", "low")
    yard.until(lambda: events(yard, "Scheduled"), "the bind is in an event")
    (bound,) = events(yard, "Scheduled")
    assert (bound["action"], bound["note"]) == (
        "Binding",
        f"Successfully assigned {yard.name}/high to {node}",
    )
    yard.pod("large", 5, 1)
    yard.until(lambda: events(yard, "FailedScheduling"), "the refusal is in an event")
    assert any("0/1 nodes are available" in each["note"] for each in events(yard, "FailedScheduling"))


def test_a_window_waits_for_new_nodes_first(yard: Yard) -> None:
    """The group's annotation sets it; the message has the deadline, and no pod is marked before it."""
    yard.nodes(1)
    yard.pod("low", 4, 1, node="n0")
    yard.group("gang", 5, 1, annotations={DELAY_ANNOTATION: "3s"})
    names = yard.members("gang", 1, 4, 5)
    message = yard.until_message(names[0], "waiting until ")
    deadline = datetime.fromisoformat(message.partition("waiting until ")[2].split()[0])
    assert yard.touched() == []
    yard.until_bound(names)
    event = next(
        condition["lastTransitionTime"]
        for each in yard.world.ledger.pods.seen
        if each.object["metadata"]["namespace"] == yard.name
        for condition in each.object["status"].get("conditions", ())
        if condition["type"] == "DisruptionTarget"
    )
    assert datetime.fromisoformat(event) >= deadline


def test_a_node_added_within_the_window_spares_all_victims(yard: Yard) -> None:
    yard.nodes(1)
    yard.pod("low", 4, 1, node="n0")
    yard.group("gang", 5, 1, annotations={DELAY_ANNOTATION: "1h"})
    names = yard.members("gang", 1, 4, 5)
    yard.until_message(names[0], "waiting until ")
    yard.node("n1")
    assert yard.until_bound(names) == {names[0]: "n1"}
    assert yard.touched() == []
