"""The answer on a group with a topology constraint names the domain that it waits for."""

from typing import Any

import pytest
from tests.support.calling import Podium
from tests.support.why import file, group, node, pod, podium

__all__ = ["podium"]

RACK = "example.com/rack"


def racked(name: str, rack: str | None) -> dict[str, Any]:
    """Make a node of 4 cpu, in a rack or in none."""
    made = node(name)
    made["metadata"]["labels"] = {} if rack is None else {RACK: rack}
    return made


def gang(cpu: str, *on: str) -> list[dict[str, Any]]:
    """Make a gang of three that wants one rack; the first members run on these nodes."""
    topology = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    places = [*on, *[""] * (3 - len(on))]
    members = [pod(f"p{at}", group="ring", cpu=cpu, priority=5, node=name) for at, name in enumerate(places)]
    return [group("ring", least=3, spec=topology), *members]


RACKS = [racked("a1", "a"), racked("b1", "b"), racked("b2", "b"), racked("c1", None)]
CASES = {
    "the rack with room": (
        [*RACKS, racked("b3", "b"), *gang("3")],
        "Fits",
        "in example.com/rack=b",
    ),
    "the rack to clear": (
        [*RACKS, racked("b3", "b"), pod("x", node="b1", cpu="3"), *gang("3")],
        "FitsAfterPreemption",
        "in example.com/rack=b after preempting 1 pod",
    ),
    "the nearest rack": (
        [*RACKS, *gang("3")],
        "DoesNotFit",
        "0/2 domains of example.com/rack are available, the nearest is example.com/rack=b: ",
    ),
    "the rack of running members": (
        [*RACKS, *gang("3", "a1")],
        "DoesNotFit",
        "members of the group run in example.com/rack=a, which has too little room: ",
    ),
    "a label that no node has": (
        [RACKS[-1], *gang("1")],
        "DoesNotFit",
        "1 node(s) had no label example.com/rack, the topology of the group",
    ),
}


@pytest.mark.parametrize(("objects", "outcome", "message"), CASES.values(), ids=CASES)
def test_a_waiting_group_names(
    podium: Podium, objects: list[dict[str, Any]], outcome: str, message: str
) -> None:
    prospect = podium("group", "a/ring", "-f", file(objects), "-o", "json").json["prospect"]
    assert prospect["outcome"] == outcome
    assert message in prospect["message"]
