"""The parser of expressions: from tokens to nodes, with macros expanded.

The nesting of every rule of cel-go's grammar is counted as cel-go counts it, left-recursive rules
included: an expression that is nested too deeply is refused before it can exhaust the stack. The limits of
expressions in expressions, and of chains of operators, are lower: every pass takes several Python frames for
each. Only the first syntax error is reported, where upstream recovers and may report more.

Source: cel-go parser/parser.go, parser/gen/CEL.g4.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from kubecel import lexer, macros
from kubecel.effort import meter
from kubecel.lexer import END, Token, tokens_of
from kubecel.nodes import (
    CallNode,
    ExpressionNode,
    ListNode,
    Literal,
    MapEntryNode,
    MapNode,
    MessageNode,
    NameNode,
    Problems,
    Select,
)

MAX_DEPTH, MAX_NESTED, MAX_HEIGHT = 250, 40, 100
# The effort of coming to a rule of the grammar, and of a text that is no token.
_RULE, _UNKNOWN = 4, 5
_EXPRESSION_START = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES,"
    " IDENTIFIER}"
)
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_NUMBERS = frozenset({"int", "float"})
_CONSTANTS = {"true": True, "false": False, "null": None}


class _ParseStop(Exception):  # noqa: N818 - it ends the parse, the problem is recorded
    """The parse cannot go on."""


def parse(text: str, problems: Problems) -> ExpressionNode | None:
    """Return the root of an expression; None if problems were recorded."""
    meter.spend(2 * len(text))
    tokens, unknown = tokens_of(text)
    meter.spend(len(unknown) * _UNKNOWN)
    for fragment in unknown:
        problems.add(fragment.offset, f"Syntax error: token recognition error at: '{fragment.text}'")
    parser = _Parser(tokens, problems)
    try:
        root = parser.expression()
        parser.expect(END, "<EOF>")
    except _ParseStop:
        return None
    return None if problems else root


class _Parser:
    def __init__(self, tokens: list[Token], problems: Problems) -> None:
        self._tokens = tokens
        self._problems = problems
        self._place = 0
        self._nesting: dict[str, int] = defaultdict(int)
        # The nesting of operators in the node that was parsed last, as cel-go's visitor counts it.
        self._height = 0

    def expression(self) -> ExpressionNode:
        """Parse: or ['?' or ':' expression]."""
        self._enter("expr")
        node = self._either()
        if self._kind == "?":
            height, mark = self._height, self._next()
            chosen = self._either()
            height = max(height, self._height)
            self.expect(":", "':'")
            otherwise = self.expression()
            self._raise_height(max(height, self._height))
            node = CallNode(mark.offset, "_?_:_", None, [node, chosen, otherwise])
        self._leave("expr", 1)
        return node

    def expect(self, kind: str, shown: str) -> Token:
        """Consume a token of a kind."""
        if self._kind != kind:
            if kind == ")" and self._kind == self._outer():
                self._problems.add(
                    self._token.offset, f"Syntax error: missing {shown} at '{self._token.text}'"
                )
                return self._token
            if self._peek(1).kind != kind:
                self._syntax_error(f"mismatched input '{self._token.text}' expecting {shown}")
            self._problems.add(
                self._token.offset, f"Syntax error: extraneous input '{self._token.text}' expecting {shown}"
            )
            self._next()
        return self._next()

    def _outer(self) -> str:
        """Return the token that ends what encloses the innermost parentheses."""
        closers = {"(": ")", "[": "]", "{": "}"}
        open_ones: list[str] = []
        for token in self._tokens[: self._place]:
            if token.kind in closers:
                open_ones.append(closers[token.kind])
            elif open_ones and token.kind == open_ones[-1]:
                open_ones.pop()
        return open_ones[-2] if len(open_ones) > 1 else END

    def _either(self) -> ExpressionNode:
        self._enter("or")
        node = self._chain("||", "_||_", self._both)
        self._leave("or", 1)
        return node

    def _both(self) -> ExpressionNode:
        self._enter("and")
        node = self._chain("&&", "_&&_", self._relation)
        self._leave("and", 1)
        return node

    def _chain(self, sign: str, function: str, operand: Callable[[], ExpressionNode]) -> ExpressionNode:
        first = operand()
        if self._kind != sign:
            return first
        terms, offset, height = [first], self._token.offset, self._height
        while self._kind == sign:
            self._next()
            terms.append(operand())
            height = max(height, self._height)
        self._height = height
        return CallNode(offset, function, None, terms)

    def _relation(self) -> ExpressionNode:
        self._enter("relation")
        node, entered = self._operations("relation", _RELATIONS, self._sum(), self._sum)
        self._leave("relation", 1 + entered)
        return node

    def _sum(self) -> ExpressionNode:
        def product() -> ExpressionNode:
            node, inner = self._operations("calc", _PRODUCTS, self._unary(), self._unary)
            self._leave("calc", inner)
            return node

        self._enter("calc")
        first, inner = self._operations("calc", _PRODUCTS, self._unary(), self._unary)
        node, entered = self._operations("calc", _SUMS, first, product)
        self._leave("calc", 1 + inner + entered)
        return node

    def _operations(
        self,
        rule: str,
        functions: Mapping[str, str],
        left: ExpressionNode,
        operand: Callable[[], ExpressionNode],
    ) -> tuple[ExpressionNode, int]:
        """Parse the rest of a left-recursive rule; return the node, and how often the rule was entered."""
        entered = 0
        while (function := functions.get(self._kind)) is not None:
            entered += 1
            self._enter(rule)
            height, mark = self._height, self._next()
            self._enter(rule)
            right = operand()
            self._leave(rule, 1)
            self._raise_height(max(height, self._height))
            left = CallNode(mark.offset, function, None, [left, right])
        return left, entered

    def _unary(self) -> ExpressionNode:
        self._enter("unary")
        sign, first, count = self._kind, self._token, 0
        if sign == "!" or (sign == "-" and self._peek(1).kind not in _NUMBERS):
            while self._kind == sign:
                self._next()
                count += 1
        node = self._member()
        if count % 2 == 1:
            node = CallNode(first.offset, "!_" if sign == "!" else "-_", None, [node])
        self._leave("unary", 1)
        return node

    def _member(self) -> ExpressionNode:
        self._enter("member")
        node = self._primary()
        entered = 1
        while self._kind in {".", "["}:
            entered += 1
            self._enter("member")
            node = self._selection(node) if self._kind == "." else self._index(node)
        self._leave("member", entered)
        return node

    def _selection(self, operand: ExpressionNode) -> ExpressionNode:
        height, mark = self._height, self._next()
        optional = self._accept("?")
        if self._kind not in {"identifier", "escaped"}:
            shown = "{IDENTIFIER, ESC_IDENTIFIER}" if optional else "{'?', IDENTIFIER, ESC_IDENTIFIER}"
            self._unexpected_after_dot(mark, shown)
        name = self._next()
        if not optional and name.kind == "identifier" and self._kind == "(":
            opening = self._next()
            arguments, inner = self._arguments()
            self._raise_height(max(height, inner))
            return self._call(opening.offset, name.text, operand, arguments)
        self._height = height
        self._raise_height(height)
        field = name.text.strip("`") if name.kind == "escaped" else name.text
        return Select(mark.offset, operand, field, optional=optional)

    def _unexpected_after_dot(self, mark: Token, shown: str) -> None:
        if self._kind in {"true", "false", "null"}:
            self._syntax_error(f"mismatched input '{self._token.text}' expecting IDENTIFIER")
        text = mark.text + self._token.text
        if self._kind == END or shown.startswith("{IDENTIFIER"):
            self._syntax_error(f"mismatched input '{self._token.text}' expecting {shown}")
        self._syntax_error(f"no viable alternative at input '{text}'")

    def _index(self, operand: ExpressionNode) -> ExpressionNode:
        height, mark = self._height, self._next()
        optional = self._accept("?")
        index = self.expression()
        self._raise_height(max(height, self._height))
        self.expect("]", "']'")
        return CallNode(mark.offset, "_[?_]" if optional else "_[_]", None, [operand, index])

    def _primary(self) -> ExpressionNode:
        self._enter("primary")
        token = self._token
        if token.kind == "(":
            self._next()
            node = self.expression()
            self.expect(")", "')'")
        elif token.kind == "[":
            node = self._list()
        elif token.kind == "{":
            node = self._map()
        elif token.kind == "identifier" or (token.kind == "." and self._peek(1).kind == "identifier"):
            node = self._named_or_called()
        else:
            node = self._literal()
        self._leave("primary", 1)
        return node

    def _named_or_called(self) -> ExpressionNode:
        start, dot = self._token, self._accept(".")
        name = self._next()
        if self._message_follows():
            return self._message(("." if dot else "") + name.text)
        text = ("." if dot else "") + name.text
        if self._kind != "(":
            self._height = 0
            if name.text in _RESERVED:
                self._problems.add(start.offset, f"reserved identifier: {name.text}")
            return NameNode(name.offset, text)
        opening = self._next()
        arguments, self._height = self._arguments()
        if name.text in _RESERVED:
            self._problems.add(start.offset, f"reserved identifier: {name.text}")
        return self._call(opening.offset, text, None, arguments)

    def _message_follows(self) -> bool:
        ahead = 0
        while self._peek(ahead).kind == "." and self._peek(ahead + 1).kind == "identifier":
            ahead += 2
        return self._peek(ahead).kind == "{"

    def _message(self, name: str) -> ExpressionNode:
        while self._accept("."):
            name = f"{name}.{self._next().text}"
        opening = self._next()
        while self._kind != "}":
            self._accept("?")
            if self._kind not in {"identifier", "escaped"}:
                self.expect("}", "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")
            self._next()
            self.expect(":", "':'")
            self.expression()
            if not self._accept(","):
                break
        self.expect("}", "'}'")
        return MessageNode(opening.offset, name)

    def _list(self) -> ExpressionNode:
        opening = self._next()
        elements: list[ExpressionNode] = []
        optional: set[int] = set()
        height = 0
        while self._kind != "]":
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            height = max(height, self._height)
            if not self._accept(","):
                break
        self.expect("]", "{']', ','}")
        self._height = height
        return ListNode(opening.offset, elements, frozenset(optional))

    def _map(self) -> ExpressionNode:
        opening = self._next()
        entries: list[MapEntryNode] = []
        height = 0
        while self._kind != "}":
            optional = self._accept("?")
            key = self.expression()
            height = max(height, self._height)
            self.expect(":", "':'")
            value = self.expression()
            height = max(height, self._height)
            entries.append(MapEntryNode(key, value, optional))
            if not self._accept(","):
                break
        self.expect("}", "{'}', ','}")
        self._height = height
        return MapNode(opening.offset, entries)

    def _literal(self) -> ExpressionNode:
        self._height = 0
        start = self._token
        negative = self._kind == "-" and self._peek(1).kind in _NUMBERS and self._accept("-")
        token = self._token
        if token.kind in _CONSTANTS:
            self._next()
            return Literal(start.offset, _CONSTANTS[token.kind])
        try:
            value = _literal_value(token, negative=negative)
        except lexer.LiteralError as problem:
            self._problems.add(start.offset, str(problem))
            value = 0
        if value is None:
            self._syntax_error(f"mismatched input '{token.text}' expecting {_EXPRESSION_START}")
        self._next()
        return Literal(start.offset, value)

    def _arguments(self) -> tuple[list[ExpressionNode], int]:
        arguments: list[ExpressionNode] = []
        height = 0
        while self._kind != ")":
            arguments.append(self.expression())
            height = max(height, self._height)
            if not self._accept(","):
                break
            if self._kind == ")":
                self._syntax_error(f"mismatched input ')' expecting {_EXPRESSION_START}")
        self.expect(")", "')'")
        return arguments, height

    def _call(
        self, offset: int, function: str, target: ExpressionNode | None, arguments: list[ExpressionNode]
    ) -> ExpressionNode:
        try:
            expanded = macros.expand(offset, function, target, arguments)
        except macros.MacroError as problem:
            self._problems.add(problem.offset, str(problem))
            return Literal(problem.offset, value=False)
        return expanded or CallNode(offset, function, target, arguments)

    @property
    def _token(self) -> Token:
        return self._tokens[self._place]

    @property
    def _kind(self) -> str:
        return self._tokens[self._place].kind

    def _peek(self, ahead: int) -> Token:
        return self._tokens[min(self._place + ahead, len(self._tokens) - 1)]

    def _next(self) -> Token:
        token = self._tokens[self._place]
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _accept(self, kind: str) -> bool:
        accepted = self._kind == kind
        if accepted:
            self._next()
        return accepted

    def _syntax_error(self, message: str) -> None:
        self._problems.add(self._token.offset, f"Syntax error: {message}")
        raise _ParseStop

    def _enter(self, rule: str) -> None:
        self._nesting[rule] += 1
        meter.spend(_RULE)
        most = MAX_NESTED if rule == "expr" else MAX_DEPTH
        if self._nesting[rule] > most:
            self._problems.add(-1, f"expression recursion limit exceeded: {most}")
            raise _ParseStop

    def _leave(self, rule: str, times: int) -> None:
        self._nesting[rule] -= times

    def _raise_height(self, inner: int) -> None:
        self._height = inner + 1
        if self._height > MAX_HEIGHT:
            self._problems.add(-1, "max recursion depth exceeded")
            raise _ParseStop


def _literal_value(token: Token, *, negative: bool) -> object:
    match token.kind:
        case "int":
            return lexer.integer(token.text, negative=negative)
        case "uint":
            return lexer.unsigned(token.text)
        case "float":
            return lexer.floating(token.text, negative=negative)
        case "string":
            return lexer.string(token.text)
        case "bytes":
            return lexer.octets(token.text)
        case _:
            return None
