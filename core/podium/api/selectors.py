"""Selectors on labels and on nodes in one canonical, hashable form, matched as in Kubernetes.

Filters cache counts and answers by selector, so equivalent selectors must be one key: matchLabels become
expressions, and expressions and their values are sorted. A selector that no server would store is kept,
matches nothing, and is reported to the caller, because its pod cannot be judged.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from podium.api.meta import LabelSelector


class NodeSelectorRequirement(msgspec.Struct, gc=False):
    """An expression on a node's labels, or on its fields."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, gc=False):
    """Expressions that must all hold; a term without expressions selects nothing."""

    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(msgspec.Struct, gc=False):
    """Terms of which one must hold."""

    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


Labels = Mapping[str, str]

NAME_FIELD = "metadata.name"
_LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS = _LABEL_OPERATORS | {"Gt", "Lt"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class Requirement(NamedTuple):
    """An expression on labels: In, NotIn, Exists, DoesNotExist, and for nodes Gt and Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether it holds; NotIn and DoesNotExist hold for an absent label."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        have, want = _integer(value), _integer(self.values[0] if len(self.values) == 1 else None)
        if have is None or want is None:
            return False
        return have > want if self.operator == "Gt" else have < want


class Selector(NamedTuple):
    """A label selector: sorted requirements that must all hold; an empty selector matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether all requirements hold."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def counting(self, *, empty: bool) -> "Selector | None":
        """Return the selector; None for an empty one unless `empty` ones count."""
        return self if empty or self.requirements else None


# The forms of a requirement in a selector's text, as in kubectl's -l.
_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_FORMS = (
    (re.compile(rf"({_KEY})\s*==?\s*({_VALUE})"), "In"),
    (re.compile(rf"({_KEY})\s*!=\s*({_VALUE})"), "NotIn"),
    (re.compile(rf"({_KEY})\s+in\s*\(([^()]*)\)"), "In"),
    (re.compile(rf"({_KEY})\s+notin\s*\(([^()]*)\)"), "NotIn"),
    (re.compile(rf"({_KEY})\s*>\s*(-?[0-9]+)"), "Gt"),
    (re.compile(rf"({_KEY})\s*<\s*(-?[0-9]+)"), "Lt"),
    (re.compile(rf"!\s*({_KEY})()"), "DoesNotExist"),
    (re.compile(rf"({_KEY})()"), "Exists"),
)
_COMMA = re.compile(r",(?![^()]*\))")


def parse_selector(text: str) -> Selector:
    """Return the selector of a text as in kubectl's -l: `a=b,c!=d,e in (x,y),!f`. Raises ValueError."""
    return Selector(tuple(map(_parse_requirement, _COMMA.split(text))) if text.strip() else ())


def _parse_requirement(text: str) -> Requirement:
    for form, operator in _FORMS:
        match = form.fullmatch(text.strip())
        if match is not None:
            values = tuple(value.strip() for value in match[2].split(","))
            return Requirement(match[1], operator, () if operator in ("DoesNotExist", "Exists") else values)
    raise ValueError(f"{text.strip()!r} is not a label requirement, such as app=web")


class NodeRequirement(NamedTuple):
    """Expressions on a node's labels and on its name that must all hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Labels) -> bool:
        """Return whether it matches a node."""
        named = {NAME_FIELD: name}
        return all(expression.matches(labels) for expression in self.expressions) and all(
            field.matches(named) for field in self.fields
        )


def selector_of(selector: LabelSelector | None, unreadable: dict[str, None]) -> Selector | None:
    """Return the canonical form of a label selector, None for None.

    Descriptions of parts that cannot be judged are added to `unreadable`.
    """
    if selector is None:
        return None
    expressions = [
        Requirement(expression.key, expression.operator, tuple(sorted(set(expression.values or ()))))
        for expression in selector.matchExpressions or ()
    ]
    for expression in expressions:
        if expression.operator not in _LABEL_OPERATORS:
            unreadable[f"the label selector operator {expression.operator}"] = None
    labels = (selector.matchLabels or {}).items()
    return conjoined(*(Requirement(key, "In", (value,)) for key, value in labels), *expressions)


def conjoined(*requirements: Requirement) -> Selector:
    """Return the selector of all these requirements."""
    return Selector(tuple(sorted(set(requirements))))


def node_terms(
    terms: Iterable[NodeSelectorTerm] | None, unreadable: dict[str, None]
) -> tuple[NodeRequirement, ...]:
    """Return node selector terms in canonical form, in order, without empty terms, which select nothing."""
    return tuple(
        _node_term(term, unreadable) for term in terms or () if term.matchExpressions or term.matchFields
    )


def _node_term(term: NodeSelectorTerm, unreadable: dict[str, None]) -> NodeRequirement:
    for expression in term.matchFields or ():
        # A server stores no other field, and one name each.
        if (
            expression.key != NAME_FIELD
            or expression.operator not in ("In", "NotIn")
            or len(expression.values or ()) != 1
        ):
            unreadable[f"the node field expression {expression.key} {expression.operator}"] = None
    for expression in term.matchExpressions or ():
        if expression.operator not in _NODE_OPERATORS:
            unreadable[f"the node selector operator {expression.operator}"] = None
    return NodeRequirement(_sorted(term.matchExpressions or ()), _sorted(term.matchFields or ()))


def _sorted(expressions: Iterable[NodeSelectorRequirement]) -> tuple[Requirement, ...]:
    return tuple(
        sorted(
            {
                Requirement(
                    expression.key or "",
                    expression.operator or "",
                    tuple(sorted(set(expression.values or ()))),
                )
                for expression in expressions
            }
        )
    )


def _integer(value: str | None) -> int | None:
    """Return a label as a decimal number of 64 bits, as kube-scheduler reads it, or None."""
    if value is None or _INTEGER.fullmatch(value) is None:
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None
