"""Runs `podium doctor` in this process, and reads its report."""

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from podium.cli.commands.doctor import command


class Line(NamedTuple):
    """A check of the report."""

    name: str
    level: str
    fact: str
    fix: str


def doctor(kubeconfig: Path) -> tuple[int, list[Line]]:
    """Run the command: its exit code, and the checks that it reports."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        line = [f"--kubeconfig={kubeconfig}", "--output=json", f"--output-file={report}"]
        code: Any = 0
        try:
            command(line, standalone_mode=False)
        except SystemExit as ended:
            code = ended.code
        return code, [Line(**each) for each in json.loads(report.read_bytes())["checks"]]


def about(lines: list[Line], name: str) -> list[tuple[str, str]]:
    """Return the levels and facts of the checks of a name."""
    return [(each.level, each.fact) for each in lines if each.name == name]
