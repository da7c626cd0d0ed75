"""Values of CEL as Python objects, with their equality and their types at run time.

bool, int, float, str, bytes, None and list stand for themselves, and Uint for unsigned numbers. A map has the
class Map, because Python's own dictionary takes 1, 1.0 and True for one key.

Source: cel-go common/types.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from kubecel.effort import COMPARED, COPIED, SEARCHED, AbortedError, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.statictypes import StaticType

INT_LIMIT, UINT_LIMIT = 2**63, 2**64
NO_OVERLOAD = "no such overload"


class Uint(int):
    """An unsigned number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """An instant in nanoseconds since 1970, with the offset in seconds in which it was written."""

    nanos: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, value: object = None, *, present: bool = True) -> None:
        """Take the value."""
        self.value = value
        self.present = present


NOTHING = Optional(present=False)


def key_of(value: object) -> object:
    """Return the key under which a map has a value: numbers by value, other types apart."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else (float, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        # Upstream finds no list by another.
        return (list, id(value))
    return (type(value), value)


def read_key(key: object) -> None:
    """Count the effort of finding a key: a text is hashed and compared."""
    if type(key) is str and len(key) > COPIED:
        meter.spend(len(key) // SEARCHED)


class Map:
    """A map; the entries keep the keys as they were written."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[object, tuple[object, object]] | None = None) -> None:
        """Take entries by key_of(key)."""
        self.entries = {} if entries is None else entries

    def lookup(self, key: object) -> object:
        """Return the value of a key, or ABSENT."""
        entry = self.entries.get(key_of(key))
        return ABSENT if entry is None else entry[1]

    def has(self, key: object) -> bool:
        """Return whether the map has a key, as the operator `in` sees it. Raises AbortedError as upstream."""
        if self.entries:
            check_hashable(key)
        return key_of(key) in self.entries

    def keys(self) -> Iterator[object]:
        """Iterate over the keys."""
        return (key for key, _ in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)


class TextMap(Map):
    """A map of the API, whose keys are texts."""

    __slots__ = ()

    @classmethod
    def of_values(cls, values: dict[str, object]) -> Self:
        """Return a map of the values by name."""
        return cls({key: (key, value) for key, value in values.items()})

    def has(self, key: object) -> bool:
        """Return whether the map has a key."""
        return type(key) is str and key in self.entries


class DomainMap(TextMap):
    """The attributes or capacities of a device: an unknown domain has an empty map."""

    __slots__ = ()

    def lookup(self, key: object) -> object:
        """Return the map of a domain."""
        entry = self.entries.get(key) if type(key) is str else None
        return _EMPTY if entry is None else entry[1]


_UNHASHABLE = {
    "bytes": "types.Bytes",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.NamedFormat": "cel.Format",
}


def check_hashable(value: object) -> None:
    """Raise AbortedError for a value that upstream cannot use as the key of a map."""
    if type(value) is not str and (shown := _UNHASHABLE.get(type_name(value))) is not None:
        raise AbortedError(f"internal error: runtime error: hash of unhashable type {shown}")


ABSENT = object()
_EMPTY = Map()


class Opaque:
    """A value of a Kubernetes library: a quantity, a version, an address."""

    __slots__ = ()
    type_name = ""
    # The text of a value that is not equal to one of another type; None: it is false.
    foreign_equality = NO_OVERLOAD

    def same(self, other: object) -> bool:
        """Return whether a value of the same class is equal."""
        raise NotImplementedError


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    Map: "map",
    TextMap: "map",
    DomainMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}


def type_name(value: object) -> str:
    """Return the name of a value's type at run time."""
    name = _TYPE_NAMES.get(type(value))
    return name if name is not None else value.type_name  # type: ignore[attr-defined]


NUMBER_TYPES = frozenset({int, Uint, float})
_SIMPLE_TYPES = NUMBER_TYPES | {str, bytes, bool}


def order(first: object, second: object) -> int | None:
    """Return -1, 0 or 1 for two numbers, None for NaN. Beside a double, a number is rounded to one."""
    if (type(first) is float) is not (type(second) is float):
        first, second = float(first), float(second)  # type: ignore[arg-type]
    if first == second:
        return 0
    if first != first or second != second:  # noqa: PLR0124 - NaN is not equal to itself
        return None
    return 1 if first > second else -1  # type: ignore[operator]


def same_number(first: object, second: object) -> bool:
    """Return whether a second value is a number too, and the same."""
    if type(first) is type(second):
        return first == second
    return type(second) in NUMBER_TYPES and order(first, second) == 0


def equal(first: object, second: object) -> bool:
    """Return whether two values are equal. Raises SelectorRuntimeError for types that refuse others."""
    kind = type(first)
    if kind is str or kind is bytes:
        if type(second) is not kind:
            return False
        if len(first) > COPIED:  # type: ignore[arg-type]
            meter.spend(len(first) // COPIED)  # type: ignore[arg-type]
        return first == second
    if kind is bool:
        return type(second) is kind and first == second
    if kind in NUMBER_TYPES:
        return same_number(first, second)
    return _same_parts(first, second)


def _same_parts(first: object, second: object) -> bool:
    """Return whether two values are equal; pairs of parts wait on a stack, however deep the values are."""
    # With each pair: whether it is in a list or a map.
    waiting = [(first, second, False)]
    while waiting:
        left, right, inner = waiting.pop()
        meter.spend(3)
        if type(left) is list and type(right) is list and len(left) == len(right):
            meter.make_items(len(left))
            waiting.extend((a, b, True) for a, b in zip(left, right, strict=True))
        elif isinstance(left, Map) and isinstance(right, Map) and len(left) == len(right):
            meter.make_items(len(left))
            waiting.extend((value, right.lookup(key), True) for key, value in left.entries.values())
        elif type(left) is Optional and type(right) is Optional and left.present and right.present:
            waiting.append((left.value, right.value, inner))
        else:
            try:
                if not _same_leaf(left, right):
                    return False
            except SelectorRuntimeError:
                # Upstream takes two items for different only if the comparison says so.
                if not inner:
                    raise
    return True


def _same_leaf(first: object, second: object) -> bool:
    kind = type(first)
    if first is None or second is None or second is ABSENT:
        return first is second
    if kind in {list, Map, TextMap, DomainMap}:
        # Their sizes differ.
        return False
    if kind is Optional:
        return type(second) is Optional and first.present == second.present  # type: ignore[attr-defined]
    if isinstance(first, Opaque):
        if type(second) is not kind:
            raise SelectorRuntimeError(NO_OVERLOAD)
        return first.same(second)
    if kind is Timestamp:
        # The offset does not count.
        return type(second) is kind and first.nanos == second.nanos  # type: ignore[attr-defined]
    if kind in _SIMPLE_TYPES:
        return equal(first, second)
    return type(second) is kind and first == second


def contains(items: list[object], value: object, *, reverse: bool = False) -> bool:
    """Return whether a list has an equal item; an item that cannot be compared is not equal."""
    return index_of(items, value, reverse=reverse) >= 0


def index_of(items: list[object], value: object, *, backwards: bool = False, reverse: bool = False) -> int:
    """Return the first index of an equal item, or the last, or -1; `reverse` asks the value, not the item."""
    meter.spend(len(items) // COMPARED)
    places = range(len(items) - 1, -1, -1) if backwards else range(len(items))
    for place in places:
        item = items[place]
        try:
            if equal(value, item) if reverse else equal(item, value):
                return place
        except SelectorRuntimeError:
            continue
    return -1


def size_of(value: object) -> int:
    """Return the size that the cost of a call counts: 1 for what has none."""
    while type(value) is Optional and value.present:
        value = value.value
    return len(value) if isinstance(value, (str, list, bytes, Map, SizedOpaque)) else 1


class SizedOpaque(Opaque):
    """An opaque value with a size: addresses and networks in bytes."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError


def matches_type(expected: StaticType, value: object) -> bool:
    """Return whether a value has a declared type, as far as its first element tells."""
    kind = expected.kind
    if kind not in {"dyn", "any", "param"} and expected.name != type_name(value):
        return False
    if kind == "list" and value:
        return matches_type(expected.parameters[0], value[0])  # type: ignore[index]
    if kind == "map" and isinstance(value, Map) and value:
        key, element = next(iter(value.entries.values()))
        return matches_type(expected.parameters[0], key) and matches_type(expected.parameters[1], element)
    return True


Function = Callable[..., object]
