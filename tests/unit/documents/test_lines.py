"""The line of a field, in every kind of file, compared with a person's count."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.documents.document import Lines
from podium.documents.jsondoc import end_of_value

INDENTED = b"""\xef\xbb\xbf
{
    "apiVersion": "v1",
    "items": [
        {
            "kind": "Pod",
            "metadata": {"labels": {
                "a.b/c": "x",
                "e\\u0073c": "y"
            }}
        },
        {
            "kind": "Pod",
            "spec": {"containers": [{}, {
                "name": "main"
            }]}
        }
    ],
    "kind": "List"
}
""".removeprefix(b"\xef\xbb\xbf")
MIXED = b'{"a": 1}\n{\n"b": [\n1,\n2]}\n---\nc: 1\n---\n# x\nd:\n- e: 1\n'

CASES: list[tuple[str, bytes, int, str, int | None]] = [
    ("the document", INDENTED, 1, "", 2),
    ("a field", INDENTED, 1, "kind", 19),
    ("an item", INDENTED, 1, "items[1]", 12),
    ("a key with dots and a slash", INDENTED, 1, "items[0].metadata.labels[a.b/c]", 8),
    ("an escaped key", INDENTED, 1, "items[0].metadata.labels[esc]", 9),
    ("the field of an element", INDENTED, 1, "items[1].spec.containers[1].name", 15),
    ("a field that does not exist: its parent", INDENTED, 1, "items[1].spec.priority", 14),
    ("an element that does not exist", INDENTED, 1, "items[7].spec", 4),
    ("an element of an object", INDENTED, 1, "kind[0]", 19),
    ("a path that means nothing", INDENTED, 1, "[...]", 2),
    ("a document that does not exist", INDENTED, 2, "", None),
    ("the first JSON value", MIXED, 1, "a", 1),
    ("the second JSON value", MIXED, 2, "b[1]", 5),
    ("YAML after it", MIXED, 3, "c", 7),
    ("a later YAML document", MIXED, 4, "d[0].e", 11),
    ("what YAML does not have", MIXED, 4, "d[1].e.f", 10),
    ("an empty text", b"", 1, "a", None),
    ("an empty list", b'{"a":\n[]}', 1, "a[0]", 1),
    ("broken JSON before it", b'{"a": }\n{"b": 1}', 2, "b", None),
    ("broken YAML before it", b"a: [\n---\nb: 1", 2, "b", None),
]


@pytest.mark.parametrize(
    ("text", "document", "field", "line"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_line_is_where_a_person_finds_the_field(
    text: bytes, document: int, field: str, line: int | None
) -> None:
    assert Lines(memoryview(text)).line(document, field) == line


def test_questions_in_any_order_have_the_same_answers() -> None:
    """One lookup must not change the next."""
    lines = Lines(memoryview(MIXED))
    questions = [case[2:] for case in CASES if case[1] is MIXED]
    for _ in range(2):
        for document, field, line in reversed(questions):
            assert lines.line(document, field) == line


def test_lines_beyond_one_block_are_counted() -> None:
    """Line breaks are counted in blocks of 64 KiB."""
    items = [{"name": f"n{number}", "text": "x" * 1000} for number in range(500)]
    text = json.dumps({"items": items}, indent=1).encode()
    lines = Lines(memoryview(text))
    rows = text.decode().splitlines()
    for number in (499, 0, 250, 64, 65):
        line = lines.line(1, f"items[{number}].name")
        assert line is not None
        assert rows[line - 1].strip() == f'"name": "n{number}",'


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@settings(deadline=None)
@given(JSON, st.sampled_from(["", " ", "\n\t"]), st.sampled_from(["", "{}", "[]", '"x"', "}", "]", ",", "x"]))
def test_the_end_of_a_json_value_is_found(value: object, space: str, rest: str) -> None:
    """This fails if a release of msgspec reports another offset for data after the value."""
    text = json.dumps(value)
    whole = f"{text}{space}{rest}".encode()
    if rest and not space and text[-1].isalnum():
        return  # A number or a word is one token with the text after it.
    expected = len(whole) if not rest else len(f"{text}{space}".encode())
    assert end_of_value(memoryview(b"[" + whole), 1) == expected + 1
