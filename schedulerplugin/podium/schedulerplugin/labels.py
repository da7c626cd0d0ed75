"""Which labels of pods decide anything: those that a selector in the cluster tells apart.

The pods of an Indexed Job or a StatefulSet are copies but for a label that numbers them. Were such labels
part of a shape, each pod would have a shape of its own, and every cache by shape would be one by pod. So a
shape has only the labels whose keys a selector names, and of their values those that a selector names.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from podium.api.selectors import Labels, Selector
from podium.schedulerplugin.shapes import Shape

# Stands for any value that no selector names; no label and no selector can have it.
OTHER = "\0"

# So many names that no selector uses any more are kept at most, or as many as are in use.
_UNUSED = 4096

# So many keys are looked up one after the other, which is quicker than to go through all labels.
_FEW = 4
NO_LABELS: Labels = {}

# A key, and a value of it that a selector names; None stands for the key alone.
Name = tuple[str, str | None]


class VisibleLabels:
    """The label keys and values that selectors name; `epoch` grows when some are forgotten.

    Selectors come with objects, one by one, while pods are told apart by new ones in a look at all pods. So
    `hold` only notes selectors, and the next `name` takes them in.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._named: dict[str, set[str]] = {}
        self._size = 0
        self._used: Counter[Name] = Counter()
        # Held, with names that are new.
        self._unnamed: list[Selector] = []

    def of(self, labels: Labels) -> tuple[tuple[str, str], ...]:
        """Give what of a pod's labels selectors tell apart, in order."""
        named = self._named
        return tuple(
            sorted(
                (key, value if value in named[key] else OTHER)
                for key, value in labels.items()
                if key in named
            )
        )

    def name(self, selectors: Iterable[Selector]) -> dict[str, set[str] | None]:
        """Take in what these selectors and those held name; return what is new, by key.

        That is a set of values, or None for all of a key.
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
        """Note that selectors are in use."""
        for selector in selectors:
            found = list(names((selector,)))
            self._used.update(found)
            if not all(map(self._knows, found)):
                self._unnamed.append(selector)

    def release(self, selectors: Iterable[Selector]) -> None:
        """Note that selectors which were held are in use no more."""
        for name in names(selectors):
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]

    def _forget(self) -> None:
        """Keep only the names in use; who has counted by others has to count again."""
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
    """Give the keys and values that selectors name."""
    for selector in selectors:
        for key, _, values in selector.requirements:
            yield key, None
            for value in values:
                yield key, value


def selectors_of(shape: Shape) -> list[Selector]:
    """Give the selectors by which pods of a shape look at the labels of pods."""
    terms = chain(shape.pod_affinity, shape.pod_anti_affinity, (term for _, term in shape.preferred_pods))
    of_terms = (term.selector for term in terms)
    of_constraints = (each.selector for each in chain(shape.spread, shape.soft_spread))
    return [each for each in chain(of_terms, of_constraints) if each is not None]


def touched(given: Sequence[Labels], new: Mapping[str, set[str] | None]) -> Iterable[int]:
    """Return the positions of the labels that names which are new tell apart from others."""
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
