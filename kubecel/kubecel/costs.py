"""Costs of calls at run time, as cel-go and Kubernetes' libraries charge them.

Source: cel-go interpreter/runtimecost.go, ext/lists.go, ext/sets.go;
k8s.io/apiserver/pkg/cel/library/cost.go.
"""

import math
from collections.abc import Callable

from kubecel.effort import COST_LIMIT, SEARCHED, AbortedError, CostLimitError, meter
from kubecel.values import Map, Opaque, size_of, type_name

Cost = Callable[[list[object], object], int]

_LIST, _CALL = 10, 1
_ONE = frozenset(
    [
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
    ]
)
_TRAVERSALS = frozenset(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"])
_ONE_PASS = frozenset(
    [
        "url",
        "lowerAscii",
        "upperAscii",
        "substring",
        "trim",
        "cidr",
        "isIP",
        "isCIDR",
        "ip",
        "quantity",
        "isQuantity",
        "semver",
        "isSemver",
    ]
)
_TWO_PASSES = frozenset({"replace", "split", "ip.isCanonical"})
_SMALLER = frozenset(
    {"not_equals", "equals"}
    | {
        f"{word}_{kind}"
        for word in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    }
)


def call_cost(function: str, overload: str, minor: int) -> int | Cost:
    """Return the cost of a call: a number, or a function of the arguments and the result.

    `overload` is empty if only the values decide which one is called.
    """
    by_overload = _OVERLOADS.get(overload)
    if by_overload is not None:
        return by_overload
    if overload.endswith("_sort"):
        return lambda args, _: _self_comparison(args[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return lambda args, _: _self_comparison(args[1])
    if function in _ONE or overload == "cidr_ip":
        return 1
    if function in _TRAVERSALS or (function == "includes" and minor >= 37):
        return lambda args, _: _traversal(args[0])
    if function in _ONE_PASS:
        return lambda args, _: _text_cost(args[0])
    if function in _TWO_PASSES:
        return lambda args, _: math.ceil(_shallow_size(args[0]) * 2 * 0.1)
    by_function = _FUNCTIONS.get(function)
    if by_function is not None:
        return by_function
    return _built_in(overload, minor)


def _built_in(overload: str, minor: int) -> int | Cost:
    if overload in {"starts_with_string", "ends_with_string"}:
        place = 1 if minor >= 37 else 0
        return lambda args, _: _text_cost(args[place])
    if overload in {"string_to_bytes", "bytes_to_string", "strings_quote", "string_format"}:
        return lambda args, _: _text_cost(args[0])
    if overload == "in_list":
        return lambda args, _: size_of(args[1])
    if overload in _SMALLER:
        return lambda args, _: math.ceil(min(size_of(args[0]), size_of(args[1])) * 0.1)
    if overload in {"add_string", "add_bytes"}:
        return lambda args, _: math.ceil((size_of(args[0]) + size_of(args[1])) * 0.1)
    if overload == "matches_string" or (overload == "matches" and minor >= 37):
        return _regular
    if overload == "contains_string":
        return lambda args, _: _text_cost(args[0]) * _text_cost(args[1])
    return 1


def equality_cost(first: object, second: object) -> int:
    """Return the cost of ==."""
    if isinstance(first, Opaque):
        return 1
    return math.ceil(min(size_of(first), size_of(second)) * 0.1)


def _shallow_size(value: object) -> int:
    # Kubernetes' libraries do not look into an optional value.
    return size_of(value) if type_name_or_error(value) != "optional_type" else 1


def type_name_or_error(value: object) -> str:
    """Return the type of a value; an error in place of an argument has none."""
    return "" if isinstance(value, Exception) else type_name(value)


def _text_cost(value: object) -> int:
    return math.ceil(_shallow_size(value) * 0.1)


def _regular(args: list[object], _: object) -> int:
    return math.ceil((1.0 + _shallow_size(args[0])) * 0.1) * math.ceil(_shallow_size(args[1]) * 0.25)


def _validation(args: list[object], _: object) -> int:
    pattern = getattr(args[0], "pattern_size", None)
    if pattern is None:
        return 1
    return math.ceil((1.0 + _shallow_size(args[1])) * 0.1) * math.ceil(int(pattern) * 0.25)


def _in_network(args: list[object]) -> int:
    return math.ceil(_shallow_size(args[0]) * 2 * 0.1)


def _network_in_network(args: list[object]) -> int:
    return _in_network(args) + math.ceil(_shallow_size(args[0]) * 0.1) + 1


def _traversal(value: object) -> int:
    """Return the cost of walking through a value once."""
    total = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        meter.spend(1)
        if total > COST_LIMIT:
            raise CostLimitError
        if isinstance(item, str):
            meter.spend(len(item) // SEARCHED)
            total += int(len(item.encode("utf-8", "surrogatepass")) * 0.1)
        elif isinstance(item, bytes):
            total += int(len(item) * 0.1)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, Map):
            for key, element in item.entries.values():
                waiting += (key, element)
        else:
            total += 1
    return total


def _allocating(factor: float, size: int) -> int:
    cost = int(size * factor) + _CALL + _LIST
    return cost if factor >= 0 else COST_LIMIT + 1


def _flattened(args: list[object], _: object) -> int:
    depth = float(args[1]) if len(args) == 2 else 1.0  # type: ignore[arg-type]
    return _allocating(depth, size_of(args[0]))


# Names of Go's types that are no lists, and the first method that they lack.
_NO_LISTS = {
    "bool": ("types.Bool", "Add"),
    "null_type": ("types.Null", "Add"),
    "int": ("types.Int", "Contains"),
    "uint": ("types.Uint", "Contains"),
    "double": ("types.Double", "Contains"),
    "string": ("types.String", "Contains"),
    "bytes": ("types.Bytes", "Contains"),
    "kubernetes.Quantity": ("cel.Quantity", "Contains"),
    "kubernetes.Semver": ("cel.Semver", "Add"),
    "google.protobuf.Duration": ("types.Duration", "Contains"),
    "google.protobuf.Timestamp": ("types.Timestamp", "Contains"),
    "map": ("*types.baseMap", "Add"),
    "optional_type": ("*types.Optional", "Add"),
}


def _self_comparison(value: object) -> int:
    if not isinstance(value, list):
        # Upstream takes the value for a list, and its program ends.
        name, missing = _NO_LISTS.get(type_name_or_error(value), ("*types.Err", "Add"))
        raise AbortedError(
            f"internal error: interface conversion: {name} is not traits.Lister: missing method {missing}"
        )
    size = size_of(value)
    factor = 2.0
    if value and isinstance(value[0], (str, bytes)):
        factor += 0.1
    return _allocating(factor if size else 2.0, size * size)


def _product(factor: int) -> Cost:
    return lambda args, _: _CALL + size_of(args[0]) * size_of(args[1]) * factor


_OVERLOADS: dict[str, Cost] = {
    "cidr_contains_ip_string": lambda args, _: _in_network(args) + _text_cost(args[1]),
    "cidr_contains_ip_ip": lambda args, _: _in_network(args),
    "cidr_contains_cidr_string": lambda args, _: _network_in_network(args) + _text_cost(args[1]),
    "cidr_contains_cidr": lambda args, _: _network_in_network(args),
    "list_slice": lambda _, result: _allocating(1, size_of(result)),
    "lists_range": lambda _, result: _allocating(1, size_of(result)),
    "list_reverse": lambda _, result: _allocating(1, size_of(result)),
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "list_distinct": lambda args, _: _self_comparison(args[0]),
    "list_sets_contains_list": _product(1),
    "list_sets_intersects_list": _product(1),
    "list_sets_equivalent_list": _product(2),
}
_FUNCTIONS: dict[str, Cost] = {
    "join": lambda _, result: math.ceil(_shallow_size(result) * 2 * 0.1),
    "find": _regular,
    "findAll": _regular,
    "validate": _validation,
    # Only values decide which overload is called, so the text is not charged for.
    "containsIP": lambda args, _: _in_network(args),
    "containsCIDR": lambda args, _: _network_in_network(args),
}
