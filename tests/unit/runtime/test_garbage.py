"""A full collection visits few objects: survivors of the last one are exempt, and the next comes soon."""

import gc
from collections.abc import Mapping
from typing import Any

from podium.runtime.garbage import short_collections


def test_a_full_collection_visits_only_what_is_new() -> None:
    """The earlier objects are in none of the collector's generations."""
    kept = [[number] for number in range(1000)]
    with short_collections():
        gc.collect()
        visited = gc.get_objects(generation=2)
        assert not any(each is kept for each in visited)
        assert gc.get_freeze_count() >= len(kept)
        new = [[number] for number in range(1000)]
        gc.collect()
        assert gc.get_freeze_count() >= len(kept) + len(new)
    assert gc.get_freeze_count() == 0


def test_full_collections_come_before_many_objects_are_new() -> None:
    """A pause is as long as the number of objects that are visited."""
    visited: list[int] = []

    def count(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            visited.append(len(gc.get_objects()))

    thresholds = gc.get_threshold()
    with short_collections():
        gc.callbacks.append(count)
        try:
            kept = [[number] for number in range(200_000)]
        finally:
            gc.callbacks.remove(count)
        assert gc.get_freeze_count() >= len(kept) - max(visited)
    assert len(visited) >= 8
    assert max(visited) <= 25_000
    assert gc.get_threshold() == thresholds


def test_objects_of_the_start_are_exempt() -> None:
    kept = [[number] for number in range(1000)]
    with short_collections():
        assert not any(each is kept for each in gc.get_objects())


class Node:
    """A part of a cycle."""

    other: "Node"


def _tie(node: Node) -> None:
    node.other = node


def test_cycles_that_are_made_and_dropped_are_collected() -> None:
    """Only objects that live during a full collection are exempt."""

    def count() -> int:
        return sum(isinstance(each, Node) for each in gc.get_objects())

    with short_collections():
        gc.collect()
        for _ in range(100):
            _tie(Node())
        gc.collect()
        assert count() == 0
