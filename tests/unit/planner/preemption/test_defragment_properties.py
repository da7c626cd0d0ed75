"""Moves on generated clusters: each is valid by a plain check, and a brute force finds no domain more."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st
from tests.support.preemption.clusters import HOSTNAME, NOW, OURS, SECONDS, clusters, objects, state_of
from tests.support.preemption.plain_cluster import Cluster, Node, Pod, fits, still_fits
from tests.support.preemption.plain_preemption import Unit, eligible, harm, leaves, running, units

from podium.planner.engine import Engine
from podium.planner.preemption.defragment import DomainMoves, Freeing
from podium.planner.settings import Settings

GIB = 2**30
# Of more pods a brute force takes too long.
_MOST_PODS = 7


def verdicts(cluster: Cluster) -> tuple[tuple[str, ...], Sequence[DomainMoves]]:
    """Return the free nodes, and the verdicts on all others."""
    engine = Engine(state_of(objects(cluster)), Settings(evict_only=OURS))
    found = engine.defragment(HOSTNAME, NOW, len(cluster.nodes))
    return found.free, found.domains


def holding(cluster: Cluster) -> dict[str, str]:
    """Return the nodes of all pods that run or have a node reserved, those of leaving pods too."""
    reserved = {
        pod.name: pod.nominated for pod in cluster.pods if pod.node is None and pod.nominated is not None
    }
    return {**running(cluster), **reserved}


def units_on(cluster: Cluster, node: str) -> list[Unit]:
    return [unit for unit in units(cluster) if any(pod.node == node for pod in unit.pods)]


def may_be_freed(cluster: Cluster, node: str) -> bool:
    """Return whether all that is on a node may be evicted, or is leaving."""
    found = units_on(cluster, node)
    evicted = {pod.name for unit in found for pod in unit.pods}
    others = [name for name, at in holding(cluster).items() if at == node and name not in evicted]
    return all(eligible(cluster, unit, unit.priority + 1) for unit in found) and all(
        leaves(cluster.pod(name)) for name in others
    )


def placeable(cluster: Cluster, standing: dict[str, str], pods: Sequence[Pod], nodes: Sequence[Node]) -> bool:
    """Return whether some placement has room for all pods, by trying every one."""
    if not pods:
        return True
    first, *others = pods
    return any(
        placeable(cluster, {**standing, first.name: node.name}, others, nodes)
        for node in nodes
        if fits(cluster, standing, first, node)
    )


def check(cluster: Cluster, free: Sequence[str], found: DomainMoves) -> None:
    """Assert that a verdict is right, by a plain check of its moves, or by brute force."""
    expected = units_on(cluster, found.name)
    assert (found.outcome is Freeing.BLOCKED) == (not may_be_freed(cluster, found.name))
    if found.outcome is Freeing.BLOCKED:
        return
    evicted = {pod.name: pod for unit in expected for pod in unit.pods}
    standing = {name: at for name, at in holding(cluster).items() if name not in evicted}
    if found.outcome is Freeing.MOVABLE:
        assert {unit.name for unit in found.moves} == {unit.name for unit in expected}
        moved = {pod.name: pod.to for unit in found.moves for pod in unit.pods}
        assert set(moved) == set(evicted)
        assert {pod.name: pod.node for unit in found.moves for pod in unit.pods} == {
            name: pod.node for name, pod in evicted.items()
        }
        assert found.name not in moved.values()
        assert set(found.fills) == set(free) & set(moved.values())
        assert still_fits(cluster, standing, moved)
        assert found.harm is not None
        levels = [(level.priority, level.pods, level.units) for level in found.harm.levels]
        violations, plain = harm(cluster, expected)
        assert (found.harm.violations, levels) == (violations, [(each[0], *each[2:]) for each in plain])
    elif len(evicted) <= _MOST_PODS:
        others = [node for node in cluster.nodes if node.name != found.name]
        assert not placeable(cluster, standing, list(evicted.values()), others)


@given(clusters())
def test_every_verdict_is_right(case: tuple[Cluster, str]) -> None:
    """Freed nodes have valid moves with the plain harm, and no placement frees one of the others."""
    cluster, _ = case
    free, found = verdicts(cluster)
    assert {*free, *(each.name for each in found)} == {node.name for node in cluster.nodes}
    assert all(not units_on(cluster, name) and may_be_freed(cluster, name) for name in free)
    for each in found:
        event(each.outcome)
        check(cluster, free, each)


@st.composite
def tight(draw: st.DrawFn) -> tuple[Cluster, bool]:
    """Return nodes whose free room the pods of node `n0` fill, and whether one of these is larger than that.

    The pods request one resource, and each free room is cut into up to four of them.
    """
    template = Pod("", {"cpu": 0, "memory": 0}, tolerates=True, scheduled=SECONDS - 60)
    sizes: list[int] = []
    nodes: list[Node] = []
    for at in range(1, draw(st.integers(2, 3)) + 1):
        parts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
        sizes += parts
        nodes.append(Node(f"n{at}", {"cpu": sum(parts) * 1000, "memory": GIB, "pods": 110}))
    larger = draw(st.booleans())
    sizes[0] += larger
    nodes.append(Node("n0", {"cpu": sum(sizes) * 1000, "memory": GIB, "pods": 110}))
    pods = [
        replace(template, name=f"p{at}", requests={"cpu": size * 1000, "memory": 0}, node="n0")
        for at, size in enumerate(sizes)
    ]
    fillers = [replace(template, name=f"of-{node.name}", node=node.name) for node in nodes[:-1]]
    return Cluster(tuple(nodes), (*pods, *fillers), (), (), SECONDS), larger


@given(tight())
def test_pods_that_fill_the_free_room_are_moved(case: tuple[Cluster, bool]) -> None:
    """Moves are found if the pods fit exactly, and none if one cpu is missing."""
    cluster, larger = case
    free, found = verdicts(cluster)
    (node,) = (each for each in found if each.name == "n0")
    assert node.outcome is (Freeing.DOES_NOT_FIT if larger else Freeing.MOVABLE)
    check(cluster, free, node)
