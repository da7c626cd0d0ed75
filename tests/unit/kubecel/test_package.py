"""kubecel stands alone: its imports, its public names, and the example of its README."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kubecel

_FOLDER = Path(kubecel.__file__).parent
_EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$", (_FOLDER.parent / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


def _imported(path: Path) -> set[str]:
    """Return the packages that a module imports, anywhere in its text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {each.partition(".")[0] for each in names}


def test_it_needs_python_and_msgspec_only() -> None:
    packages = set[str]().union(*map(_imported, _FOLDER.glob("*.py")))
    assert packages - sys.stdlib_module_names == {"kubecel", "msgspec"}


def test_an_import_loads_no_module_before_a_name_is_used() -> None:
    script = "import sys, kubecel; print(*(each for each in sys.modules if each.startswith('kubecel.')))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


@pytest.mark.parametrize("name", kubecel.__all__)
def test_a_public_name_exists(name: str) -> None:
    assert getattr(kubecel, name).__module__.startswith("kubecel.")


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'kubecel' has no attribute 'nothing'"):
        kubecel.nothing  # noqa: B018 - the access fails


def test_the_example_of_the_readme_runs() -> None:
    (example,) = _EXAMPLES
    exec(example, {})
