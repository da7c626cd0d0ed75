"""The index of docs/decisions lists every record, with the number, title, date and status of its file."""

import re
from datetime import date

from tests.support.docs.pages import ROOT

_FOLDER = ROOT / "docs" / "decisions"
_ROW = re.compile(r"^\| \[(\d{4})\]\((\d{4}-[a-z0-9-]+\.md)\) \| (.+) \| (\S+) \| (.+) \|$", re.MULTILINE)
_HEAD = re.compile(r"# (\d{4}): (.+)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: (.+)\.\n")
_FIRST = date(2026, 11, 21)
_PARTS = ["Context", "Decision", "Consequence"]
_ROWS = _ROW.findall((_FOLDER / "README.md").read_text("utf-8"))
_NUMBERS = [number for number, *_ in _ROWS]


def test_the_index_lists_every_record_without_a_gap() -> None:
    assert [name for _, name, *_ in _ROWS] == sorted(
        path.name for path in _FOLDER.iterdir() if path.name != "README.md"
    )
    assert [int(number) for number in _NUMBERS] == [*range(1, len(_ROWS) + 1)]


def test_a_record_has_the_head_of_its_row_and_three_parts() -> None:
    for number, name, *shown in _ROWS:
        text = (_FOLDER / name).read_text("utf-8")
        head = _HEAD.match(text)
        assert head is not None, name
        assert [*head.groups()] == [number, *shown], name
        assert name.startswith(number), name
        assert date.fromisoformat(head[3]) >= _FIRST, name
        assert re.findall(r"^- \*\*(\w+)\.\*\* ", text, re.MULTILINE) == _PARTS, name


def test_a_record_is_accepted_or_superseded_by_a_later_one() -> None:
    for number, _, _, _, status in _ROWS:
        superseded = re.fullmatch(r"superseded by (\d{4})", status)
        assert status == "accepted" or (superseded and superseded[1] in _NUMBERS and superseded[1] > number)
