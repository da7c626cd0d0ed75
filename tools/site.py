"""Hooks of mkdocs: the navigation is the index of docs/, and the pages are those that GitHub shows."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n)*)", re.MULTILINE)
_PAGE = re.compile(r"^- \[[^\]]*\]\(([^)]+)\)", re.MULTILINE)
_OUTSIDE = re.compile(r"\]\((\.\./[^)#]*)")
_ITEM = re.compile(r"(?:[-*]|\d+\.) +")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Return the configuration with the sections of the index as navigation."""
    docs = Path(config.docs_dir)
    decisions = sorted(f"decisions/{path.name}" for path in (docs / "decisions").glob("0*.md"))
    pages_of = sections(docs) | {"Decisions": ["decisions/README.md", *decisions]}
    config.nav = ["README.md", *({title: pages} for title, pages in pages_of.items())]
    return config


def sections(docs: Path) -> dict[str, list[str]]:
    """Return the pages of each section of the index of a folder, in its order."""
    return {
        title: [page for page in _PAGE.findall(rows) if "/" not in page]
        for title, rows in _SECTION.findall((docs / "README.md").read_text(encoding="utf-8"))
    }


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Files) -> str:
    """Return the text of a page, whose links out of docs/ lead into the repository."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def address(match: "re.Match[str]") -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        return match[0] if path.startswith("docs/") else f"]({config.repo_url}/blob/HEAD/{path}"

    return _OUTSIDE.sub(address, _indented(markdown))


def _indented(markdown: str) -> str:
    """Return the text with the blocks of list items as Python-Markdown requires them.

    They are indented by four spaces instead of the width of the item's mark, and a blank line follows them.
    """
    lines: list[str] = []
    width, is_code, has_blocks = 0, False, False
    for line in markdown.splitlines():
        if line.startswith("```"):
            width, is_code = 0, not is_code
        elif not is_code and (item := _ITEM.match(line)):
            if has_blocks:
                lines.append("")
            width, has_blocks = item.end(), False
        elif line.strip() and not line.startswith(" "):
            width, has_blocks = 0, False
        if width and line.startswith(" " * width):
            has_blocks = has_blocks or not lines[-1]
            lines.append(f"    {line[width:]}")
        else:
            lines.append(line)
    return "\n".join(lines)
