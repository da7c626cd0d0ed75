"""Shrink a case to the elements without which it no longer has a property."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.devices.recording import Case

_Path = tuple[str | int, ...]

# Fields without which an object is not valid.
_NEEDED = frozenset(
    (
        *("metadata", "name", "namespace", "spec", "devices", "requests", "shared", "consumed", "parameters"),
        *("driver", "pool", "generation", "resourceSliceCount", "device", "shareID", "opaque", "counters"),
        *("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeSelectorTerms"),
        *("key", "operator", "values", "value", "effect", "cel", "expression", "counterSet"),
        *("exactly", "firstAvailable", "deviceClassName", "allocationMode", "count", "default", "min"),
        *("matchAttribute", "distinctAttribute", "string", "int", "bool", "version"),
    )
)

# Lists that are not valid without an element.
_WHOLE = ("values", "nodeSelectorTerms", "matchExpressions", "matchFields")


def shrunk(case: Case, holds: Callable[[Case], bool]) -> Case:
    """Return a case with the property from which nothing can be removed; `holds` is asked very often."""
    found: Case | None = case
    while found is not None:
        case = found
        smaller = (_without(case, path) for path in sorted(_paths(case), key=len))
        found = next(filter(holds, smaller), None)
    return case


def _paths(value: Any, start: _Path = ()) -> Iterator[_Path]:
    """Yield the place of each element, and of each field that is not needed."""
    keys: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list) and start[-1] not in _WHOLE:
        keys = reversed(list(enumerate(value)))
    for key, each in keys:
        if start and key not in _NEEDED:
            yield (*start, key)
        yield from _paths(each, (*start, key))


def _without(case: Case, path: _Path) -> Case:
    smaller = copy.deepcopy(case)
    place: Any = smaller
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return smaller
