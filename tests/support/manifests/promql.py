"""A PromQL parser that checks a query against the existing metrics: names, and labels where they are used.

Values are not computed. A query is parsed to its end by PromQL's own grammar without precedence, which does
not affect labels. A part that cannot be parsed is an error. The result has the labels of the query, which a
text or a legend may name.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>\d+(?:\.\d+)?(?:ms|[smhdwy])?)
    |(?P<word>[A-Za-z_:][\w:]*)
    |(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){}\[\],])""",
    re.VERBOSE,
)
_AGGREGATIONS = {"sum", "min", "max", "count"}
# Functions of one vector that leave its labels as they are.
_FUNCTIONS = {"rate", "increase", "last_over_time"}
_OPERATORS = {"+", "-", "*", "/", "%", "==", "!=", ">", "<", ">=", "<=", "and", "or", "unless"}
# Labels that a scrape adds to a process's metrics.
TARGET = frozenset({"job", "instance"})

Labels = frozenset[str] | None


class Selected(NamedTuple):
    """A matcher on a label; `value` is the literal text, also of a regular expression."""

    metric: str
    label: str
    value: str


class Query:
    """A query checked against `known`, the labels by metric; `labels` are those of its result.

    Raises ValueError if a name or label does not exist.
    """

    def __init__(self, text: str, known: Mapping[str, frozenset[str]]) -> None:
        self.metrics: set[str] = set()
        self.selected: list[Selected] = []
        self._known = known
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self.labels = self._expression() or frozenset()
        if self._peek():
            raise self._wrong(f"{self._peek()} is not expected")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        token = self._peek()
        if not token or (expected and token not in expected):
            raise self._wrong(f"{' or '.join(expected) or 'more'} is expected, not {token or 'the end'}")
        self._next += 1
        return token

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"{self._text}: {what}")

    def _expression(self) -> Labels:
        left = self._operand()
        while self._peek() in _OPERATORS:
            operator = self._take()
            left = _joined(left, operator, self._operand())
        return left

    def _operand(self) -> Labels:
        token = self._take()
        if token == "(":
            inside = self._expression()
            self._take(")")
            return inside
        if token[0].isdigit():
            return None
        if token in _AGGREGATIONS:
            return self._aggregation()
        if self._peek() == "(":
            return self._call(token)
        return self._selector(token)

    def _call(self, function: str) -> Labels:
        self._take("(")
        if function == "time":
            self._take(")")
            return None
        given = self._arguments()
        if function == "vector":
            return frozenset()
        if function == "histogram_quantile":
            if "le" not in (given[1] or ()):
                raise self._wrong("a quantile is of buckets, by le")
            return given[1] and given[1] - {"le"}
        if function not in _FUNCTIONS:
            raise self._wrong(f"{function} is no function that this reads")
        return given[0]

    def _arguments(self) -> list[Labels]:
        given = [self._expression()]
        while self._take(",", ")") == ",":
            given.append(self._expression())
        return given

    def _aggregation(self) -> Labels:
        by = self._list("(") if self._peek() == "by" and self._take() else None
        self._take("(")
        inside = self._expression()
        self._take(")")
        if by is None and self._peek() == "by":
            self._take()
            by = self._list("(")
        if inside is None:
            raise self._wrong("a number cannot be added up")
        missing = set(by or ()) - inside
        if missing:
            raise self._wrong(f"{', '.join(sorted(missing))} is no label there; there are {sorted(inside)}")
        return frozenset(by or ())

    def _list(self, opening: str) -> list[str]:
        self._take(opening)
        found = [self._take()]
        while self._take(",", ")") == ",":
            found.append(self._take())
        return found

    def _selector(self, metric: str) -> Labels:
        if metric not in self._known:
            raise self._wrong(f"there is no metric {metric}")
        self.metrics.add(metric)
        labels = self._known[metric] | TARGET
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                self._matcher(metric, labels)
                if self._peek() == ",":
                    self._take()
            self._take("}")
        if self._peek() == "[":
            self._take()
            self._take()
            self._take("]")
        return labels

    def _matcher(self, metric: str, labels: frozenset[str]) -> None:
        label = self._take()
        if label not in labels:
            raise self._wrong(f"{metric} has no label {label}; there are {sorted(labels)}")
        self._take("=", "!=", "=~", "!~")
        self.selected.append(Selected(metric, label, self._take()[1:-1]))


def _joined(left: Labels, operator: str, right: Labels) -> Labels:
    """Return the labels that every series of an operation on two operands has."""
    if left is None or right is None:
        return left if right is None else right
    return left if operator in {"and", "unless"} else left & right


def _tokens(text: str) -> list[str]:
    found, rest = [], text.strip()
    while rest:
        match = _TOKEN.match(rest)
        if match is None:
            raise ValueError(f"{text}: {rest} is not understood")
        found.append(match[0])
        rest = rest[match.end() :].lstrip()
    return found
