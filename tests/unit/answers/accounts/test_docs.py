"""docs/why.md names every cause, actor and field as the code does."""

import re
from pathlib import Path

import pytest

from podium.answers.accounts import model, pending, reservations
from podium.cli.render import why_words
from podium.planner.preemption.target import Blocker

ROOT = Path(__file__).parents[4]
DOCS = ROOT.joinpath("docs", "why.md").read_text("utf-8")
OWN = (
    *(pending.SCHEDULER_SAYS, pending.NOT_TRIED, pending.CLAIMS_UNBOUND),
    *(pending.NO_PREEMPTION, pending.NOT_READ, reservations.RESERVED_NODE, reservations.VICTIM_OVERDUE),
    *(reservations.STALE_NOMINATION, reservations.ROOM_KEPT, reservations.NODE_SELECTED),
    *(pending.CLAIM_UNUSABLE, pending.CLAIM_ALLOCATED, pending.NO_DEVICES),
)


def rows(section: str) -> list[str]:
    """Return the words in the first cells of the table of a section."""
    text = DOCS.partition(f"## {section}\n")[2].partition("\n##")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [word for cell in cells for word in re.findall(r"`(\w+)`", cell)]


def test_every_cause_and_hand_is_documented() -> None:
    """The tables have exactly the code's words."""
    assert sorted(rows("Why it waits")) == sorted((*Blocker, *OWN))
    assert sorted(rows("The cause of its end")) == sorted(model.By)
    for word in (*model.RunState, *model.Of):
        assert f"`{word}`" in DOCS


@pytest.mark.parametrize(
    "of",
    [
        model.Account,
        model.Counted,
        model.Wait,
        model.Prospect,
        model.Departure,
        model.EvictionPreemptor,
        model.Gain,
        model.RequestDevices,
        model.NodeDevices,
        model.ExcludedDevices,
    ],
)
def test_every_field_is_documented(of: type) -> None:
    text = DOCS.partition("## json and yaml\n")[2]
    for field in of.__struct_fields__:  # type: ignore[attr-defined]
        assert re.search(rf"\b{field}\b", text), field


def test_cuts_are_documented() -> None:
    assert (why_words.DEPARTURES, why_words.GAINS) == (5, 5)
    assert "The table shows\n5 of either list" in DOCS
