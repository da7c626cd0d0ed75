"""No format gives a terminal, a browser or a runner of CI a character or a line that it obeys."""

import json
import re
from typing import Any
from xml.dom import minidom

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.cli.render.data import as_text
from podium.cli.render.formats import FORMATS, render
from podium.cli.render.text import Layout
from podium.text import json_visible, visible, visible_lines

OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
PIECES = [
    "\n",
    "\r",
    "\t",
    " ",
    "\x1b[31m",
    "\x07",
    "\x7f",
    "\x85",
    "\x9b",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u2066",
]
PIECES += [
    "::",
    ":",
    "error",
    "add-mask",
    "group ",
    " file=a::",
    "##",
    "#",
    "[",
    "vso[task]",
    "teamcity[a]",
    "'",
    "<b>",
]
NAMES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=30)
COMMANDS = [
    "::error::x",
    "::add-mask::x",
    "::stop-commands::t",
    "::group file=a,b=c::x",
    "::Set-Output name=a::x",
]
COMMANDS += [
    "##[error]x",
    "##[add-mask]x",
    "##vso[task.setvariable variable=a]x",
    "##teamcity[message text='a']",
]


def commands(text: str) -> list[str]:
    """Return the lines that a runner of GitHub, Azure or TeamCity takes for a command."""
    prefixed = re.compile(r"::[A-Za-z-]+( .*?)?::")
    return [
        line
        for line in re.split("[\n\r]", text)
        if prefixed.match(line.lstrip()) or re.search(r"##[A-Za-z]*\[", line)
    ]


def renamed(report: AuditReport, name: str) -> AuditReport:
    """Return the report with another text in all places of its hostile one."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {change(key): change(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [change(inner) for inner in value]
        return value.replace(sample.HOSTILE, name) if isinstance(value, str) else value

    return msgspec.convert(change(msgspec.to_builtins(report)), AuditReport)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_runner_is_none_after_any_text(command: str) -> None:
    assert commands(command)
    for before in ("", " ", ":", "#", "a\n", "a\r", "a\u2028", "\x1b"):
        assert not commands(visible(before + command))
        assert not commands(visible_lines(before + command))


@pytest.mark.parametrize(
    "text", ["https://[::1]:6443", "fd00::ab:1 is down", "a: b", "C# [x]", "## title", "a::b"]
)
def test_usual_text_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("output", FORMATS)
@given(name=NAMES)
@example("\n::error::x")
@example("a" * 90 + "::add-mask::x ::warning::y ##[error]z")
def test_generated_names_do_nothing(output: str, name: str) -> None:
    text = render(renamed(sample.sick(), name), output, sample.context(width=60))
    assert not OBEYED.search(text)
    own = ("::error ", "::warning ", "::notice ") if output == "github" else ("\0",)
    assert [line for line in commands(text) if not line.startswith(own)] == []
    if output == "junit":
        minidom.parseString(text.encode())


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3), max_size=3))
def test_json_and_yaml_have_the_values(value: dict[str, Any]) -> None:
    """Escapes change the characters of a document, not its values."""
    as_json, as_yaml = as_text(value, "json"), as_text(value, "yaml")
    assert json.loads(as_json) == yaml.safe_load(as_yaml) == value
    for text in (as_json, as_yaml):
        assert not OBEYED.search(text)
        assert not commands(text)
    assert json_visible(as_json) == as_json


@given(NAMES, st.sampled_from([40, 60, None]))
def test_a_layout_escapes_all_that_it_writes(name: str, width: int | None) -> None:
    layout = Layout(width=width, colour=False)
    layout.paragraph(name, indent="  ")
    layout.heading(name)
    layout.columns((name, "B"), [("", name), (name, "")])
    layout.listing(name, ("A",), [name], lambda item: (item,))
    layout.lines.append(layout.style(name, "bold"))
    assert not OBEYED.search(layout.text())
    assert not commands(layout.text())
