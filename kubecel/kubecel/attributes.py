"""Attributes: a value and the selections from it, compiled to one closure.

Once a selection is optional, so are those after it; a missing key then ends the chain with an absent value.

Source: cel-go interpreter/attributes.go.
"""

from typing import NamedTuple

from kubecel.calls import Runnable
from kubecel.errors import SelectorRuntimeError
from kubecel.folds import LocalVariable
from kubecel.gotext import go_type, verb_v
from kubecel.values import ABSENT, INT_LIMIT, NOTHING, Map, Optional, Uint, read_key, type_name

_COST, _UNCHARGED = 0, 1
_KEY_TYPES = frozenset({str, int, Uint, bool, float})


class Qualifier(NamedTuple):
    """One selection: a constant key, or a closure that finds the key; perhaps optional, or only a test."""

    key: object
    find: Runnable | None
    optional: bool
    test: bool

    @classmethod
    def of_constant(cls, key: object, optional: bool, test: bool) -> "Qualifier":
        """Return a selection by a known key."""
        return cls(key, None, optional, test)

    @classmethod
    def of_closure(cls, find: Runnable, optional: bool) -> "Qualifier":
        """Return a selection by a key that is computed."""
        return cls(None, find, optional, test=False)


class Base(NamedTuple):
    """Where an attribute starts, and its selections."""

    start: Runnable
    qualifiers: tuple[Qualifier, ...] = ()
    branches: "tuple[Runnable, Base, Base] | None" = None

    def selections(self) -> int:
        """Return the number of selections, in all branches."""
        if self.branches is None:
            return 1 + len(self.qualifiers)
        _, chosen, otherwise = self.branches
        return 1 + chosen.selections() + otherwise.selections()

    @classmethod
    def of_slot(cls, slot: int) -> "Base":
        """Return an attribute that starts at a place of the frame."""
        return cls(lambda frame: frame[slot])

    @classmethod
    def of_variable(cls, variable: LocalVariable) -> "Base":
        """Return an attribute that starts at a local variable."""
        return cls(variable.read())

    @classmethod
    def of_closure(cls, run: Runnable) -> "Base":
        """Return an attribute of a computed value."""
        return cls(run)


def _never(_: list) -> object:  # type: ignore[type-arg]
    raise AssertionError


def conditional(condition: Runnable, chosen: Base, otherwise: Base) -> Base:
    """Return an attribute that is one of two."""
    return Base(_never, (), (condition, chosen, otherwise))


def qualified(base: Base, qualifier: Qualifier) -> Base:
    """Return an attribute with one more selection."""
    if base.branches is not None:
        condition, chosen, otherwise = base.branches
        return conditional(condition, qualified(chosen, qualifier), qualified(otherwise, qualifier))
    return base._replace(qualifiers=(*base.qualifiers, qualifier))


def attribute(base: Base, *, free: bool = False) -> Runnable:
    """Return the closure of an attribute, which itself costs 1 unless it is free, a test or a condition."""
    if base.branches is not None:
        return _choice(*base.branches)
    qualifiers = base.qualifiers
    own = 0 if free or (qualifiers and qualifiers[-1].test) else 1
    start = base.start
    if not qualifiers:
        return _plain(start, own)
    if all(step.find is None and not step.optional and not step.test for step in qualifiers):
        return _constant_path(start, tuple(step.key for step in qualifiers), own)
    return _general_path(start, qualifiers, own)


def _choice(condition: Runnable, chosen: Base, otherwise: Base) -> Runnable:
    first, second = attribute(chosen, free=True), attribute(otherwise, free=True)

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[_UNCHARGED] += 1
        outcome = condition(frame)
        if outcome is True:
            return first(frame)
        if outcome is False:
            return second(frame)
        raise SelectorRuntimeError("no such overload")

    return run


def _plain(start: Runnable, own: int) -> Runnable:
    if own == 0:
        return start

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[_COST] += own
        return start(frame)

    return run


def _constant_path(start: Runnable, keys: tuple[object, ...], own: int) -> Runnable:
    """Return the closure of the usual path, all of whose keys are known and required."""
    count = len(keys)

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[_COST] += own
        value = start(frame)
        if isinstance(value, Optional):
            return _optional_path(frame, value, keys)
        place = 0
        try:
            for key in keys:
                place += 1
                value = selected(value, key)
        except SelectorRuntimeError:
            frame[_COST] += place
            raise
        frame[_COST] += count
        return value

    return run


def _optional_path(frame: list[int], optional: Optional, keys: tuple[object, ...]) -> object:
    if not optional.present:
        return optional
    value = optional.value
    for key in keys:
        value = if_present(value, key)
        if value is ABSENT:
            return NOTHING
        frame[_COST] += 1
    return Optional(value)


def _general_path(start: Runnable, qualifiers: tuple[Qualifier, ...], own: int) -> Runnable:
    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[_COST] += own
        value = start(frame)
        optional = isinstance(value, Optional)
        if isinstance(value, Optional):
            if not value.present:
                return False if qualifiers[-1].test else value
            value = value.value
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            if optional:
                key = qualifier.key if qualifier.find is None else usable_key(qualifier.find(frame))
                value = if_present(value, key)
                if value is ABSENT:
                    return False if qualifiers[-1].test else NOTHING
                frame[_COST] += 1
                continue
            try:
                key = qualifier.key if qualifier.find is None else usable_key(qualifier.find(frame))
                if qualifier.test:
                    return if_present(value, key) is not ABSENT
                value = selected(value, key)
            finally:
                frame[_COST] += 1
        if qualifiers[-1].test:
            return True
        return Optional(value) if optional else value

    return run


def usable_key(value: object) -> object:
    """Return a key. Raises SelectorRuntimeError for a value of a type that is none."""
    if type(value) not in _KEY_TYPES:
        raise SelectorRuntimeError(f"invalid qualifier type: {go_type(value)}")
    read_key(value)
    return value


def selected(value: object, key: object) -> object:
    """Return the element of a value at a key. Raises SelectorRuntimeError."""
    if isinstance(value, Map):
        element = value.lookup(key)
        if element is ABSENT:
            raise SelectorRuntimeError(f"no such key: {verb_v(key)}")
        return element
    if isinstance(value, list):
        place = _index(key)
        if 0 <= place < len(value):
            return value[place]
        raise SelectorRuntimeError(f"index out of bounds: {verb_v(key)}")
    raise SelectorRuntimeError(f"no such key: {verb_v(key)}")


def if_present(value: object, key: object) -> object:
    """Return the element of a value at a key, or ABSENT. Raises SelectorRuntimeError for an unfit index."""
    if isinstance(value, Map):
        return value.lookup(key)
    if isinstance(value, list):
        place = _index(key)
        return value[place] if 0 <= place < len(value) else ABSENT
    return ABSENT


def _index(key: object) -> int:
    if type(key) is int:
        return key
    if isinstance(key, Uint):
        if key < INT_LIMIT:
            return int(key)
        raise SelectorRuntimeError(f"unsupported index value {verb_v(key)} in list")
    if isinstance(key, float):
        if key == key and abs(key) < INT_LIMIT and key.is_integer():  # noqa: PLR0124
            return int(key)
        raise SelectorRuntimeError(f"unsupported index value {verb_v(key)} in list")
    raise SelectorRuntimeError(f"unsupported index type '{type_name(key)}' in list")
