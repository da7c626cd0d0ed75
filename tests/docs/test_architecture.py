"""The table "Where is ..." of docs/architecture.md names a definition of each file that it links."""

import ast
import re
from collections.abc import Iterator

import pytest
from tests.support.docs.pages import ROOT

_SECTION = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("\n## Where is ...\n")[2]
_ROW = re.compile(r"^\| .+? \| \[[\w.]+\]\(\.\./([\w/]+\.py)\) \| `([\w.]+)` \|", re.MULTILINE)
_TABLE = _SECTION.partition("\n## ")[0]
_ROWS = _ROW.findall(_TABLE)


def _definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the functions, classes, methods and constants of a module by their qualified names."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield f"{prefix}{name}"
                yield from _definitions(node.body, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{prefix}{name}"
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield f"{prefix}{name}"
            case _:
                pass


@pytest.mark.parametrize(("path", "name"), _ROWS)
def test_a_row_names_a_definition_of_its_file(path: str, name: str) -> None:
    assert name in _definitions(ast.parse((ROOT / path).read_text("utf-8")).body)


def test_every_row_of_the_table_is_tested() -> None:
    assert len(_ROWS) == len([line for line in _TABLE.splitlines() if line.startswith("| ")]) - 2
    assert len(_ROWS) >= 20
