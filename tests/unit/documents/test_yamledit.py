"""Changes of YAML text in place: only the changed lines differ, or the writer writes all."""

from typing import Any

import pytest

from podium.documents import yamldoc, yamledit

TEXT = """\
# licence
kind: A   # the kind
meta: {name: g, labels: {b: "y"}}  # flow
spec:
  # a gang
  policy:
    gang:
      minCount: 8 # all

  mode: PodGroup # whole
  list:
  - name: a   # first
    args: [x]
  - name: b
  script: |
    echo "x"   # no comment

    exit 0
# trailing
"""

CHANGES: dict[str, tuple[list[Any], Any, list[str], list[str]]] = {
    "a scalar": (["kind"], "B", ["kind: A   # the kind"], ["kind: B   # the kind"]),
    "a nested scalar": (
        ["spec", "policy", "gang", "minCount"],
        9,
        ["      minCount: 8 # all"],
        ["      minCount: 9 # all"],
    ),
    "text that looks like a number": (["kind"], "1", ["kind: A   # the kind"], ["kind: '1'   # the kind"]),
    "a scalar that becomes a mapping": (
        ["spec", "mode"],
        {"all": {}},
        ["  mode: PodGroup # whole"],
        ["  mode:", "    all: {}"],
    ),
    "a mapping that becomes a scalar": (
        ["spec", "policy"],
        "basic",
        ["  policy:", "    gang:", "      minCount: 8 # all"],
        ["  policy: basic"],
    ),
    "a field less": (["spec", "mode"], None, ["  mode: PodGroup # whole"], []),
    "a block scalar less": (
        ["spec", "script"],
        None,
        ["  script: |", '    echo "x"   # no comment', "", "    exit 0"],
        [],
    ),
    "a field more, at the end of its mapping": (
        ["spec", "policy", "gang", "new"],
        [1],
        [],
        ["      new:", "      - 1"],
    ),
    "a field more, after a block scalar": (["spec", "new"], 1, [], ["  new: 1"]),
    "a field of a list's item": (
        ["spec", "list", 0, "name"],
        "c",
        ["  - name: a   # first"],
        ["  - name: c   # first"],
    ),
    "a flow mapping": (
        ["meta", "labels", "c"],
        "no",
        ['meta: {name: g, labels: {b: "y"}}  # flow'],
        ["meta: {name: g, labels: {b: 'y', c: 'no'}}  # flow"],
    ),
}


def _value(text: str) -> dict[str, Any]:
    (value,) = yamldoc.load_all(text.encode())
    assert isinstance(value, dict)
    return value


def _changed(path: list[Any], to: Any) -> dict[str, Any]:
    """Return the value of TEXT with a change; None removes the field."""
    whole = _value(TEXT)
    place: Any = whole
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return whole


@pytest.mark.parametrize(("path", "to", "gone", "new"), CHANGES.values(), ids=list(CHANGES))
def test_only_the_lines_of_the_change_differ(
    path: list[Any], to: Any, gone: list[str], new: list[str]
) -> None:
    wanted = _changed(path, to)
    text = yamledit.edited(TEXT, _value(TEXT), wanted)
    assert text is not None
    assert _value(text) == wanted
    before, after = TEXT.splitlines(), text.splitlines()
    start = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    assert after == [*before[:start], *new, *before[start + len(gone) :]]
    assert before[start : start + len(gone)] == gone


@pytest.mark.parametrize(("path", "to"), [case[:2] for case in CHANGES.values()], ids=list(CHANGES))
def test_a_text_with_line_breaks_of_windows_keeps_them(path: list[Any], to: Any) -> None:
    wanted = _changed(path, to)
    text = yamledit.edited(TEXT.replace("\n", "\r\n"), _value(TEXT), wanted)
    assert text is not None
    assert text == str(yamledit.edited(TEXT, _value(TEXT), wanted)).replace("\n", "\r\n")


def test_null_entries_of_maps_keep_their_text() -> None:
    """The values have zeros in their place."""
    text = "kind: A # x\nmetadata:\n  annotations:\n    a:\n"
    old = {"kind": "A", "metadata": {"annotations": {"a": ""}}}
    assert yamledit.edited(text, old, {**old, "kind": "B"}) == text.replace("kind: A", "kind: B")


def test_no_change_is_the_same_text() -> None:
    assert yamledit.edited(TEXT, _value(TEXT), _value(TEXT)) == TEXT


@pytest.mark.parametrize(
    "text",
    ["a: &x {b: 1}\nc: *x\n", "- kind: A\n  b: 1\n", "%YAML 1.1\nkind: A\n", "? kind\n: A\n"],
    ids=["alias", "list", "directive without its document", "explicit key"],
)
def test_a_text_that_has_no_place_for_the_change_is_left_to_the_writer(text: str) -> None:
    try:
        (old,) = yamldoc.load_all(text.encode())
    except yamldoc.YamlError:
        old = {"kind": "A"}
    new = {**old, "c": {"b": 2}} if isinstance(old, dict) else {"kind": "B"}
    found = yamledit.edited(text, old, new)
    assert found is None or _value(found) == new


def test_the_texts_of_a_stream_are_those_between_its_separators() -> None:
    stream = "# head\n---\na: 1 # x\n--- # next\nb: 2\n...\n---\n# only a comment\n---\nc: |\n  --- no\n"
    assert yamledit.texts(stream.encode()) == (
        "# head\na: 1 # x\n",
        " # next\nb: 2\n",
        "# only a comment\n",
        "c: |\n  --- no\n",
    )
    assert yamledit.texts(b"a: 1\r\n---\r\nb: 2\r\n") == ("a: 1\r\n", "b: 2\r\n")
    assert yamledit.texts("é: 'ü' # ö\n---\nb: ß".encode()) == ("é: 'ü' # ö\n", "b: ß")
