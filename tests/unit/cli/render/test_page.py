"""The HTML file as text: it is self-contained, escapes all input, and cuts long lists with a note."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.cli.render import page
from podium.cli.render.formats import render

REPORTS = {
    "sick": sample.sick(),
    "clean": sample.clean(),
    "large": sample.large(6_000),
    "triaged": sample.triaged(),
}
VOID = {"meta", "input", "br"}


class Reader(HTMLParser):
    """Parses a page strictly enough to see an injected tag, or an unclosed one."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_page_is_whole_and_loads_nothing(report: AuditReport) -> None:
    """Every tag is closed, no attribute has an external address, and no handler or style is inline."""
    reader = Reader(_page(report))
    names = {name for _, attributes in reader.tags for name in attributes}
    assert not {
        name for name in names if name.startswith("on") or name in {"src", "style", "srcset", "action"}
    }
    links = [attributes["href"] or "" for _, attributes in reader.tags if "href" in attributes]
    assert all(link.startswith("#") for link in links)
    assert "url(" not in "".join(reader.texts["style"])
    assert "@import" not in "".join(reader.texts["style"])


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_policy_allows_our_style_and_script_alone(report: AuditReport) -> None:
    """There is one style and one script, and the policy has exactly their hashes."""
    reader = Reader(_page(report))
    policy = next(
        attributes["content"] or ""
        for tag, attributes in reader.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'"
    for tag in ("style", "script"):
        (text,) = reader.texts[tag]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert parts[f"{tag}-src"] == f"'sha256-{digest}'"


def test_names_are_text() -> None:
    """A name that is markup is shown as text, with invisible characters as escapes."""
    reader = Reader(_page(sample.sick()))
    shown = (
        "<script>alert(1)</script>'\"&\\x1b[31m\\u202egnp\\x0a\\x3a:error::owned%0A\\x00\\ufffe \U0001f600"
    )
    assert any(shown in text for text in reader.texts["p"])
    assert any(shown in text for text in reader.texts["th"])
    assert any(shown in text for text in reader.texts["li"])
    assert [tag for tag, _ in reader.tags].count("script") == 1


def test_headings_go_down_one_step_at_a_time() -> None:
    """There is one main heading with the sentence of counts, and every table has a caption."""
    reader = Reader(_page(sample.sick()))
    assert reader.texts["h1"] == [
        "24 groups, 1,296 pods and 768 accelerators will not schedule on Kubernetes 1.37."
    ]
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("table") == tags.count("caption")


def test_long_lists_are_cut_with_a_word() -> None:
    """Of 1,000 findings a rule and 3,000 groups the page shows the first, and notes the cut."""
    text = _page(REPORTS["large"])
    assert text.count('<li class="finding"') == len(sample.RULES) * page.FINDINGS
    assert text.count(f"First {page.FINDINGS} of 1,000.") == len(sample.RULES)
    assert text.count(f"First {page.GROUPS} of 3,000.") == 1
    pods = _page(sample.sick())
    assert pods.count(f"First {page.POD_NAMES} of 60.") == 1


def _page(report: AuditReport) -> str:
    return render(report, "html", sample.context())
