"""Facts in the source text only: the docstrings and comments of fields and constants.

A page that is generated from them agrees with the text that a developer reads when changing the code.
"""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
# The source roots of the wheel, core first. The documentation is about nothing else.
ROOTS = tuple(Path(package).parts[0] for package in _BUILD["targets"]["wheel"]["packages"])
_NAMED = (ast.Assign, ast.AnnAssign)


class Constant(NamedTuple):
    """A constant of a module: its name and value, and the comment above it or above its group."""

    module: str
    name: str
    value: Any
    says: str


def fields(of: type) -> dict[str, str]:
    """Return the docstring below each field of a class.

    Raises ValueError for a field without one.
    """
    (made,) = ast.parse(inspect.getsource(of)).body
    assert isinstance(made, ast.ClassDef)
    docstrings = {}
    for statement, after in zip(made.body, [*made.body[1:], ast.Pass()], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        text = after.value if isinstance(after, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            docstrings[statement.target.id] = text.value
        elif statement.target.id not in ("apiVersion", "kind"):
            raise ValueError(f"{of.__name__}.{statement.target.id} has no docstring below it")
    return docstrings


def modules() -> Iterator[tuple[str, str]]:
    """Yield the name of every module of podium, and its source."""
    for root in ROOTS:
        for path in sorted((ROOT / root).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT / root).with_suffix("").parts), path.read_text("utf-8")


def constants(module: str, source: str) -> Iterator[Constant]:
    """Yield the module's constants of one name."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        if isinstance(statement, _NAMED):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and hasattr(importlib.import_module(module), target.id):
                value = getattr(importlib.import_module(module), target.id)
                yield Constant(module, target.id, value, _comment(lines, statement.lineno - 1))


def _comment(lines: list[str], at: int) -> str:
    """Return the comment above a line; lines without a gap share the comment of the first."""
    while at and re.match(r"\w", lines[at - 1]):
        at -= 1
    lines_before: list[str] = []
    while at and lines[at - 1].startswith("# "):
        at -= 1
        lines_before.insert(0, lines[at].removeprefix("# "))
    return " ".join(lines_before)
