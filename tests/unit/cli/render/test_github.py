"""GitHub's workflow commands: one line a finding, and no input becomes a command."""

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.support.render import sample

from podium.cli.render.formats import command, render

LINE = re.compile(r"::(?P<name>\w+) (?P<properties>[^:]*)::(?P<message>.*)")


def test_every_finding_is_an_annotation() -> None:
    """Errors, warnings and infos become errors, warnings and notices, in the report's order."""
    lines = render(sample.sick(), "github", sample.context()).splitlines()
    names = [match["name"] for match in map(LINE.fullmatch, lines) if match]
    assert names == ["error"] * 9 + ["warning", "notice", "notice"]
    assert len(lines) == len(names) + 1


def test_findings_that_do_not_count_are_no_annotations() -> None:
    """Only findings that count are annotated; the others are plain lines."""
    lines = render(sample.triaged(), "github", sample.context()).splitlines()
    names = [match["name"] for match in map(LINE.fullmatch, lines) if match]
    assert names == ["error", "notice"]
    assert lines[1].startswith("Compared with audit/baseline.json: 8 known findings, 1 gone")
    assert lines[2].startswith("Ignored: 2 findings.")


def test_annotation_is_escaped_as_the_runner_reads_it() -> None:
    """File names and texts with separators of the command are escaped."""
    line = render(sample.sick(), "github", sample.context()).splitlines()[1]
    assert line == (
        "::error file=dumps/week 7%2Ca%3Ab%25.json,line=12,title=divergent-priority::"
        "PodGroup team-a/train: 2 of 8 live pods have another priority than the group's 1000: "
        "0 (train-3, train-4).%0AFix: Recreate the pods from a template with class gold."
    )


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_stays_one_command(title: str, message: str) -> None:
    """For any title and message the line is one command, and plain text is unchanged."""
    line = command("error", {"title": title}, message)
    assert len(line.splitlines()) == 1
    match = LINE.fullmatch(line)
    assert match is not None
    if title.isprintable() and message.isprintable():
        assert _unescape(match["properties"]) == f"title={title}"
        assert _unescape(match["message"]) == message


def _unescape(text: str) -> str:
    """Undo the escapes as the runner does: the percent sign last."""
    for escape, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, char)
    return text
