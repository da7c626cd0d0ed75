"""Assigns ids to shapes: a million pods have few shapes, and each is computed once.

Deriving a shape from a document costs more than all other work of a snapshot for a pod. Pods of one template
differ only in fields that scheduling does not read. So the fields that it reads are compared first
(`Fingerprints`), and only unknown combinations are parsed. A shape is forgotten when no pod has it any more.

The pods of an Indexed Job or a StatefulSet are copies except for a label with their number. With such labels
in a shape, each pod would have a shape of its own, and every cache by shape would be one by pod. So a shape
has only the labels whose keys a selector names, and of their values those that a selector names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter

import msgspec

from podium.api.podrequests import resized
from podium.api.schedulable import Schedulable
from podium.api.selectors import Labels, Selector
from podium.planner.framework import Plugin, overriding
from podium.planner.shapes import Shape, shape_of

# Replaces any value that no selector names; no label and no selector can have it.
OTHER = "\0"

# The most unused names that are kept, besides the number of names in use.
_UNUSED = 4096

# Up to this many keys are looked up one by one, which is faster than a loop over all labels.
_FEW = 4
NO_LABELS: Labels = {}

# A key, and a value of it that a selector names; None is the key alone.
LabelName = tuple[str, str | None]


class VisibleLabels:
    """The label keys and values that selectors name; `epoch` grows when some are forgotten.

    Selectors come with objects, one by one, but distinguishing pods by a new selector takes a look at all
    pods. So `hold` only notes selectors, and the next `name` adds them.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._named: dict[str, set[str]] = {}
        self._size = 0
        # The held selectors, how many shapes have each, and the number of names that they have together.
        self._used: dict[Selector, int] = {}
        self._used_size = 0
        # Held selectors that may have new names.
        self._unnamed: dict[Selector, None] = {}

    def visible(self, labels: Labels) -> tuple[tuple[str, str], ...]:
        """Return the part of a pod's labels that selectors distinguish, in order."""
        named = self._named
        return tuple(
            sorted(
                (key, value if value in named[key] else OTHER)
                for key, value in labels.items()
                if key in named
            )
        )

    def name(self, selectors: Iterable[Selector]) -> dict[str, set[str] | None]:
        """Add the names of these selectors and of the held ones; return the new names by key.

        The value is the set of new values of the key, or None if the key itself is new.
        """
        held, self._unnamed = self._unnamed, {}
        if self._size > 2 * self._used_size + _UNUSED:
            self._drop_unused()
        new: dict[str, set[str] | None] = {}
        for key, value in selector_names(chain(held, selectors)):
            known = self._named.get(key)
            if known is None:
                known = self._named[key] = set()
                self._size += 1
                new[key] = None
            if value is not None and value not in known:
                known.add(value)
                self._size += 1
                values = new.setdefault(key, set())
                if values is not None:
                    values.add(value)
        return new

    def hold(self, selectors: Iterable[Selector]) -> None:
        """Count selectors as in use."""
        for selector in selectors:
            count = self._used.get(selector, 0)
            self._used[selector] = count + 1
            if not count:
                self._used_size += _names_in(selector)
                self._unnamed[selector] = None

    def release(self, selectors: Iterable[Selector]) -> None:
        """Count held selectors as no longer in use."""
        for selector in selectors:
            count = self._used[selector]
            if count > 1:
                self._used[selector] = count - 1
            else:
                del self._used[selector]
                self._used_size -= _names_in(selector)
                self._unnamed.pop(selector, None)

    def _drop_unused(self) -> None:
        """Keep only the names in use; counts by other labels become invalid."""
        self.epoch += 1
        kept = set(filter(self._knows, selector_names(self._used)))
        self._named, self._size = {}, len(kept)
        for key, value in kept:
            values = self._named.setdefault(key, set())
            if value is not None:
                values.add(value)

    def _knows(self, name: LabelName) -> bool:
        key, value = name
        return key in self._named and (value is None or value in self._named[key])


def selector_names(selectors: Iterable[Selector]) -> Iterator[LabelName]:
    """Yield the keys and values that selectors name."""
    for selector in selectors:
        for key, _, values in selector.requirements:
            yield key, None
            for value in values:
                yield key, value


def _names_in(selector: Selector) -> int:
    """Return the number of names of a selector."""
    return sum(1 + len(values) for _, _, values in selector.requirements)


def selectors_of(shape: Shape) -> list[Selector]:
    """Return the selectors by which pods of a shape select other pods."""
    return [selector for need in shape.needs for selector in need.selectors]


def distinguished(given: Sequence[Labels], new: Mapping[str, set[str] | None]) -> Iterable[int]:
    """Return the positions of the labels that new names distinguish from others."""
    if len(new) > _FEW:
        named = frozenset(new)
        return [at for at, labels in enumerate(given) if not named.isdisjoint(labels)]
    positions: set[int] = set()
    for key, values in new.items():
        if values is None:
            positions.update([at for at, labels in enumerate(given) if key in labels])
        else:
            positions.update([at for at, labels in enumerate(given) if labels.get(key) in values])
    return positions


# The most spellings of one shape that are remembered: pods of one template are written alike.
_MARKS = 64
# JSON has integers of any size, where MessagePack has 64 bits; both take the same time.
_ENCODER = msgspec.json.Encoder()
# The fields of a pod's spec that decide its requests.
_REQUESTS = ("containers", "initContainers", "resources", "overhead")


class Fingerprints:
    """Bytes that are equal only for pods of one shape, and cheaper than it."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        fields = dict.fromkeys(chain(_REQUESTS, *(plugin.SPEC for plugin in plugins)))
        self._read = attrgetter(*fields)
        self._plugins = overriding(plugins, "fingerprint")

    def of(self, pod: Schedulable, labels: tuple[tuple[str, str], ...]) -> bytes | None:
        """Return the bytes of a pod whose shape has these labels; None if a plugin has no cheap ones."""
        own = []
        for plugin in self._plugins:
            mark = plugin.fingerprint(pod)
            if mark is None:
                return None
            own.append(mark)
        named = pod.metadata.namespace, labels, bool(pod.metadata.labels)
        return _ENCODER.encode((named, self._read(pod.spec), own, resized(pod)))


class ShapeInterner:
    """The shapes in use by id; ids are never reused.

    `next_id` is the number of ids given so far, and the next id. `minor` is the kube-scheduler release whose
    arithmetic counts.
    """

    def __init__(
        self,
        minor: int,
        plugins: Sequence[Plugin],
        came: Callable[[int, Shape], None],
        gone: Callable[[int, Shape], None],
    ) -> None:
        """`came` is called with each new shape and its id, `gone` when no pod has it any more."""
        self.labels = VisibleLabels()
        self.shapes: dict[int, Shape] = {}
        # The shapes with a value that cannot be read.
        self.unusable: set[int] = set()
        self._minor = minor
        self._plugins = plugins
        self._came = came
        self._gone = gone
        self.next_id = 0
        self._ids: dict[Shape, int] = {}
        self._pods: dict[int, int] = {}
        self._seen: dict[bytes, int] = {}
        self._seen_of: dict[int, list[bytes]] = {}

    @cached_property
    def _fingerprints(self) -> Fingerprints:
        # A snapshot makes its plugins later than this.
        return Fingerprints(self._plugins)

    def acquire(self, pod: Schedulable) -> int:
        """Return the id of a pod's shape, and count one pod more with it; `release` undoes this."""
        labels = self.labels.visible(pod.metadata.labels or {})
        mark = self._fingerprints.of(pod, labels)
        shape_id = self._seen.get(mark) if mark is not None else None
        if shape_id is None:
            shape = shape_of(pod, self._plugins, self._minor)
            shape_id = self._intern(shape._replace(labels=labels))
            if mark is not None:
                marks = self._seen_of[shape_id]
                if len(marks) == _MARKS:
                    del self._seen[marks.pop(0)]
                self._seen[mark] = shape_id
                marks.append(mark)
        self._pods[shape_id] += 1
        return shape_id

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
        del self._pods[shape_id]
        self._gone(shape_id, shape)

    def _intern(self, shape: Shape) -> int:
        shape_id = self._ids.get(shape)
        if shape_id is None:
            shape_id = self._ids[shape] = self.next_id
            self.next_id += 1
            self.shapes[shape_id] = shape
            self.labels.hold(selectors_of(shape))
            if shape.unusable:
                self.unusable.add(shape_id)
            self._pods[shape_id] = 0
            self._seen_of[shape_id] = []
            self._came(shape_id, shape)
        return shape_id
