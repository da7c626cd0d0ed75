"""Rename the strings of device selectors (CEL) so that they still select the same devices.

Pseudonyms replace strings one to one. So an expression that only compares strings for equality gives the same
result if its literals are replaced as the attributes of devices are. Any other use of a string (`startsWith`,
`matches`, `<`, `+`) reads its characters. The literals of such an expression stay, and so do the values of
all attributes that it mentions. If it can reach attributes without naming them, the values of all stay.

The expressions are read token by token, not parsed: an unknown function counts as one that reads characters.
An expression that no API server accepts counts as one that reads all.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kubecel.lexer import LiteralError, Token, string, tokens_of
from podium.api import devices

_COMMENT = re.compile(r"//[^\n]*")
_NUMBERS = frozenset(("int", "uint", "float"))


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions and macros that read no characters of a string, functions that parse a literal, and functions that
# read only strings which the expression names.
_EQUATING = _set_of("""
    all exists exists_one filter map has bind of none ofNonZeroValue or orValue hasValue value optMap
    optFlatMap compareTo isGreaterThan isLessThan major minor patch sign asInteger asApproximateFloat
    isInteger add sub includes
""")
_PARSING = _set_of("quantity isQuantity semver isSemver")
_READING = _set_of("""
    startsWith endsWith contains matches size lowerAscii upperAscii trim find findAll split replace
    substring indexOf lastIndexOf charAt string int uint double format
""")
_LOOPS = frozenset(("all", "exists", "exists_one", "filter", "map"))
_ORDERING = frozenset(("<", ">", "<=", ">=", "+"))


class Expression:
    """An expression as tokens. `tells` says that it reads characters of strings, or may do so."""

    def __init__(self, text: str) -> None:
        tokens, unknown = tokens_of(text)
        tokens.pop()
        self._text = text
        # The value of each string, by its offset.
        self._values: dict[int, str] = {}
        # An escaped name may be that of a domain, whose pseudonym another token would hold.
        broken = bool(unknown) or any(token.kind == "escaped" for token in tokens)
        for token in tokens:
            if token.kind == "string":
                try:
                    self._values[token.offset] = string(token.text)
                except LiteralError:
                    broken = True
        self._parts = sorted((*tokens, *(Token("unknown", *gap) for gap in unknown)), key=_offset)
        self.literals = frozenset(self._values.values())
        self.identifiers = frozenset(token.text for token in tokens if token.kind == "identifier")
        self.names = self.identifiers | self.literals
        padded = [_END, *tokens, _END, _END, _END]
        around = [padded[at : at + 5] for at in range(len(tokens))]
        self.tells = broken or any(_tells(*window[:3]) for window in around)
        self.reaches_all = broken or any(_reaches(*window) for window in around)

    def renamed(self, rename: Callable[[str], str]) -> str:
        """Return the text with its literals renamed and without comments; parsed literals stay."""
        written: list[str] = []
        end, before = 0, [_END, _END]
        for token in self._parts:
            written.append(_COMMENT.sub("", self._text[end : token.offset]))
            end = token.offset + len(token.text)
            value = self._values.get(token.offset)
            parsed = before[1].text == "(" and before[0].text in _PARSING
            new = rename(value) if value is not None and not parsed else value
            written.append(token.text if new is None or new == value else json.dumps(new))
            before = [before[1], token]
        return "".join((*written, _COMMENT.sub("", self._text[end:])))


_END = Token("end", "", 0)


def _offset(token: Token) -> int:
    return token.offset


def kept_words(objects: Iterable[Any]) -> frozenset[str]:
    """Return the strings of devices that must stay: names of attributes, and those that a selector reads.

    `objects` are all objects of a dump.
    """
    slices: list[devices.ResourceSlice] = []
    expressions: set[str] = set()
    for item in objects:
        if isinstance(item, devices.ResourceSlice):
            slices.append(item)
        else:
            expressions.update(_expressions(item))
    read = list(map(Expression, expressions))
    telling = [expression for expression in read if expression.tells]
    # A field of the attributes is a domain: `device.attributes.acme`.
    identifiers = frozenset[str]().union(*(expression.identifiers for expression in read))
    mentioned = frozenset[str]().union(*(expression.names for expression in telling))
    reaches_all = any(expression.reaches_all for expression in telling)
    words = set(frozenset[str]().union(*(expression.literals for expression in telling)))
    for resource_slice in slices:
        if reaches_all or "driver" in mentioned or resource_slice.spec.driver in identifiers:
            words.add(resource_slice.spec.driver)
        for device in resource_slice.spec.devices or ():
            words.update(name.rpartition("/")[2] for name in device.capacity or ())
            for name, attribute in (device.attributes or {}).items():
                domain, _, bare = name.rpartition("/")
                words.add(bare)
                if reaches_all or domain in identifiers:
                    words.add(domain)
                if reaches_all or bare in mentioned:
                    words.update(_strings(attribute))
    return frozenset(words)


def _strings(attribute: devices.DeviceAttribute) -> Iterator[str]:
    if attribute.string is not None:
        yield attribute.string
    yield from attribute.strings or ()


def _expressions(stored: Any) -> Iterator[str]:
    """Yield the expressions of a class, a claim or a template; other objects have none."""
    match stored:
        case devices.DeviceClass():
            yield from _selected(stored.spec.selectors)
        case devices.ResourceClaim():
            yield from _of_claim(stored.spec)
        case devices.ResourceClaimTemplate():
            yield from _of_claim(stored.spec.spec)
        case _:
            pass


def _of_claim(spec: devices.DeviceClaimSpec) -> Iterator[str]:
    for request in spec.devices.requests or ():
        for option in (request.exactly, *(request.firstAvailable or ())):
            if option is not None:
                yield from _selected(option.selectors)


def _selected(selectors: list[devices.DeviceSelector] | None) -> Iterator[str]:
    for selector in selectors or ():
        if selector.cel is not None:
            yield selector.cel.expression


def _tells(before: Token, token: Token, after: Token) -> bool:
    """Return whether a token may read characters of a string, by the tokens beside it."""
    if token.kind == "bytes":
        return True
    if token.kind == "identifier" and after.kind == "(":
        return token.text not in _EQUATING and token.text not in _PARSING
    if token.kind == "(" and before.text in _PARSING:
        return after.kind != "string"
    if token.kind in _ORDERING:
        # Beside a number both operands are numbers, and only numbers are negated.
        return before.kind not in _NUMBERS and after.kind not in _NUMBERS and after.kind != "-"
    return False


def _reaches(before: Token, token: Token, *after: Token) -> bool:
    """Return whether a token may reach an attribute that the expression does not name."""
    if token.kind == "identifier" and after[0].kind == "(":
        return token.text in _LOOPS or token.text not in _EQUATING | _PARSING | _READING
    # An index follows a value; a list does not.
    if token.kind != "[" or before.kind not in ("identifier", ")", "]"):
        return False
    index, end = after[1:] if after[0].kind == "?" else after[:2]
    return index.kind != "string" or end.kind != "]"
