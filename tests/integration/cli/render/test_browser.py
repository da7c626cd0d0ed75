"""The HTML file in a real browser: its content in light and dark, wide and narrow, and on paper.

Screenshots go to the folder PODIUM_SCREENSHOTS if it is set, to be checked after a change of style.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.support.browser import Opened, looks_right, opened
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.cli.render import page as page_module
from podium.cli.render.formats import render

pytestmark = pytest.mark.browser

REPORTS = {"sick": sample.sick(), "triaged": sample.triaged()}


def _open(browser: Browser, folder: Path, report: AuditReport, **options: Any) -> Opened:
    file = folder / "report.html"
    file.write_text(render(report, "html", sample.context()), "utf-8")
    return opened(browser, file, **options)


def test_page_opens_in_peace(browser: Browser, tmp_path: Path) -> None:
    """No error, no dialog from a hostile name, and no request but the file itself."""
    tab, messages, requests = _open(browser, tmp_path, sample.sick())
    expect(tab).to_have_title(
        "Podium audit: 24 groups, 1,296 pods and 768 accelerators will not schedule on Kubernetes 1.37."
    )
    expect(tab.locator("script")).to_have_count(1)
    tab.locator("summary", has_text="60 at 1000").click()
    expect(tab.get_by_text("First 50 of 60.")).to_be_visible()
    assert messages == []
    assert requests == [(tmp_path / "report.html").as_uri()]


def test_smuggled_markup_could_do_nothing(browser: Browser, tmp_path: Path) -> None:
    """Markup that is not escaped neither runs nor loads: the policy blocks it."""
    tab, _, _ = _open(browser, tmp_path, sample.sick())
    evil = (
        "<img src=x onerror='document.title=1'><script>document.title=2</script>"
        "<style>h1 { color: red }</style>"
    )
    file = tmp_path / "report.html"
    file.write_text(file.read_text("utf-8").replace("<main>", f"<main>{evil}"), "utf-8")
    tab.goto(file.as_uri())
    expect(tab.locator("main > img")).to_have_count(1)
    assert tab.title().startswith("Podium audit:")
    assert tab.locator("h1").evaluate("e => getComputedStyle(e).color") != "rgb(255, 0, 0)"


def test_numbers_are_the_jsons(browser: Browser, tmp_path: Path) -> None:
    """The big numbers, and the rows of findings and groups, are those of the JSON report."""
    tab = _open(browser, tmp_path, sample.sick()).page
    document = json.loads(render(sample.sick(), "json", sample.context()))
    summary = document["summary"]
    numbers = [int(text.replace(",", "")) for text in tab.locator(".tile dd").all_inner_texts()]
    assert numbers == [
        summary["blocked"]["groups"],
        summary["blocked"]["pods"],
        sum(summary["blocked"]["accelerators"].values()),
        len(document["groups"]),
        summary["errors"],
        summary["warnings"],
        summary["infos"],
    ]
    expect(tab.locator(".finding")).to_have_count(len(document["findings"]))
    expect(tab.locator("#groups ~ * tbody tr")).to_have_count(len(document["groups"]))
    pods = tab.locator(".card").first.locator("td.number").all_inner_texts()
    assert [int(text.replace(",", "")) for text in pods] == [share["pods"] for share in summary["priorities"]]
    bars = (
        tab.locator(".card")
        .first.locator("rect")
        .evaluate_all("bars => bars.map(b => b.width.baseVal.value)")
    )
    most = max(share["pods"] for share in summary["priorities"])
    assert bars == pytest.approx([100 * share["pods"] / most for share in summary["priorities"]], abs=0.01)


def test_filter_hides_what_does_not_match(browser: Browser, tmp_path: Path) -> None:
    """Text and severities filter findings together, and the count of visible findings follows."""
    tab = _open(browser, tmp_path, sample.sick()).page
    shown = tab.locator(".finding:not([hidden])")
    count = tab.locator("#shown")
    expect(count).to_have_text("11 of 11 shown")
    tab.get_by_label("Filter").fill("TEAM-B/sweep-3")
    expect(shown).to_have_count(1)
    expect(tab.locator(".rule:not([hidden])")).to_have_count(1)
    expect(count).to_have_text("1 of 11 shown")
    tab.get_by_label("Filter").fill("")
    tab.get_by_label("error").uncheck()
    expect(shown).to_have_count(2)
    tab.get_by_label("Filter").fill("class-unused")
    expect(shown).to_have_count(1)
    expect(shown.first).to_be_visible()


def test_groups_sort_by_a_column(browser: Browser, tmp_path: Path) -> None:
    """A click on a column puts the largest first, a second one the smallest."""
    tab = _open(browser, tmp_path, sample.sick()).page
    first = tab.locator(".sortable tbody tr").first
    members = tab.get_by_role("button", name="Members")
    members.click()
    expect(first).to_contain_text("1,200")
    expect(tab.locator(".sortable th[aria-sort=descending]")).to_have_text("Members")
    members.click()
    expect(first).to_contain_text("team-b/sweep-0")
    tab.get_by_role("button", name="Divergent pods").click()
    expect(first).to_contain_text("60 at 1000")


def test_reads_without_script(browser: Browser, tmp_path: Path) -> None:
    """With scripts off everything but the filter is shown."""
    tab = _open(browser, tmp_path, sample.sick(), java_script_enabled=False).page
    expect(tab.locator(".filter")).to_be_hidden()
    expect(tab.locator(".finding").first).to_be_visible()
    tab.locator(".rule.info summary").click()
    expect(tab.get_by_text("no pod, group or template uses it.")).to_be_visible()


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_looks_right(browser: Browser, tmp_path: Path, width: int, scheme: str, name: str) -> None:
    """axe-core finds nothing, such as low contrast, and the page never scrolls sideways."""
    size = {"width": width, "height": 900}
    tab = _open(browser, tmp_path, REPORTS[name], color_scheme=scheme, viewport=size).page
    looks_right(tab, width)
    first = tab.locator("h1").bounding_box()
    assert first is not None
    assert first["y"] < 150
    folder = os.environ.get("PODIUM_SCREENSHOTS")
    if folder:
        tab.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)


def test_paper_has_what_is_closed_on_screen(browser: Browser, tmp_path: Path) -> None:
    """Printing shows the findings of closed rules, and no filter."""
    tab = _open(browser, tmp_path, sample.sick()).page
    tab.emulate_media(media="print")
    closed = tab.get_by_text("no pod, group or template uses it.")
    box = closed.bounding_box()
    assert box is not None
    assert box["height"] > 0
    expect(tab.locator(".filter")).to_be_hidden()
    folder = os.environ.get("PODIUM_SCREENSHOTS")
    if folder:
        tab.pdf(path=f"{folder}/paper.pdf")


def test_ten_thousand_findings_stay_usable(browser: Browser, tmp_path: Path) -> None:
    """The page of a huge report is cut with a note, and its filter still works."""
    tab, messages, _ = _open(browser, tmp_path, sample.large(10_000))
    expect(tab.locator(".finding")).to_have_count(page_module.FINDINGS * len(sample.RULES))
    expect(tab.get_by_text(f"First {page_module.GROUPS} of 5,000.")).to_be_visible()
    tab.get_by_label("Filter").fill("team-0/train-0 ")
    expect(tab.locator(".finding:not([hidden])")).to_have_count(1)
    assert messages == []


def test_findings_that_do_not_count_are_on_the_page(browser: Browser, tmp_path: Path) -> None:
    """Known, fixed and ignored findings are counted first and listed last, expired ignores on top."""
    tab = _open(browser, tmp_path, sample.triaged()).page
    tiles = dict(zip(*(tab.locator(f".tile {part}").all_inner_texts() for part in ("dt", "dd")), strict=True))
    assert {
        name.strip(): number for name, number in tiles.items() if "finding" in name or "error" in name
    } == {
        "new error": "1",
        "known findings": "8",
        "gone finding": "1",
        "ignored findings": "2",
    }
    expect(tab.get_by_text("Compared with audit/baseline.json")).to_be_visible()
    expect(tab.locator(".finding")).to_have_count(1)
    rows = {name: tab.locator(f"#{name} ~ * tbody tr") for name in ("known", "gone", "ignores", "ignored")}
    assert {name: row.count() for name, row in rows.items()} == {
        "known": 8,
        "gone": 1,
        "ignores": 5,
        "ignored": 2,
    }
    expect(rows["ignores"].first).to_contain_text("expired 2025-12-31")
    expect(rows["ignored"].last).to_contain_text("Ignored: for ever")


def test_clean_report_is_green_and_short(browser: Browser, tmp_path: Path) -> None:
    """The page of a report without findings states that, without empty sections."""
    tab = _open(browser, tmp_path, sample.clean()).page
    expect(tab.locator("h1")).to_have_text("All checked groups and pods can be scheduled on Kubernetes 1.37.")
    expect(tab.locator("h1")).to_have_class("clear")
    expect(tab.locator("h2")).to_have_text(["Distribution", "Cluster map"])
