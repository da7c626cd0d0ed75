"""`python -m tools.coverage` measures the branch coverage of the product and prints it by package.

The unit tests run under coverage, in their subprocesses too. `--servers` adds the tests with real servers.
The last lines list the modules of the roots in EXPLAINED below 95 %. CONTRIBUTING.md has the reasons.
"""

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tools.docs.sources import ROOT

from podium.text import listed

OUT = ROOT / "out"
# A module of these roots below this percentage needs a reason in CONTRIBUTING.md.
EXPLAINED = ("core", "kubecel", "planner", "schedulerplugin")
LEAST = 95.0
UNIT = "not server and not browser and not checkout"


class Counts(NamedTuple):
    """Statements and branches of code, and how many of them ran."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    @property
    def percent(self) -> float:
        """Return the percentage of statements and branches that ran; 100 for no code."""
        total = self.lines + self.branches
        return 100.0 * (self.lines_run + self.branches_run) / total if total else 100.0


def counts(report: Mapping[str, Any]) -> dict[PurePosixPath, Counts]:
    """Return the counts of each file from coverage's JSON report."""
    return {
        PurePosixPath(name): Counts(
            summary["num_statements"],
            summary["covered_lines"],
            summary["num_branches"],
            summary["covered_branches"],
        )
        for name, summary in ((name, report_file["summary"]) for name, report_file in report["files"].items())
    }


def table(files: Mapping[PurePosixPath, Counts]) -> Iterator[str]:
    """Yield a line for each package, for each root and for all, then the modules that need a reason."""
    packages: dict[tuple[str, str], list[Counts]] = defaultdict(list)
    for path, counted in files.items():
        packages[path.parts[0], ".".join(path.parts[1:-1])].append(counted)
    yield _row("root", "package", "lines", "branches", "%")
    for root in sorted({root for root, _ in packages}):
        inside = {package: _sum(parts) for (of, package), parts in sorted(packages.items()) if of == root}
        for package, total in inside.items():
            yield _counts_row(root, package, total)
        yield _counts_row(root, "", _sum(inside.values()))
    yield _counts_row("all", "", _sum(files.values()))
    yield ""
    low = {
        path: counted
        for path, counted in files.items()
        if path.parts[0] in EXPLAINED and counted.percent < LEAST
    }
    yield f"modules of {listed(EXPLAINED)} below {LEAST:.0f} %: {len(low)}"
    for path, counted in sorted(low.items(), key=lambda item: item[1].percent):
        yield f"{counted.percent:5.1f}  {path}"


def _sum(parts: Iterable[Counts]) -> Counts:
    return Counts(*map(sum, zip(Counts(), *parts, strict=True)))


def _row(root: str, package: str, lines: str, branches: str, percent: str) -> str:
    return f"{root:16}{package:38}{lines:>8}{branches:>10}{percent:>8}"


def _counts_row(root: str, package: str, of: Counts) -> str:
    return _row(root, package, str(of.lines), str(of.branches), f"{of.percent:.1f}")


def main() -> int:
    """Run the tests and print the table; the exit code is that of the tests."""
    parser = argparse.ArgumentParser(prog="python -m tools.coverage", description=__doc__)
    parser.add_argument("--servers", action="store_true", help="Add the tests with real servers.")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    _coverage("erase")
    failed = _measure(UNIT, "2")
    if options.servers:
        failed = _measure(f"not ({UNIT})", "3", "--dist", "loadscope") or failed
    _coverage("combine", "--quiet")
    _coverage("json", "--quiet", "-o", str(OUT / "coverage.json"))
    for line in table(counts(json.loads((OUT / "coverage.json").read_bytes()))):
        sys.stdout.write(f"{line}\n")
    return failed


def _measure(marks: str, workers: str, *more: str) -> int:
    """Run the tests of some marks under coverage and return their exit code."""
    return _coverage("run", "-m", "pytest", "-m", marks, "-n", workers, "-q", *more, check=False)


def _coverage(*arguments: str, check: bool = True) -> int:
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, check=check).returncode


if __name__ == "__main__":
    sys.exit(main())
