"""YAML output: every reader gets the values back, and text stays text."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from podium.documents.yamldoc import load_all
from podium.documents.yamlwriter import dump_all

# Text as msgspec can read it from JSON: anything but half a surrogate pair.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    "019+-._:eExXobyYnNfF \n", max_size=6
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
@example(
    {"a": "", "true": "no", "1": "1e3", "n": "0x1f", "-": "- a", ": ": "#", "~": "null", "\u2028": "\x85"}
)
@example({"a" * 2000: {"b" * 2000: ["c"]}, "d": [{"e" * 1100: 1, "f": 2}]})
@example({"a": [1e16, 1e-7, 1.5e300, -0.0, 5e-324]})
@example({"a": [[], {}, [[1, [2]], {"b": [{"c": None}]}], True]})
def test_readers_get_the_same_values(value: dict[str, Any]) -> None:
    """PyYAML and our reader, which has kubectl's rules, read a stream of documents unchanged."""
    text = dump_all([value, value])
    assert [*yaml.safe_load_all(text)] == [*load_all(text.encode())] == [value, value]


@pytest.mark.parametrize(
    "text",
    ["yes", "No", "OFF", "True", "y", "N", "null", "~", "", "12", "1e3", "0x1f", "2026-11-23", "<<", "="],
)
def test_text_that_is_no_text_to_some_reader_is_quoted(text: str) -> None:
    """Text that a reader of YAML 1.1 or 1.2 takes for a boolean, a number, a date or null has quotes."""
    assert dump_all([{"key": text}]) == f"key: '{text}'\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("#!/bin/sh\nif x; then\n  y\nfi\n", "a: |\n  #!/bin/sh\n  if x; then\n    y\n  fi\n"),
        ("x\n\ny", "a: |-\n  x\n\n  y\n"),
        (" begins with a space\n", 'a: " begins with a space\\n"\n'),
        ("ends in a space \nx\n", 'a: "ends in a space \\nx\\n"\n'),
        ("a\ttab\n", 'a: "a\\ttab\\n"\n'),
        ("x\n\n", 'a: "x\\n\\n"\n'),
    ],
    ids=["a script", "no last line break", "indented", "trailing space", "tab", "empty last line"],
)
def test_text_of_several_lines_is_a_block_if_a_block_keeps_it(text: str, written: str) -> None:
    assert dump_all([{"a": text}]) == written
    assert [*load_all(written.encode())] == [{"a": text}]


def test_text_that_terminals_obey_is_escaped() -> None:
    """Control characters and direction changes are escaped; other text is readable."""
    assert dump_all([{"a": "Zürich: 東京\n"}]) == "a: |\n  Zürich: 東京\n"
    assert dump_all([{"a": "\x1b[31m\u202egnp"}]) == 'a: "\\e[31m\\u202Egnp"\n'
