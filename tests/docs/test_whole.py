"""No page has a command that no test runs, a link that leads nowhere, or a word that podium does not know."""

import re
import shlex
from pathlib import Path

import pytest
from click import Command, Context, Group
from tests.docs.elsewhere import ELSEWHERE, Elsewhere, elsewhere
from tests.docs.pages import ROOT, commands, pages, stray

from podium.cli.main import command as podium

_TESTS = "".join(path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py")))
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", pages())
def test_a_page_with_commands_has_a_test_that_plays_it(name: str) -> None:
    """That test fails if it leaves a command out."""
    if commands(pages()[name]):
        assert re.search(rf"^def test_{name}\(\s*play: Play", _TESTS, re.MULTILINE), f"no test_{name}"


@pytest.mark.parametrize("name", pages())
def test_commands_stand_where_they_are_run(name: str) -> None:
    """They are in a block of `console` or `sh`."""
    assert stray(pages()[name]) == []


@pytest.mark.parametrize("each", ELSEWHERE, ids=lambda each: each.begins)
def test_what_is_not_run_here_is_looked_at(each: Elsewhere) -> None:
    """The list is closed, and no entry has outlived its commands."""
    found = [one.text for path in pages().values() for one in commands(path) if elsewhere(one.text) is each]
    assert found
    for line in found:
        each.check(line)


@pytest.mark.parametrize("name", pages())
def test_podium_knows_what_the_text_calls_it(name: str) -> None:
    """A `podium ...` in a sentence names a command, and options that it has."""
    for told in re.findall(r"`(podium [^`]+)`", pages()[name].read_text("utf-8")):
        words = shlex.split(told.replace("...", ""))[1:]
        of: Command = podium
        while words and isinstance(of, Group) and words[0][:1].isalpha():
            word = words.pop(0)
            got = of.get_command(Context(of), word)
            assert got is not None, told
            of = got
        known = {option for each in of.params for option in (*each.opts, *each.secondary_opts)}
        asked = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert asked <= {*known, "--help", "--version"}, told


@pytest.mark.parametrize("name", pages())
def test_links_lead_somewhere(name: str) -> None:
    """To a file of the checkout, and to a heading that it has."""
    page = pages()[name]
    for link in _LINK.findall(page.read_text("utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


def test_the_readme_leads_to_every_page() -> None:
    linked = {link.partition("#")[0] for link in _LINK.findall(pages()["readme"].read_text("utf-8"))}
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= linked


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
