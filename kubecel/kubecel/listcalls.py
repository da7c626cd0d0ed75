"""Functions of lists, sets and optional values.

Functions whose work is the square of a size check it before they start.

Source: cel-go ext/lists.go, ext/sets.go, cel/library.go; k8s.io/apiserver/pkg/cel/library/lists.go.
"""

from functools import cmp_to_key

from kubecel import operators
from kubecel.effort import COST_LIMIT, MAX_ITEMS, CostLimitError, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.gotext import verb_v
from kubecel.values import (
    ABSENT,
    NOTHING,
    Duration,
    Map,
    Optional,
    Timestamp,
    contains,
    index_of,
    key_of,
    type_name,
)

# The most values of the attributes of a device.
_MAX_ATTRIBUTE_VALUES = 48


def _bounded_square(first: int, second: int) -> None:
    if first * second > COST_LIMIT:
        raise CostLimitError


def is_sorted(items: list[object]) -> bool:
    """Return whether no item is greater than the next."""
    previous: object = ABSENT
    for item in items:
        _comparable(item)
        if previous is not ABSENT and _ordered(previous, item) > 0:
            return False
        previous = item
    return True


def _ordered(first: object, second: object) -> int:
    """Compare; upstream takes values that cannot be compared for ordered."""
    try:
        return operators.compare("", first, second)
    except SelectorRuntimeError:
        return 0


def _comparable(item: object) -> None:
    if type(item) not in operators.COMPARABLE:
        raise SelectorRuntimeError("no such overload")


def summed(start: object, items: list[object]) -> object:
    """Return the sum of the items."""
    total = start
    for item in items:
        total = operators.add(total, item)
    return total


def greatest(items: list[object]) -> object:
    """Return the greatest item."""
    return _extreme(items, "max", -1)


def least(items: list[object]) -> object:
    """Return the least item."""
    return _extreme(items, "min", 1)


def _extreme(items: list[object], name: str, preferred: int) -> object:
    if not items:
        raise SelectorRuntimeError(f"{name} called on empty list")
    extreme: object = ABSENT
    for item in items:
        _comparable(item)
        if extreme is ABSENT or _ordered(extreme, item) == preferred:
            extreme = item
    return extreme


def includes(items: object, item: object) -> bool:
    """Return whether a list has an item, or whether a single value is equal to it."""
    return contains(items if isinstance(items, list) else [items], item)


def includes_36(items: object, item: object) -> bool:
    """Return whether a list has an item, as 1.36 does: it searches as many values as a device may have."""
    if isinstance(items, list):
        place = index_of(items[:_MAX_ATTRIBUTE_VALUES], item)
        if place < 0 and len(items) > _MAX_ATTRIBUTE_VALUES:
            raise SelectorRuntimeError(
                f"'includes' function cannot be applied to lists longer than {_MAX_ATTRIBUTE_VALUES} values"
            )
        return place >= 0
    return includes(items, item)


def sliced(items: list[object], start: int, end: int) -> list[object]:
    """Return the items between two indices."""
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise SelectorRuntimeError(f"{call}, negative indexes not supported")
    if start > end:
        raise SelectorRuntimeError(f"{call}, start index must be less than or equal to end index")
    if len(items) < end:
        raise SelectorRuntimeError(f"{call}, list is length {len(items)}")
    meter.make_items(end - start)
    return items[start:end]


def turned(items: list[object]) -> list[object]:
    """Return the items in reverse order."""
    meter.make_items(len(items))
    return items[::-1]


def flattened(items: object, depth: object = None) -> list[object]:
    """Return a list with nested lists in their place, down to a depth."""
    if not isinstance(items, list) or (depth is not None and type(depth) is not int):
        shown = "" if depth is None else type_name(depth)
        raise SelectorRuntimeError(f"no such overload: {type_name(items)}.flatten({shown})")
    levels = 1 if depth is None else depth
    if levels < 0:
        raise SelectorRuntimeError("level must be non-negative")
    flat: list[object] = []
    # The lists that are being read, one in another.
    reading = [iter(items)]
    while reading:
        for item in reading[-1]:
            meter.spend(1)
            if isinstance(item, list) and len(reading) <= levels:
                reading.append(iter(item))
                break
            flat.append(item)
        else:
            reading.pop()
    meter.make_items(len(flat))
    return flat


def ordered(items: object) -> list[object]:
    """Return a sorted list."""
    if not isinstance(items, list):
        raise operators.no_trait("sort", items)
    return ordered_by(items, items)


def ordered_by(items: object, keys: object) -> list[object]:
    """Return a list sorted by the keys of its items."""
    if not isinstance(items, list) or not isinstance(keys, list):
        raise operators.no_trait("@sortByAssociatedKeys", items)
    _bounded_square(len(items), len(keys))
    if len(items) != len(keys):
        raise SelectorRuntimeError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
            f" {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    if type(keys[0]) not in operators.COMPARABLE:
        raise SelectorRuntimeError("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not type(keys[0]) for key in keys):
        raise SelectorRuntimeError("list elements must have the same type")
    meter.make_objects(len(items))
    pairs = list(zip(keys, items, strict=True))
    pairs.sort(key=cmp_to_key(_by_key))
    return [item for _, item in pairs]


def _by_key(first: tuple[object, object], second: tuple[object, object]) -> int:
    return _ordered(first[0], second[0])


def number_range_37(count: int) -> list[object]:
    """Return the numbers below a count."""
    if count < 0:
        raise SelectorRuntimeError(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_ITEMS:
        raise SelectorRuntimeError(f"lists.range: size {count} exceeds maximum allowed ({MAX_ITEMS})")
    meter.make_objects(count)
    return list(range(count))


def number_range_36(count: int) -> list[object]:
    """Return the numbers below a count, of which 1.36 takes any."""
    meter.make_objects(max(count, 0))
    return list(range(count))


def distinct(items: list[object]) -> list[object]:
    """Return a list without the items that are equal to one before them."""
    _bounded_square(len(items), len(items))
    unique: list[object] = []
    for item in items:
        if not contains(unique, item, reverse=True):
            unique.append(item)
    return unique


def set_contains(items: list[object], sublist: list[object]) -> bool:
    """Return whether a list has every item of another."""
    _bounded_square(len(items), len(sublist))
    return all(contains(items, item, reverse=True) for item in sublist)


def set_equivalent(first: list[object], second: list[object]) -> bool:
    """Return whether two lists have each other's items."""
    return set_contains(first, second) and set_contains(second, first)


def set_intersects(first: list[object], second: list[object]) -> bool:
    """Return whether two lists share an item."""
    _bounded_square(len(first), len(second))
    return any(contains(second, item, reverse=True) for item in first)


def inserted(target: Map, key: object, value: object) -> Map:
    """Add an entry to a map that only its loop holds, and return it."""
    held = key_of(key)
    if held in target.entries:
        raise SelectorRuntimeError(f"insert failed: key {verb_v(key)} already exists")
    meter.spend(1)
    target.entries[held] = (key, value)
    return target


def merged(target: Map, update: Map) -> Map:
    """Add the entries of another map to one that only its loop holds, and return it."""
    for key, value in update.entries.values():
        inserted(target, key, value)
    return target


def optional_non_zero(value: object) -> Optional:
    """Return a value that is present unless it is zero or empty."""
    if (
        value is None
        or value is False
        or (isinstance(value, (int, float, str, bytes, list, Map)) and not value)
    ):
        return NOTHING
    if isinstance(value, Duration) and value.nanos == 0:
        return NOTHING
    if isinstance(value, Timestamp) and value.nanos == -62135596800 * 10**9:
        return NOTHING
    return Optional(value)


def optional_value(value: Optional) -> object:
    """Return the value of an optional."""
    if not value.present:
        raise SelectorRuntimeError("optional.none() dereference")
    return value.value


def unwrapped(items: list[object]) -> list[object]:
    """Return the values of the optionals that have one."""
    values: list[object] = []
    for item in items:
        if not isinstance(item, Optional):
            raise SelectorRuntimeError(f"value {verb_v(item)} is not optional")
        if item.present:
            values.append(item.value)
    return values
