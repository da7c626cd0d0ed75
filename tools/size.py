"""`make size` counts lines and modules: the product, what is in its wheel beside it, and the tests."""

import contextlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.docs.sources import ROOT

# The roots of each part, with the most lines and modules that it may have.
PARTS = {
    "podium": (
        ("core", "webhooks", "controllers", "planner", "schedulerplugin", "answers", "cli"),
        76_000,
        400,
    ),
    "simulation": (("simulation",), 0, 0),
    "kubecel": (("kubecel",), 0, 0),
    "tests": (("tests",), 122_000, 0),
    "tools, bench": (("tools", "bench"), 0, 0),
}


def counted(roots: Iterable[str]) -> tuple[int, int]:
    """Return the number of lines and of modules in the tracked Python files of these folders."""
    names = subprocess.check_output(["git", "ls-files", "-z", "--", *roots], cwd=ROOT, text=True).split("\0")
    files = [ROOT / name for name in names if Path(name).suffix == ".py" and (ROOT / name).exists()]
    return sum(file.read_bytes().count(b"\n") for file in files), len(files)


def main() -> int:
    """Print a line for each part; exit code 0, because the targets are goals."""
    rows = []
    for name, (roots, most_lines, most_modules) in PARTS.items():
        lines, modules = counted(roots)
        goals = [
            f"{most:,} {noun}" for most, noun in ((most_lines, "lines"), (most_modules, "modules")) if most
        ]
        target = f"  (target: {' and '.join(goals)})" if goals else ""
        rows.append(f"{name:14}{lines:>9,} lines {modules:>6,} modules{target}")
    with contextlib.suppress(BrokenPipeError):
        print("\n".join(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
