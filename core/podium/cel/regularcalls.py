"""Functions of regular expressions: `matches`, `find` and `findAll`.

Source: cel-go common/types/string.go; k8s.io/apiserver/pkg/cel/library/regex.go.
"""

from podium.cel.nodes import SelectorCompileError, SelectorRuntimeError
from podium.cel.operators import no_trait
from podium.cel.regularmachine import Pattern
from podium.cel.regularsyntax import PatternError
from podium.cel.values import Function


def found_in(text: object, expression: object) -> bool:
    """Return whether a pattern matches somewhere in a text."""
    if not isinstance(text, str):
        raise no_trait("matches", text)
    if not isinstance(expression, str):
        raise SelectorRuntimeError("no such overload")
    return _compiled(expression, "").search(text) is not None


def first_match(text: str, expression: str) -> str:
    """Return the first match, or an empty text."""
    return _first(_compiled(expression, "Illegal regex: "), text)


def find_all(text: str, expression: str, limit: int = -1) -> list[object]:
    """Return the matches that do not overlap."""
    return list(_compiled(expression, "Illegal regex: ").find_all(text, limit))


def _first(compiled: Pattern, text: str) -> str:
    found = compiled.search(text)
    return text[slice(*found)] if found is not None else ""


def _compiled(expression: str, prefix: str) -> Pattern:
    """Return the pattern of a text that is known at run time only, at the expense of the evaluation."""
    try:
        return Pattern(expression)
    except PatternError as error:
        raise SelectorRuntimeError(f"{prefix}{error}") from None


def precompiled(function: str, plain: Function, expression: object) -> tuple[Function, int]:
    """Return a function for a constant pattern, and its instructions; 0 if it is the plain one.

    Raises SelectorCompileError for a pattern that RE2 refuses.
    """
    if not isinstance(expression, str):
        return plain, 0
    try:
        compiled = Pattern(expression)
    except PatternError as error:
        raise SelectorCompileError(f"program instantiation failed: {error}") from None

    def call(text: object, _: object, limit: object = -1) -> object:
        if not isinstance(text, str) or type(limit) is not int:
            raise SelectorRuntimeError("no such overload")
        if function == "matches":
            return compiled.search(text) is not None
        return _first(compiled, text) if function == "find" else list(compiled.find_all(text, limit))

    return call, len(compiled)
