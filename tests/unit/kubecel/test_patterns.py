"""The matcher of regular expressions agrees with Python's on patterns that both know."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecel.effort import meter
from kubecel.patterns import Pattern
from kubecel.patternsyntax import PatternError

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "(?:ab)", "(a|b)", "\\w", "\\b", "^", "$"])
_COUNTS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "*?", "+?", "??"])


def _joined(parts: list[tuple[str, str]]) -> str:
    return "".join(atom if atom in {"\\b", "^", "$"} else atom + count for atom, count in parts)


_PATTERNS = st.lists(st.tuples(_ATOMS, _COUNTS), min_size=1, max_size=5).map(_joined)


@given(st.lists(_PATTERNS, min_size=1, max_size=2).map("|".join), st.text("ab c\n", max_size=8))
def test_a_match_is_the_one_that_python_finds(pattern: str, text: str) -> None:
    meter.begin()
    # In RE2 a final $ does not match before a line break.
    expected = re.search(pattern.replace("$", "\\Z"), text)
    found = Pattern(pattern).search(text)
    assert found == (expected.span() if expected is not None else None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a+", "caat aa", ["aa", "aa"]),
        ("", "ab", ["", "", ""]),
        ("a*", "baa", ["", "aa"]),
        ("(?i)ab", "aB AB", ["aB", "AB"]),
        ("[[:digit:]]+", "a12b3", ["12", "3"]),
        ("\\pL+", "ab1\u00e9", ["ab", "\u00e9"]),
        ("\\Qa.b\\E", "a.b axb", ["a.b"]),
        ("(?m)^b$", "a\nb\nc", ["b"]),
        ("(?U)a+", "aaa", ["a", "a", "a"]),
        ("(?P<name>a)", "a", ["a"]),
        ("\\x{e9}|\\x41", "\u00e9A", ["\u00e9", "A"]),
    ],
)
def test_all_matches_are_found(pattern: str, text: str, found: list[str]) -> None:
    meter.begin()
    assert Pattern(pattern).find_all(text, -1) == found


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("\\8", "invalid escape sequence: `\\8`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("[z-a]", "invalid character class range: `z-a`"),
    ],
)
def test_a_pattern_is_refused_with_the_text_of_go(pattern: str, error: str) -> None:
    with pytest.raises(PatternError) as refused:
        Pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {error}"
