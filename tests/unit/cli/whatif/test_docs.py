"""docs/whatif.md has the list limits, settings, outcomes and semantics of the code."""

import re
from pathlib import Path

from click.testing import CliRunner

from podium.answers.schedulerfile import WhatIfModel
from podium.cli.commands import whatif
from podium.cli.main import command
from podium.cli.render import defragment, threat, whatif_page
from podium.cli.render.html import FIRST
from podium.cli.render.pictures import planpicture
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.units import PREEMPTION_CLASS
from podium.planner.semantics import Semantics
from podium.text import SHOWN

ROOT = Path(__file__).parents[4]
DOCS = ROOT.joinpath("docs", "whatif.md").read_text("utf-8")
EXAMPLE = ROOT / "examples" / "preemption" / "cluster.yaml"
CUTS = {
    "workloads": (whatif.WORKLOADS, whatif_page.UNITS),
    "nodes with pods of the preemptor": (whatif.PLACED, whatif_page.CARDS),
    "pods of one kind on a node": (SHOWN, whatif_page.PODS),
    "victims": (whatif.VICTIMS, whatif_page.UNITS),
    "spared": (whatif.SPARED, whatif_page.UNITS),
    "reasons of nodes": (whatif.NODES, whatif_page.REASONS),
    "findings": (whatif.FINDINGS, whatif_page.FINDINGS),
    "`--victim`: nodes by resource": (threat.NODES, threat.NODES * threat.PAGE),
    "`--victim`: tolerations, budgets": (threat.TOLERATIONS, threat.BUDGETS * threat.PAGE),
    "`--victim`: classes": (threat.CLASSES, threat.CLASSES * threat.PAGE),
    "`--defragment`: moves of a domain": (defragment.MOVES, defragment.PAGE_MOVES),
    "`--defragment`: units that stay": (defragment.STAYS, defragment.PAGE_STAYS),
}


def test_cuts_are_documented() -> None:
    """The table has exactly the code's numbers."""
    text = DOCS.partition("## table and html\n")[2].partition("\n##")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert rows == [f"| {what} | {table} | {page} |" for what, (table, page) in CUTS.items()]
    assert f"The picture has {planpicture.ROWS}\nrows at most" in text
    assert f"A plan for more than {FIRST} nodes\nfits a screen" in text


def test_every_setting_is_documented() -> None:
    """The example has exactly the keys of the file, and the annotation's name is the engine's."""
    text = DOCS.partition("## Configuration\n")[2].partition("\n##")[0]
    assert re.findall(r"^    (\w+):", text, re.MULTILINE) == list(WhatIfModel.model_fields)
    assert PREEMPTION_CLASS in text


def test_every_outcome_and_semantics_is_documented() -> None:
    """Each value is in the text in its JSON form."""
    for name in (*Outcome, *Semantics):
        assert f"`{name}`" in DOCS


def test_the_harm_of_the_first_example_is_documented() -> None:
    """The line is that of the command."""
    done = CliRunner().invoke(
        command, ["whatif", "-f", str(EXAMPLE), "--group", "research/train", "-o", "html"]
    )
    harm = done.stdout.partition('<p class="harm">')[2].partition("</p>")[0]
    assert f"    {harm}\n" in DOCS
