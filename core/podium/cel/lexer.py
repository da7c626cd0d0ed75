"""Tokens of an expression, by the lexical rules of CEL.

Source: cel-go parser/gen/CEL.g4.
"""

import re
from typing import NamedTuple

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"""(?s:.*?)"""',
        r"[rR]'''(?s:.*?)'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<blank>[\t \r\n\f]+|//[^\n]*)",
            rf"(?P<bytes>[bB](?:{_STRING}))",
            rf"(?P<string>{_STRING})",
            r"(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])",
            r"(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)",
            r"(?P<int>0x[0-9a-fA-F]+|[0-9]+)",
            r"(?P<identifier>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)",
            r"(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])",
        )
    )
)
# Words that are tokens of their own.
_WORDS = frozenset({"in", "true", "false", "null"})
END = "<EOF>"


class Token(NamedTuple):
    """A token: its kind (for signs and reserved words the text itself), its text and its offset."""

    kind: str
    text: str
    offset: int


class UnknownText(NamedTuple):
    """A text that is no token."""

    text: str
    offset: int


# A string that does not end: up to the end of the line, or through an escape that is none.
_BROKEN = re.compile(rf"[bB]?[rR]?([\"'])(?:{_ESCAPE}|(?!\1)[^\\\n\r])*(?:\\.)?", re.DOTALL)


def tokens_of(text: str) -> tuple[list[Token], list[UnknownText]]:
    """Return the tokens of a text with an end token, and the parts that are no tokens."""
    tokens: list[Token] = []
    unknown: list[UnknownText] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            broken = _BROKEN.match(text, place)
            found = broken[0] if broken is not None else text[place]
            unknown.append(UnknownText(found, place))
            place += len(found)
            continue
        kind, found = str(match.lastgroup), match[0]
        if kind != "blank":
            own_kind = kind == "sign" or (kind == "identifier" and found in _WORDS)
            tokens.append(Token(found if own_kind else kind, found, place))
        place = match.end()
    tokens.append(Token(END, END, place))
    return tokens, unknown
