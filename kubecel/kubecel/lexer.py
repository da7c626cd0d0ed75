"""Tokens of an expression by the lexical rules of CEL, and the values of literals with their escapes.

Source: cel-go parser/gen/CEL.g4, parser/unescape.go and parser/parser.go.
"""

import re
from typing import NamedTuple

from kubecel.values import Uint

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
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HEX_WIDTH = {"x": 2, "X": 2, "u": 4, "U": 8}
_INT_LIMIT, _UINT_LIMIT = 2**63, 2**64
_ESCAPED = re.compile(r"\\(?:([xXuU])([0-9a-fA-F]+)|([0-3][0-7]{2})|(.))", re.DOTALL)


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
            lexeme = broken[0] if broken is not None else text[place]
            unknown.append(UnknownText(lexeme, place))
            place += len(lexeme)
            continue
        kind, lexeme = str(match.lastgroup), match[0]
        if kind != "blank":
            own_kind = kind == "sign" or (kind == "identifier" and lexeme in _WORDS)
            tokens.append(Token(lexeme if own_kind else kind, lexeme, place))
        place = match.end()
    tokens.append(Token(END, END, place))
    return tokens, unknown


class LiteralError(Exception):
    """A literal without a value; the text is cel-go's."""


def integer(text: str, *, negative: bool) -> int:
    """Return a signed number in decimal or hexadecimal digits. Raises LiteralError if it exceeds 64 bits."""
    number = int(text, 16) if text.startswith("0x") else _decimal(text)
    value = -number if negative else number
    if not -_INT_LIMIT <= value < _INT_LIMIT:
        raise LiteralError("invalid int literal")
    return value


def unsigned(text: str) -> Uint:
    """Return an unsigned number, written with a final u. Raises LiteralError if it exceeds 64 bits."""
    digits = text[:-1]
    number = int(digits, 16) if digits.startswith("0x") else _decimal(digits)
    if number >= _UINT_LIMIT:
        raise LiteralError("invalid uint literal")
    return Uint(number)


def _decimal(digits: str) -> int:
    # Python refuses to read thousands of digits; any such number is out of range.
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) < 30 else _UINT_LIMIT


def floating(text: str, *, negative: bool) -> float:
    """Return a double. Raises LiteralError if it is infinite."""
    value = float(text)
    if value == float("inf"):
        raise LiteralError("invalid double literal")
    return -value if negative else value


def string(text: str) -> str:
    """Return the characters of a string token. Raises LiteralError."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPED.sub(_character, body)


def octets(text: str) -> bytes:
    """Return the bytes of a bytes token, which starts with b. Raises LiteralError."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    place = 0
    for match in _ESCAPED.finditer(body):
        parts += (body[place : match.start()].encode("utf-8", "surrogatepass"), _octet(match))
        place = match.end()
    return b"".join([*parts, body[place:].encode("utf-8", "surrogatepass")])


def _body(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    quoted = text[1:] if raw else text
    width = 3 if len(quoted) >= 6 and quoted[:3] in {'"""', "'''"} else 1
    return quoted[width:-width], raw


def _character(match: re.Match[str]) -> str:
    kind, digits, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    code = int(octal, 8) if octal is not None else int(digits[: _HEX_WIDTH[kind]], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise LiteralError("invalid unicode code point")
    rest = "" if octal is not None else digits[_HEX_WIDTH[kind] :]
    return chr(code) + rest


def _octet(match: re.Match[str]) -> bytes:
    kind, digits, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple).encode("utf-8", "surrogatepass")
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if kind in "uU":
        raise LiteralError("unable to unescape string")
    return bytes([int(digits[:2], 16)]) + digits[2:].encode("utf-8", "surrogatepass")
