"""`make bench`: how long the main jobs take, beside a peer in the same run, written to bench/RESULTS.md.

A machine is noisy, so commands that are compared run in turns (A B A B ...) and the ratios count, not the
seconds. Nothing here asserts: the claims in the README quote RESULTS.md.
"""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import admission, cluster

from podium.audit import audit
from podium.cli.inputs import load_state, read_documents

ROUNDS = 5
RESULTS = Path(__file__).with_name("RESULTS.md")
PODIUM = str(Path(sys.executable).with_name("podium"))


class Run(NamedTuple):
    """One run of a command: wall and processor seconds, peak resident MiB."""

    wall: float
    cpu: float
    peak: float


def run(argv: list[str]) -> Run:
    """Run a command to its end and account for it; any exit code will do (3 says findings)."""
    with Path(os.devnull).open("wb") as null:
        start = time.perf_counter()
        process = subprocess.Popen(argv, stdout=null, stderr=null)
        _, _, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = 0
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_turns(*commands: list[str]) -> list[list[Run]]:
    """Run the commands in turns, after one round that does not count."""
    rounds = [[run(command) for command in commands] for _ in range(ROUNDS + 1)][1:]
    return [list(runs) for runs in zip(*rounds, strict=True)]


def spread(values: list[float], unit: str, digits: int = 2) -> str:
    """Give a median with its extremes."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def audit_rows(folder: Path) -> list[tuple[str, str]]:
    """Time the audit of a large dump against json.loads of the same file."""
    size = cluster.Size()
    dump = folder / "cluster.json"
    cluster.write(dump, size)
    peer = [sys.executable, "-c", f"import json; json.loads(open({str(dump)!r}, 'rb').read())"]
    ours = [PODIUM, "audit", "-f", str(dump), "-o", "json"]
    audits, loads = in_turns(ours, peer)
    ratios = [a.wall / b.wall for a, b in zip(audits, loads, strict=True)]
    what = f"{size.pods:,} pods, {size.groups:,} groups, {size.nodes:,} nodes"
    weight = f"{dump.stat().st_size / 1e6:,.0f} MB"
    return [
        (f"`podium audit -o json`, whole process ({what}, {weight})", spread([r.wall for r in audits], "s")),
        ("`json.loads` of the same file, whole process", spread([r.wall for r in loads], "s")),
        ("audit / json.loads, wall, pair by pair", spread(ratios, "x")),
        ("audit, peak resident memory", spread([r.peak for r in audits], "MiB", 0)),
        ("json.loads, peak resident memory", spread([r.peak for r in loads], "MiB", 0)),
        *finding_rows(dump, size),
    ]


def finding_rows(dump: Path, size: cluster.Size) -> list[tuple[str, str]]:
    """Time the rules alone, on a state that is already decoded."""
    loaded = load_state(read_documents([str(dump)]), strict=False)
    times = timed(
        lambda: audit(
            loaded.state, kubernetes="1.37", chosen_by="bench", objects={}, skipped={}, select=(), ignore=()
        )
    )
    return [("audit rules alone, decoded state", spread([size.pods / t for t in times], "pods/s", 0))]


def timed(work: Callable[[], object]) -> list[float]:
    """Time a function of this process, after one call that does not count."""
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times[1:]


def admission_rows() -> list[tuple[str, str]]:
    """Time the pure admission rules in one process."""
    rows = []
    for name, count, work in admission.cases():
        rows.append((f"admission rules, {name}", spread([count / t for t in timed(work)], "objects/s", 0)))
    return rows


def start_rows() -> list[tuple[str, str]]:
    """Time the start of the command line against the interpreter's own."""
    helps, bare = in_turns([PODIUM, "--help"], [sys.executable, "-c", "pass"])
    return [
        ("`podium --help`", spread([r.wall * 1000 for r in helps], "ms", 0)),
        ("`python -c pass`", spread([r.wall * 1000 for r in bare], "ms", 0)),
    ]


def machine() -> str:
    """Describe the machine in a line."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    """Measure everything and write it down."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [*start_rows(), *admission_rows(), *audit_rows(Path(folder))]
    lines = [
        "# Bench",
        "",
        f"`make bench` on {machine()}: median of {ROUNDS} runs (least to most), after one more.",
        "Compared commands ran in turns. The machine is shared and noisy: read ratios, not seconds.",
        "",
        "| what | figure |",
        "| --- | --- |",
        *(f"| {what} | {figure} |" for what, figure in rows),
        "",
    ]
    RESULTS.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
