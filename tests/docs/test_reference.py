"""The generated parts of docs/ are current and complete."""

import ast
import re
from pathlib import Path

import pytest
from tools.docs import configuration
from tools.docs.__main__ import PAGES
from tools.docs.sources import modules

# The forms of a read: os.environ.get("X"), environ["X"], "X" in os.environ.
_ASKED = re.compile(r'environ(?:\.get)?[\[(]"([A-Z_]+)"|"([A-Z_]+)" (?:not )?in os\.environ')


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_fresh(path: Path) -> None:
    """`make docs` would change nothing."""
    text = path.read_text("utf-8")
    assert PAGES[path](text) == text


def test_the_environment_is_whole() -> None:
    """The reference has every variable that the code reads."""
    names_used = {
        name for _, source in modules() for names in _ASKED.findall(source) for name in names if name
    }
    assert names_used == set(configuration.ENVIRONMENT)


def test_our_keys_stand_in_constants() -> None:
    """Every key of ours in the code is a constant, which the reference reads."""
    known = {each.value for each in configuration.label_keys()}
    for module, source in modules():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and configuration.OWN in str(node.value):
                key = str(node.value)
                assert not configuration.KEY.fullmatch(key) or key in known, (module, key)
