"""The output of `podium whatif --victim`: three main lines, bounded lists, and its JSON contract."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser
from tests.support import whatif as sample
from tests.support.browser import looks_right, opened
from tests.support.render.sample import HOSTILE
from tests.unit.cli.render.test_page import Reader

from podium.cli.render import threat as faces
from podium.cli.render.data import as_json, as_text
from podium.cli.render.text import Layout
from podium.cli.render.whatif_words import PageOrigin
from podium.planner.preemption.outcome import UnitPod
from podium.planner.semantics import Semantics
from podium.planner.threat import BudgetCharge, ExemptPod, NodeRoom, Threat

MADE = PageOrigin("1.0", "2026-11-21T12:00:00Z")
GIB = 2**30


def threat(**fields: Any) -> Threat:
    """Return the answer for a gang of two on two equal nodes."""
    pods = (UnitPod("sweep-0", "n1"), UnitPod("sweep-1", "n2"))
    spared, without, frees = (
        {"cpu": 1500, "memory": 3 * GIB, "nvidia.com/gpu": 0},
        {"cpu": 2500, "memory": 3 * GIB, "nvidia.com/gpu": 1},
        {
            "cpu": 8000,
            "memory": 64 * GIB,
            "nvidia.com/gpu": 8,
        },
    )
    given: dict[str, Any] = {
        "semantics": Semantics.KEP,
        "kind": "PodGroup",
        "namespace": "team-b",
        "name": "sweep",
        "priority": 100,
        "pods": pods,
        "one_by_one": 0,
        "protection": "",
        "doubt": "",
        "minimal": 101,
        "later": 101,
        "tolerations": (),
        "budgets": (),
        "rooms": tuple(NodeRoom(name, spared, without, frees) for name in ("n1", "n2")),
        "classes": (("research", 1000), ("urgent", 5000)),
    }
    return Threat(**{**given, **fields})


def lines(found: Threat, width: int = 400) -> list[str]:
    return faces.threat_table(found, sample.basis(), Layout(width=width, colour=False)).splitlines()


HELD = ExemptPod("sweep-0", 2000, 1_795_276_800, scheduled=True)


@dataclass
class Case:
    """An answer and its three lines after the first."""

    found: Threat
    priority: str
    size: str
    shield: str


GROUP = "PodGroup team-b/sweep (priority 100, 2 pods on n1, n2)"
SIZE = (
    "On n1 a pod that requests more than 1 and at most 9 nvidia.com/gpu preempts it. Up to 0 does "
    "not; between "
    "these amounts the least harm decides. A group preempts it if the group cannot reach its "
    "minCount otherwise."
)
CASES = {
    "open": Case(
        threat(),
        f"{GROUP} can be preempted by priority 101 or higher, that is class research (1000) and above.",
        f"The group is preempted as a whole. {SIZE}",
        "No toleration and no PodDisruptionBudget protects it.",
    ),
    "no pod has the class": Case(
        threat(classes=(), kind="Pod", one_by_one=2),
        f"{GROUP[:3]}{GROUP[8:]} can be preempted by priority 101 or higher, "
        "which no class of the cluster has.",
        f"2 members of the group are preempted one by one; this is the first. {SIZE}",
        "No toleration and no PodDisruptionBudget protects it.",
    ),
    "held": Case(
        threat(tolerations=(HELD,), minimal=2000, budgets=(BudgetCharge("sweep", 1, 2),)),
        f"{GROUP} can be preempted by priority 2000 or higher, that is class research (1000) and above.",
        f"The group is preempted as a whole. {SIZE}",
        "Its PriorityClass holds back priorities below 2000 until 2026-11-21T16:00:00Z; without it, "
        "priority 101 is enough. Its eviction would violate PodDisruptionBudget sweep: it is spared "
        "if preempting "
        "others makes "
        "enough room.",
    ),
    "protected": Case(
        threat(minimal=None, later=None, rooms=(), classes=(), protection="it is a static pod"),
        f"Nothing can preempt {GROUP}.",
        "It is a static pod.",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_opens_with_what_counts(case: Case) -> None:
    """The report has priority, size and protection, after the line of rules and time."""
    written = [line for line in lines(case.found)[1:4] if line]
    assert written == [line for line in (case.priority, case.size, case.shield) if line]


def test_nodes_that_have_the_same_share_a_row() -> None:
    """Equal nodes share one row a resource, in quantities."""
    rows = [line.split("  ") for line in lines(threat())]
    found = [[cell.strip() for cell in row if cell.strip()] for row in rows if row[0] == "n1, n2"]
    assert found == [
        ["n1, n2", "cpu", "1500m", "2500m", "10500m"],
        ["n1, n2", "memory", "3Gi", "3Gi", "67Gi"],
        ["n1, n2", "nvidia.com/gpu", "0", "1", "9"],
    ]


AMOUNTS = [
    ("cpu", 0, "0"),
    ("cpu", 250, "250m"),
    ("cpu", -500, "-500m"),
    ("cpu", 4000, "4"),
    ("memory", 2**30, "1Gi"),
    ("memory", 3 * 2**20, "3Mi"),
    ("memory", 1000, "1000"),
    ("hugepages-2Mi", 2**21, "2Mi"),
    ("nvidia.com/gpu", 1024, "1024"),
]


@pytest.mark.parametrize(("resource", "value", "text"), AMOUNTS)
def test_amounts_are_quantities(resource: str, value: int, text: str) -> None:
    """Cpu is in milli, bytes are in the largest exact unit, other resources are numbers."""
    assert faces.amount(resource, value) == text


def test_lists_are_bounded_and_say_so() -> None:
    """Tolerations, budgets and classes are cut in the table and counted."""
    found = threat(
        tolerations=tuple(ExemptPod(f"pod-{at}", 2000, None, scheduled=True) for at in range(50)),
        budgets=tuple(BudgetCharge(f"budget-{at}", 0, 1) for at in range(50)),
        classes=tuple((f"class-{at}", 200 + at) for at in range(50)),
    )
    written = lines(found)
    for limit in (faces.TOLERATIONS, faces.CLASSES):
        assert f"  ... and {50 - limit} more (-o wide shows all)" in written
    assert len(written) < 60


def test_json_is_the_contract() -> None:
    """The document has its keys in order; null means without end, or none; YAML is the same document."""
    document = faces.threat_document(threat(tolerations=(ExemptPod("a", 9, None, scheduled=False), HELD)))
    value = json.loads(as_json(document))
    assert list(value) == [
        "apiVersion",
        "kind",
        "semantics",
        "unit",
        "protection",
        "minimalPriority",
        "minimalPriorityLater",
        "tolerations",
        "budgets",
        "nodes",
        "classes",
    ]
    assert (value["kind"], value["unit"]["name"]) == ("ThreatReport", "sweep")
    assert [each["until"] for each in value["tolerations"]] == [None, "2026-11-21T16:00:00Z"]
    assert [value["nodes"][0][name]["cpu"] for name in ("spared", "without")] == ["1500m", "2500m"]
    assert yaml.safe_load(as_text(document, "yaml")) == value


def test_page_is_whole_and_names_are_text() -> None:
    """Every tag is closed, there is no script, and a hostile name is text."""
    found = threat(name=HOSTILE, tolerations=(HELD,), budgets=(BudgetCharge(HOSTILE, 0, 2),))
    reader = Reader(faces.threat_page(found, sample.basis(), MADE))
    tags = [tag for tag, _ in reader.tags]
    assert "script" not in tags
    assert tags.count("table") == tags.count("caption") == 4
    assert any("<script>alert(1)</script>" in text for text in reader.texts["h1"])
    assert "\x1b" not in "\n".join(lines(found))


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_page_looks_right(browser: Browser, tmp_path: Path, width: int, scheme: Any) -> None:
    """In a browser no text is too faint, nothing scrolls sideways, and nothing is requested."""
    file = tmp_path / "threat.html"
    found = threat(tolerations=(HELD,), budgets=(BudgetCharge("sweep", 0, 2),))
    file.write_text(faces.threat_page(found, sample.basis(), MADE), "utf-8")
    tab, console, requests = opened(
        browser, file, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    looks_right(tab, width)
    assert (console, requests) == ([], [file.as_uri()])
    folder = os.environ.get("PODIUM_SCREENSHOTS")
    if folder:
        tab.screenshot(path=f"{folder}/threat-{width}-{scheme}.png", full_page=True)
