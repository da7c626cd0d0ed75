"""The Python interface: its page and notebooks print what they show, and its docstrings are complete."""

import json
import re
from typing import Any

import pytest
from tests.support.docs.pages import ROOT
from tools.docs.library import FUNCTIONS

_BLOCKS = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)
_NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_the_example_prints_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opening = (ROOT / "docs/library.md").read_text("utf-8").partition("\n## ")[0]
    blocks = dict(_BLOCKS.findall(opening))
    monkeypatch.chdir(ROOT)
    exec(compile(blocks["python"], "docs/library.md", "exec"), {})
    assert capsys.readouterr().out == blocks["text"]


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(
    path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cells run in one namespace in the notebook's folder, as Jupyter runs them."""
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    monkeypatch.chdir(path.parent)
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    for number, cell in enumerate(cells, 1):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert (capsys.readouterr().out, cell["execution_count"]) == (shown, number)


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_the_links_of_a_notebook_lead_somewhere(path: Any) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_docstring_has_each_parameter_and_the_errors(function: Any) -> None:
    documented = function.__doc__
    parameters = set(function.__annotations__) - {"return"}
    assert {name for name in parameters if f"`{name}`" not in documented} == set()
    assert re.search(r"Raises \w*Error", documented)
