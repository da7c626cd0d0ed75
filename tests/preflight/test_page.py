"""docs/upgrade.md: its commands run, and its numbers are those of the code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.servers import Server

from podium.cli.preflight import TARGETS
from podium.cli.render import migrate_table, preflight_table, table
from podium.ops.migrate import State

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "upgrade.md").read_text("utf-8")
COMMANDS = re.findall(r"^    (podium preflight .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
OFFLINE = [line for line in COMMANDS if " -f " in line]
LIVE = [line for line in COMMANDS if " -f " not in line]


def run(line: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("line", OFFLINE)
def test_a_command_on_files_runs(line: str, tmp_path: Path) -> None:
    done = run(line, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "WHAT TO DO" in done.stdout


@pytest.mark.server
@pytest.mark.parametrize("line", LIVE)
def test_a_command_on_a_cluster_runs(line: str, server_136: Server, tmp_path: Path) -> None:
    """Whatever other tests have put there."""
    done = run(line, tmp_path, KUBECONFIG=str(server_136.kubeconfig))
    assert done.returncode in (0, 3), done.stderr
    assert "the upgrade from Kubernetes 1.36 to 1.37" in done.stdout


def test_the_numbers_are_those_of_the_code() -> None:
    cuts = (
        f"{preflight_table.STOPPED} groups that stop, {preflight_table.REMADE} objects, "
        f"{preflight_table.STEPS} steps of one time, and {table.FINDINGS} findings of one rule"
    )
    assert cuts in PAGE
    assert f"The table shows {migrate_table.ITEMS} objects of each state" in PAGE
    assert f"podium preflight --to {'|'.join(TARGETS)}" in PAGE
    assert OFFLINE
    assert LIVE


def test_every_state_is_on_the_page() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|", PAGE.partition("## migrate")[2], re.MULTILINE)
    assert rows == [str(state) for state in State]
