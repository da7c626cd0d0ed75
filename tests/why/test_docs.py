"""docs/why.md names every cause, hand and field as the code does."""

import re
from pathlib import Path

import pytest

from podium.cli.render import why_table
from podium.schedulerplugin.preemption.target import Cause
from podium.why import account, waiting

ROOT = Path(__file__).parents[2]
DOCS = ROOT.joinpath("docs", "why.md").read_text("utf-8")
OWN = (
    *(waiting.SCHEDULER_SAYS, waiting.NOT_TRIED, waiting.RESERVED_NODE),
    *(waiting.NO_PREEMPTION, waiting.NOT_READ),
)


def rows(section: str) -> list[str]:
    """Return the words in the first cells of the table of a section."""
    text = DOCS.partition(f"## {section}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [word for cell in cells for word in re.findall(r"`(\w+)`", cell)]


def test_every_cause_and_hand_is_documented() -> None:
    """The tables have the code's words and no others."""
    assert sorted(rows("Why it waits")) == sorted((*Cause, *OWN))
    assert sorted(rows("Who made it go")) == sorted(account.By)
    for word in (*account.State, *account.Of):
        assert f"`{word}`" in DOCS


@pytest.mark.parametrize(
    "of",
    [
        account.Account,
        account.Counted,
        account.Wait,
        account.Prospect,
        account.Departure,
        account.Preemptor,
        account.Gain,
    ],
)
def test_every_field_is_documented(of: type) -> None:
    text = DOCS.partition("## json and yaml\n")[2]
    for field in of.__struct_fields__:  # type: ignore[attr-defined]
        assert re.search(rf"\b{field}\b", text), field


def test_cuts_are_documented() -> None:
    assert (why_table.DEPARTURES, why_table.GAINS) == (5, 5)
    assert "The table shows\n5 of either list" in DOCS
