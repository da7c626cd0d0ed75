"""KEP-5710: the integration tests of its test plan, on real servers; the names are its sentences."""

import pytest
from tests.support.scheduling.world import Yard

pytestmark = pytest.mark.server


def running(yard: Yard, *, whole: bool) -> list[str]:
    """Fill two nodes of 4 cpus with one group of four."""
    yard.nodes(2)
    return yard.running_gang("low", ["n0", "n0", "n1", "n1"], 2, 1, whole=whole)


def preemptor(yard: Yard, *, group: bool) -> str:
    """Make a pod of higher priority, or a group with one, that needs the room of one pod."""
    if group:
        yard.group("high", 5, 1)
    yard.pod("high-0", 2, 5, group="high" if group else "")
    return "high-0"


@pytest.mark.parametrize("group", [True, False], ids=["group", "pod"])
def test_pods_of_a_group_in_mode_pod_can_be_preempted_individually(group: bool, yard: Yard) -> None:
    """The preemptor is a PodGroup of higher priority, or an individual pod."""
    low = running(yard, whole=False)
    high = preemptor(yard, group=group)
    yard.until_bound([high])
    assert len(yard.evicted()) == 1
    assert sorted(yard.pods()) == sorted([high, *set(low) - set(yard.evicted())])


@pytest.mark.parametrize("group", [True, False], ids=["group", "pod"])
def test_pods_of_a_group_in_mode_podgroup_are_preempted_all_together(group: bool, yard: Yard) -> None:
    """The whole group is evicted even if one of its pods would be enough, for a PodGroup and for a pod."""
    low = running(yard, whole=True)
    high = preemptor(yard, group=group)
    yard.until_bound([high])
    yard.until(lambda: list(yard.pods()) == [high], "the whole group is gone")
    assert sorted(yard.evicted()) == low
    assert sorted({*yard.touched()}) == low
