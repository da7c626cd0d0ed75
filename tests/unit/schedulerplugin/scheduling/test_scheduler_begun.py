"""Preemptions that another process had started before it was killed: its conditions are hints only.

A tenant can write them too, so every rule of an eviction is checked again before any delete.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.objects import running
from tests.support.scheduling.rig import World, pod
from tests.unit.planner.preemption.test_budgets import budget

from podium.api.meta import Condition
from podium.planner.settings import Budgets, PreemptionMode, Settings
from podium.schedulerplugin.scheduling.effects import Preemptor, Unmark
from podium.schedulerplugin.scheduling.evictionlimits import Unfinished
from podium.schedulerplugin.scheduling.messages import target_message


def marked_for_deletion(
    by: str = "team-a-high", scheduler: str = "podium-scheduler", namespace: str = "team-a"
) -> dict[str, Any]:
    """Return the status of a victim of a killed process; the mark has the name of a preemptor of team-a."""
    message = target_message(scheduler, Preemptor("pod", "team-a", "high", by, 10), namespace)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
    }
    return {"conditions": [condition]}


@dataclass
class Begun:
    """The objects of an earlier process, the pods the next process evicts, and the victims it unmarks."""

    objects: list[Any]
    evicted: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    resumed: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


def preemptor(on: str = "n1", **kwargs: Any) -> Any:
    """Make the pod that an earlier process had nominated."""
    return pod("high", 1, 10, status={"nominatedNodeName": on} if on else None, **kwargs)


BEGUN = {
    "what was begun is ended": Begun(
        [node(cpu=1), running("low", "n1", status=marked_for_deletion()), preemptor()], ["low"]
    ),
    "what was begun for a preemptor without its name is ended": Begun(
        [node(cpu=1), running("low", "n1", status=marked_for_deletion(namespace="b")), preemptor()], ["low"]
    ),
    "for a gang that fits in another order than that of its pods": Begun(
        [
            *(node("n1", 4), node("n2", 2), group("gang", 10, 2, uid="gang-uid")),
            *(pod("gang-a", 2, 10, group="gang"), pod("gang-b", 4, 10, group="gang")),
            running("low-1", "n1", 4, status=marked_for_deletion("gang-uid")),
            running("low-2", "n2", 2, status=marked_for_deletion("gang-uid")),
        ],
        ["low-1", "low-2"],
    ),
    "not by the condition of another scheduler": Begun(
        [
            node(cpu=1),
            running("low", "n1", priority=10, status=marked_for_deletion(scheduler="default-scheduler")),
            preemptor(),
        ]
    ),
    "not where the victim's priority is not lower": Begun(
        [node(cpu=1), running("low", "n1", priority=10, status=marked_for_deletion()), preemptor()],
        spared=["low"],
    ),
    "not a pod of another scheduler": Begun(
        [node(cpu=1), running("low", "n1", schedulerName="other", status=marked_for_deletion()), preemptor()],
        spared=["low"],
    ),
    "not in kube-system": Begun(
        [
            node(cpu=1),
            running("low", "n1", namespace="kube-system", status=marked_for_deletion()),
            preemptor(),
        ],
        spared=["low"],
    ),
    "not a pod that tolerates it": Begun(
        [
            *(node(cpu=1), priority_class("patient", 0, minimum=100, seconds=-1)),
            running("low", "n1", priorityClassName="patient", status=marked_for_deletion()),
            preemptor(),
        ],
        spared=["low"],
    ),
    "not for a preemptor that is gone": Begun(
        [node(cpu=1), running("low", "n1", status=marked_for_deletion())], spared=["low"]
    ),
    "not for one that fits without": Begun(
        [node(cpu=2), running("low", "n1", status=marked_for_deletion()), preemptor()], spared=["low"]
    ),
    "not where a budget forbids it and budgets are strict": Begun(
        [
            *(node(cpu=1), budget()),
            *(running("low", "n1", status=marked_for_deletion(), labels={"app": "a"}), preemptor()),
        ],
        spared=["low"],
        settings={"engine": Settings(budgets=Budgets.STRICT)},
    ),
    "not when it is switched off": Begun(
        [node(cpu=1), running("low", "n1", status=marked_for_deletion()), preemptor()],
        spared=["low"],
        settings={"mode": PreemptionMode.OFF},
    ),
    "a part of what is needed is planned afresh": Begun(
        [
            *(node(cpu=2), running("low-1", "n1", status=marked_for_deletion()), running("low-2", "n1")),
            pod("high", 2, 10, status={"nominatedNodeName": "n1"}),
        ],
        ["low-1", "low-2"],
        ["low-1"],
        resumed=False,
    ),
    "a part of a group is planned afresh": Begun(
        [
            *(node("n1", 1), node("n2", 1), group("v", whole=True)),
            *(running("v-0", "n1", group="v", status=marked_for_deletion()), running("v-1", "n2", group="v")),
            preemptor(),
        ],
        ["v-0", "v-1"],
        ["v-0"],
        resumed=False,
    ),
}


@pytest.mark.parametrize("name", BEGUN)
def test_preemptions_of_an_earlier_process_are_resumed_or_withdrawn(name: str) -> None:
    """Its conditions are hints: every rule is checked again, and a mark without a preemption is withdrawn."""
    case = BEGUN[name]
    world = World(case.objects, **case.settings)
    world.run()
    assert world.evicted() == case.evicted
    assert [evict.resumed for evict in world.evictions()] == [case.resumed] * bool(case.evicted)
    assert [
        ref.name for each in world.effects if isinstance(each, Unmark) for ref in each.pods
    ] == case.spared


def marked(name: str, *, by: str = "team-a-high", priority: int = 0) -> Any:
    """Make a group that is evicted as a whole, with the mark of a killed process, or of a tenant."""
    condition = msgspec.convert(marked_for_deletion(by)["conditions"][0], Condition)
    return group(name, priority, whole=True, conditions=(condition,))


def halves(name: str, priority: int = 0) -> list[Any]:
    """Make a member on each of two nodes."""
    return [
        running(f"{name}-{at}", f"n{at + 1}", priority=priority, group=name, status={}) for at in range(2)
    ]


GROUPS = {
    "what was begun is ended": (
        [node("n1", 1), node("n2", 1), marked("v"), *halves("v"), preemptor("")],
        ["v-0", "v-1"],
        [],
    ),
    "not where its priority is not lower": (
        [node("n1", 1), node("n2", 1), marked("v", priority=10), *halves("v", 10), preemptor("")],
        [],
        ["v"],
    ),
    "not for a preemptor that is gone": (
        [node("n1", 1), node("n2", 1), marked("v"), *halves("v")],
        [],
        ["v"],
    ),
    "not for one that fits without": (
        [node("n1", 1), node("n2", 1), node("n3", 1), marked("v"), *halves("v"), preemptor("")],
        [],
        ["v"],
    ),
    "not for one that may not preempt": (
        [
            *(node("n1", 1), node("n2", 1), node("n3", 1)),
            *(marked("v"), *halves("v"), running("low", "n3")),
            preemptor("", preemptionPolicy="Never"),
        ],
        [],
        ["v"],
    ),
    "not one of which nothing runs": ([node("n1", 1), marked("v"), preemptor("")], [], []),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_mark_of_a_group_authorises_nothing(name: str) -> None:
    """It is a hint like those of pods; a needless one is withdrawn from the group."""
    objects, evicted, withdrawn = GROUPS[name]
    world = World(objects)
    world.run()
    assert world.evicted() == evicted
    assert all(evict.resumed for evict in world.evictions())
    spares = [each for each in world.effects if isinstance(each, Unmark)]
    assert [key.name for each in spares for key in each.groups] == withdrawn
    assert not any(each.pods for each in spares)


FOR, VICTIM = "team-a-high", "team-a-low"
COUNTED = {
    "a resumed preemption counts once": ({FOR: Unfinished(frozenset((VICTIM,)), -5.0)}, ["low"], 0),
    "and not the earlier victims": ({FOR: Unfinished(frozenset((VICTIM, "other")), -5.0)}, [], 0),
    "another's does not count for it": ({"other": Unfinished(frozenset((VICTIM,)), -5.0)}, [], 0),
    "one with other victims does not count": ({FOR: Unfinished(frozenset(("other",)), -5.0)}, [], 0),
    "nor where nothing was left": ({}, [], 0),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_resumed_preemption_counts_once_in_the_rate(name: str) -> None:
    """The record of the former process has the count; a condition alone returns nothing to the rate."""
    left, evicted, room = COUNTED[name]
    world = World(evictions_a_minute=1)
    world.apply(node(cpu=1), running("low", "n1", status=marked_for_deletion()), preemptor())
    world.seconds = 1.0
    counted = [each.at for each in left.values() for _ in each.units] or [-5.0]
    world.restart(*counted, unfinished=left)
    world.run()
    assert world.evicted() == evicted
    assert world.limits.room(world.seconds) == (1, room)
