"""The advice of the processes is that of the documentation, and none of it breaks an installation."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_SOURCES = (
    "core/podium/kube",
    "core/podium/runtime",
    "controllers",
    "planner",
    "schedulerplugin",
    "webhooks",
)
_ADVICE = re.compile(
    r"(?:^|[.:;,] |\bor )(?:delete|apply|create|restart|remove|replace) [a-z`]", re.IGNORECASE
)
# The advice of each process, the page for it, and the words there. All is for an administrator: no account of
# a process may do it.
ADVICE = {
    "apply Podium's manifests again": ("webhooks.md", "Apply the manifests again"),
    "apply what `podium manifests crds` prints": ("crds.md", "apply --server-side -f manifests/crds"),
    "restart the scheduler to change this": ("scheduler-reference.md", "what needs a restart"),
    "Delete the group and create it again": ("reconciler-reference.md", "recreate the group"),
}


def _texts(path: Path) -> list[str]:
    """Return the texts of a module, without docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_each_advice_of_a_process_is_in_the_table() -> None:
    given = [
        text
        for source in _SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for text in _texts(path)
        # "create NodeSelector" is kube-scheduler's message.
        if _ADVICE.search(text) and "NodeSelector" not in text
    ]
    assert len(given) == len(ADVICE)
    assert all(any(advice in text for advice in ADVICE) for text in given), given


@pytest.mark.parametrize(("page", "words"), ADVICE.values(), ids=list(ADVICE))
def test_the_documentation_advises_the_same(page: str, words: str) -> None:
    assert words in (ROOT / "docs" / page).read_text("utf-8")
