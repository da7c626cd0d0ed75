"""The command line and its rules: start-up, admission rules, and the audit of a large cluster.

Whole processes are timed where users wait for them; the rules alone, in this process, where a server calls
them repeatedly.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import admission, cluster
from bench.results import ROUNDS, Row, Section, spread

from podium.answers.audits.run import audit_view
from podium.documents.load import load_state
from podium.documents.sources import InputFiles, read_documents

PODIUM = str(Path(sys.executable).with_name("podium"))


class Run(NamedTuple):
    """The cost of one run of a command: wall and processor seconds, peak resident MiB."""

    wall: float
    cpu: float
    peak: float


def start() -> Section:
    """Time the start of the command line against the interpreter's own."""
    helps, bare = in_turns([PODIUM, "--help"], [sys.executable, "-c", "pass"])
    rows = [
        Row("`podium --help`", spread([r.wall * 1000 for r in helps], "ms", 0)),
        Row("`python -c pass`", spread([r.wall * 1000 for r in bare], "ms", 0)),
    ]
    return Section("Start", rows)


def rules() -> Section:
    """Time the pure admission rules in one process."""
    rows = [
        Row(name, spread([count / t for t in timed(work)], "objects/s", 0))
        for name, count, work in admission.cases()
    ]
    return Section("Admission rules", rows)


def audits() -> Section:
    """Time the audit of a large dump against json.loads of the same file."""
    with tempfile.TemporaryDirectory() as folder:
        return Section("Audit", audit_rows(Path(folder) / "cluster.json"))


def run(argv: list[str]) -> Run:
    """Run a command and return its cost, with any exit code (3 is findings)."""
    with Path(os.devnull).open("wb") as null:
        start = time.perf_counter()
        process = subprocess.Popen(argv, stdout=null, stderr=null)
        _, _, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = 0
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_turns(*commands: list[str]) -> list[list[Run]]:
    """Run the commands in turns, after one warm-up round."""
    rounds = [[run(command) for command in commands] for _ in range(ROUNDS + 1)][1:]
    return [list(runs) for runs in zip(*rounds, strict=True)]


def audit_rows(dump: Path) -> list[Row]:
    """Time whole processes, in turns."""
    size = cluster.Size()
    cluster.write(dump, size)
    peer = [sys.executable, "-c", f"import json; json.loads(open({str(dump)!r}, 'rb').read())"]
    ours = [PODIUM, "audit", "-f", str(dump), "-o", "json"]
    audits, loads = in_turns(ours, peer)
    ratios = [a.wall / b.wall for a, b in zip(audits, loads, strict=True)]
    weight = f"{dump.stat().st_size / 1e6:,.0f} MB"
    input_size = f"{size.pods:,} pods, {size.groups:,} groups, {size.nodes:,} nodes, {weight}"
    return [
        Row(f"`podium audit -o json`, whole process ({input_size})", spread([r.wall for r in audits], "s")),
        Row("`json.loads` of the same file, whole process", spread([r.wall for r in loads], "s")),
        Row("audit / json.loads, wall, pair by pair", spread(ratios, "x")),
        Row("audit, peak resident memory", spread([r.peak for r in audits], "MiB", 0)),
        Row("json.loads, peak resident memory", spread([r.peak for r in loads], "MiB", 0)),
        *finding_rows(dump, size),
    ]


def finding_rows(dump: Path, size: cluster.Size) -> list[Row]:
    """Time the rules alone, on a decoded state."""
    loaded = load_state(read_documents(InputFiles([str(dump)])), strict=False)
    times = timed(
        lambda: audit_view(
            loaded.state, kubernetes="1.37", chosen_by="bench", objects={}, skipped={}, select=(), ignore=()
        )
    )
    return [Row("audit rules alone, decoded state", spread([size.pods / t for t in times], "pods/s", 0))]


def timed(work: Callable[[], object]) -> list[float]:
    """Time a function of this process, after one warm-up call."""
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times[1:]
