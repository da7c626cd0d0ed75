"""Every command on a page is tested, every link has a target, and every named command and option exists."""

import re
import shlex
from pathlib import Path

import pytest
from click import Command, Context, Group
from tests.support.docs.elsewhere import ELSEWHERE, Elsewhere, elsewhere
from tests.support.docs.pages import INDEX, ROOT, commands, pages, stray, texts

from podium.cli.main import command as podium

_TESTS = "".join(path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py")))
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w./-]*\w\.(?:cfg|gz|html|json|lock|md|py|sh|toml|ya?ml)\b")
_PROGRAM = "(?:podium|kubectl|make|helm|git|pytest|python|[.]venv/bin/\\w+)"
_KINDS = ("Tasks", "Reference", "How it works")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", pages())
def test_a_page_with_commands_has_a_test_that_plays_it(name: str) -> None:
    """Each page has a test, which fails if it leaves a command out."""
    if commands(pages()[name]):
        assert re.search(rf"^def test_{name}\(\s*page_run: PageRun", _TESTS, re.MULTILINE), f"no test_{name}"


@pytest.mark.parametrize("name", pages())
def test_commands_stand_where_they_are_run(name: str) -> None:
    """Commands are in a block of `console` or `sh`."""
    assert stray(pages()[name]) == []


@pytest.mark.parametrize("each", ELSEWHERE, ids=lambda each: each.begins)
def test_the_list_of_commands_not_run_is_closed(each: Elsewhere) -> None:
    """The list of commands that run elsewhere is closed and current."""
    found = [one.text for path in pages().values() for one in commands(path) if elsewhere(one.text) is each]
    assert found
    for line in found:
        each.check(line)


@pytest.mark.parametrize("name", pages())
def test_podium_knows_what_the_text_calls_it(name: str) -> None:
    """A `podium ...` in a sentence names an existing command with existing options."""
    for command in re.findall(r"`(podium [^`]+)`", pages()[name].read_text("utf-8")):
        words = shlex.split(command.replace("...", ""))[1:]
        of: Command = podium
        while words and isinstance(of, Group) and words[0][:1].isalpha():
            word = words.pop(0)
            got = of.get_command(Context(of), word)
            assert got is not None, command
            of = got
        known = {option for each in of.params for option in (*each.opts, *each.secondary_opts)}
        options = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert options <= {*known, "--help", "--version"}, command


@pytest.mark.parametrize("path", texts(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    """The target of each link exists: a file of the checkout, and a heading in it."""
    for link in _LINK.findall(_prose(path)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        there, _, anchor = link.partition("#")
        target = (path.parent / there).resolve() if there else path
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


@pytest.mark.parametrize("path", texts(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_that_is_mentioned_is_a_link(path: Path) -> None:
    """A file of the checkout is the text or the target of a link, except in commands."""
    rest = re.sub(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)", "", _prose(path))
    rest = re.sub(rf"`{_PROGRAM} [^`]*`", "", rest)
    bare = [
        each for each in _FILE.findall(rest) if any((base / each).is_file() for base in (ROOT, path.parent))
    ]
    assert bare == []


def test_the_index_lists_every_page_once() -> None:
    """Each line of a list names one page; README.md links to the index."""
    listed = re.findall(r"^- \[([\w-]+\.md)\]\(\1\): .*\.$", INDEX.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path != INDEX)
    assert "docs/README.md" in _LINK.findall(pages()["readme"].read_text("utf-8"))


@pytest.mark.parametrize("name", pages())
def test_a_page_begins_with_its_purpose_and_its_command(name: str) -> None:
    """The part above the first heading has a sentence, and a command in a block or in the sentence."""
    _, _, opening = pages()[name].read_text("utf-8").partition("\n")
    opening = opening.partition("\n## ")[0]
    assert re.match(r"\n[A-Z`]", opening)
    assert "```" in opening or re.search(rf"`{_PROGRAM} [^`]+`", opening), "no command"


@pytest.mark.parametrize("name", pages())
def test_tasks_reference_and_explanation_are_apart(name: str) -> None:
    """A page with several kinds of text has them under these headings, in this order."""
    headings = re.findall(r"^## (.*)$", _FENCED.sub("", pages()[name].read_text("utf-8")), re.MULTILINE)
    kinds = [each for each in headings if each in _KINDS]
    assert kinds == [each for each in _KINDS if each in kinds]


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def _prose(path: Path) -> str:
    """Return the text without blocks and indented code."""
    text = _FENCED.sub("", path.read_text("utf-8"))
    return re.sub(r"^ {4}.*\n", "", text, flags=re.MULTILINE)
