"""The compiler of checked expressions to Python closures.

A closure takes the frame of an evaluation: its cost so far, the device, and the local variables. Errors
are exceptions. The cost of every step is counted as cel-go counts it, in steps that fail too, because
`&&` and `||` absorb errors. Selections that follow each other are one closure, as they are one attribute
in cel-go.

Source: cel-go interpreter/planner.go, interpreter/decorators.go, interpreter/attributes.go.
"""

from collections.abc import Callable
from typing import NamedTuple

from kubecel import costs, macros
from kubecel.attributes import Base, Qualifier, attribute, conditional, qualified, usable_key
from kubecel.calls import Runnable, binary, call, constant_membership, nullary, unary
from kubecel.dispatch import CONVERSIONS, dispatcher, ends_at_first_error
from kubecel.effort import AbortedError, meter
from kubecel.errors import SelectorCompileError, SelectorRuntimeError
from kubecel.folds import LocalVariable, collecting, fold
from kubecel.gotext import verb_v
from kubecel.nodes import (
    MAX_LEVELS,
    CallNode,
    ExpressionNode,
    Fold,
    ListNode,
    Literal,
    MapNode,
    NameNode,
    Select,
    TooDeepError,
)
from kubecel.patterns import precompiled
from kubecel.patternsyntax import MAX_GROUPS
from kubecel.values import Map, Optional, TypeValue, check_hashable, equal, key_of, read_key

# Places of a frame.
COST, UNCHARGED, DEVICE, FIRST = 0, 1, 2, 3
# Functions that read a value from a text.
_PARSERS = frozenset({"quantity", "semver", "ip", "cidr", "url"})
_PATTERNED = frozenset({"matches", "find", "findAll"})
_PRIMITIVES = (bool, float, int, str)
# The effort of compiling a node.
_NODE = 25
# The constant elements, or terms of && and ||, that a unit of effort pays for.
_PLAIN = 8
# The most instructions of all constant regular expressions of a selector.
MAX_INSTRUCTIONS = 100_000


class SelectorPlan(NamedTuple):
    """A compiled expression, the size of its frames, the instructions of its patterns, and its levels."""

    run: Runnable
    size: int
    instructions: int
    levels: int


class PlannedNode(NamedTuple):
    """A compiled node: its closure; its value if it is constant; its attribute if it is a selection."""

    run: Runnable
    constant: tuple[object] | None = None
    attribute: "Base | None" = None


def planned_selector(root: ExpressionNode, minor: int) -> SelectorPlan:
    """Compile a checked expression. Raises SelectorCompileError for a constant that cannot be evaluated."""
    planner = _SelectorPlanner(minor)
    run = planner.compiled(root).run
    return SelectorPlan(run, planner.size, planner.instructions, planner.levels)


def _constant(value: object) -> PlannedNode:
    return PlannedNode(lambda _: value, constant=(value,))


class _SelectorPlanner:
    def __init__(self, minor: int) -> None:
        self._minor = minor
        self._scopes: list[dict[str, LocalVariable]] = []
        # Macros use a node twice where upstream copies it.
        self._done: dict[int, tuple[PlannedNode, int]] = {}
        # The levels of the nodes so far in the node that is being compiled.
        self._levels = 0
        self.size = FIRST
        self.instructions = 0
        # Whether an evaluation reads patterns, which may hold groups in groups.
        self.reads_patterns = False

    @property
    def levels(self) -> int:
        """Return how deep an evaluation is."""
        return self._levels + 2 * MAX_GROUPS * self.reads_patterns

    def compiled(self, node: ExpressionNode) -> PlannedNode:
        """Return a compiled node."""
        known = self._done.get(id(node))
        if known is not None:
            planned, levels = known
            self._levels = max(self._levels, levels)
            return planned
        meter.spend(_NODE)
        around, self._levels = self._levels, 0
        match node:
            case Literal():
                planned = _constant(node.value)
            case NameNode():
                planned = self._name(node)
            case Select():
                planned = self._select(node)
            case CallNode():
                planned = self._call(node)
            case ListNode():
                planned = self._list(node)
            case MapNode():
                planned = self._map(node)
            case Fold():
                planned = self._fold(node)
            case _:
                raise TypeError(node)
        levels = self._levels + 1
        if levels > MAX_LEVELS:
            raise TooDeepError
        self._done[id(node)] = planned, levels
        self._levels = max(around, levels)
        return planned

    def _name(self, node: NameNode) -> PlannedNode:
        if node.resolved is not None:
            return _constant(TypeValue(node.resolved.parameters[0].name))
        if node.name.startswith("."):
            return self._of(Base.of_slot(DEVICE))
        variable = self._variable(node.name)
        # Its start is evaluated when it is read first.
        self._levels = max(self._levels, variable.levels + 1)
        return self._of(Base.of_variable(variable))

    def _variable(self, name: str) -> LocalVariable:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise KeyError(name)

    def _of(self, base: Base) -> PlannedNode:
        meter.spend(base.selections())
        return PlannedNode(attribute(base), attribute=base)

    def _select(self, node: Select) -> PlannedNode:
        if node.resolved is not None:
            return _constant(TypeValue(node.resolved.parameters[0].name))
        base = self._base(node.operand)
        return self._of(qualified(base, Qualifier.of_constant(node.field_name, node.optional, node.test)))

    def _base(self, node: ExpressionNode) -> Base:
        planned = self.compiled(node)
        return planned.attribute if planned.attribute is not None else Base.of_closure(planned.run)

    def _index(self, node: CallNode) -> PlannedNode:
        base, index = self._base(node.arguments[0]), self.compiled(node.arguments[1])
        optional = node.function == "_[?_]"
        if index.constant is not None:
            try:
                key = usable_key(index.constant[0])
            except SelectorRuntimeError as error:
                raise SelectorCompileError(f"program instantiation failed: {error}") from None
            qualifier = Qualifier.of_constant(key, optional, test=False)
        elif index.attribute is not None:
            qualifier = Qualifier.of_closure(attribute(index.attribute, free=True), optional)
        else:
            qualifier = Qualifier.of_closure(index.run, optional)
        return self._of(qualified(base, qualifier))

    def _call(self, node: CallNode) -> PlannedNode:
        match node.function:
            case "_[_]" | "_[?_]":
                return self._index(node)
            case "_?_:_":
                condition = self.compiled(node.arguments[0]).run
                return self._of(conditional(condition, *(self._base(arg) for arg in node.arguments[1:])))
            case "_&&_" | "_||_":
                terms = [self.compiled(arg).run for arg in node.arguments]
                return PlannedNode(_absorbing(terms, decisive=node.function == "_||_"))
            case "_==_":
                first, second = (self.compiled(arg).run for arg in node.arguments)
                return PlannedNode(binary(first, second, equal, lambda args, _: costs.equality_cost(*args)))
            case "_!=_":
                first, second = (self.compiled(arg).run for arg in node.arguments)
                cost = costs.call_cost("_!=_", "not_equals", self._minor)
                return PlannedNode(binary(first, second, _unequal, cost))
            case "or" | "orValue" if node.target is not None and len(node.arguments) == 1:
                return self._alternative(node)
            case "@not_strictly_false":
                return PlannedNode(_not_strictly_false(self.compiled(node.arguments[0]).run))
            case _:
                return self._function(node)

    def _alternative(self, node: CallNode) -> PlannedNode:
        assert node.target is not None
        first, second = self.compiled(node.target).run, self.compiled(node.arguments[0]).run
        whole, strict = node.function == "or", self._minor >= 37

        def run(frame: list) -> object:  # type: ignore[type-arg]
            frame[UNCHARGED] += 1
            value = first(frame)
            if not isinstance(value, Optional):
                if strict:
                    raise SelectorRuntimeError("no such overload")
                return value
            if value.present:
                return value if whole else value.value
            return second(frame)

        return PlannedNode(run)

    def _function(self, node: CallNode) -> PlannedNode:
        given = ([node.target] if node.target is not None else []) + node.arguments
        if node.function == "_+_" and isinstance(given[0], NameNode):
            grown = self._grown(given[0], given[1])
            if grown is not None:
                return grown
        arguments = [self.compiled(arg) for arg in given]
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        cost = costs.call_cost(node.function, overload, self._minor)
        if node.function == "@in" and overload == "in_list" and arguments[1].constant is not None:
            chosen = _membership(arguments[0].run, arguments[1].constant[0])
            if chosen is not None:
                return chosen
        function = dispatcher(node.function, overload, self._minor)
        if node.function in _PATTERNED and arguments[1].constant is not None:
            function, size = precompiled(node.function, function, arguments[1].constant[0])
            self.instructions += size
            if self.instructions > MAX_INSTRUCTIONS:
                raise SelectorCompileError("the regular expressions of the selector are too large")
            if size:
                return PlannedNode(call([arg.run for arg in arguments], function, cost))
        elif node.function in _PATTERNED:
            self.reads_patterns = True
        if node.function in CONVERSIONS and len(arguments) == 1 and arguments[0].constant is not None:
            return _converted(function, arguments[0].constant[0])
        if node.function in _PARSERS and arguments and all(arg.constant is not None for arg in arguments):
            value = _evaluated(function, [arg.constant[0] for arg in arguments if arg.constant], cost)
            if value is not None:
                return value
        runs = [arg.run for arg in arguments]
        if ends_at_first_error(node.function, overload, self._minor):
            return PlannedNode(call(runs, function, cost))
        match len(runs):
            case 0:
                return PlannedNode(nullary(function, cost))
            case 1:
                return PlannedNode(unary(runs[0], function, cost))
            case 2:
                return PlannedNode(binary(runs[0], runs[1], function, cost))
            case _:
                return PlannedNode(call(runs, function, cost))

    def _grown(self, accumulator: NameNode, added: ExpressionNode) -> PlannedNode | None:
        """Return the addition to a list that a loop collects in place; None if it is another sum."""
        if accumulator.name.startswith("."):
            return None
        variable = self._variable(accumulator.name)
        return (
            PlannedNode(collecting(variable, self.compiled(added).run)) if variable.collects is list else None
        )

    def _list(self, node: ListNode) -> PlannedNode:
        elements = [self.compiled(element) for element in node.elements]
        optional = [index in node.optional for index in range(len(elements))]
        run = _list_of([element.run for element in elements], optional)
        return _folded(run, elements)

    def _map(self, node: MapNode) -> PlannedNode:
        keys = [self.compiled(entry.key) for entry in node.entries]
        values = [self.compiled(entry.value) for entry in node.entries]
        run = _map_of(
            [(k.run, v.run, e.optional) for k, v, e in zip(keys, values, node.entries, strict=True)]
        )
        return _folded(run, [*keys, *values])

    def _fold(self, node: Fold) -> PlannedNode:
        ranged = self.compiled(node.range)
        around, self._levels = self._levels, 0
        start = self.compiled(node.start)
        levels, self._levels = self._levels, max(around, self._levels)
        own = node.accumulator == macros.ACCUMULATOR
        collects = {ListNode: list, MapNode: Map}.get(type(node.start)) if own else None
        accumulator = LocalVariable(self._slot(), start.run, levels, collects)
        first = LocalVariable(self._slot())
        second = LocalVariable(self._slot()) if node.second else None
        self._scopes.append({node.accumulator: accumulator})
        self._scopes.append({node.variable: first, **({node.second: second} if second is not None else {})})
        condition, step = self.compiled(node.condition), self.compiled(node.step)
        self._scopes.pop()
        result = self.compiled(node.result)
        self._scopes.pop()
        return PlannedNode(
            fold(ranged.run, accumulator, (first, second), (condition.run, step.run, result.run))
        )

    def _slot(self) -> int:
        self.size += 1
        return self.size - 1


def _unequal(first: object, second: object) -> bool:
    """Return whether two values are not equal; upstream takes values that cannot be compared for unequal."""
    try:
        return not equal(first, second)
    except SelectorRuntimeError:
        return True


def _absorbing(terms: list[Runnable], *, decisive: bool) -> Runnable:
    """Return the conjunction (False decides) or disjunction (True decides) of terms, which absorbs errors."""
    neutral, more = not decisive, len(terms) // _PLAIN

    def run(frame: list) -> bool:  # type: ignore[type-arg]
        failed: SelectorRuntimeError | None = None
        frame[UNCHARGED] += more
        for term in terms:
            try:
                outcome = term(frame)
            except SelectorRuntimeError as error:
                failed = failed or error
                continue
            if outcome is decisive:
                return decisive
            if outcome is not neutral:
                failed = failed or SelectorRuntimeError("no such overload")
        if failed is not None:
            raise failed
        return neutral

    return run


def _not_strictly_false(argument: Runnable) -> Runnable:
    def run(frame: list) -> object:  # type: ignore[type-arg]
        try:
            outcome = argument(frame)
        except SelectorRuntimeError:
            outcome = True
        frame[COST] += 1
        return outcome if isinstance(outcome, bool) else True

    return run


def _membership(value: Runnable, items: object) -> PlannedNode | None:
    assert isinstance(items, list)
    if not items:
        return _constant(value=False)
    if not all(isinstance(item, _PRIMITIVES) for item in items):
        return None
    return PlannedNode(constant_membership(value, items))


def _evaluated(
    function: Callable[..., object], values: list[object], cost: int | costs.Cost
) -> PlannedNode | None:
    """Return a call of constants, evaluated once; it costs the same every time. None if it fails."""
    try:
        value = function(*values)
    except SelectorRuntimeError:
        return None
    price = cost if isinstance(cost, int) else cost(values, value)

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[COST] += price
        return value

    return PlannedNode(run)


def _converted(function: Callable[..., object], value: object) -> PlannedNode:
    try:
        return _constant(function(value))
    except SelectorRuntimeError as error:
        raise SelectorCompileError(f"program instantiation failed: {error}") from None


def _folded(run: Runnable, parts: list[PlannedNode]) -> PlannedNode:
    """Return a literal, evaluated once if all its parts are constant."""
    if all(part.constant is not None for part in parts):
        try:
            return _constant(run([0, 0]))
        except (SelectorRuntimeError, AbortedError):
            return PlannedNode(run)
    return PlannedNode(run)


def _list_of(elements: list[Runnable], optional: list[bool]) -> Runnable:
    some_optional, more = any(optional), len(elements) // _PLAIN

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[UNCHARGED] += more
        try:
            if not some_optional:
                return [element(frame) for element in elements]
            items: list[object] = []
            for element, may_miss in zip(elements, optional, strict=True):
                value = element(frame)
                if may_miss:
                    if not isinstance(value, Optional):
                        raise SelectorRuntimeError(
                            f"cannot initialize optional list element from non-optional value {verb_v(value)}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                items.append(value)
            return items
        finally:
            frame[COST] += 10

    return run


def _map_of(entries: list[tuple[Runnable, Runnable, bool]]) -> Runnable:
    more = len(entries)

    def run(frame: list) -> object:  # type: ignore[type-arg]
        frame[UNCHARGED] += more
        try:
            pairs: dict[object, tuple[object, object]] = {}
            for key_run, value_run, may_miss in entries:
                key, value = key_run(frame), value_run(frame)
                if may_miss:
                    if not isinstance(value, Optional):
                        raise SelectorRuntimeError(
                            f"cannot initialize optional entry '{verb_v(key)}' from non-optional"
                            f" value {verb_v(value)}"
                        )
                    if not value.present:
                        pairs.pop(key_of(key), None)
                        continue
                    value = value.value
                check_hashable(key)
                read_key(key)
                pairs[key_of(key)] = (key, value)
            return Map(pairs)
        finally:
            frame[COST] += 30

    return run
