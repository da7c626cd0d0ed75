"""Determines which labels of pods decide anything: those that a selector in the cluster distinguishes.

The pods of an Indexed Job or a StatefulSet are copies except for a label with their number. With such labels
in a shape, each pod would have a shape of its own, and every cache by shape would be one by pod. So a shape
has only the labels whose keys a selector names, and of their values those that a selector names.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from podium.api.selectors import Labels, Selector
from podium.schedulerplugin.shapes import Shape

# Replaces any value that no selector names; no label and no selector can have it.
OTHER = "\0"

# The most unused names that are kept, besides the number of names in use.
_UNUSED = 4096

# Up to this many keys are looked up one by one, which is faster than a loop over all labels.
_FEW = 4
NO_LABELS: Labels = {}

# A key, and a value of it that a selector names; None is the key alone.
Name = tuple[str, str | None]


class VisibleLabels:
    """The label keys and values that selectors name; `epoch` grows when some are forgotten.

    Selectors come with objects, one by one, but distinguishing pods by a new selector takes a look at all
    pods. So `hold` only notes selectors, and the next `name` adds them.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._named: dict[str, set[str]] = {}
        self._size = 0
        self._used: Counter[Name] = Counter()
        # Held selectors with new names.
        self._unnamed: list[Selector] = []

    def of(self, labels: Labels) -> tuple[tuple[str, str], ...]:
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
        held, self._unnamed = self._unnamed, []
        if self._size > 2 * len(self._used) + _UNUSED:
            self._forget()
        new: dict[str, set[str] | None] = {}
        for key, value in names(chain(held, selectors)):
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
            found = list(names((selector,)))
            self._used.update(found)
            if not all(map(self._knows, found)):
                self._unnamed.append(selector)

    def release(self, selectors: Iterable[Selector]) -> None:
        """Count held selectors as no longer in use."""
        for name in names(selectors):
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]

    def _forget(self) -> None:
        """Keep only the names in use; counts by other labels become invalid."""
        self.epoch += 1
        kept = list(filter(self._knows, self._used))
        self._named, self._size = {}, len(kept)
        for key, value in kept:
            values = self._named.setdefault(key, set())
            if value is not None:
                values.add(value)

    def _knows(self, name: Name) -> bool:
        key, value = name
        return key in self._named and (value is None or value in self._named[key])


def names(selectors: Iterable[Selector]) -> Iterator[Name]:
    """Yield the keys and values that selectors name."""
    for selector in selectors:
        for key, _, values in selector.requirements:
            yield key, None
            for value in values:
                yield key, value


def selectors_of(shape: Shape) -> list[Selector]:
    """Return the selectors by which pods of a shape select other pods."""
    terms = chain(shape.pod_affinity, shape.pod_anti_affinity, (term for _, term in shape.preferred_pods))
    of_terms = (term.selector for term in terms)
    of_constraints = (each.selector for each in chain(shape.spread, shape.soft_spread))
    return [each for each in chain(of_terms, of_constraints) if each is not None]


def touched(given: Sequence[Labels], new: Mapping[str, set[str] | None]) -> Iterable[int]:
    """Return the positions of the labels that new names distinguish from others."""
    if len(new) > _FEW:
        named = frozenset(new)
        return [at for at, labels in enumerate(given) if not named.isdisjoint(labels)]
    found: set[int] = set()
    for key, values in new.items():
        if values is None:
            found.update([at for at, labels in enumerate(given) if key in labels])
        else:
            found.update([at for at, labels in enumerate(given) if labels.get(key) in values])
    return found
