"""`python -m tools.docs` writes the generated parts of pages from the code; a test keeps them current."""

import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.docs import chart, configuration, library, limits, rules, rulesets, versions
from tools.docs.sources import ROOT
from tools.manifests import metrics
from tools.site import sections

_PLACE = re.compile(r"(?<=<!-- generated -->\n).*?(?=<!-- end -->)", re.DOTALL)


def _placed(made: Callable[[], str], text: str, docs: str = "") -> str:
    """Insert the generated text at the mark in a page; `docs` is the way from there to the other pages.

    Raises ValueError if it has no mark, or several.
    """
    section = f"\n{_linked(made(), docs)}\n"
    written, count = _PLACE.subn(lambda _: section, text)
    if count != 1:
        raise ValueError(f"{count} places between <!-- generated --> and <!-- end -->; one is wanted")
    return written


def _linked(text: str, folder: str) -> str:
    """Return the text with each page that it names as a link; docstrings name pages by their path."""
    return re.sub(r"(?<!/)\bdocs/([\w-]+\.md)", rf"[\1]({folder}\1)", text)


def _from_heading(text: str) -> str:
    return text.partition(rules.HEADING)[0] + rules.admission_part()


def _llms(_: str) -> str:
    """Return the index for language models (llmstxt.org): the title and the first sentence of each page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = ["# Podium", "", f"> {project['description']}."]
    for section, pages in sections(ROOT / "docs").items():
        lines += ["", f"## {section}", ""]
        lines += [
            f"- [{_title(ROOT / 'docs' / page)}](docs/{page}): {_opening(ROOT / 'docs' / page)}"
            for page in pages
        ]
    return "\n".join(lines) + "\n"


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _opening(page: Path) -> str:
    """Return the first sentence of a page, without links."""
    paragraph = " ".join(page.read_text(encoding="utf-8").split("\n\n")[1].split())
    sentence = re.split(r"[.:] (?=[A-Z`[])|[.:]$", paragraph)[0]
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence) + "."


# For each page, the function from its text to its new text.
PAGES: dict[Path, Callable[[str], str]] = {
    ROOT / "docs" / "admission-rules.md": _from_heading,
    ROOT / "docs" / "configuration.md": partial(_placed, configuration.reference),
    ROOT / "docs" / "differences.md": partial(_placed, rulesets.table),
    ROOT / "docs" / "library.md": partial(_placed, library.reference),
    ROOT / "docs" / "limits.md": partial(_placed, limits.reference),
    ROOT / "docs" / "metrics.md": metrics.page,
    ROOT / "docs" / "rules.md": lambda _: rules.audit_page(),
    ROOT / "docs" / "versions.md": partial(_placed, versions.reference),
    ROOT / "llms.txt": _llms,
    ROOT / "manifests" / "chart" / "README.md": partial(_placed, chart.table, docs="../../docs/"),
    ROOT / "kubecel" / "README.md": partial(_placed, limits.selectors),
}


if __name__ == "__main__":
    for path, made in PAGES.items():
        path.write_text(made(path.read_text(encoding="utf-8")), encoding="utf-8")
