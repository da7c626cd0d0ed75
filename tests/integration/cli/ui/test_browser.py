"""All pages in a real browser, served by the command, with mouse and keyboard, without errors.

Screenshots go to the folder PODIUM_SCREENSHOTS if it is set, to be checked after a change of style.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.support.browser import looks_right, opened
from tests.support.ui.clusters import AROUND, NOW, mixed, page_data
from tests.support.ui.running import PREEMPTION, TRAINING, serving
from tests.support.ui.tabs import enter, site_of

from podium.cli.ui.overview import overview
from podium.cli.ui.page_parts import Here

pytestmark = pytest.mark.browser

PATHS = {
    "overview": "/",
    "group": "/group?name=research%2Ftrain",
    "pod": "/pod?name=team-d%2Fnotebook",
    "divergences": "/divergences",
    "history": "/history",
    "whatif": "/whatif",
    "plan": "/whatif?target=research%2Ftrain",
    "threats": "/threats?name=team-b%2Fsweep",
    "threat not found": "/threats?name=nobody%2Fnothing",
    "no page": "/nothing",
    "error": "/pod?name=nobody%2Fnothing",
}
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: urgent, namespace: team-d}
spec:
  priorityClassName: research
  schedulerName: podium-scheduler
  containers: [{name: main, image: example.com/x, resources: {requests: {nvidia.com/gpu: "8"}}}]
"""


# The number of tables with rows wider than their box.
SIDEWAYS = """[...document.querySelectorAll(".rows, .units")]
  .filter((box) => box.scrollWidth > box.clientWidth).length"""


@pytest.fixture(scope="module")
def preemption() -> Iterator[str]:
    with serving(*PREEMPTION) as link:
        yield link


@pytest.fixture(scope="module")
def training() -> Iterator[str]:
    with serving("-f", TRAINING) as link:
        yield link


def test_a_walk_through_all_pages(browser: Browser, preemption: str) -> None:
    """From the overview to a group, its plan, a pod, the history and the form; no address has the token."""
    tab = enter(browser, preemption)
    page = tab.page
    assert "token" not in page.url
    expect(page.locator("h1")).to_have_text("1 group waits.")
    page.get_by_role("link", name="research/train").click()
    expect(page.locator("h1")).to_contain_text("PodGroup research/train waits")
    expect(page.get_by_role("heading", name="PodGroup research/train fits after preemption")).to_be_visible()
    expect(page.locator(".node del", has_text="team-b/sweep-0")).to_be_visible()
    expect(page.get_by_text("Harm: 3 units (4 pods) of priority 100; 48.0 accelerator-hours")).to_be_visible()
    page.get_by_role("link", name="research/train-0").click()
    expect(page.locator("h1")).to_contain_text("Pod research/train-0 waits")
    page.get_by_role("link", name="Divergences").click()
    expect(page.locator("h1")).to_have_text("No group has pods of another priority.")
    page.get_by_role("link", name="History").click()
    expect(page.locator("#plans ~ * tbody tr")).to_have_count(6)
    page.get_by_label("Mode").select_option("Observed")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#plans ~ * tbody tr")).to_have_count(2)
    page.get_by_role("link", name="What if").click()
    page.get_by_label("Pending group or pod").fill("research/train")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("h1")).to_contain_text("PodGroup research/train fits after preemption")
    expect(page.get_by_label("Pending group or pod")).to_have_value("research/train")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="groups", exact=True).click()
    page.get_by_role("link", name="team-b/sweep").click()
    page.get_by_role("link", name="What can preempt it").click()
    expect(page.locator("h1")).to_contain_text("can be preempted by priority")
    page.get_by_label("Running group or pod").fill("team-b/swep")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("pod or PodGroup team-b/swep not found")
    tab.in_peace(site_of(preemption))


def test_a_manifest_is_planned_for_and_a_wrong_one_kept(browser: Browser, preemption: str) -> None:
    """The error is next to the input, which can be corrected and sent again."""
    tab = enter(browser, preemption)
    page = tab.page
    page.goto("/whatif")
    box = page.get_by_label("Objects to add")
    wrong = MANIFEST.replace("research", "reserch")
    box.fill(wrong)
    page.get_by_label("Budgets").select_option("strict")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("alert")).to_contain_text("no PriorityClass with name reserch was found")
    expect(box).to_have_value(wrong)
    expect(page.get_by_label("Budgets")).to_have_value("strict")
    box.fill(MANIFEST)
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("h1")).to_contain_text("Pod team-d/urgent fits after preemption")
    expect(box).to_have_value(MANIFEST)
    expect(page.get_by_role("alert")).to_have_count(0)
    tab.in_peace(site_of(preemption))


def test_a_form_is_filled_by_keyboard_alone(browser: Browser, preemption: str) -> None:
    """Tab, letters and Enter lead from the navigation to the plan; the focus is visible."""
    tab = enter(browser, preemption)
    page = tab.page
    for _ in range(4):
        page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_text("What if")
    assert focused.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("What would be preempted?")
    field = page.get_by_label("Pending group or pod")
    for _ in range(9):
        page.keyboard.press("Tab")
        if field.evaluate("e => e === document.activeElement"):
            break
    page.keyboard.type("research/train")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("fits after preemption")
    tab.in_peace(site_of(preemption))


def test_rows_are_filtered(browser: Browser, training: str) -> None:
    """Namespace and state filter the rows of a real cluster's dump; the address keeps the filter."""
    tab = enter(browser, training)
    page = tab.page
    page.get_by_role("link", name="groups", exact=True).click()
    rows = page.locator("#rows ~ * tbody tr")
    expect(rows).to_have_count(20)
    page.get_by_label("State").select_option("diverging")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(4)
    page.get_by_label("Namespace").select_option("team-vision")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(2)
    page.reload()
    expect(rows).to_have_count(2)
    expect(page.get_by_label("Namespace")).to_have_value("team-vision")
    tab.in_peace(site_of(training))


def test_it_reads_without_script(browser: Browser, training: str) -> None:
    """Every page works without scripts, the session link included."""
    tab = enter(browser, training, java_script_enabled=False)
    tab.page.get_by_role("link", name="Divergences").click()
    expect(tab.page.locator("h1")).to_have_text("4 groups have pods of another priority.")


def test_a_wrong_address_leads_back(browser: Browser, training: str) -> None:
    """An unknown address has a link to the overview, an unknown name also to a search for it."""
    page = enter(browser, training).page
    page.goto("/group?name=team-vision%2Fablate")
    page.get_by_role("link", name="Search groups for ablate").click()
    expect(page.get_by_label("Name or class")).to_have_value("ablate")
    page.goto("/grups")
    expect(page.locator("h1")).to_have_text("Page not found.")
    page.get_by_role("link", name="Overview").click()
    expect(page).to_have_title("Overview - Podium")


def test_another_browser_is_not_let_in(browser: Browser, training: str) -> None:
    """Requests without the session are refused; other sites cannot send forms, or show a page in a frame."""
    stranger = browser.new_context(base_url=site_of(training)).new_page()
    stranger.goto("/")
    expect(stranger.locator("h1")).to_have_text("This browser is not signed in.")
    known = enter(browser, training).page
    site = site_of(training)
    known.goto(
        "data:text/html," + f'<form method="post" action="{site}/whatif/plan"><button>x</button></form>'
    )
    known.get_by_role("button").click()
    expect(known.locator("h1")).to_have_text("This form came from another page.")
    known.goto(f'data:text/html,<iframe src="{site}/"></iframe>')
    expect(known.frame_locator("iframe").get_by_text("Overview")).to_have_count(0)


def test_the_overview_leads_to_what_is_wrong(browser: Browser, training: str) -> None:
    """The first table has what waits or diverges, above the map, and each tile opens its list."""
    page = enter(browser, training, viewport={"width": 1280, "height": 800}).page
    expect(page.locator("h2").first).to_have_text("Waiting or diverging")
    expect(page.locator("#attention ~ * tbody tr")).to_have_count(7)
    expect(page.locator("#attention ~ * tbody tr").first).to_contain_text("2026-11-21T10:14:28Z")
    assert page.locator("#attention").evaluate("e => e.getBoundingClientRect().bottom") < 400
    # Between the words and the number, which are in the same tile.
    page.locator(".tile", has_text="groups diverging").click(position={"x": 140, "y": 12})
    expect(page.locator("#rows ~ * tbody tr")).to_have_count(4)
    expect(page.get_by_label("State")).to_have_value("diverging")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_live_page_can_refresh_itself(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    """The switch is a part of the navigation, and axe-core finds nothing."""
    made = page_data(mixed(), tmp_path)
    around = AROUND._replace(live=True)
    file = tmp_path / "page.html"
    here = Here("/", {"refresh": "10"})
    file.write_text(overview(made.census, made.map, here, around, made.reason, NOW), "utf-8")
    options: Any = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    page = opened(browser, file, **options).page
    expect(page.get_by_role("navigation")).to_contain_text("reload. Refresh: off 10 s 60 s")
    expect(page.get_by_role("link", name="off")).to_have_attribute("href", "/")
    expect(page.get_by_role("link", name="60 s")).to_have_attribute("href", "/?refresh=60")
    looks_right(page, width)


def test_pictures_are_images_with_titles(browser: Browser, preemption: str) -> None:
    """The map, a plan and the timeline have a title for each node and bar."""
    tab = enter(browser, preemption)
    page = tab.page
    for path, name, titles in (
        ("/", "gpu-1 to gpu-4", 4),
        ("/whatif?target=research%2Ftrain", "gpu-1 to gpu-3, before and after", 6),
        ("/history", "Preemptions from 2026-11-16 09:00 to 2026-11-19 09:00 UTC", 4),
    ):
        page.goto(path)
        image = page.get_by_role("img", name=name)
        expect(image).to_have_count(1)
        expect(image.locator(".spot > title")).to_have_count(titles)
    tab.in_peace(site_of(preemption))


def test_a_click_selects_a_whole_command(browser: Browser, training: str) -> None:
    page = enter(browser, training).page
    page.goto("/group?name=team-vision%2Fablation")
    page.locator(".command").first.click()
    selected = page.evaluate("getSelection().toString()")
    assert selected == "kubectl delete podgroup.scheduling.k8s.io ablation -n team-vision --wait=false"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_looks_right(browser: Browser, preemption: str, training: str, width: int, scheme: str) -> None:
    """axe-core finds nothing, such as low contrast, and no page scrolls sideways."""
    size = {"width": width, "height": 900}
    folder = os.environ.get("PODIUM_SCREENSHOTS")
    sites = (
        (preemption, PATHS),
        (training, {"training": "/", "diverging": "/divergences", "list": "/?what=groups"}),
    )
    for link, paths in sites:
        page = enter(browser, link, color_scheme=scheme, viewport=size).page
        for name, path in paths.items():
            page.goto(path)
            looks_right(page, width)
            if width < 640:
                assert page.evaluate(SIDEWAYS) == 0, name
            if folder:
                page.screenshot(path=f"{folder}/ui-{name}-{width}-{scheme}.png", full_page=True)
        page.context.close()
