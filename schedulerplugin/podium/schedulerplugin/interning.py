"""Shapes by id, each with what its pods take: a million pods are of few shapes, each worked out once.

Deriving a shape from a document costs more than all else a snapshot does for a pod. Pods made from one
template differ only where scheduling does not look, so the parts that it reads are compared first
(`fingerprint`), and only what was not met before is read. A shape that no pod has any more is forgotten.
"""

from collections.abc import Callable

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.labels import VisibleLabels, selectors_of
from podium.schedulerplugin.shapes import Shape, fingerprint, shape_of
from podium.schedulerplugin.sums import Needs
from podium.schedulerplugin.volumes import Volumes

# So many ways to write one shape are remembered at a time: pods of one template are written alike.
_MARKS = 64


class Interning:
    """The shapes in use by id; no id is given twice. What each needs is kept in `needs`.

    `met` shapes were given an id so far: the next gets that number.
    `minor` is the kube-scheduler release whose arithmetic counts.
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
        # Those of which something cannot be read.
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
        """Give the id of a pod's shape, for one pod more; `release` gives it back."""
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
        """Return the id of a shape that is as another but for its labels; `move` a pod to it."""
        return self._intern(self.shapes[shape_id]._replace(labels=labels))

    def move(self, before: int, after: int) -> None:
        """Note that a pod has another shape."""
        self._pods[after] += 1
        self.release(before)

    def release(self, shape_id: int) -> None:
        """Note that one pod less has a shape."""
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
