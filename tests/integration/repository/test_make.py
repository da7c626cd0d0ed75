"""Set-up for a newcomer: a missing tool is one clear line, and the demo runs in a fresh checkout."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def fake_python(folder: Path, refuses: str) -> Path:
    """Make a python that fails for code that mentions `refuses`, as an incomplete installation does."""
    path = folder / "python-incomplete"
    path.write_text(
        f'#!/bin/sh\ncase "$*" in *{refuses}*) exit 1 ;; esac\nexec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("refuses", "message"),
    [("ensurepip", "has no venv and ensurepip"), ("version_info", "is not Python 3.11 or newer")],
)
def test_missing_part_is_one_line(refuses: str, message: str, tmp_path: Path) -> None:
    """A missing tool gives one line with its name and the remedy, before set-up writes anything."""
    environ = {**os.environ, "PYTHON": str(fake_python(tmp_path, refuses))}
    done = subprocess.run(
        [ROOT / "tools/venv", "requirements.lock"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / ".venv").exists()


def test_help_lists_every_target() -> None:
    """`make help` lists the purpose of each target of the Makefile."""
    targets = {
        line.split(":")[0]
        for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
        if line and line[0].islower() and ":" in line and not line.startswith("export")
    }
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {line.split()[0] for line in done.stdout.splitlines()} == targets


@pytest.mark.checkout
def test_demo_runs_in_a_fresh_checkout(tmp_path: Path) -> None:
    """`make demo` needs only the checkout and Python: it audits, admits and writes the page."""
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, files.stdout.decode().split("\0")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "--no-print-directory", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "will not schedule on Kubernetes 1.37" in done.stdout
    assert "no PriorityClass with name contest was found" in done.stdout
    page = tmp_path / "out/audit.html"
    assert str(page) in done.stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
