"""`podium ui` as users run it: a process of its own, which prints a link and ends with Ctrl-C."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
TRAINING = "examples/training-1.37.json.gz"
PREEMPTION = ("-f", "examples/preemption/cluster.yaml", "-f", "examples/preemption/records.yaml")

_PODIUM = Path(sys.executable).with_name("podium")


@contextlib.contextmanager
def serving(*arguments: str, folder: Path = ROOT, **environ: str) -> Iterator[str]:
    """Run it and return its link; in the end it must stop at once and log no error."""
    line = [str(_PODIUM), "ui", *arguments]
    process = subprocess.Popen(
        line,
        cwd=folder,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        if not link:
            _, output = process.communicate(timeout=PATIENCE_SECONDS)
            raise AssertionError(f"{' '.join(line)}: exit code {process.returncode}: {output}")
        yield link
        process.send_signal(signal.SIGINT)
        printed, output = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, output
        assert printed == ""
        assert "Traceback" not in output
        assert link.partition("token=")[2] not in output
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
