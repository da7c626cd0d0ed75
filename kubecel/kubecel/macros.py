"""Macros: calls that the parser replaces by comprehensions, presence tests and conditions.

Nodes that a macro creates have the offset of the call, so errors of the checker point to it.

Source: cel-go parser/macro.go, cel/library.go, ext/comprehensions.go, ext/bindings.go, ext/lists.go.
"""

from collections.abc import Callable

from kubecel.nodes import (
    CallNode,
    ExpressionNode,
    Fold,
    ListNode,
    Literal,
    MapEntryNode,
    MapNode,
    NameNode,
    Select,
)

ACCUMULATOR = "@result"
_UNUSED = "#unused"
_SORTED = "@__sortBy_input__"
_TAKEN = frozenset({ACCUMULATOR, "__result__"})


class MacroError(Exception):
    """A macro with arguments that it cannot take."""

    def __init__(self, offset: int, message: str) -> None:
        """Keep the offset of the argument."""
        super().__init__(message)
        self.offset = offset


def expand(
    offset: int, function: str, target: ExpressionNode | None, arguments: list[ExpressionNode]
) -> ExpressionNode | None:
    """Return the node that a call is replaced by; None if it is no macro. Raises MacroError."""
    if target is None:
        return _has(offset, arguments[0]) if function == "has" and len(arguments) == 1 else None
    expander = _MEMBERS.get((function, len(arguments)))
    return expander(offset, target, arguments) if expander is not None else None


def _has(offset: int, argument: ExpressionNode) -> ExpressionNode:
    if not isinstance(argument, Select) or argument.optional:
        raise MacroError(argument.offset, "invalid argument to has() macro")
    return Select(offset, argument.operand, argument.field_name, test=True)


def _variable(argument: ExpressionNode, message: str = "argument must be a simple name") -> str:
    if not isinstance(argument, NameNode):
        raise MacroError(argument.offset, message)
    return argument.name


def _free_variable(argument: ExpressionNode, message: str = "argument must be a simple name") -> str:
    name = _variable(argument, message)
    if name in _TAKEN:
        raise MacroError(argument.offset, "iteration variable overwrites accumulator variable")
    return name


def _variables(arguments: list[ExpressionNode]) -> tuple[str, str]:
    first, second = _variable(arguments[0]), _variable(arguments[1])
    if first == second:
        raise MacroError(arguments[1].offset, f"duplicate variable name: {first}")
    return _free_variable(arguments[0]), _free_variable(arguments[1])


def _one(arguments: list[ExpressionNode]) -> tuple[str, str, list[ExpressionNode]]:
    return _free_variable(arguments[0]), "", arguments[1:]


def _two(arguments: list[ExpressionNode]) -> tuple[str, str, list[ExpressionNode]]:
    return *_variables(arguments), arguments[2:]


_Variables = Callable[[list[ExpressionNode]], tuple[str, str, list[ExpressionNode]]]
_Expander = Callable[[int, ExpressionNode, list[ExpressionNode]], ExpressionNode]


def _all(variables: _Variables) -> _Expander:
    def expanded(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
        first, second, (test,) = variables(arguments)
        condition = CallNode(offset, "@not_strictly_false", None, [NameNode(offset, ACCUMULATOR)])
        step = CallNode(offset, "_&&_", None, [NameNode(offset, ACCUMULATOR), test])
        return _loop(offset, target, (first, second), Literal(offset, value=True), condition, step)

    return expanded


def _exists(variables: _Variables) -> _Expander:
    def expanded(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
        first, second, (test,) = variables(arguments)
        absent = CallNode(offset, "!_", None, [NameNode(offset, ACCUMULATOR)])
        condition = CallNode(offset, "@not_strictly_false", None, [absent])
        step = CallNode(offset, "_||_", None, [NameNode(offset, ACCUMULATOR), test])
        return _loop(offset, target, (first, second), Literal(offset, value=False), condition, step)

    return expanded


def _exists_one(variables: _Variables) -> _Expander:
    def expanded(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
        first, second, (test,) = variables(arguments)
        more = CallNode(offset, "_+_", None, [NameNode(offset, ACCUMULATOR), Literal(offset, 1)])
        step = CallNode(offset, "_?_:_", None, [test, more, NameNode(offset, ACCUMULATOR)])
        fold = _loop(offset, target, (first, second), Literal(offset, 0), Literal(offset, value=True), step)
        fold.result = CallNode(offset, "_==_", None, [NameNode(offset, ACCUMULATOR), Literal(offset, 1)])
        return fold

    return expanded


def _map(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    variable = _free_variable(arguments[0], "argument is not an identifier")
    return _collected(offset, target, (variable, ""), arguments[1:])


def _filter(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    variable = _free_variable(arguments[0], "argument is not an identifier")
    return _collected(offset, target, (variable, ""), [arguments[1], arguments[0]])


def _transform_list(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    first, second, rest = _two(arguments)
    return _collected(offset, target, (first, second), rest)


def _collected(
    offset: int, target: ExpressionNode, names: tuple[str, str], rest: list[ExpressionNode]
) -> ExpressionNode:
    """Return a loop that appends the last of the rest, where the one before it holds."""
    element = ListNode(offset, [rest[-1]], frozenset())
    step: ExpressionNode = CallNode(offset, "_+_", None, [NameNode(offset, ACCUMULATOR), element])
    start = ListNode(offset, [], frozenset())
    return _loop(offset, target, names, start, Literal(offset, value=True), _guarded(offset, step, rest[:-1]))


def _transform_map(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    first, second, rest = _two(arguments)
    inserted = [NameNode(offset, ACCUMULATOR), NameNode(offset, first), rest[-1]]
    return _inserting(offset, target, (first, second), list(inserted), rest)


def _transform_entry(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    first, second, rest = _two(arguments)
    return _inserting(offset, target, (first, second), [NameNode(offset, ACCUMULATOR), rest[-1]], rest)


def _inserting(
    offset: int,
    target: ExpressionNode,
    names: tuple[str, str],
    inserted: list[ExpressionNode],
    rest: list[ExpressionNode],
) -> ExpressionNode:
    step = CallNode(offset, "cel.@mapInsert", None, inserted)
    start = MapNode(offset, list[MapEntryNode]())
    return _loop(offset, target, names, start, Literal(offset, value=True), _guarded(offset, step, rest[:-1]))


def _guarded(offset: int, step: ExpressionNode, tests: list[ExpressionNode]) -> ExpressionNode:
    return CallNode(offset, "_?_:_", None, [tests[0], step, NameNode(offset, ACCUMULATOR)]) if tests else step


def _loop(offset: int, target: ExpressionNode, names: tuple[str, str], *bodies: ExpressionNode) -> Fold:
    """Return a loop with a start, a condition and a step; its result is the accumulator."""
    start, condition, step = bodies
    return Fold(offset, target, *names, ACCUMULATOR, start, condition, step, NameNode(offset, ACCUMULATOR))


def _bound(offset: int, name: str, value: ExpressionNode, result: ExpressionNode) -> ExpressionNode:
    """Return a loop without rounds: its accumulator is a local variable of the result."""
    nothing, never = ListNode(offset, [], frozenset()), Literal(offset, value=False)
    return Fold(offset, nothing, _UNUSED, "", name, value, never, NameNode(offset, name), result)


def _bind(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode | None:
    if not isinstance(target, NameNode) or target.name != "cel":
        return None
    name = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
    return _bound(offset, name, arguments[1], arguments[2])


def _optional_map(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    name = _variable(arguments[0], "optMap() variable name must be a simple identifier")
    value = CallNode(offset, "value", target, [])
    mapped = CallNode(offset, "optional.of", None, [_bound(offset, name, value, arguments[1])])
    return _if_present(offset, target, mapped)


def _optional_flat_map(
    offset: int, target: ExpressionNode, arguments: list[ExpressionNode]
) -> ExpressionNode:
    name = _variable(arguments[0], "optFlatMap() variable name must be a simple identifier")
    value = CallNode(offset, "value", target, [])
    return _if_present(offset, target, _bound(offset, name, value, arguments[1]))


def _if_present(offset: int, target: ExpressionNode, mapped: ExpressionNode) -> ExpressionNode:
    present = CallNode(offset, "hasValue", target, [])
    return CallNode(offset, "_?_:_", None, [present, mapped, CallNode(offset, "optional.none", None, [])])


def _sort_by(offset: int, target: ExpressionNode, arguments: list[ExpressionNode]) -> ExpressionNode:
    if not isinstance(target, (ListNode, Select, NameNode, Fold, CallNode)):
        raise MacroError(
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(offset, NameNode(offset, _SORTED), arguments)
    result = CallNode(offset, "@sortByAssociatedKeys", NameNode(offset, _SORTED), [keys])
    return _bound(offset, _SORTED, target, result)


_MEMBERS: dict[
    tuple[str, int], Callable[[int, ExpressionNode, list[ExpressionNode]], ExpressionNode | None]
] = {
    ("all", 2): _all(_one),
    ("exists", 2): _exists(_one),
    ("exists_one", 2): _exists_one(_one),
    ("existsOne", 2): _exists_one(_one),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("all", 3): _all(_two),
    ("exists", 3): _exists(_two),
    ("existsOne", 3): _exists_one(_two),
    ("exists_one", 3): _exists_one(_two),
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("bind", 3): _bind,
    ("optMap", 2): _optional_map,
    ("optFlatMap", 2): _optional_flat_map,
    ("sortBy", 2): _sort_by,
}
