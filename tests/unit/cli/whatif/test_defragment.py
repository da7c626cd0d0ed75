"""`podium whatif --defragment`: three main lines, bounded lists, its JSON contract, page and exit codes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support import whatif as sample
from tests.support.render.sample import HOSTILE
from tests.unit.cli.render.test_page import Reader

from podium.cli.main import command
from podium.cli.render import defragment as faces
from podium.cli.render.text import Layout
from podium.cli.render.whatif_words import PageOrigin
from podium.planner.preemption.defragment import (
    Defragmentation,
    DomainMoves,
    Freeing,
    MovedPod,
    StayingUnit,
    UnitMove,
)
from podium.planner.preemption.outcome import HarmLevel, PlanHarm

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "preemption" / "fragments.yaml"
DOCS = ROOT.joinpath("docs", "whatif.md").read_text("utf-8")
RACK = "example.com/rack"
MADE = PageOrigin("1.0", "2026-11-21T12:00:00Z")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["whatif", "-f", str(EXAMPLE), *arguments])


def move(name: str, pods: int = 1, *, work: int = 0, violations: int = 0) -> UnitMove:
    """Make the move of a unit whose pods are on nodes of their own."""
    return UnitMove(
        kind="Pod",
        namespace="team-b",
        name=name,
        priority=5,
        pods=tuple(MovedPod(f"{name}-{at}", f"old-{at}", f"new-{at}") for at in range(pods)),
        acceleratorSeconds=work,
        violations=violations,
    )


def movable(name: str, *units: UnitMove, fills: Sequence[str] = (), message: str = "") -> DomainMoves:
    """Make the verdict on a rack that is freed by the moves of these units."""
    pods = sum(len(unit.pods) for unit in units)
    violations, work = (
        sum(each)
        for each in zip(*((unit.violations, unit.acceleratorSeconds) for unit in units), strict=True)
    )
    return DomainMoves(
        name=name,
        outcome=Freeing.MOVABLE,
        nodes=2,
        frees={"cpu": 1500, "memory": 3 * 2**30, "nvidia.com/gpu": 16},
        harm=PlanHarm(violations, (HarmLevel(5, len(units), pods),), work),
        moves=units,
        fills=tuple(fills),
        message=message,
    )


def blocked(name: str, *stays: StayingUnit) -> DomainMoves:
    return DomainMoves(
        name=name, outcome=Freeing.BLOCKED, nodes=1, frees={}, stays=stays, message="a pod stays"
    )


def answer(
    *domains: DomainMoves, free: Sequence[str] = (), candidates: int = 0, count: int = 9
) -> Defragmentation:
    """Make the answer with these domains; all domains were tried unless there are more `candidates`."""
    number = sum(each.outcome is Freeing.MOVABLE for each in domains)
    return Defragmentation(
        key=RACK,
        count=count,
        candidates=max(candidates, number),
        tried=number,
        movable=number,
        free=tuple(free),
        domains=domains,
    )


class Lines(NamedTuple):
    """An answer, and its main lines after the line of the rules."""

    found: Defragmentation
    lines: Sequence[str]


ROOM = "It leaves free 2 nodes with 16 nvidia.com/gpu, 1500m cpu, 3Gi memory."
FILLS = (
    "r1 costs least: evicts 1 unit (1 pod) of priority 5, 1 pod against a budget; fills r8, free until then; "
    "packed."
)
OPENINGS = {
    "one of several": Lines(
        answer(movable("r1", move("a", work=7200), move("b")), candidates=4, free=["r7", "r8"]),
        [
            "Moves can free at least 1 of 9 domains of example.com/rack; 2 are free already: r7, r8.",
            "r1 costs least: evicts 2 units (2 pods) of priority 5, 2.0 accelerator-hours lost.",
            ROOM,
        ],
    ),
    "into a free domain": Lines(
        answer(movable("r1", move("a", violations=1), fills=["r8"], message="packed"), free=["r8"], count=2),
        [
            "Moves can free 1 of 2 domains of example.com/rack; 1 is free already: r8.",
            FILLS,
            ROOM,
        ],
    ),
    "none": Lines(
        answer(blocked("r1", StayingUnit("Pod", "a", "b", "c"))),
        ["Moves can free none of 9 domains of example.com/rack.", "r1: a pod stays."],
    ),
    "all free": Lines(
        answer(free=["r1"], count=1),
        ["Moves can free none of 1 domain of example.com/rack; 1 is free already: r1."],
    ),
}


def lines(found: Defragmentation, width: int = 400) -> list[str]:
    return faces.defragment_table(found, sample.basis(), Layout(width=width, colour=False)).splitlines()


@pytest.mark.parametrize("case", OPENINGS.values(), ids=list(OPENINGS))
def test_opens_with_the_domains(case: Lines) -> None:
    """The report has the numbers, the best domain and its room, after the line of rules and time."""
    written = lines(case.found)
    end = written.index("") if "" in written else len(written)
    assert written[1:end] == case.lines


def test_the_table_has_the_moves_of_the_best_domain_and_counts_the_rest() -> None:
    """Moves and units that stay are cut in the table and counted; the page has the moves of all domains."""
    stays = [StayingUnit("Pod", "a", f"s-{at}", "kept") for at in range(50)]
    found = answer(
        movable("r1", *(move(f"a{at}") for at in range(50))),
        movable("r2", move("b", 4)),
        blocked("r3", *stays),
    )
    written = lines(found)
    headings = [line for line in written if line.isupper()]
    assert [line for line in headings if line.startswith("MOVES")] == ["MOVES THAT FREE THE DOMAIN: 50 UNITS"]
    for limit in (faces.MOVES, faces.STAYS):
        assert f"  ... and {50 - limit} more (-o wide shows all)" in written
    reader = Reader(faces.defragment_page(found, sample.basis(), MADE))
    assert [tag for tag, _ in reader.tags].count("table") == 4
    assert any("r2: Moves that free the domain: 1 unit" in text for text in reader.texts["h2"])


def test_names_are_text() -> None:
    """A hostile name is text on the page, and has no escapes on a terminal."""
    found = answer(movable(HOSTILE, move(HOSTILE)), blocked("r2", StayingUnit("Pod", "a", HOSTILE, HOSTILE)))
    reader = Reader(faces.defragment_page(found, sample.basis(), MADE))
    assert "script" not in [tag for tag, _ in reader.tags]
    assert "\x1b" not in "\n".join(lines(found))


def test_json_is_the_contract() -> None:
    """The document has its keys in order, amounts are quantities, and YAML is the same document."""
    value = json.loads(run("--defragment", RACK, "-o", "json").stdout)
    assert list(value) == [
        *("apiVersion", "kind", "semantics", "key", "count", "candidates", "tried", "movable", "free"),
        *("domains", "notRead"),
    ]
    assert (value["kind"], value["semantics"], value["key"]) == ("DefragmentReport", "kep", RACK)
    best, second, stays = value["domains"]
    assert list(best) == list(DomainMoves.__struct_fields__)
    assert (best["name"], best["outcome"]) == ("r1", "Movable")
    assert best["frees"] == {"cpu": "192", "memory": "1536Gi", "nvidia.com/gpu": "16"}
    (sweep,) = best["moves"]
    assert sweep == {
        "kind": "PodGroup",
        "namespace": "team-b",
        "name": "sweep",
        "priority": 100,
        "pods": [
            {"name": "sweep-0", "node": "gpu-1", "to": "gpu-3"},
            {"name": "sweep-1", "node": "gpu-2", "to": "gpu-4"},
        ],
        "acceleratorSeconds": 172_800,
        "violations": 0,
    }
    assert [unit["violations"] for unit in second["moves"]] == [0, 1]
    assert (stays["outcome"], [unit["name"] for unit in stays["stays"]]) == ("Blocked", ["registry"])
    assert yaml.safe_load(run("--defragment", RACK, "-o", "yaml").stdout) == value


def test_every_field_and_outcome_is_documented() -> None:
    """The page names each field of the answer and of a domain, and each outcome."""
    text = DOCS.partition("`--defragment` gives a `DefragmentReport`")[2].partition("\n### ")[0]
    fields = (*Defragmentation.__struct_fields__, *DomainMoves.__struct_fields__)
    parts = (*MovedPod.__struct_fields__, *UnitMove.__struct_fields__, *StayingUnit.__struct_fields__)
    for name in (*fields, *parts, *Freeing):
        assert name in text
    assert all(f"`{name}" in text for name in fields)


def test_the_documented_output_is_that_of_the_command() -> None:
    """The page shows the whole table of the example."""
    shown = "\n".join(f"    {line}".rstrip() for line in run("--defragment", RACK).stdout.splitlines())
    assert shown in DOCS


class Usage(NamedTuple):
    """Arguments, the exit code, and a part of the error."""

    arguments: Sequence[str]
    code: int
    error: str = ""


USAGES = {
    "a domain can be freed": Usage(["--defragment", RACK], 0),
    "only the first is listed": Usage(["--defragment", RACK, "--domains", "1"], 0),
    "a target": Usage(
        ["--defragment", RACK, "--group", "a/b", "-A"], 2, "--defragment excludes --group and -A."
    ),
    "other rules": Usage(["--defragment", RACK, "--semantics", "1.37"], 2, "excludes --semantics."),
    "no domain to list": Usage(["--defragment", RACK, "--domains", "0"], 2, "needs --domains 1 or more."),
    "names": Usage(["--defragment", RACK, "-o", "name"], 2, "no --victim, no --defragment"),
}


@pytest.mark.parametrize("case", USAGES.values(), ids=list(USAGES))
def test_exit_codes(case: Usage) -> None:
    """The code says whether a domain is free or can be freed, or what is wrong with the options."""
    done = run(*case.arguments)
    assert done.exit_code == case.code, done.output
    assert case.error in done.output


def test_no_domain_that_can_be_freed_is_a_finding(tmp_path: Path) -> None:
    """The exit code is 3 in every format if no domain is free or can be freed."""
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "apiVersion: config.podium.dev/v1\nkind: WhatIfConfiguration\nevictOnly: nothing\n", "utf-8"
    )
    for form in ("table", "json", "html"):
        done = run("--defragment", RACK, "--config", str(settings), "-o", form)
        assert done.exit_code == 3
        assert "only pods of nothing are evicted" in done.stdout
