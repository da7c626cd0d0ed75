"""Take the pictures of docs/ui.md from the examples: `make screenshots`."""

from typing import Any

from playwright.sync_api import Page
from tests.support.browser import launched
from tests.support.ui.running import PREEMPTION, ROOT, TRAINING, serving

SIZE: Any = {"width": 1100, "height": 760}
# The first one has an error: the class does not exist.
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: urgent, namespace: team-d}
spec:
  priorityClassName: reserch
  schedulerName: podium-scheduler
  containers:
  - {name: main, image: example.com/x, resources: {requests: {nvidia.com/gpu: "8"}}}
"""


def take(page: Page, name: str, link: str, path: str) -> None:
    """Open a page and take a picture of its first screen."""
    page.goto(link)
    page.wait_for_url("**/")
    page.goto(f"{link.partition('/?')[0]}{path}")
    if name == "whatif":
        page.get_by_label("Objects to add").fill(MANIFEST)
        page.get_by_role("button", name="Plan").click()
    page.screenshot(path=ROOT / "docs" / f"ui-{name}.png")


def main() -> None:
    """Take all pictures."""
    with (
        serving("-f", TRAINING) as training,
        serving(*PREEMPTION) as preemption,
        launched() as browser,
    ):
        page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()
        take(page, "overview", training, "/")
        take(page, "group", preemption, "/group?name=research%2Ftrain")
        take(page, "plan", preemption, "/whatif?target=research%2Ftrain#picture")
        take(page, "history", preemption, "/history")
        take(page, "whatif", preemption, "/whatif")


if __name__ == "__main__":
    main()
