"""Karpenter beside Podium: nodes come for a gang that waits, and go when they are empty."""

from collections.abc import Iterator

import pytest
from tests.e2e.conftest import Measured
from tests.support.e2e import karpenter
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.gangs import HIGH, LOW, GangSpace
from tests.support.e2e.karpenter import delete_pods, limit, make_gang, names, pool
from tests.support.e2e.lives import Life, count_running, deleted, first_bound, last_ended, lives
from tests.support.e2e.work import PodWatch, Work
from tests.support.waiting import until

from podium.api.groups import PODIUM_GROUP, RESERVED

pytestmark = pytest.mark.e2e

_GANG = 4
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_PATIENT, _SHORT = "e2e-patient", "e2e-patient-for-20s"
_SHORT_SECONDS = 20
_DELAYS = {_PATIENT: "5m", _SHORT: f"{_SHORT_SECONDS}s"}


@pytest.fixture(scope="module")
def scaled(neighbourhood: Nodes) -> Iterator[Nodes]:
    """Yield the cluster with Karpenter, and two classes that evict nothing until a delay is over."""
    karpenter.add(neighbourhood)
    for name, delay in _DELAYS.items():
        metadata = {"name": name, "annotations": {f"{PODIUM_GROUP}/preemption-delay": delay}}
        code, answer = neighbourhood.server.request("POST", _CLASSES, {"metadata": metadata, "value": 1000})
        assert code == 201, answer
    yield neighbourhood
    for name in _DELAYS:
        neighbourhood.server.request("DELETE", f"{_CLASSES}/{name}")


def test_nodes_come_for_a_gang_and_go(
    scaled: Nodes, space: GangSpace, watch: PodWatch, measured: Measured
) -> None:
    """Karpenter adds the two reserved nodes that four unschedulable pods need."""
    with pool(scaled, space, most=4):
        make_gang(space, "train", HIGH, _GANG)
        until(lambda: count_running(watch, "train") == _GANG, "train runs")
        train = lives(watch, "train")
        assert {life.node for life in train.values()} == names(scaled)
        assert len(names(scaled)) == 2
        measured(f"bound {_last_bound(train) - _last_made(train):.1f} s after the last pod was made")
        delete_pods(space)
        until(lambda: names(scaled) == set(), "Karpenter removes its empty nodes")


def test_no_member_is_bound_to_half_of_the_nodes(scaled: Nodes, space: GangSpace, watch: PodWatch) -> None:
    """A pool whose limit is one node gets that node, where Podium binds another pod and no member."""
    with pool(scaled, space, most=1):
        make_gang(space, "train", HIGH, _GANG)
        until(lambda: len(names(scaled)) == 1, "a node comes")
        space.pod("other", Work(), {"cpu": "100m"}, nodeSelector={RESERVED: "yes"})
        until(lambda: watch.bound("other") != {}, "another pod is bound")
        assert all(life.bound is None for life in lives(watch, "train").values())
        limit(scaled, 2)
        until(lambda: count_running(watch, "train") == _GANG, "train runs")
        assert {life.node for life in lives(watch, "train").values()} <= names(scaled)
        assert len({life.node for life in lives(watch, "train").values()}) == 2


def test_a_preemption_adds_no_node(scaled: Nodes, space: GangSpace, watch: PodWatch) -> None:
    """Without a delay Podium evicts at once what is lower, although Karpenter could add nodes."""
    with pool(scaled, space, most=4):
        before = _run_after_another(scaled, space, watch, HIGH)
        assert len(deleted(watch, "nightly")) == _GANG
        assert {life.node for life in lives(watch, "train").values()} == before == names(scaled)


def test_a_delay_lets_nodes_come_first(
    scaled: Nodes, space: GangSpace, watch: PodWatch, measured: Measured
) -> None:
    """With a delay of minutes, Karpenter adds nodes, and nothing is evicted."""
    with pool(scaled, space, most=4):
        before = _run_after_another(scaled, space, watch, _PATIENT)
        train = lives(watch, "train")
        assert {life.node for life in train.values()} == names(scaled) - before
        assert deleted(watch, "nightly") == {}
        measured(f"bound {_last_bound(train) - _last_made(train):.1f} s after the last pod was made")


def test_a_lower_gang_is_evicted_when_the_delay_is_over(
    scaled: Nodes, space: GangSpace, watch: PodWatch, measured: Measured
) -> None:
    """A pool at its limit adds no node, and Podium evicts when the delay is over."""
    with pool(scaled, space, most=2):
        before = _run_after_another(scaled, space, watch, _SHORT)
        train, gone = lives(watch, "train"), deleted(watch, "nightly")
        assert len(gone) == _GANG
        assert first_bound(train) >= last_ended(gone)
        waited = first_bound(train) - _last_made(train)
        assert waited >= _SHORT_SECONDS - 1
        assert {life.node for life in train.values()} == before
        measured(f"bound {waited:.1f} s after the last pod was made")


def _run_after_another(scaled: Nodes, space: GangSpace, watch: PodWatch, class_name: str) -> set[str]:
    """Run the gang nightly, then the gang train; return the nodes that there were for nightly."""
    make_gang(space, "nightly", LOW, _GANG)
    until(lambda: count_running(watch, "nightly") == _GANG, "nightly runs")
    before = names(scaled)
    make_gang(space, "train", class_name, _GANG)
    until(lambda: count_running(watch, "train") == _GANG, "train runs")
    return before


def _last_made(found: dict[str, Life]) -> float:
    return max(life.made for life in found.values())


def _last_bound(found: dict[str, Life]) -> float:
    return max(life.bound or 0 for life in found.values())
