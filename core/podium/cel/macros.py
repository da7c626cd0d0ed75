"""Macros: calls that the parser replaces by comprehensions, presence tests and conditions.

Nodes that a macro creates have the offset of the call, so errors of the checker point to it.

Source: cel-go parser/macro.go, cel/library.go, ext/comprehensions.go, ext/bindings.go, ext/lists.go.
"""

from collections.abc import Callable

from podium.cel.nodes import Call, Entry, Fold, ListNode, Literal, MapNode, Name, Node, Select

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


def expand(offset: int, function: str, target: Node | None, arguments: list[Node]) -> Node | None:
    """Return the node that a call is replaced by; None if it is no macro. Raises MacroError."""
    if target is None:
        return _has(offset, arguments[0]) if function == "has" and len(arguments) == 1 else None
    expander = _MEMBERS.get((function, len(arguments)))
    return expander(offset, target, arguments) if expander is not None else None


def _has(offset: int, argument: Node) -> Node:
    if not isinstance(argument, Select) or argument.optional:
        raise MacroError(argument.offset, "invalid argument to has() macro")
    return Select(offset, argument.operand, argument.field_name, test=True)


def _variable(argument: Node, message: str = "argument must be a simple name") -> str:
    if not isinstance(argument, Name):
        raise MacroError(argument.offset, message)
    return argument.name


def _free_variable(argument: Node, message: str = "argument must be a simple name") -> str:
    name = _variable(argument, message)
    if name in _TAKEN:
        raise MacroError(argument.offset, "iteration variable overwrites accumulator variable")
    return name


def _variables(arguments: list[Node]) -> tuple[str, str]:
    first, second = _variable(arguments[0]), _variable(arguments[1])
    if first == second:
        raise MacroError(arguments[1].offset, f"duplicate variable name: {first}")
    return _free_variable(arguments[0]), _free_variable(arguments[1])


def _one(arguments: list[Node]) -> tuple[str, str, list[Node]]:
    return _free_variable(arguments[0]), "", arguments[1:]


def _two(arguments: list[Node]) -> tuple[str, str, list[Node]]:
    return *_variables(arguments), arguments[2:]


_Variables = Callable[[list[Node]], tuple[str, str, list[Node]]]
_Expander = Callable[[int, Node, list[Node]], Node]


def _all(variables: _Variables) -> _Expander:
    def expanded(offset: int, target: Node, arguments: list[Node]) -> Node:
        first, second, (test,) = variables(arguments)
        condition = Call(offset, "@not_strictly_false", None, [Name(offset, ACCUMULATOR)])
        step = Call(offset, "_&&_", None, [Name(offset, ACCUMULATOR), test])
        return _loop(offset, target, (first, second), Literal(offset, value=True), condition, step)

    return expanded


def _exists(variables: _Variables) -> _Expander:
    def expanded(offset: int, target: Node, arguments: list[Node]) -> Node:
        first, second, (test,) = variables(arguments)
        absent = Call(offset, "!_", None, [Name(offset, ACCUMULATOR)])
        condition = Call(offset, "@not_strictly_false", None, [absent])
        step = Call(offset, "_||_", None, [Name(offset, ACCUMULATOR), test])
        return _loop(offset, target, (first, second), Literal(offset, value=False), condition, step)

    return expanded


def _exists_one(variables: _Variables) -> _Expander:
    def expanded(offset: int, target: Node, arguments: list[Node]) -> Node:
        first, second, (test,) = variables(arguments)
        more = Call(offset, "_+_", None, [Name(offset, ACCUMULATOR), Literal(offset, 1)])
        step = Call(offset, "_?_:_", None, [test, more, Name(offset, ACCUMULATOR)])
        fold = _loop(offset, target, (first, second), Literal(offset, 0), Literal(offset, value=True), step)
        fold.result = Call(offset, "_==_", None, [Name(offset, ACCUMULATOR), Literal(offset, 1)])
        return fold

    return expanded


def _map(offset: int, target: Node, arguments: list[Node]) -> Node:
    variable = _free_variable(arguments[0], "argument is not an identifier")
    return _collected(offset, target, (variable, ""), arguments[1:])


def _filter(offset: int, target: Node, arguments: list[Node]) -> Node:
    variable = _free_variable(arguments[0], "argument is not an identifier")
    return _collected(offset, target, (variable, ""), [arguments[1], arguments[0]])


def _transform_list(offset: int, target: Node, arguments: list[Node]) -> Node:
    first, second, rest = _two(arguments)
    return _collected(offset, target, (first, second), rest)


def _collected(offset: int, target: Node, names: tuple[str, str], rest: list[Node]) -> Node:
    """Return a loop that appends the last of the rest, where the one before it holds."""
    element = ListNode(offset, [rest[-1]], frozenset())
    step: Node = Call(offset, "_+_", None, [Name(offset, ACCUMULATOR), element])
    start = ListNode(offset, [], frozenset())
    return _loop(offset, target, names, start, Literal(offset, value=True), _guarded(offset, step, rest[:-1]))


def _transform_map(offset: int, target: Node, arguments: list[Node]) -> Node:
    first, second, rest = _two(arguments)
    inserted = [Name(offset, ACCUMULATOR), Name(offset, first), rest[-1]]
    return _inserting(offset, target, (first, second), list(inserted), rest)


def _transform_entry(offset: int, target: Node, arguments: list[Node]) -> Node:
    first, second, rest = _two(arguments)
    return _inserting(offset, target, (first, second), [Name(offset, ACCUMULATOR), rest[-1]], rest)


def _inserting(
    offset: int, target: Node, names: tuple[str, str], inserted: list[Node], rest: list[Node]
) -> Node:
    step = Call(offset, "cel.@mapInsert", None, inserted)
    start = MapNode(offset, list[Entry]())
    return _loop(offset, target, names, start, Literal(offset, value=True), _guarded(offset, step, rest[:-1]))


def _guarded(offset: int, step: Node, tests: list[Node]) -> Node:
    return Call(offset, "_?_:_", None, [tests[0], step, Name(offset, ACCUMULATOR)]) if tests else step


def _loop(offset: int, target: Node, names: tuple[str, str], *bodies: Node) -> Fold:
    """Return a loop with a start, a condition and a step; its result is the accumulator."""
    start, condition, step = bodies
    return Fold(offset, target, *names, ACCUMULATOR, start, condition, step, Name(offset, ACCUMULATOR))


def _bound(offset: int, name: str, value: Node, result: Node) -> Node:
    """Return a loop without rounds: its accumulator is a local variable of the result."""
    nothing, never = ListNode(offset, [], frozenset()), Literal(offset, value=False)
    return Fold(offset, nothing, _UNUSED, "", name, value, never, Name(offset, name), result)


def _bind(offset: int, target: Node, arguments: list[Node]) -> Node | None:
    if not isinstance(target, Name) or target.name != "cel":
        return None
    name = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
    return _bound(offset, name, arguments[1], arguments[2])


def _optional_map(offset: int, target: Node, arguments: list[Node]) -> Node:
    name = _variable(arguments[0], "optMap() variable name must be a simple identifier")
    value = Call(offset, "value", target, [])
    mapped = Call(offset, "optional.of", None, [_bound(offset, name, value, arguments[1])])
    return _if_present(offset, target, mapped)


def _optional_flat_map(offset: int, target: Node, arguments: list[Node]) -> Node:
    name = _variable(arguments[0], "optFlatMap() variable name must be a simple identifier")
    value = Call(offset, "value", target, [])
    return _if_present(offset, target, _bound(offset, name, value, arguments[1]))


def _if_present(offset: int, target: Node, mapped: Node) -> Node:
    present = Call(offset, "hasValue", target, [])
    return Call(offset, "_?_:_", None, [present, mapped, Call(offset, "optional.none", None, [])])


def _sort_by(offset: int, target: Node, arguments: list[Node]) -> Node:
    if not isinstance(target, (ListNode, Select, Name, Fold, Call)):
        raise MacroError(
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(offset, Name(offset, _SORTED), arguments)
    result = Call(offset, "@sortByAssociatedKeys", Name(offset, _SORTED), [keys])
    return _bound(offset, _SORTED, target, result)


_MEMBERS: dict[tuple[str, int], Callable[[int, Node, list[Node]], Node | None]] = {
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
