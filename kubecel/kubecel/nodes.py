"""Nodes of a parsed expression, and the errors that refer to a place of it.

A node keeps the offset that cel-go reports for it: of its operator for most, of its first character for names
and literals.

Source: cel-go common/ast, common/error.go, common/errors.go.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kubecel.effort import meter
from kubecel.errors import SelectorCompileError
from kubecel.statictypes import DYN, StaticType

MAX_ERRORS = 100
# Nodes in nodes, with those of macros, and with the values that variables are bound to. Each takes up to four
# frames of Python's stack, which holds a thousand.
MAX_LEVELS = 200
_MAX_SNIPPET = 16384
# The effort of an error and its snippet.
_ERROR = 100


class TooDeepError(SelectorCompileError):
    """An expression whose evaluation would need more levels of the stack than it has."""

    def __init__(self) -> None:
        """Name the limit."""
        super().__init__(f"the expression is nested too deeply: more than {MAX_LEVELS} levels")


@dataclass(slots=True, eq=False)
class ExpressionNode:
    """Any expression: its offset, and its type once it is checked."""

    offset: int
    type: StaticType = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(ExpressionNode):
    """A constant: a value of CEL."""

    value: object


@dataclass(slots=True, eq=False)
class NameNode(ExpressionNode):
    """A variable, or a type (`resolved`), by its name; a leading dot reaches past local variables."""

    name: str
    resolved: StaticType | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(ExpressionNode):
    """operand.field; a presence test is has(operand.field)."""

    operand: ExpressionNode
    field_name: str
    test: bool = False
    optional: bool = False
    resolved: StaticType | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class CallNode(ExpressionNode):
    """A call of a function or an operator; `overloads` are the identifiers that the checker selected."""

    function: str
    target: ExpressionNode | None
    arguments: list[ExpressionNode]
    overloads: list[str] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class ListNode(ExpressionNode):
    """A list literal, with the indices of its optional elements."""

    elements: list[ExpressionNode]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class MapEntryNode:
    """key: value, optional if it was written as ?key: value."""

    key: ExpressionNode
    value: ExpressionNode
    optional: bool


@dataclass(slots=True, eq=False)
class MapNode(ExpressionNode):
    """A map literal."""

    entries: list[MapEntryNode]


@dataclass(slots=True, eq=False)
class MessageNode(ExpressionNode):
    """A message literal; the environment of devices declares no message that it could build."""

    name: str


@dataclass(slots=True, eq=False)
class Fold(ExpressionNode):
    """A comprehension: the loop to which macros expand."""

    range: ExpressionNode
    variable: str
    second: str
    accumulator: str
    start: ExpressionNode
    condition: ExpressionNode
    step: ExpressionNode
    result: ExpressionNode


def children(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Iterate over the nodes in a node."""
    match node:
        case Select():
            yield node.operand
        case CallNode():
            if node.target is not None:
                yield node.target
            yield from node.arguments
        case ListNode():
            yield from node.elements
        case MapNode():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case Fold():
            yield from (node.range, node.start, node.condition, node.step, node.result)
        case _:
            pass


def levels_of(root: ExpressionNode) -> int:
    """Return how deep the nodes of an expression are, with those that macros put between them."""
    levels: dict[int, int] = {}
    waiting = [root]
    while waiting:
        node = waiting[-1]
        inner = [levels.get(id(child)) for child in children(node)]
        if None in inner:
            waiting += (child for child in children(node) if id(child) not in levels)
            continue
        levels[id(node)] = 1 + max((level for level in inner if level is not None), default=0)
        waiting.pop()
    return levels[id(root)]


class Problems:
    """The errors of one source text, sorted by place and formatted as cel-go does."""

    def __init__(self, text: str) -> None:
        """Keep the text for snippets."""
        self._text = text
        self._found: list[tuple[int, int, str]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, offset: int, message: str) -> None:
        """Record an error at an offset of the text; -1 is an error without a place."""
        self._count += 1
        if self._count > MAX_ERRORS:
            return
        meter.spend(_ERROR + max(offset, 0) // 8)
        if offset < 0:
            self._found.append((-1, -1, message))
            return
        start = self._text.rfind("\n", 0, offset) + 1
        self._found.append((self._text.count("\n", 0, offset) + 1, offset - start, message))

    def error_count(self) -> int:
        """Return the number of errors so far."""
        return len(self._found)

    def repeat(self, start: int, end: int) -> None:
        """Record some errors again, for a part of the text that a macro copies."""
        again = self._found[start:end]
        self._count += len(again)
        self._found = (self._found + again)[:MAX_ERRORS]

    def shown_errors(self) -> str:
        """Return all errors, each with the line and a mark below it."""
        shown = [self._one(*entry) for entry in sorted(self._found, key=lambda entry: entry[:2])]
        if self._count > MAX_ERRORS:
            shown.append(f"{self._count - MAX_ERRORS} more errors were truncated")
        return "\n".join(shown)

    def _one(self, line: int, column: int, message: str) -> str:
        head = f"ERROR: <input>:{line}:{column + 1}: {message}"
        if line < 1:
            return head
        snippet = self._text.split("\n")[line - 1].replace("\t", " ")
        if len(snippet.encode("utf-8", "surrogatepass")) > _MAX_SNIPPET:
            return head
        dots = "".join("." if char < "\x80" else "\uff0e" for char in snippet[:column])
        mark = "\uff3e" if snippet[column : column + 1] > "\x7f" else "^"
        return f"{head}\n | {snippet}\n | {dots}{mark}"
