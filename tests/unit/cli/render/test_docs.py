"""docs/reports.md has the list limits of the code."""

from pathlib import Path

import pytest

from podium.cli.render import page, table
from podium.cli.render.formats import FORMATS
from podium.cli.render.pictures import clustermap

DOCS = Path(__file__).parents[4].joinpath("docs", "reports.md").read_text("utf-8")
CUTS = {
    "## table and wide": (
        ("findings of one rule", table.FINDINGS),
        ("divergent groups", table.GROUPS),
        ("pods named for one priority in one group", table.POD_NAMES),
        ("namespaces, owners, fixes", table.SHARES),
        ("priorities", table.PRIORITIES),
        ("ignores", table.IGNORES),
    ),
    "## html": (
        ("findings of one rule", page.FINDINGS),
        ("divergent groups", page.GROUPS),
        ("pods named for one priority in one group", page.POD_NAMES),
        ("priorities, namespaces, owners", page.BARS),
        ("fixes", page.FIXES),
        ("known, gone or ignored findings, ignores", page.ASIDE),
    ),
}


@pytest.mark.parametrize("section", CUTS)
def test_cuts_are_documented(section: str) -> None:
    """Each section's table has exactly the code's numbers."""
    text = DOCS.partition(f"{section}\n")[2].partition("\n##")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert rows == [f"| {what} | {number} |" for what, number in CUTS[section]]


def test_the_detail_of_the_map_is_documented() -> None:
    text = DOCS.partition("### The cluster map\n")[2].partition("\n##")[0]
    assert f"| up to {clustermap.NAMED} |" in text
    assert f"| up to {clustermap.BLOCKS} |" in text
    assert f"at most {clustermap.ROWS} rows" in text
    assert f"more than {clustermap.CELLS} accelerators is a bar" in text
    assert all(word in text for word in clustermap.DOMAIN)


def test_every_format_is_documented() -> None:
    """Every format is in a heading."""
    headings = " ".join(line for line in DOCS.splitlines() if line.startswith(("## ", "### ")))
    assert set(FORMATS) <= set(headings.split())
