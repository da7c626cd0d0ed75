"""The checks of a parsed expression, with the texts of cel-go: its types, then its literals.

`check` resolves names and overloads. `validate` checks literals of durations, times and patterns, and finds
lists and maps of mixed types.

Source: cel-go checker/checker.go, cel/validator.go.
"""

from kubecel import statictypes as types
from kubecel.conversions import to_duration, to_timestamp
from kubecel.declarations import TYPE_NAMES, Overload, device_fields, functions
from kubecel.effort import meter
from kubecel.errors import SelectorRuntimeError
from kubecel.formatting import check_format
from kubecel.nodes import (
    CallNode,
    ExpressionNode,
    Fold,
    ListNode,
    Literal,
    MapNode,
    MessageNode,
    NameNode,
    Problems,
    Select,
    children,
)
from kubecel.patternsyntax import PatternError, parse_pattern
from kubecel.statictypes import StaticType, Substitutions, checker_text, without_optional
from kubecel.values import Uint

# The effort of a node, and of an overload that is tried.
_NODE, _OVERLOAD = 8, 6
_LITERALS: dict[type, StaticType] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}


def check(root: ExpressionNode, problems: Problems, minor: int) -> None:
    """Set the type of every node and the overloads of every call; record what does not fit."""
    checker = _Checker(problems, minor)
    checker.visit(root)
    for node in checker.seen:
        node.type = types.substituted(checker.known, node.type, to_dyn=True)


def undeclared(name: str) -> str:
    """Return the text about an unknown name."""
    return f"undeclared reference to '{name}' (in container '')"


def mismatch(expected: StaticType, actual: StaticType) -> str:
    """Return the text about a type that is not the expected one."""
    return f"expected type '{checker_text(expected)}' but found '{checker_text(actual)}'"


class _Checker:
    def __init__(self, problems: Problems, minor: int) -> None:
        self._problems = problems
        self._minor = minor
        self._functions = functions(minor)
        self._scopes: list[dict[str, StaticType]] = []
        self._variables = 0
        self._visited: dict[int, tuple[int, int]] = {}
        self.known = Substitutions()
        self.seen: list[ExpressionNode] = []

    def visit(self, node: ExpressionNode) -> StaticType:
        """Return the type of a node, which a macro may have put in two places."""
        seen = self._visited.get(id(node))
        if seen is not None:
            self._problems.repeat(*seen)
            return node.type
        meter.spend(_NODE)
        start = self._problems.error_count()
        match node:
            case Literal():
                result = _LITERALS[type(node.value)]
            case NameNode():
                result = self._name(node)
            case Select():
                result = self._select(node)
            case CallNode():
                result = self._call(node)
            case ListNode():
                result = self._list(node)
            case MapNode():
                result = self._map(node)
            case Fold():
                result = self._fold(node)
            case MessageNode():
                self._problems.add(node.offset, undeclared(node.name))
                result = types.ERROR
            case _:
                raise TypeError(node)
        node.type = result
        self._visited[id(node)] = start, self._problems.error_count()
        self.seen.append(node)
        return result

    def _local(self, name: str) -> StaticType | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _global(self, name: str) -> StaticType | None:
        if name == "device":
            return types.DEVICE
        named = TYPE_NAMES.get(name)
        return types.type_of(named) if named is not None else None

    def _name(self, node: NameNode) -> StaticType:
        plain = node.name.removeprefix(".")
        past_locals = node.name.startswith(".") and self._minor >= 37
        local = None if past_locals else self._local(plain)
        if local is not None:
            node.name = plain
            return local
        declared = self._global(plain)
        if declared is None:
            self._problems.add(node.offset, undeclared(node.name))
            return types.ERROR
        if declared.kind == "type":
            node.resolved = declared
        node.name = f".{plain}"
        return declared

    def _select(self, node: Select) -> StaticType:
        if not node.test and not node.optional and (name := _qualified(node)) is not None:
            first = name.removeprefix(".").partition(".")[0]
            if name.startswith(".") or self._local(first) is None:
                declared = self._global(name.removeprefix("."))
                if declared is not None:
                    node.resolved = declared
                    return declared
        result = self._field(node)
        return types.BOOL if node.test else types.substituted(self.known, result)

    def _field(self, node: Select) -> StaticType:
        operand = types.substituted(self.known, self.visit(node.operand))
        target, was_optional = types.without_optional(operand)
        result = types.DYN
        if target.kind == "map":
            result = target.parameters[1]
        elif target == types.DEVICE:
            field = device_fields(self._minor).get(node.field_name)
            if field is None:
                self._problems.add(node.offset, f"undefined field '{node.field_name}'")
            result = field or types.ERROR
        elif target.kind == "struct":
            self._problems.add(node.offset, f"unexpected failed resolution of '{target.name}'")
            result = types.ERROR
        elif target.kind == "param":
            self._assign(types.DYN, target)
        elif not types.is_dynamic(target) and target.kind != "error":
            self._problems.add(node.offset, f"type '{checker_text(target)}' does not support field selection")
        return types.optional_of(result) if was_optional or node.optional else result

    def _call(self, node: CallNode) -> StaticType:
        arguments = [self.visit(argument) for argument in node.arguments]
        if node.target is None:
            node.function = node.function.removeprefix(".")
            return self._resolved(node, node.function, None, arguments)
        prefix = _qualified(node.target)
        if prefix is not None:
            name = f"{prefix.removeprefix('.')}.{node.function}"
            if name in self._functions:
                node.function, node.target = name, None
                return self._resolved(node, name, None, arguments)
        return self._resolved(node, node.function, self.visit(node.target), arguments)

    def _resolved(
        self, node: CallNode, function: str, target: StaticType | None, arguments: list[StaticType]
    ) -> StaticType:
        overloads = self._functions.get(function)
        if overloads is None:
            self._problems.add(node.offset, undeclared(function))
            return types.ERROR
        if function in {"_&&_", "_||_"}:
            return self._logical(node, arguments)
        given = arguments if target is None else [target, *arguments]
        result: StaticType | None = None
        for overload in overloads:
            if overload.member == (target is None):
                continue
            matched = self._matched(overload, given)
            if matched is None:
                continue
            node.overloads.append(overload.identifier)
            if result is None:
                result = matched
            elif not types.is_dynamic(result) and matched != result:
                result = types.DYN
        if result is None:
            shown = [types.substituted(self.known, argument, to_dyn=True) for argument in given]
            signature = types.signature_text(shown, member=target is not None)
            self._problems.add(
                node.offset, f"found no matching overload for '{function}' applied to '{signature}'"
            )
            return types.ERROR
        return result

    def _matched(self, overload: Overload, given: list[StaticType]) -> StaticType | None:
        """Return the result of an overload for these arguments; None if it does not take them."""
        meter.spend(_OVERLOAD)
        expected, result = overload.arguments, overload.result
        if overload.parameters:
            fresh = Substitutions({name: self._new_variable() for name in overload.parameters})
            expected = tuple(types.substituted(fresh, parameter) for parameter in expected)
            result = types.substituted(fresh, result)
        if not types.assignable(self.known, given, expected):
            return None
        return types.substituted(self.known, result)

    def _logical(self, node: CallNode, arguments: list[StaticType]) -> StaticType:
        result = types.BOOL
        for argument, actual in zip(node.arguments, arguments, strict=True):
            if not self._assign(actual, types.BOOL):
                self._problems.add(argument.offset, mismatch(types.BOOL, actual))
                result = types.ERROR
        return result

    def _list(self, node: ListNode) -> StaticType:
        element: StaticType | None = None
        for index, item in enumerate(node.elements):
            actual = self.visit(item)
            if index in node.optional:
                actual = self._unwrapped(item, actual)
            element = self._joined(element, actual)
        return types.list_of(element if element is not None else self._new_variable())

    def _map(self, node: MapNode) -> StaticType:
        key_type: StaticType | None = None
        value_type: StaticType | None = None
        for entry in node.entries:
            key_type = self._joined(key_type, self.visit(entry.key))
            actual = self.visit(entry.value)
            if entry.optional:
                actual = self._unwrapped(entry.value, actual)
            value_type = self._joined(value_type, actual)
        if key_type is None or value_type is None:
            key_type, value_type = self._new_variable(), self._new_variable()
        return types.map_of(key_type, value_type)

    def _unwrapped(self, node: ExpressionNode, actual: StaticType) -> StaticType:
        inner, was_optional = types.without_optional(actual)
        if not was_optional and not types.is_dynamic(inner):
            self._problems.add(node.offset, mismatch(types.optional_of(inner), inner))
        return inner

    def _joined(self, previous: StaticType | None, current: StaticType) -> StaticType:
        """Return a type for both; mixed literals are refused later, except in the arguments of a format."""
        if previous is None:
            return current
        return types.most_general(previous, current) if self._assign(previous, current) else types.DYN

    def _fold(self, node: Fold) -> StaticType:
        unresolved = self.visit(node.range)
        accumulator = self.visit(node.start)
        ranged = types.substituted(self.known, unresolved)
        first, second = self._iterated(node, ranged)
        self._scopes.append({node.accumulator: accumulator})
        self._scopes.append({node.variable: first, **({node.second: second} if node.second else {})})
        self._expect(node.condition, types.BOOL)
        self._expect(node.step, accumulator)
        self._scopes.pop()
        result = self.visit(node.result)
        self._scopes.pop()
        return types.substituted(self.known, result)

    def _iterated(self, node: Fold, ranged: StaticType) -> tuple[StaticType, StaticType]:
        """Return the types of the loop's variables."""
        if ranged.kind == "list":
            element = ranged.parameters[0]
            return (types.INT, element) if node.second else (element, element)
        if ranged.kind == "map":
            return ranged.parameters[0], ranged.parameters[1]
        if ranged.kind in {"dyn", "error", "param"}:
            self._assign(types.DYN, ranged)
            return types.DYN, types.DYN
        self._problems.add(
            node.range.offset,
            f"expression of type '{checker_text(ranged)}' cannot be range of a comprehension"
            " (must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    def _expect(self, node: ExpressionNode, expected: StaticType) -> None:
        actual = self.visit(node)
        if not self._assign(expected, actual):
            self._problems.add(node.offset, mismatch(expected, actual))

    def _assign(self, first: StaticType, second: StaticType) -> bool:
        return types.assignable(self.known, [first], [second])

    def _new_variable(self) -> StaticType:
        self._variables += 1
        return types.parameter(f"_var{self._variables - 1}")


def _qualified(node: ExpressionNode) -> str | None:
    """Return the dotted name that selections of a name spell; None for other nodes."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        parts.append(node.field_name)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, NameNode) else None


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
        actual = _element(element, index in node.optional)
        if expected is None:
            expected = actual
        elif actual != expected:
            problems.add(element.offset, mismatch(expected, actual))
            return


def _check_map(node: MapNode, problems: Problems) -> None:
    expected: tuple[StaticType, StaticType] | None = None
    for entry in node.entries:
        actual = entry.key.type, _element(entry.value, entry.optional)
        if expected is None:
            expected = actual
            continue
        if actual[0] != expected[0]:
            problems.add(entry.key.offset, mismatch(expected[0], actual[0]))
        if actual[1] != expected[1]:
            problems.add(entry.value.offset, mismatch(expected[1], actual[1]))
