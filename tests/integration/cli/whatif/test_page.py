"""The HTML page of `podium whatif`: the domain as nodes, self-contained, hostile names inert."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect
from tests.support import whatif as sample
from tests.support.browser import looks_right, opened
from tests.support.render import cluster
from tests.support.render.cluster import GPU
from tests.support.render.sample import HOSTILE
from tests.unit.cli.render.test_page import Reader

from podium.answers.whatifreport import WhatIf
from podium.cli.render import whatif_page as page
from podium.cli.render.html import FIRST
from podium.cli.render.whatif_words import PageOrigin
from podium.planner.preemption.outcome import HarmLevel, NodeReason, Placed, PlanHarm

MADE = PageOrigin("1.0", "2026-11-21T12:00:00Z")
REPORTS = {
    "costly": sample.costly(HOSTILE),
    "fits": sample.fits(),
    "hopeless": sample.hopeless(),
    "large": sample.large(600),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=list(REPORTS))
def test_page_is_whole_and_loads_nothing(report: WhatIf) -> None:
    """Every tag is closed, and there is no script, no handler and no external address."""
    reader = Reader(page.whatif_page(report, MADE))
    names = {name for _, attributes in reader.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in {"src", "style", "href"}}
    tags = [tag for tag, _ in reader.tags]
    assert "script" not in tags
    assert tags.count("table") == tags.count("caption")
    policy = next(
        attributes["content"] or ""
        for tag, attributes in reader.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy


def test_victims_are_struck_out_on_their_node() -> None:
    """Each node shows its added, evicted and other pods; no other nodes are shown."""
    reader = Reader(page.whatif_page(sample.costly(), MADE))
    assert reader.texts["h3"] == ["node-0", "node-1", "node-2", "node-3"]
    # The first of each is the legend.
    assert reader.texts["ins"][1:] == [f"team-a/train-{each}" for each in range(4)]
    struck = reader.texts["del"][1:]
    assert struck == ["team-b/sweep-0", "team-b/lone", "team-b/sweep-1", "team-b/sweep-2", "team-b/sweep-3"]
    assert "team-b/kept" in reader.texts["span"]
    assert "team-b/far" not in reader.texts["span"]


def test_lists_are_bounded_and_say_so() -> None:
    """Names of nodes, units and reasons are cut with a note, and units are folded before that."""
    text = page.whatif_page(sample.large(600), MADE)
    assert text.count(f"First {page.CARDS} of 600.") == 1
    assert text.count(f"<summary>Show {page.UNITS - FIRST} more</summary>") == 2
    assert text.count(f"<summary>Show {page.REASONS - 4} more</summary>") == 1
    assert text.count(f"First {page.UNITS} of 600.") == 2
    assert text.count(f"First {page.REASONS} of 600.") == 1


def test_reasons_are_above_the_nodes() -> None:
    titles = Reader(page.whatif_page(sample.costly(), MADE)).texts["h2"]
    assert titles.index("Why it does not fit without preemption") < titles.index("Nodes of the plan")


def test_the_victims_of_a_large_plan_are_first_shown_by_namespace() -> None:
    """The namespace that loses most pods is first, and each victim is a click away."""
    teams = [team for number in range(6) for team in [number] * (number + 20)]
    victims = tuple(
        sample.single(f"pod-{at}", f"node-{at}", namespace=f"team-{team}", priority=team % 2)
        for at, team in enumerate(teams)
    )
    report = sample.report(msgspec.structs.replace(sample.large(0).plan, victims=victims))
    part = page.whatif_page(report, MADE).partition('id="victims"')[2].partition("</section>")[0]
    shown, _, rest = part.partition("<summary>Show 2 other namespaces, and all 135 units</summary>")
    rows = '<th scope="row">team-{0}</th><td class="number">{1}</td><td class="number">{2}</td>'
    assert [team for team in range(6) if rows.format(team, team % 2, team + 20) in shown] == [2, 3, 4, 5]
    assert shown.index("team-5") < shown.index("team-2")
    assert rows.format(0, 0, 20) in rest
    assert "team-0/pod-0" in rest


def test_equal_nodes_are_one_card() -> None:
    """More than a screen of nodes are folded by their numbers of pods, in natural order."""
    reader = Reader(page.whatif_page(sample.large(600), MADE))
    assert reader.texts["h3"] == ["600 nodes like node-0"]
    assert any(words.startswith("node-0, node-1, node-2, ") for words in reader.texts["details"])


def test_other_nodes_open_with_a_click() -> None:
    """Of nodes that differ, the first cards are shown and the rest are behind a line."""
    victims = tuple(
        sample.single(f"pod-{number}-{each}", f"node-{number}")
        for number in range(FIRST + 5)
        for each in range(number + 1)
    )
    report = sample.report(msgspec.structs.replace(sample.large(0).plan, victims=victims))
    nodes = page.whatif_page(report, MADE).partition('id="domain"')[2].partition("</section>")[0]
    shown, _, rest = nodes.partition("<summary>Show 5 more</summary>")
    assert shown.count('<li class="node">') == FIRST
    assert rest.count('<li class="node">') == 5


def test_a_crowded_node_counts_the_rest() -> None:
    """The card of a node with more pods than it shows has the number of the others."""
    plan = sample.large(1).plan
    many = tuple(sample.single(f"pod-{each}", "node-0") for each in range(page.PODS + 7))
    crowded = sample.report(
        type(plan)(semantics=plan.semantics, outcome=plan.outcome, message="", victims=many)
    )
    assert "7 more are preempted" in page.whatif_page(crowded, MADE)


@pytest.mark.browser
def test_page_opens_in_peace(browser: Browser, tmp_path: Path) -> None:
    """No error, no dialog from a hostile name, no request but the file itself; victims are struck out."""
    file = tmp_path / "whatif.html"
    file.write_text(page.whatif_page(sample.costly(HOSTILE), MADE), "utf-8")
    tab, console, requests = opened(browser, file)
    expect(tab).to_have_title(
        "Podium whatif: PodGroup team-a/train fits after preemption: "
        "4 pods on nodes node-0, node-1, node-2 and 1 more."
    )
    expect(tab.locator(".node")).to_have_count(4)
    style = tab.locator(".node del").first.evaluate("e => getComputedStyle(e).textDecorationLine")
    assert style == "line-through"
    assert console == []
    assert requests == [file.as_uri()]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["costly", "hopeless", "large"])
def test_looks_right(browser: Browser, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    """axe-core finds nothing, such as low contrast, and the page never scrolls sideways."""
    file = tmp_path / "whatif.html"
    file.write_text(page.whatif_page(REPORTS[name], MADE), "utf-8")
    tab = opened(browser, file, color_scheme=scheme, viewport={"width": width, "height": 900}).page
    looks_right(tab, width)
    folder = os.environ.get("PODIUM_SCREENSHOTS")
    if folder:
        tab.screenshot(path=f"{folder}/whatif-{name}-{width}-{scheme}.png", full_page=True)


def _on_five_thousand_nodes() -> WhatIf:
    """Return a plan for 256 pods with 640 victims of 40 namespaces, and pods of five priorities that stay."""
    places = [f"node-{number}" for number in range(256)]
    gone = [
        sample.single(f"gone-{at}-{place}", place, namespace=f"team-{number % 40}", priority=number % 3)
        for number, place in enumerate(places)
        for at in range(1 + number % 4)
    ]
    reasons = (
        ("node(s) had untolerated taint(s)", 50),
        ("Insufficient cpu", 4_900),
        (f"Insufficient {GPU}", 4_900),
    )
    plan = msgspec.structs.replace(
        sample.large(256).plan,
        message="256 of 256 pending pods fit after preempting 640 pods, 40 whole groups among them",
        harm=PlanHarm(0, (HarmLevel(2, 212, 212), HarmLevel(1, 213, 213), HarmLevel(0, 215, 215)), 18_000),
        victims=tuple(gone),
        nodes=tuple(
            NodeReason(words, count, ("node-98", "node-198", "node-298")) for words, count in reasons
        ),
    )
    before = [
        *(cluster.pod(f"train-{number}", "", 9_000, gpu=1 + number % 3) for number in range(256)),
        *(
            cluster.pod(f"stay-{place}", place, 1_000 * (at % 5), gpu=1 + at % 4)
            for at, place in enumerate(places)
        ),
        *(cluster.pod(unit.name, unit.pods[0].node, unit.priority, gpu=1) for unit in gone),
    ]
    view = cluster.state([*(cluster.node(f"node-{number}") for number in range(5_000)), *before])
    drawn = msgspec.structs.replace(
        plan,
        placements=tuple(Placed(f"team/train-{number}", place) for number, place in enumerate(places)),
        victims=tuple(msgspec.structs.replace(unit, namespace="team") for unit in gone),
    )
    report = sample.report(
        plan, {GPU: 640}, unknown=("PodDisruptionBudget: not in the input", "Namespace: not in the input")
    )
    return report._replace(drawn=(drawn, view))


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("size", "screens"), [((390, 844), 1.5), ((1280, 900), 1.0)])
def test_a_plan_for_5000_nodes_fits_a_screen(
    browser: Browser, tmp_path: Path, size: tuple[int, int], screens: float, scheme: Any
) -> None:
    """It fits one and a half of a phone, whose first has the outcome, the reasons and who is evicted."""
    width, height = size
    file = tmp_path / "whatif.html"
    file.write_text(page.whatif_page(_on_five_thousand_nodes(), MADE), "utf-8")
    tab = opened(browser, file, color_scheme=scheme, viewport={"width": width, "height": height}).page
    bottom = "e => e.getBoundingClientRect().bottom"
    first = [
        tab.locator("h1"),
        *(tab.locator(f"section:has(#{name}) .scroll").first for name in ("nodes", "victims")),
    ]
    assert [part.evaluate(bottom) <= height for part in first] == [True, True, True]
    assert tab.locator("main").evaluate(bottom) <= screens * height
    drawn = tab.locator("svg[role=img]").first
    expect(drawn).to_be_visible(visible=width == 1280)
    tab.get_by_role("heading", name="Nodes of the plan").click()
    cards = tab.locator(".node")
    assert 1 < cards.count() <= FIRST
    expect(cards.first).to_be_in_viewport()
    folder = os.environ.get("PODIUM_SCREENSHOTS")
    if folder:
        tab.screenshot(path=f"{folder}/whatif-5000-{width}-{scheme}.png", full_page=True)
    looks_right(tab, width)
