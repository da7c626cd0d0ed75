"""The tests that the threat model names exist."""

import ast
import re

import pytest
from tests.support.docs.pages import ROOT

_TEXT = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
_NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", _TEXT)))


@pytest.mark.parametrize(("path", "name"), _NAMED)
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    found = {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    assert found
    assert not name or name in found


def test_every_row_names_one() -> None:
    """The last column of a row names a test; an attack without a test is listed as remaining."""
    rows = [line for line in _TEXT.splitlines() if line.startswith("| ") and not line.endswith("Shown by |")]
    assert rows
    for row in rows:
        assert "`tests/" in row.rsplit("|", 2)[1], row
