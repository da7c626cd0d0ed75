"""The table of `podium whatif`: three main lines, then short lists."""

import re

import msgspec
import pytest
from tests.support import whatif as sample
from tests.support.render.sample import HOSTILE

from podium.answers.whatifreport import WhatIf
from podium.cli.commands import whatif
from podium.cli.render.text import Layout
from podium.cli.render.whatif_words import harm_line, outcome_line
from podium.planner.preemption.outcome import HarmLevel, Placed, PlanHarm


def written(report: WhatIf, width: int = 120, *, colour: bool = False) -> list[str]:
    return whatif.whatif_table(report, Layout(width=width, colour=colour)).splitlines()


OPENINGS = {
    "costly": (
        sample.costly(),
        [
            (
                "Rules: KEP-5710 as Podium's scheduler implements it (semantics kep: set by --semantics). "
                "Time: 2026-11-21T10:13:19Z (the newest time in the input)."
            ),
            "PodGroup team-a/train fits after preemption: 4 pods on nodes node-0, node-1, node-2 and 1 more.",
            (
                "Harm: 1 unit (4 pods) of priority 100 and 1 unit (1 pod) of priority 0; "
                "12.5 accelerator-hours of work lost on 32 nvidia.com/gpu, 1 google.com/tpu; "
                "4 pods in violation of a PodDisruptionBudget."
            ),
            "4 pods find room once 2 units of priority 100 or lower are gone.",
        ],
    ),
    "fits": (
        sample.fits(),
        [
            (
                "Rules: kube-scheduler 1.37 with the Workload API (semantics 1.37: set by --semantics). "
                "Time: 2026-11-21T10:13:19Z (the newest time in the input)."
            ),
            "Pod team-a/solo fits without preemption, on node node-3.",
            "No pod is preempted.",
            "There is free room for it.",
        ],
    ),
    "hopeless": (
        sample.hopeless(),
        [
            (
                "Rules: kube-scheduler without the Workload API, pod by pod (semantics pods: set by "
                "--semantics). Time: 2026-11-21T10:13:19Z (the newest time in the input)."
            ),
            "PodGroup team-a/train does not fit.",
            "No pod is preempted.",
            "0/3 nodes are available: 3 Insufficient cpu; no pod has a lower priority.",
            "Not read and left out: PodDisruptionBudget: not in the input.",
        ],
    ),
}


@pytest.mark.parametrize(("report", "lines"), OPENINGS.values(), ids=list(OPENINGS))
def test_opens_with_what_counts(report: WhatIf, lines: list[str]) -> None:
    """The report begins with the rules and the time; then outcome and place, victims, and reasons."""
    assert written(report, 300)[: len(lines)] == lines


def test_a_group_without_a_workload_has_only_its_placed_pods() -> None:
    """Under the rules `pods` a part of a group is placed; kubernetes-sigs/scheduler-plugins#930."""
    report = sample.hopeless()
    plan = msgspec.structs.replace(report.plan, placements=(Placed("team-a/train-0", "node-0"),))
    placed = report._replace(plan=plan)
    assert outcome_line(placed) == "PodGroup team-a/train does not fit: only 1 pod, on node node-0."


def test_a_sum_of_plans_has_a_line_for_each_workload() -> None:
    lines = written(sample.several(), 130)
    outcome = "2 workloads do not all fit: only 4 of 7 pods, on nodes node-0, node-1, node-2 and 1 more."
    assert outcome in lines
    start = lines.index("WORKLOADS, IN THE ORDER OF THEIR PLANS") + 1
    assert [re.split("  +", line) for line in lines[start : start + 2]] == [
        ["WORKLOAD", "PRIORITY", "PODS PLACED", "PREEMPTS", "RESULT"],
        ["Job team-a/train", "1000", "4 of 4", "2 units (5 pods)", "fits after preemption"],
    ]
    refused = "Deployment team-a/web", "100", "0 of 3", "does not fit: 0/3 nodes are available."
    assert re.split("  +", lines[start + 2]) == list(refused)


def test_lists_have_the_workloads_and_reasons() -> None:
    """Victims and spared units have kind, name, priority, pods and reason, and a violated budget."""
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
    assert headings == ["PLACEMENT"]


def test_lists_are_bounded_and_say_so() -> None:
    """Each list is cut after its first entries, with the number of the others."""
    lines = written(sample.large(500))
    assert len(lines) < 100
    for limit in (whatif.PLACED, whatif.VICTIMS, whatif.SPARED, whatif.NODES):
        assert f"  ... and {500 - limit} more (-o wide shows all)" in lines


@pytest.mark.parametrize("width", [80, 110, 140])
def test_fits_the_width(width: int) -> None:
    """No line is wider than the window."""
    for report in (sample.costly(), sample.hopeless(), sample.large(40)):
        assert max(map(len, written(report, width))) <= width


def test_hostile_names_are_inert() -> None:
    """An escape sequence or a line break in a name is shown as an escape."""
    text = "\n".join(written(sample.costly(HOSTILE)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n::error" not in text
    assert "\\x1b[31m" in text


def test_colour_only_when_wanted() -> None:
    """The outcome is bold, red for a refusal, and plain without colour."""
    assert written(sample.costly(), colour=True)[2].startswith("\x1b[1mPodGroup")
    assert "\x1b[1;31mPodGroup team-a/train does not fit." in "\n".join(
        written(sample.hopeless(), colour=True)
    )
    assert "\x1b" not in "\n".join(written(sample.hopeless()))


HARM = {
    "one pod": ((0, [(0, 1, 1)], 0), {}, "1 unit (1 pod) of priority 0; no accelerators; no budget violated"),
    "a group, and work": (
        (0, [(0, 2, 9)], 45_000),
        {"nvidia.com/gpu": 9},
        (
            "2 units (9 pods) of priority 0; 12.5 accelerator-hours of work lost on 9 nvidia.com/gpu; "
            "no budget violated"
        ),
    ),
    "work of a moment": (
        (0, [(0, 1, 1)], 359),
        {"google.com/tpu": 4},
        (
            "1 unit (1 pod) of priority 0; 359 accelerator-seconds of work lost on 4 google.com/tpu; "
            "no budget violated"
        ),
    ),
    "work that was saved": (
        (2, [(-5, 1, 3)], 0),
        {"nvidia.com/gpu": 3},
        (
            "1 unit (3 pods) of priority -5; no work lost on 3 nvidia.com/gpu; "
            "2 pods in violation of a PodDisruptionBudget"
        ),
    ),
    "work that victims save": (
        (0, [(1, 1, 3)], 3_600, 36_000),
        {"nvidia.com/gpu": 3},
        (
            "1 unit (3 pods) of priority 1; 1.0 accelerator-hours of work lost on 3 nvidia.com/gpu, "
            "10.0 accelerator-hours saved; no budget violated"
        ),
    ),
    "four priorities": (
        (0, [(at, 1, 1) for at in (4, 3, 2, 1)], 0),
        {},
        (
            "1 unit (1 pod) of priority 4, 1 unit (1 pod) of priority 3, 1 unit (1 pod) of priority 2 and "
            "1 unit (1 pod) of priority 1; no accelerators; no budget violated"
        ),
    ),
    "many priorities": (
        (0, [(at, 2, 3) for at in range(50, 0, -1)], 0),
        {},
        (
            "2 units (3 pods) of priority 50, 2 units (3 pods) of priority 49, "
            "2 units (3 pods) of priority 48 and 94 units (141 pods) of lower priorities; "
            "no accelerators; no budget violated"
        ),
    ),
}


@pytest.mark.parametrize(("parts", "held", "line"), HARM.values(), ids=list(HARM))
def test_the_harm_is_one_line(
    parts: tuple[int, list[tuple[int, int, int]], int] | tuple[int, list[tuple[int, int, int]], int, int],
    held: dict[str, int],
    line: str,
) -> None:
    """Of many priorities the line has the highest."""
    violations, levels, *work = parts
    harm = PlanHarm(violations, tuple(HarmLevel(*each) for each in levels), *work)
    plan = msgspec.structs.replace(sample.costly().plan, harm=harm)
    assert harm_line(sample.report(plan, held)) == f"Harm: {line}."
