"""The phases of an entry: the table in code, the diagram in the documentation, and excluded events."""

import re
from pathlib import Path

import pytest

from podium.schedulerplugin.scheduling.entry import (
    TRANSITIONS,
    Entries,
    Entry,
    EntryEvent,
    EntryPhase,
    TransitionError,
)

PAGE = Path(__file__).parents[4] / "docs" / "scheduler-reference.md"
KEY = ("team-a", "a")


def diagram() -> list[str]:
    """Return the lines of the Mermaid diagram of TRANSITIONS: one for each pair of phases."""
    events: dict[tuple[str, str], list[str]] = {}
    for (phase, event), target in TRANSITIONS.items():
        ends = ("[*]" if each is EntryPhase.NONE else str(each) for each in (phase, target))
        source, to = ends
        events.setdefault((source, to), []).append(event)
    return [f"{source} --> {to}: {', '.join(names)}" for (source, to), names in events.items()]


def test_the_diagram_in_the_documentation_is_the_table_in_the_code() -> None:
    """To update the page, copy the expected lines from the failure."""
    block = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    lines = [line.strip() for line in block[1].splitlines()]
    assert lines == diagram(), "\n".join(f"    {line}" for line in diagram())


def test_every_event_leads_to_one_phase() -> None:
    """An event that the table excludes then has a defined phase."""
    for event in EntryEvent:
        assert len({target for (_, each), target in TRANSITIONS.items() if each is event}) == 1


def test_every_phase_can_be_reached_and_left() -> None:
    """An entry is never stuck."""
    for phase in EntryPhase:
        assert any(target is phase for target in TRANSITIONS.values())
        assert any(source is phase for source, _ in TRANSITIONS)


def test_a_record_exists_from_the_first_event_to_the_last() -> None:
    """The phase NONE has no record."""
    entries, entry = Entries(), Entry(KEY)
    entries.move(entry, EntryEvent.ADD)
    assert entries[KEY] is entry
    entries.move(entry, EntryEvent.DROP)
    assert not entries
    assert entry.phase is EntryPhase.NONE


def test_an_excluded_event_raises_in_tests() -> None:
    """The error names the entry, its phase and the event."""
    with pytest.raises(TransitionError, match="pod/team-a/a: none has no transition for POP"):
        Entries().move(Entry(KEY), EntryEvent.POP)


def test_an_excluded_event_is_reported_and_corrected_in_production() -> None:
    """The entry takes the phase that the event has in all other cases."""
    problems: list[str] = []
    entries, entry = Entries(problems.append), Entry(KEY)
    entries.move(entry, EntryEvent.POP)
    assert entry.phase is EntryPhase.IN_FLIGHT
    assert entries[KEY] is entry
    assert len(problems) == 1
