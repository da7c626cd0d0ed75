"""docs/upgrade.md has the numbers and states of the code."""

import re
from pathlib import Path

from podium.cli.commands import migrate, preflight
from podium.cli.commands.preflight import TARGETS
from podium.cli.render import table
from podium.ops.migrate import MigrationState

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "upgrade.md").read_text("utf-8")


def test_the_numbers_are_those_of_the_code() -> None:
    cuts = (
        f"{preflight.STOPPED} groups that stop, {preflight.REMADE} objects, "
        f"{preflight.STEPS} steps of one time, and {table.FINDINGS} findings of one rule"
    )
    assert cuts in PAGE
    assert f"The table shows {migrate.ITEMS} objects of each state" in PAGE
    assert f"podium preflight --to {'|'.join(TARGETS)}" in PAGE


def test_every_state_is_on_the_page() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|", PAGE.partition("## migrate")[2], re.MULTILINE)
    assert rows == [str(state) for state in MigrationState]
