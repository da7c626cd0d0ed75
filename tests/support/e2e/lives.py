"""The lives of a group's pods, from a watch, by UID: a StatefulSet gives one name to several pods in turn."""

from typing import NamedTuple

from tests.support.controllers.history import group_of
from tests.support.e2e.work import PodWatch


class Life(NamedTuple):
    """A pod, and when it was first seen, on a node, running and ended (time.monotonic).

    `deleted` is true if it was told to end before it had ended, and `marked` if it has DisruptionTarget.
    """

    name: str
    made: float
    node: str = ""
    bound: float | None = None
    running: float | None = None
    ended: float | None = None
    deleted: bool = False
    marked: bool = False

    @property
    def runs(self) -> bool:
        """Return whether the pod has started and not ended."""
        return self.running is not None and self.ended is None


def lives(watch: PodWatch, group: str) -> dict[str, Life]:
    """Return the pods of a group by UID, in the order of their creation."""
    found: dict[str, Life] = {}
    for each in list(watch.moments):
        if group_of(each.pod) != group:
            continue
        life = found.get(each.pod["metadata"]["uid"], Life(each.name, each.at))
        if life.bound is None and each.node:
            life = life._replace(bound=each.at, node=each.node)
        if life.running is None and each.phase == "Running":
            life = life._replace(running=each.at)
        if life.ended is None and each.terminating:
            life = life._replace(deleted=True)
        if life.ended is None and each.ended:
            life = life._replace(ended=each.at)
        found[each.pod["metadata"]["uid"]] = life._replace(marked=life.marked or each.is_target)
    return found


def count_running(watch: PodWatch, group: str) -> int:
    """Return how many pods of a group have started and not ended."""
    return sum(life.runs for life in lives(watch, group).values())


def preempted(watch: PodWatch, group: str) -> dict[str, Life]:
    """Return the pods of a group that were marked for eviction, by UID; those of a StatefulSet are not."""
    return {uid: life for uid, life in lives(watch, group).items() if life.marked}


def deleted(watch: PodWatch, group: str) -> dict[str, Life]:
    """Return the pods of a group that were deleted while they ran, by UID."""
    return {uid: life for uid, life in lives(watch, group).items() if life.deleted}


def first_bound(found: dict[str, Life]) -> float:
    """Return when the first of some pods was bound; all of them must have been."""
    times = [each.bound for each in found.values() if each.bound is not None]
    assert len(times) == len(found) > 0, found
    return min(times)


def last_ended(found: dict[str, Life]) -> float:
    """Return when the last of some pods ended; all of them must have."""
    times = [each.ended for each in found.values() if each.ended is not None]
    assert len(times) == len(found) > 0, found
    return max(times)
