"""Names that a search finds: classes, verbs and tests."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = sorted(
    path for room in (*ROOT.glob("*/podium"), ROOT / "kubecel" / "kubecel") for path in room.rglob("*.py")
)
TESTS = sorted(ROOT.joinpath("tests").rglob("test_*.py"))
# Conventional names, and the interfaces of commands, rule modules and filters.
COMMON = {
    *("add", "apply", "check", "command", "mask", "name"),
    *("read", "reason", "remove", "row", "run", "write"),
}
PRONOUNS = re.compile(
    r"who|whom|whose|whoever|\w*nobody|\w*somebody|\w*everybody|\w*anybody|nobodys|somebodys"
)
LIMIT = 10


def _definitions(
    paths: list[Path],
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield each class and function, with its place."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def _overrides() -> set[tuple[str, str]]:
    """Return class and method of each method that overrides one of a direct base class of the product."""
    classes = {node.name: node for _, node in _definitions(SOURCES) if isinstance(node, ast.ClassDef)}
    methods = {
        name: {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        for name, node in classes.items()
    }
    return {
        (name, method)
        for name, node in classes.items()
        for base in node.bases
        if isinstance(base, ast.Name)
        for method in methods[name] & methods.get(base.id, set())
    }


def test_no_two_classes_share_a_name() -> None:
    """A class's name alone finds its definition, in all source roots together."""
    places = defaultdict(list)
    for place, node in _definitions(SOURCES):
        if isinstance(node, ast.ClassDef):
            places[node.name.lstrip("_")].append(place)
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_function_name_has_ten_definitions() -> None:
    """Overrides of one method count once; a leading underscore does not distinguish names."""
    places = defaultdict(list)
    for place, node in _definitions(SOURCES):
        if not isinstance(node, ast.ClassDef) and not node.name.startswith("__"):
            places[node.name.lstrip("_")].append(place)
    for _, method in _overrides():
        if not method.startswith("__"):
            places[method.lstrip("_")].pop()
    often = {name: found for name, found in places.items() if len(found) >= LIMIT and name not in COMMON}
    assert often == {}


def test_no_test_has_a_pronoun_in_its_name() -> None:
    """The name of a test is a fact about a thing with a name."""
    names = [
        (place, node.name)
        for place, node in _definitions(TESTS)
        if node.name.startswith("test_")
        and (
            node.name.startswith("test_what_")
            or any(PRONOUNS.fullmatch(word) for word in node.name.removeprefix("test_").split("_"))
        )
    ]
    assert names == []
