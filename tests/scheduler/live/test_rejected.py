"""A pod that its node rejects, as a kubelet writes it: the race with another scheduler on shared nodes."""

import pytest
from tests.scheduler.world import Yard

pytestmark = pytest.mark.server


def reject(yard: Yard, name: str, reason: str) -> None:
    """Have a pod's node find that it has no room for it, as a kubelet does."""
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    yard.patch(name, {"status": {"phase": "Failed", "reason": reason, "message": message}}, "/status")


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfnvidia.com/gpu"])
def test_a_gang_is_planned_anew_when_a_member_is_rejected(reason: str, yard: Yard) -> None:
    """Its room counts as free again; what its owner makes in its place joins those that run."""
    yard.nodes(2)
    names = yard.gang("gang", 2)
    nodes = yard.until_bound(names)
    reject(yard, names[1], reason)
    yard.node("n2")
    yard.end(names[1])
    yard.members("gang", 1, 4, 5, first=2)
    assert yard.until_bound(["gang-2"])["gang-2"] != nodes[names[0]]
    assert yard.touched() == []
