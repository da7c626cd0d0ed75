"""An installation without extras: `make smoke` passes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.checkout
def test_commands_on_files_run_without_extras() -> None:
    """The packages are those that pip resolves today, in a new virtual environment."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.smoke"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "aiohttp" not in done.stdout
