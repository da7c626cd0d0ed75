"""Rename the strings of device selectors (CEL) so that they still select the same devices.

Pseudonyms replace strings one to one. So an expression that only compares strings for equality gives the same
result if its literals are replaced as the attributes of devices are. Any other use of a string (`startsWith`,
`matches`, `<`, `+`) reads its characters. The literals of such an expression stay, and so do the values of
all attributes that it mentions. If it can reach attributes without naming them, the values of all stay.

The expressions are read token by token, not parsed: an unknown function counts as one that reads characters.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from podium.api.devices import (
    DeviceAttribute,
    DeviceClaimSpec,
    DeviceClass,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*)
    | (?P<prefix>[rRbB]{0,2})(?P<quote>\"{3}|'{3}|"|')
    | (?P<number>(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[uU]?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<space>\s+)
    | (?P<other>==|!=|<=|>=|&&|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U((?:000{_HEX}|0010){_HEX}{{4}})|([0-3][0-7]{{2}})|(.))",
    re.DOTALL,
)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions and macros that read no characters of a string, functions that parse a literal, and functions that
# read only strings which the expression names.
_EQUATING = _set_of("""
    all exists exists_one filter map has bind of none ofNonZeroValue or orValue hasValue value optMap
    optFlatMap compareTo isGreaterThan isLessThan major minor patch sign asInteger asApproximateFloat
    isInteger add sub includes in
""")
_PARSING = _set_of("quantity isQuantity semver isSemver")
_READING = _set_of("""
    startsWith endsWith contains matches size lowerAscii upperAscii trim find findAll split replace
    substring indexOf lastIndexOf charAt string int uint double format
""")
_LOOPS = frozenset(("all", "exists", "exists_one", "filter", "map"))
_ORDERING = frozenset(("<", ">", "<=", ">=", "+"))


class _Word(NamedTuple):
    kind: str
    text: str
    value: str = ""


class Expression:
    """An expression as tokens. `tells` says that it reads characters of strings, or may do so."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        bare = [each for each in self._tokens if each.kind not in ("space", "comment")]
        self.literals = frozenset(each.value for each in bare if each.kind == "string")
        self.names = frozenset(each.text for each in bare if each.kind == "name") | self.literals
        self.broken = any(each.kind == "broken" for each in bare)
        padded = [_END, *bare, _END, _END, _END]
        around = [padded[at : at + 5] for at in range(len(bare))]
        self.tells = self.broken or any(_tells(*each[:3]) for each in around)
        self.reaches_all = self.broken or any(_reaches(*each) for each in around)

    def renamed(self, rename: Callable[[str], str]) -> str:
        """Return the text with its literals renamed and without comments; parsed literals stay."""
        written, before = [], [_END, _END]
        for token in self._tokens:
            if token.kind == "comment":
                continue
            parsed = before[1].text == "(" and before[0].text in _PARSING
            if token.kind == "string" and not parsed and (new := rename(token.value)) != token.value:
                written.append(json.dumps(new))
            else:
                written.append(token.text)
            if token.kind != "space":
                before = [before[1], token]
        return "".join(written)


_END = _Word("end", "")


def kept_words(objects: Iterable[Any]) -> frozenset[str]:
    """Return the strings of devices that must stay: names of attributes, and those that a selector reads.

    `objects` are all objects of a dump.
    """
    slices: list[ResourceSlice] = []
    expressions: set[str] = set()
    for each in objects:
        if isinstance(each, ResourceSlice):
            slices.append(each)
        else:
            expressions.update(_expressions(each))
    telling = [found for found in map(Expression, expressions) if found.tells]
    mentioned = frozenset[str]().union(*(each.names for each in telling))
    reaches_all = any(each.reaches_all for each in telling)
    words = set(frozenset[str]().union(*(each.literals for each in telling)))
    for each in slices:
        if reaches_all or "driver" in mentioned:
            words.add(each.spec.driver)
        for device in each.spec.devices or ():
            words.update(name.rpartition("/")[2] for name in device.capacity or ())
            for name, attribute in (device.attributes or {}).items():
                domain, _, bare = name.rpartition("/")
                words.add(bare)
                if reaches_all:
                    words.add(domain)
                if reaches_all or bare in mentioned:
                    words.update(_strings(attribute))
    return frozenset(words)


def _strings(attribute: DeviceAttribute) -> Iterator[str]:
    if attribute.string is not None:
        yield attribute.string
    yield from attribute.strings or ()


def _expressions(stored: Any) -> Iterator[str]:
    """Yield the expressions of a class, a claim or a template; other objects have none."""
    match stored:
        case DeviceClass():
            yield from _selected(stored.spec.selectors)
        case ResourceClaim():
            yield from _of_claim(stored.spec)
        case ResourceClaimTemplate():
            yield from _of_claim(stored.spec.spec)
        case _:
            pass


def _of_claim(spec: DeviceClaimSpec) -> Iterator[str]:
    for request in spec.devices.requests or ():
        for each in (request.exactly, *(request.firstAvailable or ())):
            if each is not None:
                yield from _selected(each.selectors)


def _selected(selectors: list[DeviceSelector] | None) -> Iterator[str]:
    for each in selectors or ():
        if each.cel is not None:
            yield each.cel.expression


def _tells(before: _Word, token: _Word, after: _Word) -> bool:
    """Return whether a token may read characters of a string, by the tokens beside it."""
    if token.kind == "bytes":
        return True
    if token.kind == "name" and after.text == "(":
        return token.text not in _EQUATING and token.text not in _PARSING
    if token.text == "(" and before.text in _PARSING:
        return after.kind != "string"
    if token.text in _ORDERING:
        # Beside a number both operands are numbers, and only numbers are negated.
        return before.kind != "number" and after.kind != "number" and after.text != "-"
    return False


def _reaches(before: _Word, token: _Word, *after: _Word) -> bool:
    """Return whether a token may reach an attribute that the expression does not name."""
    if token.kind == "name" and after[0].text == "(":
        return token.text in _LOOPS or token.text not in _EQUATING | _PARSING | _READING
    # An index follows a value; a list does not.
    if token.text != "[" or before.text == "in" or not (before.kind == "name" or before.text in (")", "]")):
        return False
    index, end = after[1:] if after[0].text == "?" else after[:2]
    return index.kind != "string" or end.text != "]"


def _tokens(text: str) -> Iterator[_Word]:
    at = 0
    while (found := _TOKEN.match(text, at)) is not None:
        kind = found.lastgroup or ""
        if kind != "quote":
            yield _Word("broken" if found[0] in ("`", "\\") else kind, found[0])
            at = found.end()
            continue
        raw, quote = "r" in found["prefix"].lower(), found["quote"]
        part = r"." if raw else r"\\.|[^\\]"
        body = re.compile(rf"((?:{part})*?){quote}", re.DOTALL).match(text, found.end())
        if body is None:
            yield _Word("broken", text[at:])
            return
        value = body[1] if raw else _ESCAPE.sub(_unescaped, body[1])
        kind = "bytes" if "b" in found["prefix"].lower() else "string"
        yield _Word(kind, text[at : body.end()], value)
        at = body.end()


def _unescaped(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if found[group]:
            return chr(int(found[group], base))
    return _ESCAPED.get(found[5], found[5])
