"""KEP-5710: the integration tests of its test plan, on real servers; the names are its sentences."""

import pytest
from tests.support.scheduling.world import Sandbox

pytestmark = pytest.mark.server


def running(sandbox: Sandbox, *, whole: bool) -> list[str]:
    """Fill two nodes of 4 cpus with one group of four."""
    sandbox.nodes(2)
    return sandbox.running_gang("low", ["n0", "n0", "n1", "n1"], 2, 1, whole=whole)


def preemptor(sandbox: Sandbox, *, group: bool) -> str:
    """Make a pod of higher priority, or a group with one, that needs the room of one pod."""
    if group:
        sandbox.group("high", 5, 1)
    sandbox.pod("high-0", 2, 5, group="high" if group else "")
    return "high-0"


@pytest.mark.parametrize("group", [True, False], ids=["group", "pod"])
def test_pods_of_a_group_in_mode_pod_can_be_preempted_individually(group: bool, sandbox: Sandbox) -> None:
    """The preemptor is a PodGroup of higher priority, or an individual pod."""
    low = running(sandbox, whole=False)
    high = preemptor(sandbox, group=group)
    sandbox.until_bound([high])
    assert len(sandbox.evicted()) == 1
    assert sorted(sandbox.pods()) == sorted([high, *set(low) - set(sandbox.evicted())])


@pytest.mark.parametrize("group", [True, False], ids=["group", "pod"])
def test_pods_of_a_group_in_mode_podgroup_are_preempted_all_together(group: bool, sandbox: Sandbox) -> None:
    """The whole group is evicted even if one of its pods would be enough, for a PodGroup and for a pod."""
    low = running(sandbox, whole=True)
    high = preemptor(sandbox, group=group)
    sandbox.until_bound([high])
    sandbox.until(lambda: list(sandbox.pods()) == [high], "the whole group is gone")
    assert sorted(sandbox.evicted()) == low
    assert sorted({*sandbox.touched()}) == low
