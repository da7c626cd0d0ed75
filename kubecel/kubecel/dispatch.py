"""The functions behind the declared overloads, and the choice between them by the values of a call.

Source: cel-go common/decls/decls.go (guards and dynamic dispatch).
"""

from functools import cache, partial

from kubecel import (
    addresses,
    conversions,
    formatting,
    listcalls,
    namedformats,
    operators,
    patterns,
    quantities,
    stringcalls,
    times,
    versions,
)
from kubecel.declarations import Overload, functions
from kubecel.effort import WORST, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.statictypes import StaticType
from kubecel.values import NOTHING, Duration, Function, Optional, Uint, index_of, matches_type, type_name


def _same(value: object) -> object:
    return value


def _is_readable(read: Function) -> Function:
    """Return the function that tells whether another one reads its arguments without an error."""

    def readable(*given: object) -> bool:
        try:
            read(*given)
        except SelectorRuntimeError:
            return False
        return True

    return readable


# Functions that look at their arguments themselves.
_SINGLE: dict[str, Function] = {
    "!_": operators.logical_not,
    "-_": operators.negate,
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
    "_<_": operators.less,
    "_<=_": operators.less_equal,
    "_>_": operators.greater,
    "_>=_": operators.greater_equal,
    "@in": operators.member_of,
    "size": operators.size,
    "type": operators.type_value,
    "dyn": _same,
    "matches": patterns.found_in,
    "contains": stringcalls.contains,
    "startsWith": stringcalls.starts_with,
    "endsWith": stringcalls.ends_with,
    "sort": listcalls.ordered,
    "@sortByAssociatedKeys": listcalls.ordered_by,
}
CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_CONVERTED: dict[str, Function] = {
    "bool": conversions.to_bool,
    "bytes": conversions.to_bytes,
    "double": conversions.to_double,
    "duration": conversions.to_duration,
    "int": conversions.to_int,
    "string": conversions.to_string,
    "timestamp": conversions.to_timestamp,
    "uint": conversions.to_uint,
}
_ZEROS: dict[str, object] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_LISTS: dict[str, Function] = {
    "isSorted": listcalls.is_sorted,
    "max": listcalls.greatest,
    "min": listcalls.least,
}
_BY_OVERLOAD: dict[str, Function] = {
    "string_to_url": addresses.url,
    "url_get_scheme": lambda value: value.parts.scheme,
    "url_get_host": lambda value: value.parts.host,
    "url_get_hostname": lambda value: value.parts.hostname(),
    "url_get_port": lambda value: value.parts.port(),
    "url_get_escaped_path": lambda value: value.parts.escaped_path(),
    "url_get_query": addresses.url_query,
    "is_url_string": _is_readable(addresses.url),
    "string_find_string": patterns.first_match,
    "string_find_all_string": patterns.find_all,
    "string_find_all_string_int": patterns.find_all,
    "list_a_index_of_int": index_of,
    "list_a_last_index_of_int": partial(index_of, backwards=True),
    "list_includes_dyn_dyn": listcalls.includes,
    "dra_includes_dyn_dyn": listcalls.includes_36,
    "optional_of": Optional,
    "optional_ofNonZeroValue": listcalls.optional_non_zero,
    "optional_none": lambda: NOTHING,
    "optional_value": listcalls.optional_value,
    "optional_hasValue": lambda value: value.present,
    "list_last": lambda items: Optional(items[-1]) if items else NOTHING,
    "list_first": lambda items: Optional(items[0]) if items else NOTHING,
    "optional_unwrap": listcalls.unwrapped,
    "optional_unwrapOpt": listcalls.unwrapped,
    "string_to_quantity": quantities.quantity,
    "is_quantity_string": _is_readable(quantities.quantity),
    "quantity_sign": quantities.sign,
    "quantity_is_greater_than": quantities.greater,
    "quantity_is_less_than": quantities.less,
    "quantity_compare_to": quantities.compare,
    "quantity_get_float": quantities.approximate,
    "quantity_get_int": quantities.as_integer,
    "quantity_is_integer": quantities.is_integer,
    "quantity_add": quantities.add,
    "quantity_add_int": quantities.add,
    "quantity_sub": quantities.subtract,
    "quantity_sub_int": quantities.subtract,
    "string_char_at_int": stringcalls.char_at,
    "string_lower_ascii": stringcalls.lower_ascii,
    "string_upper_ascii": stringcalls.upper_ascii,
    "string_replace_string_string": stringcalls.replace,
    "string_replace_string_string_int": stringcalls.replace,
    "string_split_string": stringcalls.split,
    "string_split_string_int": stringcalls.split,
    "string_substring_int": stringcalls.substring,
    "string_substring_int_int": stringcalls.substring,
    "string_trim": stringcalls.trim,
    "string_format": formatting.formatted,
    "strings_quote": stringcalls.quote,
    "list_join": stringcalls.join,
    "list_join_string": stringcalls.join,
    "list_sets_contains_list": listcalls.set_contains,
    "list_sets_equivalent_list": listcalls.set_equivalent,
    "list_sets_intersects_list": listcalls.set_intersects,
    "string_to_ip": addresses.ip,
    "ip_family": lambda value: value.address.version,
    "ip_is_canonical": addresses.is_canonical,
    "ip_is_unspecified": lambda value: value.address.is_unspecified,
    "ip_is_loopback": lambda value: value.address.is_loopback,
    "ip_is_link_local_multicast": addresses.is_link_local_multicast,
    "ip_is_link_local_unicast": lambda value: value.address.is_link_local,
    "ip_is_global_unicast": addresses.is_global_unicast,
    "is_ip": _is_readable(addresses.ip),
    "ip_to_string": str,
    "string_to_cidr": addresses.cidr,
    "cidr_contains_ip_string": addresses.contains_ip,
    "cidr_contains_ip_ip": addresses.contains_ip,
    "cidr_contains_cidr_string": addresses.contains_cidr,
    "cidr_contains_cidr": addresses.contains_cidr,
    "cidr_ip": lambda value: addresses.IPValue(value.address),
    "cidr_prefix_length": lambda value: value.bits,
    "cidr_masked": addresses.masked,
    "is_cidr": _is_readable(addresses.cidr),
    "cidr_to_string": str,
    "format-validate": namedformats.validate,
    "format-named": namedformats.format_of_name,
    "@mapInsert_key_value": listcalls.inserted,
    "@mapInsert_map": listcalls.merged,
    "string_to_semver": versions.version,
    "string_bool_to_semver": versions.version,
    "is_semver_string": _is_readable(versions.version),
    "is_semver_string_bool": _is_readable(versions.version),
    "semver_is_greater_than": lambda first, second: versions.compare(first, second) > 0,
    "semver_is_less_than": lambda first, second: versions.compare(first, second) < 0,
    "semver_compare_to": versions.compare,
    "semver_major": lambda value: value.signed(0),
    "semver_minor": lambda value: value.signed(1),
    "semver_patch": lambda value: value.signed(2),
    "list_slice": listcalls.sliced,
    "list_flatten": listcalls.flattened,
    "list_flatten_int": listcalls.flattened,
    "list_reverse": listcalls.turned,
    "list_distinct": listcalls.distinct,
}
_OF_MINOR: dict[str, tuple[Function, Function]] = {
    "string_index_of_string": (stringcalls.index_of_36, stringcalls.index_of_37),
    "string_index_of_string_int": (stringcalls.index_of_36, stringcalls.index_of_37),
    "string_last_index_of_string": (stringcalls.last_index_of_36, stringcalls.last_index_of_37),
    "string_last_index_of_string_int": (stringcalls.last_index_of_36, stringcalls.last_index_of_37),
    "lists_range": (listcalls.number_range_36, listcalls.number_range_37),
}
# Overloads that take any value and refuse it themselves.
_UNGUARDED = frozenset({"flatten"})


def _measured(name: str, function: Function) -> Function:
    """Return a function that counts its worst case before it starts."""
    worst = WORST.get(name)
    if worst is None:
        return function

    def run(*values: object) -> object:
        meter.spend(worst(*values))
        return function(*values)

    return run


def _implementation(function: str, overload: Overload, minor: int) -> Function | None:
    """Return the function of an overload; those of the authorizer have none, because no value is one."""
    implementation = _plain(function, overload, minor)
    return _measured(function, implementation) if implementation is not None else None


def _plain(function: str, overload: Overload, minor: int) -> Function | None:
    identifier = overload.identifier
    by_overload = _BY_OVERLOAD.get(identifier)
    if by_overload is not None:
        return by_overload
    by_minor = _OF_MINOR.get(identifier)
    if by_minor is not None:
        return by_minor[minor >= 37]
    if function in _CONVERTED:
        return _CONVERTED[function]
    if function in times.PARTS:
        return partial(times.part, function, minor)
    if function in _LISTS:
        return _LISTS[function]
    if function == "sum":
        return partial(listcalls.summed, _ZEROS[identifier.split("_")[1]])
    if function.startswith("format."):
        value = namedformats.NAMED[function.removeprefix("format.")]
        return lambda: value
    return None


_EXACT: dict[str, type] = {
    "string": str,
    "int": int,
    "bool": bool,
    "double": float,
    "bytes": bytes,
    "kubernetes.Quantity": quantities.QuantityValue,
    "kubernetes.Semver": versions.VersionValue,
    "net.IP": addresses.IPValue,
    "net.CIDR": addresses.CIDRValue,
}


def _fits(types: tuple[StaticType, ...], values: tuple[object, ...]) -> bool:
    return all(matches_type(expected, value) for expected, value in zip(types, values, strict=True))


def _no_overload(function: str, values: tuple[object, ...]) -> SelectorRuntimeError:
    return SelectorRuntimeError(f"no such overload: {function}({', '.join(map(type_name, values))})")


def _guarded(function: str, overload: Overload, implementation: Function | None) -> Function:
    """Return a function that refuses values of other types than an overload declares."""
    exact = tuple(_EXACT.get(argument.name) for argument in overload.arguments)
    known = all(argument_type is not None for argument_type in exact)

    def one(value: object) -> object:
        if implementation is None or type(value) is not exact[0]:
            raise _no_overload(function, (value,))
        return implementation(value)

    def two(first: object, second: object) -> object:
        if implementation is None or type(first) is not exact[0] or type(second) is not exact[1]:
            raise _no_overload(function, (first, second))
        return implementation(first, second)

    def several(*values: object) -> object:
        if implementation is None or not _fits(overload.arguments, values):
            raise _no_overload(function, values)
        return implementation(*values)

    if known and len(exact) == 1:
        return one
    return two if known and len(exact) == 2 else several


@cache
def ends_at_first_error(function: str, overload: str, minor: int) -> bool:
    """Return whether the first argument that fails ends a call at once: if values choose the overload."""
    several = function not in _SINGLE and len(functions(minor)[function]) > 1
    return function == "format" or (several and not overload)


@cache
def dispatcher(function: str, identifier: str, minor: int) -> Function:
    """Return the function of a call: of its one overload, or of the overload that its values choose."""
    single = _SINGLE.get(function)
    if single is not None:
        return _measured(function, single)
    declared = functions(minor)[function]
    if function in _UNGUARDED:
        chosen = next(overload for overload in declared if identifier in {"", overload.identifier})
        unguarded = _implementation(function, chosen, minor)
        assert unguarded is not None
        return unguarded
    options = [(overload, _implementation(function, overload, minor)) for overload in declared]
    for overload, implementation in options:
        if overload.identifier == identifier or len(options) == 1:
            return _guarded(function, overload, implementation)

    def chosen_by_values(*values: object) -> object:
        for overload, implementation in options:
            if (
                len(overload.arguments) == len(values)
                and implementation
                and _fits(overload.arguments, values)
            ):
                return implementation(*values)
        raise _no_overload(function, values)

    return chosen_by_values
