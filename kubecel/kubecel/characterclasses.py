"""Classes of characters in regular expressions: named ones as ranges of codes, and case.

Source: Go regexp/syntax (perl_groups.go).
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

LAST = 0x10FFFF
# Of codes, the first and the last of each.
Ranges = tuple[tuple[int, int], ...]
CLASSES: dict[str, Ranges] = {
    "d": ((48, 57),),
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
POSIX: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
CATEGORIES = frozenset(
    [
        "C",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "L",
        "Ll",
        "Lm",
        "Lo",
        "Lt",
        "Lu",
        "M",
        "Mc",
        "Me",
        "Mn",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "S",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Z",
        "Zl",
        "Zp",
        "Zs",
    ]
)


class CharacterSet(NamedTuple):
    """A named class: characters in ranges, or of a general category; perhaps all others."""

    ranges: Ranges = ()
    category: str | None = None
    negated: bool = False

    def has(self, forms: str) -> bool:
        """Return whether one of the forms of a character is in the set."""
        if self.category is None:
            return any(in_ranges(self.ranges, form) for form in forms) != self.negated
        return any(unicodedata.category(form).startswith(self.category) for form in forms) != self.negated


def in_ranges(ranges: Ranges, character: str) -> bool:
    """Return whether sorted ranges that do not overlap have a character."""
    code = ord(character)
    place = bisect_right(ranges, (code, LAST)) - 1
    return place >= 0 and code <= ranges[place][1]


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in order and without overlaps."""
    disjoint: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if disjoint and low <= disjoint[-1][1] + 1:
            disjoint[-1] = disjoint[-1][0], max(high, disjoint[-1][1])
        else:
            disjoint.append((low, high))
    return tuple(disjoint)


def case_forms(character: str) -> str:
    """Return the characters that differ from one only in case, and itself."""
    key = _lower(character)
    forms = {character, key, key.upper(), key.title(), *_OTHER_FORMS.get(key, "")}
    return "".join(form for form in forms if len(form) == 1 and _lower(form) == key)


def _lower(character: str) -> str:
    """Return the form that stands for all of a character."""
    upper = character.upper()
    # The upper case of a dotless i is an ordinary one, which RE2 keeps apart.
    lower = (upper if len(upper) == 1 and character != "\u0131" else character).lower()
    return lower if len(lower) == 1 else character


# The characters that are neither the lower, the upper nor the title case of their form.
_OTHERS = (
    "\u212a\u017f\xb5\u212b\u1e9e\u0345\u1fbe\u03d0\u03f5\u03d1\u03f4\u03f0\u03d6\u03f1\u03c2\u03d5\u2126\u1e9b"
    "\u1c80\u1c81\u1c82\u1c83\u1c84\u1c85\u1c86\u1c87\u1c88"
)
_OTHER_FORMS = {
    _lower(sign): "".join(twin for twin in _OTHERS if _lower(twin) == _lower(sign)) for sign in _OTHERS
}
