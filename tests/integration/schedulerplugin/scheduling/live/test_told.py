"""Conditions of groups, events, and the window that waits for an autoscaler, on real servers."""

from datetime import datetime
from typing import Any

import pytest
from tests.support.controllers.running import conditions
from tests.support.scheduling.world import Sandbox

from podium.api.groups import NATIVE_GROUP
from podium.api.saving import PREEMPTION_DELAY

pytestmark = pytest.mark.server


def scheduled_type(sandbox: Sandbox) -> str:
    """Return the name of the condition in the stored version."""
    older = sandbox.world.place.api == f"{NATIVE_GROUP}/v1alpha2"
    return "PodGroupScheduled" if older else "PodGroupInitiallyScheduled"


def group_says(sandbox: Sandbox, name: str, kind: str, status: str, reason: str, *, text: str = "") -> str:
    """Wait until a group's condition has a status and a text in its message; return the condition."""
    found = ""

    def reached() -> bool:
        nonlocal found
        condition = conditions(sandbox.ask("GET", sandbox.groups_path(name))).get(kind)
        found = condition.message if condition is not None else ""
        return condition is not None and condition[:2] == (status, reason) and text in found

    sandbox.until(reached, f"{kind} of {name} is {status} {reason}")
    return found


def events(sandbox: Sandbox, reason: str) -> list[dict[str, Any]]:
    path = f"/apis/events.k8s.io/v1/namespaces/{sandbox.name}/events"
    return [each for each in sandbox.ask("GET", path)["items"] if each["reason"] == reason]


def test_a_group_says_how_it_fares(sandbox: Sandbox) -> None:
    """The condition is false with the pods' message, then permanently true; later it is a target."""
    kind = scheduled_type(sandbox)
    sandbox.nodes(1)
    sandbox.group("low", 3, 2, whole=True)
    names = sandbox.members("low", 2, 4, 3)
    # While its members are created one by one, the message reports too few.
    group_says(sandbox, "low", kind, "False", "Unschedulable", text="0/1 nodes are available")
    sandbox.node("n1")
    sandbox.until_bound(names)
    group_says(sandbox, "low", kind, "True", "Scheduled")
    made = sandbox.pod("high", 4, 5)
    sandbox.until_bound(["high"])
    message = group_says(sandbox, "low", "DisruptionTarget", "True", "PreemptionByScheduler")
    assert made["metadata"]["uid"] in message
    group_says(sandbox, "low", kind, "True", "Scheduled")


def test_one_event_tells_of_a_plan(sandbox: Sandbox) -> None:
    """The event has the preemptor's UID and name; other events have upstream's form."""
    sandbox.nodes(1)
    sandbox.running_gang("low", ["n0", "n0"], 2, 1, whole=True)
    made = sandbox.pod("high", 2, 5)
    node = sandbox.full(sandbox.until_bound(["high"])["high"])
    sandbox.until(lambda: events(sandbox, "Preempted"), "the plan is in an event")
    (event,) = events(sandbox, "Preempted")
    uid = made["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node {node}, 2 pods in 1 unit, {sandbox.name}/high"
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("PodGroup", "low")
    sandbox.until(lambda: events(sandbox, "Scheduled"), "the bind is in an event")
    (bound,) = events(sandbox, "Scheduled")
    assert (bound["action"], bound["note"]) == (
        "Binding",
        f"Successfully assigned {sandbox.name}/high to {node}",
    )
    sandbox.pod("large", 5, 1)
    sandbox.until(lambda: events(sandbox, "FailedScheduling"), "the refusal is in an event")
    assert any("0/1 nodes are available" in each["note"] for each in events(sandbox, "FailedScheduling"))


def test_a_window_waits_for_new_nodes_first(sandbox: Sandbox) -> None:
    """The group's annotation sets it; the message has the deadline, and no pod is marked before it."""
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0")
    sandbox.group("gang", 5, 1, annotations={PREEMPTION_DELAY: "3s"})
    names = sandbox.members("gang", 1, 4, 5)
    message = sandbox.until_message(names[0], "waiting until ")
    deadline = datetime.fromisoformat(message.partition("waiting until ")[2].split()[0])
    assert sandbox.touched() == []
    sandbox.until_bound(names)
    event = next(
        condition["lastTransitionTime"]
        for each in sandbox.world.ledger.pods.seen
        if each.object["metadata"]["namespace"] == sandbox.name
        for condition in each.object["status"].get("conditions", ())
        if condition["type"] == "DisruptionTarget"
    )
    assert datetime.fromisoformat(event) >= deadline


def test_a_node_added_within_the_window_spares_all_victims(sandbox: Sandbox) -> None:
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0")
    sandbox.group("gang", 5, 1, annotations={PREEMPTION_DELAY: "1h"})
    names = sandbox.members("gang", 1, 4, 5)
    sandbox.until_message(names[0], "waiting until ")
    sandbox.node("n1")
    assert sandbox.until_bound(names) == {names[0]: "n1"}
    assert sandbox.touched() == []
