"""The syntax of RE2, read into a program for a machine without backtracking.

Selectors are written by tenants: Python's own engine takes exponential time on hostile patterns. The
syntax and its errors are those of Go's regexp; classes of scripts such as Greek are not known.

Source: Go regexp/syntax.
"""

from typing import NamedTuple

from kubecel.characterclasses import (
    CATEGORIES,
    CLASSES,
    LAST,
    POSIX,
    CharacterSet,
    Ranges,
    case_forms,
    in_ranges,
    merged,
)
from kubecel.effort import meter

_MAX_REPEAT = 1000
# Groups in groups, and characters of a pattern: the limits of Go are higher.
MAX_GROUPS, MAX_PATTERN = 50, 10_240
# The effort of reading a character of a pattern, or a part of a class.
_PART = 8
# The effort of the first look whether a class has a character.
_LOOKED_UP = 5
# Larger programs are refused: upstream accepts more, and takes long for them.
MAX_PROGRAM = 20_000
_ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class PatternError(Exception):
    """A pattern that RE2 refuses; the text is Go's."""

    def __init__(self, reason: str, part: str) -> None:
        """Name the reason and the part of the pattern."""
        super().__init__(f"error parsing regexp: {reason}: `{part}`")


class PatternNode(NamedTuple):
    """A node of a pattern: its kind, its parts and its numbers."""

    kind: str
    parts: "tuple[PatternNode, ...]" = ()
    ranges: Ranges = ()
    named: tuple[CharacterSet, ...] = ()
    negated: bool = False
    fold: bool = False
    least: int = 0
    most: int = 0
    greedy: bool = True


_EMPTY = PatternNode("empty")


class _Flags(NamedTuple):
    fold: bool = False
    multiline: bool = False
    dot_all: bool = False
    ungreedy: bool = False


def parse_pattern(pattern: str) -> PatternNode:
    """Return the tree of a pattern. Raises PatternError."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError("expression too large", pattern[:MAX_PATTERN])
    reader = _PatternReader(pattern)
    tree = reader.alternatives(0)
    if reader.place < len(pattern):
        raise PatternError("unexpected )", pattern)
    if _repetitions(tree) > _MAX_REPEAT:
        raise PatternError("invalid repeat count", reader.repetition)
    if _instructions(tree) >= MAX_PROGRAM:
        raise PatternError("expression too large", pattern)
    return tree


def _instructions(step: PatternNode) -> int:
    """Return the number of instructions for a node."""
    parts = sum(map(_instructions, step.parts))
    match step.kind:
        case "empty" | "group" | "sequence":
            return parts
        case "either":
            return parts + 2 * (len(step.parts) - 1)
        case "repeat":
            more = parts + 2 if step.most < 0 else (step.most - step.least) * (parts + 1)
            return step.least * parts + more
        case _:
            return 1


def _repetitions(step: PatternNode) -> int:
    inner = max((_repetitions(child) for child in step.parts), default=1)
    if step.kind != "repeat":
        return inner
    times = step.most if step.most >= 0 else step.least
    return max(times, 1) * inner


class _PatternReader:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self.place = 0
        self._flags = _Flags()
        self.repetition = ""

    def alternatives(self, depth: int) -> PatternNode:
        if depth > MAX_GROUPS:
            raise PatternError("expression nests too deeply", self._text)
        branches: list[PatternNode] = []
        while True:
            branches.append(self._sequence(depth))
            if self._peek() != "|":
                break
            self.place += 1
        return branches[0] if len(branches) == 1 else PatternNode("either", tuple(branches))

    def _sequence(self, depth: int) -> PatternNode:
        parts: list[PatternNode] = []
        repeated = ""
        while (sign := self._peek()) and sign not in "|)":
            start = self.place
            if sign in "*+?" or (sign == "{" and self._bounds() is not None):
                repetition = self._repeated(parts, start, repeated)
                repeated = self._text[start : self.place]
                parts.append(repetition)
                continue
            repeated = ""
            item = self._one(depth)
            if item is not None:
                parts.append(item)
        return parts[0] if len(parts) == 1 else PatternNode("sequence", tuple(parts)) if parts else _EMPTY

    def _repeated(self, parts: list[PatternNode], start: int, before: str) -> PatternNode:
        sign = self._text[start]
        if sign == "{":
            counted = self._bounds()
            assert counted is not None
            least, most, self.place = counted
        else:
            self.place += 1
            least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[sign]
        greedy = not self._flags.ungreedy
        if self._peek() == "?":
            self.place += 1
            greedy = not greedy
        shown = self._text[start : self.place]
        if before:
            raise PatternError("invalid nested repetition operator", before + shown)
        if least > _MAX_REPEAT or most > _MAX_REPEAT or 0 <= most < least:
            raise PatternError("invalid repeat count", self._text[start : self.place])
        if not parts:
            raise PatternError("missing argument to repetition operator", shown)
        if sign == "{":
            self.repetition = shown
        return PatternNode("repeat", (parts.pop(),), least=least, most=most, greedy=greedy)

    def _bounds(self) -> tuple[int, int, int] | None:
        """Return the bounds of a counted repetition and its end; None if it is no such."""
        end = self._text.find("}", self.place)
        inner = self._text[self.place + 1 : end] if end >= 0 else ""
        least, comma, most = inner.partition(",")
        if not _digits(least) or (most and not _digits(most)):
            return None
        low = min(int(least[:9]), 10**8)
        high = min(int(most[:9]), 10**8) if most else (-1 if comma else low)
        return low, high, end + 1

    def _one(self, depth: int) -> PatternNode | None:
        meter.spend(_PART)
        sign = self._text[self.place]
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return self._class()
        self.place += 1
        match sign:
            case ".":
                everything = ((0, LAST),) if self._flags.dot_all else ((0, 9), (11, LAST))
                return PatternNode("class", ranges=everything)
            case "^":
                return PatternNode("line_start" if self._flags.multiline else "start")
            case "$":
                return PatternNode("line_end" if self._flags.multiline else "end")
            case "\\":
                return self._escape()
            case _:
                return self._literal(ord(sign))

    def _literal(self, code: int) -> PatternNode:
        return PatternNode("class", ranges=((code, code),), fold=self._flags.fold)

    def _group(self, depth: int) -> PatternNode | None:
        start = self.place
        kept = self._flags
        self.place += 1
        if self._peek() == "?":
            self.place += 1
            if self._text.startswith(("P<", "<"), self.place):
                self._group_name(start)
            elif self._group_flags(start):
                return None
        inner = self.alternatives(depth + 1)
        if self._peek() != ")":
            raise PatternError("missing closing )", self._text)
        self.place += 1
        self._flags = kept
        return PatternNode("group", (inner,))

    def _group_name(self, start: int) -> None:
        opening = self._text.index("<", self.place)
        end = self._text.find(">", opening)
        if end < 0:
            raise PatternError("invalid named capture", self._text[start:])
        name = self._text[opening + 1 : end]
        if not name or not all(c == "_" or (c.isascii() and c.isalnum()) for c in name):
            raise PatternError("invalid named capture", self._text[start : end + 1])
        self.place = end + 1

    def _group_flags(self, start: int) -> bool:
        """Read flags; return whether they end without a group."""
        names = {"i": "fold", "m": "multiline", "s": "dot_all", "U": "ungreedy"}
        value, seen = True, False
        while sign := self._peek():
            self.place += 1
            if sign in names:
                self._flags = self._flags._replace(**{names[sign]: value})
                seen = True
            elif sign == "-" and value:
                value, seen = False, False
            elif sign in ":)" and (value or seen):
                return sign == ")"
            else:
                break
        else:
            raise PatternError("missing argument to repetition operator", "?")
        raise PatternError("invalid or unsupported Perl syntax", self._text[start : self.place])

    def _class(self) -> PatternNode:
        start = self.place
        self.place += 1
        negated = self._peek() == "^"
        self.place += negated
        ranges: list[tuple[int, int]] = []
        # Each named class once, in order.
        named: dict[CharacterSet, None] = {}
        first = True
        while (sign := self._peek()) and (sign != "]" or first):
            meter.spend(_PART)
            if sign == "-" and not first and not self._text.startswith("-]", self.place):
                after = self._text[self.place + 1 : self.place + 2]
                raise PatternError("invalid character class range", "-" + after)
            first = False
            if (
                self._text.startswith("[:", self.place)
                and (end := self._text.find(":]", self.place + 2)) >= 0
            ):
                named[self._posix(end)] = None
            elif sign == "\\" and self._text[self.place + 1 : self.place + 2] in set("dswDSWpP"):
                self.place += 1
                named[self._named_class()] = None
            else:
                self._class_range(start, ranges)
        if not sign:
            raise PatternError("missing closing ]", self._text[start:])
        self.place += 1
        return PatternNode(
            "class", ranges=merged(ranges), named=tuple(named), negated=negated, fold=self._flags.fold
        )

    def _posix(self, end: int) -> CharacterSet:
        name = self._text[self.place + 2 : end]
        known = POSIX.get(name.removeprefix("^"))
        if known is None:
            raise PatternError("invalid character class range", self._text[self.place : end + 2])
        self.place = end + 2
        return CharacterSet(known, negated=name.startswith("^"))

    def _named_class(self) -> CharacterSet:
        sign = self._text[self.place]
        self.place += 1
        if sign in "pP":
            return self._category(negated=sign == "P")
        return CharacterSet(CLASSES[sign.lower()], negated=sign.isupper())

    def _category(self, *, negated: bool) -> CharacterSet:
        start = self.place - 2
        if self._peek() == "{":
            end = self._text.find("}", self.place)
            if end < 0:
                raise PatternError("invalid character class range", self._text[start:])
            name = self._text[self.place + 1 : end]
            self.place = end + 1
        else:
            name = self._peek()
            self.place += 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in CATEGORIES and name != "Any":
            raise PatternError("invalid character class range", self._text[start : self.place])
        return CharacterSet(category="" if name == "Any" else name, negated=negated)

    def _class_range(self, start: int, ranges: list[tuple[int, int]]) -> None:
        begun = self.place
        low = self._class_character(start)
        high = low
        if self._peek() == "-" and self._text[self.place + 1 : self.place + 2] not in {"]", ""}:
            self.place += 1
            high = self._class_character(start)
            if high < low:
                raise PatternError("invalid character class range", self._text[begun : self.place])
        ranges.append((low, high))

    def _class_character(self, start: int) -> int:
        if not self._peek():
            raise PatternError("missing closing ]", self._text[start:])
        sign = self._text[self.place]
        self.place += 1
        return self._escaped_character() if sign == "\\" else ord(sign)

    def _escape(self) -> PatternNode:
        sign = self._peek()
        if sign and sign in "AzbB":
            self.place += 1
            return PatternNode({"A": "start", "z": "end", "b": "boundary", "B": "no_boundary"}[sign])
        if sign == "Q":
            end = self._text.find("\\E", self.place)
            text = self._text[self.place + 1 : end if end >= 0 else len(self._text)]
            self.place = end + 2 if end >= 0 else len(self._text)
            meter.spend(_PART * len(text))
            return PatternNode("sequence", tuple(self._literal(ord(c)) for c in text))
        if sign and sign in "dswDSWpP":
            return PatternNode("class", named=(self._named_class(),), fold=self._flags.fold)
        return self._literal(self._escaped_character())

    def _escaped_character(self) -> int:
        start = self.place - 1
        sign = self._peek()
        if not sign:
            raise PatternError("trailing backslash at end of expression", "")
        self.place += 1
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        if sign == "x":
            return self._hexadecimal(start)
        if sign == "0" or (sign in "1234567" and self._peek() in set("01234567")):
            digits = sign
            while len(digits) < 3 and self._peek() in set("01234567"):
                digits += self._peek()
                self.place += 1
            return int(digits, 8)
        if sign.isascii() and not sign.isalnum() and sign != "_":
            return ord(sign)
        if sign == "_":
            return ord(sign)
        raise PatternError("invalid escape sequence", self._text[start : self.place])

    def _hexadecimal(self, start: int) -> int:
        if self._peek() == "{":
            end = self._text.find("}", self.place)
            digits = self._text[self.place + 1 : end] if end >= 0 else ""
            self.place = end + 1 if end >= 0 else len(self._text)
        else:
            digits = self._text[self.place : self.place + 2]
            digits = digits if len(digits) == 2 else ""
            self.place = min(self.place + 2, len(self._text))
        if not digits or not all(c in "0123456789abcdefABCDEF" for c in digits) or int(digits, 16) > LAST:
            raise PatternError("invalid escape sequence", self._text[start : self.place])
        return int(digits, 16)

    def _peek(self) -> str:
        return self._text[self.place : self.place + 1]


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))


def in_class(step: PatternNode, character: str) -> bool:
    """Return whether a class has a character."""
    forms = case_forms(character) if step.fold else character
    meter.spend(_LOOKED_UP + len(step.named))
    inside = any(in_ranges(step.ranges, form) for form in forms) or any(
        charset.has(forms) for charset in step.named
    )
    return inside != step.negated
