"""Assigns ids to shapes, each with the pods' requests: a million pods have few shapes, each computed once.

Deriving a shape from a document costs more than all other work of a snapshot for a pod. Pods of one template
differ only in fields that scheduling does not read. So the fields that it reads are compared first
(`fingerprint`), and only unknown combinations are parsed. A shape is forgotten when no pod has it any more.
"""

from collections.abc import Callable

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.labels import VisibleLabels, selectors_of
from podium.schedulerplugin.shapes import Shape, fingerprint, shape_of
from podium.schedulerplugin.sums import Needs
from podium.schedulerplugin.volumes import Volumes

# The most spellings of one shape that are remembered: pods of one template are written alike.
_MARKS = 64


class Interning:
    """The shapes in use by id, and their `needs`; ids are never reused.

    `met` is the number of ids given so far, and the next id. `minor` is the kube-scheduler release whose
    arithmetic counts.
    """

    def __init__(
        self,
        minor: int,
        volumes: Volumes,
        needs_of: Callable[[Shape], Needs],
        needs: dict[int, Needs],
    ) -> None:
        self.labels = VisibleLabels()
        self.shapes: dict[int, Shape] = {}
        # The shapes with a value that cannot be read.
        self.unusable: set[int] = set()
        self._minor = minor
        self._needs = needs
        self._volumes = volumes
        self._needs_of = needs_of
        self.met = 0
        self._ids: dict[Shape, int] = {}
        self._pods: dict[int, int] = {}
        self._seen: dict[bytes, int] = {}
        self._seen_of: dict[int, list[bytes]] = {}

    def take(self, pod: Schedulable) -> int:
        """Return the id of a pod's shape, and count one pod more with it; `release` undoes this."""
        labels = self.labels.of(pod.metadata.labels or {})
        mark = fingerprint(pod, labels)
        found = self._seen.get(mark) if mark is not None else None
        if found is None:
            shape = shape_of(pod, self._volumes, self._minor)
            found = self._intern(shape._replace(labels=labels))
            if mark is not None:
                marks = self._seen_of[found]
                if len(marks) == _MARKS:
                    del self._seen[marks.pop(0)]
                self._seen[mark] = found
                marks.append(mark)
        self._pods[found] += 1
        return found

    def relabelled(self, shape_id: int, labels: tuple[tuple[str, str], ...]) -> int:
        """Return the id of a shape that differs from another only in its labels; `move` a pod to it."""
        return self._intern(self.shapes[shape_id]._replace(labels=labels))

    def move(self, before: int, after: int) -> None:
        """Count one pod less with one shape and one more with another."""
        self._pods[after] += 1
        self.release(before)

    def release(self, shape_id: int) -> None:
        """Count one pod less with a shape."""
        self._pods[shape_id] -= 1
        if self._pods[shape_id]:
            return
        for mark in self._seen_of.pop(shape_id):
            del self._seen[mark]
        shape = self.shapes.pop(shape_id)
        self.labels.release(selectors_of(shape))
        del self._ids[shape]
        self.unusable.discard(shape_id)
        del self._needs[shape_id], self._pods[shape_id]

    def _intern(self, shape: Shape) -> int:
        found = self._ids.get(shape)
        if found is None:
            found = self._ids[shape] = self.met
            self.met += 1
            self.shapes[found] = shape
            self.labels.hold(selectors_of(shape))
            if shape.unusable:
                self.unusable.add(found)
            self._needs[found] = self._needs_of(shape)
            self._pods[found] = 0
            self._seen_of[found] = []
        return found
