"""Scenes with trees of composite groups on a real server, for native groups and for Podium's."""

from typing import Any

from tests.support.scheduling.world import Sandbox, racks_used

from podium.api.groups import COMPOSITE_INITIALLY_SCHEDULED

# A native parent requires a template.
TEMPLATE: dict[str, Any] = {"workloadRef": {"workloadName": "w", "templateName": "t"}}


def child(
    sandbox: Sandbox, name: str, priority: int, least: int, parent: str = "tree", **fields: Any
) -> None:
    """Create a group of a tree."""
    sandbox.group(name, priority, least, parentCompositePodGroupName=parent, **TEMPLATE, **fields)


def assert_each_gang_clears_a_rack(sandbox: Sandbox) -> None:
    """Let two gangs of a tree want a rack each; of three full racks one has pods of a higher priority.

    The tree waits for its second gang, and then one preemption makes room for both.
    """
    for rack, priority in (("a", 3), ("b", 1), ("c", 1)):
        sandbox.rack(rack, 2)
        for at in (0, 1):
            sandbox.pod(f"low-{rack}{at}", 4, priority, node=f"{rack}{at}")
    sandbox.composite("tree", 5, 2)
    child(sandbox, "x", 5, 2, **sandbox.in_rack)
    first = sandbox.members("x", 2, 4, 5)
    sandbox.until_message("x-0", "waiting for minGroupCount child groups: 1 of 1 are ready")
    assert sandbox.evicted() == []
    child(sandbox, "y", 5, 2, **sandbox.in_rack)
    second = sandbox.members("y", 2, 4, 5)
    bound = sandbox.until_bound([*first, *second])
    used = [racks_used({name: bound[name] for name in names}) for names in (first, second)]
    assert sorted(map(sorted, used)) == [["b"], ["c"]]
    assert sorted(sandbox.evicted()) == [f"low-{name}" for name in ("b0", "b1", "c0", "c1")]
    sandbox.until(lambda: _scheduled(sandbox), "the composite group is scheduled")


def _scheduled(sandbox: Sandbox) -> bool:
    """Return whether the composite group has the condition that it was scheduled."""
    conditions = ((each["type"], each["status"]) for each in sandbox.composite_status("tree"))
    return (COMPOSITE_INITIALLY_SCHEDULED, "True") in conditions


def assert_a_tree_is_evicted_as_one(sandbox: Sandbox) -> None:
    """Let a pod need one node of a tree of mode `all` that has pods on two nodes."""
    sandbox.nodes(2)
    sandbox.composite("tree", 1, None, whole=True)
    for at, name in enumerate("xy"):
        child(sandbox, name, 1, 1)
        sandbox.pod(f"{name}-0", 4, 1, node=f"n{at}", group=name)
    sandbox.pod("high", 4, 5)
    sandbox.until_bound(["high"])
    assert sorted(sandbox.evicted()) == ["x-0", "y-0"]
