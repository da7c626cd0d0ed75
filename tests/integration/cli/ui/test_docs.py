"""docs/ui.md has the list limits of the code; its commands, the README's and the help's run."""

import re
import shlex
import urllib.request
from pathlib import Path

import pytest
from tests.support.docs.help import UI
from tests.support.servers import Server
from tests.support.ui.running import serving

from podium.cli.render.html import FIRST
from podium.cli.ui import history, object_page, overview, page_parts, planning, threatened

ROOT = Path(__file__).parents[4]
DOCS = (ROOT / "docs" / "ui.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
CUTS = {
    "groups, pods, members, plans of the history on a page": page_parts.ROWS,
    "groups and pods that wait or diverge, on the overview": overview.ATTENTION,
    "priorities": overview.LEVELS,
    "preemptions of it, and for it": object_page.DEPARTURES,
    "victims of a plan in the history": history.UNITS,
    "spans of the timeline of the history": history.SPANS,
    "pending groups and pods that the form offers, and running ones": planning.OFFERED,
}
LINES = [
    shlex.split(line, comments=True)[2:]
    for line in (
        *re.findall(r"^(?:    |\$ )(podium ui\b.*)$", f"{DOCS}\n{README}", re.MULTILINE),
        *(line.replace("cluster.json.gz", "examples/training-1.37.json.gz") for line in UI),
    )
]
OFFLINE = [line for line in LINES if "-f" in line]
LIVE = [line for line in LINES if "-f" not in line]


def test_cuts_are_documented() -> None:
    """The table has the code's numbers only."""
    text = DOCS.partition("Long lists are cut")[2].partition("\n##")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert rows == [f"| {what} | {shown} |" for what, shown in CUTS.items()]
    assert f"a page shows the first {FIRST}." in DOCS
    assert f"Refresh: off {' '.join(f'{seconds} s' for seconds in page_parts.REFRESH)}`" in DOCS
    assert object_page.GAINS == object_page.DEPARTURES
    assert threatened.OFFERED == planning.OFFERED
    assert planning.MANIFEST == 1 << 20
    assert "A manifest is 1 MiB\nat most" in DOCS


def opens(link: str) -> bool:
    with urllib.request.urlopen(link) as answer:
        return bool(answer.status == 200)


@pytest.mark.parametrize("line", OFFLINE, ids=" ".join)
def test_offline_commands_run(line: list[str]) -> None:
    with serving(*line) as link:
        assert opens(link)


@pytest.mark.server
def test_live_commands_run(server_137: Server) -> None:
    assert LIVE
    # Another test may have created it.
    server_137.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
    for line in LIVE:
        with serving(*line, KUBECONFIG=str(server_137.kubeconfig)) as link:
            assert opens(link)


def test_the_screenshots_are_there_and_small() -> None:
    """Every picture of the page is checked in; `make screenshots` takes them."""
    names = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", DOCS)
    assert len(names) == 5
    for name in names:
        assert 0 < (ROOT / "docs" / name).stat().st_size < 200_000
