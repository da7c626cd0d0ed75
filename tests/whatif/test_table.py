"""The table of `podium whatif`: three lines that tell a person what counts, then short lists."""

import re

import pytest
from tests.render.sample import HOSTILE
from tests.whatif import sample

from podium.cli.render import whatif_table as table
from podium.cli.render.text import Layout
from podium.cli.render.whatif_words import WhatIf


def written(report: WhatIf, width: int = 120, *, colour: bool = False) -> list[str]:
    return table.whatif_table(report, Layout(width=width, colour=colour)).splitlines()


OPENINGS = {
    "costly": (
        sample.costly(),
        [
            (
                "By KEP-5710 as Podium's scheduler follows it (semantics kep: asked for with --semantics), "
                "at 2026-11-21T10:13:19Z (the newest time in the input)."
            ),
            "PodGroup team-a/train fits after preemption: 4 pods on nodes node-0, node-1, node-2 and 1 more.",
            (
                "It costs others 1 group and 1 single pod of priority 100 or lower (5 pods, 32 "
                "nvidia.com/gpu, 1 google.com/tpu); 1 of them against a PodDisruptionBudget."
            ),
            "4 pods find room once 2 units of priority 100 or lower are gone.",
        ],
    ),
    "fits": (
        sample.fits(),
        [
            (
                "By kube-scheduler 1.37 with the Workload API (semantics 1.37: asked for with --semantics), "
                "at 2026-11-21T10:13:19Z (the newest time in the input)."
            ),
            "Pod team-a/solo fits as the cluster is, on node node-3.",
            "Nobody is preempted.",
            "There is free room for it.",
        ],
    ),
    "hopeless": (
        sample.hopeless(),
        [
            (
                "By kube-scheduler without the Workload API, pod by pod (semantics pods: asked for with "
                "--semantics), at 2026-11-21T10:13:19Z (the newest time in the input)."
            ),
            "PodGroup team-a/train does not fit.",
            "Nobody is preempted.",
            "0/3 nodes are available: 3 Insufficient cpu; no pod has a lower priority.",
            "Not known, and so left out: PodDisruptionBudget: not in the input.",
        ],
    ),
}


@pytest.mark.parametrize(("report", "lines"), OPENINGS.values(), ids=list(OPENINGS))
def test_opens_with_what_counts(report: WhatIf, lines: list[str]) -> None:
    """Whose rules and when; then outcome and where, whom it costs, and why."""
    assert written(report, 300)[: len(lines)] == lines


def test_lists_tell_who_and_why() -> None:
    """Victims and spared have kind, name, priority, pods and reason, and a budget where one is violated."""
    lines = written(sample.costly(), 160)
    victims = lines.index("VICTIMS: 2 UNITS")
    assert lines[victims + 1].split() == ["KIND", "NAME", "PRIORITY", "PODS", "BUDGET", "WHY"]
    assert lines[victims + 2].split("  ")[:2] == ["PodGroup", "team-b/sweep"]
    assert "4 on node-0, node-1, node-2 and 1 more" in lines[victims + 2]
    assert "violated" in lines[victims + 2]
    assert "the least important that makes room for 4 pods" in lines[victims + 2]
    assert "violated" not in lines[victims + 3]
    spared = lines.index("SPARED: 2 UNITS")
    assert lines[spared + 1].split() == ["KIND", "NAME", "PRIORITY", "PODS", "WHY"]
    assert ["12", "Insufficient nvidia.com/gpu", "node-10, node-11, node-12"] in [
        re.split(r" {2,}", line.strip()) for line in lines
    ]
    assert "FINDINGS" in lines


def test_nothing_to_list_lists_nothing() -> None:
    """A pod that fits has its place and no empty sections."""
    headings = [line for line in written(sample.fits()) if line and line.upper() == line and "  " not in line]
    assert headings == ["WHERE IT GOES"]


def test_lists_are_bounded_and_say_so() -> None:
    """Each list is cut after its first entries, and the rest is counted."""
    lines = written(sample.large(500))
    assert len(lines) < 100
    for limit in (table.PLACED, table.VICTIMS, table.SPARED, table.NODES):
        assert f"  ... and {500 - limit} more (-o json has all)" in lines


@pytest.mark.parametrize("width", [80, 110, 140])
def test_fits_the_width(width: int) -> None:
    """No line is wider than the window."""
    for report in (sample.costly(), sample.hopeless(), sample.large(40)):
        assert max(map(len, written(report, width))) <= width


def test_hostile_names_are_inert() -> None:
    """A name that is an escape sequence or a line break shows as its escape."""
    text = "\n".join(written(sample.costly(HOSTILE)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n::error" not in text
    assert "\\x1b[31m" in text


def test_colour_only_when_wanted() -> None:
    """The outcome is bold, red where it is a refusal, and plain without colour."""
    assert written(sample.costly(), colour=True)[2].startswith("\x1b[1mPodGroup")
    assert "\x1b[1;31mPodGroup team-a/train does not fit." in "\n".join(
        written(sample.hopeless(), colour=True)
    )
    assert "\x1b" not in "\n".join(written(sample.hopeless()))
