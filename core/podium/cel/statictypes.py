"""Static types of CEL, their texts, and the unification by which overloads are resolved.

A checked expression is refused with the texts of cel-go, so types have the two texts that cel-go gives them:
one in checker errors, one in the error about the type of the whole expression.

Source: cel-go checker/types.go, checker/format.go, common/types/types.go.
"""

from typing import NamedTuple


class StaticType(NamedTuple):
    """A kind, a name and parameters: `list(int)` is ("list", "list", (INT,))."""

    kind: str
    name: str
    parameters: "tuple[StaticType, ...]" = ()


def _simple(name: str, kind: str = "") -> StaticType:
    return StaticType(kind or name, name)


DYN, ERROR, BOOL, INT, UINT = (
    _simple("dyn"),
    _simple("error"),
    _simple("bool"),
    _simple("int"),
    _simple("uint"),
)
DOUBLE, STRING, BYTES, NULL = _simple("double"), _simple("string"), _simple("bytes"), _simple("null_type")
ANY = _simple("google.protobuf.Any", "any")
DURATION = _simple("google.protobuf.Duration", "duration")
TIMESTAMP = _simple("google.protobuf.Timestamp", "timestamp")
TYPE = _simple("type")
IP, CIDR = _simple("net.IP", "opaque"), _simple("net.CIDR", "opaque")
QUANTITY, SEMVER = _simple("kubernetes.Quantity", "struct"), _simple("kubernetes.Semver", "struct")
URL, NAMED_FORMAT = _simple("kubernetes.URL", "struct"), _simple("kubernetes.NamedFormat", "struct")
DEVICE = _simple("kubernetes.DRADevice", "struct")

_SHOWN = {
    "any": "any",
    "duration": "duration",
    "timestamp": "timestamp",
    "error": "!error!",
    "null_type": "null",
}
_NULLABLE = frozenset({"opaque", "struct", "any", "duration", "timestamp"})
_DYNAMIC = frozenset({"dyn", "any"})
_COMPOUND = frozenset({"opaque", "list", "map"})

Substitutions = dict[str, StaticType]


def list_of(element: StaticType) -> StaticType:
    """Return the type of lists of an element."""
    return StaticType("list", "list", (element,))


def map_of(key: StaticType, value: StaticType) -> StaticType:
    """Return the type of maps."""
    return StaticType("map", "map", (key, value))


def optional_of(value: StaticType) -> StaticType:
    """Return the type of optional values."""
    return StaticType("opaque", "optional_type", (value,))


def type_of(value: StaticType) -> StaticType:
    """Return the type of a type."""
    return StaticType("type", "type", (value,))


def parameter(name: str) -> StaticType:
    """Return a type parameter."""
    return StaticType("param", name)


def is_dynamic(found: StaticType) -> bool:
    """Return whether a type is known only at run time."""
    return found.kind in _DYNAMIC


def without_optional(found: StaticType) -> tuple[StaticType, bool]:
    """Return the type of an optional's value, and whether the type is optional."""
    if found.name == "optional_type" and found.kind == "opaque":
        return (found.parameters[0] if found.parameters else DYN), True
    return found, False


def checker_text(found: StaticType) -> str:
    """Return the text of a type in an error of the checker."""
    shown = _SHOWN.get(found.kind)
    if shown is not None:
        return shown
    if not found.parameters:
        return found.name
    return f"{found.name}({', '.join(map(checker_text, found.parameters))})"


def type_text(found: StaticType) -> str:
    """Return the text of a type in the error about the type of an expression."""
    if found.kind == "param":
        return f"<{found.name}>"
    if not found.parameters:
        return found.name
    return f"{found.name}({', '.join(map(type_text, found.parameters))})"


def signature_text(arguments: list[StaticType], *, member: bool) -> str:
    """Return the text of a call's argument types, such as `string.(int)`."""
    texts = [checker_text(argument) for argument in arguments]
    return f"{texts[0]}.({', '.join(texts[1:])})" if member else f"({', '.join(texts)})"


def substituted(known: Substitutions, found: StaticType, *, to_dyn: bool = False) -> StaticType:
    """Return a type with its known parameters replaced; the others become dyn if asked."""
    while found.kind == "param":
        replacement = known.get(found.name)
        if replacement is None:
            return DYN if to_dyn else found
        found = replacement
    if not found.parameters:
        return found
    return found._replace(parameters=tuple(substituted(known, p, to_dyn=to_dyn) for p in found.parameters))


def assignable(known: Substitutions, first: StaticType, second: StaticType) -> Substitutions | None:
    """Return the substitutions under which one type is assignable to the other; None if there are none."""
    trial = dict(known)
    return trial if _assignable(trial, first, second) else None


def all_assignable(
    known: Substitutions, first: list[StaticType], second: list[StaticType]
) -> Substitutions | None:
    """Return the substitutions under which each type is assignable to its counterpart."""
    trial = dict(known)
    if len(first) != len(second):
        return None
    return trial if all(_assignable(trial, a, b) for a, b in zip(first, second, strict=True)) else None


def most_general(first: StaticType, second: StaticType) -> StaticType:
    """Return the less specific of two assignable types, else the second."""
    return first if _less_specific(first, second) else second


def _assignable(known: Substitutions, first: StaticType, second: StaticType) -> bool:
    if second.kind == "param":
        valid, bound = _bind(known, first, second)
        if valid or bound:
            return valid
    if first.kind == "param":
        return _bind(known, second, first)[0]
    kinds = {first.kind, second.kind}
    if kinds & {"dyn", "any", "error"}:
        return True
    if "null_type" in kinds:
        return kinds == {"null_type"} or bool(kinds & _NULLABLE)
    if first.kind == "type":
        return second.kind == "type"
    if first.kind in _COMPOUND:
        return (
            first[:2] == second[:2]
            and len(first.parameters) == len(second.parameters)
            and all(
                _assignable(known, a, b) for a, b in zip(first.parameters, second.parameters, strict=True)
            )
        )
    return first == second


def _bind(known: Substitutions, value: StaticType, target: StaticType) -> tuple[bool, bool]:
    """Return whether a parameter can be the value, and whether it has a value already."""
    if value == target:
        return True, True
    held = known.get(target.name)
    if held is not None:
        if value == held:
            return True, True
        if _assignable(known, value, held):
            general = most_general(value, held)
            if _independent(known, target, general):
                known[target.name] = general
            return True, True
        return False, True
    if _independent(known, target, value):
        known[target.name] = value
        return True, False
    return False, False


def _independent(known: Substitutions, target: StaticType, within: StaticType) -> bool:
    """Return whether a parameter does not occur in a type."""
    if target == within:
        return False
    if within.kind == "param":
        held = known.get(within.name)
        return held is None or _independent(known, target, held)
    return all(_independent(known, target, p) for p in within.parameters)


def _less_specific(first: StaticType, second: StaticType) -> bool:
    if is_dynamic(first) or first.kind == "param":
        return True
    if is_dynamic(second) or second.kind == "param" or first.kind != second.kind:
        return False
    if first.kind == "type":
        return True
    if first.kind in _COMPOUND:
        return (
            first.name == second.name
            and len(first.parameters) == len(second.parameters)
            and all(_less_specific(a, b) for a, b in zip(first.parameters, second.parameters, strict=True))
        )
    return first == second
