"""Situations of public reports, rebuilt as small files, and the right answers; reports.yaml has them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.calling import call

HERE = Path(__file__).parent
DATA = HERE / "data"


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """A public report: a command line of podium in the folder `data`, and its expected answer."""

    name: str
    source: str
    reason: str
    line: str
    code: int = 0
    values: dict[str, Any] = {}
    words: list[str] = []
    absent: list[str] = []


REPORTS = msgspec.convert(yaml.safe_load((HERE / "reports.yaml").read_bytes()), list[Report])


@pytest.mark.parametrize("report", REPORTS, ids=[report.name for report in REPORTS])
def test_a_public_report_gets_the_right_answer(report: Report) -> None:
    shown = call(f"podium {report.line}", DATA, COLUMNS="200", NO_COLOR="1")
    text = re.sub(r"\s+", " ", shown.stdout + shown.stderr)
    lacking = [pattern for pattern in report.words if not re.search(pattern, text, re.IGNORECASE)]
    excess = [pattern for pattern in report.absent if re.search(pattern, text, re.IGNORECASE)]
    assert (shown.code, lacking, excess) == (report.code, [], []), text
    if report.values:
        answer = call(f"podium {report.line} -o json", DATA).json
        assert {path: _at(answer, path.split(".")) for path in report.values} == report.values


def _at(value: object, path: Sequence[str]) -> object:
    """Return what a path of keys leads to; that of a list is the sorted list of its items' values."""
    if not path:
        return value
    if isinstance(value, list):
        return sorted((_at(item, path) for item in value), key=str)
    return _at(value.get(path[0]), path[1:]) if isinstance(value, dict) else None
