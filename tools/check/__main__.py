"""`python -m tools.check` runs lint, types and the unit tests that a change affects, in under a minute.

The change is everything since the merge base with main, uncommitted and untracked files included; `--since`
names another commit. A test file is affected if it changed, if its imports lead to a changed module, or if it
quotes the path of another changed file. The nearest test files run first, until the time budget is over; the
last line counts the others, which `make unit` runs.

pytest-testmon would select by coverage. It needs a full run first and a database for each checkout, and it
turns off xdist while it records. The import graph is computed in two seconds from the files alone.
"""

import argparse
import ast
import functools
import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.docs.sources import ROOT, ROOTS

BIN = ROOT / ".venv" / "bin"
# A change of one of these files affects every test.
EVERYTHING = ("pyproject.toml", "requirements-dev.lock", "tests/conftest.py")
# Tests that would start later are not run.
SECONDS = 40.0
# Files whose every test has a mark that is not run here; to collect them takes longer than to run the others.
_MARKED = re.compile(r"^pytestmark = .*\bmark\.(?:server|browser|checkout|e2e)\b", re.MULTILINE)
# The maximum number of test files; a change that affects more needs the whole suite.
FILES = 80
LINTERS = (
    ("ruff", "check", "--quiet"),
    ("ruff", "format", "--check", "--quiet"),
    ("lint-imports", "--no-logo"),
    ("python", "-m", "tools.prose"),
)


def modules() -> dict[str, Path]:
    """Return each Python file by its module name."""
    paths = {}
    for base in (*(ROOT / root for root in ROOTS), ROOT):
        for folder in ("podium", "kubecel") if base != ROOT else ("tests", "tools", "bench"):
            for path in (base / folder).rglob("*.py"):
                parts = path.relative_to(base).with_suffix("").parts
                paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of this repository that a file imports, anywhere in its text."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            # Commands and parts of the scheduler are imported by name.
            names = [node.value]
        else:
            continue
        yield from (name for name in names if name in known)


def changed(since: str) -> list[str]:
    """Return the paths that differ from the merge base with a commit, untracked ones included."""
    base = _git("merge-base", since, "HEAD")[0]
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


@functools.cache
def importers() -> Mapping[str, set[str]]:
    """Return the modules that import each module."""
    known, by_module = modules(), dict[str, set[str]]()
    for name, path in known.items():
        for imported in imports(path, known):
            by_module.setdefault(imported, set()).add(name)
    return by_module


def affected(paths: Iterable[str]) -> list[str]:
    """Return the test files that a change of these paths affects and that need no server, nearest first."""
    known = modules()
    tests = {
        name: path
        for name, path in known.items()
        if path.name.startswith("test_") and not _MARKED.search(path.read_text("utf-8"))
    }
    paths = list(paths)
    by_path = {path.relative_to(ROOT).as_posix(): name for name, path in known.items()}
    distance = {by_path[path]: 0 for path in paths if path in by_path}
    if any(path in EVERYTHING for path in paths):
        distance |= dict.fromkeys(tests, 9)
    unimported = [path for path in paths if path not in by_path]
    if unimported:
        for name, path in tests.items():
            text = path.read_text("utf-8")
            if any(file in text or Path(file).name in text for file in unimported):
                distance.setdefault(name, 1)
        if any(file.endswith(".md") for file in unimported):
            distance |= {name: 1 for name in tests if name.startswith("tests.docs.")}
    queue = deque(sorted(distance, key=distance.__getitem__))
    while queue:
        name = queue.popleft()
        for importer in importers().get(name, ()):
            if importer not in distance:
                distance[importer] = distance[name] + 1
                queue.append(importer)
    # A conftest applies to the tests of its folder without an import.
    for name in [conftest for conftest in distance if conftest.endswith(".conftest")]:
        folder = name.removesuffix("conftest")
        for test in tests:
            if test.startswith(folder):
                distance.setdefault(test, distance[name] + 2)
    chosen = sorted((name for name in distance if name in tests), key=lambda name: (distance[name], name))
    return [tests[name].relative_to(ROOT).as_posix() for name in chosen]


def main() -> int:
    """Run all checks and return the exit code."""
    parser = argparse.ArgumentParser(prog="make check")
    parser.add_argument("--since", default="main", help="compare with this commit")
    parser.add_argument("--list", action="store_true", help="print the selected test files and exit")
    chosen = parser.parse_args()
    begun = time.monotonic()
    tests = affected(changed(chosen.since))
    if chosen.list:
        sys.stdout.write("".join(f"{path}\n" for path in tests))
        return 0
    types = subprocess.Popen([BIN / "mypy", "--no-error-summary"], cwd=ROOT)
    pytest = _pytest(tests[:FILES], begun + SECONDS) if tests else None
    codes = [
        subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, check=False).returncode
        for command in LINTERS
    ]
    if pytest is not None:
        pytest.wait()
        # 5: every test of the files needs a server.
        codes.append(0 if pytest.returncode == 5 else pytest.returncode)
    codes.append(types.wait())
    more = f"; {len(tests) - FILES} more are affected: make unit" if len(tests) > FILES else ""
    sys.stderr.write(f"check: {min(len(tests), FILES)} test files, {time.monotonic() - begun:.0f} s{more}\n")
    return int(any(codes))


def _pytest(tests: list[str], until: float) -> "subprocess.Popen[bytes]":
    options = ["-q", "-r", "fE", "-p", "tools.check.budget", "-p", "no:xdist"]
    marks = ["-m", "not server and not browser and not checkout"]
    environ = {**os.environ, "PODIUM_CHECK_UNTIL": f"{until}"}
    return subprocess.Popen([BIN / "python", "-m", "pytest", *options, *marks, *tests], cwd=ROOT, env=environ)


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


if __name__ == "__main__":
    sys.exit(main())
