"""Classes of characters in regular expressions: named ones as ranges of codes, complements and case.

Source: Go regexp/syntax (perl_groups.go).
"""

LAST = 0x10FFFF
CLASSES = {
    "d": [(48, 57)],
    "s": [(9, 10), (12, 13), (32, 32)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
}
POSIX = {
    "alnum": [(48, 57), (65, 90), (97, 122)],
    "alpha": [(65, 90), (97, 122)],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": [(48, 57)],
    "graph": [(33, 126)],
    "lower": [(97, 122)],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)],
    "word": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "xdigit": [(48, 57), (65, 70), (97, 102)],
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
Ranges = list[tuple[int, int]]


def complement(ranges: Ranges) -> Ranges:
    """Return the characters that are in none of some ranges."""
    found: Ranges = []
    after = 0
    for low, high in sorted(ranges):
        if low > after:
            found.append((after, low - 1))
        after = max(after, high + 1)
    return [*found, (after, LAST)] if after <= LAST else found


def _case_variants(code: int) -> Ranges:
    """Return the characters that differ from one only in case."""
    character = chr(code)
    close = {character, character.lower(), character.upper(), character.swapcase()}
    close |= {each.lower() for each in close} | {each.upper() for each in close}
    extra = {"k": "\u212a", "K": "\u212a", "\u212a": "kK", "s": "\u017f", "S": "\u017f", "\u017f": "sS"}
    close |= set(extra.get(character, ""))
    return sorted((ord(each), ord(each)) for each in close if len(each) == 1)


def folded(ranges: Ranges) -> Ranges:
    """Return ranges with the characters that differ from theirs only in case."""
    found = list(ranges)
    for low, high in ranges:
        for code in range(low, min(high, low + 2000) + 1):
            found += _case_variants(code)
    return found
