"""docs/upgrade.md: its commands run, and its numbers are those of the code."""

import re
from pathlib import Path

import pytest
from tests.fixtures.servers import Server
from tests.fixtures.shell import run

from podium.cli.preflight import TARGETS
from podium.cli.render import migrate_table, preflight_table, table
from podium.ops.migrate import State

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "upgrade.md").read_text("utf-8")
COMMANDS = re.findall(r"^    (podium preflight .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
OFFLINE = [line for line in COMMANDS if " -f " in line]
LIVE = [line for line in COMMANDS if " -f " not in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the examples in it, for commands that write files."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("line", OFFLINE)
def test_a_command_on_files_runs(line: str, checkout: Path) -> None:
    done = run(line, checkout)
    assert done.returncode == 3, done.stderr
    assert "WHAT TO DO" in done.stdout


@pytest.mark.server
@pytest.mark.parametrize("line", LIVE)
def test_a_command_on_a_cluster_runs(line: str, server_136: Server, checkout: Path) -> None:
    """Whatever other tests have put there."""
    done = run(line, checkout, KUBECONFIG=str(server_136.kubeconfig))
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
