"""The function `format` of strings, at run time and its check at compile time.

Source: cel-go ext/formatting.go (version 2 of the library, locale en_US).
"""

from collections.abc import Callable
from operator import itemgetter

from kubecel import statictypes as types
from kubecel.conversions import to_string
from kubecel.effort import COPIED, READ, SEARCHED, CostLimitError, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.goquote import go_quote
from kubecel.gotext import Written, joined, special, written
from kubecel.nodes import CallNode, ExpressionNode, ListNode, Literal, MapNode, Problems
from kubecel.statictypes import StaticType
from kubecel.values import Duration, Map, Timestamp, TypeValue, Uint, type_name

_DEFAULT_PRECISION = 6
_MAX_PRECISION = 10_000
# Doubles and precisions that take no long arithmetic.
_LARGE, _SHORT = 1e15, 17
# The effort of a clause, and of one with many digits; the comparisons of a key while a map is sorted.
_CLAUSE, _LONG_CLAUSE, _SORTED = 5, 60, 20
_STRING = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations,"
    " and timestamps, was given "
)
_CLAUSES: dict[str, tuple[str, frozenset[str]]] = {
    "d": ("decimal clause can only be used on integers, was given ", frozenset({"int", "uint"})),
    "f": ("fixed-point clause can only be used on doubles, was given ", frozenset({"double", "string"})),
    "e": ("scientific clause can only be used on doubles, was given ", frozenset({"double", "string"})),
    "b": (
        "only integers and bools can be formatted as binary, was given ",
        frozenset({"int", "uint", "bool"}),
    ),
    "x": (
        "only integers, byte buffers, and strings can be formatted as hex, was given ",
        frozenset({"int", "uint", "string", "bytes"}),
    ),
    "o": ("octal clause can only be used on integers, was given ", frozenset({"int", "uint"})),
}
_SHOWABLE = frozenset(
    {
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
        "timestamp",
        "duration",
        "type",
        "null_type",
    }
)
_INFINITIES = {"NaN", "Infinity", "-Infinity"}
Writer = Callable[[str, int | None, int], str]


class _FormatError(SelectorRuntimeError):
    """An error of a clause; at compile time it has the node that it is about."""

    def __init__(self, message: str, node: ExpressionNode | None = None) -> None:
        super().__init__(message)
        self.node = node


def formatted(text: str, arguments: list[object]) -> str:
    """Return a text with its clauses replaced by arguments."""

    def write(verb: str, precision: int | None, index: int) -> str:
        return _written(verb, precision, arguments[index])

    return _walked(text, len(arguments), write)[0]


def _walked(text: str, count: int, write: Writer) -> tuple[str, int]:
    """Return the text with each clause replaced, and the number of clauses."""
    parts: list[str] = []
    place = index = length = 0
    while place < len(text):
        mark = text.find("%", place)
        if mark < 0:
            mark = len(text)
        parts.append(text[place:mark])
        length += mark - place + 1
        place = mark + 2
        if mark >= len(text):
            break
        if text[mark + 1 : mark + 2] == "%":
            parts.append("%")
            continue
        if index >= count:
            raise SelectorRuntimeError(f"index {index} out of range")
        if mark + 1 >= len(text):
            raise SelectorRuntimeError("unexpected end of string")
        verb, precision, place = _clause(text, mark + 1)
        meter.spend(_CLAUSE)
        try:
            parts.append(write(verb, precision, index))
        except _FormatError as error:
            raise _FormatError(f"error during formatting: {error}", error.node) from None
        except SelectorRuntimeError as error:
            raise SelectorRuntimeError(f"error during formatting: {error}") from None
        length += len(parts[-1])
        index += 1
    meter.make_text(length)
    return "".join(parts), index


def _clause(text: str, place: int) -> tuple[str, int | None, int]:
    prefix = "could not parse formatting clause: "
    precision: int | None = None
    if text[place] == ".":
        end = place + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        digits = text[place + 1 : end]
        if end >= len(text):
            raise SelectorRuntimeError(
                f"{prefix}error while parsing precision: could not find end of precision specifier"
            )
        if not digits or len(digits) > 18:
            reason = "value out of range" if digits else "invalid syntax"
            raise SelectorRuntimeError(
                f"{prefix}error while parsing precision: error while converting precision to integer:"
                f' strconv.Atoi: parsing "{digits}": {reason}'
            )
        precision, place = int(digits), end
    verb = text[place]
    if (verb != "s" and verb.lower() not in _CLAUSES) or verb in "DFEBO":
        shown = chr(verb.encode("utf-8", "surrogatepass")[0])
        raise SelectorRuntimeError(f'{prefix}unrecognized formatting clause "{shown}"')
    return verb, precision, place + 1


def _written(verb: str, precision: int | None, value: object) -> str:
    if verb == "s":
        return _string(value)
    meter.make_text((precision or 0) + (2 * len(value) if isinstance(value, (str, bytes)) else 0))
    message, allowed = _CLAUSES[verb.lower()]
    name = type_name(value)
    if name not in allowed or (name == "string" and verb in "fe" and value not in _INFINITIES):
        raise _FormatError(message + name)
    if verb in "fe":
        number = float(str(value)) if isinstance(value, str) else float(value)  # type: ignore[arg-type]
        return _number(verb, _DEFAULT_PRECISION if precision is None else precision, number)
    if isinstance(value, (str, bytes)):
        meter.spend(2 * len(value) // SEARCHED)
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return data.hex().upper() if verb == "X" else data.hex()
    return f"{int(value):{verb}}"  # type: ignore[call-overload]


def _number(verb: str, precision: int, number: float) -> str:
    if precision > _MAX_PRECISION:
        raise CostLimitError
    if abs(number) > _LARGE or precision > _SHORT:
        meter.spend(_LONG_CLAUSE)
    # Upstream's printer shows no sign of a zero.
    number = number or 0.0
    text = {"NaN": "NaN", "+Inf": "\u221e", "-Inf": "-\u221e"}.get(special(number))
    if verb == "f":
        return text or f"{number:,.{precision}f}"
    if text is None:
        mantissa, _, exponent = f"{number:.6e}".partition("e")
        sign = "-" if exponent[0] == "-" else ""
        text = f"{mantissa}\xd710{_raised(sign + exponent[1:])}"
    # Upstream passes the precision as a width.
    return text.rjust(precision)


def _raised(exponent: str) -> str:
    return exponent.translate(
        str.maketrans("-0123456789", "\u207b\u2070\xb9\xb2\xb3\u2074\u2075\u2076\u2077\u2078\u2079")
    )


def _string(value: object) -> str:
    if isinstance(value, (list, Map)):
        return written(value, _parts)
    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, (bool, int, float, str, bytes, Uint, Duration, Timestamp)):
        return str(to_string(value))
    raise _FormatError(_STRING + type_name(value))


def _map_parts(value: Map) -> list[object]:
    pairs: list[tuple[str, object]] = []
    for key, element in value.entries.values():
        if isinstance(key, float) or not isinstance(key, (str, bool, int)):
            raise SelectorRuntimeError(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((str(_parts(key)), element))
        meter.spend(1 + len(pairs[-1][0]) // COPIED * _SORTED)
    pairs.sort(key=itemgetter(0))
    return joined("{", ((Written(f"{key}:"), element) for key, element in pairs), "}")


def _parts(value: object) -> str | list[object]:
    """Return an element of a list or a map, as its text or its parts."""
    if isinstance(value, list):
        return joined("[", ((item,) for item in value), "]")
    if isinstance(value, Map):
        return _map_parts(value)
    if isinstance(value, str):
        meter.spend(len(value) // READ)
        return go_quote(value)
    if isinstance(value, bytes):
        meter.spend(len(value) // READ)
        return f"b{go_quote(str(to_string(value)))}"
    if isinstance(value, float):
        named = special(value)
        return go_quote(named) if named else f"{value:.6f}"
    if isinstance(value, Duration):
        return f'duration("{to_string(value)}")'
    if isinstance(value, Timestamp):
        return f'timestamp("{to_string(value)}")'
    if value is None or isinstance(value, (bool, int, TypeValue)):
        return _string(value)
    raise SelectorRuntimeError(f"no formatting function for {type_name(value)}")


def check_format(node: CallNode, problems: Problems) -> None:
    """Record what is wrong with the call of a constant format and a list of arguments."""
    target, arguments = node.target, node.arguments
    if not isinstance(target, Literal) or not isinstance(target.value, str):
        return
    if len(arguments) != 1 or not isinstance(arguments[0], ListNode):
        return
    elements = arguments[0].elements

    def write(verb: str, _: int | None, index: int) -> str:
        _check(verb, elements[index])
        return ""

    try:
        requested = _walked(target.value, len(elements), write)[1]
    except _FormatError as error:
        problems.add((error.node or node).offset, str(error))
    except SelectorRuntimeError as error:
        problems.add(node.offset, str(error))
    else:
        if len(elements) > requested:
            problems.add(
                node.offset,
                f"too many arguments supplied to string.format (expected {requested}, got {len(elements)})",
            )


def _check(verb: str, node: ExpressionNode) -> None:
    if verb == "s":
        unfit = _unfit(node)
        if unfit is not None:
            raise _FormatError(_STRING + unfit.type.name, unfit)
        return
    message, allowed = _CLAUSES[verb.lower()]
    if not _is_one_of(node.type, allowed):
        raise _FormatError(message + node.type.name, node)


def _is_one_of(static_type: StaticType, allowed: frozenset[str]) -> bool:
    return static_type == types.DYN or static_type.kind in allowed


def _unfit(node: ExpressionNode) -> ExpressionNode | None:
    """Return the first part of a literal that has no text."""
    if not _is_one_of(node.type, _SHOWABLE):
        return node
    parts: list[ExpressionNode] = []
    if isinstance(node, ListNode):
        parts = node.elements
    if isinstance(node, MapNode):
        parts = [child for entry in node.entries for child in (entry.key, entry.value)]
    return next((unfit for child in parts if (unfit := _unfit(child)) is not None), None)
