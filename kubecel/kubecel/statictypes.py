"""Static types of CEL, their texts, and the unification by which overloads are resolved.

A checked expression is refused with the texts of cel-go, so types have the two texts that cel-go gives them:
one in checker errors, one in the error about the type of the whole expression.

Nested variables double the text of a type, as `{m: m}` does. So equal types are one object, a type is a
graph, and every walk comes to a part of it once. The meter counts each part.

Source: cel-go checker/types.go, checker/format.go, common/types/types.go.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any, Self
from weakref import WeakValueDictionary

from kubecel.effort import CostLimitError, meter

# Types in types, and the characters of a type in an error.
MAX_TYPE_DEPTH, MAX_TYPE_TEXT = 100, 4096
_LOCK = Lock()


class StaticType:
    """A kind, a name and parameters: `list(int)` is ("list", "list", (INT,)). Equal types are one object."""

    __slots__ = ("__weakref__", "depth", "ground", "kind", "name", "parameters")
    kind: str
    name: str
    parameters: "tuple[StaticType, ...]"
    # Whether no type parameter is in it.
    ground: bool
    depth: int

    def __new__(cls, kind: str, name: str, parameters: "tuple[StaticType, ...]" = ()) -> Self:
        """Return the one object of a type. Raises CostLimitError if it is too deep."""
        meter.spend(3)
        key = kind, name, parameters
        with _LOCK:
            known: Self | None = _TYPES.get(key)
            if known is None:
                known = _TYPES[key] = object.__new__(cls)
                known.kind, known.name, known.parameters = key
                known.ground = kind != "param" and all(inner.ground for inner in parameters)
                known.depth = 1 + max((inner.depth for inner in parameters), default=0)
        if known.depth > MAX_TYPE_DEPTH:
            raise CostLimitError
        return known


_TYPES: WeakValueDictionary[tuple[str, str, tuple[StaticType, ...]], Any] = WeakValueDictionary()


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


class Substitutions:
    """The types of type parameters: those that are settled, and those of one attempt to assign types."""

    __slots__ = ("agreed", "settled", "tried")

    def __init__(self, settled: dict[str, StaticType] | None = None) -> None:
        """Take settled ones."""
        self.settled = {} if settled is None else settled
        self.tried: dict[str, StaticType] = {}
        # Pairs of types that this attempt has compared.
        self.agreed: set[tuple[StaticType, StaticType]] = set()

    def type_of_parameter(self, name: str) -> StaticType | None:
        """Return the type of a parameter, if it has one."""
        return self.tried.get(name) or self.settled.get(name)

    def end(self, *, settle: bool) -> bool:
        """End the attempt, and return whether its types are settled."""
        if self.tried:
            if settle:
                self.settled |= self.tried
            self.tried = {}
        self.agreed.clear()
        return settle


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


def is_dynamic(static_type: StaticType) -> bool:
    """Return whether a type is known only at run time."""
    return static_type.kind in _DYNAMIC


def without_optional(static_type: StaticType) -> tuple[StaticType, bool]:
    """Return the type of an optional's value, and whether the type is optional."""
    if static_type.name == "optional_type" and static_type.kind == "opaque":
        return (static_type.parameters[0] if static_type.parameters else DYN), True
    return static_type, False


def checker_text(static_type: StaticType) -> str:
    """Return the text of a type in an error of the checker."""
    return _limited_text(static_type, _SHOWN)


def type_text(static_type: StaticType) -> str:
    """Return the text of a type in the error about the type of an expression."""
    return _limited_text(
        static_type, {"param": f"<{static_type.name}>"} if static_type.kind == "param" else {}
    )


def _limited_text(static_type: StaticType, shown: dict[str, str]) -> str:
    """Return the text of a type, which is cut while it is built."""
    texts: list[str] = []
    length = 0
    waiting: list[StaticType | str] = [static_type]
    while waiting and length <= MAX_TYPE_TEXT:
        part = waiting.pop()
        if isinstance(part, str):
            text = part
        else:
            meter.spend(1)
            text = shown.get(part.kind, part.name)
            if part.parameters and part.kind not in shown:
                waiting.append(")")
                for number, inner in enumerate(reversed(part.parameters)):
                    waiting += (", ", inner) if number else (inner,)
                waiting.append("(")
        texts.append(text)
        length += len(text)
    return "".join([*texts, *(("...",) if waiting else ())])


def signature_text(arguments: list[StaticType], *, member: bool) -> str:
    """Return the text of a call's argument types, such as `string.(int)`."""
    texts = [checker_text(argument) for argument in arguments]
    return f"{texts[0]}.({', '.join(texts[1:])})" if member else f"({', '.join(texts)})"


def substituted(known: Substitutions, static_type: StaticType, *, to_dyn: bool = False) -> StaticType:
    """Return a type with its known parameters replaced; the others become dyn if asked."""
    return static_type if static_type.ground else _substituted(known, static_type, to_dyn, {}, 0)


def _substituted(
    known: Substitutions,
    static_type: StaticType,
    to_dyn: bool,
    done: dict[StaticType, StaticType],
    depth: int,
) -> StaticType:
    _bounded(depth)
    result = static_type if static_type.ground else done.get(static_type)
    if result is None:
        if static_type.kind == "param":
            replacement = known.type_of_parameter(static_type.name) or (DYN if to_dyn else None)
            result = static_type
            if replacement is not None:
                result = _substituted(known, replacement, to_dyn, done, depth + 1)
        else:
            parts: tuple[StaticType, ...] = ()
            for inner in static_type.parameters:
                parts += (_substituted(known, inner, to_dyn, done, depth + 1),)
            result = StaticType(static_type.kind, static_type.name, parts)
        done[static_type] = result
    return result


def _bounded(depth: int) -> None:
    """Count a step. Raises CostLimitError if it is too deep."""
    meter.spend(3)
    if depth > MAX_TYPE_DEPTH:
        raise CostLimitError


def assignable(known: Substitutions, first: Sequence[StaticType], second: Sequence[StaticType]) -> bool:
    """Return whether each type is assignable to its counterpart, and settle the parameters for that."""
    if len(first) != len(second):
        return False
    pairs = zip(first, second, strict=True)
    return known.end(settle=all(_assignable(known, a, b, 0) for a, b in pairs))


def most_general(first: StaticType, second: StaticType) -> StaticType:
    """Return the less specific of two assignable types, else the second."""
    return first if _less_specific(first, second) else second


def _assignable(known: Substitutions, first: StaticType, second: StaticType, depth: int) -> bool:
    if first is second and first.ground:
        return True
    _bounded(depth)
    if first.parameters:
        if (first, second) in known.agreed:
            return True
        # If they do not agree, the whole attempt fails.
        known.agreed.add((first, second))
    if second.kind == "param":
        valid, bound = _bind(known, first, second, depth)
        if valid or bound:
            return valid
    if first.kind == "param":
        return _bind(known, second, first, depth)[0]
    kinds = {first.kind, second.kind}
    if kinds & {"dyn", "any", "error"}:
        return True
    if "null_type" in kinds:
        return kinds == {"null_type"} or bool(kinds & _NULLABLE)
    if first.kind == "type":
        return second.kind == "type"
    if not _alike(first, second):
        return False
    for a, b in zip(first.parameters, second.parameters, strict=True):
        if not _assignable(known, a, b, depth + 1):
            return False
    return True


def _alike(first: StaticType, second: StaticType) -> bool:
    """Return whether two types are one, or compound types of one kind, whose parameters decide."""
    compound = first.kind in _COMPOUND and len(first.parameters) == len(second.parameters)
    return first is second or (compound and (first.kind, first.name) == (second.kind, second.name))


def _bind(known: Substitutions, value: StaticType, target: StaticType, depth: int) -> tuple[bool, bool]:
    """Return whether a parameter can be the value, and whether it has a value already."""
    if value is target:
        return True, True
    held = known.type_of_parameter(target.name)
    if held is not None:
        if value is held:
            return True, True
        if _assignable(known, value, held, depth + 1):
            general = most_general(value, held)
            if _independent(known, target, general):
                known.tried[target.name] = general
            return True, True
        return False, True
    if _independent(known, target, value):
        known.tried[target.name] = value
        return True, False
    return False, False


def _independent(known: Substitutions, target: StaticType, within: StaticType) -> bool:
    """Return whether a parameter does not occur in a type."""
    waiting, seen = [within], {within}
    while waiting:
        static_type = waiting.pop()
        meter.spend(1)
        if static_type is target:
            return False
        held = known.type_of_parameter(static_type.name) if static_type.kind == "param" else None
        inner = {*static_type.parameters, *(() if held is None else (held,))} - seen
        seen |= inner
        waiting += [nested for nested in inner if not nested.ground]
    return True


def _less_specific(first: StaticType, second: StaticType) -> bool:
    waiting = [(first, second)]
    seen = set(waiting)
    while waiting:
        left, right = waiting.pop()
        meter.spend(1)
        if left is right or is_dynamic(left) or left.kind == "param" or left.kind == right.kind == "type":
            continue
        if is_dynamic(right) or right.kind == "param" or not _alike(left, right):
            return False
        pairs = set(zip(left.parameters, right.parameters, strict=True)) - seen
        seen |= pairs
        waiting += pairs
    return True
