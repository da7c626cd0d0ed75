"""Checks of an expression that has types: literals of durations, times and patterns, and mixed literals.

Source: cel-go cel/validator.go.
"""

from podium.cel.checker import mismatch
from podium.cel.conversions import to_duration, to_timestamp
from podium.cel.effort import meter
from podium.cel.formatting import check_format
from podium.cel.nodes import (
    CallNode,
    ExpressionNode,
    ListNode,
    Literal,
    MapNode,
    Problems,
    SelectorRuntimeError,
    children,
)
from podium.cel.regularsyntax import PatternError, parse_pattern
from podium.cel.statictypes import StaticType, without_optional


def validate(root: ExpressionNode, problems: Problems) -> None:
    """Record what is wrong with literals."""
    _walk(root, problems, {}, exempt=False)


def _walk(
    node: ExpressionNode, problems: Problems, seen: dict[int, tuple[int, int]], *, exempt: bool
) -> None:
    """Check a node and those below it; a node that a macro uses twice has its errors twice."""
    known = seen.get(id(node))
    if known is not None:
        problems.repeat(*known)
        return
    meter.spend(4)
    start = problems.error_count()
    if isinstance(node, CallNode):
        _check_call(node, problems)
        exempt = exempt or node.function == "format"
    elif isinstance(node, ListNode) and not exempt:
        _check_list(node, problems)
    elif isinstance(node, MapNode) and not exempt:
        _check_map(node, problems)
    for child in children(node):
        _walk(child, problems, seen, exempt=exempt)
    seen[id(node)] = start, problems.error_count()


def _check_call(node: CallNode, problems: Problems) -> None:
    if node.function == "format":
        check_format(node, problems)
    if not node.arguments or not isinstance(node.arguments[0], Literal):
        return
    literal = node.arguments[0]
    if node.function in {"duration", "timestamp"}:
        convert = to_duration if node.function == "duration" else to_timestamp
        try:
            convert(literal.value)
        except SelectorRuntimeError:
            problems.add(literal.offset, f"invalid {node.function} argument")
    elif node.function == "matches" and isinstance(literal.value, str):
        try:
            parse_pattern(literal.value)
        except PatternError:
            problems.add(literal.offset, "invalid matches argument")


def _element(node: ExpressionNode, optional: bool) -> StaticType:
    return without_optional(node.type)[0] if optional else node.type


def _check_list(node: ListNode, problems: Problems) -> None:
    expected: StaticType | None = None
    for index, element in enumerate(node.elements):
        found = _element(element, index in node.optional)
        if expected is None:
            expected = found
        elif found != expected:
            problems.add(element.offset, mismatch(expected, found))
            return


def _check_map(node: MapNode, problems: Problems) -> None:
    expected: tuple[StaticType, StaticType] | None = None
    for entry in node.entries:
        found = entry.key.type, _element(entry.value, entry.optional)
        if expected is None:
            expected = found
            continue
        if found[0] != expected[0]:
            problems.add(entry.key.offset, mismatch(expected[0], found[0]))
        if found[1] != expected[1]:
            problems.add(entry.value.offset, mismatch(expected[1], found[1]))
