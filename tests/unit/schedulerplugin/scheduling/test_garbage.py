"""Objects that survived a full collection are exempt from the next, so a large cluster is scanned once."""

import gc

from podium.schedulerplugin.live.process import short_collections


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
