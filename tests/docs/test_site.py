"""The site of docs/ builds with strict links, and has every page as GitHub shows it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from tests.support.docs.pages import ROOT

_DOCS = ROOT / "docs"
_TAGS = re.compile(r"<(h[1-4]|li|ol|pre|table|tr|ul)[ >]")
_PAGES = sorted(path.relative_to(_DOCS) for path in _DOCS.rglob("*.md"))


def _build(checkout: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    environ = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "PODIUM_ADDRESS": "https://git.example/podium",
    }
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)],
        cwd=checkout,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    done = _build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def _html(site: Path, page: Path) -> str:
    folder = page.parent if page.name == "README.md" else page.with_suffix("")
    return (site / folder / "index.html").read_text("utf-8")


@pytest.mark.parametrize("page", _PAGES, ids=str)
def test_a_page_has_the_lists_tables_and_blocks_of_commonmark(site: Path, page: Path) -> None:
    """GitHub renders CommonMark, and mkdocs an older dialect that drops some nested blocks."""
    article = _html(site, page).partition("<article")[2].partition("</article>")[0]
    rendered = MarkdownIt("commonmark").enable("table").render((_DOCS / page).read_text("utf-8"))
    assert Counter(_TAGS.findall(article)) == Counter(_TAGS.findall(rendered))


def test_the_navigation_has_every_page(site: Path) -> None:
    """The sections are those of the index."""
    navigation = _html(site, Path("README.md")).partition('<nav class="md-nav md-nav--primary')[2]
    linked = set(re.findall(r'href="([^"#:]*)"', navigation.partition("</nav>\n<article")[0]))
    addresses = {
        page.parent.as_posix() if page.name == "README.md" else page.with_suffix("").as_posix()
        for page in _PAGES
    }
    assert {f"{address}/" if address != "." else "." for address in addresses} <= linked
    for title in re.findall(r"^## (.*)$", (_DOCS / "README.md").read_text("utf-8"), re.MULTILINE):
        assert title in navigation


def test_search_finds_a_word_in_its_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    hits = {
        entry["location"].partition("#")[0] for entry in index["docs"] if "gangHoldSeconds" in entry["text"]
    }
    assert "configuration/" in hits


def test_a_link_out_of_the_pages_leads_into_the_repository(site: Path) -> None:
    assert 'href="https://git.example/podium/blob/HEAD/action.yml"' in _html(site, Path("ci.md"))
    for page in _PAGES:
        assert 'href="../../../' not in _html(site, page)


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """A file, a heading, and an address that only works at the root of a host."""
    for name in ("mkdocs.yml", "tools/site.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "decisions").mkdir(parents=True)
    (tmp_path / "docs" / "decisions" / "README.md").write_text("# Decisions\n", "utf-8")
    page = tmp_path / "docs" / "README.md"
    page.write_text("# Index\n\n[Heading](#index)\n", "utf-8")
    assert _build(tmp_path, tmp_path / "site").returncode == 0
    page.write_text("# Index\n\n[File](absent.md) [heading](#absent) [root](/README.md)\n", "utf-8")
    done = _build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == 3
